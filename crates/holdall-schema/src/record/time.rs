//! Times: converts RFC 3339 to nanoseconds since 1970 and back.

use crate::calendar::{date_of, day_of};
use std::fmt::Write as _;

const NANOS: i128 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Parses an RFC 3339 time without a leap second and with at most nine digits of a fraction, and returns the
/// nanoseconds since 1970-01-01T00:00:00Z. Returns `None` for any other text, or if the result does not fit in 64 bits.
pub(super) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (date, rest) = bytes.split_at_checked(10)?;
    let year = digits(date.get(..4)?)?;
    let month = digits(date.get(5..7)?)?;
    let day = digits(date.get(8..)?)?;
    let (t, rest) = rest.split_first()?;
    let (time, rest) = rest.split_at_checked(8)?;
    let hour = digits(time.get(..2)?)?;
    let minute = digits(time.get(3..5)?)?;
    let second = digits(time.get(6..)?)?;
    let marks = [date.get(4), date.get(7), time.get(2), time.get(5)].map(Option::<&u8>::copied);
    let is_sound = marks == [Some(b'-'), Some(b'-'), Some(b':'), Some(b':')]
        && matches!(t, b'T' | b't')
        && hour <= 23
        && minute <= 59
        && second <= 59;
    if !is_sound {
        return None;
    }
    let (nanos, zone) = fraction(rest)?;
    let offset = zone_minutes(zone)?;
    let minutes = i128::from(hour).checked_mul(60)?.checked_add(i128::from(minute))?;
    let minutes = minutes.checked_sub(i128::from(offset))?;
    let day = day_of(i32::try_from(year).ok()?, month.try_into().ok()?, day.try_into().ok()?)?;
    let seconds = i128::from(day)
        .checked_mul(i128::from(DAY))?
        .checked_add(minutes.checked_mul(60)?)?
        .checked_add(i128::from(second))?;
    i64::try_from(seconds.checked_mul(NANOS)?.checked_add(i128::from(nanos))?).ok()
}

/// Appends a time in UTC, with `Z` and as many digits of a fraction as are needed.
pub(super) fn write(nanos: i64, out: &mut String) {
    let billion = 1_000_000_000;
    let (seconds, fraction) = (nanos.div_euclid(billion), nanos.rem_euclid(billion));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (second / 3600, (second / 60) % 60, second % 60);
    // Writing to a String cannot fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if fraction != 0 {
        let text = format!("{fraction:09}");
        let _ = write!(out, ".{}", text.trim_end_matches('0'));
    }
    out.push('Z');
}

/// Parses ASCII digits, at most nine.
fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0i64, |n, b| {
        let digit = char::from(*b).to_digit(10)?;
        n.checked_mul(10)?.checked_add(i64::from(digit))
    })
}

/// Parses the fraction, if there is one. Returns its nanoseconds and the text after it.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', after)) = rest.split_first() else { return Some((0, rest)) };
    let len = after.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(1..=9).contains(&len) {
        return None;
    }
    let (text, zone) = after.split_at_checked(len)?;
    let missing = u32::try_from(9usize.checked_sub(len)?).ok()?;
    Some((digits(text)?.checked_mul(10i64.checked_pow(missing)?)?, zone))
}

/// Parses a time zone and returns its offset from UTC in minutes.
fn zone_minutes(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h0, b':', m1, m0] => {
            let (hours, minutes) = (digits(&[*h1, *h0])?, digits(&[*m1, *m0])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let total = hours.checked_mul(60)?.checked_add(minutes)?;
            if *sign == b'-' { total.checked_neg() } else { Some(total) }
        }
        _ => None,
    }
}
