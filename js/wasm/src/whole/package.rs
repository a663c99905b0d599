//! The files of a package, which verifying reads: those of tensors, and all others.

use crate::Answer;
use crate::file::stopped;
use crate::json::{self, CALL, Object};
use crate::view::{Held, get};
use holdall_core::read::{ComponentDecoder, Decoded, Digests};
use holdall_core::wire::zip::Directory;
use holdall_core::{Bytes, Component, Error, Layout, Limits, Role, TensorInfo, Window};
use holdall_formats::unknown_zip;
use holdall_package::{
    Contents, FetchedTexts, LINKED, LINKS_NAME, MANIFEST_NAME, NESTED, PackedFile, STRINGS, Sum,
    read_zip, tensors, unmet,
};
use std::sync::Arc;

/// A package in a zip.
pub(crate) struct Package {
    limits: Limits,
    window: Window,
    read: Option<(Arc<Directory>, Contents)>,
    current: Option<Current>,
}

/// The file that is read.
struct Current {
    decoder: ComponentDecoder,
    sum: Sum,
    path: String,
    sha256: Option<[u8; 32]>,
    crc: u32,
}

impl Package {
    pub(crate) fn begin(len: u64, limits: &Limits) -> Package {
        let limits = limits.clone();
        Package { limits, window: Window::new(len), read: None, current: None }
    }

    pub(crate) fn add(&mut self, offset: u64, bytes: Bytes) {
        self.window.add(offset, bytes);
    }

    /// How many files there are, with hashes and without, and here and linked; the paths of those that are here; what of the demands
    /// on packages it does not meet.
    pub(crate) fn files(&mut self, gap: u64) -> Result<Answer, Error> {
        if self.read.is_none() {
            let read = Directory::read(&self.window, &self.limits).and_then(|directory| {
                let texts = FetchedTexts::default();
                let contents = read_zip(&directory, &self.window, &self.limits, &texts)?;
                let contents = contents.ok_or_else(|| unknown_zip(&directory))?;
                Ok((directory, contents))
            });
            match read {
                Ok(read) => self.read = Some(read),
                Err(stop) => return stopped(stop, gap),
            }
            self.forget();
        }
        let (directory, contents) = self.read()?;
        let files = &contents.files;
        let has_model = directory.get("model/").is_some()
            || files.iter().any(|file| file.path.starts_with("model/"));
        let unmet = unmet(&contents.description, has_model, &|path| contents.file(path).is_some());
        let is_own = |file: &PackedFile| [MANIFEST_NAME, LINKS_NAME].contains(&file.path.as_str());
        let is_unhashed = |file: &&PackedFile| file.sha256.is_none() && !is_own(file);
        let count = |n: usize| n as u64;
        let text = Object::new()
            .number("files", count(files.len()))
            .number("unhashed", count(files.iter().filter(is_unhashed).count()))
            .number("linked", count(files.iter().filter(|file| file.found.is_none()).count()))
            .with("here", |out| {
                json::list(here(contents), out, |file, out| {
                    let one = Object::new().text("path", &file.path);
                    out.push_str(&one.flag("isHashed", file.sha256.is_some()).finish());
                });
            })
            .with("warnings", |out| {
                json::list(&unmet, out, |w, out| out.push_str(&json::warning(w)));
            })
            .finish();
        Ok(Answer::text(text))
    }

    /// Begins to read a file, by its number among those that are here: where its stored bytes are.
    pub(crate) fn file(&mut self, at: u32, gap: u64) -> Result<Answer, Error> {
        let (directory, contents) = self.read()?;
        let found = here(contents).nth(at as usize);
        let found = found.and_then(|file| Some((file, directory.at(file.found?)?)));
        let Some((file, entry)) = found else {
            return Err(CALL.broken(format!("there is no file number {at}")));
        };
        let place = directory.check_descriptor(entry, &self.window);
        let place = match place.and_then(|()| directory.data(entry, &self.window)) {
            Ok(place) => place,
            Err(stop) => {
                let stop = stopped(stop, gap);
                if stop.is_err() {
                    self.forget();
                }
                return stop;
            }
        };
        let encoding = entry.method().encoding();
        let component = Component::of_bytes(place.clone().into(), encoding, entry.decoded_len());
        let current = Current {
            decoder: ComponentDecoder::new(&component, Digests::default(), &self.limits)?,
            sum: Sum::default(),
            path: file.path.clone(),
            sha256: file.sha256,
            crc: entry.crc32(),
        };
        self.current = Some(current);
        self.forget();
        Ok(Answer::numbers([place.start, place.end]))
    }

    /// Takes the next stored bytes of that file.
    pub(crate) fn push(&mut self, bytes: Bytes) -> Result<Answer, Error> {
        let Some(current) = &mut self.current else {
            return Err(CALL.broken("no file of a package is read"));
        };
        current.decoder.push(bytes);
        current.decode().map(|_| Answer::NOTHING)
    }

    /// All bytes of that file were taken: its hash is the one of `MANIFEST`, its checksum that of the zip.
    pub(crate) fn file_end(&mut self) -> Result<Answer, Error> {
        let Some(mut current) = self.current.take() else {
            return Err(CALL.broken("no file of a package is read"));
        };
        if !current.decode()? {
            return Err(CALL.broken("bytes of the file are missing"));
        }
        let Current { sum, path, sha256, crc, .. } = current;
        sum.check(&path, sha256, Some(crc)).map(|()| Answer::NOTHING)
    }

    fn read(&self) -> Result<(&Directory, &Contents), Error> {
        let read = self.read.as_ref().map(|(directory, contents)| (&**directory, contents));
        read.ok_or_else(|| CALL.broken("no package is open"))
    }

    /// Lets go of what came of the file.
    fn forget(&mut self) {
        self.window = Window::new(self.window.len());
    }
}

impl Current {
    /// Decodes what is at hand: whether that was all.
    fn decode(&mut self) -> Result<bool, Error> {
        loop {
            match self.decoder.next()? {
                Decoded::Need => return Ok(false),
                Decoded::Piece(piece) => self.sum.update(&piece),
                Decoded::End => return Ok(true),
            }
        }
    }
}

/// Whether a tensor is as its layout says, where it is one that only packages have.
pub(crate) fn tensor(
    layout: &Layout,
    info: &TensorInfo,
    held: &Held,
    limits: &Limits,
) -> Option<Result<(), Error>> {
    match layout.as_str() {
        STRINGS => Some(
            get(info, held)(&Role::Data)
                .and_then(|bytes| tensors::strings(&bytes, info.count(), limits).map(|_| ())),
        ),
        // Of tensors that were looked at, or are not here.
        NESTED | LINKED => Some(Ok(())),
        _ => None,
    }
}

/// Files whose bytes are in the package; what a link leads to is there itself.
fn here(contents: &Contents) -> impl Iterator<Item = &PackedFile> {
    contents.files.iter().filter(|file| file.target.is_none() && file.found.is_some())
}
