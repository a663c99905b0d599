//! The files in a tar archive are inside it, do not overlap, and have names that stay inside the archive's folder.

use crate::limits;
use crate::walk::is_of_the_file;
use holdall::{Bytes, Stop, Window};
use holdall_core::wire::tar;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let window = Window::whole(Bytes::copy_from_slice(data));
    let members = match tar::read(&window, &limits::tight()) {
        Ok(members) => members,
        Err(Stop::Fail(e)) => return is_of_the_file(&e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    };
    let mut end = 0;
    for member in members {
        assert!(member.range.start >= end + 512, "a header is before it");
        end = member.range.end;
        assert!(end <= data.len() as u64 && member.range.start <= end);
        assert!(!member.name.starts_with('/') && !member.name.split('/').any(|part| part == ".."));
    }
}
