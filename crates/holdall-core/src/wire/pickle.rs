//! Python's pickles, read as data: nothing is imported, nothing is called. A machine for a few opcodes builds a graph
//! of values. If a pickle would call something, the graph records the function and its arguments.
//!
//! Every opcode creates at most three nodes, and the number of nodes, plus the items that containers copy from others,
//! is limited, so memory is proportional to the length of the pickle. Shared values are shared nodes, so code that
//! walks the graph must count its steps.
//! counts its steps.

pub mod line;
pub mod opcode;
pub mod write;

use super::cursor::Cursor;
use crate::error::{Error, Escape as _, Result};
use holdall_collections::HashMap;
use opcode::{Argument, Missing};

crate::error::rules! {
    /// Rules of pickles.
    pub static RULES;

    /// The bytes are not a pickle.
    pub BROKEN: Malformed "pickle/broken"
        "A pickle is a sequence of complete opcodes that ends with STOP, and the stack has the operands of each opcode.";
    /// The opcode is not supported.
    pub OPCODE: Unsupported "pickle/opcode"
        "A pickle uses only the opcodes that write tensors and plain values.";
    /// There are too many values.
    pub TOO_MANY: Limit "pickle/too-many-values"
        "A pickle creates at most `Limits::attribute_values` values."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// Data to be scanned is inside a container that is not opened.
    pub PACKED: Unsupported "pickle/packed"
        "Data that is scanned for pickles is uncompressed, or compressed with gzip, zlib or zstd; archives are zip or tar, nested at most four levels deep; and NumPy arrays have supported types."
        hint "unpack it and scan its contents";
    /// A pickle is too long to be scanned.
    pub TOO_LONG: Limit "pickle/too-long"
        "A pickle that is scanned ends within `Limits::header_len` bytes."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
}

/// The hint for limits that cannot be raised.
pub const FIXED: &str = "this limit is fixed and cannot be raised";
/// The maximum length of a module's name, or of a name in it, in bytes.
pub const MAX_NAME: usize = 256;
/// The maximum number of different imports whose names come from the stack; of all imports if a pickle is only traced.
pub const MAX_NAMED: usize = 1 << 16;

/// The number of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id(u32);

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An `int`.
    Integer(i128),
    /// An `int` of more than 128 bits: two's complement, lowest byte first.
    Long(Vec<u8>),
    /// A `float`.
    Float(f64),
    /// A `str`.
    Text(String),
    /// A `str` of Python 2, which may be text or bytes.
    OldText(Vec<u8>),
    /// `bytes`.
    Bytes(Vec<u8>),
    /// A `tuple`.
    Tuple(Vec<Id>),
    /// A `list`.
    List(Vec<Id>),
    /// A `set`.
    Set(Vec<Id>),
    /// A `dict`, in its order; if a key is repeated, the last value counts.
    Dict(Vec<(Id, Id)>),
    /// An import: a module, and a name in it.
    Global(String, String),
    /// A call of a global with arguments.
    Call(Id, Id),
    /// An object with a state.
    Built(Id, Id),
    /// Data that is stored elsewhere, given by its id: a storage.
    Persistent(Id),
}

/// The number of bytes that count as one step.
pub const BYTES_OF_STEP: u64 = 64;

