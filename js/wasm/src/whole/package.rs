//! The files of a package, for verification and for linked tensors.

use crate::Answer;
use crate::file::{File, stopped};
use crate::json::{self, CALL, Object};
use crate::view::{Held, get};
use holdall_core::model::element_count;
use holdall_core::read::{ComponentDecoder, Decoded, Digests};
use holdall_core::wire::zip::Directory;
use holdall_core::{Bytes, Component, Error, Layout, Limits, Role, TensorInfo, Window};
use holdall_formats::{carton, unknown_zip};
use holdall_json::{parse, write_string};
use holdall_package::{
    FetchedTexts, FileHasher, LINKED, LINKS_NAME, MANIFEST_NAME, NESTED, PackageContents,
    PackedFile, STRINGS, TensorKind, read_zip, tensors, unmet_requirements, write::hex,
};
use std::sync::Arc;

/// A package in a zip.
pub(crate) struct Package {
    limits: Limits,
    window: Window,
    read: Option<(Arc<Directory>, PackageContents)>,
    current: Option<Current>,
}

/// The file that is being read.
struct Current {
    decoder: ComponentDecoder,
    sum: FileHasher,
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

    /// Returns the numbers of files with and without hashes, and of stored and linked ones; the
    /// paths of the stored ones; and the requirements of packages that are not met.
    pub(crate) fn files(&mut self, gap: u64) -> Result<Answer, Error> {
        if let Some(stop) = self.contents(gap)? {
            return Ok(stop);
        }
        let (directory, contents) = self.read()?;
        let files = &contents.files;
        let has_model = directory.get("model/").is_some()
            || files.iter().any(|file| file.path.starts_with("model/"));
        let unmet = unmet_requirements(&contents.description, has_model, &|path| {
            contents.file(path).is_some()
        });
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

    /// Reads the contents of the package, or requests the ranges for it.
    fn contents(&mut self, gap: u64) -> Result<Option<Answer>, Error> {
        if self.read.is_none() {
            let read = Directory::read(&self.window, &self.limits).and_then(|directory| {
                let texts = FetchedTexts::default();
                let contents = read_zip(&directory, &self.window, &self.limits, &texts)?;
                let contents = contents.ok_or_else(|| unknown_zip(&directory))?;
                Ok((directory, contents))
            });
            match read {
                Ok(read) => self.read = Some(read),
                Err(stop) => return stopped(stop, gap).map(Some),
            }
            self.forget();
        }
        Ok(None)
    }

    /// Returns the files of tensors that are only linked to: path, SHA-256, addresses, and the
    /// length that follows from type and shape, which is not known for strings.
    pub(crate) fn linked(&mut self, gap: u64) -> Result<Answer, Error> {
        if let Some(stop) = self.contents(gap)? {
            return Ok(stop);
        }
        let (_, contents) = self.read()?;
        let rows = contents.tensors.iter().filter_map(|row| match &row.kind {
            TensorKind::Plain { ty, shape, file } => {
                let file = contents.tensor_file(file).filter(|file| file.found.is_none())?;
                let len = ty.width().and_then(|width| element_count(shape)?.checked_mul(width));
                Some((&row.name, file, len))
            }
            TensorKind::Nested { .. } => None,
        });
        let mut text = String::new();
        json::list(rows, &mut text, |(name, file, len), out| {
            let own = contents.links.urls.iter().find(|(sha256, _)| Some(*sha256) == file.sha256);
            let urls = own.map(|(_, urls)| urls.as_slice()).unwrap_or_default();
            let sha256 = file.sha256.as_ref().map(hex);
            let one = Object::new()
                .text("tensor", name)
                .text("path", &file.path)
                .maybe_text("sha256", sha256.as_deref())
                .maybe_number("len", len)
                .with("urls", |out| json::list(urls, out, |url, out| write_string(url, out)));
            out.push_str(&one.finish());
        });
        Ok(Answer::text(text))
    }

    /// Opens the package as a file with its own tensors and those that it links to. The input is
    /// a JSON list of paths and lengths: these files are the sources from 1 on.
    pub(crate) fn decode(&self, linked: &[u8], gap: u64) -> Result<(Answer, Option<File>), Error> {
        let json = parse(linked, 8)?;
        let pairs = json.as_array().into_iter().flatten();
        let pair = |pair: &holdall_json::Value| {
            Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_u64()?))
        };
        let linked: Vec<(String, u64)> = pairs.filter_map(pair).collect();
        let texts = FetchedTexts::default();
        match carton::decode_linked(&self.window, &self.limits, &texts, &linked) {
            Ok(index) => {
                let file = File::from_index(index);
                Ok((Answer::text(file.facts()?.finish()), Some(file)))
            }
            Err(stop) => Ok((stopped(stop, gap)?, None)),
        }
    }

    /// Begins to read a file, by its index among the stored ones: returns the range of its stored
    /// bytes.
    pub(crate) fn file(&mut self, at: u32, gap: u64) -> Result<Answer, Error> {
        let (directory, contents) = self.read()?;
        let found = here(contents).nth(at as usize);
        let found = found.and_then(|file| Some((file, directory.at(file.found?)?)));
        let Some((file, entry)) = found else {
            return Err(CALL.broken(format!("there is no file number {at}")));
        };
        let range = directory.check_descriptor(entry, &self.window);
        let range = match range.and_then(|()| directory.data(entry, &self.window)) {
            Ok(range) => range,
            Err(stop) => {
                let stop = stopped(stop, gap);
                if stop.is_err() {
                    self.forget();
                }
                return stop;
            }
        };
        let encoding = entry.method().encoding();
        let component = Component::for_bytes(range.clone().into(), encoding, entry.decoded_len());
        let current = Current {
            decoder: ComponentDecoder::new(&component, Digests::default(), &self.limits)?,
            sum: FileHasher::default(),
            path: file.path.clone(),
            sha256: file.sha256,
            crc: entry.crc32(),
        };
        self.current = Some(current);
        self.forget();
        Ok(Answer::numbers([range.start, range.end]))
    }

    /// Adds the next stored bytes of that file.
    pub(crate) fn push(&mut self, bytes: Bytes) -> Result<Answer, Error> {
        let Some(current) = &mut self.current else {
            return Err(CALL.broken("no file of a package is read"));
        };
        current.decoder.push(bytes);
        current.decode().map(|_| Answer::NOTHING)
    }

    /// Ends the file: checks its hash against `MANIFEST`, and its checksum against the zip.
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

    fn read(&self) -> Result<(&Directory, &PackageContents), Error> {
        let read = self.read.as_ref().map(|(directory, contents)| (&**directory, contents));
        read.ok_or_else(|| CALL.broken("no package is open"))
    }

    /// Discards the file's state.
    fn forget(&mut self) {
        self.window = Window::new(self.window.len());
    }
}

impl Current {
    /// Decodes the available bytes; returns whether the file is complete.
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

/// Checks a tensor against its layout, if it is a layout that only packages have.
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
        // Tensors that were checked already, or are linked.
        NESTED | LINKED => Some(Ok(())),
        _ => None,
    }
}

/// Returns the files whose bytes are in the package; symbolic links are skipped, since their
/// target is a file itself.
fn here(contents: &PackageContents) -> impl Iterator<Item = &PackedFile> {
    contents.files.iter().filter(|file| file.target.is_none() && file.found.is_some())
}
