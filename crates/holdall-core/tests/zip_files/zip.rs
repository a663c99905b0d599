//! Zips, field by field.

use super::sums::crc32;

/// One entry: the contents of its records, right or wrong.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) content: Vec<u8>,
    pub(crate) stored: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) system: u8,
    pub(crate) mode: u32,
    pub(crate) local_extra: Vec<u8>,
    pub(crate) extra: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    /// Whether lengths and CRC-32 follow the bytes, with zeros in the local header.
    pub(crate) deferred: bool,
    /// Whether numbers are in a zip64 field.
    pub(crate) zip64: bool,
    /// The hash that `MANIFEST` lists, instead of that of the content.
    pub(crate) listed: Option<Vec<u8>>,
}

impl Entry {
    pub(crate) fn new(name: &str, content: &[u8]) -> Entry {
        Entry {
            name: name.into(),
            content: content.to_vec(),
            stored: content.to_vec(),
            method: 0,
            flags: if name.is_ascii() { 0 } else { 1 << 11 },
            system: 3,
            mode: if name.ends_with('/') { 0o040_755 } else { 0o100_644 },
            local_extra: Vec::new(),
            extra: Vec::new(),
            comment: Vec::new(),
            deferred: false,
            zip64: false,
            listed: None,
        }
    }

    /// Compresses with Deflate, in stored blocks.
    pub(crate) fn deflate(&mut self) {
        (self.method, self.stored) = (8, deflate(&self.content));
    }

    /// Compresses with zstd, in a frame of raw blocks.
    pub(crate) fn zstd(&mut self) {
        (self.method, self.stored) = (93, zstd(&self.content));
    }

    /// Returns the fields from method to comment length that both records have, except for the flags.
    fn common(&self, out: &mut Vec<u8>, is_local: bool) {
        let flags = self.flags | if self.deferred { 8 } else { 0 };
        out.extend(flags.to_le_bytes());
        out.extend(self.method.to_le_bytes());
        // 1980-01-01 00:00.
        out.extend([0, 0, 0x21, 0]);
        let absent = is_local && self.deferred;
        let number = |n: u32| if absent { 0 } else { n };
        out.extend(number(crc32(&self.content)).to_le_bytes());
        for len in [self.stored.len(), self.content.len()] {
            let len = if self.zip64 { u32::MAX } else { number(len as u32) };
            out.extend(len.to_le_bytes());
        }
        out.extend((self.name.len() as u16).to_le_bytes());
    }

    /// Returns decoded length, stored length and, in the directory, offset.
    fn zip64_field(&self, numbers: &[u64]) -> Vec<u8> {
        if !self.zip64 {
            return Vec::new();
        }
        let mut out = vec![1, 0, numbers.len() as u8 * 8, 0];
        out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        out
    }
}

/// Returns one Deflate stream.
pub(crate) fn deflate(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut parts = content.chunks(0xffff).peekable();
    if parts.peek().is_none() {
        return vec![1, 0, 0, 0xff, 0xff];
    }
    while let Some(part) = parts.next() {
        out.push(u8::from(parts.peek().is_none()));
        out.extend((part.len() as u16).to_le_bytes());
        out.extend((!(part.len() as u16)).to_le_bytes());
        out.extend(part);
    }
    out
}

/// Returns one frame of zstd, of up to 128 KiB.
pub(crate) fn zstd(content: &[u8]) -> Vec<u8> {
    // A single segment, with a content size of 4 bytes, and one last raw block.
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    out.extend((content.len() as u32).to_le_bytes());
    out.extend(((content.len() as u32) << 3 | 1).to_le_bytes().iter().take(3));
    out.extend(content);
    out
}

/// A zip to be built.
#[derive(Clone, Default)]
pub(crate) struct Zip {
    pub(crate) entries: Vec<Entry>,
    /// The bytes before the first entry.
    pub(crate) prefix: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    /// Whether there is a zip64 end record and its locator.
    pub(crate) zip64: bool,
    /// Whether the numbers are only in the zip64 records.
    pub(crate) saturated: bool,
}

