//! What a verification comes to, of a file or of a package.

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
