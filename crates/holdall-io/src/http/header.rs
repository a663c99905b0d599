//! Parsing values of response headers, which are untrusted.

use std::time::Duration;

/// A `Content-Range` header: the byte range of the response, half-open, and the length of the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// The range. `None` if the server states that the requested range does not exist.
    pub bytes: Option<(u64, u64)>,
    /// The length of the file. `None` if the server does not state it.
    pub total: Option<u64>,
}

impl ContentRange {
    /// Parses the value of the header: `bytes 0-9/100`, `bytes 0-9/*` or `bytes */100`. Returns `None` if it has
    /// another form or contradicts itself.
    pub fn parse(text: &str) -> Option<ContentRange> {
        let (unit, rest) = text.split_once(' ')?;
        let (bytes, total) = rest.trim().split_once('/')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let total = match total {
            "*" => None,
            digits => Some(number(digits)?),
        };
        let bytes = match bytes {
            "*" => None,
            range => {
                let (first, last) = range.split_once('-')?;
                let (first, last) = (number(first)?, number(last)?);
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

/// Parses `Retry-After`, the time to wait before the next try. Only a number of seconds is supported, not a date.
pub fn retry_after(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_secs)
}

/// Parses a number that consists of digits only.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Parses an HTTP date in the form that servers must send (`Sat, 21 Nov 2026 10:00:00 GMT`). The result only orders
/// dates: a later date has a greater number.
pub(super) fn date(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let (day, month, year) = (number(words.next()?)?, words.next()?, number(words.next()?)?);
    let (time, zone, end) = (words.next()?, words.next()?, words.next());
    let month = MONTHS.find(month).filter(|at| month.len() == 3 && at % 3 == 0)? as u64 / 3;
    let mut parts = time.split(':').map(number);
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let is_date = zone == "GMT" && end.is_none() && parts.next().is_none();
    let is_date = is_date && (1..=31).contains(&day) && year < 10_000;
    let is_date = is_date && hours < 24 && minutes < 60 && seconds <= 60;
    // As if every month had 31 days: that keeps the order.
    let days = (year * 12 + month) * 31 + day;
    is_date.then_some(((days * 24 + hours) * 60 + minutes) * 61 + seconds)
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
            ("bytes +0-9/100", None),
            ("bytes 0-9/+100", None),
            ("bytes 0-9/", None),
            ("bytes 0-9/100, bytes 0-9/100", None),
        ] {
            assert_eq!(ContentRange::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn dates_are_in_order() {
        let rising = [
            "Fri, 31 Dec 1999 23:59:60 GMT",
            "Sat, 01 Jan 2000 00:00:00 GMT",
            "Sat, 21 Nov 2026 10:00:00 GMT",
            "Sat, 21 Nov 2026 10:00:01 GMT",
            "Sat, 21 Nov 2026 10:01:00 GMT",
            "Mon, 30 Nov 2026 00:00:00 GMT",
            "Tue, 01 Dec 2026 00:00:00 GMT",
        ];
        let counts: Vec<u64> = rising.iter().map(|text| date(text).unwrap()).collect();
        assert!(counts.is_sorted_by(|a, b| a < b), "{counts:?}");
        for text in [
            "",
            "now",
            "Sat, 21 Nov 2026 10:00:00",
            "Sat, 21 Nov 2026 10:00:00 CET",
            "Sat, 21 anF 2026 10:00:00 GMT",
            "Sat, 21 No 2026 10:00:00 GMT",
            "Sat, 21 Nov 2026 24:00:00 GMT",
            "Sat, 21 Nov 2026 10:00 GMT",
            "Sat, 21 Nov 99999999999999999999 10:00:00 GMT",
            "Sat, 21 Nov 2026 10:00:00 GMT GMT",
        ] {
            assert_eq!(date(text), None, "{text}");
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
