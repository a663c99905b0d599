//! Tensors of a package as values.

use super::PackageReader;
use super::rules::{NO_TENSOR, NOT_HERE};
use bytes::Bytes;
use holdall_core::model::element_count;
use holdall_core::{Error, Remedy, Result};
use holdall_package::{
    TENSOR_DATA, TensorKind, TensorValue, ValueType, rules::TENSOR_LEN, tensors, warnings,
};

impl PackageReader {
    /// Returns the tensor of this name in `tensor_data`.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::read`]; a `NotFound` error if there is no such tensor; a `Malformed` error if its file does not match its row.
    pub fn value(&self, tensor: &str) -> Result<TensorValue> {
        let row = self.inner.numbers.get(tensor).and_then(|at| self.tensors().get(*at));
        let Some(row) = row else { return Err(self.no_tensor(tensor)) };
        match &row.kind {
            TensorKind::Plain { ty, shape, file } => {
                let bytes = self.read(&format!("{TENSOR_DATA}/{file}"))?;
                let value = match ty {
                    ValueType::String => {
                        let count = element_count(shape).unwrap_or(u64::MAX);
                        let limits = self.inner.options.limits();
                        tensors::strings(&bytes, count, limits)
                            .map(|data| TensorValue::Strings { shape: shape.clone(), data })
                    }
                    ty => numbers(*ty, shape, bytes),
                };
                value.map_err(|e| e.in_tensor(tensor).in_source(self.name()))
            }
            // The inner tensors are not nested: that was checked when the rows were read.
            TensorKind::Nested { inner } => {
                let values = inner.iter().map(|name| self.value(name)).collect::<Result<_>>()?;
                Ok(TensorValue::Nested(values))
            }
        }
    }

    #[cold]
    fn no_tensor(&self, name: &str) -> Error {
        if self.warnings().iter().any(|w| w.code == warnings::LINKED_INDEX) {
            let message = "the table of tensors is not in the package, which only links to it";
            return NOT_HERE.broken(message).in_tensor(name).in_source(self.name());
        }
        let e = NO_TENSOR.broken("there is no tensor of this name").in_tensor(name);
        let e = e.in_source(self.name());
        match crate::select::nearest(name, self.tensors().iter().map(|row| row.name.as_str())) {
            Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
            None => e,
        }
    }
}

/// Creates a tensor of numbers. The length of a linked file is first checked here.
fn numbers(ty: ValueType, shape: &[u64], data: Bytes) -> Result<TensorValue> {
    let wanted = element_count(shape).and_then(|n| n.checked_mul(ty.width().unwrap_or(0)));
    let found = data.len() as u64;
    if wanted != Some(found) {
        let (ty, wanted) = (ty.as_str(), wanted.unwrap_or(u64::MAX));
        let message = format!("shape {shape:?} of {ty} takes {wanted} bytes, its file has {found}");
        return Err(TENSOR_LEN.broken(message));
    }
    Ok(TensorValue::Numbers { ty, shape: shape.to_vec(), data })
}
