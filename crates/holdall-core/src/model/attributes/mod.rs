//! Key–value data on a file or a tensor, kept without loss.

mod json;

pub use json::{LOSSLESS, NOT_JSON, RULES};

/// One attribute value: anything CBOR can say.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// CBOR null.
    Null,
    /// CBOR undefined.
    Undefined,
    /// true or false.
    Bool(bool),
    /// An integer, from -2^64 to 2^64 - 1.
    Integer(i128),
    /// A float; half and single precision widen without loss.
    Float(f64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A text string.
    Text(String),
    /// A list.
    Array(Vec<Value>),
    /// Key–value pairs in the file's order. Keys may be any value; they are unique.
    Map(Vec<(Value, Value)>),
    /// A tagged value. Nothing is done with the tag.
    Tag(u64, Box<Value>),
    /// A simple value without a name.
    Simple(u8),
}

impl Value {
    /// The text, if this is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(s) => Some(s),
            _ => None,
        }
    }

    /// The integer, if this is one.
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            Value::Integer(i) => Some(*i),
            _ => None,
        }
    }

    /// The number as f64, if this is an integer or a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Integer(i) => Some(*i as f64),
            Value::Float(x) => Some(*x),
            _ => None,
        }
    }
}

/// Key–value data on a file or a tensor, in the file's order, keys unique.
#[derive(Debug, Clone, Default)]
pub struct Attributes {
    pairs: Vec<(String, Value)>,
    is_stated: bool,
}

impl Attributes {
    /// No attributes.
    pub const fn new() -> Attributes {
        Attributes { pairs: Vec::new(), is_stated: false }
    }

    /// The same, as a file states them that has a map of them even if it is empty: zTensor 2 counts that as content.
    pub fn stated(self) -> Attributes {
        Attributes { is_stated: true, ..self }
    }

    /// Whether a file has a map of them, because there are some or because the file that they are of had one.
    pub fn is_stated(&self) -> bool {
        self.is_stated || !self.is_empty()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Sets `key`, in place if it is there, at the end if not.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        match self.pairs.iter_mut().find(|(k, _)| *k == key) {
            Some((_, v)) => *v = value,
            None => self.pairs.push((key, value)),
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.pairs.iter().position(|(k, _)| k == key)?;
        Some(self.pairs.remove(at).1)
    }

    /// Adds a pair whose key the caller knows to be new: decoders check keys once, for the map.
    pub fn push(&mut self, key: impl Into<String>, value: Value) {
        self.pairs.push((key.into(), value));
    }

    /// Pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.pairs.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// They are the same where the pairs are.
impl PartialEq for Attributes {
    fn eq(&self, other: &Attributes) -> bool {
        self.pairs == other.pairs
    }
}

impl FromIterator<(String, Value)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Attributes {
        let mut out = Attributes::new();
        pairs.into_iter().for_each(|(k, v)| out.set(k, v));
        out
    }
}
