//! Keras models with lambda layers: Python code in the form of `marshal`, which Keras runs if it is configured to trust the
//! file. The code is not in a pickle, and is not analyzed.

use super::{Found, Job, MARKED};
use crate::shards::MAX_INDEX;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::pickle::PACKED;

/// The text that marks a lambda layer in a config: of Keras 3, of earlier versions, and without spaces.
const MARKS: [&[u8]; 3] =
    [b"\"__lambda__\"", b"\"class_name\": \"Lambda\"", b"\"class_name\":\"Lambda\""];
/// The text in the configs of all layers.
const CLASS: &[u8] = b"\"class_name\"";

/// Reports that a JSON or HDF5 file has lambda layers.
pub(super) fn layers(
    job: &Job,
    window: &Window,
    head: &[u8],
    is_hdf5: bool,
    found: &mut Found,
) -> Result<(), Stop> {
    let len = match is_hdf5 {
        true => MARKED,
        false if starts(head) => MAX_INDEX.min(window.len()),
        false => return Ok(()),
    };
    let text = window.head(len)?;
    if MARKS.iter().any(|mark| memchr::memmem::find(&text, mark).is_some()) {
        let message = "a Keras layer in it is a lambda, whose code is in the file and runs if the file is trusted";
        found.unread(job, PACKED.broken(message));
    }
    Ok(())
}

/// Returns `true` if a file with these first bytes may be the config of a model.
pub(super) fn starts(head: &[u8]) -> bool {
    head.trim_ascii_start().first() == Some(&b'{') && memchr::memmem::find(head, CLASS).is_some()
}
