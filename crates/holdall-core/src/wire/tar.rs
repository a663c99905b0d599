//! Tar archives: where each file in one is. A file's bytes lie in one run, so having the archive is having the file.
//!
//! ```text
//! header     512 bytes: name, length, kind, a sum of the header itself
//! contents   zeros up to a multiple of 512
//! …          until two blocks of zeros, or the end of the archive
//! ```
//!
//! Names that do not fit stand in a record before the header: GNU's `L`, or `path=` in one of pax (`x`), which may have the length, too. A
//! header says nothing of where the next but one is, so an archive is walked from its start.

use super::cursor::Cursor;
use crate::error::{Remedy, Result, Shown as _};
use crate::limits::Limits;
use crate::window::{Stop, Window};
use holdall_collections::HashSet;
use std::ops::Range;

crate::error::rules! {
    /// Rules of tar archives.
    pub static RULES;

    /// An invalid header.
    pub HEADER: Malformed "tar/header"
        "A header of a tar archive has the correct checksum, and lengths that are numbers.";
    /// What is not all there.
    pub BOUNDS: Malformed "tar/bounds" "Every file of a tar archive lies completely inside it."
        hint "the download may not be complete";
    /// A name that leads elsewhere, or nowhere.
    pub NAME: Malformed "tar/name"
        "The name of a file in a tar archive is a relative path in UTF-8 without `..`.";
    /// Two files of one name.
    pub DUPLICATE_NAME: Malformed "tar/duplicate-name" "The names of files in a tar archive are unique.";
    /// A file with holes.
    pub SPARSE: Unsupported "tar/sparse" "The files of a tar archive are stored whole, not as sparse files."
        hint "write the archive anew without sparse files";
    /// Too many files.
    pub TOO_MANY: Limit "tar/too-many-files"
        "A tar archive has at most `Limits::files` headers, and records of at most `Limits::text_len` bytes."
        remedies [RaiseLimit { limit: "files", at_least: None }];
}

/// Bytes of a block.
const BLOCK: u64 = 512;

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its path, with `/` between parts.
    pub name: String,
    /// Where its bytes are in the archive.
    pub range: Range<u64>,
}

/// Whether the bytes begin as a tar archive does.
pub fn is_one(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar") && Header::read(head).is_ok()
}

/// The files of the archive in `window`, in its order. Folders, links and devices are passed over.
///
/// # Errors
/// [`RULES`].
pub fn read(window: &Window, limits: &Limits) -> Result<Vec<Member>, Stop> {
    let mut walk = Walk::default();
    walk.go(window, limits)?;
    Ok(walk.members)
}

/// A walk through an archive, which continues where it needed bytes, and never looks back.
#[derive(Debug, Default, Clone)]
pub struct Walk {
    /// The files so far.
    pub members: Vec<Member>,
    names: HashSet<String>,
    /// What records say of the file whose header comes next.
    next: Next,
    /// Where the next header is, and how many there were.
    at: u64,
    count: u64,
}

impl Walk {
    /// Where the next header is that is looked at: nothing before it is needed again.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Goes to the end, or to the first bytes that `window` lacks: with those it is to be called again.
    ///
    /// # Errors
    /// [`RULES`].
    pub fn go(&mut self, window: &Window, limits: &Limits) -> Result<(), Stop> {
        while self.at < window.len() {
            let place = self.at..self.at.saturating_add(BLOCK);
            if place.end > window.len() {
                let e = BOUNDS.broken("the archive ends in a header");
                return Err(e.at(self.at..window.len()).into());
            }
            let block = window.bytes(place.clone())?;
            // The end is two such blocks; what follows them is padding.
            if block.iter().all(|byte| *byte == 0) {
                break;
            }
            self.header(&block, place, window, limits)?;
        }
        Ok(())
    }

    /// Takes a header, with the record or the file behind it. Nothing has changed where bytes are lacking.
    fn header(
        &mut self,
        block: &[u8],
        place: Range<u64>,
        window: &Window,
        limits: &Limits,
    ) -> Result<(), Stop> {
        if self.count >= limits.files {
            let message = format!("there are more than {} headers", limits.files);
            return Err(TOO_MANY.broken(message).into());
        }
        let header = Header::read(block).map_err(|e| e.at(place.clone()))?;
        let is_record = matches!(header.kind, b'L' | b'K' | b'x' | b'g');
        let len = match header.kind {
            // Links, devices and folders have no bytes, whatever their headers state.
            b'1'..=b'6' => 0,
            _ if is_record => header.len,
            _ => self.next.len.unwrap_or(header.len),
        };
        let end = place.end;
        let data = end.checked_add(len).map(|stop| end..stop).filter(|d| d.end <= window.len());
        let Some(data) = data else {
            let message = format!(
                "a file of {len} bytes, of which {} are there",
                window.len().saturating_sub(end)
            );
            return Err(BOUNDS.broken(message).at(place).into());
        };
        let after = data.end.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        if is_record && len > limits.text_len {
            let message = format!("a record of {len} bytes, at most {}", limits.text_len);
            let raise = Remedy::RaiseLimit { limit: "text_len", at_least: Some(len) };
            return Err(TOO_MANY.broken(message).with_remedy(raise).at(place).into());
        }
        match header.kind {
            b'L' => self.next.name = Some(until_nul(&window.bytes(data)?).to_vec()),
            b'x' => self.next.take_pax(&window.bytes(data)?).map_err(|e| e.at(place))?,
            b'S' => return Err(SPARSE.broken("a file has holes").at(place).into()),
            b'0' | 0 | b'7' => {
                let name = std::mem::take(&mut self.next).name.unwrap_or(header.name);
                // Very old ones have folders so.
                if !name.ends_with(b"/") {
                    let name = checked(name).map_err(|e| e.at(place.clone()))?;
                    if !self.names.insert(name.clone()) {
                        let message = format!("two files are named `{}`", name.shown());
                        return Err(DUPLICATE_NAME.broken(message).at(place).into());
                    }
                    self.members.push(Member { name, range: data });
                }
            }
            b'K' | b'g' => {}
            // A folder, a link, a device: it takes what was said before it.
            _ => self.next = Next::default(),
        }
        (self.at, self.count) = (after, self.count.saturating_add(1));
        Ok(())
    }
}

