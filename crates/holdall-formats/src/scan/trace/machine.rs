//! CPython's pickle machine. It checks every rule that all unpicklers check: breaking one ends the pickle.

mod calls;

use super::arrays::Array;
use super::value::{Items, NOT_KEPT, TrackedContainers, Value};
use super::{Certainty, End, Input, Trace};
use crate::scan::names::Use;
use holdall_collections::DebugUnwrap;
use holdall_collections::HashMap;
use holdall_core::wire::cursor::Cursor;
use holdall_core::wire::pickle::line;
use holdall_core::wire::pickle::opcode::{Argument, Missing, argument, declared_len};
use holdall_core::wire::pickle::{BROKEN, OPCODE, TOO_MANY};

/// The result of an opcode: continue, or the end of the pickle.
type Step<T = ()> = Result<T, End>;

pub(super) struct Machine<'a> {
    input: Input<'a>,
    out: Trace,
    stack: Vec<Value>,
    /// The number of marks on the stack.
    marks: u64,
    memo: HashMap<u64, Value>,
    known: HashMap<(String, String), u32>,
    kept: TrackedContainers,
    /// Whether arrays of joblib are read. If so, containers are tracked, because they may describe an array.
    has_arrays: bool,
    keeps: bool,
    /// The array whose bytes follow.
    array: Option<Array>,
    depth: u32,
    /// The end of the frame that unpicklers have read as a whole.
    frame_end: u64,
    /// The offset of the opcode.
    at: u64,
}

impl<'a> Machine<'a> {
    /// Analyzes the pickle at the start of `input`; as joblib reads it if `has_arrays`.
    pub(super) fn trace(input: Input<'a>, has_arrays: bool, depth: u32) -> Trace {
        let out = Trace {
            imports: Vec::new(),
            protocol: 0,
            len: 0,
            end: End::Finished,
            inner: Vec::new(),
            arrays: Vec::new(),
            skipped: None,
            other_end: None,
            says_protocol: false,
            is_first: input.is_first,
        };
        let mut machine = Machine {
            input,
            out,
            stack: Vec::new(),
            marks: 0,
            memo: HashMap::default(),
            known: HashMap::default(),
            kept: TrackedContainers::default(),
            has_arrays,
            keeps: has_arrays,
            array: None,
            depth,
            frame_end: 0,
            at: 0,
        };
        let mut cursor = Cursor::new(input.bytes);
        let end = loop {
            match machine.next(&mut cursor) {
                Ok(true) => {}
                Ok(false) => break End::Finished,
                Err(end) => break end,
            }
        };
        machine.out.len = cursor.position();
        machine.out.end = end;
        machine.out
    }

    /// Executes the next opcode. Returns `false` after STOP.
    fn next(&mut self, cursor: &mut Cursor<'a>) -> Step<bool> {
        self.at = cursor.position();
        let Some(opcode) = cursor.u8() else { return Err(self.ends("without STOP")) };
        if opcode == b'.' {
            self.pop()?;
            // Unpicklers continue in the file after the frame.
            return if cursor.position() < self.frame_end {
                Err(self.in_frame())
            } else {
                Ok(false)
            };
        }
        let left = self.input.total.saturating_sub(cursor.position());
        if declared_len(opcode, cursor.rest()).is_some_and(|len| len > left) {
            return Err(self.raises("it ends inside an opcode"));
        }
        let rest = cursor.rest();
        let argument = match argument(opcode, cursor) {
            Ok(argument) => argument,
            Err(Missing::Opcode) => {
                let e = OPCODE.broken(format!("unknown opcode {opcode:#04x}"));
                return Err(End::Raised(self.here(e)));
            }
            Err(Missing::End) => {
                let is_cut = self.input.total > self.input.bytes.len() as u64;
                if matches!(opcode, b'c' | b'i') && !is_cut {
                    self.unended_lines(rest)?;
                }
                return Err(self.ends("inside an opcode"));
            }
        };
        let end = cursor.position();
        if self.at < self.frame_end && end > self.frame_end {
            return Err(self.in_frame());
        }
        if let (0x95, Argument::Number(len)) = (opcode, argument) {
            let new_end = end.saturating_add(len);
            if end < self.frame_end && new_end > self.frame_end {
                return Err(self.in_frame());
            }
            self.frame_end = self.frame_end.max(new_end);
        }
        self.step(opcode, argument)?;
        if let Argument::Bytes(inside) = argument {
            self.look_into(opcode, inside);
        }
        if let Some(array) = self.array.take() {
            if cursor.position() < self.frame_end {
                return Err(self.in_frame());
            }
            self.pass_over(&array, cursor)?;
        }
        let count = self.stack.len().saturating_add(self.memo.len()) as u64;
        if count.saturating_add(self.kept.len()) > self.input.max_values {
            let most = self.input.max_values;
            let e = TOO_MANY.broken(format!("it has more than {most} values at once"));
            return Err(End::Unfollowed(self.here(e)));
        }
        Ok(true)
    }

