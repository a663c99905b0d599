//! Grouping repeated layers, so that a model of a thousand tensors fits on one screen.

pub use holdall_core::model::group::{Group, group_names};

use crate::file::Tensor;

/// Groups tensors of the same dtype, logical type, shape and layout whose names differ only in segments that are
/// numbers. Groups are in the order of their first members.
pub fn groups(tensors: &[Tensor]) -> Vec<Group> {
    holdall_core::model::group::groups(tensors.iter().map(Tensor::info))
}