/// A zip, and the offsets of its records.
#[derive(Clone)]
pub(crate) struct Built {
    pub(crate) bytes: Vec<u8>,
    pub(crate) locals: Vec<usize>,
    pub(crate) centrals: Vec<usize>,
    pub(crate) directory: usize,
    /// The offset of the zip64 end record and its locator, or of the end record.
    pub(crate) end64: usize,
    pub(crate) locator: usize,
    pub(crate) end: usize,
}

impl Built {
    /// Returns the zip with other bytes at `at`.
    pub(crate) fn patch(mut self, at: usize, bytes: &[u8]) -> Built {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Returns the zip with one bit of the byte at `at` changed.
    pub(crate) fn flip(mut self, at: usize) -> Built {
        self.bytes[at] ^= 1;
        self
    }
}

impl Zip {
    pub(crate) fn build(&self) -> Built {
        let mut out = self.prefix.clone();
        let mut locals = Vec::new();
        for e in &self.entries {
            locals.push(out.len());
            let lens = if e.deferred { [0, 0] } else { [e.content.len(), e.stored.len()] };
            let mut extra = e.zip64_field(&lens.map(|n| n as u64));
            extra.extend(&e.local_extra);
            out.extend(b"PK\x03\x04\x14\0");
            e.common(&mut out, true);
            out.extend((extra.len() as u16).to_le_bytes());
            out.extend(&e.name);
            out.extend(extra);
            out.extend(&e.stored);
            if e.deferred {
                out.extend(b"PK\x07\x08");
                out.extend(crc32(&e.content).to_le_bytes());
                for len in [e.stored.len(), e.content.len()] {
                    match e.zip64 {
                        true => out.extend((len as u64).to_le_bytes()),
                        false => out.extend((len as u32).to_le_bytes()),
                    }
                }
            }
        }
        let directory = out.len();
        let mut centrals = Vec::new();
        for (e, &local) in self.entries.iter().zip(&locals) {
            centrals.push(out.len());
            let numbers = [e.content.len(), e.stored.len(), local].map(|n| n as u64);
            let mut extra = e.zip64_field(&numbers);
            extra.extend(&e.extra);
            out.extend(b"PK\x01\x02\x3f");
            out.push(e.system);
            out.extend([0x14, 0]);
            e.common(&mut out, false);
            out.extend((extra.len() as u16).to_le_bytes());
            out.extend((e.comment.len() as u16).to_le_bytes());
            out.extend([0; 4]);
            out.extend((e.mode << 16).to_le_bytes());
            let offset = if e.zip64 { u32::MAX } else { local as u32 };
            out.extend(offset.to_le_bytes());
            out.extend(&e.name);
            out.extend(extra);
            out.extend(&e.comment);
        }
        let end64 = out.len();
        let (count, len) = (self.entries.len(), end64 - directory);
        if self.zip64 {
            out.extend(b"PK\x06\x06");
            out.extend(44u64.to_le_bytes());
            out.extend([0x3f, 3, 0x2d, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            for number in [count, count, len, directory] {
                out.extend((number as u64).to_le_bytes());
            }
        }
        let locator = out.len();
        if self.zip64 {
            out.extend(b"PK\x06\x07\0\0\0\0");
            out.extend((end64 as u64).to_le_bytes());
            out.extend(1u32.to_le_bytes());
        }
        let end = out.len();
        out.extend(b"PK\x05\x06\0\0\0\0");
        let saturated = self.saturated;
        let short = if saturated { u16::MAX } else { count as u16 };
        out.extend(short.to_le_bytes());
        out.extend(short.to_le_bytes());
        for number in [len, directory] {
            out.extend(if saturated { u32::MAX } else { number as u32 }.to_le_bytes());
        }
        out.extend((self.comment.len() as u16).to_le_bytes());
        out.extend(&self.comment);
        Built { bytes: out, locals, centrals, directory, end64, locator, end }
    }
}
