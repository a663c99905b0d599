//! Retrying requests after temporary failures.

use super::Timeouts;
use holdall_core::{Error, Result};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// A failed try.
#[derive(Debug)]
pub struct FailedTry {
    pub(crate) error: Error,
    pub(crate) again: Retry,
}

/// The use of a retry after a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// A retry would fail in the same way.
    Never,
    /// A retry may succeed, after this pause if the server stated one.
    Later(Option<Duration>),
}

impl From<Error> for FailedTry {
    fn from(error: Error) -> FailedTry {
        FailedTry { error, again: Retry::Never }
    }
}

impl FailedTry {
    /// Creates a failure that may be temporary.
    pub fn passing(error: Error) -> FailedTry {
        FailedTry { error, again: Retry::Later(None) }
    }
}

/// Calls `attempt` until it succeeds, fails permanently, or has been called `timeouts.tries` times.
///
/// # Errors
/// Returns the last failure, with the number of tries if there were several.
pub fn retrying<T>(
    timeouts: &Timeouts,
    mut attempt: impl FnMut() -> Result<T, FailedTry>,
) -> Result<T> {
    let mut tried = 0;
    loop {
        tried += 1;
        let failed = match attempt() {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        let Retry::Later(wanted) = failed.again else { return Err(failed.error) };
        if tried >= timeouts.tries.max(1) {
            return Err(after(failed.error, tried));
        }
        std::thread::sleep(pause(timeouts, tried, wanted));
    }
}

/// Adds the number of tries to the error of the last one.
fn after(error: Error, tried: u32) -> Error {
    if tried == 1 {
        return error;
    }
    error.within(format!("after {tried} tries"))
}

/// Returns the pause after `tried` tries: doubled each time, and randomly longer by up to a quarter, so that many
/// clients do not retry at the same time.
fn pause(timeouts: &Timeouts, tried: u32, wanted: Option<Duration>) -> Duration {
    let doubled = timeouts.pause.saturating_mul(1 << (tried - 1).min(16));
    let pause = wanted.unwrap_or(doubled).min(timeouts.longest_pause);
    // The keys of hash maps are the only source of randomness in the standard library.
    let uneven = RandomState::new().build_hasher().finish() % 256;
    pause + pause.mul_f64(uneven as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::rules::{FAILED, STATUS};

    fn timeouts(tries: u32) -> Timeouts {
        Timeouts { tries, pause: Duration::ZERO, ..Timeouts::default() }
    }

    #[test]
    fn only_temporary_failures_are_retried() {
        let mut calls = 0;
        let done = retrying(&timeouts(3), || {
            calls += 1;
            if calls < 3 { Err(FailedTry::passing(FAILED.broken("cut off"))) } else { Ok(calls) }
        });
        assert_eq!(done.unwrap(), 3);

        let mut calls = 0;
        let e = retrying::<()>(&timeouts(3), || {
            calls += 1;
            Err(FailedTry::passing(FAILED.broken("cut off")))
        });
        assert_eq!((calls, e.unwrap_err().message()), (3, "after 3 tries: cut off"));

        let mut calls = 0;
        let e = retrying::<()>(&timeouts(3), || {
            calls += 1;
            Err(STATUS.broken("no").into())
        });
        assert_eq!((calls, e.unwrap_err().message()), (1, "no"));
    }

    #[test]
    fn pauses_grow_and_end() {
        let p = Timeouts::default();
        for (tried, least) in [(1, 250), (2, 500), (3, 1000), (30, 20_000)] {
            let got = pause(&p, tried, None).as_millis();
            assert!((least..=least * 5 / 4).contains(&got), "{tried}: {got}");
        }
        assert!(pause(&p, 1, Some(Duration::from_secs(3))) >= Duration::from_secs(3));
        assert!(pause(&p, 1, Some(Duration::from_secs(3600))) <= Duration::from_secs(25));
    }
}