/// The values of a pickle.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    /// Returns a value.
    pub fn get(&self, id: Id) -> &Node {
        // Every id comes from `Graph::add`.
        self.nodes.get(id.0 as usize).unwrap_or(&Node::None)
    }

    /// Returns the items of a tuple or list.
    pub fn items(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Node::Tuple(items) | Node::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the text of a `str`.
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Node::Text(text) => Some(text),
            Node::OldText(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the number of an `int`.
    pub fn integer(&self, id: Id) -> Option<i128> {
        match self.get(id) {
            Node::Integer(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns the values that a value contains.
    fn parts(&self, id: Id) -> impl Iterator<Item = Id> + '_ {
        let (mut items, mut pairs): (&[Id], &[(Id, Id)]) = (&[], &[]);
        let mut two = [None, None];
        match self.get(id) {
            Node::Tuple(all) | Node::List(all) | Node::Set(all) => items = all,
            Node::Dict(all) => pairs = all,
            Node::Call(a, b) | Node::Built(a, b) => two = [Some(*a), Some(*b)],
            Node::Persistent(a) => two[0] = Some(*a),
            _ => {}
        }
        let of_pairs = pairs.iter().flat_map(|(key, value)| [*key, *value]);
        items.iter().copied().chain(of_pairs).chain(two.into_iter().flatten())
    }

    /// Returns the length of a value itself in bytes.
    fn bytes(&self, id: Id) -> u64 {
        let len = match self.get(id) {
            Node::Text(text) => text.len(),
            Node::Bytes(bytes) | Node::OldText(bytes) | Node::Long(bytes) => bytes.len(),
            Node::Global(module, name) => module.len().saturating_add(name.len()),
            _ => 0,
        };
        len as u64
    }

    /// Returns the number of steps to walk a value and everything that it contains, counting shared values each time,
    /// or `u64::MAX` if a value contains itself. Each [`BYTES_OF_STEP`] bytes of a text, of bytes or of a name count as
    /// another step. Takes one step per distinct value.
    pub fn steps(&self, root: Id) -> u64 {
        // Every value takes at least one step.
        const UNSEEN: u64 = 0;
        const OPEN: u64 = u64::MAX;
        let mut counts = vec![UNSEEN; self.nodes.len()];
        // A value is visited before its parts, and again after them.
        let mut stack = vec![(root, false)];
        while let Some((id, is_after)) = stack.pop() {
            let count_of = |id: Id| counts.get(id.0 as usize).copied().unwrap_or(1);
            let count = match count_of(id) {
                _ if is_after => {
                    let own = self.bytes(id).saturating_add(BYTES_OF_STEP) / BYTES_OF_STEP;
                    match self.parts(id).map(count_of).fold(own, u64::saturating_add) {
                        OPEN => return u64::MAX,
                        count => count,
                    }
                }
                UNSEEN => {
                    stack.push((id, true));
                    stack.extend(self.parts(id).map(|part| (part, false)));
                    OPEN
                }
                OPEN => return u64::MAX,
                _ => continue,
            };
            if let Some(slot) = counts.get_mut(id.0 as usize) {
                *slot = count;
            }
        }
        counts.get(root.0 as usize).copied().unwrap_or(1)
    }

    /// Returns the ids of all storages.
    pub fn persistent(&self) -> impl Iterator<Item = Id> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Persistent(id) => Some(*id),
            _ => None,
        })
    }

    /// Returns all globals, as often as they occur.
    pub fn globals(&self) -> impl Iterator<Item = (&str, &str)> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Global(module, name) => Some((module.as_str(), name.as_str())),
            _ => None,
        })
    }
}

/// An item on the stack.
#[derive(Clone, Copy)]
enum Item {
    Value(Id),
    Mark,
}

struct Machine<'a> {
    graph: Graph,
    stack: Vec<Item>,
    memo: HashMap<u64, Id>,
    /// Objects that were given a state, and the resulting values, so that an object that is recalled later has its
    /// state.
    built: HashMap<Id, Id>,
    /// The globals named by two texts.
    named: HashMap<(Id, Id), Id>,
    cursor: Cursor<'a>,
    /// The offset of the pickle in the file.
    base: u64,
    most: u64,
    /// The number of items that containers copied from others.
    taken: u64,
}

