//! Progress bars: on a terminal, and only when the work turns out to be long.

use crate::session::Session;
use holdall::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::Arc;
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
    /// A bar with `what` before it; `None` when there is no terminal to draw it on or the user wants
    /// quiet.
    pub(crate) fn new(session: &Session, what: &'static str) -> Option<Arc<Bar>> {
        if session.global.quiet || !std::io::stderr().is_terminal() {
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
        Some(Arc::new(Bar { bar, begun: Instant::now(), drawn: AtomicBool::new(false) }))
    }

    /// The same bar as the library wants it.
    pub(crate) fn listener(bar: &Option<Arc<Bar>>) -> Option<Arc<dyn Progress>> {
        bar.clone().map(|bar| bar as _)
    }
}

impl Progress for Bar {
    fn begin(&self, total_bytes: u64) {
        self.bar.set_length(total_bytes);
    }

    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
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
