//! The imports and calls of a pickle, the states that it sets, and the pickles in its strings and bytes.

use super::{Machine, Step};
use crate::scan::names::{Arguments, Danger, Use, arguments_of, gives_no_text};
use crate::scan::names::{danger_of, may_be_module, shares, use_of};
use crate::scan::trace::arrays::{self, Array};
use crate::scan::trace::value::{Items, NOT_KEPT, Value};
use crate::scan::trace::{Certainty, End, Import, Input, MAX_INNER, MAX_NESTED};
use holdall_core::wire::cursor::Cursor;
use holdall_core::wire::pickle::line;
use holdall_core::wire::pickle::opcode::Argument;
use holdall_core::wire::pickle::opcode::argument;
use holdall_core::wire::pickle::{BROKEN, MAX_NAME, MAX_NAMED, TOO_MANY, too_many_names};

impl<'a> Machine<'a> {
    /// Sets the state of an object.
    pub(super) fn build(&mut self) -> Step {
        let state = self.pop()?;
        match self.top()? {
            // It sets attributes of a shared object, or calls a method of it.
            Value::Import(id) | Value::Shared(id) => {
                self.suspect(id);
                self.mark_called(id);
            }
            Value::Made { import, kept } => {
                if let Some(object) = self.kept.objects.get_mut(kept as usize) {
                    object.1 = state;
                }
                let is_wrapper = self.out.imports.get(import as usize);
                let is_wrapper = is_wrapper.is_some_and(|i| arrays::is_wrapper(&i.module, &i.name));
                if self.has_arrays && is_wrapper {
                    let array = arrays::read(state, &self.kept, &|value| self.text(value));
                    let Some(array) = array else {
                        let e = BROKEN
                            .broken("the length of a joblib array is described in an unknown way");
                        return Err(End::Unfollowed(self.here(e)));
                    };
                    self.array = Some(array);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Skips the bytes of a joblib array, or analyzes the pickle in its place.
    pub(super) fn pass_over(&mut self, array: &Array, cursor: &mut Cursor<'a>) -> Step {
        if let Array::Numbers { is_aligned, len } = *array {
            let padding = match is_aligned {
                true => cursor.u8().and_then(|len| cursor.take(len.into())),
                false => Some(&b""[..]),
            };
            return match padding.and_then(|_| cursor.take(len)) {
                Some(_) => Ok(()),
                None => Err(self.ends("inside an array")),
            };
        }
        let at = cursor.position();
        let input = Input {
            bytes: cursor.rest(),
            total: self.input.total.saturating_sub(at),
            max_values: self.input.max_values,
            is_first: false,
        };
        if self.depth >= MAX_NESTED {
            return Err(End::Unfollowed(self.here(too_deep())));
        }
        let found = Machine::trace(input, false, self.depth.saturating_add(1));
        cursor.take(found.len);
        let end = match &found.end {
            End::Finished => Ok(()),
            End::Raised(e) => Err(End::Raised(e.clone())),
            End::Unfollowed(e) => Err(End::Unfollowed(e.clone())),
            End::Cut => Err(End::Cut),
        };
        self.out.arrays.push((at, found));
        end
    }

    /// Returns the string of a value, if all readers decode it in the same way and it is short.
    pub(super) fn text(&self, value: Value) -> Option<String> {
        let Value::Text(at) = value else { return None };
        let rest = self.input.bytes.get(usize::try_from(at).ok()?..)?;
        let mut cursor = Cursor::new(rest);
        let opcode = cursor.u8()?;
        let text = match argument(opcode, &mut cursor).ok()? {
            // The program decides how strings of Python 2 are decoded.
            Argument::Bytes(bytes) if matches!(opcode, b'U' | b'T') && !bytes.is_ascii() => {
                return None;
            }
            Argument::Bytes(bytes) if bytes.len() <= MAX_NAME => {
                std::str::from_utf8(bytes).ok()?.to_owned()
            }
            Argument::Line(line) if line.len() <= MAX_NAME.saturating_mul(10) => match opcode {
                b'V' => Some(line::unicode(line)).filter(|(_, sound)| *sound)?.0,
                _ => {
                    let bytes = Some(line::string(line).0).filter(|bytes| bytes.is_ascii())?;
                    String::from_utf8(bytes).ok()?
                }
            },
            _ => return None,
        };
        Some(text).filter(|text| text.len() <= MAX_NAME)
    }

    pub(super) fn stack_global(&mut self) -> Step {
        let (name, module) = (self.pop()?, self.pop()?);
        let is_no_text = |value: Value| match value {
            Value::Import(_) => true,
            Value::Made { import, .. } => {
                let import = self.out.imports.get(import as usize);
                import.is_some_and(|i| gives_no_text(&i.module, &i.name))
            }
            value => value.is_plain(),
        };
        if [name, module].iter().any(|value| is_no_text(*value)) {
            return Err(self.raises("an import is not named by two strings"));
        }
        let or = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
        let (module, name) = (or(self.text(module)), or(self.text(name)));
        self.import(module, name, Certainty::All)
    }

    pub(super) fn lines(&mut self, module: &[u8], name: &[u8], certainty: Certainty) -> Step {
        let (Ok(module), Ok(name)) = (std::str::from_utf8(module), std::str::from_utf8(name))
        else {
            return Err(self.raises("a name is not UTF-8"));
        };
        let short = |text: &str| text.chars().take(MAX_NAME).collect();
        self.import(short(module), short(name), certainty)
    }

    /// Handles a last line without a line end. The unpickler in Python takes all of it except the last byte.
    pub(super) fn unended_lines(&mut self, rest: &'a [u8]) -> Step {
        let without_last = |line: &'a [u8]| line.split_last().map_or(line, |(_, line)| line);
        let line_end = memchr::memchr(b'\n', rest).and_then(|at| rest.split_at_checked(at));
        let (module, name) = match line_end {
            Some((module, name)) => (module, without_last(name.get(1..).unwrap_or_default())),
            None => (without_last(rest), &b""[..]),
        };
        self.lines(module, name, Certainty::Slow)
    }

    pub(super) fn extension(&mut self, code: i64) -> Step {
        if code <= 0 {
            return Err(self.raises("an extension has no number above 0"));
        }
        self.import("copyreg".to_owned(), format!("extension {code}"), Certainty::Registered)
    }

    pub(super) fn import(&mut self, module: String, name: String, certainty: Certainty) -> Step {
        if module != "?" && !may_be_module(&module) {
            return Err(self.raises("the name cannot be imported"));
        }
        let id = match self.known.get(&(module.clone(), name.clone())) {
            Some(id) => *id,
            None if self.out.imports.len() >= MAX_NAMED => {
                return Err(End::Unfollowed(self.here(too_many_names())));
            }
            None => {
                let id = u32::try_from(self.out.imports.len()).unwrap_or(u32::MAX);
                self.known.insert((module.clone(), name.clone()), id);
                self.out.imports.push(Import {
                    danger: danger_of(&module, &name),
                    module,
                    name,
                    called: false,
                    count: 0,
                    offset: self.at,
                    certainty,
                });
                id
            }
        };
        if let Some(import) = self.out.imports.get_mut(id as usize) {
            import.count = import.count.saturating_add(1);
            if certainty == Certainty::All {
                import.certainty = certainty;
            }
        }
        self.stack.push(Value::Import(id));
        Ok(())
    }

    pub(super) fn mark_called(&mut self, id: u32) {
        if let Some(import) = self.out.imports.get_mut(id as usize) {
            import.called = true;
        }
    }

    /// Marks an import that is itself changed.
    pub(super) fn suspect(&mut self, id: u32) {
        if let Some(import) = self.out.imports.get_mut(id as usize) {
            import.danger = import.danger.max(Danger::Suspicious);
        }
    }

    /// Returns the allowed use of an import.
    pub(super) fn use_of(&self, id: u32) -> Option<Use> {
        self.out.imports.get(id as usize).map(|i| use_of(&i.module, &i.name))
    }

    /// Returns `true` if a safe import may be called with these arguments.
    fn may_call(&self, id: u32, items: Items) -> bool {
        let Some(import) = self.out.imports.get(id as usize) else { return false };
        let first = self.out.imports.get(items.first as usize);
        match use_of(&import.module, &import.name) {
            Use::Refer => false,
            Use::CallWithNothing => items.is_empty,
            Use::Call => match arguments_of(&import.module, &import.name) {
                Arguments::Any => true,
                Arguments::FirstIsCalled => first.is_some_and(|i| {
                    use_of(&i.module, &i.name) == Use::Call
                        && !shares(&i.module, &i.name)
                        && arguments_of(&i.module, &i.name) == Arguments::Any
                }),
                Arguments::FirstIsOf(package) => {
                    let is_own = |module: &str| module.split('.').next() == Some(package);
                    first.is_some_and(|i| {
                        is_own(&i.module) && use_of(&i.module, &i.name) != Use::Refer
                    })
                }
                Arguments::SecondIsCalled => first.is_some() && items.second_is_called,
            },
        }
    }

    /// Calls a value, and pushes the result.
    pub(super) fn call(&mut self, callable: Value, arguments: Value) -> Step {
        if callable.is_plain() || matches!(callable, Value::Text(_)) {
            return Err(self.raises("a value that is not a function is called"));
        }
        let id = match callable {
            Value::Import(id) => id,
            Value::Made { import, .. } | Value::Shared(import) => {
                let made = self.out.imports.get(import as usize);
                let (module, name) = made
                    .map(|i| (i.module.clone(), format!("{}(…)", i.name.trim_end_matches("(…)"))))
                    .unwrap_or_default();
                self.imported(module, name)?.unwrap_or(import)
            }
            _ => match self.imported("?".to_owned(), "?".to_owned())? {
                Some(id) => id,
                None => {
                    self.stack.push(Value::Unknown);
                    return Ok(());
                }
            },
        };
        self.mark_called(id);
        let items = match arguments {
            Value::Tuple { items, .. } => items,
            _ => Items::UNKNOWN,
        };
        if !self.may_call(id, items) {
            self.suspect(id);
        }
        let hands_through = items.shares
            && self.out.imports.get(id as usize).is_some_and(|i| shares(&i.module, &i.name));
        let kept = match self.keeps {
            true => self.kept.object(arguments),
            false => NOT_KEPT,
        };
        self.stack.push(match hands_through {
            true => Value::Shared(id),
            false => Value::Made { import: id, kept },
        });
        Ok(())
    }

    /// Returns the number of an import that is only called.
    pub(super) fn imported(&mut self, module: String, name: String) -> Step<Option<u32>> {
        self.import(module, name, Certainty::All)?;
        Ok(match self.stack.pop() {
            Some(Value::Import(id)) => Some(id),
            _ => None,
        })
    }

    /// Analyzes the pickle in a string or bytes, if there is one.
    pub(super) fn look_into(&mut self, opcode: u8, inside: &[u8]) {
        let latin: Vec<u8>;
        let bytes = match (opcode, inside) {
            // Bytes in the form of a string, as protocol 2 writes them.
            (b'X' | 0x8c | 0x8d, [0xc2, 0x80, 0..=5, ..]) => {
                let text = String::from_utf8_lossy(inside);
                latin = text.chars().map_while(|c| u8::try_from(u32::from(c)).ok()).collect();
                &latin[..]
            }
            (_, [0x80, 0..=5, ..] | [b'c' | b'(', ..]) => inside,
            _ => return,
        };
        if self.depth >= MAX_NESTED {
            self.out.skipped.get_or_insert_with(too_deep);
            return;
        }
        let total = bytes.len() as u64;
        let input = Input { bytes, total, max_values: self.input.max_values, is_first: true };
        let found = Machine::trace(input, false, self.depth.saturating_add(1));
        if !found.is_likely() {
            return;
        }
        if self.out.inner.len() >= MAX_INNER {
            let e = TOO_MANY.broken(format!("it has more than {MAX_INNER} pickles in its values"));
            self.out.skipped.get_or_insert(e);
            return;
        }
        self.out.inner.push((self.at, found));
    }
}

#[cold]
fn too_deep() -> holdall_core::error::Error {
    TOO_MANY.broken(format!("it is nested in {MAX_NESTED} pickles, and was not analyzed"))
}
