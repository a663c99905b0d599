//! Rate limits in bytes per second.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A rate limiter: the time at which the next bytes may be sent.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Option<Instant>>);

/// Unused time that may be made up for, at most.
const SLACK: Duration = Duration::from_millis(100);

impl Pace {
    /// Counts `bytes` as sent, and returns how long to wait after `now` before sending them, at `rate` bytes per
    /// second.
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
        // The first hundred bytes are made up for by the slack; the other nine hundred take 900 ms.
        for _ in 0..10 {
            now += pace.delay(100, rate, now);
        }
        assert_eq!(now - begin, Duration::from_millis(900));
        // A long pause is not made up for.
        now += Duration::from_secs(60);
        assert_eq!(pace.delay(100, rate, now), Duration::ZERO);
        assert_eq!(pace.delay(100, rate, now), Duration::from_millis(100));
        assert!(pace.delay(u64::MAX, rate, now) > Duration::from_secs(1 << 30));
        // A limiter that is centuries ahead does not overflow.
        let _ = pace.delay(u64::MAX, rate, now);
    }
}