    fn step(&mut self, opcode: u8, argument: Argument<'_>) -> Step {
        match (opcode, argument) {
            (0x80, Argument::Number(protocol)) => {
                if protocol > 5 {
                    let e =
                        OPCODE.broken(format!("the protocol is {protocol}, expected at most 5"));
                    return Err(End::Raised(self.here(e)));
                }
                self.out.says_protocol |= self.at == 0;
                self.out.protocol = self.out.protocol.max(protocol);
            }
            // FRAME. The unpickler in Python ignores a frame that is longer than the rest of the file.
            (0x95, _) => {}
            (b'(', _) => {
                self.stack.push(Value::Mark);
                self.marks = self.marks.saturating_add(1);
            }
            // POP also removes a mark.
            (b'0', _) => match self.stack.pop() {
                Some(Value::Mark) => self.marks = self.marks.saturating_sub(1),
                Some(_) => {}
                None => return Err(self.raises("an opcode needs a value, but the stack is empty")),
            },
            (b'1', _) => drop(self.pop_mark()?),
            (b'2', _) => {
                let top = self.top()?;
                self.stack.push(top);
            }
            (b'a' | b'e' | 0x90, _) => {
                let items = if opcode == b'a' { vec![self.pop()?] } else { self.pop_mark()? };
                let to = self.top()?;
                self.change(to, items.is_empty())?;
            }
            (b's' | b'u', _) => {
                let items = match opcode {
                    b's' => {
                        let (value, key) = (self.pop()?, self.pop()?);
                        vec![key, value]
                    }
                    _ => self.pop_mark()?,
                };
                let to = self.top()?;
                if items.len() % 2 != 0 {
                    return Err(self.raises("a dict gets a key without a value"));
                }
                self.change(to, items.is_empty())?;
                if let Value::Dict(kept) = to {
                    self.kept.set_items(kept, &items);
                }
            }
            (b't', _) => {
                let items = self.pop_mark()?;
                self.tuple(&items);
            }
            (0x85..=0x87, _) => {
                let mut items = [Value::Plain; 3];
                let count = usize::from(opcode.saturating_sub(0x84));
                let items = items.get_mut(..count).debug_unwrap();
                for item in items.iter_mut().rev() {
                    *item = self.pop()?;
                }
                self.tuple(items);
            }
            (b')', _) => self.tuple(&[]),
            (b'd', _) => {
                let items = self.pop_mark()?;
                if items.len() % 2 != 0 {
                    return Err(self.raises("a dict gets a key without a value"));
                }
                let kept = self.dict();
                self.kept.set_items(kept, &items);
                self.stack.push(Value::Dict(kept));
            }
            (b'}', _) => {
                let kept = self.dict();
                self.stack.push(Value::Dict(kept));
            }
            (b'l', _) => {
                self.pop_mark()?;
                self.stack.push(Value::List);
            }
            // An empty list; a `bytearray`.
            (b']' | 0x96, _) => self.stack.push(Value::List),
            (0x91, _) => {
                self.pop_mark()?;
                self.stack.push(Value::Set);
            }
            (0x8f, _) => self.stack.push(Value::Set),
            _ => return self.step_value(opcode, argument),
        }
        Ok(())
    }

