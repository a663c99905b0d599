//! The fields of reports about deltas.

use super::{Plain, ToPlain};
use crate::delta::{
    ApplyReport, DeltaReport, DeltaTensor, MakeReport, UpdateReport, UpdateStep, UpdateTensor,
};
use crate::fields;

impl ToPlain for MakeReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => changed, whole, unchanged, removed, elements, target_len, len, not_covered)
    }
}

impl ToPlain for ApplyReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => tensors, changed, whole, removed, was_applied, version, steps, len)
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

impl ToPlain for UpdateReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => layout, latest, updates)
    }
}

impl ToPlain for UpdateStep {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => version, base, encoding, checksums, tensors, stored_len)
    }
}

impl ToPlain for UpdateTensor {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, changed, stored_len)
    }
}
