//! Fresh memory whose pages are allocated 2 MB at a time.

use std::ops::{Deref, DerefMut};

const HUGE: usize = 2 << 20;

/// Anonymous memory aligned to 2 MB and advised to use huge pages. No page is allocated at first.
#[derive(Debug)]
pub struct HugeMemory {
    map: *mut u8,
    map_len: usize,
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory is owned and shared only by reference.
unsafe impl Send for HugeMemory {}
// SAFETY: as above.
unsafe impl Sync for HugeMemory {}

impl HugeMemory {
    /// Maps `len` bytes, all zero. The bytes after them up to the next multiple of 2 MB may be written, too.
    pub fn new(len: usize) -> HugeMemory {
        let room = len.next_multiple_of(HUGE).max(HUGE);
        let map_len = room + HUGE;
        // SAFETY: a new private mapping does not affect existing memory, and the result is checked.
        unsafe {
            let map = libc::mmap(
                std::ptr::null_mut(),
                map_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            assert_ne!(map, libc::MAP_FAILED, "mmap of {map_len} bytes");
            let start = (map as usize).next_multiple_of(HUGE) as *mut u8;
            libc::madvise(start.cast(), room, libc::MADV_HUGEPAGE);
            HugeMemory { map: map.cast(), map_len, start, len }
        }
    }

    /// Returns a pointer to byte `at`, for threads that fill different pieces concurrently.
    pub fn at(&self, at: u64) -> *mut u8 {
        self.start.wrapping_add(at as usize)
    }
}

impl Deref for HugeMemory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` belong to this mapping.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for HugeMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for HugeMemory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping created in `new`.
        unsafe { libc::munmap(self.map.cast(), self.map_len) };
    }
}
