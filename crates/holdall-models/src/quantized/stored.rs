//! The stored tensors of a model, as the search for quantized weights sees them.

use super::{SHAPE, TYPE};
use holdall_collections::HashMap;
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::element_count;
use holdall_core::{DType, LogicalType};

/// The description of a stored, dense tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTensor {
    /// The name.
    pub name: String,
    /// The storage element type.
    pub dtype: DType,
    /// The meaning of the elements beyond their storage type.
    pub logical_type: Option<LogicalType>,
    /// The dimensions, in elements.
    pub shape: Vec<u64>,
}

/// The stored tensors of a model, from all of its files.
#[derive(Debug, Clone, Default)]
pub struct StoredTensors {
    all: Vec<StoredTensor>,
    by_name: HashMap<String, usize>,
    /// The indices of the tensors, in the order of their names.
    sorted: Vec<usize>,
}

impl StoredTensors {
    /// Creates the list. Of two tensors with the same name the first one counts.
    pub fn new(tensors: impl IntoIterator<Item = StoredTensor>) -> StoredTensors {
        let mut out = StoredTensors::default();
        for tensor in tensors {
            out.by_name.entry(tensor.name.clone()).or_insert(out.all.len());
            out.all.push(tensor);
        }
        let name = |at: &usize| out.all.get(*at).map(|tensor| tensor.name.as_str());
        let mut sorted: Vec<usize> = (0..out.all.len()).collect();
        sorted.sort_by(|a, b| name(a).cmp(&name(b)));
        out.sorted = sorted;
        out
    }

    /// Returns the tensors, in the order of the model.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &StoredTensor> {
        self.all.iter()
    }

    /// Returns the tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&StoredTensor> {
        self.all.get(self.index_of(name)?)
    }

    /// Returns the names that begin with `prefix`, sorted.
    pub(super) fn names_from<'a>(
        &'a self,
        prefix: &str,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = |at: &usize| self.all.get(*at).map_or("", |tensor| tensor.name.as_str());
        let start = self.sorted.partition_point(|at| name(at) < prefix);
        let prefix = prefix.to_owned();
        self.sorted
            .iter()
            .skip(start)
            .map(name)
            .take_while(move |name| name.starts_with(prefix.as_str()))
    }

    /// Returns the index of the tensor called `name`.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

impl StoredTensor {
    /// Returns the number of elements. `None` if it exceeds 64 bits.
    pub(super) fn count(&self) -> Option<u64> {
        element_count(&self.shape)
    }

    /// Returns the number of bytes. `None` if it exceeds 64 bits.
    pub(super) fn byte_len(&self) -> Option<u64> {
        let count = self.count()?;
        match self.logical_type.as_ref().and_then(LogicalType::bits) {
            Some(bits) => Some(count.checked_mul(bits)?.div_ceil(8)),
            None => count.checked_mul(self.dtype.width()),
        }
    }

    /// Returns `true` if the elements have this storage type and no further meaning.
    pub(super) fn is_plain(&self, dtype: DType) -> bool {
        self.dtype == dtype && self.logical_type.is_none()
    }

    /// Returns `true` if the elements are floats of 16 to 64 bits.
    pub(super) fn is_wide_float(&self) -> bool {
        let floats = [DType::F16, DType::Bf16, DType::F32, DType::F64];
        self.logical_type.is_none() && floats.contains(&self.dtype)
    }

    /// Returns `true` if the elements are floats of 8 bits with a sign.
    pub(super) fn is_fp8(&self) -> bool {
        use LogicalType::{F8E4M3Fn, F8E4M3FnUz, F8E5M2, F8E5M2FnUz};
        matches!(self.logical_type, Some(F8E4M3Fn | F8E4M3FnUz | F8E5M2 | F8E5M2FnUz))
    }

    /// Returns `true` if the elements have this logical type.
    pub(super) fn is_of(&self, logical: &LogicalType) -> bool {
        self.logical_type.as_ref() == Some(logical)
    }

    /// Returns the element type for messages.
    pub(super) fn type_name(&self) -> String {
        match &self.logical_type {
            Some(logical) => logical.as_str().escaped().to_string(),
            None => self.dtype.to_string(),
        }
    }

    /// Checks the shape.
    pub(super) fn expect_shape(&self, shape: &[u64]) -> Result<()> {
        if self.shape == shape {
            return Ok(());
        }
        let message = format!("expected shape {shape:?}, found {:?}", self.shape);
        Err(SHAPE.broken(message).in_tensor(&self.name))
    }

    /// Checks a property of the element type.
    pub(super) fn expect_type(&self, is_right: bool, expected: &str) -> Result<()> {
        if is_right {
            return Ok(());
        }
        let message = format!("expected elements of {expected}, found {}", self.type_name());
        Err(TYPE.broken(message).in_tensor(&self.name))
    }
}
