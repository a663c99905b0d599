//! Checks that a file can store given tensors and attributes.

use super::{ATTRIBUTE, BLOCK_BYTES, BLOCK_ELEMENTS, COMPONENTS, LOGICAL_TYPE, OTHER_LAYOUT};
use super::{TENSOR_NAME, groups, is_name, layout_of};
use holdall_core::encode::{ComponentSpec, TensorSpec};
use holdall_core::error::{Escape as _, Remedy, Result};
use holdall_core::model::{
    Attributes, DType, Layout, LogicalType, Role, Value, element_count, stored_size,
};
use holdall_core::wire::cbor;

/// The maximum levels of the values of attributes of a file and of a tensor: 32 less those around them.
const LEVELS_OF_FILE: usize = 30;
const LEVELS_OF_TENSOR: usize = 28;

/// Checks that a file can have these attributes.
///
/// # Errors
/// Returns [`ATTRIBUTE`] if it cannot.
pub(super) fn check_attributes(attributes: &Attributes) -> Result<()> {
    check_values(attributes, LEVELS_OF_FILE)
}

/// Checks that the tensor is valid and that a file can store it.
///
/// # Errors
/// Returns [`TENSOR_NAME`], [`OTHER_LAYOUT`], [`ATTRIBUTE`], [`LOGICAL_TYPE`] or [`COMPONENTS`] if not.
pub(super) fn check_tensor(tensor: &TensorSpec) -> Result<()> {
    check_layout(&tensor.layout)
        .and_then(|()| check_name(&tensor.name))
        .and_then(|()| check_tensor_attributes(tensor))
        .and_then(|()| check_components(tensor))
        .and_then(|()| match tensor.layout {
            Layout::QuantizedGroup => groups::write(tensor).map(drop),
            _ => Ok(()),
        })
        .map_err(|e| e.in_tensor(&tensor.name))
}

fn check_name(name: &str) -> Result<()> {
    match is_name(name) {
        true => Ok(()),
        false => {
            Err(TENSOR_NAME.broken(format!("its name has {} bytes, or contains NUL", name.len())))
        }
    }
}

fn check_values(attributes: &Attributes, levels: usize) -> Result<()> {
    for (key, value) in attributes.iter() {
        let why = match is_name(key) {
            true => lacking(value, levels),
            false => Some(format!("invalid: its name has {} bytes, or contains NUL", key.len())),
        };
        if let Some(why) = why {
            return Err(ATTRIBUTE.broken(format!("the attribute `{}` is {why}", key.escaped())));
        }
    }
    cbor::check_keys(attributes)
}

/// Returns the reason why a value cannot be stored, if there is one.
fn lacking(value: &Value, levels: usize) -> Option<String> {
    let inner = levels.saturating_sub(1);
    // Values that CBOR cannot represent: integers that are too long, duplicate keys.
    let not_cbor = || {
        cbor::check(value, levels).err().map(|e| format!("not possible in CBOR: {}", e.message()))
    };
    match value {
        Value::Array(_) | Value::Map(_) if levels == 0 => Some("nested too deep".into()),
        Value::Undefined | Value::Simple(_) => Some("a simple value without a meaning".into()),
        Value::Tag(tag, _) => Some(format!("tagged with {tag}")),
        Value::Float(x) if x.is_nan() && x.to_bits() != f64::NAN.to_bits() => {
            Some("a NaN in another form than the only valid one".into())
        }
        Value::Array(items) => items.iter().find_map(|item| lacking(item, inner)),
        Value::Map(pairs) => {
            let of_pair = |(key, value): &(Value, Value)| match key {
                Value::Array(_) | Value::Map(_) => {
                    Some("a map with a key that is not a scalar".into())
                }
                key => lacking(key, inner).or_else(|| lacking(value, inner)),
            };
            pairs.iter().find_map(of_pair).or_else(not_cbor)
        }
        _ => not_cbor(),
    }
}

