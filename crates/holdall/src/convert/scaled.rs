//! Weights of few bits whose scales are other tensors, as quantized models have them: their numbers mean nothing without.

use super::Convert;
use crate::form::Form;
use holdall_core::layout::cast::FloatType;
use holdall_core::layout::number::ElementType;
use holdall_core::{Error, Layout};
use holdall_io::Tensor;
use holdall_io::select::scaled_weight;

impl Convert {
    /// Why the elements of a tensor are not made others of them: a scale beside it says what they are.
    pub(super) fn scaled(&self, tensor: &Tensor) -> Option<Error> {
        let of = tensor.dense_type().filter(|_| *tensor.layout() == Layout::Dense)?;
        let cast = self.casts.target(tensor.name()).filter(|to| !is_of(&of, *to));
        let form = self.reforms.target(tensor.name()).filter(|to| {
            matches!(to, Form::Group(_) | Form::Blocks(_)) && tensor.shape().len() >= 2
        });
        let to = match (cast, form) {
            (Some(to), _) => to.to_string(),
            (None, Some(form)) => form.to_string(),
            (None, None) => return None,
        };
        scaled_weight(tensor, &of, to)
    }
}

fn is_of(of: &ElementType, to: FloatType) -> bool {
    FloatType::of(of.dtype, of.logical_type.as_ref()) == Some(to)
}
