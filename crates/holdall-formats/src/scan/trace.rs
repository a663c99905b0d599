//! What a pickle would import and call, without doing either. Every opcode of every protocol is followed, also in pickles
//! that break later on: what stands before the break has run by then.
//!
//! Values are kept as far as they tell a name: texts, imports, and what imports made. Containers are not built. Each opcode
//! takes a bounded time, apart from a look through its own bytes, and at most one value of a few bytes; short texts are kept once.

use super::names::{Danger, danger_of};
use holdall_collections::HashMap;
use holdall_core::error::Error;
use holdall_core::wire::cursor::Cursor;
use holdall_core::wire::pickle::opcode::{Argument, Missing, argument};
use holdall_core::wire::pickle::{
    BROKEN, FIXED, MOST_NAME, MOST_NAMED, OPCODE, TOO_MANY, line, too_many_names,
};

/// How deep pickles in the texts and bytes of pickles are looked for.
const MOST_NESTED: u32 = 4;
/// How many of them are kept.
const MOST_INNER: usize = 1000;

/// What a pickle would do.
#[derive(Debug, Default)]
pub struct Trace {
    /// What it would import, each once, in the order of first use.
    pub imports: Vec<Import>,
    /// The highest protocol that it says; 0 of those that say none.
    pub protocol: u64,
    /// Bytes of it: up to STOP, or to where it cannot be followed further.
    pub len: u64,
    /// Why it is not a whole pickle, or cannot be followed. What comes after was followed nevertheless, as far as possible.
    pub broken: Option<Error>,
    /// Pickles in its texts and bytes, and where those are: nothing reads them unless something is called that does.
    pub inner: Vec<(u64, Trace)>,
    /// Whether nothing is wrong with it but that the bytes end before it does.
    pub is_cut: bool,
    says_protocol: bool,
}

/// Something that a pickle would import.
#[derive(Debug, Clone)]
pub struct Import {
    /// The module, `?` where only running the pickle would tell.
    pub module: String,
    /// The name in it: with dots where it is an attribute of something there; `…(…)` for what a call would give.
    pub name: String,
    /// What is known of it.
    pub danger: Danger,
    /// Whether it would be called, too; importing alone runs a module.
    pub called: bool,
    /// How often it is named.
    pub count: u64,
    /// Where the first of those is, in bytes from where the pickle starts.
    pub offset: u64,
    /// Whether that is in front of what breaks the pickle.
    sound: bool,
}

impl Trace {
    /// Follows the pickle at the start of `bytes`, through at most `most` opcodes, those of inner ones too.
    pub fn of(bytes: &[u8], most: u64) -> Trace {
        trace(bytes, &mut { most }, 0)
    }

    /// Whether these bytes are likely meant as a pickle: it says its protocol, and ends or imports something; or it says none,
    /// as the oldest do, and imports what has the form of a name before anything is wrong, and calls it or ends.
    pub fn is_pickle(&self) -> bool {
        let ends = self.broken.is_none();
        match self.says_protocol {
            true => ends || self.imports.iter().any(|i| i.sound),
            false => self
                .imports
                .iter()
                .any(|i| i.sound && (ends || i.called || i.danger == Danger::Dangerous)),
        }
    }

    /// The worst that it would import; [`Danger::Unknown`] where it cannot be followed to its end.
    pub fn danger(&self) -> Danger {
        let imports = self.imports.iter().map(|i| i.danger).max().unwrap_or(Danger::Safe);
        match self.broken {
            Some(_) => imports.max(Danger::Unknown),
            None => imports,
        }
    }
}

