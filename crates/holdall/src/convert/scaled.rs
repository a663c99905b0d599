//! Weights of few bits whose scales are separate tensors, as in quantized models: their numbers have no
//! meaning without the scales.

use super::Convert;
use crate::form::TensorForm;
use holdall_core::{Error, Layout};
use holdall_io::Tensor;
use holdall_io::select::scaled_weight;

impl Convert {
    /// Returns the error if a tensor cannot be quantized because a separate scale tensor gives the meaning of
    /// its elements. [`Casts`](crate::Casts) refuse such tensors themselves.
    pub(super) fn scaled(&self, tensor: &Tensor) -> Option<Error> {
        let element_type = tensor.dense_type().filter(|_| *tensor.layout() == Layout::Dense)?;
        let form = self.reforms.target(tensor.name()).filter(|to| {
            matches!(to, TensorForm::Group(_) | TensorForm::Blocks(_)) && tensor.shape().len() >= 2
        });
        scaled_weight(tensor, &element_type, form?)
    }
}
