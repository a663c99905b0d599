//! Compares the files of a package with those that were written, as the ledger compares tensors.

use holdall_core::ledger::{Expected, Record, Side, compare};
use holdall_core::{Attributes, DType, Result, TensorSpec, Value};
use std::sync::Arc;

/// A file of a package, described without its bytes.
pub(crate) struct Entry<'a> {
    pub(crate) path: &'a str,
    /// Length in bytes.
    pub(crate) len: Option<u64>,
    pub(crate) sha256: Option<[u8; 32]>,
}

/// Checks that the written package has each of the files, with the same length and hash if both are known.
///
/// # Errors
/// Returns `internal/ledger`.
pub(crate) fn check<'a>(
    source: impl Iterator<Item = Entry<'a>>,
    written: impl Iterator<Item = Entry<'a>>,
) -> Result<()> {
    let (source, written) = (record_of(source), record_of(written));
    let ledger = compare(Side::Record(&source), Side::Record(&written), &Expected::new());
    ledger.check().map(drop)
}

fn record_of<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Record {
    let mut record = Record::new(Some(Attributes::new()));
    for entry in entries {
        let mut file = TensorSpec::dense(entry.path, DType::U8, [0]);
        if let Some(len) = entry.len {
            file.attributes.set("len", Value::Integer(len.into()));
        }
        if let Some(sha256) = entry.sha256 {
            file.attributes.set("sha256", Value::Bytes(sha256.into()));
        }
        record.add(Arc::new(file));
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_or_another_is_found() {
        let file = |path: &'static str, len, hash: u8| Entry {
            path,
            len: Some(len),
            sha256: Some([hash; 32]),
        };
        let source = || [file("model/a", 1, 1), file("misc/b", 2, 2)].into_iter();
        let written = |files: Vec<Entry<'static>>| check(source(), files.into_iter());
        assert!(written(source().chain([file("MANIFEST", 9, 9)]).collect()).is_ok());
        for (files, what) in [
            (vec![file("model/a", 1, 1)], "misc/b"),
            (vec![file("model/a", 1, 1), file("misc/b", 2, 3)], "sha256"),
            (vec![file("model/a", 0, 1), file("misc/b", 2, 2)], "len"),
        ] {
            let e = written(files).map_err(|e| (e.code(), e.message().contains(what)));
            assert_eq!(e, Err(("internal/ledger", true)));
        }
    }
}
