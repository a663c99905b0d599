//! Arguments that several commands share, one file per group. Arguments of a single command are in its own module.

mod global;
mod input;
mod limits;
#[cfg(feature = "http")]
mod remote;
mod selection;
mod sizes;

pub(crate) use global::Global;
pub(crate) use input::IoChoice;
pub(crate) use selection::SelectionArgs;
pub(crate) use sizes::positive_number;
pub use sizes::size;