fn check_layout(layout: &Layout) -> Result<()> {
    let fits = match layout {
        Layout::Dense | Layout::SparseCsr | Layout::SparseCoo | Layout::Blocks(_) => true,
        Layout::QuantizedGroup => true,
        // A name that is read as a known layout cannot be that of an unknown one.
        Layout::Other(name) => layout_of(name) == *layout,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let e = OTHER_LAYOUT.broken(format!("zTensor 2 has no layout `{}`", layout.as_str().escaped()));
    Err(match layout {
        // Records and blobs need their schema.
        Layout::Records | Layout::Blob => {
            e.with_remedy(Remedy::WriteFormat { format: "ztensor", version: "1.2" })
        }
        _ => e,
    })
}

fn check_tensor_attributes(tensor: &TensorSpec) -> Result<()> {
    check_values(&tensor.attributes, LEVELS_OF_TENSOR)?;
    let own = |key: &&str| tensor.attributes.get(key).is_some();
    match [BLOCK_ELEMENTS, BLOCK_BYTES].iter().find(|key| own(key)) {
        Some(key) if matches!(tensor.layout, Layout::Blocks(_)) => Err(ATTRIBUTE.broken(format!(
            "the name `{key}` is that of an attribute that the format gives to blocks"
        ))),
        _ => Ok(()),
    }
}

fn check_components(tensor: &TensorSpec) -> Result<()> {
    let TensorSpec { layout, components, shape, .. } = tensor;
    tensor.check_roles(&COMPONENTS)?;
    let is_known = !matches!(layout, Layout::Other(_));
    // Zero points are optional.
    let optional = usize::from(*layout == Layout::QuantizedGroup);
    let most = layout.required_roles().len().saturating_add(optional);
    if components.is_empty() || (is_known && components.len() > most) {
        let count = components.len();
        return Err(
            COMPONENTS.broken(format!("{count} components do not fit the layout `{layout}`"))
        );
    }
    for c in components {
        check_type(c).map_err(|e| e.in_component(&c.role))?;
    }
    let len = |role: Role| components.iter().find(|c| c.role == role).map(|c| (c, c.decoded_len));
    // Returns the number of bytes of `count` elements of a component, if it is known.
    let sized = |role: Role, count: Option<u64>| {
        let (Some((c, len)), Some(count)) = (len(role), count) else { return false };
        match stored_size(count, c.dtype, c.logical_type.as_ref()) {
            Ok(Some(size)) => size == len,
            Ok(None) => len.is_multiple_of(c.dtype.width()),
            Err(_) => false,
        }
    };
    let indices = |role: Role| match len(role) {
        Some((c, len)) => {
            let is_index = matches!(c.dtype, DType::U32 | DType::U64) && c.logical_type.is_none();
            (is_index && len.is_multiple_of(c.dtype.width())).then_some((c.dtype, len))
        }
        None => None,
    };
    let fits = match layout {
        Layout::Dense => sized(Role::Data, element_count(shape)),
        Layout::Blocks(block_type) => {
            let data = len(Role::Data).filter(|(c, _)| c.dtype == DType::U8);
            data.is_some_and(|(c, len)| {
                c.logical_type.is_none() && block_type.stored_len(shape) == Some(len)
            })
        }
        Layout::SparseCsr => match (indices(Role::Indices), indices(Role::Indptr)) {
            (Some((dtype, len)), Some((other, rows))) => {
                let wanted = shape.first().and_then(|rows| rows.checked_add(1));
                let nnz = len.checked_div(dtype.width());
                shape.len() == 2
                    && dtype == other
                    && wanted.and_then(|n| n.checked_mul(dtype.width())) == Some(rows)
                    && sized(Role::Values, nnz)
            }
            _ => false,
        },
        Layout::SparseCoo => match indices(Role::Coords) {
            // A scalar has values and no coordinates.
            Some((_, len)) if shape.is_empty() => {
                let values = components.iter().find(|c| c.role == Role::Values);
                len == 0 && values.is_some_and(|c| c.decoded_len.is_multiple_of(c.dtype.width()))
            }
            Some((dtype, len)) => {
                let each = (shape.len() as u64).checked_mul(dtype.width());
                let nnz =
                    each.filter(|each| len.is_multiple_of(*each)).and_then(|n| len.checked_div(n));
                sized(Role::Values, nnz)
            }
            None => false,
        },
        _ => components.iter().all(|c| c.decoded_len.is_multiple_of(c.dtype.width())),
    };
    match fits {
        true => Ok(()),
        false => Err(COMPONENTS.broken(format!(
            "its components do not have the types and lengths that layout `{layout}` and shape {shape:?} require"
        ))),
    }
}

/// Checks that a part can have this role and element type.
fn check_type(c: &ComponentSpec) -> Result<()> {
    if !is_name(c.role.as_str()) {
        return Err(
            COMPONENTS.broken("the name of a component is empty, too long, or contains NUL")
        );
    }
    let fits = match &c.logical_type {
        None => true,
        Some(LogicalType::F6E2M3 | LogicalType::F6E3M2) => false,
        // The name must not be that of a known type with another dtype, including `bool`.
        Some(LogicalType::Other(name)) => {
            let is_known = !matches!(LogicalType::from_name(name), LogicalType::Other(_));
            c.dtype != DType::Bool && !is_known && &**name != "bool"
        }
        Some(known) => known.storage() == Some(c.dtype),
    };
    match &c.logical_type {
        Some(t) if !fits => Err(LOGICAL_TYPE.broken(format!(
            "zTensor 2 has no type `{}` over {}",
            t.as_str().escaped(),
            c.dtype
        ))),
        _ => Ok(()),
    }
}
