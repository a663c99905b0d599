//! What a verification comes to, of a file or of a package.

use crate::error::ODD;
use holdall_core::{Error, Warning};

/// What a verification comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// Nothing is wrong with what the file lets one check.
    Sound,
    /// Nothing is wrong with what was checked, but a limit, or what this version cannot do, kept it
    /// from checking the rest.
    Incomplete,
    /// Something is wrong.
    Bad,
}

impl Verdict {
    /// The name that `--json` output uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Sound => "sound",
            Verdict::Incomplete => "incomplete",
            Verdict::Bad => "bad",
        }
    }
}

/// What warnings come to in a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strictness {
    /// They are told.
    #[default]
    Usual,
    /// Each of them is a finding, and so makes the file bad.
    Strict,
}

impl Strictness {
    /// The findings that warnings are.
    pub fn findings(self, warnings: &[Warning]) -> Vec<Error> {
        match self {
            Strictness::Usual => Vec::new(),
            Strictness::Strict => warnings.iter().map(odd).collect(),
        }
    }
}

/// A warning as a finding, which has a place for the names of tensor and component. Where its code is a rule's, that
/// is the rule that is broken.
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
