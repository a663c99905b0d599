//! What a process prints: lines, handed on as they come.

use crate::runner_settings::{Log, LogLine};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The most bytes of a line in the log; longer ones are cut into several.
const LINE_MAX: u64 = 64 << 10;
/// Lines of standard error that are kept for an error.
const KEPT_LINES: usize = 5;

/// The last lines of standard error, for an error to tell.
pub(super) type Last = Arc<Mutex<VecDeque<String>>>;

/// Hands on the lines of a pipe, from a thread of their own, until it is closed by all who have it.
pub(super) fn pass_lines(
    from: impl Read + Send + 'static,
    is_error: bool,
    log: Option<Log>,
    keep: Option<Last>,
) -> Option<JoinHandle<()>> {
    let work = move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            match from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']).to_owned();
            if let Some(keep) = &keep
                && !text.trim().is_empty()
            {
                let mut keep = keep.lock().unwrap_or_else(PoisonError::into_inner);
                if keep.len() == KEPT_LINES {
                    keep.pop_front();
                }
                keep.push_back(text.chars().take(200).collect());
            }
            if let Some(log) = &log {
                log(LogLine { is_error, text });
            }
        }
    };
    // Without the thread the lines stay in the pipe: then a model that prints much stops, and is late.
    std::thread::Builder::new().name("holdall-run-log".to_owned()).spawn(work).ok()
}
