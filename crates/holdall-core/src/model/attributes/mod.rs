//! Attributes: key–value data of a file or a tensor, kept without loss.

mod json;

pub use json::{LOSSLESS, NOT_JSON, RULES};

/// An attribute value: anything that CBOR can represent.
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
    /// A float; half and single precision are widened without loss.
    Float(f64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A text string.
    Text(String),
    /// A list.
    Array(Vec<Value>),
    /// Key–value pairs in the file's order. Keys may be any value; they are unique.
    Map(Vec<(Value, Value)>),
    /// A tagged value. The tag is not interpreted.
    Tag(u64, Box<Value>),
    /// A simple value without a name in CBOR.
    Simple(u8),
}

impl Value {
    /// Returns the text, if the value is a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the integer, if the value is one.
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            Value::Integer(i) => Some(*i),
            _ => None,
        }
    }

    /// Returns the number as `f64`, if the value is an integer or a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Integer(i) => Some(*i as f64),
            Value::Float(x) => Some(*x),
            _ => None,
        }
    }
}

/// Key–value data of a file or a tensor, in the file's order. Keys are unique.
#[derive(Debug, Clone, Default)]
pub struct Attributes {
    pairs: Vec<(String, Value)>,
    is_stated: bool,
}

impl Attributes {
    /// Creates an empty set of attributes.
    pub const fn new() -> Attributes {
        Attributes { pairs: Vec::new(), is_stated: false }
    }

    /// Marks the attributes as present in the file even if they are empty: zTensor 2 treats an empty map of attributes
    /// as content.
    pub fn stated(self) -> Attributes {
        Attributes { is_stated: true, ..self }
    }

    /// Returns `true` if a file should have a map of attributes: because there are attributes, or because the source
    /// file had an empty map.
    pub fn is_stated(&self) -> bool {
        self.is_stated || !self.is_empty()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Sets the value of `key`: in place if the key exists, and otherwise at the end.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        match self.pairs.iter_mut().find(|(k, _)| *k == key) {
            Some((_, v)) => *v = value,
            None => self.pairs.push((key, value)),
        }
    }

    /// Removes `key`, and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.pairs.iter().position(|(k, _)| k == key)?;
        Some(self.pairs.remove(at).1)
    }

    /// Appends a pair. The caller ensures that the key is new: decoders check all keys of a map at once.
    pub fn push(&mut self, key: impl Into<String>, value: Value) {
        self.pairs.push((key.into(), value));
    }

    /// Returns the pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.pairs.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns `true` if there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// Attributes are equal if their pairs are equal.
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
