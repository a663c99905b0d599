//! Zips built field by field, with independent checksums. The tests of packages use them, too.
#![allow(dead_code, reason = "packages use more of it")]

pub(crate) mod sums;
pub(crate) mod zip;
