//! Progress bars: on a terminal, and only when the work turns out to be long.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Work that ends sooner than this draws no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// A bar of bytes, drawn on standard error while it lives.
pub(crate) struct Bar {
    bar: ProgressBar,
    begun: Instant,
    drawn: AtomicBool,
}

impl Bar {
    /// A bar with `what` before it; `None` where there is no terminal to draw it on.
    pub(crate) fn new(what: &'static str) -> Option<Bar> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let template =
            "{prefix} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}";
        // The template is a constant; were it broken, the default does as well.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(what);
        Some(Bar { bar, begun: Instant::now(), drawn: AtomicBool::new(false) })
    }

    /// `done` of `total` bytes are done. Numbers may come out of order: the bar does not go back.
    pub(crate) fn show(&self, done: u64, total: u64) {
        // Nobody knows how long standard input is.
        if total > 0 {
            self.bar.set_length(total);
        }
        if done > self.bar.position() {
            self.bar.set_position(done);
        }
        let long = self.begun.elapsed() > PATIENCE;
        if long && !self.drawn.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
