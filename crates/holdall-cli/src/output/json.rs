//! Reports as JSON, with hints in words of the command.

use super::remedy::advice;
use holdall::plain::Plain;

/// The text of a report, on one line.
pub(crate) fn as_json(plain: &Plain<'_>) -> String {
    plain.to_json(advice)
}
