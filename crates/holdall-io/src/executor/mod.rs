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
pub use pieces::{ErrorContext, Pieces};
#[cfg(feature = "aio")]
pub(crate) use range::{Tables, check_ranges, give_tables, too_short};
pub(crate) use range::{find_tables, ranges};
pub use range::{frames_range, plan, range, table_of, tables_of};
pub use run::{Executor, Out, Visit};
pub use sources::Sources;

use crate::check::Check;
use holdall_core::model::Hasher;
use holdall_core::read::check_digest;
use holdall_core::{Algorithm, Component, Encoding, Result};

/// The algorithm to check a component's digest with on reading it, if any.
pub fn checked_algorithm(c: &Component, check: Check) -> Option<Algorithm> {
    c.summed_by().filter(|a| match check {
        Check::Off => false,
        Check::Fast => *a != Algorithm::Sha256,
        Check::Read | Check::All => true,
    })
}

/// Bytes that are summed at a time.
const SUM_LEN: u64 = 1 << 20;

/// Reads the stored bytes of a component and compares them with its digest, if that is to be checked on reading.
pub(crate) fn check_stored(sources: &Sources, c: &Component, check: Check) -> Result<()> {
    let algorithm = checked_algorithm(c, check);
    // Of what is encoded, one over decoded bytes says nothing of the stored ones.
    let is_of_stored = |a: &Algorithm| !a.is_of_decoded() || c.encoding == Encoding::Raw;
    let Some(algorithm) = algorithm.filter(is_of_stored) else { return Ok(()) };
    let (mut hasher, mut at) = (Hasher::new(algorithm), 0);
    while at < c.stored.len() {
        hasher.update(&sources.read(c.stored.part(at..at + SUM_LEN))?);
        at += SUM_LEN;
    }
    check_digest(c, &hasher.finish())
}
