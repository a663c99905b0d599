//! Dates of the proleptic Gregorian calendar, as days since 1970-01-01 and back.
#![allow(
    // Days are reduced to less than an era first; years that come in are 32-bit, and computed with in 64 bits.
    clippy::arithmetic_side_effects,
    // A month is at most 12, a day at most 31.
    clippy::cast_possible_truncation
)]

/// The number of days in an era: 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;
/// The number of days from March 1 of the year 0 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// Returns the year, month and day of the month of a day, given as days since 1970-01-01.
pub fn date_of(days: i64) -> (i64, u8, u8) {
    // Years begin in March here, so that a leap day is the last day of its year. Only remainders are added, so no day
    // overflows.
    let from = days.rem_euclid(ERA) + EPOCH % ERA;
    let (era, of_era) = (days.div_euclid(ERA) + EPOCH / ERA + from / ERA, from % ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month as u8, day as u8)
}

/// Returns the days from 1970-01-01 to a date, or `None` if the month or the day does not exist.
pub fn day_of(year: i32, month: u8, day: u8) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        2 => 28 + u8::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=most).contains(&day) {
        return None;
    }
    let (year, month) = (i64::from(year) - i64::from(month <= 2), i64::from(month));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(years + of_year - EPOCH)
}

#[cfg(test)]
mod tests {
    use super::{date_of, day_of};

    #[test]
    fn every_day_of_some_centuries_follows_the_one_before() {
        let mut day = day_of(-401, 1, 1);
        for year in -401..2401 {
            for month in 1..=12u8 {
                let last = (1..=31).rev().find(|date| day_of(year, month, *date).is_some());
                for date in 1..=last.unwrap_or_default() {
                    assert_eq!(day_of(year, month, date), day);
                    assert_eq!(day.map(date_of), Some((i64::from(year), month, date)));
                    day = day.map(|day| day + 1);
                }
            }
        }
    }

    #[test]
    fn known_days_and_the_farthest_have_dates() {
        for (date, day) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 11_016),
            ((1969, 12, 31), -1),
            ((0, 1, 1), -719_528),
        ] {
            assert_eq!(day_of(date.0, date.1, date.2), Some(day));
        }
        for (year, month, day) in
            [(1900, 2, 29), (2023, 2, 29), (2024, 4, 31), (1, 0, 1), (1, 13, 1), (1, 1, 0)]
        {
            assert_eq!(day_of(year, month, day), None, "{year}-{month}-{day}");
        }
        // The values that NumPy returns for days whose years exceed 32 bits.
        assert_eq!(date_of(i64::MAX).0, 25_252_734_927_768_524);
        assert_eq!(date_of(i64::MIN).0, -25_252_734_927_764_585);
    }
}
