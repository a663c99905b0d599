//! The directory of a zip file: reading it range by range gives the same result as reading the whole file, and its
//! entries are inside the file, do not overlap, and decode to the declared bytes.

use crate::limits;
use crate::walk::is_of_the_file;
use holdall::{Bytes, Error, Stop, Window};
use holdall_core::codec::crc::Crc32;
use holdall_core::wire::zip::{Directory, EntryKind, Method};
use std::sync::Arc;

/// The most requests for reading a directory: the end, more of the end, the zip64 end, the directory.
const MAX_ROUNDS: usize = 5;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let window = Window::whole(bytes.clone());
    let limits = limits::tight();
    let found = done(Directory::read(&window, &limits));
    match (&found, by_ranges(&bytes)) {
        (Ok(whole), Ok(found)) => assert_eq!(describe(whole), describe(&found)),
        (Err(whole), Err(found)) => assert_eq!(whole.to_string(), found.to_string()),
        (whole, found) => panic!("whole {whole:?}, by ranges {found:?}"),
    }
    let directory = match found {
        Ok(directory) => directory,
        Err(e) => return is_of_the_file(&e),
    };
    let directory_range = directory.range();
    assert!(
        directory_range.start <= directory_range.end && directory_range.end <= data.len() as u64
    );
    let mut taken = Vec::new();
    for (at, entry) in directory.entries().enumerate() {
        assert_eq!(entry.position(), at);
        let named = directory.get(entry.name()).expect("it is found by its name");
        assert_eq!(named.position(), at);
        assert_eq!(entry.name().ends_with('/'), entry.kind() == EntryKind::Folder);
        let range = match done(directory.data(entry, &window)) {
            Ok(range) => range,
            Err(e) => {
                is_of_the_file(&e);
                continue;
            }
        };
        assert_eq!(range.end - range.start, entry.stored_len());
        assert!(range.end <= directory_range.start, "{entry:?} is not before the directory");
        taken.push((range.start, range.end));
        match done(directory.content(entry, &window, &limits)) {
            Ok(content) => {
                assert_eq!(content.len() as u64, entry.decoded_len());
                assert_eq!(Crc32::zip_crc32(&content), entry.crc32());
                let stored = &bytes[range.start as usize..range.end as usize];
                assert!(entry.method() != Method::Stored || content == stored);
            }
            Err(e) => is_of_the_file(&e),
        }
    }
    taken.sort_unstable();
    assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "entries overlap: {taken:?}");
}

fn done<T>(found: Result<T, Stop>) -> Result<T, Error> {
    found.map_err(|stop| match stop {
        Stop::Fail(e) => e,
        Stop::Need(ranges) => panic!("a whole window lacks {ranges:?}"),
    })
}

fn by_ranges(bytes: &Bytes) -> Result<Arc<Directory>, Error> {
    let mut window = Window::new(bytes.len() as u64);
    for _ in 0..=MAX_ROUNDS {
        match Directory::read(&window, &limits::tight()) {
            Ok(directory) => return Ok(directory),
            Err(Stop::Fail(e)) => return Err(e),
            Err(Stop::Need(ranges)) => {
                for range in ranges {
                    assert!(!range.is_empty() && range.end <= bytes.len() as u64, "{range:?}");
                    window.add(range.start, bytes.slice(range.start as usize..range.end as usize));
                }
            }
        }
    }
    panic!("more than {MAX_ROUNDS} requests");
}

fn describe(directory: &Directory) -> String {
    directory.entries().map(|entry| format!("{entry:?} {}\n", entry.crc32())).collect()
}
