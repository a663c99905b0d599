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
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes(Vec<(String, Value)>);

impl Attributes {
    /// No attributes.
    pub const fn new() -> Attributes {
        Attributes(Vec::new())
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Sets `key`, in place if it is there, at the end if not.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, v)) => *v = value,
            None => self.0.push((key, value)),
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(at).1)
    }

    /// Adds a pair whose key the caller knows to be new: decoders check keys once, for the map.
    pub fn push(&mut self, key: impl Into<String>, value: Value) {
        self.0.push((key.into(), value));
    }

    /// Pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Value)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Attributes {
        let mut out = Attributes::new();
        pairs.into_iter().for_each(|(k, v)| out.set(k, v));
        out
    }
}
