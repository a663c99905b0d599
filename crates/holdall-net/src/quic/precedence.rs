//! Which of a client's answers go on: the most urgent ones, as long as the client takes them.
//!
//! QUIC sends the most urgent of what it was given, but what it was given fills a window that all answers share: were less urgent ones
//! to give it bytes, too, there would soon be nothing else in it.

use super::line::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// After which an answer of which nothing was taken no longer holds up others.
const STUCK: Duration = Duration::from_secs(1);

/// The answers of one client, by their streams.
#[derive(Default)]
pub(super) struct Precedence {
    answers: Mutex<HashMap<u64, Answer>>,
    changed: Notify,
}

struct Answer {
    priority: i32,
    /// When bytes of it were taken last, once it has begun.
    went: Option<Instant>,
}

/// An answer among the others, until it is dropped.
pub(super) struct Turn<'a> {
    of: &'a Precedence,
    stream: u64,
}

impl Precedence {
    /// An answer that has not begun.
    pub(super) fn enter(&self, stream: u64, priority: i32) -> Turn<'_> {
        lock(&self.answers).insert(stream, Answer { priority, went: None });
        Turn { of: self, stream }
    }

    /// Another priority for the answer on a stream, where there is one.
    pub(super) fn set(&self, stream: u64, priority: i32) {
        if let Some(answer) = lock(&self.answers).get_mut(&stream) {
            answer.priority = priority;
        }
        self.changed.notify_waiters();
    }

    /// How long at most the answer on a stream is held up by more urgent ones.
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

    /// It begins, or bytes of it were taken.
    pub(super) fn goes(&self) {
        if let Some(answer) = lock(&self.of.answers).get_mut(&self.stream) {
            answer.went = Some(Instant::now());
        }
    }

    /// Waits while more urgent answers go on.
    pub(super) async fn turn(&self) {
        loop {
            // Whoever is told between looking and waiting is told.
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
        // What waits for its turn holds up nobody.
        assert_eq!(of.held_up(1, now), None);
        high.goes();
        let now = Instant::now();
        assert!(of.held_up(1, now).is_some_and(|left| left <= STUCK));
        assert_eq!((of.held_up(2, now), of.held_up(3, now)), (None, None));
        // What is not taken holds up nobody for ever; when it is taken again, it does.
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
    fn who_waits_goes_on_when_it_is_due() {
        let runtime = crate::wait::runtime(2).unwrap();
        let of = Precedence::default();
        let (low, high) = (of.enter(1, 0), of.enter(2, 1));
        high.goes();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| crate::wait::wait(runtime.handle(), low.turn()));
            // A long one that continues all the time, and then ends.
            for _ in 0..100 {
                high.goes();
                std::thread::yield_now();
            }
            drop(high);
            waits.join().unwrap();
        });
    }
}
