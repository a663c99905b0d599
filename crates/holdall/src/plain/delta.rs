//! The fields of reports about deltas.

use super::{Plain, ToPlain};
use crate::delta::{ApplyReport, DeltaReport, DeltaTensor, MakeReport};
use crate::fields;

impl ToPlain for MakeReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => changed, whole, unchanged, removed, elements, target_len, len, not_covered)
    }
}

impl ToPlain for ApplyReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => tensors, changed, whole, removed, was_applied, len)
    }
}

impl ToPlain for DeltaReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => tensors, removed, target_tensors, base, len)
    }
}

impl ToPlain for DeltaTensor {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, shape, dtype, count, changed, stored_len)
    }
}
