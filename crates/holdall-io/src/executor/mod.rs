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
pub use run::{DecodedBytes, Executor, FetchTarget};
pub use sources::Sources;
