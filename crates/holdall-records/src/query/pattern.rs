//! The patterns of `like`.

use crate::rules::CONDITION;
use holdall_core::Result;
use holdall_core::error::Escape as _;

/// A pattern for a whole text: `%` matches any text, also an empty one, and `_` one character. After a
/// backslash, `%`, `_` and the backslash match themselves. Matching is case-sensitive.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern(Vec<Piece>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece {
    Char(char),
    /// `_`
    Any,
    /// `%`
    Run,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Returns [`CONDITION`] if the pattern ends in a backslash that escapes nothing.
    pub(super) fn new(text: &str) -> Result<Pattern> {
        let (mut pieces, mut chars) = (Vec::new(), text.chars());
        while let Some(c) = chars.next() {
            let piece = match c {
                '%' => Piece::Run,
                '_' => Piece::Any,
                '\\' => Piece::Char(chars.next().ok_or_else(|| {
                    let message = format!(
                        "the pattern `{}` ends in a backslash: write `\\\\` for a backslash",
                        text.escaped()
                    );
                    CONDITION.broken(message)
                })?),
                c => Piece::Char(c),
            };
            // Several runs in a row match what one matches.
            if piece != Piece::Run || pieces.last() != Some(&Piece::Run) {
                pieces.push(piece);
            }
        }
        Ok(Pattern(pieces))
    }

    /// Returns `true` if the pattern matches the whole text.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (mut pieces, mut rest) = (self.0.as_slice(), text.chars());
        // The pieces after the last run so far, and the text that this run does not cover yet.
        let mut retry: Option<(&[Piece], std::str::Chars<'_>)> = None;
        loop {
            let mut next = rest.clone();
            match (pieces.split_first(), next.next()) {
                (Some((Piece::Run, after)), _) => {
                    retry = Some((after, rest.clone()));
                    pieces = after;
                    continue;
                }
                (Some((Piece::Any, after)), Some(_)) => {
                    (pieces, rest) = (after, next);
                    continue;
                }
                (Some((Piece::Char(wanted), after)), Some(c)) if *wanted == c => {
                    (pieces, rest) = (after, next);
                    continue;
                }
                (None, None) => return true,
                _ => {}
            }
            // The last run covers one more character.
            let Some((after, covered)) = &mut retry else { return false };
            if covered.next().is_none() {
                return false;
            }
            (pieces, rest) = (after, covered.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, wanted) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("%", "any", true),
            ("_", "", false),
            ("_", "é", true),
            ("_", "ab", false),
            ("a%", "abc", true),
            ("%c", "abc", true),
            ("%b", "abc", false),
            ("%b%", "abc", true),
            ("a%c", "abcbc", true),
            ("a%%c", "ac", true),
            ("a_c", "abc", true),
            ("A%", "abc", false),
            ("%aab", "aaab", true),
            ("%ab%ab%", "abab", true),
            ("%ab%ab%", "aba", false),
            ("100\\%", "100%", true),
            ("100\\%", "100x", false),
            ("a\\_b", "axb", false),
            ("a\\\\b", "a\\b", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(text), wanted, "{pattern} {text}");
        }
        assert_eq!(Pattern::new("a\\").unwrap_err().code(), "records/condition");
    }
}
