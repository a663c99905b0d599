//! Object headers: the messages that describe a group, a dataset or a named datatype.

use super::reader::{FIRST, Reader, little};
use super::{LOOP, SHARED, VERSION};
use bytes::Bytes;
use holdall_collections::HashSet;
use holdall_core::error::Result;
use holdall_core::window::Stop;
use holdall_core::wire::cursor::Cursor;

/// The types of messages.
pub(super) mod kind {
    /// A message without contents, which is reserved space.
    pub(crate) const NONE: u16 = 0x00;
    pub(crate) const DATASPACE: u16 = 0x01;
    pub(crate) const LINK_INFO: u16 = 0x02;
    pub(crate) const DATATYPE: u16 = 0x03;
    pub(crate) const OLD_FILL: u16 = 0x04;
    pub(crate) const FILL: u16 = 0x05;
    pub(crate) const LINK: u16 = 0x06;
    pub(crate) const EXTERNAL: u16 = 0x07;
    pub(crate) const LAYOUT: u16 = 0x08;
    pub(crate) const FILTERS: u16 = 0x0b;
    pub(crate) const ATTRIBUTE: u16 = 0x0c;
    pub(crate) const CONTINUATION: u16 = 0x10;
    pub(crate) const SYMBOLS: u16 = 0x11;
    pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;
}

/// The flag of a message that is shared, so its body says where it is stored.
const IS_SHARED: u8 = 2;
/// Flags of headers of version 2.
const HAS_ORDER: u8 = 4;
const HAS_PHASES: u8 = 16;
const HAS_TIMES: u8 = 32;

/// A message.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) kind: u16,
    flags: u8,
    pub(super) body: Bytes,
    /// The address of the body.
    pub(super) at: u64,
}

/// The messages of an object.
#[derive(Debug, Clone)]
pub(super) struct Header {
    /// The address of the header.
    pub(super) at: u64,
    pub(super) messages: Vec<Message>,
}

impl Header {
    /// Reads the header at an address, with all of its blocks.
    pub(super) fn read(reader: &Reader<'_>, at: u64) -> Result<Header, Stop> {
        let head = reader.head(at, FIRST)?;
        let mut header = Header { at, messages: Vec::new() };
        let mut seen = HashSet::default();
        let (first, layout) = match head.starts_with(b"OHDR") {
            true => Self::first_block_v2(reader, at, &head)?,
            false => Self::first_block_v1(reader, at, &head)?,
        };
        let mut blocks = vec![first];
        while !blocks.is_empty() {
            reader.ask(blocks.iter().map(|block| (block.at, block.len)))?;
            let mut more = Vec::new();
            for block in blocks {
                if !seen.insert(block.at) {
                    let message = format!(
                        "the header at {at} refers to the block at {} more than once",
                        block.at
                    );
                    return Err(LOOP.broken(message).at(reader.locate(block.at, 0)?).into());
                }
                header.take(reader, &block, &layout, &mut more)?;
            }
            blocks = more;
        }
        Ok(header)
    }

    /// Returns the first message of a type. If it is shared, reads it from where it is stored.
    pub(super) fn get(&self, reader: &Reader<'_>, kind: u16) -> Result<Option<Message>, Stop> {
        let found = self.messages.iter().find(|message| message.kind == kind);
        found.map(|message| message.resolve_shared(reader)).transpose()
    }

    /// Returns `true` if there is a message of a type.
    pub(super) fn has(&self, kind: u16) -> bool {
        self.messages.iter().any(|message| message.kind == kind)
    }

    /// Returns all messages of a type.
    pub(super) fn all(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }

    /// Returns the first block of a header of version 1, which follows the prefix.
    fn first_block_v1(reader: &Reader<'_>, at: u64, head: &[u8]) -> Result<(Block, MessageLayout)> {
        let (version, len) = reader.read(at, "an object header", head, |cursor| {
            let version = cursor.u8()?;
            cursor.take(7)?;
            Some((version, cursor.u32_le()?))
        })?;
        if version != 1 {
            let message = format!("unsupported object header version {version}");
            return Err(VERSION.broken(message).at(reader.locate(at, 0)?));
        }
        let block =
            Block { at: at.saturating_add(16), len: len.into(), skip: 0, has_checksum: false };
        Ok((block, MessageLayout { is_v2: false, has_order: false }))
    }

