//! Zips built field by field, with sums of their own. The tests of packages build their files with them, too.
#![allow(dead_code, reason = "packages use more of it")]

pub(crate) mod sums;
pub(crate) mod zip;
