//! A parser of Thrift's compact protocol for checking a Parquet file before it is decoded. It allocates nothing
//! according to numbers in the file, and bounds the nesting depth.

use holdall_core::wire::cursor::varint;

/// An error: the bytes are invalid, or end too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Short,
    Wrong,
}

type Result<T> = std::result::Result<T, Broken>;

/// Largest nesting depth of structures.
const DEPTH: u32 = 64;

const I32: u8 = 5;
const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// The fields of a page header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// 0 and 3 for data, 2 for a dictionary.
    pub(super) kind: i64,
    /// Decoded and stored length in bytes, without the header.
    pub(super) decoded: i64,
    pub(super) stored: i64,
    pub(super) values: i64,
    pub(super) encoding: i64,
}

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Returns the number of bytes that were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Parses the header of a page.
    pub(super) fn page(&mut self) -> Result<Page> {
        let mut page = Page::default();
        self.fields(0, &mut |reader, id, kind| {
            match (id, kind) {
                (1, I32) => page.kind = reader.int()?,
                (2, I32) => page.decoded = reader.int()?,
                (3, I32) => page.stored = reader.int()?,
                // The headers of data pages, dictionary pages, and data pages of version 2.
                (5 | 7 | 8, STRUCT) => reader.fields(1, &mut |reader, below, kind| {
                    match (below, kind) {
                        (1, I32) => page.values = reader.int()?,
                        (2, I32) if id != 8 => page.encoding = reader.int()?,
                        (4, I32) if id == 8 => page.encoding = reader.int()?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(page)
    }

    /// Checks the metadata of a file and returns the nesting depth of its schema.
    pub(super) fn metadata(&mut self) -> Result<usize> {
        let mut depth = 0;
        self.fields(0, &mut |reader, id, kind| {
            if (id, kind) != (2, LIST) {
                return Ok(false);
            }
            let (element, count) = reader.list()?;
            if element != STRUCT {
                return Err(Broken::Wrong);
            }
            // For each enclosing element, the number of its children that are still to come.
            let mut open: Vec<u64> = Vec::new();
            for at in 0..count {
                let mut children = 0;
                reader.fields(1, &mut |reader, id, kind| {
                    let is = (id, kind) == (5, I32);
                    if is {
                        children = reader.int()?;
                    }
                    Ok(is)
                })?;
                while open.last() == Some(&0) {
                    open.pop();
                }
                if let Some(last) = open.last_mut() {
                    *last -= 1;
                } else if at > 0 {
                    return Err(Broken::Wrong);
                }
                let children = u64::try_from(children).map_err(|_| Broken::Wrong)?;
                if children > count {
                    return Err(Broken::Wrong);
                }
                open.push(children);
                depth = depth.max(open.len());
            }
            match open.iter().all(|left| *left == 0) {
                true => Ok(true),
                false => Err(Broken::Wrong),
            }
        })?;
        Ok(depth)
    }

    /// Calls `each` with the id and the type of each field of a structure. `each` returns whether it read the field;
    /// otherwise the field is skipped.
    fn fields(
        &mut self,
        depth: u32,
        each: &mut dyn FnMut(&mut Self, i64, u8) -> Result<bool>,
    ) -> Result<()> {
        if depth > DEPTH {
            return Err(Broken::Wrong);
        }
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            let kind = head & 15;
            if kind == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.int()?,
                delta => id.saturating_add(i64::from(delta)),
            };
            if !each(self, id, kind)? {
                self.skip(kind, depth, false)?;
            }
        }
    }

    /// Skips a value. A boolean field is stored in its type, a boolean in a list as a byte.
    fn skip(&mut self, kind: u8, depth: u32, is_item: bool) -> Result<()> {
        if depth > DEPTH {
            return Err(Broken::Wrong);
        }
        match kind {
            1 | 2 if !is_item => Ok(()),
            1..=3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.take(8),
            8 => {
                let len = self.varint()?;
                self.take(len)
            }
            LIST | 10 => {
                let (element, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip(element, depth + 1, true))
            }
            11 => {
                let count = self.counted()?;
                if count == 0 {
                    return Ok(());
                }
                let element = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip(element >> 4, depth + 1, true)?;
                    self.skip(element & 15, depth + 1, true)
                })
            }
            STRUCT => self.fields(depth + 1, &mut |_, _, _| Ok(false)),
            13 => self.take(16),
            _ => Err(Broken::Wrong),
        }
    }

    /// Returns the type and the number of the items of a list.
    fn list(&mut self) -> Result<(u8, u64)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.counted()?,
            count => u64::from(count),
        };
        Ok((head & 15, count))
    }

    /// Reads a number of items. Each item takes at least one byte, so larger numbers are refused.
    fn counted(&mut self) -> Result<u64> {
        let count = self.varint()?;
        let left = self.bytes.len().saturating_sub(self.at) as u64;
        if count > left { Err(Broken::Short) } else { Ok(count) }
    }

    fn int(&mut self) -> Result<i64> {
        let n = self.varint()?;
        Ok(((n >> 1) as i64) ^ -((n & 1) as i64))
    }

    fn varint(&mut self) -> Result<u64> {
        varint(|| self.byte())?.ok_or(Broken::Wrong)
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or(Broken::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: u64) -> Result<()> {
        let left = self.bytes.len().saturating_sub(self.at) as u64;
        if len > left {
            return Err(Broken::Short);
        }
        self.at += len as usize;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_headers_are_read() {
        // 1: 0, 2: 64, 3: 20, 5: {1: 100, 2: 8, 3: 3, 4: 3}.
        let header = [
            0x15, 0, 0x15, 0x80, 1, 0x15, 40, 0x2c, 0x15, 0xc8, 1, 0x15, 16, 0x15, 6, 0x15, 6, 0, 0,
        ];
        let mut reader = Reader::new(&header);
        let page = reader.page().unwrap();
        assert_eq!(page, Page { kind: 0, decoded: 64, stored: 20, values: 100, encoding: 8 });
        assert_eq!(reader.at(), header.len());
        for len in 0..header.len() {
            assert_eq!(Reader::new(&header[..len]).page(), Err(Broken::Short));
        }
    }

    #[test]
    fn lengths_and_depths_are_bounded() {
        // A text of 2^40 bytes; nested structures; a list of 2^28 structures.
        let long = [0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20];
        assert_eq!(Reader::new(&long).page(), Err(Broken::Short));
        assert_eq!(Reader::new(&[0x1c; 1000]).page(), Err(Broken::Wrong));
        let list = [0x29, 0xfc, 0x80, 0x80, 0x80, 0x80, 1];
        assert_eq!(Reader::new(&list).metadata(), Err(Broken::Short));
        // A schema of one element whose child is missing, and a schema with two roots.
        assert_eq!(Reader::new(&[0x29, 0x1c, 0x55, 2, 0, 0]).metadata(), Err(Broken::Wrong));
        assert_eq!(Reader::new(&[0x29, 0x2c, 0, 0, 0]).metadata(), Err(Broken::Wrong));
        assert_eq!(Reader::new(&[0x29, 0x2c, 0x55, 2, 0, 0, 0]).metadata(), Ok(2));
    }
}
