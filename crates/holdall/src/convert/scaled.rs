//! Weights of few bits whose scales are other tensors, as quantized models have them: their numbers mean nothing without.

use super::Convert;
use crate::form::TensorForm;
use holdall_core::{Error, Layout};
use holdall_io::Tensor;
use holdall_io::select::scaled_weight;

impl Convert {
    /// Returns why a tensor is not quantized: a scale beside it says what its elements are. [`Casts`](crate::Casts) refuse such a
    /// tensor themselves.
    pub(super) fn scaled(&self, tensor: &Tensor) -> Option<Error> {
        let of = tensor.dense_type().filter(|_| *tensor.layout() == Layout::Dense)?;
        let form = self.reforms.target(tensor.name()).filter(|to| {
            matches!(to, TensorForm::Group(_) | TensorForm::Blocks(_)) && tensor.shape().len() >= 2
        });
        scaled_weight(tensor, &of, form?)
    }
}
