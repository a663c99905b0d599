//! Parses an input or output declared in one line: `x: f32[batch, 3]`.

use crate::rules::DECLARED;
use crate::{DimSpec, ShapeSpec, ValueSpec, ValueType};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};

/// Short names of the numeric types.
const SHORT: [(&str, ValueType); 10] = [
    ("f32", ValueType::Float32),
    ("f64", ValueType::Float64),
    ("i8", ValueType::Int8),
    ("i16", ValueType::Int16),
    ("i32", ValueType::Int32),
    ("i64", ValueType::Int64),
    ("u8", ValueType::Uint8),
    ("u16", ValueType::Uint16),
    ("u32", ValueType::Uint32),
    ("u64", ValueType::Uint64),
];

/// Parses `NAME: TYPE[DIMENSIONS]`. A dimension is a size, a symbol, or `*` for any; `[]` is a scalar.
/// Instead of the list, a symbol means the whole shape, and `*` or nothing means any shape.
///
/// # Errors
/// Returns `package/declared`.
pub fn declared(text: &str) -> Result<ValueSpec> {
    let broken = |what: String| -> Error {
        let e = DECLARED.broken(format!("`{}`: {what}", text.escaped()));
        e.with_hint("write it as `x: f32[batch, 3]`")
    };
    let Some((name, rest)) = text.rsplit_once(':').filter(|(name, _)| !name.trim().is_empty())
    else {
        return Err(broken("expected a name followed by `:`".to_owned()));
    };
    let rest = rest.trim();
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (dtype, shape) = rest.split_at(end);
    let short = SHORT.iter().find(|(name, _)| *name == dtype).map(|(_, ty)| *ty);
    let Some(ty) = short.or_else(|| ValueType::by_name(dtype)) else {
        return Err(broken(format!("there is no type `{}`", dtype.escaped())));
    };
    let shape = shape.trim();
    let list = shape.strip_prefix('[').map(|rest| rest.strip_suffix(']'));
    let shape = match (list, shape) {
        (Some(None), _) => return Err(broken("the list of dimensions has no end".to_owned())),
        (Some(Some(dims)), _) if dims.trim().is_empty() => ShapeSpec::Dims(Vec::new()),
        (Some(Some(dims)), _) => {
            let dims: Option<Vec<DimSpec>> = dims.split(',').map(dim).collect();
            let wrong = || broken("a dimension is a size, a symbol or `*`".to_owned());
            ShapeSpec::Dims(dims.ok_or_else(wrong)?)
        }
        (None, "" | "*") => ShapeSpec::Any,
        (None, symbol) if is_symbol(symbol) => ShapeSpec::Symbol(symbol.to_owned()),
        (None, _) => return Err(broken("the shape is a list in brackets, or a symbol".to_owned())),
    };
    Ok(ValueSpec::new(name.trim(), ty, shape))
}

fn dim(text: &str) -> Option<DimSpec> {
    match text.trim() {
        "*" => Some(DimSpec::Any),
        // Digits that do not fit TOML's integers.
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse::<i64>().ok().map(|size| DimSpec::Size(size.unsigned_abs()))
        }
        symbol => is_symbol(symbol).then(|| DimSpec::Symbol(symbol.to_owned())),
    }
}

fn is_symbol(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || "_-. +*/".contains(c))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let parsed = |text: &str| {
            let spec = declared(text).unwrap();
            (spec.name, spec.ty, spec.shape)
        };
        let dims = ShapeSpec::Dims;
        let symbol = |s: &str| DimSpec::Symbol(s.to_owned());
        let wanted = dims(vec![symbol("batch"), DimSpec::Size(3), DimSpec::Any]);
        assert_eq!(parsed("x: f32[batch, 3, *]"), ("x".to_owned(), ValueType::Float32, wanted));
        assert_eq!(parsed(" a b :string [] ").2, dims(Vec::new()));
        assert_eq!(parsed("serving:0: int64[n]").0, "serving:0");
        assert_eq!((parsed("x:u8").2, parsed("x: u8*").2), (ShapeSpec::Any, ShapeSpec::Any));
        assert_eq!(parsed("x: u8 whole").2, ShapeSpec::Symbol("whole".to_owned()));
        assert_eq!(parsed("x: f64[n + 1]").2, dims(vec![symbol("n + 1")]));
    }

    #[test]
    fn invalid_declaration_lines_are_errors() {
        for text in [
            "",
            "x",
            ": f32",
            "x: f99",
            "x:",
            "x: f32[",
            "x: f32[]]",
            "x: f32[1,]",
            "x: f32[-1]",
            "x: f32 1",
            "x: f32[9223372036854775808]",
            "x: f32(n)",
            "x: f32[\"n\"]",
        ] {
            assert_eq!(declared(text).unwrap_err().code(), "package/declared", "{text}");
        }
    }
}
