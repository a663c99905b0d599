//! Priorities among the responses of one client.
//!
//! QUIC sends the most urgent of the bytes it was given, but all responses share one send window: if less urgent
//! responses added their bytes, too, they would soon fill it. So a response waits while more urgent ones make progress.

use super::connection::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A response that made no progress for this long no longer holds up others.
const STUCK: Duration = Duration::from_secs(1);

/// The responses of one client, by stream.
#[derive(Default)]
pub(super) struct Precedence {
    answers: Mutex<HashMap<u64, Answer>>,
    changed: Notify,
}

struct Answer {
    priority: i32,
    /// When bytes of the response were last accepted, once it has begun.
    went: Option<Instant>,
}

/// A registered response, until it is dropped.
pub(super) struct Turn<'a> {
    of: &'a Precedence,
    stream: u64,
}

impl Precedence {
    /// Registers a response that has not begun.
    pub(super) fn enter(&self, stream: u64, priority: i32) -> Turn<'_> {
        lock(&self.answers).insert(stream, Answer { priority, went: None });
        Turn { of: self, stream }
    }

    /// Changes the priority of the response on a stream, if there is one.
    pub(super) fn set(&self, stream: u64, priority: i32) {
        if let Some(answer) = lock(&self.answers).get_mut(&stream) {
            answer.priority = priority;
        }
        self.changed.notify_waiters();
    }

    /// Returns how long, at most, more urgent responses hold up the response on a stream; `None` if they do not.
    fn held_up(&self, stream: u64, now: Instant) -> Option<Duration> {
        let answers = lock(&self.answers);
        let own = answers.get(&stream)?.priority;
        let others = answers.values().filter(|answer| answer.priority > own);
        let went = others.filter_map(|answer| answer.went).max()?;
        STUCK.checked_sub(now.saturating_duration_since(went)).filter(|left| !left.is_zero())
    }
}

impl Turn<'_> {
    pub(super) fn priority(&self) -> i32 {
        lock(&self.of.answers).get(&self.stream).map_or(0, |answer| answer.priority)
    }

    /// Records that the response begins, or that bytes of it were accepted.
    pub(super) fn goes(&self) {
        if let Some(answer) = lock(&self.of.answers).get_mut(&self.stream) {
            answer.went = Some(Instant::now());
        }
    }

    /// Waits while more urgent responses make progress.
    pub(super) async fn turn(&self) {
        loop {
            // Registered before the check, so that no notification is missed.
            let changed = self.of.changed.notified();
            let Some(left) = self.of.held_up(self.stream, Instant::now()) else { return };
            let _ = timeout(left, changed).await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.of.answers).remove(&self.stream);
        self.of.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_urgent_answers_go_first_while_they_go() {
        let of = Precedence::default();
        let (low, high, same) = (of.enter(1, 0), of.enter(2, 5), of.enter(3, 5));
        low.goes();
        let now = Instant::now();
        // A response that has not begun holds up no others.
        assert_eq!(of.held_up(1, now), None);
        high.goes();
        let now = Instant::now();
        assert!(of.held_up(1, now).is_some_and(|left| left <= STUCK));
        assert_eq!((of.held_up(2, now), of.held_up(3, now)), (None, None));
        // A response that makes no progress stops holding up others, until it makes progress again.
        assert_eq!(of.held_up(1, now + STUCK), None);
        high.goes();
        same.goes();
        of.set(2, -1);
        assert_eq!(high.priority(), -1);
        let now = Instant::now();
        assert!(of.held_up(1, now).is_some() && of.held_up(2, now).is_some());
        drop(same);
        assert_eq!(of.held_up(1, now), None);
        assert!(of.held_up(2, now).is_some());
        drop(low);
        assert_eq!(of.held_up(2, now), None);
    }

    #[test]
    fn waiting_responses_continue_when_others_end() {
        let runtime = crate::wait::runtime(2).unwrap();
        let of = Precedence::default();
        let (low, high) = (of.enter(1, 0), of.enter(2, 1));
        high.goes();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| crate::wait::wait(runtime.handle(), low.turn()));
            // A long response that makes progress all the time, and then ends.
            for _ in 0..100 {
                high.goes();
                std::thread::yield_now();
            }
            drop(high);
            waits.join().unwrap();
        });
    }
}