/// The pickles at the start of `bytes`, one after the other, and where each is: none, where there is nothing that looks like
/// one. `is_named` says that the file is named as one with pickles: then anything is followed that does not break at once.
/// Of a file of torch before 1.6 those are its five.
pub fn all(bytes: &[u8], is_named: bool, most: u64) -> Vec<(u64, Trace)> {
    let (mut out, mut left, mut at) = (Vec::new(), most, 0u64);
    let is_legacy = crate::pytorch::is_legacy(bytes);
    while let Some(rest) = usize::try_from(at).ok().and_then(|at| bytes.get(at..))
        && !rest.is_empty()
        && !(is_legacy && out.len() == 5)
    {
        let mut found = trace(rest, &mut left, 0);
        let is_first = at == 0 && is_named && (found.says_protocol || found.broken.is_none());
        if !found.is_pickle() && !is_first {
            break;
        }
        if out.len() >= MOST_INNER {
            let e =
                TOO_MANY.broken("there are too many pickles, one after the other").with_hint(FIXED);
            found.broken.get_or_insert(e);
        }
        let start = at;
        at = at.saturating_add(found.len);
        let ends = found.broken.is_some();
        out.push((start, found));
        if ends {
            break;
        }
    }
    out
}

/// What is on the stack, as far as it tells a name.
#[derive(Debug, Clone, Copy)]
enum Value {
    Mark,
    Other,
    /// A text, by its number.
    Text(u32),
    /// An import, by its number.
    Import(u32),
    /// What a call of an import gives, by the import's number.
    Made(u32),
}

#[derive(Default)]
struct Tracer {
    out: Trace,
    stack: Vec<Value>,
    memo: HashMap<u64, Value>,
    texts: Vec<Box<str>>,
    known: HashMap<(String, String), u32>,
    /// Where the opcode is.
    at: u64,
}

fn trace(bytes: &[u8], left: &mut u64, depth: u32) -> Trace {
    let mut tracer = Tracer::default();
    let mut cursor = Cursor::new(bytes);
    loop {
        tracer.at = cursor.position();
        let Some(opcode) = cursor.u8() else {
            tracer.cut("the pickle ends without STOP");
            break;
        };
        if *left == 0 {
            tracer.breaks(TOO_MANY.broken("there are more opcodes than are followed"));
            break;
        }
        *left = left.saturating_sub(1);
        if opcode == b'.' {
            if tracer.stack.is_empty() {
                tracer.missing();
            }
            break;
        }
        match argument(opcode, &mut cursor) {
            Ok(argument) => {
                tracer.step(opcode, argument);
                if let Argument::Bytes(inside) = argument {
                    tracer.look_into(opcode, inside, left, depth);
                }
            }
            Err(Missing::End) => {
                tracer.cut("the pickle ends inside of an opcode");
                break;
            }
            Err(Missing::Opcode) => {
                let message = format!("there is no opcode {opcode:#04x}");
                tracer.breaks(OPCODE.broken(message));
                break;
            }
        }
    }
    tracer.out.len = cursor.position();
    tracer.out
}

