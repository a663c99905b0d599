//! The fields of the reports about converted models.

use super::{Plain, ToPlain};
use crate::fields;
use crate::recipe::{
    ConvertedTensor, Deviation, FamilyNames, FamilyTensor, ModelConvertReport, ModelDiff, SetKey,
    WorstBlock,
};

impl ToPlain for ModelConvertReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => recipe, outtype: self.outtype.as_str(), set_keys)
            .and(self.convert.to_plain())
    }
}

impl ToPlain for SetKey {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => key, old, value)
    }
}

impl ToPlain for ModelDiff {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            same: self.is_faithful(),
            recipe, tensors, missing, added, attributes, added_attributes, warnings,
        )
    }
}

impl ToPlain for ConvertedTensor {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            name, shape, stored, expected_shape,
            verdict: self.verdict.as_str(),
            count, differing,
            first: self.first.as_ref().map(|range| (range.start, range.end)),
            error, worst,
        )
    }
}

impl ToPlain for Deviation {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => max, rms, relative, cosine)
    }
}

impl ToPlain for WorstBlock {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            index,
            elements: (self.elements.start, self.elements.end),
            relative,
        )
    }
}

impl ToPlain for FamilyNames {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => recipe, tensors, left_out)
    }
}

impl ToPlain for FamilyTensor {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, shape, sources)
    }
}
