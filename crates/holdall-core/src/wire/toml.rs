//! TOML under limits. The parser is the `toml` crate, which refuses duplicate keys; here its input is
//! checked against lengths, nesting and counts first, because it builds everything in memory.

use crate::error::{Error, Result};
use crate::limits::Limits;
pub use ::toml::de::{DeTable, DeValue};
pub use ::toml::{Spanned, Table, Value};

crate::error::rules! {
    /// Rules of TOML.
    pub static RULES;

    /// The text is too long.
    pub LEN: Limit "toml/len" "A TOML text has at most `Limits::text_len` bytes."
        remedies [RaiseLimit { limit: "text_len", at_least: None }];
    /// The text is not TOML.
    pub BROKEN: Malformed "toml/broken" "A TOML text is UTF-8 and valid TOML 1.0, without duplicate keys.";
    /// Nested too deeply.
    pub DEPTH: Limit "toml/depth"
        "Tables, arrays and dotted keys nest at most 64 deep, or `Limits::depth` if that is less."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// More values than allowed.
    pub TOO_MANY_VALUES: Limit "toml/too-many-values"
        "A TOML text has at most 2^20 tables, keys, values and empty lines, or `Limits::attribute_values` if that is less."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
}

/// The deepest nesting, whatever the limits say: what the parser takes.
const DEPTH_MAX: usize = 64;

/// The most values, whatever the limits say: the parser takes some 200 bytes for one of a few. An
/// `index.toml` of 100 000 tensors has about as many.
const COUNT_MAX: u64 = 1 << 20;

/// Parses a whole text.
///
/// # Errors
/// [`LEN`], [`BROKEN`], [`DEPTH`], [`TOO_MANY_VALUES`].
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Table> {
    let text = measured(bytes, limits)?;
    text.parse::<Table>().map_err(|e| broken(text, &e))
}

/// As [`parse`]; every key and value with its place in the text, which [`line()`] makes a line.
///
/// # Errors
/// As [`parse`].
pub fn parse_placed<'t>(bytes: &'t [u8], limits: &Limits) -> Result<(&'t str, DeTable<'t>)> {
    let text = measured(bytes, limits)?;
    let table = DeTable::parse(text).map_err(|e| broken(text, &e))?;
    Ok((text, table.into_inner()))
}

/// The line, from 1 on, that byte `at` of the text is in.
pub fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at.min(text.len())).unwrap_or_default();
    before.iter().filter(|&&b| b == b'\n').count().saturating_add(1)
}

#[cold]
fn broken(text: &str, e: &::toml::de::Error) -> Error {
    let line = line(text, e.span().map_or(0, |span| span.start));
    // The parser says what it expected on lines of its own.
    let said = e.message().lines().collect::<Vec<_>>().join("; ");
    BROKEN.broken(format!("line {line}: {said}"))
}

/// The text, once it is known to be short, flat and small enough to be parsed.
fn measured<'t>(bytes: &'t [u8], limits: &Limits) -> Result<&'t str> {
    let (len, most) = (bytes.len() as u64, limits.text_len);
    if len > most {
        return Err(LEN.broken(format!("{len} bytes, at most {most}")));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| BROKEN.broken(format!("byte {} is not UTF-8", e.valid_up_to())))?;
    measure(bytes, limits)?;
    Ok(text)
}

/// What the text nests and counts, without building any of it. Strings and comments are told from the
/// rest as TOML does it; where they are broken, the parser says so.
struct Measure {
    /// Tables, arrays and dots that are open, for each bracket.
    open: Vec<usize>,
    /// All of these, and the dots of the last header.
    depth: usize,
    /// Dots of the key, or number, at hand.
    dots: usize,
    count: u64,
}

fn measure(bytes: &[u8], limits: &Limits) -> Result<()> {
    let most_deep = limits.depth.min(DEPTH_MAX);
    let most = limits.attribute_values.min(COUNT_MAX);
    // The count where the line starts.
    let mut before = 0u64;
    let mut m = Measure { open: Vec::new(), depth: 0, dots: 0, count: 0 };
    // Dots of the last header: what follows it stands inside.
    let mut header = 0usize;
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' | b'\'' => rest = after_string(rest, byte),
            b'#' => rest = after_line(rest),
            b'.' => m.dots = m.dots.saturating_add(1),
            b'[' | b'{' => {
                let is_header = m.open.is_empty() && byte == b'[' && m.dots == 0;
                if is_header {
                    header = 0;
                }
                m.open.push(m.dots.saturating_add(1));
                m.depth = m.depth.saturating_add(m.dots).saturating_add(1);
                m.dots = 0;
                m.count = m.count.saturating_add(1);
            }
            b']' | b'}' => {
                // A header is the only bracket with dots right before its end; elsewhere they are those
                // of a number, or of a key that the parser refuses.
                header = header.max(m.dots).min(DEPTH_MAX);
                let closed = m.open.pop().unwrap_or(0);
                m.depth = m.depth.saturating_sub(closed);
                m.dots = 0;
            }
            b'=' => {
                // The dots stay: what the key holds is that deep.
                m.count = m.count.saturating_add(1);
                continue;
            }
            b',' => {
                m.dots = 0;
                m.count = m.count.saturating_add(1);
            }
            b'\n' => {
                m.dots = 0;
                // The parser takes room for a line with nothing on it, too.
                m.count = m.count.max(before.saturating_add(1));
                before = m.count;
            }
            _ => continue,
        }
        let depth = m.depth.saturating_add(m.dots).saturating_add(header);
        if depth > most_deep {
            return Err(DEPTH.broken(format!("nested more than {most_deep} deep")));
        }
        if m.count > most {
            let message = format!("more than {most} tables, keys, values and lines");
            return Err(TOO_MANY_VALUES.broken(message));
        }
    }
    Ok(())
}

