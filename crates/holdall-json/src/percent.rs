//! Percent-encoding, as in RFC 3986: `$ref`s in JSON are URIs.

use crate::hex_digit;
use std::fmt::Write as _;

/// Decodes percent-encoding: `%41` becomes `A`. Returns `None` if an escape is invalid or the result is not UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => (hex_digit(bytes.next()?)? << 4) | hex_digit(bytes.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(out).ok()
}

/// Percent-encodes a path for use in an address: all but ASCII letters and digits, `/`, `-`, `.`, `_` and `~`.
pub fn percent_encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_digits_after_a_percent_sign_are_decoded() {
        assert_eq!(percent_decoded("a%2e%2E%C3%A9+").as_deref(), Some("a..é+"));
        for text in ["%", "%4", "%+1", "%-1", "% 1", "%zz", "%é", "%ff", "a%2"] {
            assert_eq!(percent_decoded(text), None, "{text}");
        }
    }

    #[test]
    fn encoded_text_is_decoded() {
        for path in ["", "plain/name-1.2_3~", "a b/ö%.zt", "x#y?z", "{\"x\"}", "+%41"] {
            assert_eq!(percent_decoded(&percent_encoded(path)).as_deref(), Some(path));
        }
        assert_eq!(percent_encoded("a b/é%~"), "a%20b/%C3%A9%25~");
    }
}
