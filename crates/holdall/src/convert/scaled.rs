//! Refuses to quantize the weights of quantized models whose scales are separate tensors: the numbers have no
//! meaning without the scales.

use super::Convert;
use crate::form::TensorForm;
use holdall_core::{Error, Layout};
use holdall_io::Tensor;
use holdall_io::select::scaled_weight;

impl Convert {
    /// Returns an error if a tensor cannot be quantized because its scales are in a separate tensor. Casts check that
    /// themselves ([`Casts`](crate::Casts)).
    pub(super) fn scaled_weight_error(&self, tensor: &Tensor) -> Option<Error> {
        let element_type = tensor.dense_type().filter(|_| *tensor.layout() == Layout::Dense)?;
        let form = self.reforms.target(tensor.name()).filter(|to| {
            matches!(to, TensorForm::Group(_) | TensorForm::Blocks(_)) && tensor.shape().len() >= 2
        });
        scaled_weight(tensor, &element_type, form?)
    }
}
