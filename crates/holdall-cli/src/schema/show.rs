//! Kinds in a few words: `Int32`, `F32 [20, 5]`, `String []`, `Enum of 3`, `Blob utf-8`.

use holdall_schema::{Dim, Kind, Len, Schema, Symbols, TensorType, TypeId};

/// A type.
pub(super) fn ty(schema: &Schema, id: TypeId, symbols: &Symbols) -> String {
    match &schema.ty(id).kind {
        Kind::Tensor(tensor) => self::tensor(tensor, symbols),
        Kind::Enum(e) => format!("Enum of {}", e.values.len()),
        // The height of a schema is bounded, and so is this recursion.
        Kind::Array(array) => format!("{} {}", ty(schema, array.items, symbols), len(array.len)),
        other => other.as_str().to_owned(),
    }
}

/// A tensor, its symbols replaced by their numbers.
pub(super) fn tensor(tensor: &TensorType, symbols: &Symbols) -> String {
    let dim = |dim: &Dim| match dim {
        Dim::Known(n) => n.to_string(),
        Dim::Any => "null".to_owned(),
        Dim::Symbol(name) => match symbols.get(name) {
            Some(n) => n.to_string(),
            None => name.to_string(),
        },
    };
    let dtype = tensor.dtype.map_or("Tensor", |d| d.as_str());
    match &tensor.shape {
        None => dtype.to_owned(),
        Some(shape) => {
            let dims: Vec<String> = shape.iter().map(dim).collect();
            format!("{dtype} [{}]", dims.join(", "))
        }
    }
}

/// `[3]`, `[]`, `[1..]`, `[0..5]`: bounds include both ends.
pub(super) fn len(len: Len) -> String {
    match len {
        Len::Fixed(n) => format!("[{n}]"),
        Len::Variable { min: 0, max: None } => "[]".to_owned(),
        Len::Variable { min, max: None } => format!("[{min}..]"),
        Len::Variable { min, max: Some(max) } => format!("[{min}..{max}]"),
    }
}
