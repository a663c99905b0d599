//! Writing pickles of protocol 2, as far as tensors need them.

use holdall_collections::HashMap;

/// Writes a pickle. Names of modules and short texts are stored in the memo and recalled.
#[derive(Debug)]
pub struct Pickler {
    out: Vec<u8>,
    memo: HashMap<Vec<u8>, u32>,
}

impl Default for Pickler {
    fn default() -> Pickler {
        Pickler::new()
    }
}

impl Pickler {
    /// Creates an empty pickle of protocol 2.
    pub fn new() -> Pickler {
        Pickler { out: b"\x80\x02".to_vec(), memo: HashMap::default() }
    }

    /// Appends an empty dict.
    pub fn begin_dict(&mut self) {
        self.out.push(b'}');
    }

    /// Sets an item of a dict: the last two values are the key and the value, and the dict precedes them.
    pub fn set_item(&mut self) {
        self.out.push(b's');
    }

    /// Begins a tuple.
    pub fn begin_tuple(&mut self) {
        self.out.push(b'(');
    }

    /// Ends the innermost tuple.
    pub fn end_tuple(&mut self) {
        self.out.push(b't');
    }

    /// Appends a tuple of numbers.
    pub fn numbers(&mut self, all: &[u64]) {
        self.begin_tuple();
        all.iter().for_each(|n| self.number(*n));
        self.end_tuple();
    }

    /// Appends an `int`.
    pub fn number(&mut self, n: u64) {
        let bytes = n.to_le_bytes();
        match bytes {
            [n, 0, 0, 0, 0, 0, 0, 0] => self.out.extend([b'K', n]),
            [a, b, 0, 0, 0, 0, 0, 0] => self.out.extend([b'M', a, b]),
            [a, b, c, d @ 0..=0x7f, 0, 0, 0, 0] => self.out.extend([b'J', a, b, c, d]),
            _ => {
                // Signed, so an additional byte keeps the highest bit zero.
                self.out.extend([0x8a, 9]);
                self.out.extend(bytes);
                self.out.push(0);
            }
        }
    }

    /// Appends an `int` of any size and sign.
    pub fn integer(&mut self, n: i128) {
        match u64::try_from(n) {
            Ok(n) => self.number(n),
            // Always 16 bytes; a longer form than necessary has the same value.
            Err(_) => {
                self.out.extend([0x8a, 16]);
                self.out.extend(n.to_le_bytes());
            }
        }
    }

    /// Appends a `float`.
    pub fn float(&mut self, x: f64) {
        self.out.push(b'G');
        self.out.extend(x.to_be_bytes());
    }

    /// Appends `None`.
    pub fn none(&mut self) {
        self.out.push(b'N');
    }

    /// Appends an empty list.
    pub fn begin_list(&mut self) {
        self.out.push(b']');
    }

    /// Appends the last value to the list that precedes it.
    pub fn append(&mut self) {
        self.out.push(b'a');
    }

    /// Appends `True` or `False`.
    pub fn bool(&mut self, is_true: bool) {
        self.out.push(if is_true { 0x88 } else { 0x89 });
    }

    /// Appends a `str`.
    pub fn text(&mut self, text: &str) {
        let mut opcode = vec![b'X'];
        // A name of more than 4 GiB cannot occur: its header would be too long.
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        opcode.extend(len.to_le_bytes());
        opcode.extend(text.as_bytes());
        match text.len() {
            0..=16 => self.remembered(opcode),
            _ => self.out.extend(opcode),
        }
    }

    /// Appends an import.
    pub fn global(&mut self, module: &str, name: &str) {
        self.remembered(format!("c{module}\n{name}\n").into_bytes());
    }

    /// Calls the second-to-last value with the last one, a tuple.
    pub fn call(&mut self) {
        self.out.push(b'R');
    }

    /// Calls the last value without arguments.
    pub fn call_without(&mut self) {
        self.out.extend(b")R");
    }

    /// Replaces the last value, an id, by the data that is stored elsewhere under this id.
    pub fn persistent(&mut self) {
        self.out.push(b'Q');
    }

    /// Returns the pickle of the last value.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(b'.');
        self.out
    }

    fn remembered(&mut self, opcode: Vec<u8>) {
        let next = u32::try_from(self.memo.len()).unwrap_or(u32::MAX);
        match self.memo.get(&opcode) {
            Some(at) => {
                self.out.push(b'j');
                self.out.extend(at.to_le_bytes());
            }
            None => {
                self.out.extend_from_slice(&opcode);
                self.out.push(b'r');
                self.out.extend(next.to_le_bytes());
                self.memo.insert(opcode, next);
            }
        }
    }
}