/// Reads the pickle at the start of `bytes`. Returns its graph, its value and its length in bytes, or `None` if the
/// bytes end before the pickle does. `base` is the offset of the bytes in the file, `max_opcodes` the maximum number of
/// values.
///
/// # Errors
/// Returns [`BROKEN`] if the pickle is malformed, [`OPCODE`] if an opcode is not supported, and [`TOO_MANY`] if there
/// are too many values.
pub fn read(bytes: &[u8], base: u64, max_opcodes: u64) -> Result<Option<(Graph, Id, u64)>> {
    let cursor = Cursor::new(bytes);
    let mut machine = Machine {
        graph: Graph::default(),
        stack: Vec::new(),
        memo: HashMap::default(),
        built: HashMap::default(),
        named: HashMap::default(),
        cursor,
        base,
        most: max_opcodes,
        taken: 0,
    };
    loop {
        let at = machine.cursor.position();
        let Some(opcode) = machine.cursor.u8() else { return Ok(None) };
        if opcode == b'.' {
            let root = machine.pop()?;
            return Ok(Some((machine.graph, root, machine.cursor.position())));
        }
        let done = match opcode::argument(opcode, &mut machine.cursor) {
            Ok(argument) => machine.step(opcode, argument),
            Err(Missing::End) => return Ok(None),
            Err(Missing::Opcode) => Err(not_read(opcode)),
        };
        done.map_err(|e| {
            e.at(base.saturating_add(at)..base.saturating_add(machine.cursor.position()))
        })?;
    }
}

