//! Tar archives, with every member whose bytes Python's `tarfile` returns: including old headers without a magic
//! number, and unknown types, which are read as files.

use super::parts::Kind;
use super::{Found, Job, Scan, ScanTarget};
use holdall_collections::DebugUnwrap;
use holdall_core::error::Result;
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::tar::{BOUNDS, HEADER, SPARSE, TOO_MANY};
use std::ops::Range;

/// The length of a block in bytes.
const BLOCK: u64 = 512;

/// Returns `true` if a tar archive has these first bytes. The checksum is the only field that every header has.
pub(super) fn starts(head: &[u8]) -> bool {
    head.get(..512).is_some_and(|block| {
        let (unsigned, signed) = header_sums(block);
        let stored = block.get(148..156).and_then(any_number);
        stored.is_some_and(|stored| stored == unsigned || stored == signed)
    })
}

/// Returns the sums of a header with blanks in the field for the sum. Some writers used signed bytes.
fn header_sums(block: &[u8]) -> (i64, i64) {
    let (mut unsigned, mut signed) = (0i64, 0i64);
    for (at, byte) in block.iter().enumerate() {
        let byte = if (148..156).contains(&at) { b' ' } else { *byte };
        unsigned = unsigned.saturating_add(byte.into());
        signed = signed.saturating_add(byte.cast_signed().into());
    }
    (unsigned, signed)
}

/// Parses a number of a field as Python does, with a sign, a prefix and underscores. The scan does not support such
/// numbers, but recognizes the archive and reports it as not analyzed.
fn any_number(field: &[u8]) -> Option<i64> {
    if let [0x80, rest @ ..] = field {
        return rest.iter().try_fold(0i64, |n, b| n.checked_mul(256)?.checked_add((*b).into()));
    }
    let text = std::str::from_utf8(until_nul(field)).ok()?.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.strip_prefix("0o").or(digits.strip_prefix("0O")).unwrap_or(digits);
    let digits = digits.replace('_', "");
    let number = if digits.is_empty() { 0 } else { i64::from_str_radix(&digits, 8).ok()? };
    number.checked_mul(sign)
}

/// A file in an archive.
#[derive(Debug, Clone)]
struct Member {
    name: String,
    range: Range<u64>,
}

/// A walk through an archive, which continues where it needed bytes, and never looks back.
#[derive(Debug, Default, Clone)]
pub(super) struct Walk {
    members: Vec<Member>,
    /// The name that a record gives to the file with the next header.
    next_name: Option<Vec<u8>>,
    next_len: Option<u64>,
    /// The offset of the next header, and the number of headers so far.
    at: u64,
    count: u64,
}

impl Scan {
    /// Continues to read a tar archive, then adds its files, including those before an error.
    pub(super) fn tar(
        &self,
        mut walk: Box<Walk>,
        job: &mut Job,
        window: &Window,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let before = walk.at;
        match walk.advance(window, &self.limits) {
            Err(Stop::Need(ranges)) => {
                if walk.at == before {
                    job.what = ScanTarget::Tar(walk);
                    return Err(Stop::Need(ranges));
                }
                // Continues in another step, so that the bytes in the window are released.
                found.next.push(job.with(ScanTarget::Tar(walk)));
                return Ok(());
            }
            Err(Stop::Fail(e)) => found.unread(job, e),
            Ok(()) => {}
        }
        for member in walk.members {
            let region = job.region.range(member.range);
            let name = format!("{}!/{}", job.name, member.name);
            found.next.push(job.for_inner_file(ScanTarget::File, region.clone(), name.clone()));
            if let Some(kind) = Kind::from_member_name(&member.name) {
                found.next.push(job.for_inner_file(ScanTarget::Parts(kind), region, name));
            }
        }
        Ok(())
    }
}

impl Walk {
    /// Reads up to the end, or to the first bytes missing in `window`; then it must be called again with these.
    fn advance(&mut self, window: &Window, limits: &Limits) -> Result<(), Stop> {
        while self.at < window.len() {
            let range = self.at..self.at.saturating_add(BLOCK);
            if range.end > window.len() {
                let e = BOUNDS.broken("the archive ends inside a header");
                return Err(e.at(self.at..window.len()).into());
            }
            let block = window.bytes(range.clone())?;
            if block.iter().all(|byte| *byte == 0) {
                break;
            }
            self.header(&block, range, window, limits)?;
        }
        Ok(())
    }

