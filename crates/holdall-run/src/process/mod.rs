//! Runners in separate processes: frames, values in frames, and processes.
//!
//! The specification is `docs/spec/runner.md`. [`frame`] and [`values`] do no I/O. [`program`] is an external runner,
//! [`check`](mod@check) tests one, and [`serve`](mod@serve) offers a runner of this crate to another process.

pub mod check;
pub(crate) mod child;
pub(crate) mod environment;
pub mod frame;
mod log;
pub mod program;
pub mod serve;
mod shared;
pub mod values;
