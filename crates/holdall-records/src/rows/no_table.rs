//! Replaces `table.rs` in builds that do not read tables.

use crate::rules::NO_TABLES;
use holdall_core::Result;
use std::io::Read;

/// Rows of a table; never constructed in these builds.
pub(super) enum Table {}

/// The fields of a row; never constructed in these builds.
pub(crate) enum Fields {}

impl Table {
    pub(super) fn new(_: Box<dyn Read + Send>, _: Option<u8>, name: &str) -> Result<Table> {
        Err(NO_TABLES.broken("this build does not read tables").in_source(name))
    }

    pub(super) fn delimiter(&self) -> char {
        match *self {}
    }

    pub(super) fn names(&self) -> &[String] {
        match *self {}
    }

    pub(super) fn next(&mut self, _: &str) -> Result<Option<(u64, &Fields)>> {
        match *self {}
    }
}

impl Fields {
    pub(crate) fn get(&self, _: usize) -> Option<&str> {
        match *self {}
    }
}
