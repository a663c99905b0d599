//! What a delta changes.

use super::apply::view;
use super::{is_difference, read_head};
use holdall_core::Result;
use holdall_core::layout::delta::DeltaHead;
use holdall_io::File;

/// What a delta changes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeltaReport {
    /// The tensors that the delta has, in the order of the file.
    pub tensors: Vec<DeltaTensor>,
    /// The names of the tensors of the base that the target lacks.
    pub removed: Vec<String>,
    /// The number of tensors of the target.
    pub target_tensors: u64,
    /// The digest of the base as a whole, if the delta has it.
    pub base: Option<String>,
    /// Bytes of the file.
    pub len: u64,
}

/// A tensor of a delta.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeltaTensor {
    /// The name.
    pub name: String,
    /// The shape.
    pub shape: Vec<u64>,
    /// The type of the elements: `bf16`.
    pub dtype: String,
    /// The number of elements.
    pub count: u64,
    /// The number of elements that differ; `None` if the tensor is stored whole.
    pub changed: Option<u64>,
    /// Bytes that the tensor takes in the file.
    pub stored_len: u64,
}

/// Returns what a delta changes, after checking each difference.
///
/// # Errors
/// Malformed if the file is not a sound delta; Integrity; Io.
pub fn show(delta: &File) -> Result<DeltaReport> {
    let head = read_head(delta)?;
    let mut tensors = Vec::with_capacity(delta.len());
    for tensor in delta.tensors() {
        tensor.sound()?;
        let (dtype, changed) = match is_difference(&tensor) {
            true => {
                let view = view(&tensor)?;
                let element_type = view.element_type();
                let dtype = match &element_type.logical_type {
                    Some(logical) => logical.to_string(),
                    None => element_type.dtype.to_string(),
                };
                (dtype, Some(view.changed()))
            }
            false => (
                tensor
                    .dense_type()
                    .map(|element_type| element_type.to_string())
                    .unwrap_or_default(),
                None,
            ),
        };
        tensors.push(DeltaTensor {
            name: tensor.name().to_owned(),
            shape: tensor.shape().to_vec(),
            dtype,
            count: tensor.count(),
            changed,
            stored_len: tensor.stored_len(),
        });
    }
    let DeltaHead { removed, base, tensors: target_tensors, .. } = head;
    let len = delta.index().source_len();
    Ok(DeltaReport { tensors, removed, target_tensors, base, len })
}
