//! The output of a process, forwarded line by line.

use crate::runner_settings::{Log, LogLine};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Maximum length of a line in the log, in bytes. Longer ones are split.
const LINE_MAX: u64 = 64 << 10;
/// Number of lines of standard error that are kept for error messages.
const KEPT_LINES: usize = 5;

/// The last lines of standard error, for error messages.
pub(super) type Last = Arc<Mutex<VecDeque<String>>>;

/// Starts a thread that forwards the lines of a pipe until all its writers have closed it.
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
    // If no thread can be started, the output stays in the pipe: a model that prints much then blocks, and times out.
    std::thread::Builder::new().name("holdall-run-log".to_owned()).spawn(work).ok()
}
