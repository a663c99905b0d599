//! Reports as JSON, with the command's wording of hints.

use super::remedy::advice;
use holdall::plain::Plain;

/// Formats a report as JSON, on one line.
pub(crate) fn as_json(plain: &Plain<'_>) -> String {
    plain.to_json(advice)
}
