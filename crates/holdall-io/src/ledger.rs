//! The ledger for open files: a file compared with the record of what was written from it.

use crate::file::File;
use crate::items::Sharing;
use holdall_core::ledger::{Expected, Record, Side, TieRule, compare};
use holdall_core::{Encode, Result};

/// Compares a file with the record of what was written from it, before that is published. Returns what was left behind, in
/// words.
///
/// # Errors
/// `internal/ledger` if something is lost that nobody asked for.
pub fn close(file: &File, record: &Record, expected: &Expected) -> Result<Vec<String>> {
    let ledger = compare(Side::Index(file.index()), Side::Record(record), expected);
    ledger.check().map_err(|e| e.in_source(file.name()))
}

impl Sharing {
    /// Returns what may become of components that share their bytes, written by that encoder.
    pub fn tie_rule(self, encoder: &dyn Encode) -> TieRule {
        match self {
            Sharing::Copy => TieRule::Asked,
            _ if !encoder.can_share() => TieRule::Leave,
            _ if encoder.header_first() => TieRule::KeepWhole,
            _ => TieRule::Keep,
        }
    }
}
