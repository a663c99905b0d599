//! Values of headers, read without a request: they come from the other side.

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

/// `Retry-After`: how long to wait before the next try, where that is a number of seconds. A date is not read.
pub fn retry_after(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_secs)
}

/// A number of digits alone.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A date of HTTP in the form that servers must send (`Sat, 21 Nov 2026 10:00:00 GMT`), in seconds of a count in
/// which later ones are greater.
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
    // Days of a calendar with 31 in each month: in their order.
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
