//! The fields of the reports about tensor files.

use super::{Plain, ToPlain};
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
use crate::archive::{ArchiveContents, ArchiveEntry};
use crate::convert::{DequantizedWeight, Overflowed};
use crate::diff::{
    AttributeDiff, ComponentDiff, DifferingElement, LayerDiff, SampleDiff, TensorDiff, ValueDiff,
};
use crate::fields;
use crate::quantized::QuantizedWeight;
use crate::records::{BuildReport, MigrationPlan, PlanStep};
#[cfg(feature = "pytorch")]
use crate::scan::{Import, Pickle, ScanReport};
use crate::schema::{Base, OutlineRow, RowPresence};
use crate::stats::{Histogram, Measure, Stats};
use crate::verify::{Unverified, VerifyReport};
use crate::{ConvertReport, Diff, EditReport, File, ModelFolder, ReformedTensor, SalvageReport};
use holdall_core::layout::number::ElementType;
use holdall_core::{Component, ComponentSpec, Layout, TensorSpec};
use holdall_formats::Format;
use std::borrow::Cow;

impl ToPlain for Layout {
    fn to_plain(&self) -> Plain<'_> {
        self.as_str().into()
    }
}

impl ToPlain for File {
    /// The file's properties, without its contents.
    fn to_plain(&self) -> Plain<'_> {
        fields!(source: self.name(), format: self.format(), version: self.version())
    }
}

impl ToPlain for ModelFolder {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => config, tokenizer, warnings)
    }
}

#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
impl ToPlain for ArchiveContents {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => source, format: self.kind, version: "", len, files)
    }
}

#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
impl ToPlain for ArchiveEntry {
    fn to_plain(&self) -> Plain<'_> {
        let format = self.format.map(|format| format.id);
        fields!(self => path: self.name.as_str(), len, stored_len, method, format: format)
    }
}

impl ToPlain for Component {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            dtype: self.dtype.as_str(),
            logical_type: self.logical_type.as_ref().map(|t| t.as_str()),
            offset: (!self.stored.is_stated()).then_some(self.stored.start),
            stored_len: self.stored_len(),
            encoding: self.encoding.as_str(),
            decoded_len,
            digest,
        )
    }
}

impl ToPlain for OutlineRow {
    fn to_plain(&self) -> Plain<'_> {
        let (optional, bit) = match self.presence {
            RowPresence::Always => (false, None),
            RowPresence::Optional => (true, None),
            RowPresence::Bit(bit) => (true, Some(bit)),
        };
        let base = match self.base {
            Base::Header => "header",
            Base::Record => "record",
            Base::Heap => "heap",
        };
        fields!(self =>
            path: self.path.to_string(),
            kind,
            base: base,
            offset, size, stride,
            align: self.align.map(u64::from),
            optional: optional,
            presence: bit.map(|bit| fields!(byte: bit.byte, bit: bit.bit)),
        )
    }
}

impl ToPlain for TensorSpec {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            name,
            shape: &self.shape[..],
            layout,
            components: Plain::map(self.components.iter().map(|c| (c.role.as_str(), c))),
        )
    }
}

impl ToPlain for ComponentSpec {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            dtype: self.dtype.as_str(),
            logical_type: self.logical_type.as_ref().map(|t| t.as_str()),
            decoded_len,
            shares: self.shares.as_ref().map(|s| s.tensor.as_str()),
        )
    }
}

impl ToPlain for MigrationPlan {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => records, tensors, unchanged, steps: Plain::list(&self.steps))
    }
}

impl ToPlain for PlanStep {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => step: self.what.as_str(), from, to, old, new, by, rounds)
    }
}

impl ToPlain for VerifyReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            sound: self.is_sound(),
            verdict: self.verdict().as_str(),
            tensors, components, stored_len, read_len,
            decoded, bools, sparse, quantized, described, records, blobs,
            digests: Plain::map(self.checked()),
            content: self.content.as_deref(),
            finding_count, findings, unverified, warnings,
        )
    }
}

impl ToPlain for Unverified {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => reason: self.reason.as_str(), message, tensor, component, count)
    }
}

impl ToPlain for ConvertReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            tensors, shared, decoded_len, source_len, target_len, left_behind, warnings, cast, overflowed,
            overflows, in_planes, compressed, reformed, dequantized, files,
        )
    }
}

impl ToPlain for DequantizedWeight {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, kind, applied: Plain::list(&self.applied), dropped: Plain::list(&self.dropped))
    }
}

