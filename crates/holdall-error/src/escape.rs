//! Formatting text from files in messages.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// The maximum number of characters of a name or value in a message, including escapes.
const NAME: usize = 200;
/// Quotes, which need no escape between backticks.
const QUOTES: [char; 2] = ['"', '\''];
/// The maximum number of characters of a message or hint, not counting the note about its length.
const MESSAGE: usize = 900;
/// The maximum number of items of a list in a message.
const ITEMS: usize = 16;

/// Text from a file, formatted for a message: control characters are escaped, and the text is cut after 200 characters,
/// followed by its length: `aaa… (1048576 characters)`.
///
/// All names and values from files must be formatted this way.
pub trait Escape {
    /// Returns a value whose `Display` writes the escaped and cut text.
    fn escaped(&self) -> EscapedText<'_>;
}

impl Escape for str {
    fn escaped(&self) -> EscapedText<'_> {
        EscapedText(self)
    }
}

/// The return value of [`Escape::escaped`].
#[derive(Debug, Clone, Copy)]
pub struct EscapedText<'a>(&'a str);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut count = 0;
        let over = |c: char| {
            count += if QUOTES.contains(&c) { 1 } else { c.escape_debug().count() };
            count > NAME
        };
        match self.0.find(over) {
            None => escaped(self.0, f),
            Some(at) => {
                let (head, _) = self.0.split_at(at);
                escaped(head, f)?;
                Rest(self.0).fmt(f)
            }
        }
    }
}

/// Writes a text with its characters escaped, except for quotes: the text is put between backticks.
fn escaped(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    text.split_inclusive(QUOTES).try_for_each(|part| {
        let (part, quote) = match part.chars().next_back().filter(|c| QUOTES.contains(c)) {
            Some(quote) => (part.strip_suffix(quote).unwrap_or(part), Some(quote)),
            None => (part, None),
        };
        write!(f, "{}", part.escape_debug())?;
        quote.map_or(Ok(()), |quote| f.write_char(quote))
    })
}

/// Returns the items of a list, separated by commas: the first 16, and the number of all items if there are more.
pub fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut out = String::new();
    let mut count = 0usize;
    for item in items {
        if count < ITEMS {
            let comma = if count == 0 { "" } else { ", " };
            out.push_str(&format!("{comma}{item}"));
        }
        count += 1;
    }
    if count > ITEMS {
        out.push_str(&format!(", … ({count} in all)"));
    }
    out
}

/// Returns a message, cut if it is longer than 900 characters.
pub fn message(text: Cow<'static, str>) -> Cow<'static, str> {
    // A text has at most as many characters as bytes.
    if text.len() <= MESSAGE {
        return text;
    }
    match text.char_indices().nth(MESSAGE) {
        None => text,
        Some((at, _)) => Cow::Owned(format!("{}{}", text.split_at(at).0, Rest(&text))),
    }
}

/// The note at the end of a text that was cut.
struct Rest<'a>(&'a str);

impl fmt::Display for Rest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "… ({} characters)", self.0.chars().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_cut() {
        for whole in ["", "w", "a\u{301}", &"x".repeat(200)] {
            assert_eq!(whole.escaped().to_string(), whole);
        }
        assert_eq!("a\nb\u{1b}".escaped().to_string(), "a\\nb\\u{1b}");
        assert_eq!("W/\"it's\"\n\"".escaped().to_string(), "W/\"it's\"\\n\"");
        assert_eq!(
            "\"".repeat(201).escaped().to_string(),
            format!("{}… (201 characters)", "\"".repeat(200))
        );
        let long = "x".repeat(201);
        assert_eq!(long.escaped().to_string(), format!("{}… (201 characters)", &long[1..]));
        // An escape is shown in full or not at all.
        let escaped = "\u{1b}".repeat(1000).escaped().to_string();
        assert_eq!(escaped, format!("{}… (1000 characters)", "\\u{1b}".repeat(33)));
    }

    #[test]
    fn lists_and_messages_end() {
        assert_eq!(list(["a", "b"]), "a, b");
        assert_eq!(
            list(0..20),
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, … (20 in all)"
        );
        assert_eq!(message("short".into()), "short");
        assert_eq!(message("ü".repeat(900).into()), "ü".repeat(900));
        let cut = message("ü".repeat(5000).into());
        assert_eq!(cut, format!("{}… (5000 characters)", "ü".repeat(900)));
    }
}
