//! Editing a file in place: see [`crate::edit`] for how that is safe at any instant.

use crate::edit::{Entry, From};
use crate::error::{LOCKED, io};
use crate::file::File;
use crate::items::{self, Item, Sharing};
use crate::progress::Listener;
use crate::sink::{Durability, Sink};
use crate::writer::{WriteOptions, Writer};
use holdall_core::{ByteOrder, Component, Encoding, Result, Stored, TensorSpec};
use std::path::Path;

/// What file systems want inserted ranges to be multiples of.
const PAGE: u64 = 4096;

/// A file that can be edited in place, locked.
pub(crate) struct Place {
    file: std::fs::File,
    /// The first page boundary after the data, at or before the manifest.
    boundary: u64,
}

/// Whether this edit of `file` can be made in place.
#[cfg(target_os = "linux")]
pub(crate) fn possible(file: &File, path: &Path, entries: &[Entry]) -> Option<Place> {
    // Only a footer at the very end makes the old file valid until it is cut off.
    if file.format() != "ztensor" {
        return None;
    }
    let ends = file.tensors().map(|t| t.components().map(|c| c.stored.end).max().unwrap_or(0));
    let boundary = ends.max().unwrap_or(0).max(file.index().data_range().start).next_multiple_of(PAGE);
    if boundary > file.index().data_range().end {
        return None;
    }
    // What the manifest of the new file could not say about bytes that stay where they are.
    let sayable = |c: &Component| {
        c.byte_order == ByteOrder::Little && (c.decoded_len.is_some() || c.encoding == Encoding::Raw)
    };
    let kept = entries.iter().filter_map(|e| match &e.from {
        From::Kept(tensor) => Some(tensor),
        From::New(_) => None,
    });
    if !kept.flat_map(|t| t.components().collect::<Vec<_>>()).all(|c| sayable(&c)) {
        return None;
    }
    let file = std::fs::File::options().read(true).write(true).open(path).ok()?;
    Some(Place { file, boundary })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn possible(_: &File, _: &Path, _: &[Entry]) -> Option<Place> {
    None
}

#[cfg(not(target_os = "linux"))]
impl Place {
    pub(crate) fn commit(
        self,
        _: &File,
        _: Vec<Entry>,
        _: &WriteOptions,
        _: &Listener,
    ) -> Result<Option<u64>> {
        Ok(None)
    }
}
