//! Models of Keras whose layers have functions in them: code of Python as `marshal` writes it, which Keras runs if it is told to trust
//! the file. It is not in a pickle, and is not followed.

use super::{Found, Job, MARKED};
use crate::shards::MAX_INDEX;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::pickle::PACKED;

/// What the config of a layer with a function has: in Keras 3, before that, and without spaces.
const MARKS: [&[u8]; 3] =
    [b"\"__lambda__\"", b"\"class_name\": \"Lambda\"", b"\"class_name\":\"Lambda\""];
/// What configs of all layers have.
const CLASS: &[u8] = b"\"class_name\"";

/// Notes that a file of JSON or HDF5 has layers with functions.
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
        let message = "a layer of Keras in it is a function, whose code is in the file and is run if the file is trusted";
        found.unread(job, PACKED.broken(message));
    }
    Ok(())
}

/// Whether what begins so may be the config of a model.
pub(super) fn starts(head: &[u8]) -> bool {
    head.trim_ascii_start().first() == Some(&b'{') && memchr::memmem::find(head, CLASS).is_some()
}
