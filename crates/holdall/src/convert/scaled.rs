//! Weights of few bits whose scales are other tensors, as quantized models have them: their numbers mean nothing without.

use super::Convert;
use crate::form::Form;
use holdall_core::error::Shown as _;
use holdall_core::layout::cast::FloatType;
use holdall_core::layout::number::{Class, ElementType};
use holdall_core::{Error, Layout};
use holdall_io::Tensor;
use holdall_io::error::SCALED;

/// What the name of a scale has at its end, after the name of its weight.
const SUFFIXES: [&str; 6] = ["_scale_inv", "_scale", "_scales", ".scale_inv", ".scale", ".scales"];
/// What it has there in place of `weight`.
const IN_PLACE: [&str; 2] = ["weight_scale", "scale_weight"];

impl Convert {
    /// Why the elements of a tensor are not made others of them: a scale beside it says what they are.
    pub(super) fn scaled(&self, tensor: &Tensor) -> Option<Error> {
        let of = tensor.dense_type().filter(|_| *tensor.layout() == Layout::Dense)?;
        if of.bits() > 8 || of.class() != Class::Float {
            return None;
        }
        let cast = self.casts.target(tensor.name()).filter(|to| !is_of(&of, *to));
        let form = self.reforms.target(tensor.name()).filter(|to| {
            matches!(to, Form::Group(_) | Form::Blocks(_)) && tensor.shape().len() >= 2
        });
        let to = match (cast, form) {
            (Some(to), _) => to.to_string(),
            (None, Some(form)) => form.to_string(),
            (None, None) => return None,
        };
        let scale = scale_of(tensor)?;
        let message = format!(
            "elements of {of} would become {to} without their scale, which is the tensor `{}`",
            scale.shown()
        );
        Some(SCALED.broken(message).in_tensor(tensor.name()))
    }
}

fn is_of(of: &ElementType, to: FloatType) -> bool {
    FloatType::of(of.dtype, of.logical_type.as_ref()) == Some(to)
}

/// The name of the tensor of the same file that scales this one.
fn scale_of(tensor: &Tensor) -> Option<String> {
    let name = tensor.name();
    let layer = name.strip_suffix("weight");
    let after = SUFFIXES.iter().map(|suffix| format!("{name}{suffix}"));
    let in_place = layer.into_iter().flat_map(|layer| IN_PLACE.map(|end| format!("{layer}{end}")));
    after.chain(in_place).find(|name| tensor.file().index().get(name).is_some())
}
