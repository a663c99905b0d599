//! Tar archives: the locations of their files. The bytes of a file are contiguous, so a file can be read directly from
//! its archive.
//!
//! ```text
//! header     512 bytes: name, length, kind, checksum of the header
//! contents   padded with zeros to a multiple of 512
//! …          until two blocks of zeros, or the end of the archive
//! ```
//!
//! Names that do not fit are stored in a record before the header: GNU's `L`, or `path=` in a pax record (`x`), which
//! can also contain the length. A header only determines where the next one is, so an archive must be read from its
//! start.

use super::cursor::Cursor;
use crate::error::{Escape as _, Remedy, Result};
use crate::limits::Limits;
use crate::window::{Stop, Window};
use holdall_collections::DebugUnwrap;
use holdall_collections::HashSet;
use std::ops::Range;

crate::error::rules! {
    /// Rules of tar archives.
    pub static RULES;

    /// A header is malformed.
    pub HEADER: Malformed "tar/header"
        "A header of a tar archive has the correct checksum, and lengths that are numbers.";
    /// A file is incomplete.
    pub BOUNDS: Malformed "tar/bounds" "Every file of a tar archive lies completely inside it."
        hint "the download may not be complete";
    /// A name is not a path inside the archive.
    pub NAME: Malformed "tar/name"
        "The name of a file in a tar archive is a relative path in UTF-8 without `..`.";
    /// Two files have the same name.
    pub DUPLICATE_NAME: Malformed "tar/duplicate-name" "The names of files in a tar archive are unique.";
    /// A file is stored as a sparse file.
    pub SPARSE: Unsupported "tar/sparse" "The files of a tar archive are stored whole, not as sparse files."
        hint "write the archive again without sparse files";
    /// There are too many files.
    pub TOO_MANY: Limit "tar/too-many-files"
        "A tar archive has at most `Limits::files` headers, and records of at most `Limits::text_len` bytes."
        remedies [RaiseLimit { limit: "files", at_least: None }];
}

/// Bytes of a block.
const BLOCK: u64 = 512;

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The file's path, with `/` as separator.
    pub name: String,
    /// The range of the file's bytes in the archive.
    pub range: Range<u64>,
}

/// Returns `true` if the bytes start like a tar archive.
pub fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar") && Header::read(head).is_ok()
}

/// Returns the files of the archive in `window`, in order. Folders, links and devices are skipped.
///
/// # Errors
/// Returns an error of [`RULES`] if the archive is malformed.
pub fn read(window: &Window, limits: &Limits) -> Result<Vec<Member>, Stop> {
    let mut walk = Walk::default();
    walk.advance(window, limits)?;
    Ok(walk.members)
}

/// Reads the headers of an archive. It can be interrupted when bytes are missing, and continues there.
#[derive(Debug, Default, Clone)]
pub struct Walk {
    /// The files found so far.
    pub members: Vec<Member>,
    names: HashSet<String>,
    /// The properties that records set for the file of the next header.
    next: Next,
    /// The offset of the next header; `count` is the number of headers so far.
    at: u64,
    count: u64,
}

impl Walk {
    /// Returns the offset of the next header. Nothing before it is needed again.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Reads headers up to the end of the archive. If bytes are missing in `window`, add them and call it again.
    ///
    /// # Errors
    /// Returns an error of [`RULES`] if the archive is malformed, and [`Stop::Need`] if bytes are missing.
    pub fn advance(&mut self, window: &Window, limits: &Limits) -> Result<(), Stop> {
        while self.at < window.len() {
            let range = self.at..self.at.saturating_add(BLOCK);
            if range.end > window.len() {
                let e = BOUNDS.broken("the archive ends inside a header");
                return Err(e.at(self.at..window.len()).into());
            }
            let block = window.bytes(range.clone())?;
            // The archive ends with two blocks of zeros; padding may follow.
            if block.iter().all(|byte| *byte == 0) {
                break;
            }
            self.header(&block, range, window, limits)?;
        }
        Ok(())
    }

