//! The attributes that state which part of a split file a file is.

use super::value::TYPES;
use crate::ModelPart;
use holdall_core::model::{Attributes, Value};

/// The keys, and the types of their values.
const KEYS: [(&str, &str); 3] =
    [("split.no", "u16"), ("split.count", "u16"), ("split.tensors.count", "i32")];

/// Returns the part that a file with these attributes is, or `None` if the file is whole.
pub(super) fn part_of(attributes: &Attributes) -> Option<ModelPart> {
    let [number, count, tensors] = KEYS.map(|(key, _)| {
        let n = attributes.get(key).and_then(Value::as_integer);
        n.and_then(|n| u32::try_from(n).ok())
    });
    let count = count.filter(|count| *count > 1)?;
    Some(ModelPart { index: number?, count, tensors })
}

/// Sets the attributes of part `number`, counted from 0, of `count` parts, which have `tensors` tensors together.
pub(super) fn set_part(attributes: &mut Attributes, number: u16, count: u16, tensors: i32) {
    leave_parts(attributes);
    let mut types = match attributes.remove(TYPES) {
        Some(Value::Map(types)) => types,
        _ => Vec::new(),
    };
    for ((key, value_type), n) in
        KEYS.into_iter().zip([i32::from(number), i32::from(count), tensors])
    {
        attributes.push(key, Value::Integer(n.into()));
        types.push((Value::Text(key.into()), Value::Text(value_type.into())));
    }
    attributes.push(TYPES, Value::Map(types));
}

/// Removes the attributes that only a part has.
pub(super) fn leave_parts(attributes: &mut Attributes) {
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
