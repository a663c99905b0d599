//! Evolution: how schemas differ, and records of one schema read under another (section 8).

mod change;
mod diff;
mod keywords;
mod references;
mod show;
mod types;
mod widen;

pub use change::{Bump, Change, Verdict, What, changes_json};
pub use diff::{Side, diff};