/// What follows a string of which the first quote was taken.
fn after_string(rest: &[u8], quote: u8) -> &[u8] {
    let takes_escapes = quote == b'"';
    if let Some(mut rest) = rest.strip_prefix(&[quote, quote]) {
        // Three quotes, with lines in it: to the next three. One or two more belong to it.
        loop {
            match rest {
                [b'\\', _, after @ ..] if takes_escapes => rest = after,
                [a, b, c, after @ ..] if [a, b, c] == [&quote; 3] => {
                    let more = after.iter().take(2).take_while(|&&b| b == quote).count();
                    return after.get(more..).unwrap_or_default();
                }
                [_, after @ ..] => rest = after,
                [] => return rest,
            }
        }
    }
    let mut rest = rest;
    loop {
        match rest {
            [b'\\', b'\n', ..] | [b'\n', ..] | [] => return rest,
            [b'\\', _, after @ ..] if takes_escapes => rest = after,
            [b, after @ ..] if *b == quote => return after,
            [_, after @ ..] => rest = after,
        }
    }
}

/// From the end of the line on.
fn after_line(rest: &[u8]) -> &[u8] {
    let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    rest.get(end..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Option<&'static str> {
        parse(text.as_bytes(), &Limits::default()).err().map(|e| e.code())
    }

    #[test]
    fn nesting_of_every_kind_is_bounded() {
        let a = |n: usize| vec!["a"; n].join(".");
        for deep in [
            format!("x = {}{}", "[".repeat(70), "]".repeat(70)),
            format!("x = {}1{}", "{a=".repeat(70), "}".repeat(70)),
            format!("{} = 1", a(70)),
            format!("[{}]", a(70)),
            format!("[{}]\n{} = 1", a(40), a(40)),
            format!("{} = {{ {} = [1] }}", a(40), a(40)),
            format!("x = {{ {} = {{ {} = 1 }} }}", a(40), a(40)),
            format!("[x]\n[{}]\n{} = 1", a(40), a(40)),
        ] {
            assert_eq!(code(&deep), Some("toml/depth"), "{deep}");
        }
        for shallow in [
            format!("[{}]\n[{}]\n[[b]]\n", a(40), format_args!("x.{}", a(40))),
            format!("x = [{}]", "1.5, ".repeat(1000)),
            "a = 1.5\nb = 1.5\n".replace('\n', &format!(" # {}\n", "[".repeat(100))),
            format!("x = '{0}'\ny = \"\\\"{0}\"\nz = '''{0}\n'{0}''''\n", "[".repeat(100)),
            format!("x = \"\"\"{0}\\\"\"\"{0}\"\"\"\"\"\ny = ''\nz = \"\"\n", "[".repeat(100)),
        ] {
            assert_eq!(code(&shallow), None, "{shallow}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_line() {
        let e = parse(b"a = 1\nb = 2\na = 3\n", &Limits::default()).expect_err("broken");
        assert_eq!((e.code(), e.message().split(':').next()), ("toml/broken", Some("line 3")));
        assert_eq!(code("a = 'x\nb = 1"), Some("toml/broken"));
        let e = parse(b"a = 1\n\xff", &Limits::default()).expect_err("broken");
        assert_eq!(e.message(), "byte 6 is not UTF-8");
    }

    #[test]
    fn lengths_and_counts_are_bounded() {
        let mut limits = Limits::default();
        (limits.text_len, limits.attribute_values) = (10, 3);
        let code = |text: &str| parse(text.as_bytes(), &limits).err().map(|e| e.code());
        assert_eq!(code("a = [1, 2, 3]"), Some("toml/len"));
        assert_eq!(code("a=[1,2,3]"), Some("toml/too-many-values"));
        assert_eq!(code("a=[1,2]"), None);
        assert_eq!(code("\n\n#\n\n"), Some("toml/too-many-values"));
    }

    #[test]
    fn no_limits_allow_more_values_than_memory_has_room_for() {
        let limits = Limits { attribute_values: u64::MAX, ..Limits::default() };
        let code = |text: &str| parse(text.as_bytes(), &limits).err().map(|e| e.code());
        let many = |n: usize| format!("x=[{}]", "1,".repeat(n));
        assert_eq!(code(&many((1 << 20) - 1)), Some("toml/too-many-values"));
        assert_eq!(code(&many((1 << 20) - 2)), None);
        assert_eq!(code(&"\n".repeat((1 << 20) + 1)), Some("toml/too-many-values"));
        let row = "[[tensor]]\nname='a'\ndtype='int8'\nshape=[1]\nfile='a.bin'\ninner=[]\n\n";
        assert_eq!(code(&row.repeat(100_000)), None);
    }
}
