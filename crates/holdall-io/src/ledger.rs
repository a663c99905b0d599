//! The ledger for open files: a file compared with the record of what was written from it.

use crate::file::File;
use crate::index::decode_index;
use crate::items::Sharing;
use crate::source::ByteSource;
use holdall_core::ledger::{Expected, Record, Side, TieRule, compare};
use holdall_core::{Encode, Index, LIMITS, Limits, Result};

/// Compares a file with the record of what was written from it, before that is published. Returns what was left behind, in
/// words.
///
/// # Errors
/// `internal/ledger` if something is lost that nobody asked for.
pub fn close(file: &File, record: &Record, expected: &Expected) -> Result<Vec<String>> {
    let ledger = compare(Side::Index(file.index()), Side::Record(record), expected);
    ledger.check().map_err(|e| e.in_source(file.name()))
}

/// Decodes what was written and compares it with the record of what the encoder was given: a reader finds all of it. The record
/// gets the attributes that the file has, where the encoder has its own. Returns what the file contains.
///
/// # Errors
/// `internal/ledger`; what the decoder finds wrong; Io.
pub fn read_back(
    source: &dyn ByteSource,
    record: &mut Record,
    encoder: &dyn Encode,
) -> Result<Index> {
    let index = decode_index(source, &unlimited())?;
    if !encoder.writes_attributes() {
        record.set_attributes(Some(index.attributes().clone()));
    }
    let mut expected = Expected::new();
    if encoder.needs_digest().is_some() {
        // Checksums that belong to the container: a decoder may use them without giving them out.
        expected.choose_digests();
    }
    encoder.own_attributes().iter().for_each(|key| expected.change_attribute(*key));
    let mut ledger = compare(Side::Record(record), Side::Index(&index), &expected);
    ledger.unaccounted.append(&mut ledger.left_behind);
    ledger.check().map(|_| index)
}

/// Limits for a file that was just written: whatever its source was opened with, it is as large as it is.
pub fn unlimited() -> Limits {
    const MOST: u64 = 1 << 40;
    let mut limits = Limits::default();
    for limit in LIMITS {
        // At most what the table allows.
        let _ = limit.set(&mut limits, limit.most.min(MOST));
    }
    limits
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
