//! Sparse tensors between zTensor 0.1's one-component forms and the forms with a component for values
//! and one for each kind of index, which are 64 bits wide.

use crate::error::WRONG_LAYOUT;
use crate::file::Tensor;
use crate::items::Item;
use holdall_core::Result;

/// The tensor in its packed form, or in its other one.
pub(crate) fn repacked(tensor: &Tensor, packed: bool) -> Result<Item> {
    let _ = packed;
    Err(WRONG_LAYOUT.broken("to be done").in_tensor(tensor.name()))
}
