//! Runners in separate processes: frames, values in frames, and processes.
//!
//! The specification is `docs/spec/runner.md`. [`frame`] and [`values`] do no I/O. [`program`] is an external runner,
//! [`check`](mod@check) tests one, and [`serve`](mod@serve) offers a runner of this crate to another process.

#[cfg(unix)]
pub mod check;
#[cfg(unix)]
pub(crate) mod child;
#[cfg(unix)]
pub(crate) mod environment;
pub mod frame;
#[cfg(unix)]
mod log;
#[cfg(unix)]
pub mod program;
#[cfg(unix)]
pub mod serve;
#[cfg(unix)]
mod shared;
pub mod values;
