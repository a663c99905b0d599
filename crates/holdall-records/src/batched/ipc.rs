//! Arrow IPC: files with a footer, and streams.

use super::{Batched, Source, batches, guarded};
use crate::arrow::write::Mismatch;
use crate::rules::{COLUMNS, COLUMNS_LIMIT, COLUMNS_UNSUPPORTED};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MessageHeader, RecordBatch as Described, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use holdall_core::{Remedy, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// The first and last bytes of an Arrow file; streams have no such mark.
const MARK: &[u8] = b"ARROW1";
/// The first bytes of a file of Feather's first version.
const FEATHER: &[u8] = b"FEA1";
/// The footer's length field and the mark, in bytes.
const TAIL: u64 = 10;
/// The bytes before the length of a message.
const CONTINUES: [u8; 4] = [0xff; 4];

pub(super) fn open(source: Source) -> Result<Batched> {
    let head = source.get(0, source.len().min(MARK.len() as u64))?;
    let (schema, decoder, messages) = match () {
        () if head.starts_with(MARK) => file(&source)?,
        () if head.starts_with(FEATHER) => {
            let message = "this is a Feather file of version 1, which is not supported";
            return Err(COLUMNS_UNSUPPORTED.broken(message));
        }
        () => stream(&source)?,
    };
    let mut reader = Batches { source, decoder, messages };
    Ok(Batched {
        table: None,
        schema: Some(schema),
        batches: batches(move || reader.step()),
        mismatch: Mismatch::Refuse,
    })
}

type Begun = (SchemaRef, FileDecoder, Messages);

/// The positions of messages.
enum Messages {
    /// Listed in the footer.
    Listed(VecDeque<Block>),
    /// One after the other; the offset of the next one.
    At(u64),
}

fn file(source: &Source) -> Result<Begun> {
    let broken = |message: String| COLUMNS.broken(message);
    let len = source.len();
    let start = len.checked_sub(TAIL).filter(|start| *start >= 8);
    let start =
        start.ok_or_else(|| broken(format!("an Arrow file of {len} bytes is cut short")))?;
    let tail = source.get(start, TAIL)?;
    let (size, mark) = tail.split_at(4);
    if mark != MARK {
        let message = "it has no footer at its end: the file is cut short, or was not finished";
        return Err(COLUMNS.broken(message));
    }
    let size = i32::from_le_bytes(size.try_into().unwrap_or_default());
    let size = u64::try_from(size).map_err(|_| broken(format!("invalid footer length {size}")))?;
    check_head(source, size)?;
    let at = start.checked_sub(size);
    let at = at.ok_or_else(|| {
        broken(format!("the footer of {size} bytes exceeds the file of {len} bytes"))
    })?;
    let bytes = source.get(at, size)?;
    let footer = guarded(|| root_as_footer(&bytes).map_err(odd))?;
    let schema = footer.schema().ok_or_else(|| broken("the footer has no schema".to_owned()))?;
    let schema = schema_of(schema)?;
    let decoder = FileDecoder::new(schema.clone(), footer.version());
    // The decoder requires dictionaries before the batches that use them.
    let blocks = footer.dictionaries().into_iter().flatten();
    let blocks = blocks.chain(footer.recordBatches().into_iter().flatten()).copied();
    Ok((schema, decoder, Messages::Listed(blocks.collect())))
}

fn stream(source: &Source) -> Result<Begun> {
    let no_schema =
        || COLUMNS.broken("the first bytes are those of neither an Arrow file nor an Arrow stream");
    let block = framed(source, 0).map_err(|_| no_schema())?.ok_or_else(no_schema)?;
    let head = source.get(0, u64::from(block.metaDataLength().unsigned_abs()))?;
    let message = message(&head)?;
    let schema = message.header_as_schema().ok_or_else(no_schema)?;
    let schema = schema_of(schema)?;
    let decoder = FileDecoder::new(schema.clone(), message.version());
    Ok((schema, decoder, Messages::At(head.len() as u64)))
}

fn schema_of(schema: arrow_ipc::Schema<'_>) -> Result<SchemaRef> {
    if !schema.endianness().equals_to_target_endianness() {
        let message = "the file is big-endian; only little-endian files are supported";
        return Err(COLUMNS_UNSUPPORTED.broken(message));
    }
    guarded(|| try_fb_to_schema(schema)).map(Arc::new)
}

fn check_head(source: &Source, len: u64) -> Result<()> {
    let most = source.limits.header_len;
    if len > most {
        let raise = Remedy::RaiseLimit { limit: "header_len", at_least: Some(len) };
        let message = format!("a header of {len} bytes; at most {most} are allowed");
        return Err(COLUMNS_LIMIT.broken(message).with_remedy(raise));
    }
    Ok(())
}

/// Returns the message at an offset of a stream, or `None` at the end.
fn framed(source: &Source, at: u64) -> Result<Option<Block>> {
    if at == source.len() {
        return Ok(None);
    }
    let number =
        |at| -> Result<[u8; 4]> { Ok(source.get(at, 4)?.as_ref().try_into().unwrap_or_default()) };
    let mut start = at;
    let mut size = number(start)?;
    if size == CONTINUES {
        start += 4;
        size = number(start)?;
    }
    let size = u32::from_le_bytes(size);
    if size == 0 {
        return Ok(None);
    }
    let len = (start - at) + 4 + u64::from(size);
    check_head(source, len)?;
    let head = source.get(at, len)?;
    let body = message(&head)?.bodyLength();
    let placed = i64::try_from(at).ok().zip(i32::try_from(len).ok());
    let (at, len) = placed
        .ok_or_else(|| COLUMNS.broken(format!("a message of {len} bytes is longer than 2 GiB")))?;
    Ok(Some(Block::new(at, len, body)))
}

/// Parses the description of a message, which is preceded by its length.
fn message(head: &[u8]) -> Result<arrow_ipc::Message<'_>> {
    let start = if head.starts_with(&CONTINUES) { 8 } else { 4 };
    let text = head.get(start..).ok_or_else(|| COLUMNS.broken("a message has no header"))?;
    guarded(|| root_as_message(text).map_err(odd))
}

