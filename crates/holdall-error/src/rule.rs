//! Rules: what must hold, each with a code that never changes.

use crate::Remedy;

/// The kind of an error: whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file breaks a rule of its format.
    Malformed,
    /// The file is well formed, but its bytes are not the ones that were written.
    Integrity,
    /// The file, or a request of the caller, is outside what this version supports.
    Unsupported,
    /// A number in the file exceeds one of the `Limits`.
    Limit,
    /// No tensor, component or attribute has that name.
    NotFound,
    /// The caller requested something impossible: a wrong dtype, a range outside the shape.
    Misuse,
    /// The operating system returned an error.
    Io,
}

impl ErrorKind {
    /// Returns the kind's name in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Malformed => "malformed",
            ErrorKind::Integrity => "integrity",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Limit => "limit",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Misuse => "misuse",
            ErrorKind::Io => "io",
        }
    }
}

/// Something that must hold, with a code that never changes.
///
/// Rules are data: each module that can fail has a table of rules, made by [`rules!`](crate::rules), and each crate
/// collects its tables in `rules()`. The list of codes in the documentation, the corpus of broken files and the JSON of
/// the command are generated from them.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// `area/what`, for example `ztensor/manifest-bounds`. Stable.
    pub code: &'static str,
    /// Whose fault it is if the rule is broken.
    pub kind: ErrorKind,
    /// The rule, as a sentence about a valid file or call.
    pub sentence: &'static str,
    /// The advice for the user, if it is the same for every error of this rule.
    pub hint: Option<&'static str>,
    /// Further remedies, which each interface formats in its own terms.
    pub remedies: &'static [Remedy],
}

/// Defines the rules of one module: a static for each rule, and a table of all of them.
///
/// An entry consists of a name, an [`ErrorKind`], a code, the rule as a sentence and, if the same advice always helps,
/// a hint, [`Remedy`]s, or both.
///
/// ```
/// holdall_error::rules! {
///     /// The rules of boxes.
///     pub static RULES;
///
///     /// The box has no lid.
///     pub LID: Malformed "box/lid" "A box has a lid.";
///     /// The box cannot be carried.
///     pub WEIGHT: Limit "box/weight"
///         "A box weighs at most 20 kg."
///         hint "put less in it"
///         remedies [LeaveOut];
/// }
/// assert_eq!(RULES.len(), 2);
/// let e = WEIGHT.broken("it weighs 25 kg");
/// assert_eq!(e.hint(), Some("put less in it"));
/// assert_eq!(e.remedies(), [holdall_error::Remedy::LeaveOut]);
/// ```
#[macro_export]
macro_rules! rules {
    (
        $(#[$about:meta])*
        $shown:vis static $table:ident;
        $(
            $(#[$doc:meta])*
            $vis:vis $name:ident: $kind:ident $code:literal $sentence:literal
                $(hint $hint:literal)? $(remedies [$($remedy:expr),*])?;
        )*
    ) => {
        $(#[$about])*
        $shown static $table: &[&$crate::Rule] = &[$(&$name),*];
        $(
            $(#[$doc])*
            $vis static $name: $crate::Rule = $crate::Rule {
                code: $code,
                kind: $crate::ErrorKind::$kind,
                sentence: $sentence,
                hint: $crate::rules!(@hint $($hint)?),
                remedies: $crate::rules!(@remedies $($($remedy),*)?),
            };
        )*
    };
    (@hint) => { None };
    (@hint $hint:literal) => { Some($hint) };
    (@remedies) => { &[] };
    (@remedies $($remedy:expr),+) => {{
        #[allow(unused_imports)]
        use $crate::Remedy::*;
        &[$($remedy),+]
    }};
}
