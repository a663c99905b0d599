//! Carrying out [plans](holdall_core::read) over blocking sources: in any order on several threads
//! ([`Executor`]), in order and in bounded memory ([`Pieces`]), or a few bytes at a time ([`range`]).
//!
//! Everything that reads components goes through here: loading, conversion, verification, comparison, statistics,
//! records, and the files of packages.

mod pieces;
mod range;
mod run;
mod sources;

pub use pieces::Pieces;
#[cfg(feature = "carton")]
pub(crate) use pieces::Place;
pub(crate) use pieces::StoredPieces;
pub(crate) use range::{frames_range, range, ranges, table_of, tables_of};
pub(crate) use run::{Executor, Out, Visit};
pub(crate) use sources::Sources;

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
