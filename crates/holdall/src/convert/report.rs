//! The report of a conversion.

use super::{ConvertReport, Overflowed};
use crate::form::Forming;
use holdall_core::ledger::Record;
use holdall_core::{Encoding, Layout, Stored, Warning};
use holdall_io::items::Item;
use holdall_io::select::CastCount;

/// Adds the cast and reformed tensors to the report.
pub(super) fn report_changes(
    report: &mut ConvertReport,
    casts: Vec<(String, CastCount)>,
    forming: Vec<(String, Forming)>,
) {
    report.cast = casts.len() as u64;
    for (name, cast) in casts.into_iter().filter(|(_, cast)| cast.overflowed() > 0) {
        let count = cast.overflowed();
        report.overflowed += count;
        report.overflows.push(Overflowed { name, from: cast.from, to: cast.to, count });
    }
    report.reformed = forming.into_iter().map(|(name, form)| form.report(name)).collect();
}

/// Adds how many tensors are stored in which way.
pub(super) fn report_stored(report: &mut ConvertReport, record: &Record) {
    for (spec, stored) in record.tensors() {
        let is_coded = |stored: &Stored| stored.encoding != Encoding::Raw;
        match spec.layout {
            Layout::Planes(_) => report.in_planes += 1,
            _ if stored.iter().flatten().any(is_coded) => report.compressed += 1,
            _ => {}
        }
    }
}

/// Returns the report of a conversion of `items`, from a source of this length.
pub(super) fn report(
    source_len: u64,
    warnings: Vec<Warning>,
    items: &[Item],
    target_len: u64,
) -> ConvertReport {
    let components = || items.iter().flat_map(|i| &i.spec.components);
    ConvertReport {
        tensors: items.len() as u64,
        shared: components().filter(|c| c.shares.is_some()).count() as u64,
        decoded_len: components()
            .filter(|c| c.shares.is_none())
            .fold(0, |n, c| n.saturating_add(c.decoded_len)),
        source_len,
        target_len,
        left_behind: Vec::new(),
        warnings,
        cast: 0,
        overflowed: 0,
        overflows: Vec::new(),
        in_planes: 0,
        compressed: 0,
        reformed: Vec::new(),
        dequantized: Vec::new(),
        files: Vec::new(),
    }
}