impl ToPlain for QuantizedWeight {
    fn to_plain(&self) -> Plain<'_> {
        let parameters = self.parameters().iter().map(|(name, value)| (*name, value.as_str()));
        let components = self.components().iter().map(|c| (c.role, c.tensor.as_str()));
        let fields = fields! {
            name: self.name(),
            kind: self.kind().as_str(),
            writer: self.kind().writer(),
            shape: self.shape(),
            parameters: Plain::map(parameters),
            components: Plain::map(components),
            not_applied: Plain::list(self.not_applied()),
        };
        match self.fault() {
            Some(fault) => fields.and(fields!(fault: fault)),
            None => fields,
        }
    }
}

impl ToPlain for Overflowed {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, from: self.from.to_string(), to: self.to.as_str(), count)
    }
}

impl ToPlain for ReformedTensor {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, form: self.form.to_string(), from_len, len, max_error, rms_error)
    }
}

impl ToPlain for SalvageReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            open_error: self.open_error.as_ref(), source_len, read_len, tensors, files, left_out, left_out_count,
            unchecked, left_behind, target_len,
        )
    }
}

#[cfg(feature = "pytorch")]
impl ToPlain for ScanReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => verdict: self.verdict().as_str(), files, pickles, unread)
    }
}

#[cfg(feature = "pytorch")]
impl ToPlain for Pickle {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            source, offset, len, inner: self.inner, protocol,
            verdict: self.verdict.as_str(),
            imports, broken: self.broken.as_ref(),
        )
    }
}

#[cfg(feature = "pytorch")]
impl ToPlain for Import {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => module, name, verdict: self.danger.as_str(), called: self.called, count, offset)
    }
}

impl ToPlain for EditReport {
    fn to_plain(&self) -> Plain<'_> {
        let files = self.files.iter().map(|path| path.display().to_string());
        fields!(self => in_place, written, len, unused_len, files: Plain::list(files), left_behind, warnings)
    }
}

impl ToPlain for BuildReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => tensors, target_len)
    }
}

impl ToPlain for Stats {
    fn to_plain(&self) -> Plain<'_> {
        let measure = if self.measure == Measure::Magnitude { "magnitude" } else { "value" };
        fields!(self =>
            measure: measure,
            count, zeros, implied_zeros, nan, inf, neg_inf, min, max, mean, std, histogram,
        )
    }
}

impl ToPlain for Histogram {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => min, max, counts)
    }
}

impl ToPlain for Diff {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            identical: self.is_identical(),
            same: self.is_same(),
            values_agree: self.values_agree(),
            undecided: self.is_undecided(),
            compared,
            unchanged: self.identical,
            removed, added, changed, attributes, layers,
        )
    }
}

impl ToPlain for TensorDiff {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            name,
            same: self.is_same(),
            types, shapes, layouts, attributes, components, values, incomparable,
        )
    }
}

impl ToPlain for ElementType {
    fn to_plain(&self) -> Plain<'_> {
        fields! {
            dtype: self.dtype.as_str(),
            logical_type: self.logical_type.as_ref().map(|t| t.as_str()),
        }
    }
}

impl ToPlain for ComponentDiff {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => role, types, lens, values)
    }
}

impl ToPlain for ValueDiff {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            count, unequal, differing,
            share: self.share(),
            max_abs, max_rel, non_finite, rms, relative, cosine, first,
        )
    }
}

impl ToPlain for LayerDiff {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            name, tensors, changed, uncompared, count, unequal,
            share: self.share(),
            max_abs, non_finite, rms, relative, cosine,
        )
    }
}

impl ToPlain for SampleDiff {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            verdict: self.verdict.as_str(),
            reason, confidence,
            bytes_read: self.bytes_read,
            bytes: self.bytes,
            runs, elements, unequal, sampled, common, unmatched, coverage, related, unrelated,
            correlation,
            interval: self.interval,
            most_unequal,
            rounded: self.is_rounded,
            within_quantization: self.is_within_quantization,
        )
    }
}

impl ToPlain for DifferingElement {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => index, a, b)
    }
}

impl ToPlain for AttributeDiff {
    /// A side without the attribute is left out, since null is a value.
    fn to_plain(&self) -> Plain<'_> {
        let mut out = vec![(Cow::from("key"), Plain::from(&self.key))];
        for (side, value) in [("a", &self.a), ("b", &self.b)] {
            out.extend(value.as_ref().map(|value| (side.into(), value.into())));
        }
        Plain::Object(out)
    }
}

impl ToPlain for Format {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            id, name, extensions: self.extensions, reads: self.reads, writes: self.versions,
            writable: self.encode.is_some(),
        )
    }
}