impl Tracer {
    fn step(&mut self, opcode: u8, argument: Argument<'_>) {
        match (opcode, argument) {
            (0x80, Argument::Number(protocol)) => {
                self.out.says_protocol |= self.at == 0;
                self.out.protocol = self.out.protocol.max(protocol);
                if protocol > 5 {
                    self.breaks(OPCODE.broken(format!("the protocol is {protocol}, at most 5")));
                }
            }
            // FRAME; what changes a list, a dict or a set by one item or two.
            (0x95, _) => {}
            (b'(', _) => self.stack.push(Value::Mark),
            (b'0', _) => {
                if self.stack.pop().is_none() {
                    self.missing();
                }
            }
            (b'1' | b'e' | b'u' | 0x90, _) => {
                self.pop_mark();
            }
            (b'2', _) => {
                let top = self.top();
                self.stack.push(top);
            }
            (b'a', _) => {
                self.pop();
            }
            (b's', _) => {
                self.pop();
                self.pop();
            }
            (b't' | b'l' | b'd' | 0x91, _) => {
                self.pop_mark();
                self.stack.push(Value::Other);
            }
            (0x85..=0x87, _) => {
                for _ in 0x84..opcode {
                    self.pop();
                }
                self.stack.push(Value::Other);
            }
            (b'X' | 0x8c | 0x8d | b'U' | b'T', Argument::Bytes(bytes)) => {
                self.text(String::from_utf8_lossy(bytes).into_owned());
            }
            (b'V', Argument::Line(line)) => self.text(line::unicode(line).0),
            (b'S', Argument::Line(line)) => {
                self.text(String::from_utf8_lossy(&line::string(line).0).into_owned());
            }
            (b'p', Argument::Line(line)) => match line::place(line) {
                Some(at) => self.memoize(at),
                None => self.breaks(BROKEN.broken("what is remembered has no number")),
            },
            (b'q' | b'r', Argument::Number(at)) => self.memoize(at),
            (0x94, _) => self.memoize(self.memo.len() as u64),
            (b'g', Argument::Line(line)) => self.recall(line::place(line)),
            (b'h' | b'j', Argument::Number(at)) => self.recall(Some(at)),
            (b'c', Argument::Lines(module, name)) => self.lines(module, name),
            (0x93, _) => {
                let (name, module) = (self.pop(), self.pop());
                match (self.short(module), self.short(name)) {
                    (Some(module), Some(name)) => self.import(module, name, true),
                    (module, name) => {
                        let or = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
                        self.import(or(module), or(name), true);
                    }
                }
            }
            // An extension, by a number that a program registers.
            (0x82 | 0x83, Argument::Number(code)) => {
                self.extension(i64::try_from(code).unwrap_or_default())
            }
            (0x84, Argument::Signed(code)) => self.extension(code.into()),
            (b'i', Argument::Lines(module, name)) => {
                self.pop_mark();
                self.lines(module, name);
                self.call_top();
            }
            (b'o', _) => {
                let class = self.pop_mark();
                self.call(class);
            }
            (b'R' | 0x81, _) => {
                let (_, of) = (self.pop(), self.pop());
                self.call(of);
            }
            (0x92, _) => {
                let (_, _, of) = (self.pop(), self.pop(), self.pop());
                self.call(of);
            }
            (b'b', _) => {
                self.pop();
                // Of an import itself it sets attributes, or calls what that has for the purpose.
                if let Value::Import(id) = self.top() {
                    self.mark_called(id);
                    if let Some(import) = self.out.imports.get_mut(id as usize) {
                        import.danger = import.danger.max(Danger::Suspicious);
                    }
                }
            }
            (b'Q', _) => {
                self.pop();
                self.stack.push(Value::Other);
            }
            (0x98, _) => {}
            // What makes a value that tells no name.
            _ => self.stack.push(Value::Other),
        }
    }

    fn breaks(&mut self, e: Error) {
        let at = self.at;
        self.out.broken.get_or_insert_with(|| e.at(at..at.saturating_add(1)));
    }

    fn cut(&mut self, what: &'static str) {
        self.out.is_cut = self.out.broken.is_none();
        self.breaks(BROKEN.broken(what));
    }

    #[cold]
    fn missing(&mut self) {
        self.breaks(BROKEN.broken("an opcode finds nothing on the stack"));
    }

    fn pop(&mut self) -> Value {
        match self.stack.last() {
            Some(Value::Mark) | None => {
                self.missing();
                Value::Other
            }
            Some(_) => self.stack.pop().unwrap_or(Value::Other),
        }
    }

    fn top(&mut self) -> Value {
        match self.stack.last() {
            Some(Value::Mark) | None => {
                self.missing();
                Value::Other
            }
            Some(value) => *value,
        }
    }

    /// Takes what is above the last mark, and that; gives the lowest.
    fn pop_mark(&mut self) -> Value {
        let mut lowest = Value::Other;
        while let Some(value) = self.stack.pop() {
            if matches!(value, Value::Mark) {
                return lowest;
            }
            lowest = value;
        }
        self.missing();
        lowest
    }

    fn memoize(&mut self, at: u64) {
        let top = self.top();
        self.memo.insert(at, top);
    }

    fn recall(&mut self, at: Option<u64>) {
        let found = at.and_then(|at| self.memo.get(&at)).copied();
        if found.is_none() {
            self.breaks(BROKEN.broken("what is recalled was not remembered"));
        }
        self.stack.push(found.unwrap_or(Value::Other));
    }

    fn text(&mut self, text: String) {
        let value = match u32::try_from(self.texts.len()) {
            Ok(id) if text.len() <= MOST_NAME => {
                self.texts.push(text.into());
                Value::Text(id)
            }
            _ => Value::Other,
        };
        self.stack.push(value);
    }

