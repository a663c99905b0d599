//! The capabilities of each version that can be written.

use super::rules::*;
use super::v0::{self, FILE_ATTRIBUTES as FILE_ATTRIBUTES_FIELD};
use super::v1::{is_index_role, layout_of};
use holdall_collections::DebugUnwrap;
use holdall_core::encode::{ComponentSpec, TensorSpec};
use holdall_core::error::{Escape as _, Remedy, Result};
use holdall_core::layout::sparse::packed_count;
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, DType, Layout, Role, Value, element_count, stored_size};
use holdall_core::wire::cbor;

/// A version that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V0_1,
    V1_0,
    /// Written only if an existing file of this version is edited.
    V1_1,
    V1_2,
}

/// Returns the maximum depth of an attribute of a file or a tensor, so that the whole manifest stays within the depth
/// that readers accept, independent of [`holdall_core::Limits::depth`].
fn most_depth(version: Version, is_of_file: bool) -> usize {
    let around = match (version, is_of_file) {
        // Levels: the manifest, the first tensor, the map of the attributes.
        (Version::V0_1, true) => 3,
        (Version::V0_1, false) => 2,
        (_, true) => 2,
        // Levels: the manifest, the table, the tensor, its attributes.
        (_, false) => 4,
    };
    cbor::MAX_DEPTH.saturating_sub(around)
}

/// The fields of a tensor in 0.1.
const RESERVED: [&str; 10] = [
    "name",
    "offset",
    "size",
    "dtype",
    "shape",
    "encoding",
    "layout",
    "data_endianness",
    "checksum",
    FILE_ATTRIBUTES_FIELD,
];

/// Checks that the version can store the file's attributes. In 0.1, this also requires a tensor, which is checked at
/// the end.
///
/// # Errors
/// Returns [`FILE_ATTRIBUTES`], [`cbor::NOT_CBOR`] or [`cbor::DEPTH`] if it cannot.
pub(super) fn check_attributes(version: Version, attributes: &Attributes) -> Result<()> {
    check_values(attributes, most_depth(version, true))?;
    // There is no document of 1.1; its readers accept text.
    if version == Version::V1_1
        && let Some((key, _)) = attributes.iter().find(|(_, value)| value.as_text().is_none())
    {
        let message = format!(
            "zTensor 1.1 stores only attributes that are text, and `{}` is not",
            key.escaped()
        );
        return Err(FILE_ATTRIBUTES.broken(message));
    }
    Ok(())
}

/// Checks that the tensor is valid and that the version can store it.
///
/// # Errors
/// Returns [`LAYOUT`], [`LOGICAL_TYPE`], [`TENSOR_ATTRIBUTES`], [`RESERVED_FIELD`], [`ONE_DTYPE`], [`WIDE_INDICES`],
/// [`COMPONENTS`], [`cbor::NOT_CBOR`] or [`cbor::DEPTH`] if not.
pub(super) fn check_tensor(version: Version, tensor: &TensorSpec) -> Result<()> {
    check_layout(version, tensor)
        .and_then(|()| check_tensor_attributes(version, tensor))
        .and_then(|()| check_components(version, tensor))
        .map_err(|e| e.in_tensor(&tensor.name))
}

fn check_values(attributes: &Attributes, depth: usize) -> Result<()> {
    for (_, value) in attributes.iter() {
        cbor::check(value, depth)?;
    }
    cbor::check_keys(attributes)
}

