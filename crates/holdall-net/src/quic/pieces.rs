//! Reused buffers for the pieces of responses: new memory would have to be mapped and cleared first.

use super::connection::lock;
use crate::catalog::ServedFile;
use crate::protocol::Step;
use crate::service::PIECE;
use bytes::Bytes;
use holdall_core::Result;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Length of a buffer, in bytes.
const LEN: usize = PIECE as usize;
/// Maximum number of unused buffers that are kept.
const KEPT: usize = 8;

/// The unused buffers.
#[derive(Default)]
pub(super) struct Pieces(Mutex<Vec<Box<[u8]>>>);

/// A buffer that is returned to the pool when it is dropped, which is after its bytes have been acknowledged.
struct Piece {
    memory: Box<[u8]>,
    pool: Arc<Pieces>,
}

impl Pieces {
    /// Reads the byte ranges of these steps, which must not include hashes.
    pub(super) fn read(
        self: &Arc<Pieces>,
        file: &dyn ServedFile,
        steps: &[Step],
    ) -> Result<Vec<Bytes>> {
        let ranges = steps.iter().filter_map(|step| match step {
            Step::Bytes(range) => Some(range.clone()),
            // Files without a hash tree have no proofs.
            Step::Pair(_) => None,
        });
        let len = ranges.clone().map(|range| range.end - range.start).sum::<u64>() as usize;
        // A buffer that is less than half full would hold more memory than the limits account for.
        match (LEN / 2..=LEN).contains(&len) {
            true => Ok(vec![self.fill(file, ranges, len)?]),
            false => ranges.map(|range| file.read(range)).collect(),
        }
    }

    fn fill(
        self: &Arc<Pieces>,
        file: &dyn ServedFile,
        ranges: impl Iterator<Item = Range<u64>>,
        len: usize,
    ) -> Result<Bytes> {
        let memory = lock(&self.0).pop().unwrap_or_else(|| vec![0; LEN].into());
        let mut piece = Piece { memory, pool: Arc::clone(self) };
        let mut rest = &mut piece.memory[..len];
        for range in ranges {
            let (out, others) = rest.split_at_mut((range.end - range.start) as usize);
            file.read_into(range, out)?;
            rest = others;
        }
        Ok(Bytes::from_owner(piece).slice(..len))
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut kept = lock(&self.pool.0);
        if kept.len() < KEPT {
            kept.push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::FileId;
    use crate::rules::FAILED;

    /// A file whose bytes depend on their offset.
    struct Counting;

    const END: u64 = 2 * PIECE;

    impl ServedFile for Counting {
        fn len(&self) -> u64 {
            END
        }

        fn id(&self) -> FileId {
            FileId([0; 32])
        }

        fn index(&self) -> Vec<Range<u64>> {
            Vec::new()
        }

        fn read(&self, range: Range<u64>) -> Result<Bytes> {
            match range.end <= END {
                true => Ok(expected(&[range]).into()),
                false => Err(FAILED.broken("there are no more bytes")),
            }
        }
    }

    fn expected(ranges: &[Range<u64>]) -> Vec<u8> {
        ranges.iter().cloned().flatten().map(|at| (at % 251) as u8).collect()
    }

    fn read(pieces: &Arc<Pieces>, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let steps: Vec<Step> = ranges.iter().cloned().map(Step::Bytes).collect();
        pieces.read(&Counting, &steps)
    }

    fn kept(pieces: &Pieces) -> usize {
        lock(&pieces.0).len()
    }

    #[test]
    fn buffers_are_reused_once_their_bytes_are_dropped() {
        let pieces = Arc::default();
        let ranges = [5..LEN as u64 / 2, LEN as u64..LEN as u64 + 70_000];
        let first = read(&pieces, &ranges).unwrap();
        assert_eq!((first.len(), kept(&pieces)), (1, 0));
        assert!(first[0] == expected(&ranges));
        let (second, at) = (read(&pieces, &ranges).unwrap(), first[0].as_ptr());
        assert!(second[0].as_ptr() != at);
        // A part of the bytes is still in use.
        let part = first[0].slice(7..9);
        drop(first);
        assert_eq!(kept(&pieces), 0);
        drop(part);
        assert_eq!(kept(&pieces), 1);
        // It holds older bytes, none of which are visible.
        let others = [1_000..LEN as u64, 7..1_007];
        let third = read(&pieces, &others).unwrap();
        assert!(third[0].as_ptr() == at && third[0] == expected(&others));
        drop((second, third));
        assert_eq!(kept(&pieces), 2);
        assert!(read(&pieces, &[0..9, END - 1..END + LEN as u64 - 10]).is_err());
        assert_eq!(kept(&pieces), 2);
        let many: Vec<_> = (0..2 * KEPT).map(|_| read(&pieces, &ranges).unwrap()).collect();
        assert_eq!(kept(&pieces), 0);
        drop(many);
        assert_eq!(kept(&pieces), KEPT);
    }

    #[test]
    fn few_bytes_take_no_whole_buffer() {
        let pieces = Arc::default();
        let few = [9..10, 20..LEN as u64 / 2];
        let read = read(&pieces, &few).unwrap();
        assert_eq!(read.len(), 2);
        assert!(read.concat() == expected(&few));
        drop(read);
        assert_eq!(kept(&pieces), 0);
    }
}
