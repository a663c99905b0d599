//! All that differs between operating systems in consoles, signals and command lines. No other module of the command has
//! conditions on the system.
//!
//! `unix` and `windows` have the same functions. What differs in files is in `holdall_io::platform`, and what differs in
//! processes in that of `holdall_run`.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::*;

#[cfg(test)]
mod tests;
