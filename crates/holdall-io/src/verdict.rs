//! The result of verifying a file or a package.

use crate::error::ODD;
use holdall_core::{Error, Warning};

/// The overall result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// Everything was checked, and no problem was found.
    Sound,
    /// No problem was found, but a part could not be checked because of a limit or because this version does not
    /// support it.
    Incomplete,
    /// At least one problem was found.
    Bad,
}

impl Verdict {
    /// Returns the name used in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Sound => "sound",
            Verdict::Incomplete => "incomplete",
            Verdict::Bad => "bad",
        }
    }
}

/// How a verification treats warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strictness {
    /// Warnings are reported, and do not affect the verdict.
    #[default]
    Usual,
    /// Each warning is a finding, and so makes the verdict [`Verdict::Bad`].
    Strict,
}

impl Strictness {
    /// Returns the warnings as findings: all of them if strict, else none.
    pub fn findings(self, warnings: &[Warning]) -> Vec<Error> {
        match self {
            Strictness::Usual => Vec::new(),
            Strictness::Strict => warnings.iter().map(odd).collect(),
        }
    }
}

/// Converts a warning to an error that names the tensor and the component. If the code of the warning is that of a
/// rule, the error has that rule.
fn odd(warning: &Warning) -> Error {
    let more = match warning.count {
        0 | 1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let mut e = match holdall_formats::rules().find(|rule| rule.code == warning.code) {
        Some(rule) => rule.broken(format!("{}{more}", warning.message)),
        None => ODD.broken(format!("{}{more} (warning `{}`)", warning.message, warning.code)),
    };
    if let Some(tensor) = &warning.tensor {
        e = e.in_tensor(tensor);
    }
    match &warning.component {
        Some(component) => e.in_component(component),
        None => e,
    }
}
