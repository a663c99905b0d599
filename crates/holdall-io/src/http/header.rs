//! Values of headers, read without a request: they come from whoever answers.

use std::time::Duration;

/// `Content-Range`: the bytes that an answer holds, half-open, and the length of the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// `None` where the server says that there are none such.
    pub bytes: Option<(u64, u64)>,
    /// `None` where the server does not say.
    pub total: Option<u64>,
}

impl ContentRange {
    /// Reads the value of the header: `bytes 0-9/100`, `bytes 0-9/*` or `bytes */100`. `None` where it is none of
    /// these, or contradicts itself.
    pub fn parse(text: &str) -> Option<ContentRange> {
        let (unit, rest) = text.split_once(' ')?;
        let (bytes, total) = rest.trim().split_once('/')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let total = match total {
            "*" => None,
            digits => Some(digits.parse().ok()?),
        };
        let bytes = match bytes {
            "*" => None,
            range => {
                let (first, last) = range.split_once('-')?;
                let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
                let end = last.checked_add(1)?;
                if first > last || total.is_some_and(|total| end > total) {
                    return None;
                }
                Some((first, end))
            }
        };
        Some(ContentRange { bytes, total })
    }
}

/// `Retry-After`: how long to wait before the next try, where that is a number of seconds. A date is not read.
pub fn retry_after(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read_strictly() {
        let range = |bytes, total| Some(ContentRange { bytes, total });
        for (text, expected) in [
            ("bytes 0-9/100", range(Some((0, 10)), Some(100))),
            ("bytes 90-99/100", range(Some((90, 100)), Some(100))),
            ("bytes 0-9/*", range(Some((0, 10)), None)),
            ("bytes */100", range(None, Some(100))),
            ("bytes 90-100/100", None),
            ("bytes 9-0/100", None),
            ("bytes 0-18446744073709551615/*", None),
            ("items 0-9/100", None),
            ("bytes 0-9", None),
            ("bytes -9/100", None),
            ("bytes=0-9/100", None),
        ] {
            assert_eq!(ContentRange::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn pauses_are_seconds() {
        assert_eq!(retry_after("120"), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("18446744073709551615"), Some(Duration::from_secs(u64::MAX)));
        for text in ["", "-1", "1.5", "18446744073709551616", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(retry_after(text), None, "{text}");
        }
    }
}
