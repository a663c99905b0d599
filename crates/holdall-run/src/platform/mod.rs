//! All that differs between operating systems in how runners' processes are started, reached and ended. No other module
//! of this crate has conditions on the system, except for the target triple (`requirements`).
//!
//! `unix` and `windows` have the same functions.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

#[cfg(test)]
mod tests;

pub(crate) use system::*;