    /// Executes the opcodes that create, store and recall values, import, and call.
    fn step_value(&mut self, opcode: u8, argument: Argument<'_>) -> Step {
        match (opcode, argument) {
            (b'I' | b'L', Argument::Line(line)) if !line::may_be_integer(line) => {
                return Err(self.raises("a line is not an integer"));
            }
            (b'F', Argument::Line(line)) if !line::may_be_float(line) => {
                return Err(self.raises("a line is not a number"));
            }
            (b'S', Argument::Line(line)) if !is_quoted(line) => {
                return Err(self.raises("a string is not in quotes"));
            }
            (b'K' | b'M', Argument::Number(n)) => {
                self.stack.push(Value::Int(i32::try_from(n).debug_unwrap()));
            }
            (b'J', Argument::Signed(n)) => self.stack.push(Value::Int(n)),
            (0x8a | 0x8b, Argument::Bytes(bytes)) => {
                let number = holdall_core::wire::pickle::long(bytes);
                self.stack.push(match number {
                    holdall_core::wire::pickle::Node::Integer(n) => {
                        i32::try_from(n).map_or(Value::Plain, Value::Int)
                    }
                    _ => Value::Plain,
                });
            }
            (b'X' | 0x8c | 0x8d, Argument::Bytes(bytes)) => {
                // Surrogates, which begin with this byte, are accepted.
                if std::str::from_utf8(bytes).is_err() && memchr::memchr(0xed, bytes).is_none() {
                    return Err(self.raises("a string is not UTF-8"));
                }
                self.stack.push(Value::Text(self.at));
            }
            (b'U' | b'T', Argument::Bytes(_)) | (b'V' | b'S', Argument::Line(_)) => {
                self.stack.push(Value::Text(self.at));
            }
            (b'p', Argument::Line(line)) => {
                let at = self.memo_key(line)?;
                self.memoize(at)?;
            }
            (b'q' | b'r', Argument::Number(at)) => self.memoize(at)?,
            (0x94, _) => self.memoize(self.memo.len() as u64)?,
            (b'g', Argument::Line(line)) => {
                let at = self.memo_key(line)?;
                self.recall(at)?;
            }
            (b'h' | b'j', Argument::Number(at)) => self.recall(at)?,
            (b'c', Argument::Lines(module, name)) => self.lines(module, name, Certainty::All)?,
            (b'i', Argument::Lines(module, name)) => {
                let has_mark = self.marks > 0;
                let certainty = if has_mark { Certainty::All } else { Certainty::Slow };
                let items = if has_mark { self.pop_mark()? } else { Vec::new() };
                self.lines(module, name, certainty)?;
                if !has_mark {
                    return Err(self.raises("there is no mark on the stack"));
                }
                let callable = self.pop()?;
                let items = self.items(&items);
                self.call(callable, Value::Tuple { kept: NOT_KEPT, items })?;
            }
            (0x93, _) => self.stack_global()?,
            // An extension, by its number in the registry of the program.
            (0x82 | 0x83, Argument::Number(code)) => {
                self.extension(i64::try_from(code).debug_unwrap())?;
            }
            (0x84, Argument::Signed(code)) => self.extension(code.into())?,
            (b'o', _) => {
                let items = self.pop_mark()?;
                let Some(class) = items.first() else {
                    return Err(self.raises("an opcode needs a value, but the stack is empty"));
                };
                let items = self.items(items.get(1..).debug_unwrap());
                self.call(*class, Value::Tuple { kept: NOT_KEPT, items })?;
            }
            (b'R' | 0x81, _) => {
                let (arguments, callable) = (self.pop()?, self.pop()?);
                self.call(callable, arguments)?;
            }
            (0x92, _) => {
                let (_, _, callable) = (self.pop()?, self.pop()?, self.pop()?);
                // An object that the program returns for a persistent id can be anything.
                self.call(callable, Value::Tuple { kept: NOT_KEPT, items: Items::UNKNOWN })?;
            }
            (b'b', _) => self.build()?,
            (b'P', Argument::Line(line)) => {
                if !line.is_ascii() {
                    return Err(self.raises("a persistent identifier is not ASCII"));
                }
                self.stack.push(Value::Unknown);
            }
            (b'Q', _) => {
                self.pop()?;
                self.stack.push(Value::Unknown);
            }
            // A buffer that the program provides; 0x98 makes it read-only.
            (0x97, _) => self.stack.push(Value::Unknown),
            (0x98, _) => drop(self.top()?),
            // None, Booleans, numbers, bytes.
            _ => self.stack.push(Value::Plain),
        }
        Ok(())
    }

