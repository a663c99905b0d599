//! Progress bars, on terminals only, for work that takes long.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Work that takes less than this shows no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// A progress bar in bytes, shown on standard error until it is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    begun: Instant,
    drawn: AtomicBool,
}

impl Bar {
    /// Creates a bar labelled `what`; `None` if standard error is not a terminal.
    pub(crate) fn new(what: &'static str) -> Option<Bar> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let template =
            "{prefix} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}";
        // The template is a constant. If it were invalid, the default style would be used.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(what);
        Some(Bar { bar, begun: Instant::now(), drawn: AtomicBool::new(false) })
    }

    /// Shows that `done` of `total` bytes are done. Calls may arrive out of order: the bar never moves back.
    pub(crate) fn show(&self, done: u64, total: u64) {
        // The length of standard input is unknown.
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