/// Converts an error of the flatbuffer verifier.
fn odd(e: impl std::fmt::Debug) -> ArrowError {
    ArrowError::ParseError(format!("{e:?}"))
}

/// The batches of a file or a stream.
struct Batches {
    source: Source,
    decoder: FileDecoder,
    messages: Messages,
}

impl Batches {
    fn step(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let block = match &mut self.messages {
                Messages::Listed(blocks) => blocks.pop_front(),
                Messages::At(at) => framed(&self.source, *at)?,
            };
            let Some(block) = block else { return Ok(None) };
            let batch = self
                .read(&block)
                .map_err(|e| e.within(format!("the message at {}", block.offset())))?;
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    /// Reads a message. Returns `None` for a dictionary.
    fn read(&mut self, block: &Block) -> Result<Option<RecordBatch>> {
        let number = |n: i64| {
            u64::try_from(n).map_err(|_| COLUMNS.broken(format!("invalid offset or length {n}")))
        };
        let (start, body) = (number(block.offset())?, number(block.bodyLength())?);
        let head = number(i64::from(block.metaDataLength()))?;
        let all = head.saturating_add(body);
        check_head(&self.source, head)?;
        // The range lies within the file.
        let bytes = self.source.get(start, all)?;
        let (head_bytes, body_bytes) = bytes.split_at(head as usize);
        let message = message(head_bytes)?;
        let kind = message.header_type();
        let described = match kind {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            MessageHeader::DictionaryBatch => {
                message.header_as_dictionary_batch().and_then(|d| d.data())
            }
            other => {
                return Err(COLUMNS.broken(format!("unexpected message of type {other:?}")));
            }
        };
        let described = described.ok_or_else(|| COLUMNS.broken("a message has no columns"))?;
        check(&self.source, &described, body_bytes)?;
        let buffer = Buffer::from(bytes.clone());
        let decoder = &mut self.decoder;
        let batch = match kind {
            MessageHeader::RecordBatch => guarded(|| decoder.read_record_batch(block, &buffer))?,
            _ => guarded(|| decoder.read_dictionary(block, &buffer)).map(|()| None)?,
        };
        if let Messages::At(at) = &mut self.messages {
            *at = start.saturating_add(all);
        }
        self.source.work.advance(all)?;
        Ok(batch)
    }
}

/// Compares the lengths that a message states for its buffers with its bytes, before memory is allocated for them.
fn check(source: &Source, batch: &Described<'_>, body: &[u8]) -> Result<()> {
    let is_packed = batch.compression().is_some();
    let mut decoded = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let position =
            usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let found = position.and_then(|(start, len)| body.get(start..start.checked_add(len)?));
        let found = found.ok_or_else(|| {
            let (at, len) = (buffer.offset(), buffer.length());
            COLUMNS.broken(format!(
                "a buffer of {len} bytes at offset {at} ends after its message of {} bytes",
                body.len()
            ))
        })?;
        // A compressed buffer starts with its decoded length; -1 means that it is not compressed.
        let stated_len = match found.first_chunk::<8>() {
            Some(first) if is_packed => u64::try_from(i64::from_le_bytes(*first)).ok(),
            _ => None,
        };
        decoded = decoded.saturating_add(stated_len.unwrap_or(found.len() as u64));
    }
    let stored = body.len() as u64;
    source.check("the columns of a batch", decoded, stored)?;
    let rows = u64::try_from(batch.length())
        .map_err(|_| COLUMNS.broken(format!("invalid number of rows: {}", batch.length())))?;
    source.check("the rows of a batch", rows, stored)
}