    fn short(&self, value: Value) -> Option<String> {
        match value {
            Value::Text(id) => self.texts.get(id as usize).map(|text| text.to_string()),
            _ => None,
        }
    }

    fn lines(&mut self, module: &[u8], name: &[u8]) {
        let of = |line: &[u8]| {
            let line = line.get(..MOST_NAME).unwrap_or(line);
            String::from_utf8_lossy(line).into_owned()
        };
        let has_form = |line: &[u8]| {
            let text = std::str::from_utf8(line).unwrap_or_default();
            let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
            !text.is_empty() && text.chars().all(of_name)
        };
        self.import(of(module), of(name), has_form(module) && has_form(name));
    }

    fn extension(&mut self, code: i64) {
        self.import("copyreg".to_owned(), format!("extension {code}"), true);
    }

    /// Imports something; whether it has the form of a name tells pickles from what only looks like one.
    fn import(&mut self, module: String, name: String, has_form: bool) {
        let id = self.known.get(&(module.clone(), name.clone())).copied();
        let id = match id {
            Some(id) => id,
            None if self.out.imports.len() >= MOST_NAMED => {
                self.breaks(too_many_names());
                self.stack.push(Value::Other);
                return;
            }
            None => {
                let id = u32::try_from(self.out.imports.len()).unwrap_or(u32::MAX);
                let sound = self.out.broken.is_none() && has_form;
                self.known.insert((module.clone(), name.clone()), id);
                self.out.imports.push(Import {
                    danger: danger_of(&module, &name),
                    module,
                    name,
                    called: false,
                    count: 0,
                    offset: self.at,
                    sound,
                });
                id
            }
        };
        if let Some(import) = self.out.imports.get_mut(id as usize) {
            import.count = import.count.saturating_add(1);
        }
        self.stack.push(Value::Import(id));
    }

    fn mark_called(&mut self, id: u32) {
        if let Some(import) = self.out.imports.get_mut(id as usize) {
            import.called = true;
        }
    }

    fn call_top(&mut self) {
        let of = self.pop();
        self.call(of);
    }

    /// Calls a value, and leaves what that gives.
    fn call(&mut self, of: Value) {
        let id = match of {
            Value::Import(id) => id,
            Value::Made(id) => {
                let made = self.out.imports.get(id as usize);
                let (module, name) = made
                    .map(|i| (i.module.clone(), format!("{}(…)", i.name.trim_end_matches("(…)"))))
                    .unwrap_or_default();
                self.import(module, name, true);
                match self.stack.pop() {
                    Some(Value::Import(id)) => id,
                    _ => id,
                }
            }
            Value::Mark | Value::Other | Value::Text(_) => {
                self.import("?".to_owned(), "?".to_owned(), true);
                match self.stack.pop() {
                    Some(Value::Import(id)) => id,
                    _ => return self.stack.push(Value::Other),
                }
            }
        };
        self.mark_called(id);
        self.stack.push(Value::Made(id));
    }

    /// Follows the pickle in a text or in bytes, if one is there.
    fn look_into(&mut self, opcode: u8, inside: &[u8], left: &mut u64, depth: u32) {
        let latin: Vec<u8>;
        let bytes = match (opcode, inside) {
            // Bytes as the text that protocol 2 writes for them.
            (b'X' | 0x8c | 0x8d, [0xc2, 0x80, 0..=5, ..]) => {
                let text = String::from_utf8_lossy(inside);
                latin = text.chars().map_while(|c| u8::try_from(u32::from(c)).ok()).collect();
                &latin[..]
            }
            (_, [0x80, 0..=5, ..] | [b'c' | b'(', ..]) => inside,
            _ => return,
        };
        if depth >= MOST_NESTED || self.out.inner.len() >= MOST_INNER {
            let e = TOO_MANY.broken("there are too many pickles inside of pickles");
            return self.breaks(e.with_hint(FIXED));
        }
        let found = trace(bytes, left, depth.saturating_add(1));
        if found.is_pickle() {
            self.out.inner.push((self.at, found));
        }
    }
}
