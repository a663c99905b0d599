//! Rules: what must hold, with a code that never changes.

use crate::Remedy;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file breaks a rule of its format.
    Malformed,
    /// The file is well formed, but its bytes are not the ones that were written.
    Integrity,
    /// The file, or what was asked of it, is outside what this version can do.
    Unsupported,
    /// A number in the file is over one of the `Limits`.
    Limit,
    /// There is no tensor, component or attribute of that name.
    NotFound,
    /// The caller asked for something that cannot be: a wrong dtype, a range outside the shape.
    Misuse,
    /// The operating system refused.
    Io,
}

impl ErrorKind {
    /// The name that `--json` output uses.
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

/// One thing that can be wrong, with a code that never changes.
///
/// Rules are data: each module that can fail has a table of its own, made by [`rules!`](crate::rules), and each
/// crate gathers its tables in `rules()`. The list of codes in the docs, the corpus of broken files and the
/// JSON of the command line all come from there.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// `area/what`, for example `ztensor/manifest-bounds`. Stable.
    pub code: &'static str,
    /// Whose fault breaking this rule is.
    pub kind: ErrorKind,
    /// The rule itself, as a sentence about a sound file or call.
    pub says: &'static str,
    /// What a person can do about it, where that is always the same.
    pub hint: Option<&'static str>,
    /// What else can be done about it, which each face spells in its own words.
    pub remedies: &'static [Remedy],
}

/// The rules of one module: a static for each, and a table of all of them.
///
/// An entry is a name, whose fault breaking the rule is (a [`ErrorKind`]), its code, the rule as a sentence, and
/// where the same advice always helps, a hint, [`Remedy`]s, or both.
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
            $vis:vis $name:ident: $kind:ident $code:literal $says:literal
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
                says: $says,
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
