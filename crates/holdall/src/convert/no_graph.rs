//! The replacement of `graph.rs` in builds without ONNX: nothing is written into graphs.

use super::{
    Convert, ConvertReport, Encode, File, Item, Path, Prepared, Result, Tensor, TensorSpec,
};
use holdall_core::Error;

pub(super) enum Into {}

pub(super) fn graph_target(_: &File, _: &Path, _: &Convert) -> Result<Option<Into>> {
    Ok(None)
}

pub(super) fn write(_: &File, _: &Path, into: Into, _: Prepared) -> Result<ConvertReport> {
    match into {}
}

impl Into {
    pub(super) fn encoder(&self) -> Box<dyn Encode> {
        match *self {}
    }

    pub(super) fn stays(&self, _: &Tensor) -> bool {
        match *self {}
    }

    pub(super) fn set_attributes(&self, _: &mut TensorSpec) {
        match *self {}
    }

    pub(super) fn wrong_type(&self, _: &TensorSpec) -> Option<Error> {
        match *self {}
    }

    pub(super) fn kept(&self, _: &[Item]) -> Result<Vec<Item>> {
        match *self {}
    }

    pub(super) fn check_stream(&self, _: &[Item]) -> Result<()> {
        match *self {}
    }
}