fn check_layout(version: Version, tensor: &TensorSpec) -> Result<()> {
    let layout = &tensor.layout;
    let fits = match layout {
        Layout::Dense | Layout::SparseCsr | Layout::SparseCoo => true,
        Layout::PackedCsr | Layout::PackedCoo => version == Version::V0_1,
        Layout::QuantizedGroup => version == Version::V1_2,
        Layout::Blocks(_) | Layout::Planes(_) => version != Version::V0_1,
        // These layouts are made dense.
        Layout::Strided | Layout::SparseBlocks | Layout::SparseHybrid => false,
        // Records and blobs need their schema, which is an attribute of the tensor.
        Layout::Records | Layout::Blob => version == Version::V1_2,
        // A name that is read as a known layout cannot be that of an unknown one.
        Layout::Other(name) if version == Version::V0_1 => {
            v0::named_layout(name, &tensor.attributes).is_none()
                && matches!(&tensor.components[..], [one] if one.role == Role::Data)
        }
        Layout::Other(name) => layout_of(name) == *layout,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let version = version.as_str();
    let name = layout.as_str().escaped();
    let e = LAYOUT.broken(format!("zTensor {version} has no layout `{name}`"));
    Err(match layout {
        // Tensors with an unknown layout cannot be made dense either.
        Layout::Other(_) => e.with_remedy(Remedy::LeaveOut),
        Layout::Records | Layout::Blob => e
            .with_remedy(Remedy::WriteFormat { format: "ztensor", version: "1.2" })
            .with_remedy(Remedy::LeaveOut),
        _ => e,
    })
}

fn check_tensor_attributes(version: Version, tensor: &TensorSpec) -> Result<()> {
    let attributes = &tensor.attributes;
    check_values(attributes, most_depth(version, false))?;
    match version {
        Version::V1_2 => {}
        Version::V1_0 | Version::V1_1 => {
            if let Some((key, _)) = attributes.iter().next() {
                let others = match attributes.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count.saturating_sub(1)),
                };
                return Err(TENSOR_ATTRIBUTES.broken(format!(
                    "zTensor {} cannot store attributes of tensors, such as `{}`{others}",
                    version.as_str(),
                    key.escaped()
                )));
            }
        }
        Version::V0_1 => {
            let of_layout: &[&str] = match tensor.layout {
                Layout::Dense | Layout::Other(_) => &[],
                Layout::SparseCsr => &["sparse_format", "nnz", "indices", "indptr"],
                Layout::SparseCoo => &["sparse_format", "nnz", "coords"],
                _ => &["sparse_format", "nnz"],
            };
            let reserved = |key: &str| RESERVED.contains(&key) || of_layout.contains(&key);
            if let Some((key, _)) = attributes.iter().find(|(key, _)| reserved(key)) {
                return Err(RESERVED_FIELD
                    .broken(format!("the name `{key}` is that of a field of zTensor 0.1")));
            }
        }
    }
    Ok(())
}

fn check_components(version: Version, tensor: &TensorSpec) -> Result<()> {
    let components = &tensor.components;
    tensor.check_roles(&COMPONENTS)?;
    for c in components {
        check_component(version, tensor, c).map_err(|e| e.in_component(&c.role))?;
    }
    match version {
        Version::V0_1 => one_stored(tensor),
        Version::V1_0 => one_dtype(tensor).map(|_| ()),
        _ => Ok(()),
    }
}

fn check_component(version: Version, tensor: &TensorSpec, c: &ComponentSpec) -> Result<()> {
    if let Some(t) = &c.logical_type
        && version != Version::V1_2
    {
        let name = t.as_str().escaped();
        let version = version.as_str();
        return Err(LOGICAL_TYPE.broken(format!("zTensor {version} has no logical type `{name}`")));
    }
    if is_index_role(&tensor.layout, c.role.as_str()) && c.dtype != DType::U64 {
        return Err(WIDE_INDICES.broken(format!("indices are written as u64, not {}", c.dtype)));
    }
    let (shape, dtype, len) = (&tensor.shape, c.dtype, c.decoded_len);
    let fits = match &tensor.layout {
        layout @ (Layout::PackedCsr | Layout::PackedCoo) => {
            packed_count(layout, shape, dtype, len).is_some()
        }
        Layout::Dense if c.role == Role::Data => {
            let count = element_count(shape);
            let size = count.and_then(|n| stored_size(n, dtype, c.logical_type.as_ref()).ok());
            match size {
                Some(Some(size)) => size == len,
                // Of an unknown logical type, only the dtype is known.
                Some(None) => len.is_multiple_of(dtype.width()),
                None => false,
            }
        }
        _ => element_count(shape).is_some() && len.is_multiple_of(dtype.width()),
    };
    if fits {
        return Ok(());
    }
    Err(COMPONENTS.broken(format!(
        "{len} bytes do not fit `{}` of shape {shape:?} and dtype {dtype} in layout `{}`",
        c.role, tensor.layout
    )))
}

