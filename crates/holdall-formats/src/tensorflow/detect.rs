//! Recognises a table of the kind that is the index of a checkpoint.

use holdall_core::window::{Stop, Window};
use holdall_core::wire::sstable;

pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    sstable::is_sstable(window)
}
