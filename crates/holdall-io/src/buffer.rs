//! Memory to read into.

use crate::error::io;
use bytes::Bytes;
use holdall_core::Result;

/// The length in bytes from which a buffer is a separate mapping, in huge pages if the system supports them: most of
/// the cost of reading into new memory are page faults.
const MAP_MIN: usize = 1 << 20;
const HUGE_PAGE: usize = 2 << 20;
/// A buffer may be longer than requested by one part in this many, so that it ends with a huge page.
const HUGE_SLACK: usize = 16;

/// Zeroed memory of a fixed length, to be filled and then shared. Moving it does not move its bytes.
#[derive(Debug)]
pub struct Buffer {
    memory: Memory,
    len: usize,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    Map(memmap2::MmapMut),
}

impl Buffer {
    /// Allocates `len` zeroed bytes, aligned to a page of the system (at least 4096 bytes) if there are at least 1 MiB.
    ///
    /// # Errors
    /// Returns an `Io` error if there is not enough memory.
    pub fn new(len: usize) -> Result<Buffer> {
        if len < MAP_MIN {
            return Ok(Buffer { memory: Memory::Heap(vec![0; len]), len });
        }
        Buffer::mapped(len)
    }

    /// Allocates `len` zeroed bytes, aligned to a page of the system (at least 4096 bytes).
    ///
    /// # Errors
    /// Returns an `Io` error if there is not enough memory.
    pub fn mapped(len: usize) -> Result<Buffer> {
        // Whole huge pages, because the kernel aligns only such mappings to huge pages.
        let room = if len >= HUGE_PAGE { len.next_multiple_of(HUGE_PAGE) } else { len.max(1) };
        let map = memmap2::MmapOptions::new()
            .len(room)
            .map_anon()
            .map_err(|e| io(e, format_args!("taking {len} bytes of memory")))?;
        if len >= HUGE_PAGE {
            // The end is in small pages if a huge one would take much more memory than requested.
            let is_nearly_full = room - len <= len / HUGE_SLACK;
            let huge = if is_nearly_full { room } else { len / HUGE_PAGE * HUGE_PAGE };
            crate::platform::use_huge_pages(&map, huge);
        }
        Ok(Buffer { memory: Memory::Map(map), len })
    }

    /// Returns the memory of a mapping that is its owner's alone.
    pub(crate) fn from_map(map: memmap2::MmapMut) -> Buffer {
        Buffer { len: map.len(), memory: Memory::Map(map) }
    }

    /// Returns the bytes, which can be shared and no longer be changed.
    pub fn freeze(self) -> Bytes {
        match self.memory {
            Memory::Heap(bytes) => bytes.into(),
            Memory::Map(map) => Bytes::from_owner(map).slice(..self.len),
        }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer { len: bytes.len(), memory: Memory::Heap(bytes) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Map(map) => &map[..self.len],
        }
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Map(map) => &mut map[..self.len],
        }
    }
}
