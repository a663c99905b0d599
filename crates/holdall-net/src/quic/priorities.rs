//! Priorities among the responses of one client.
//!
//! QUIC sends the most urgent bytes of those that are queued, but all responses share one send window. If less urgent
//! responses queued their bytes, too, they would soon fill the window. So a response waits while more urgent ones make
//! progress.

use super::connection::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The time without progress after which a response no longer delays others.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The responses of one client, by stream.
#[derive(Default)]
pub(super) struct ResponsePriorities {
    responses: Mutex<HashMap<u64, ResponseState>>,
    changed: Notify,
}

struct ResponseState {
    priority: i32,
    /// The time at which bytes of the response were last accepted; `None` before it begins.
    last_progress: Option<Instant>,
}

/// The registration of a response, which ends when this value is dropped.
pub(super) struct Registration<'a> {
    priorities: &'a ResponsePriorities,
    stream: u64,
}

impl ResponsePriorities {
    /// Registers a response that has not begun.
    pub(super) fn register(&self, stream: u64, priority: i32) -> Registration<'_> {
        lock(&self.responses).insert(stream, ResponseState { priority, last_progress: None });
        Registration { priorities: self, stream }
    }

    /// Changes the priority of the response on a stream, if there is one.
    pub(super) fn set_priority(&self, stream: u64, priority: i32) {
        if let Some(response) = lock(&self.responses).get_mut(&stream) {
            response.priority = priority;
        }
        self.changed.notify_waiters();
    }

    /// Returns how long the response on a stream waits at most for more urgent ones; `None` if it need not wait.
    fn time_to_wait(&self, stream: u64, now: Instant) -> Option<Duration> {
        let responses = lock(&self.responses);
        let own = responses.get(&stream)?.priority;
        let others = responses.values().filter(|response| response.priority > own);
        let last_progress = others.filter_map(|response| response.last_progress).max()?;
        STALL_TIMEOUT
            .checked_sub(now.saturating_duration_since(last_progress))
            .filter(|left| !left.is_zero())
    }
}

impl Registration<'_> {
    /// Returns the priority of the response.
    pub(super) fn priority(&self) -> i32 {
        lock(&self.priorities.responses).get(&self.stream).map_or(0, |response| response.priority)
    }

    /// Records that the response begins, or that bytes of it were accepted.
    pub(super) fn record_progress(&self) {
        if let Some(response) = lock(&self.priorities.responses).get_mut(&self.stream) {
            response.last_progress = Some(Instant::now());
        }
    }

    /// Waits while more urgent responses make progress.
    pub(super) async fn wait_turn(&self) {
        loop {
            // Registered before the check, so that no notification is missed.
            let changed = self.priorities.changed.notified();
            let Some(left) = self.priorities.time_to_wait(self.stream, Instant::now()) else {
                return;
            };
            let _ = timeout(left, changed).await;
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        lock(&self.priorities.responses).remove(&self.stream);
        self.priorities.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_responses_delay_others_while_they_make_progress() {
        let priorities = ResponsePriorities::default();
        let (low, high, same) =
            (priorities.register(1, 0), priorities.register(2, 5), priorities.register(3, 5));
        low.record_progress();
        let now = Instant::now();
        // A response that has not begun delays no others.
        assert_eq!(priorities.time_to_wait(1, now), None);
        high.record_progress();
        let now = Instant::now();
        assert!(priorities.time_to_wait(1, now).is_some_and(|left| left <= STALL_TIMEOUT));
        assert_eq!(
            (priorities.time_to_wait(2, now), priorities.time_to_wait(3, now)),
            (None, None)
        );
        // A response that makes no progress stops delaying others, until it makes progress again.
        assert_eq!(priorities.time_to_wait(1, now + STALL_TIMEOUT), None);
        high.record_progress();
        same.record_progress();
        priorities.set_priority(2, -1);
        assert_eq!(high.priority(), -1);
        let now = Instant::now();
        assert!(
            priorities.time_to_wait(1, now).is_some() && priorities.time_to_wait(2, now).is_some()
        );
        drop(same);
        assert_eq!(priorities.time_to_wait(1, now), None);
        assert!(priorities.time_to_wait(2, now).is_some());
        drop(low);
        assert_eq!(priorities.time_to_wait(2, now), None);
    }

    #[test]
    fn waiting_responses_continue_when_others_end() {
        let runtime = crate::wait::runtime(2).unwrap();
        let priorities = ResponsePriorities::default();
        let (low, high) = (priorities.register(1, 0), priorities.register(2, 1));
        high.record_progress();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| crate::wait::wait(runtime.handle(), low.wait_turn()));
            // A long response that makes progress all the time, and then ends.
            for _ in 0..100 {
                high.record_progress();
                std::thread::yield_now();
            }
            drop(high);
            waits.join().unwrap();
        });
    }
}
