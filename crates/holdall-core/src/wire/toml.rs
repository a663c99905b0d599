//! TOML under limits, parsed by the `toml` crate, which refuses duplicate keys. The length, nesting and number of
//! values are checked before, because the parser builds everything in memory.

use crate::error::{Error, Result};
use crate::limits::Limits;
pub use ::toml::de::{DeTable, DeValue};
pub use ::toml::{Spanned, Table, Value};
use holdall_collections::DebugUnwrap;

crate::error::rules! {
    /// Rules of TOML.
    pub static RULES;

    /// The text is too long.
    pub LEN: Limit "toml/len" "A TOML text has at most `Limits::text_len` bytes."
        remedies [RaiseLimit { limit: "text_len", at_least: None }];
    /// The text is not TOML.
    pub BROKEN: Malformed "toml/broken" "A TOML text is UTF-8 and valid TOML 1.0, without duplicate keys.";
    /// Values are nested too deeply.
    pub DEPTH: Limit "toml/depth"
        "Tables, arrays and dotted keys nest at most 64 deep, or `Limits::depth` if that is less."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// There are too many values.
    pub TOO_MANY_VALUES: Limit "toml/too-many-values"
        "A TOML text has at most 2^20 tables, keys, values and empty lines, or `Limits::attribute_values` if that is less."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
}

/// The maximum nesting, whatever the limits: what the parser supports.
const DEPTH_MAX: usize = 64;

/// The maximum number of values, whatever the limits: the parser takes about 200 bytes per value. An `index.toml` of
/// 100 000 tensors has about this many.
const COUNT_MAX: u64 = 1 << 20;

/// Parses a whole text.
///
/// # Errors
/// Returns [`LEN`], [`BROKEN`], [`DEPTH`] or [`TOO_MANY_VALUES`] if the text is invalid or exceeds a limit.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Table> {
    let text = measured(bytes, limits)?;
    text.parse::<Table>().map_err(|e| broken(text, &e))
}

/// Parses a text like [`parse`], and keeps the offset of every key and value in the text, which [`line()`] converts to
/// a line.
///
/// # Errors
/// Returns the errors of [`parse`].
pub fn parse_placed<'t>(bytes: &'t [u8], limits: &Limits) -> Result<(&'t str, DeTable<'t>)> {
    let text = measured(bytes, limits)?;
    let table = DeTable::parse(text).map_err(|e| broken(text, &e))?;
    Ok((text, table.into_inner()))
}

/// Returns the line, starting at 1, that contains byte `offset` of the text.
pub fn line(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset.min(text.len())).debug_unwrap();
    before.iter().filter(|&&b| b == b'\n').count().saturating_add(1)
}

#[cold]
fn broken(text: &str, e: &::toml::de::Error) -> Error {
    let line = line(text, e.span().map_or(0, |span| span.start));
    // The parser lists the expected tokens on further lines.
    let message = e.message().lines().collect::<Vec<_>>().join("; ");
    BROKEN.broken(format!("line {line}: {message}"))
}

/// Returns the text, after checking its length, nesting and number of values.
fn measured<'t>(bytes: &'t [u8], limits: &Limits) -> Result<&'t str> {
    let (len, most) = (bytes.len() as u64, limits.text_len);
    if len > most {
        return Err(LEN.broken(format!("a text of {len} bytes exceeds the limit of {most}")));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| BROKEN.broken(format!("byte {} is not UTF-8", e.valid_up_to())))?;
    measure(bytes, limits)?;
    Ok(text)
}

/// Measures the nesting and the number of values of a text, without building values. Strings and comments are
/// recognised as in TOML; the parser reports malformed ones.
struct Measure {
    /// For each open bracket, the number of tables, arrays and dots that it opened.
    open: Vec<usize>,
    /// The sum of `open`.
    depth: usize,
    /// Dots of the current key or number.
    dots: usize,
    count: u64,
}

fn measure(bytes: &[u8], limits: &Limits) -> Result<()> {
    let most_deep = limits.depth.min(DEPTH_MAX);
    let most = limits.attribute_values.min(COUNT_MAX);
    // The count at the start of the line.
    let mut before = 0u64;
    let mut m = Measure { open: Vec::new(), depth: 0, dots: 0, count: 0 };
    // Dots of the last header: keys after it are nested in it.
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
                // A header is the only bracket with dots right before its end; elsewhere the dots belong to a number,
                // or to a key that the parser refuses.
                header = header.max(m.dots).min(DEPTH_MAX);
                let closed = m.open.pop().unwrap_or(0);
                m.depth = m.depth.saturating_sub(closed);
                m.dots = 0;
            }
            b'=' => {
                // The dots are kept: the key's value is nested that deeply.
                m.count = m.count.saturating_add(1);
                continue;
            }
            b',' => {
                m.dots = 0;
                m.count = m.count.saturating_add(1);
            }
            b'\n' => {
                m.dots = 0;
                // The parser allocates for empty lines, too.
                m.count = m.count.max(before.saturating_add(1));
                before = m.count;
            }
            _ => continue,
        }
        let depth = m.depth.saturating_add(m.dots).saturating_add(header);
        if depth > most_deep {
            return Err(DEPTH.broken(format!("nested more than {most_deep} levels deep")));
        }
        if m.count > most {
            let message = format!("more than {most} tables, keys, values and lines");
            return Err(TOO_MANY_VALUES.broken(message));
        }
    }
    Ok(())
}

/// Returns the bytes after a string, whose first quote was already read.
fn after_string(rest: &[u8], quote: u8) -> &[u8] {
    let takes_escapes = quote == b'"';
    if let Some(mut rest) = rest.strip_prefix(&[quote, quote]) {
        // Three quotes start a multi-line string, which ends at the next three. One or two more quotes belong to it.
        loop {
            match rest {
                [b'\\', _, after @ ..] if takes_escapes => rest = after,
                [a, b, c, after @ ..] if [a, b, c] == [&quote; 3] => {
                    let more = after.iter().take(2).take_while(|&&b| b == quote).count();
                    return after.get(more..).debug_unwrap();
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

/// Returns the bytes from the end of the line on.
fn after_line(rest: &[u8]) -> &[u8] {
    let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    rest.get(end..).debug_unwrap()
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
    fn errors_name_the_line() {
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