    fn here(&self, e: holdall_core::error::Error) -> holdall_core::error::Error {
        e.at(self.at..self.at.saturating_add(1))
    }

    #[cold]
    fn raises(&self, what: &'static str) -> End {
        End::Raised(self.here(BROKEN.broken(what)))
    }

    /// A value extends past the end of its frame: the unpickler in C continues after the frame, and loses the rest of
    /// it; others raise an exception, or continue reading.
    #[cold]
    fn in_frame(&self) -> End {
        End::Unfollowed(self.here(BROKEN.broken("a frame ends inside an opcode")))
    }

    /// Returns the end for a pickle whose bytes end.
    #[cold]
    fn ends(&self, how: &str) -> End {
        match self.input.total > self.input.bytes.len() as u64 {
            true => End::Cut,
            false => End::Raised(self.here(BROKEN.broken(format!("the pickle ends {how}")))),
        }
    }

    fn pop(&mut self) -> Step<Value> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn top(&self) -> Step<Value> {
        match self.stack.last() {
            Some(Value::Mark) | None => {
                Err(self.raises("an opcode needs a value, but the stack is empty"))
            }
            Some(value) => Ok(*value),
        }
    }

    /// Removes the values above the last mark, and the mark.
    fn pop_mark(&mut self) -> Step<Vec<Value>> {
        // The search is limited to the removed values: without a mark there is no search.
        let mark = (self.marks > 0).then(|| self.stack.iter().rposition(|v| *v == Value::Mark));
        let Some(mark) = mark.flatten() else {
            return Err(self.raises("there is no mark on the stack"));
        };
        let items = self.stack.split_off(mark.saturating_add(1));
        self.stack.pop();
        self.marks = self.marks.saturating_sub(1);
        Ok(items)
    }

    fn tuple(&mut self, items: &[Value]) {
        let kept = if self.keeps { self.kept.tuple(items) } else { NOT_KEPT };
        let items = self.items(items);
        self.stack.push(Value::Tuple { kept, items });
    }

    fn items(&self, items: &[Value]) -> Items {
        let first = match items.first() {
            Some(Value::Import(id)) => *id,
            _ => NOT_KEPT,
        };
        let second_is_called = match items.get(1) {
            Some(Value::Import(id)) => self.use_of(*id) == Some(Use::Call),
            _ => false,
        };
        Items {
            first,
            is_empty: items.is_empty(),
            shares: items.iter().any(|item| item.is_shared()),
            second_is_called,
        }
    }

    fn dict(&mut self) -> u32 {
        if self.keeps { self.kept.dict() } else { NOT_KEPT }
    }

    /// Parses the number under which a value is stored in the memo. Any integer is allowed; those beyond 64 bits are
    /// not analyzed.
    fn memo_key(&self, line: &[u8]) -> Step<u64> {
        let line = line::until_nul(line);
        if let Some(key) = line::memo_index(line) {
            return Ok(key);
        }
        let is_digit = |b: &u8| b.is_ascii_digit() || *b == b'_';
        let digits = line.trim_ascii();
        let digits = digits.strip_prefix(b"+").unwrap_or(digits);
        match !digits.is_empty() && digits.iter().all(is_digit) {
            true => {
                let e = BROKEN.broken("a memo number exceeds 64 bits");
                Err(End::Unfollowed(self.here(e)))
            }
            false => Err(self.raises("a memo number is missing")),
        }
    }

    fn memoize(&mut self, at: u64) -> Step {
        let top = self.top()?;
        self.memo.insert(at, top);
        Ok(())
    }

    fn recall(&mut self, at: u64) -> Step {
        match self.memo.get(&at) {
            Some(value) => self.stack.push(*value),
            None => return Err(self.raises("a value is recalled that is not in the memo")),
        }
        Ok(())
    }

    /// Adds items, or no items, to a value.
    fn change(&mut self, to: Value, is_nothing: bool) -> Step {
        match to {
            Value::Import(id) | Value::Shared(id) => self.suspect(id),
            Value::Plain | Value::Int(_) | Value::Tuple { .. } | Value::Text(_) if !is_nothing => {
                return Err(self.raises("items are added to a value that cannot have items"));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns `true` for a string in quotes, possibly with spaces around it, which Python 2 ignores.
fn is_quoted(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    matches!(line, [b'\'', .., b'\''] | [b'"', .., b'"'])
}