/// Checks that a tensor of 0.1 has exactly one stored component, and that the number of indices fits that of values.
/// Otherwise readers would take the values for a packed component.
///
/// # Errors
/// Returns [`LAYOUT`] or [`COMPONENTS`] if not.
fn one_stored(tensor: &TensorSpec) -> Result<()> {
    let TensorSpec { layout, components, .. } = tensor;
    let stored = components.iter().filter(|c| !is_index_role(layout, c.role.as_str())).count();
    if stored > 1 {
        let message = format!("zTensor 0.1 stores one component of a tensor, found {stored}");
        return Err(LAYOUT.broken(message).with_remedy(Remedy::LeaveOut));
    }
    let count = |role: Role| {
        let of_role = components.iter().find(|c| c.role == role);
        of_role.and_then(|c| c.decoded_len.checked_div(c.dtype.width()))
    };
    check_stated(stated(tensor))?;
    let values = count(Role::Values).unwrap_or_default();
    let (expected, indices) = match layout {
        Layout::SparseCsr => (Some(values), count(Role::Indices)),
        Layout::SparseCoo => {
            let rank = u64::try_from(tensor.shape.len()).ok();
            (rank.and_then(|rank| values.checked_mul(rank)), count(Role::Coords))
        }
        _ => return Ok(()),
    };
    if expected == indices {
        return Ok(());
    }
    let (indices, shape) = (indices.unwrap_or_default(), &tensor.shape);
    Err(COMPONENTS
        .broken(format!("{indices} indices do not fit {values} values of shape {shape:?}")))
}

/// Returns the number of indices that the manifest of a 0.1 file has for this tensor.
pub(super) fn stated(tensor: &TensorSpec) -> u64 {
    let is_index = |c: &&ComponentSpec| is_index_role(&tensor.layout, c.role.as_str());
    let lens = tensor.components.iter().filter(is_index).map(|c| c.decoded_len);
    lens.fold(0u64, u64::saturating_add).checked_div(DType::U64.width()).debug_unwrap()
}

/// Checks that readers will accept a manifest with this number of indices.
///
/// # Errors
/// Returns [`LAYOUT`] if there are too many.
pub(super) fn check_stated(count: u64) -> Result<()> {
    let most = Limits::default().attribute_values;
    if count <= most {
        return Ok(());
    }
    let message = format!(
        "the manifest would have {count} indices, but readers accept at most {most} values"
    );
    Err(LAYOUT
        .broken(message)
        .with_remedy(Remedy::WriteFormat { format: "ztensor", version: "1.2" }))
}

/// Returns the dtype of a tensor in 1.0, which has only one.
///
/// # Errors
/// Returns [`ONE_DTYPE`] if components have several.
pub(super) fn one_dtype(tensor: &TensorSpec) -> Result<DType> {
    let own = |c: &&ComponentSpec| !is_index_role(&tensor.layout, c.role.as_str());
    let mut dtypes = tensor.components.iter().filter(own).map(|c| c.dtype);
    let first = dtypes.next().ok_or_else(|| ONE_DTYPE.broken("no component has a dtype"))?;
    match dtypes.find(|&dtype| dtype != first) {
        None => Ok(first),
        Some(other) => Err(ONE_DTYPE
            .broken(format!("zTensor 1.0 has one dtype for a tensor, found {first} and {other}"))),
    }
}

impl Version {
    /// Returns the name, as in [`crate::Format::versions`].
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Version::V0_1 => "0.1",
            Version::V1_0 => "1.0",
            Version::V1_1 => "1.1",
            Version::V1_2 => "1.2",
        }
    }

    /// Returns the version for the text that a file states.
    pub(super) fn stated(text: &str) -> Option<Version> {
        let mut parts = text.split('.');
        let mut number = || parts.next()?.parse::<u64>().ok();
        match (number()?, number()?) {
            (0, 1) => Some(Version::V0_1),
            (1, 0) => Some(Version::V1_0),
            (1, 1) => Some(Version::V1_1),
            (1, 2) => Some(Version::V1_2),
            _ => None,
        }
    }

    /// Returns the version with this name, with or without a patch number of 0.
    pub(super) fn from_name(name: &str) -> Option<Version> {
        let name = name.strip_suffix(".0").filter(|name| name.contains('.')).unwrap_or(name);
        [Version::V1_2, Version::V1_0, Version::V0_1].into_iter().find(|v| v.as_str() == name)
    }
}

/// Returns the file's attributes as one value, for 0.1.
pub(super) fn as_value(attributes: &Attributes) -> Value {
    let pairs = attributes.iter();
    Value::Map(pairs.map(|(key, value)| (Value::Text(key.to_owned()), value.clone())).collect())
}
