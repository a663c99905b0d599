//! The JSON output of `diff`, described in `docs/cli.md`.

use crate::output::as_json;
use holdall::plain::ToPlain as _;
use holdall::{Diff, File, fields};

/// Returns the JSON object for two files.
pub(super) fn report(a: &File, b: &File, diff: &Diff) -> String {
    as_json(&fields!(a: a, b: b).and(diff.to_plain()))
}