    /// Processes a header, and the record or file after it. Nothing changes if bytes are missing.
    fn header(
        &mut self,
        block: &[u8],
        range: Range<u64>,
        window: &Window,
        limits: &Limits,
    ) -> Result<(), Stop> {
        if self.count >= limits.files {
            let message = format!("the archive has more than {} headers", limits.files);
            return Err(TOO_MANY.broken(message).into());
        }
        let header = Header::read(block).map_err(|e| e.at(range.clone()))?;
        let is_record = matches!(header.kind, b'L' | b'K' | b'x' | b'g');
        let len = match header.kind {
            // Links, devices and folders have no bytes, whatever their headers state.
            b'1'..=b'6' => 0,
            _ if is_record => header.len,
            _ => self.next.len.unwrap_or(header.len),
        };
        let end = range.end;
        let data = end.checked_add(len).map(|stop| end..stop).filter(|d| d.end <= window.len());
        let Some(data) = data else {
            let message = format!(
                "a file of {len} bytes is incomplete: only {} are left",
                window.len().saturating_sub(end)
            );
            return Err(BOUNDS.broken(message).at(range).into());
        };
        let after = data.end.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        if is_record && len > limits.text_len {
            let message =
                format!("a record of {len} bytes exceeds the limit of {}", limits.text_len);
            let raise = Remedy::RaiseLimit { limit: "text_len", at_least: Some(len) };
            return Err(TOO_MANY.broken(message).with_remedy(raise).at(range).into());
        }
        match header.kind {
            b'L' => self.next.name = Some(until_nul(&window.bytes(data)?).to_vec()),
            b'x' => self.next.take_pax(&window.bytes(data)?).map_err(|e| e.at(range))?,
            b'S' => {
                return Err(SPARSE.broken("a file is stored as a sparse file").at(range).into());
            }
            b'0' | 0 | b'7' => {
                let name = std::mem::take(&mut self.next).name.unwrap_or(header.name);
                // Very old archives mark folders this way.
                if !name.ends_with(b"/") {
                    let name = checked(name).map_err(|e| e.at(range.clone()))?;
                    if !self.names.insert(name.clone()) {
                        let message = format!("two files are named `{}`", name.escaped());
                        return Err(DUPLICATE_NAME.broken(message).at(range).into());
                    }
                    self.members.push(Member { name, range: data });
                }
            }
            b'K' | b'g' => {}
            // A folder, link or device: properties from records apply to it, and are dropped.
            _ => self.next = Next::default(),
        }
        (self.at, self.count) = (after, self.count.saturating_add(1));
        Ok(())
    }
}

/// Properties that records set for the next file.
#[derive(Debug, Default, Clone)]
struct Next {
    name: Option<Vec<u8>>,
    len: Option<u64>,
}

impl Next {
    /// Reads lines of the form `LENGTH KEY=VALUE`, where `LENGTH` is the line's length in bytes.
    fn take_pax(&mut self, mut bytes: &[u8]) -> Result<()> {
        let wrong =
            || HEADER.broken("a record before a header must have the form `LENGTH KEY=VALUE`");
        while !bytes.is_empty() {
            let space = bytes.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let len = bytes.get(..space).and_then(|len| std::str::from_utf8(len).ok());
            let len: usize = len.and_then(|len| len.parse().ok()).ok_or_else(wrong)?;
            let line = bytes.get(..len).and_then(|line| line.strip_suffix(b"\n"));
            let text = line.and_then(|line| line.get(space.checked_add(1)?..)).ok_or_else(wrong)?;
            let equals = text.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            let (key, value) = text.split_at_checked(equals).ok_or_else(wrong)?;
            let value = value.get(1..).debug_unwrap();
            match key {
                b"path" => self.name = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                    self.len = Some(size.ok_or_else(wrong)?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(SPARSE.broken("a file is stored as a sparse file"));
                }
                _ => {}
            }
            bytes = bytes.get(len..).debug_unwrap();
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
        let block = block.get(..512).ok_or_else(|| HEADER.broken("a header is incomplete"))?;
        let mut c = Cursor::new(block);
        let mut take = |n: u64| c.take(n).unwrap_or_default();
        let (name, _, len, _, sum) = (take(100), take(24), take(12), take(12), take(8));
        let (kind, _, magic, _) = (take(1), take(100), take(6), take(82));
        let prefix = take(155);
        let number = |field: &[u8]| {
            number(field).ok_or_else(|| HEADER.broken("a number in a header is not octal"))
        };
        // The field of the checksum itself counts as blanks.
        let found = block.iter().enumerate().fold(0u64, |sum, (at, byte)| {
            sum.saturating_add(if (148..156).contains(&at) { 32 } else { (*byte).into() })
        });
        let stored = number(sum)?;
        if stored != found {
            return Err(
                HEADER.broken(format!("the checksum of a header is {found}, expected {stored}"))
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

/// Parses a number in octal digits or, after a byte 0x80, in binary.
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

/// Checks that a name is a path inside the archive, and removes `./` from its start.
fn checked(name: Vec<u8>) -> Result<String> {
    let name = String::from_utf8(name).map_err(|e| {
        let name = String::from_utf8_lossy(e.as_bytes()).into_owned();
        NAME.broken(format!("the name `{}` is not UTF-8", name.escaped()))
    })?;
    let mut own = name.as_str();
    while let Some(rest) = own.strip_prefix("./") {
        own = rest;
    }
    let is_path =
        !own.starts_with('/') && own.split('/').all(|part| !matches!(part, "" | "." | ".."));
    match is_path && !own.contains('\0') {
        true => Ok(own.to_owned()),
        false => Err(NAME.broken(format!("`{}` is not a relative path of a file", name.escaped()))),
    }
}
