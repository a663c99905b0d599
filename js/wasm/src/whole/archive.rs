//! The files in a zip, such as a package.

use crate::Answer;
use crate::file::stopped;
use crate::json::{self, CALL, Object};
use holdall_core::wire::zip::{Directory, EntryKind};
use holdall_core::{Bytes, Error, Limits, Stop, Window};
use std::sync::Arc;

/// An open zip.
pub(crate) struct Archive {
    limits: Limits,
    window: Window,
    directory: Option<Arc<Directory>>,
}

impl Archive {
    pub(crate) fn begin(len: u64, limits: &Limits) -> Archive {
        let mut limits = limits.clone();
        // An entry is treated as an ordinary file.
        limits.text_len = limits.decoded_len;
        Archive { limits, window: Window::new(len), directory: None }
    }

    pub(crate) fn add(&mut self, offset: u64, bytes: Bytes) {
        self.window.add(offset, bytes);
    }

    /// Returns the files: for each its index, its name, and its decoded length.
    pub(crate) fn list(&mut self, gap: u64) -> Result<Answer, Error> {
        if self.directory.is_none() {
            match Directory::read(&self.window, &self.limits) {
                Ok(directory) => self.directory = Some(directory),
                Err(stop) => return stopped(stop, gap),
            }
        }
        self.window = Window::new(self.window.len());
        let files = self.directory.iter().flat_map(|directory| directory.entries());
        let mut out = String::new();
        json::list(files.filter(|e| e.kind() == EntryKind::File), &mut out, |entry, out| {
            let one = Object::new()
                .number("at", entry.position() as u64)
                .text("name", entry.name())
                .number("size", entry.decoded_len());
            out.push_str(&one.finish());
        });
        Ok(Answer::text(out))
    }

    /// Returns the decoded bytes of a file, checked against its CRC-32.
    pub(crate) fn read(&mut self, at: u32, gap: u64) -> Result<Answer, Error> {
        let directory = self.directory.as_ref();
        let found = directory.and_then(|directory| Some((directory, directory.at(at as usize)?)));
        let Some((directory, entry)) = found else {
            return Err(CALL.broken(format!("there is no file number {at}")));
        };
        let content = directory.content(entry, &self.window, &self.limits);
        if !matches!(content, Err(Stop::Need(_))) {
            self.window = Window::new(self.window.len());
        }
        match content {
            Ok(bytes) => Ok(Answer::Done(bytes.into())),
            Err(stop) => stopped(stop, gap),
        }
    }
}
