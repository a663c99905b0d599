//! Times: RFC 3339 to nanoseconds since 1970, and back.

use std::fmt::Write as _;

const NANOS: i128 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Nanoseconds since 1970-01-01T00:00:00Z of an RFC 3339 time without a leap second, its fraction of
/// at most nine digits. `None` for any other text, and out of 64 bits.
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
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
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
    let seconds = i128::from(day_number(year, month, day)?)
        .checked_mul(i128::from(DAY))?
        .checked_add(minutes.checked_mul(60)?)?
        .checked_add(i128::from(second))?;
    i64::try_from(seconds.checked_mul(NANOS)?.checked_add(i128::from(nanos))?).ok()
}

/// Appends the time in UTC, with `Z` and as many digits of a fraction as are needed.
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

/// The number that ASCII digits spell; at most nine of them.
fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0i64, |n, b| {
        let digit = char::from(*b).to_digit(10)?;
        n.checked_mul(10)?.checked_add(i64::from(digit))
    })
}

/// Nanoseconds of the fraction, if there is one, and what follows it.
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

/// Minutes that a zone is ahead of UTC.
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

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date, of the years 0 to 9999.
fn day_number(year: i64, month: i64, day: i64) -> Option<i64> {
    let mut days = year_start(year)?;
    for m in 1..month {
        days = days.checked_add(days_in(year, m))?;
    }
    days.checked_add(day)?.checked_sub(1)
}

/// Days from 1970-01-01 to the first of a year.
fn year_start(year: i64) -> Option<i64> {
    // Leap years before `year`, from a year 0 that is one.
    let before = year.checked_sub(1)?;
    let leaps = before
        .div_euclid(4)
        .checked_sub(before.div_euclid(100))?
        .checked_add(before.div_euclid(400))?
        .checked_add(1)?;
    // 719 528 days from 0000-01-01 to 1970-01-01.
    year.checked_mul(365)?.checked_add(leaps)?.checked_sub(719_528)
}

/// Year, month and day of a day counted from 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    // 146 097 days in 400 years: at most one year off, either way.
    let mut year = days.saturating_mul(400).div_euclid(146_097).saturating_add(1970);
    while year_start(year).is_some_and(|start| start > days) {
        year = year.saturating_sub(1);
    }
    while year_start(year.saturating_add(1)).is_some_and(|start| start <= days) {
        year = year.saturating_add(1);
    }
    let mut left = days.saturating_sub(year_start(year).unwrap_or(days));
    let mut month = 1;
    while left >= days_in(year, month) && month < 12 {
        left = left.saturating_sub(days_in(year, month));
        month = month.saturating_add(1);
    }
    (year, month, left.saturating_add(1))
}