/// What records say of the file that follows.
#[derive(Debug, Default, Clone)]
struct Next {
    name: Option<Vec<u8>>,
    len: Option<u64>,
}

impl Next {
    /// Lines of `LENGTH KEY=VALUE`, each with its own length in bytes.
    fn take_pax(&mut self, mut bytes: &[u8]) -> Result<()> {
        let wrong =
            || HEADER.broken("a record before a header is not of the form `LENGTH KEY=VALUE`");
        while !bytes.is_empty() {
            let space = bytes.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let len = bytes.get(..space).and_then(|len| std::str::from_utf8(len).ok());
            let len: usize = len.and_then(|len| len.parse().ok()).ok_or_else(wrong)?;
            let line = bytes.get(..len).and_then(|line| line.strip_suffix(b"\n"));
            let text = line.and_then(|line| line.get(space.checked_add(1)?..)).ok_or_else(wrong)?;
            let equals = text.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            let (key, value) = text.split_at_checked(equals).ok_or_else(wrong)?;
            let value = value.get(1..).unwrap_or_default();
            match key {
                b"path" => self.name = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                    self.len = Some(size.ok_or_else(wrong)?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(SPARSE.broken("a file has holes"));
                }
                _ => {}
            }
            bytes = bytes.get(len..).unwrap_or_default();
        }
        Ok(())
    }
}

struct Header {
    name: Vec<u8>,
    len: u64,
    kind: u8,
}

impl Header {
    fn read(block: &[u8]) -> Result<Header> {
        let block = block.get(..512).ok_or_else(|| HEADER.broken("a header is cut"))?;
        let mut c = Cursor::new(block);
        let mut take = |n: u64| c.take(n).unwrap_or_default();
        let (name, _, len, _, sum) = (take(100), take(24), take(12), take(12), take(8));
        let (kind, _, magic, _) = (take(1), take(100), take(6), take(82));
        let prefix = take(155);
        let number = |field: &[u8]| {
            number(field).ok_or_else(|| HEADER.broken("a number of a header is not octal"))
        };
        // As if its own field were blanks.
        let found = block.iter().enumerate().fold(0u64, |sum, (at, byte)| {
            sum.saturating_add(if (148..156).contains(&at) { 32 } else { (*byte).into() })
        });
        let said = number(sum)?;
        if said != found {
            return Err(
                HEADER.broken(format!("the bytes of a header sum to {found}, it says {said}"))
            );
        }
        let mut full = match until_nul(prefix) {
            prefix if !prefix.is_empty() && magic == b"ustar\0" => [prefix, b"/"].concat(),
            _ => Vec::new(),
        };
        full.extend_from_slice(until_nul(name));
        Ok(Header {
            name: full,
            len: number(len)?,
            kind: kind.first().copied().unwrap_or_default(),
        })
    }
}

/// A number in octal digits, or, behind a byte of 0x80, in binary.
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, rest @ ..] = field {
        let (high, low) = rest.split_last_chunk::<8>()?;
        return high.iter().all(|byte| *byte == 0).then(|| u64::from_be_bytes(*low));
    }
    let text = std::str::from_utf8(until_nul(field)).ok()?.trim_matches(' ');
    match text {
        "" => Some(0),
        text if text.bytes().all(|byte| matches!(byte, b'0'..=b'7')) => {
            u64::from_str_radix(text, 8).ok()
        }
        _ => None,
    }
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A name that is a path below the archive, without `./` before it.
fn checked(name: Vec<u8>) -> Result<String> {
    let name = String::from_utf8(name).map_err(|e| {
        let name = String::from_utf8_lossy(e.as_bytes()).into_owned();
        NAME.broken(format!("the name `{}` is not UTF-8", name.shown()))
    })?;
    let mut own = name.as_str();
    while let Some(rest) = own.strip_prefix("./") {
        own = rest;
    }
    let is_path =
        !own.starts_with('/') && own.split('/').all(|part| !matches!(part, "" | "." | ".."));
    match is_path && !own.contains('\0') {
        true => Ok(own.to_owned()),
        false => Err(NAME.broken(format!("`{}` is not the path of a file", name.shown()))),
    }
}
