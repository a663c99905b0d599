//! Runners in processes of their own: frames, values in them, and the process itself.
//!
//! `docs/spec/runner.md` is the specification; [`frame`] and [`values`] are pure. [`program`] is a runner of somebody
//! else, [`check`](mod@check) tries one, [`serve`](mod@serve) makes a runner of this program one for others.

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
