//! Runners in processes of their own: frames, values in them, and the process itself.
//!
//! `docs/spec/runner.md` is the specification; [`frame`] and [`values`] are pure.

#[cfg(unix)]
pub(crate) mod child;
#[cfg(unix)]
pub(crate) mod environment;
pub mod frame;
#[cfg(unix)]
mod log;
pub mod values;
