//! Bytes of a second.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How fast bytes go: when the next ones may.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Option<Instant>>);

/// What was not used of the time before may be made up for, as far as this goes.
const SLACK: Duration = Duration::from_millis(100);

impl Pace {
    /// How long it is from `now` until so many bytes may be sent, at so many a second. They are counted as sent.
    pub(crate) fn delay(&self, bytes: u64, rate: NonZeroU64, now: Instant) -> Duration {
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
        let takes = Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        let from = free.map_or(earliest, |free| free.max(earliest));
        let until = from.checked_add(takes).unwrap_or(from);
        *free = Some(until);
        until.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_as_fast_as_they_may_and_no_faster() {
        let (pace, rate) = (Pace::default(), NonZeroU64::new(1000).unwrap());
        let mut now = Instant::now() + Duration::from_secs(1);
        let begin = now;
        // The first hundred were made up for; ten of a hundred bytes take nine tenths of a second.
        for _ in 0..10 {
            now += pace.delay(100, rate, now);
        }
        assert_eq!(now - begin, Duration::from_millis(900));
        // A long pause is not made up for.
        now += Duration::from_secs(60);
        assert_eq!(pace.delay(100, rate, now), Duration::ZERO);
        assert_eq!(pace.delay(100, rate, now), Duration::from_millis(100));
        assert!(pace.delay(u64::MAX, rate, now) > Duration::from_secs(1 << 30));
        // Who is far behind stays there, without harm.
        let _ = pace.delay(u64::MAX, rate, now);
    }
}
