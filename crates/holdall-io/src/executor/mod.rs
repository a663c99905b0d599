//! Carrying out [plans](holdall_core::read) over blocking sources: in any order on several threads
//! ([`Executor`]), in order and in bounded memory ([`Pieces`]), or a few bytes at a time ([`range`]).
//!
//! Everything that reads components goes through here: loading, conversion, verification, comparison, statistics,
//! records, and the files of packages.

mod pieces;
mod range;
mod run;
mod sources;

pub(crate) use pieces::StoredPieces;
pub use pieces::{Pieces, Place};
pub(crate) use range::ranges;
pub use range::{frames_range, range, table_of, tables_of};
pub use run::{Executor, Out, Visit};
pub use sources::Sources;

use crate::open::Check;
use holdall_core::{Algorithm, Component};

/// The algorithm to check a component's digest with on reading it, if any.
pub(crate) fn checked_algorithm(c: &Component, check: Check) -> Option<Algorithm> {
    c.digest.as_ref()?.algorithm().filter(|a| match check {
        Check::Off => false,
        Check::Fast => *a == Algorithm::Crc32c,
        Check::All => true,
    })
}
