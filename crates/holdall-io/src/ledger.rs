//! The ledger for files: comparing a file with the record of what was written from it.

use crate::file::File;
use crate::index::decode_index;
use crate::items::Sharing;
use crate::source::ByteSource;
use holdall_core::ledger::{Expected, Record, Side, TieRule, compare};
use holdall_core::{Encode, Index, LIMITS, Limits, Result};

/// Compares a file with the record of what was written from it, before the result is published. Returns a list, in
/// words, of what was left behind.
///
/// # Errors
/// Returns `internal/ledger` if something was lost that the caller did not ask to leave out.
pub fn close(file: &File, record: &Record, expected: &Expected) -> Result<Vec<String>> {
    let ledger = compare(Side::Index(file.index()), Side::Record(record), expected);
    ledger.check().map_err(|e| e.in_source(file.name()))
}

/// Decodes a written file and compares it with the record of what the encoder was given, to check that a reader finds
/// all of it. If the encoder writes its own attributes, the record gets those of the file.
///
/// # Errors
/// Returns `internal/ledger` if they differ; errors of the decoder; an `Io` error.
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

/// Returns limits for reading back a file that was just written, which may be larger than the limits of its source
/// allow.
pub fn unlimited() -> Limits {
    const UNLIMITED: u64 = 1 << 40;
    let mut limits = Limits::default();
    for limit in LIMITS {
        // Not above the greatest value that the limit can have.
        let _ = limit.set(&mut limits, limit.max.min(UNLIMITED));
    }
    limits
}

impl Sharing {
    /// Returns how shared components may change when this encoder writes them.
    pub fn tie_rule(self, encoder: &dyn Encode) -> TieRule {
        match self {
            Sharing::Copy => TieRule::Asked,
            _ if !encoder.can_share() => TieRule::Leave,
            _ if encoder.header_first() => TieRule::KeepWhole,
            _ => TieRule::Keep,
        }
    }
}
