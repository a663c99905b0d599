//! Files inside of archives, opened in place: of tar archives, and of zips that are no packages.

use crate::file::File;
use crate::open::{Io, OpenOptions, fetch_ends};
use crate::source::{Access, ByteSource, MemorySource, SliceSource, fetched, read_now};
use holdall_core::codec::zstd::check_decoded_len;
use holdall_core::error::{Remedy, Shown as _};
use holdall_core::wire::tar::{self, Member, Walk};
use holdall_core::wire::zip::{Directory, EntryKind, Method};
use holdall_core::{Error, Limits, Result, Stop, Window};
use std::path::Path;
use std::sync::Arc;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A path that is not in the archive.
    pub NO_FILE: NotFound "archive/no-file" "The archive has the file that is asked for by its path.";
    /// What has no files in it.
    pub NO_ARCHIVE: Misuse "archive/no-archive"
        "What stands before `!/` is a package, a zip or a tar archive that is not compressed.";
}

/// How many archives may be in one another.
const MOST_NESTED: usize = 8;

/// `ARCHIVE!/PATH` as two paths, where there is no file of the whole name and there is one of the first.
pub fn split(path: &Path) -> Option<(&Path, &str)> {
    let text = path.to_str()?;
    if !text.contains("!/") || path.exists() {
        return None;
    }
    let mut both = cuts(text).map(|(archive, inside)| (Path::new(archive), inside));
    both.find(|(archive, _)| crate::http::is_url(archive).is_some() || archive.exists())
}

/// What is before and behind each `!/`.
fn cuts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("!/").map(|(at, _)| (&text[..at], &text[at + 2..]))
}

impl OpenOptions {
    /// Opens the file at that path of an archive: of a tar archive or a zip, or of one that is in such a one (`a.tar!/b.zip!/c.npy`). What is stored
    /// as it is is read where it lies; what is compressed is decoded into memory, under [`Limits::decoded_len`](holdall_core::Limits).
    ///
    /// # Errors
    /// What is wrong with the archive; `archive/no-file`, `archive/no-archive`; as [`OpenOptions::open`].
    pub fn open_inside(&self, archive: &Path, path: &str) -> Result<File> {
        let (mut source, mut name) = self.bytes_of(archive)?;
        let mut path = path;
        for _ in 0..MOST_NESTED {
            let placed = |e: Error| e.in_source(&name);
            let archive = Archive::of(source, self).map_err(placed)?;
            if let Some(found) = archive.find(path, self).map_err(placed)? {
                let io = match found.terms().access {
                    Access::Borrowed => Io::Map,
                    _ => Io::Read,
                };
                return self.decode(found, format!("{name}!/{path}"), io);
            }
            let next = cuts(path).find_map(|(own, rest)| {
                let found = archive.find(own, self).transpose()?;
                Some(found.map(|found| (found, own, rest)))
            });
            let Some(next) = next.transpose().map_err(placed)? else {
                return Err(placed(archive.no_file(path)));
            };
            let (found, own, rest) = next;
            name = format!("{name}!/{own}");
            (source, path) = (found, rest);
        }
        let message = format!("more than {MOST_NESTED} archives are in one another");
        Err(NO_ARCHIVE.broken(message).in_source(name))
    }
}

/// The files of a tar archive. What was walked past is not kept.
fn members(source: &dyn ByteSource, mut window: Window, limits: &Limits) -> Result<Vec<Member>> {
    let mut walk = Walk::default();
    loop {
        let before = walk.at();
        match walk.go(&window, limits) {
            Ok(()) => return Ok(walk.members),
            Err(Stop::Fail(e)) => return Err(e),
            Err(Stop::Need(ranges)) => {
                // A header and the record behind it are looked at together.
                if walk.at() > before {
                    window = Window::new(source.len());
                }
                let bytes = read_now(source, &ranges)?;
                ranges.iter().zip(bytes).for_each(|(range, bytes)| window.add(range.start, bytes));
            }
        }
    }
}

/// What files are in.
enum Archive {
    Tar(Arc<dyn ByteSource>, Vec<Member>),
    Zip(Arc<dyn ByteSource>, Directory),
}

impl Archive {
    fn of(source: Arc<dyn ByteSource>, options: &OpenOptions) -> Result<Archive> {
        let limits = options.limits();
        let mut window = Window::new(source.len());
        fetch_ends(&*source, &mut window)?;
        let head = fetched(&*source, &mut window, |window| window.head(512))?;
        if tar::is_one(&head) {
            let members = members(&*source, window, limits)?;
            return Ok(Archive::Tar(source, members));
        }
        if !head.starts_with(b"PK") {
            return Err(NO_ARCHIVE.broken("this is neither a zip nor a tar archive"));
        }
        let directory = fetched(&*source, &mut window, |window| Directory::read(window, limits))?;
        Ok(Archive::Zip(source, directory))
    }

    /// The file at that path.
    fn find(&self, path: &str, options: &OpenOptions) -> Result<Option<Arc<dyn ByteSource>>> {
        let (source, directory) = match self {
            Archive::Tar(source, members) => {
                let Some(found) = members.iter().find(|member| member.name == path) else {
                    return Ok(None);
                };
                let slice = SliceSource::new(source.clone(), found.range.clone())?;
                return Ok(Some(Arc::new(slice)));
            }
            Archive::Zip(source, directory) => (source, directory),
        };
        let Some(entry) = directory.get(path).filter(|entry| entry.kind() == EntryKind::File)
        else {
            return Ok(None);
        };
        let mut window = Window::new(source.len());
        if entry.method() == Method::Stored {
            let place = fetched(&**source, &mut window, |window| directory.data(entry, window))?;
            return Ok(Some(Arc::new(SliceSource::new(source.clone(), place)?)));
        }
        let limits = options.limits();
        let most = entry.decoded_len().max(entry.stored_len());
        check_decoded_len(most, entry.stored_len(), limits)?;
        let decoded = |window: &Window| directory.decoded(entry, window, limits);
        Ok(Some(Arc::new(MemorySource::new(fetched(&**source, &mut window, decoded)?))))
    }

    #[cold]
    fn no_file(&self, path: &str) -> Error {
        let e = NO_FILE.broken(format!("there is no file `{}`", path.shown()));
        let near = match self {
            Archive::Tar(_, members) => {
                let names = members.iter().map(|member| member.name.as_str());
                crate::select::nearest(path, names).map(str::to_owned)
            }
            Archive::Zip(_, directory) => {
                let names = directory.entries().map(|entry| entry.name());
                crate::select::nearest(path, names).map(str::to_owned)
            }
        };
        match near {
            Some(near) => e.with_remedy(Remedy::did_you_mean(&near)),
            None => e,
        }
    }
}
