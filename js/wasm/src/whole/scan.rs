//! Scanning a file for imports of pickles; nothing is imported.

use crate::Answer;
use crate::file::stopped;
use crate::json::{self, Object};
use holdall_core::{Bytes, Error, Limits, Window};
use holdall_formats::scan::{ModelIndex, Pickle, Scan, ScanReport};

/// A scan of a file.
pub(crate) struct Scanner {
    scan: Scan,
    /// The bytes for the next step.
    window: Window,
}

impl Scanner {
    pub(crate) fn begin(name: &[u8], len: u64, limits: &Limits) -> Scanner {
        let scan = Scan::new(String::from_utf8_lossy(name), len, limits);
        Scanner { scan, window: Window::new(len) }
    }

    pub(crate) fn add(&mut self, offset: u64, bytes: Bytes) {
        self.window.add(offset, bytes);
    }

    /// Continues until ranges are needed (joined if they are at most `gap` bytes apart) or the
    /// scan is complete.
    pub(crate) fn step(&mut self, gap: u64) -> Result<Answer, Error> {
        while !self.scan.is_done() {
            match self.scan.step(&self.window) {
                Ok(()) => self.window = Window::new(self.window.len()),
                Err(stop) => return stopped(stop, gap),
            }
        }
        Ok(Answer::NOTHING)
    }

    /// Returns the report.
    pub(crate) fn finish(self) -> Answer {
        let (found, indices) = self.scan.finish_with_indices();
        Answer::text(report(&found, &indices))
    }
}

/// Returns the report with the fields of the command's `scan --json`, and the files that an index
/// lists, each with the error if it was not scanned.
fn report(found: &ScanReport, indices: &[ModelIndex]) -> String {
    Object::new()
        .text("verdict", found.verdict().as_str())
        .number("files", found.files)
        .with("pickles", |out| {
            json::list(&found.pickles, out, |one, out| out.push_str(&pickle(one)));
        })
        .with("unread", |out| {
            json::list(&found.unread, out, |e, out| out.push_str(&error(e)));
        })
        .with("indices", |out| {
            json::list(indices, out, |index, out| {
                let files = json::texts(index.files.iter().map(String::as_str));
                let one = Object::new()
                    .text("source", &index.source)
                    .with("files", |out| out.push_str(&files))
                    .with("unread", |out| out.push_str(&error(&index.unread())));
                out.push_str(&one.finish());
            });
        })
        .finish()
}

fn pickle(pickle: &Pickle) -> String {
    let object = Object::new()
        .text("source", &pickle.source)
        .number("offset", pickle.offset)
        .number("len", pickle.len)
        .flag("inner", pickle.inner)
        .number("protocol", pickle.protocol)
        .text("verdict", pickle.verdict.as_str());
    let imports = |out: &mut String| {
        json::list(&pickle.imports, out, |import, out| {
            let one = Object::new()
                .text("module", &import.module)
                .text("name", &import.name)
                .text("verdict", import.danger.as_str())
                .flag("called", import.called)
                .number("count", import.count)
                .number("offset", import.offset);
            out.push_str(&one.finish());
        });
    };
    let broken = |out: &mut String| match &pickle.broken {
        Some(e) => out.push_str(&error(e)),
        None => out.push_str("null"),
    };
    object.with("imports", imports).with("broken", broken).finish()
}

/// Returns an error with the name of the file in the zip.
fn error(e: &Error) -> String {
    let source = e.source_name();
    Object::new()
        .maybe_text("source", source)
        .with("error", |out| out.push_str(&json::error(e)))
        .finish()
}