    /// Returns the first block of a header of version 2, which includes the prefix.
    fn first_block_v2(reader: &Reader<'_>, at: u64, head: &[u8]) -> Result<(Block, MessageLayout)> {
        let (version, flags, skip, len) = reader.read(at, "an object header", head, |cursor| {
            cursor.take(4)?;
            let (version, flags) = (cursor.u8()?, cursor.u8()?);
            cursor.take(if flags & HAS_TIMES != 0 { 16 } else { 0 })?;
            cursor.take(if flags & HAS_PHASES != 0 { 4 } else { 0 })?;
            let len = little(cursor.take(1 << (flags & 3))?)?;
            Some((version, flags, cursor.position(), len))
        })?;
        if version != 2 {
            let message = format!("unsupported object header version {version}");
            return Err(VERSION.broken(message).at(reader.locate(at, 0)?));
        }
        let len = len.saturating_add(skip).saturating_add(4);
        let block = Block { at, len, skip, has_checksum: true };
        Ok((block, MessageLayout { is_v2: true, has_order: flags & HAS_ORDER != 0 }))
    }

    /// Adds the messages of a block. Continuation blocks are added to `more`.
    fn take(
        &mut self,
        reader: &Reader<'_>,
        block: &Block,
        layout: &MessageLayout,
        more: &mut Vec<Block>,
    ) -> Result<(), Stop> {
        let bytes = reader.bytes(block.at, block.len)?;
        let end =
            if block.has_checksum { reader.verified_len(block.at, &bytes)? } else { bytes.len() };
        if layout.is_v2 && block.at != self.at {
            reader.check_signature(block.at, &bytes, b"OCHK")?;
        }
        let mut cursor = Cursor::new(bytes.get(..end).unwrap_or_default());
        cursor.take(block.skip);
        loop {
            let start = cursor.position();
            let fields = match layout.is_v2 {
                false => (|| {
                    let (kind, len, flags) = (cursor.u16_le()?, cursor.u16_le()?, cursor.u8()?);
                    cursor.take(3)?;
                    Some((kind, len, flags))
                })(),
                true => (|| {
                    let (kind, len, flags) = (cursor.u8()?, cursor.u16_le()?, cursor.u8()?);
                    cursor.take(if layout.has_order { 2 } else { 0 })?;
                    Some((kind.into(), len, flags))
                })(),
            };
            // The rest of a block may be too short for a message.
            let Some((kind, len, flags)) = fields else { return Ok(()) };
            let at = cursor.position();
            let offset = block.at.saturating_add(start);
            if cursor.take(len.into()).is_none() {
                let message = format!("a message of {len} bytes extends past the end of its block");
                return Err(reader.broken(offset, message).into());
            }
            if kind == kind::NONE {
                continue;
            }
            let range = usize::try_from(at).unwrap_or(end)
                ..usize::try_from(cursor.position()).unwrap_or(end);
            let body = bytes.slice(range);
            if kind == kind::CONTINUATION {
                let (at, len) = reader.read(offset, "a continuation", &body, |cursor| {
                    Some((reader.address(cursor)?, reader.length(cursor)?))
                })?;
                let at =
                    at.ok_or_else(|| reader.broken(offset, "a continuation has no address"))?;
                let skip = if layout.is_v2 { 4 } else { 0 };
                more.push(Block { at, len, skip, has_checksum: layout.is_v2 });
                continue;
            }
            self.messages.push(Message { kind, flags, body, at: block.at.saturating_add(at) });
        }
    }
}

/// A block of messages.
struct Block {
    at: u64,
    len: u64,
    /// The number of bytes before the first message.
    skip: u64,
    /// Whether a checksum follows the messages.
    has_checksum: bool,
}

/// The layout of messages in a header.
struct MessageLayout {
    is_v2: bool,
    /// Whether each message has its creation order.
    has_order: bool,
}

impl Message {
    pub(super) fn new(kind: u16, flags: u8, body: Bytes, at: u64) -> Message {
        Message { kind, flags, body, at }
    }

    /// Returns the shared message that this message refers to, or this message if it is not shared.
    pub(super) fn resolve_shared(&self, reader: &Reader<'_>) -> Result<Message, Stop> {
        match self.flags & IS_SHARED {
            0 => Ok(self.clone()),
            _ => self.shared(reader, self.kind, &self.body),
        }
    }

    /// Reads the shared message of type `kind` that `body` refers to.
    pub(super) fn shared(
        &self,
        reader: &Reader<'_>,
        kind: u16,
        body: &[u8],
    ) -> Result<Message, Stop> {
        let refused = |what: &str| SHARED.broken(format!("a message is {what}"));
        let at = reader.read(self.at, "a shared message", body, |cursor| {
            let (version, flags) = (cursor.u8()?, cursor.u8()?);
            if version == 1 {
                cursor.take(6)?;
            }
            match (version, flags) {
                (3, 1) => Some(None),
                _ => reader.address(cursor),
            }
        })?;
        let at = at.ok_or_else(|| refused("in the table of shared messages"))?;
        let header = Header::read(reader, at)?;
        let found = header.messages.into_iter().find(|message| message.kind == kind);
        match found {
            Some(message) if message.flags & IS_SHARED == 0 => Ok(message),
            _ => Err(refused("missing where it should be stored").into()),
        }
    }
}
