//! Editing a header in place: see [`crate::edit`] for when that is safe at any instant.

use holdall_core::{ByteOrder, Encode, Encoding, Result, Stored};
use holdall_io::error::io;
use holdall_io::items::{Feed, Item};
use holdall_io::sink::Durability;
use holdall_io::{File, WriteOptions};
use std::os::unix::fs::FileExt as _;

/// Bytes that a disk has all of or none of, and the system too.
const SECTOR: u64 = 512;

/// The bytes that an edit changes in a file whose header comes first, where they are few enough to be written in one
/// step, and the bytes of all tensors stay where they are.
pub(crate) struct Patch {
    at: u64,
    bytes: Vec<u8>,
}

impl Patch {
    /// What makes `target`, which is `file`, what `encoder` makes of these items, which are arranged; nothing where that takes
    /// writing the file anew.
    pub(crate) fn of(
        file: &File,
        target: &std::fs::File,
        items: &[Item],
        mut encoder: Box<dyn Encode>,
        write: &WriteOptions,
    ) -> Option<Patch> {
        if !encoder.header_first()
            || encoder.needs_digest().is_some()
            || file.index().source_lens().len() != 1
        {
            return None;
        }
        let specs: Vec<_> = items.iter().map(|item| item.spec.clone()).collect();
        // What is wrong is told by who writes the file anew.
        let header = encoder.begin(&write.attributes, &specs).ok()?;
        let mut end = header.len() as u64;
        for Item { spec, feeds, .. } in items {
            for (at, (c, feed)) in spec.components.iter().zip(feeds).enumerate() {
                let Feed::Component(of) = feed else { return None };
                let (tensor, old) = &**of;
                let stays = tensor.file().identity() == file.identity()
                    && old.encoding == Encoding::Raw
                    && old.byte_order == ByteOrder::Little;
                let range = old.stored.range();
                let start = match c.shares {
                    // It was arranged to have the bytes that it has.
                    Some(_) => range.start,
                    None => encoder.place(end, spec, at).ok()?,
                };
                if !stays || start != range.start || old.stored.len() != c.decoded_len {
                    return None;
                }
                end = end.max(range.end);
                let stored = Stored { range, encoding: Encoding::Raw, digest: None };
                encoder.placed(spec, at, stored).ok()?;
            }
        }
        let tail = encoder.finish(end).ok()?.len() as u64;
        if end.checked_add(tail)? != file.index().source_len() {
            return None;
        }
        let mut old = vec![0; header.len()];
        target.read_exact_at(&mut old, 0).ok()?;
        let differs = |(at, (a, b)): (usize, (&u8, &u8))| (a != b).then_some(at);
        let both = || old.iter().zip(&header).enumerate();
        let first = both().find_map(differs).unwrap_or_default();
        let last = both().rev().find_map(differs).map_or(first, |last| last + 1);
        let is_one_step = last <= first || first as u64 / SECTOR == (last as u64 - 1) / SECTOR;
        is_one_step.then(|| Patch { at: first as u64, bytes: header[first..last].to_vec() })
    }

    /// Writes it. Gives how many bytes.
    pub(crate) fn apply(
        self,
        target: &std::fs::File,
        name: &str,
        durability: Durability,
    ) -> Result<u64> {
        let failed = |e| io(e, "writing").in_source(name);
        target.write_all_at(&self.bytes, self.at).map_err(failed)?;
        if durability == Durability::Disk {
            target.sync_all().map_err(failed)?;
        }
        Ok(self.bytes.len() as u64)
    }
}