/// Returns `true` if the complete opcodes at the start of `head` import from `package`. Detects pickles without a
/// protocol number.
pub fn imports(head: &[u8], package: &[u8]) -> bool {
    let is_of = |module: &[u8]| {
        module.strip_prefix(package).is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
    };
    let mut cursor = Cursor::new(head);
    while let Some(opcode) = cursor.u8().filter(|opcode| *opcode != b'.') {
        match opcode::argument(opcode, &mut cursor) {
            Ok(Argument::Lines(module, _)) if is_of(module) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

impl Machine<'_> {
    fn broken(&self, message: impl Into<String>) -> Error {
        let here = self.base.saturating_add(self.cursor.position());
        BROKEN.broken(message.into()).at(here.saturating_sub(1)..here)
    }

    fn add(&mut self, node: Node) -> Result<Id> {
        let count = self.graph.nodes.len();
        if self.taken.saturating_add(count as u64) >= self.most {
            return Err(TOO_MANY.broken(format!("the pickle has more than {} values", self.most)));
        }
        let id = u32::try_from(count).map_err(|_| {
            TOO_MANY.broken("the pickle has more than 2^32 values").with_hint(FIXED)
        })?;
        self.graph.nodes.push(node);
        Ok(Id(id))
    }

    fn push(&mut self, node: Node) -> Result<()> {
        let id = self.add(node)?;
        self.stack.push(Item::Value(id));
        Ok(())
    }

    fn pop(&mut self) -> Result<Id> {
        match self.stack.pop() {
            Some(Item::Value(id)) => Ok(id),
            _ => Err(self.broken("an opcode needs a value, but the stack is empty")),
        }
    }

    fn top(&self) -> Result<Id> {
        match self.stack.last() {
            Some(Item::Value(id)) => Ok(*id),
            _ => Err(self.broken("an opcode needs a value, but the stack is empty")),
        }
    }

    /// Removes the last mark and everything above it, and returns the values.
    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.stack.iter().rposition(|item| matches!(item, Item::Mark));
        let Some(mark) = mark else {
            return Err(self.broken("an opcode needs a mark, but the stack has none"));
        };
        let items = self.stack.drain(mark..).filter_map(|item| match item {
            Item::Value(id) => Some(id),
            Item::Mark => None,
        });
        Ok(items.collect())
    }

    fn set_items(&mut self, items: &[Id]) -> Result<()> {
        let (pairs, odd) = items.as_chunks::<2>();
        let to = self.top()?;
        let target = self.target(to);
        match self.graph.nodes.get_mut(target) {
            Some(Node::Dict(own)) if odd.is_empty() => {
                own.extend(pairs.iter().map(|[key, value]| (*key, *value)));
                Ok(())
            }
            // The items of an unknown object are lost with it.
            Some(Node::Call(..) | Node::Built(..)) if odd.is_empty() => Ok(()),
            _ => Err(self.broken("pairs are added to a value that is not a dict")),
        }
    }

    fn append(&mut self, items: &[Id]) -> Result<()> {
        let to = self.top()?;
        let target = self.target(to);
        match self.graph.nodes.get_mut(target) {
            Some(Node::List(own) | Node::Set(own)) => {
                own.extend_from_slice(items);
                Ok(())
            }
            Some(Node::Call(..) | Node::Built(..)) => Ok(()),
            _ => Err(self.broken("items are added to a value that is not a list")),
        }
    }

    /// Returns the index of the node that an object refers to: for an object with a state, the object itself.
    fn target(&self, id: Id) -> usize {
        match self.graph.get(id) {
            Node::Built(id, _) => id.0 as usize,
            _ => id.0 as usize,
        }
    }

    fn text(&self, bytes: &[u8]) -> Result<String> {
        // Python also writes lone surrogates; text that is not UTF-8 is never a name here.
        String::from_utf8(bytes.to_vec()).map_err(|_| self.broken("text is not UTF-8"))
    }

    fn memoize(&mut self, at: u64) -> Result<()> {
        let id = self.top()?;
        self.memo.insert(at, id);
        Ok(())
    }

    fn recall(&mut self, at: u64) -> Result<()> {
        let id = self.memo.get(&at).copied();
        let id =
            id.ok_or_else(|| self.broken(format!("no value is stored under {at} in the memo")))?;
        self.stack.push(Item::Value(self.built.get(&id).copied().unwrap_or(id)));
        Ok(())
    }

    /// Pushes the global that two texts on the stack name. The same two texts, recalled from the memo, give the same
    /// value, so names that are written once take memory once.
    fn stack_global(&mut self, module: Id, name: Id) -> Result<()> {
        if let Some(known) = self.named.get(&(module, name)) {
            self.stack.push(Item::Value(*known));
            return Ok(());
        }
        let short_text = |id| self.graph.text(id).filter(|text| text.len() <= MAX_NAME);
        let Some((of_module, of_name)) = short_text(module).zip(short_text(name)) else {
            return Err(self.broken("an import must be named by two short strings"));
        };
        if self.named.len() >= MAX_NAMED {
            return Err(too_many_names());
        }
        let id = self.add(Node::Global(of_module.to_owned(), of_name.to_owned()))?;
        self.named.insert((module, name), id);
        self.stack.push(Item::Value(id));
        Ok(())
    }

    /// Returns the container that a call of its type creates; items are added to it afterwards.
    fn container(&self, callable: Id, arguments: Id) -> Option<Node> {
        let Node::Global(module, name) = self.graph.get(callable) else { return None };
        let arguments = match self.graph.get(arguments) {
            Node::Tuple(arguments) => arguments.as_slice(),
            _ => return None,
        };
        // The default value of missing keys does not matter, if it is of a plain type.
        if let [factory] = arguments
            && let Node::Global(factory_module, class) = self.graph.get(*factory)
        {
            let is_plain = matches!(factory_module.as_str(), "builtins" | "__builtin__")
                && matches!(
                    class.as_str(),
                    "list"
                        | "dict"
                        | "set"
                        | "tuple"
                        | "bool"
                        | "int"
                        | "long"
                        | "float"
                        | "str"
                        | "unicode"
                );
            let is_dict = (module.as_str(), name.as_str()) == ("collections", "defaultdict");
            return (is_plain && is_dict).then(|| Node::Dict(Vec::new()));
        }
        let items = match arguments {
            [] => &[],
            // A `Counter` is created from the dict of its counts.
            [one]
                if module == "collections"
                    && matches!(name.as_str(), "OrderedDict" | "Counter")
                    && let Node::Dict(pairs) = self.graph.get(*one) =>
            {
                return Some(Node::Dict(pairs.clone()));
            }
            [one] => self.graph.items(*one)?,
            _ => return None,
        };
        match (module.as_str(), name.as_str()) {
            ("collections", "OrderedDict" | "Counter") => {
                let pair = |id: &Id| match self.graph.items(*id)? {
                    [key, value] => Some((*key, *value)),
                    _ => None,
                };
                items.iter().map(pair).collect::<Option<Vec<_>>>().map(Node::Dict)
            }
            ("builtins" | "__builtin__", "set" | "frozenset") => Some(Node::Set(items.to_vec())),
            _ => None,
        }
    }

    /// Pushes the result of a call: the container that it creates, or the call itself.
    fn call(&mut self, callable: Id, arguments: Id) -> Result<()> {
        let made = self.container(callable, arguments).unwrap_or(Node::Call(callable, arguments));
        // A list can be copied again and again.
        let taken = match &made {
            Node::Set(items) => items.len(),
            Node::Dict(pairs) => pairs.len(),
            _ => 0,
        };
        self.taken = self.taken.saturating_add(taken as u64);
        self.push(made)
    }

    /// Returns the value of a line of protocol 0, or an error if the line has no value.
    fn spelt<T>(&self, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| {
            self.broken("the line after an opcode does not have the form that Python writes")
        })
    }

    /// Executes an opcode.
    fn step(&mut self, opcode: u8, argument: Argument<'_>) -> Result<()> {
        match (opcode, argument) {
            // PROTO, FRAME: nothing to do.
            (0x80, Argument::Number(version)) if version > 5 => {
                Err(OPCODE.broken(format!("unsupported protocol {version}; the highest is 5")))
            }
            (0x80 | 0x95, _) => Ok(()),
            (b'(', _) => {
                self.stack.push(Item::Mark);
                Ok(())
            }
            (b'0', _) => match self.stack.pop() {
                Some(_) => Ok(()),
                None => Err(self.broken("an opcode needs a value, but the stack is empty")),
            },
            (b'1', _) => self.pop_mark().map(drop),
            (b'2', _) => self.top().map(|id| self.stack.push(Item::Value(id))),
            (b'N', _) => self.push(Node::None),
            (0x88, _) => self.push(Node::Bool(true)),
            (0x89, _) => self.push(Node::Bool(false)),
            (b'K' | b'M', Argument::Number(n)) => self.push(Node::Integer(n.into())),
            (b'J', Argument::Signed(n)) => self.push(Node::Integer(n.into())),
            (0x8a | 0x8b, Argument::Bytes(bytes)) => self.push(long(bytes)),
            (b'G', Argument::Float(x)) => self.push(Node::Float(x)),
            (b'I', Argument::Line(b"00")) => self.push(Node::Bool(false)),
            (b'I', Argument::Line(b"01")) => self.push(Node::Bool(true)),
            (b'I' | b'L', Argument::Line(line)) => {
                self.spelt(line::integer(line)).and_then(|number| self.push(number))
            }
            (b'F', Argument::Line(line)) => {
                self.spelt(line::float(line)).and_then(|x| self.push(Node::Float(x)))
            }
            (b'V', Argument::Line(line)) => {
                let (text, is_sound) = line::unicode(line);
                self.spelt(is_sound.then_some(text)).and_then(|text| self.push(Node::Text(text)))
            }
            (b'S', Argument::Line(line)) => {
                let (bytes, is_sound) = line::string(line);
                let bytes = self.spelt(is_sound.then_some(bytes));
                bytes.and_then(|bytes| self.push(Node::OldText(bytes)))
            }
            (b'X' | 0x8c | 0x8d, Argument::Bytes(bytes)) => {
                self.text(bytes).and_then(|text| self.push(Node::Text(text)))
            }
            (b'C' | b'B' | 0x8e | 0x96, Argument::Bytes(bytes)) => {
                self.push(Node::Bytes(bytes.to_vec()))
            }
            (b'U' | b'T', Argument::Bytes(bytes)) => self.push(Node::OldText(bytes.to_vec())),
            (b')', _) => self.push(Node::Tuple(Vec::new())),
            (b']', _) => self.push(Node::List(Vec::new())),
            (b'}', _) => self.push(Node::Dict(Vec::new())),
            (0x8f, _) => self.push(Node::Set(Vec::new())),
            (b't', _) => self.pop_mark().and_then(|items| self.push(Node::Tuple(items))),
            (b'l', _) => self.pop_mark().and_then(|items| self.push(Node::List(items))),
            (0x91, _) => self.pop_mark().and_then(|items| self.push(Node::Set(items))),
            (0x85..=0x87, _) => {
                let count = usize::from(opcode.saturating_sub(0x84));
                let items: Result<Vec<Id>> = (0..count).map(|_| self.pop()).collect();
                items.and_then(|mut items| {
                    items.reverse();
                    self.push(Node::Tuple(items))
                })
            }
            (b'd', _) => self.pop_mark().and_then(|items| {
                self.push(Node::Dict(Vec::new()))?;
                self.set_items(&items)
            }),
            (b's', _) => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(&[key, value])
            }
            (b'u', _) => self.pop_mark().and_then(|items| self.set_items(&items)),
            (b'a', _) => self.pop().and_then(|item| self.append(&[item])),
            (b'e' | 0x90, _) => self.pop_mark().and_then(|items| self.append(&items)),
            (b'q' | b'r', Argument::Number(at)) => self.memoize(at),
            (0x94, _) => self.memoize(self.memo.len() as u64),
            (b'h' | b'j', Argument::Number(at)) => self.recall(at),
            (b'p', Argument::Line(line)) => {
                self.spelt(line::memo_index(line)).and_then(|at| self.memoize(at))
            }
            (b'g', Argument::Line(line)) => {
                self.spelt(line::memo_index(line)).and_then(|at| self.recall(at))
            }
            (b'c', Argument::Lines(module, name)) => {
                let module = self.text(module)?;
                let name = self.text(name)?;
                self.push(Node::Global(module, name))
            }
            (0x93, _) => {
                let (name, module) = (self.pop()?, self.pop()?);
                self.stack_global(module, name)
            }
            (b'R' | 0x81, _) => {
                let (arguments, callable) = (self.pop()?, self.pop()?);
                self.call(callable, arguments)
            }
            // An object of a class, whose arguments are above the mark.
            (b'i', Argument::Lines(module, name)) => {
                let items = self.pop_mark()?;
                let callable = Node::Global(self.text(module)?, self.text(name)?);
                let (callable, arguments) = (self.add(callable)?, self.add(Node::Tuple(items))?);
                self.call(callable, arguments)
            }
            (b'o', _) => {
                let items = self.pop_mark()?;
                let Some((callable, items)) = items.split_first() else {
                    return Err(self.broken("an opcode needs a value, but the stack is empty"));
                };
                let arguments = self.add(Node::Tuple(items.to_vec()))?;
                self.call(*callable, arguments)
            }
            (b'b', _) => {
                let (state, object) = (self.pop()?, self.pop()?);
                let built = self.add(Node::Built(object, state))?;
                self.built.insert(object, built);
                self.stack.push(Item::Value(built));
                Ok(())
            }
            (b'Q', _) => self.pop().and_then(|id| self.push(Node::Persistent(id))),
            (b'P', Argument::Line(line)) => {
                let named = self.text(line).and_then(|text| self.add(Node::Text(text)))?;
                self.push(Node::Persistent(named))
            }
            (other, _) => Err(not_read(other)),
        }
    }
}

/// Returns the integer with these bytes, in two's complement, lowest byte first.
pub fn long(bytes: &[u8]) -> Node {
    let mut wide = [if bytes.last().is_some_and(|b| b & 0x80 != 0) { 0xff } else { 0 }; 16];
    match wide.get_mut(..bytes.len()) {
        Some(low) => {
            low.copy_from_slice(bytes);
            Node::Integer(i128::from_le_bytes(wide))
        }
        None => Node::Long(bytes.to_vec()),
    }
}

#[cold]
/// Returns the error for too many imports.
pub fn too_many_names() -> Error {
    let message = format!("the pickle has more than {MAX_NAMED} different imports");
    TOO_MANY.broken(message).with_hint(FIXED)
}

#[cold]
fn not_read(opcode: u8) -> Error {
    let shown = [opcode];
    let shown = shown.escape_ascii().to_string();
    OPCODE.broken(format!("unsupported opcode `{}`", shown.escaped()))
}
