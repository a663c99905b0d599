//! `tensor_data/index.toml`: the table of tensors for self-tests and examples.

use crate::fields::{self, Fields};
use crate::rules::*;
use crate::value::ValueType;
use crate::{TENSOR_INDEX, paths};
use holdall_collections::HashMap;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::element_count;
use holdall_core::wire::toml::Value;

/// The file name of the table.
const INDEX_FILE: &str = "index.toml";

/// A row of `tensor_data/index.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorRow {
    /// Unique name in the file.
    pub name: String,
    /// The kind of tensor.
    pub kind: TensorKind,
}

/// The kind of tensor that a row of `tensor_data/index.toml` describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorKind {
    /// A numeric tensor with a `.bin` file, or a string tensor with a `.toml` file.
    Plain {
        /// Type of the elements.
        ty: ValueType,
        /// Elements along each dimension; empty for a scalar.
        shape: Vec<u64>,
        /// Path of a file below `tensor_data`.
        file: String,
    },
    /// Tensors of one type and rank, by name.
    Nested {
        /// Names of plain tensors of the file.
        inner: Vec<String>,
    },
}

/// Parses the text of `tensor_data/index.toml`.
///
/// # Errors
/// Returns [`MISSING_FIELD`], [`FIELD`], [`DTYPE`], [`SHAPE`], [`DUPLICATE_NAME`], [`TENSOR_FILE`], [`NESTED`], and
/// the rules of TOML.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Vec<TensorRow>> {
    let table = fields::parse(bytes, TENSOR_INDEX, limits)?;
    let top = Fields::new(&table, TENSOR_INDEX);
    let tables = top.tables("tensor")?;
    let rows = tables.iter().map(|fields| row(fields, limits)).collect::<Result<Vec<_>>>()?;
    let mut by_name = HashMap::default();
    for (row, fields) in rows.iter().zip(&tables) {
        if by_name.insert(row.name.as_str(), row).is_some() {
            let message = format!("another tensor is named `{}`", row.name.escaped());
            return Err(fields.broken(&DUPLICATE_NAME, message));
        }
    }
    for (row, fields) in rows.iter().zip(&tables) {
        if let TensorKind::Nested { inner } = &row.kind {
            check_nested(inner, &by_name, fields)?;
        }
    }
    Ok(rows)
}

fn row(fields: &Fields<'_>, limits: &Limits) -> Result<TensorRow> {
    let name = fields.required_text("name")?.to_owned();
    let dtype = fields.required_text("dtype")?;
    if dtype == "nested" {
        let inner = fields.texts("inner")?.unwrap_or_default();
        return Ok(TensorRow { name, kind: TensorKind::Nested { inner } });
    }
    let ty = ValueType::by_name(dtype).ok_or_else(|| {
        fields.broken(&DTYPE, format!("dtype `{}` is not known", dtype.escaped()))
    })?;
    let shape = shape(fields, limits)?;
    if element_count(&shape).and_then(|n| n.checked_mul(ty.width().unwrap_or(1))).is_none() {
        return Err(fields.broken(&SHAPE, format!("shape {shape:?} of {dtype} passes 2^64 bytes")));
    }
    let file = fields.required_text("file")?.to_owned();
    if file == INDEX_FILE || paths::check(&file).is_err() {
        let message = format!("`file` is `{}`", file.escaped());
        return Err(fields.broken(&TENSOR_FILE, message));
    }
    Ok(TensorRow { name, kind: TensorKind::Plain { ty, shape, file } })
}

fn shape(fields: &Fields<'_>, limits: &Limits) -> Result<Vec<u64>> {
    let broken = |what: String| fields.broken(&SHAPE, what);
    let Value::Array(dims) = fields.required_value("shape")? else {
        return Err(broken("`shape` is not a list".into()));
    };
    if dims.len() > limits.rank {
        return Err(broken(format!("{} dimensions, at most {}", dims.len(), limits.rank)));
    }
    let dim = |value: &Value| {
        let size = value.as_integer().and_then(|n| u64::try_from(n).ok());
        size.ok_or_else(|| {
            broken(match value {
                Value::Integer(n) => format!("a dimension is {n}"),
                other => format!("a dimension is {}", other.type_str()),
            })
        })
    };
    dims.iter().map(dim).collect()
}

fn check_nested(
    inner: &[String],
    by_name: &HashMap<&str, &TensorRow>,
    fields: &Fields<'_>,
) -> Result<()> {
    let mut first = None;
    for name in inner {
        let shown = name.escaped();
        let Some(row) = by_name.get(name.as_str()) else {
            return Err(fields.broken(&NESTED, format!("there is no tensor `{shown}`")));
        };
        let TensorKind::Plain { ty, shape, .. } = &row.kind else {
            return Err(fields.broken(&NESTED, format!("`{shown}` is nested itself")));
        };
        let found = (*ty, shape.len());
        let wanted = *first.get_or_insert(found);
        if found != wanted {
            let message = format!(
                "`{shown}` is {} of rank {}, the first of the inner tensors {} of rank {}",
                found.0.as_str(),
                found.1,
                wanted.0.as_str(),
                wanted.1
            );
            return Err(fields.broken(&NESTED, message));
        }
    }
    if let Some(Value::Array(dims)) = fields.table.get("shape")
        && let Some(count) = dims.first()
        && count.as_integer() != i64::try_from(inner.len()).ok()
    {
        let message = format!("its shape starts with {count}, and it has {}", inner.len());
        return Err(fields.broken(&NESTED, message));
    }
    Ok(())
}

/// Parses the file of a string tensor with `count` elements.
///
/// # Errors
/// Returns [`STRINGS`], and the rules of TOML.
pub fn strings(bytes: &[u8], count: u64, limits: &Limits) -> Result<Vec<String>> {
    let mut table = holdall_core::wire::toml::parse(bytes, limits)?;
    let Some(Value::Array(data)) = table.remove("data") else {
        return Err(STRINGS.broken("`data` is not a list"));
    };
    if data.len() as u64 != count {
        return Err(STRINGS.broken(format!("{} strings, the shape has {count}", data.len())));
    }
    let text = |value: Value| match value {
        Value::String(text) => Ok(text),
        other => Err(STRINGS.broken(format!("an element of `data` is {}", other.type_str()))),
    };
    data.into_iter().map(text).collect()
}