    /// Reads a header, and the record or file after it. Changes nothing if bytes are missing.
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
        let is_record = matches!(header.kind, b'L' | b'K' | b'x' | b'X' | b'g');
        let len = match header.kind {
            // Links, devices and folders have no bytes, whatever length their headers give.
            b'1'..=b'6' => 0,
            _ if is_record => header.len,
            _ => self.next_len.unwrap_or(header.len),
        };
        let end = range.end;
        let data = end.checked_add(len).map(|stop| end..stop).filter(|d| d.end <= window.len());
        let Some(data) = data else {
            let there = window.len().saturating_sub(end);
            let message = format!("a file should have {len} bytes, but only {there} remain");
            return Err(BOUNDS.broken(message).at(range).into());
        };
        if is_record && len > limits.text_len {
            let message =
                format!("a record has {len} bytes, at most {} are allowed", limits.text_len);
            return Err(TOO_MANY.broken(message).at(range).into());
        }
        let after = data.end.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        match header.kind {
            b'L' => self.next_name = Some(until_nul(&window.bytes(data)?).to_vec()),
            b'K' => {}
            b'x' | b'X' | b'g' => {
                let text = window.bytes(data)?;
                let is_global = header.kind == b'g';
                self.take_pax(&text, is_global).map_err(|e| e.at(range))?;
            }
            b'S' => {
                return Err(SPARSE
                    .broken("a file has the type `S`: it is sparse")
                    .at(range)
                    .into());
            }
            kind => {
                let name = self.next_name.take().unwrap_or(header.name);
                let name = String::from_utf8_lossy(&name).into_owned();
                self.next_len = None;
                let is_link = matches!(kind, b'1' | b'2');
                if is_link && Kind::from_member_name(&name).is_some() {
                    let message = "a file that torch unpickles is a link to another file";
                    return Err(HEADER.broken(message).at(range).into());
                }
                // Old archives mark folders with a name like this. For some readers, they have no bytes.
                if kind == 0 && name.ends_with('/') && len > 0 {
                    return Err(HEADER
                        .broken(format!("a header has the name of a folder, but {len} bytes"))
                        .at(range)
                        .into());
                }
                if !(matches!(kind, b'1'..=b'6') || kind == 0 && name.ends_with('/')) {
                    self.members.push(Member { name, range: data });
                }
            }
        }
        (self.at, self.count) = (after, self.count.saturating_add(1));
        Ok(())
    }

    /// Parses lines of `LENGTH KEY=VALUE`, each with its own length in bytes.
    fn take_pax(&mut self, mut bytes: &[u8], is_global: bool) -> Result<()> {
        let wrong =
            || HEADER.broken("a record before a header is not in the form `LENGTH KEY=VALUE`");
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
                b"path" | b"size" if is_global => {
                    return Err(HEADER.broken("a record gives all files the same name or length"));
                }
                b"path" => self.next_name = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                    self.next_len = Some(size.ok_or_else(wrong)?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    let message =
                        "a file has records whose names start with `GNU.sparse.`: it is sparse";
                    return Err(SPARSE.broken(message));
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
    /// Parses a block of 512 bytes.
    fn read(block: &[u8]) -> Result<Header> {
        let field = |range: Range<usize>| block.get(range).debug_unwrap();
        let number = |range: Range<usize>| {
            number(field(range)).ok_or_else(|| HEADER.broken("a number in a header is not octal"))
        };
        let (sum, signed) = header_sums(block);
        let stored = i64::try_from(number(148..156)?).unwrap_or(-1);
        if stored != sum && stored != signed {
            return Err(
                HEADER.broken(format!("the checksum of a header is {sum}, but {stored} is stored"))
            );
        }
        let mut name = match until_nul(field(345..500)) {
            prefix if !prefix.is_empty() && field(257..263) == b"ustar\0" => {
                [prefix, b"/"].concat()
            }
            _ => Vec::new(),
        };
        name.extend_from_slice(until_nul(field(0..100)));
        let kind = block.get(156).copied().debug_unwrap();
        Ok(Header { name, len: number(124..136)?, kind })
    }
}

/// Parses a number in octal digits, or in binary after a byte 0x80.
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, rest @ ..] = field {
        let (high, low) = rest.split_last_chunk::<8>()?;
        return high.iter().all(|byte| *byte == 0).then(|| u64::from_be_bytes(*low));
    }
    match std::str::from_utf8(until_nul(field)).ok()?.trim_matches(' ') {
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
