//! What the parts of a split file say of themselves.

use super::value::TYPES;
use holdall_core::model::{Attributes, Value};

/// The keys, and the types that their values have.
const KEYS: [(&str, &str); 3] =
    [("split.no", "u16"), ("split.count", "u16"), ("split.tensors.count", "i32")];

/// Which part a file says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// From 0 on.
    pub no: u32,
    /// How many there are.
    pub count: u32,
    /// How many tensors they have together, where that is stated.
    pub tensors: Option<u32>,
}

impl Part {
    /// Which part a file with these attributes is; nothing where it says that it is whole.
    pub fn of(attributes: &Attributes) -> Option<Part> {
        let [no, count, tensors] = KEYS.map(|(key, _)| {
            let n = attributes.get(key).and_then(Value::as_integer);
            n.and_then(|n| u32::try_from(n).ok())
        });
        Some(Part { no: no?, count: count.filter(|count| *count > 1)?, tensors })
    }
}

/// Says that a file is part `no`, from 0 on, of `count`, which have so many tensors together.
pub fn set_part(attributes: &mut Attributes, no: u16, count: u16, tensors: i32) {
    leave_parts(attributes);
    let mut types = match attributes.remove(TYPES) {
        Some(Value::Map(types)) => types,
        _ => Vec::new(),
    };
    for ((key, of), n) in KEYS.into_iter().zip([i32::from(no), i32::from(count), tensors]) {
        attributes.push(key, Value::Integer(n.into()));
        types.push((Value::Text(key.into()), Value::Text(of.into())));
    }
    attributes.push(TYPES, Value::Map(types));
}

/// Takes away what only a part says.
pub fn leave_parts(attributes: &mut Attributes) {
    for (key, _) in KEYS {
        attributes.remove(key);
    }
    if let Some(Value::Map(mut types)) = attributes.remove(TYPES) {
        types.retain(|(key, _)| !KEYS.iter().any(|(own, _)| key.as_text() == Some(own)));
        if !types.is_empty() {
            attributes.push(TYPES, Value::Map(types));
        }
    }
}
