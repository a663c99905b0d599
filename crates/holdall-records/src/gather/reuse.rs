//! Reuses the memory of dropped columns for new ones: a third of the cost of a batch is that the system clears fresh
//! memory.

use bytes::Bytes;
use holdall_core::Result;
use holdall_io::buffer::Buffer;
use std::sync::Mutex;

/// Largest number of bytes to keep.
const MAX_KEPT_LEN: usize = 64 << 20;
/// Columns of fewer bytes are not kept.
const LEAST: usize = 1 << 20;

/// The most recently added buffer is last. The lock is only tried, never waited for: in a forked process, the thread
/// that holds it may not exist.
static KEPT: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

/// Returns a buffer of `len` bytes with unspecified content.
pub(crate) fn take(len: usize) -> Result<Buffer> {
    let mut found = None;
    if len >= LEAST
        && let Ok(mut kept) = KEPT.try_lock()
    {
        let at = kept.iter().position(|memory| memory.as_ref().len() == len);
        found = at.map(|at| kept.remove(at));
    }
    found.map_or_else(|| Buffer::new(len), Ok)
}

/// Converts memory to shared, immutable bytes. When the last reference is dropped, the memory is kept for later
/// columns.
pub(crate) fn lend(memory: Buffer) -> Bytes {
    match memory.as_ref().len() {
        LEAST..=MAX_KEPT_LEN => Bytes::from_owner(ColumnMemory(Some(memory))),
        _ => memory.freeze(),
    }
}

/// Memory of a column. When it is dropped, it is kept for later columns, up to 64 MiB in total.
#[derive(Debug)]
pub struct ColumnMemory(Option<Buffer>);

impl From<Buffer> for ColumnMemory {
    fn from(memory: Buffer) -> ColumnMemory {
        ColumnMemory(Some(memory))
    }
}

impl AsRef<[u8]> for ColumnMemory {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], Buffer::as_ref)
    }
}

impl AsMut<[u8]> for ColumnMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], Buffer::as_mut)
    }
}

impl Drop for ColumnMemory {
    fn drop(&mut self) {
        let is_kept = |memory: &Buffer| (LEAST..=MAX_KEPT_LEN).contains(&memory.as_ref().len());
        let Some(memory) = self.0.take().filter(is_kept) else { return };
        let Ok(mut kept) = KEPT.try_lock() else { return };
        kept.push(memory);
        let mut len: usize = kept.iter().map(|memory| memory.as_ref().len()).sum();
        let too_many = kept.iter().take_while(|memory| {
            let is_more = len > MAX_KEPT_LEN;
            len -= memory.as_ref().len();
            is_more
        });
        let too_many = too_many.count();
        let gone: Vec<Buffer> = kept.drain(..too_many).collect();
        drop(kept);
        // Freeing memory can be slow, so it happens outside of the lock.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_not_too_much_of_it_is_kept() {
        let (len, small) = (LEAST + 12_345, LEAST - 1);
        let first = take(len).unwrap();
        let at = first.as_ref().as_ptr();
        drop(lend(first));
        // If the memory had been freed, this buffer would probably be at its address.
        let other = Buffer::new(len).unwrap();
        assert_ne!(other.as_ref().as_ptr(), at);
        assert_eq!(take(len).unwrap().as_ref().as_ptr(), at);

        for _ in 0..3 {
            drop(lend(Buffer::new(small).unwrap()));
            drop(lend(Buffer::new(MAX_KEPT_LEN / 2).unwrap()));
        }
        drop(lend(Buffer::new(MAX_KEPT_LEN + 1).unwrap()));
        let lens: Vec<usize> = KEPT.lock().unwrap().iter().map(|m| m.as_ref().len()).collect();
        assert_eq!(lens, [MAX_KEPT_LEN / 2; 2]);
    }
}
