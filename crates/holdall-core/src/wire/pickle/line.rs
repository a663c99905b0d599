//! Lines of protocols 0 and 1: numbers and texts in Python's syntax.

use super::Node;

/// The maximum number of digits of an integer, as in Python.
const MAX_DIGITS: usize = 4300;
/// Digits that are processed at once.
const DIGITS: usize = 9;

/// Parses a memo index, with optional surrounding space, sign and underscores.
pub fn memo_index(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.trim_matches(is_space);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text).replace('_', "");
    let number = digits.parse().ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()));
    number.filter(|number| *number == 0 || !text.starts_with('-'))
}

/// Returns the part of a numeric line that CPython's unpickler in C sees: it stops at a NUL.
pub fn until_nul(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns `true` if Python may accept the line as an integer in any base; otherwise Python raises an error.
pub fn may_be_integer(line: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_hexdigit() || b"xXoO_+-L \t\r\x0b\x0c".contains(b);
    // The unpickler in C accepts an empty text before a NUL as 0.
    let is_nothing = line.first() == Some(&0);
    let line = until_nul(line);
    is_nothing || (line.iter().any(u8::is_ascii_hexdigit) && line.iter().all(is_part))
}

/// Returns `true` if Python may accept the line as a float; otherwise Python raises an error.
pub fn may_be_float(line: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"._+- \t\r\x0b\x0c".contains(b);
    let line = until_nul(line);
    let text = line.to_ascii_lowercase();
    let is_named = |name: &[u8]| memchr::memmem::find(&text, name).is_some();
    let has_digit = line.iter().any(u8::is_ascii_digit);
    line.iter().all(is_part) && (has_digit || is_named(b"nan") || is_named(b"inf"))
}

/// Returns `true` for spaces that Python skips around a number.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// Parses a decimal integer, with an optional suffix `L`.
pub fn integer(line: &[u8]) -> Option<Node> {
    let text = std::str::from_utf8(line.strip_suffix(b"L").unwrap_or(line)).ok()?;
    if let Ok(n) = text.parse() {
        return Some(Node::Integer(n));
    }
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Words of 32 bits, lowest first.
    let mut words: Vec<u32> = Vec::new();
    for part in digits.chunks(DIGITS) {
        let add_digit = |(factor, n): (u64, u64), digit: &u8| {
            (factor.wrapping_mul(10), n.wrapping_mul(10).wrapping_add((digit & 15).into()))
        };
        let (factor, mut carried) = part.iter().fold((1, 0), add_digit);
        for word in &mut words {
            carried = u64::from(*word).wrapping_mul(factor).wrapping_add(carried);
            *word = low(carried);
            carried >>= 32;
        }
        if carried != 0 {
            words.push(low(carried));
        }
    }
    words.push(0);
    if text.starts_with('-') {
        let mut is_carried = true;
        for word in &mut words {
            (*word, is_carried) = (!*word).overflowing_add(is_carried.into());
        }
    }
    Some(Node::Long(words.into_iter().flat_map(u32::to_le_bytes).collect()))
}

/// Returns the lower half of a number.
fn low(n: u64) -> u32 {
    let [a, b, c, d, ..] = n.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Parses a float as written by `repr`.
pub fn float(line: &[u8]) -> Option<f64> {
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Returns the text of a line in Latin-1 with `\uXXXX` and `\UXXXXXXXX` escapes, and whether each escape is a valid
/// character.
pub fn unicode(line: &[u8]) -> (String, bool) {
    let (mut out, mut is_sound) = (String::new(), true);
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        out.push(char::from(byte));
        let digits = match (byte, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            // A backslash after a backslash starts no escape.
            (b'\\', Some(next)) => {
                out.push(char::from(*next));
                rest = after.get(1..).unwrap_or_default();
                continue;
            }
            _ => continue,
        };
        let after = after.get(1..).unwrap_or_default();
        match after.split_at_checked(digits).and_then(|(hex, rest)| Some((from_hex(hex)?, rest))) {
            Some((c, left)) => {
                out.pop();
                out.push(c);
                rest = left;
            }
            None => is_sound = false,
        }
    }
    (out, is_sound)
}

/// Returns the bytes of a line that contains a quoted Python literal, and whether it is valid.
pub fn string(line: &[u8]) -> (Vec<u8>, bool) {
    let line = line.trim_ascii();
    let (inside, mut is_sound) = match line {
        [b'\'', inside @ .., b'\''] | [b'"', inside @ .., b'"'] => (inside, true),
        other => (other, false),
    };
    let mut out = Vec::new();
    let mut rest = inside;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&kind, after)) = after.split_first() else {
            is_sound = false;
            break;
        };
        rest = after;
        match kind {
            b'x' => {
                match after.split_at_checked(2).and_then(|(hex, r)| Some((hex_byte(hex)?, r))) {
                    Some((byte, left)) => {
                        out.push(byte);
                        rest = left;
                    }
                    None => {
                        out.push(b'x');
                        is_sound = false;
                    }
                }
            }
            b'0'..=b'7' => {
                let more = after.iter().take(2).take_while(|b| matches!(**b, b'0'..=b'7')).count();
                let (more, left) = after.split_at_checked(more).unwrap_or_default();
                out.push(more.iter().fold(kind & 7, |n, b| n << 3 | (b & 7)));
                rest = left;
            }
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'\n' => {}
            b'\\' | b'\'' | b'"' => out.push(kind),
            other => out.extend([b'\\', other]),
        }
    }
    (out, is_sound)
}

fn from_hex(digits: &[u8]) -> Option<char> {
    char::from_u32(number_of(digits)?)
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    u8::try_from(number_of(digits)?).ok()
}

fn number_of(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_python() {
        let long = |bytes: &[u8]| Some(Node::Long(bytes.to_vec()));
        assert_eq!(integer(b"-7"), Some(Node::Integer(-7)));
        assert_eq!(integer(b"5L"), Some(Node::Integer(5)));
        let most = i128::MAX.to_string();
        assert_eq!(integer(most.as_bytes()), Some(Node::Integer(i128::MAX)));
        // 2^127, and one less than -2^127.
        let bytes = [&[0; 15][..], &[0x80, 0, 0, 0, 0]].concat();
        assert_eq!(integer(b"170141183460469231731687303715884105728L"), long(&bytes));
        let bytes = [&[0xff; 15][..], &[0x7f, 0xff, 0xff, 0xff, 0xff]].concat();
        assert_eq!(integer(b"-170141183460469231731687303715884105729L"), long(&bytes));
        for wrong in ["", "L", "-", "1 2", "0x10", "1.5", "--5", &"9".repeat(4301)] {
            assert_eq!(integer(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn texts_are_those_of_python() {
        let parse = |line: &[u8]| unicode(line);
        assert_eq!(parse(b"a\\u000ab\xe9\\U0001f600"), ("a\nb\u{e9}\u{1f600}".into(), true));
        assert_eq!(parse(b"\\\\u0041\\x\\"), ("\\\\u0041\\x\\".into(), true));
        for wrong in [&b"\\ud800"[..], b"\\u00", b"\\u+041"] {
            assert!(!parse(wrong).1);
        }
        let parse = |line: &[u8]| string(line);
        let all = b"'it\\'s \\\"\\x00\\xff\\101\\400\\n\\q\\\\'";
        assert_eq!(parse(all), (b"it's \"\0\xffA\0\n\\q\\".to_vec(), true));
        for wrong in [&b"a"[..], b"'a", b"'\\x1'", b"'a\\'"] {
            assert!(!parse(wrong).1, "{}", wrong.escape_ascii());
        }
    }
}
