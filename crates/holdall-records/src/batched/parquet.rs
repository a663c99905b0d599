//! Reads Parquet files, one row group after the other.

use super::thrift::Reader;
use super::{Batched, Source, batches, guarded, pages};
use crate::arrow::write::Mismatch;
use crate::rules::{COLUMNS, COLUMNS_LIMIT, COLUMNS_UNSUPPORTED};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use bytes::Bytes;
use holdall_core::{Remedy, Result};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// The mark at both ends of a file, and the mark at the end of a file whose footer is encrypted.
const MARK: &[u8] = b"PAR1";
const ENCRYPTED: &[u8] = b"PARE";
/// The footer's length field and the mark, in bytes.
const TAIL: u64 = 8;
/// Rows of a batch, and approximate bytes of a batch.
const ROWS: u64 = 8192;
const BYTES: u64 = 32 << 20;

pub(super) fn open(source: Source) -> Result<Batched> {
    check_footer(&source)?;
    let chunks = Chunks(source.clone());
    let load = |options| guarded(|| ArrowReaderMetadata::load(&chunks, options));
    let metadata = load(ArrowReaderOptions::new())?;
    // With this schema, the text of a dictionary is stored once and referred to by views; otherwise it would be copied
    // for each row.
    let seen = viewed_schema(metadata.schema());
    let options = ArrowReaderOptions::new().with_schema(seen);
    let viewed = guarded(|| ArrowReaderMetadata::try_new(metadata.metadata().clone(), options));
    let metadata = viewed.unwrap_or(metadata);
    let schema = metadata.schema().clone();
    let mut groups = Groups { source, metadata, next: 0, current: None, stored: 0 };
    Ok(Batched {
        table: None,
        schema: Some(schema),
        batches: batches(move || groups.step()),
        mismatch: Mismatch::Refuse,
    })
}

/// Checks the footer before it is decoded.
fn check_footer(source: &Source) -> Result<()> {
    let broken = |message: String| Err(COLUMNS.broken(message));
    let len = source.len();
    let head = source.get(0, len.min(MARK.len() as u64))?;
    if head != MARK {
        return broken(format!(
            "a Parquet file starts with `PAR1`, found `{}`",
            head.escape_ascii()
        ));
    }
    let Some(start) = len.checked_sub(TAIL).filter(|start| *start >= MARK.len() as u64) else {
        return broken(format!("a Parquet file of {len} bytes is cut short"));
    };
    let tail = source.get(start, TAIL)?;
    let (size, mark) = tail.split_at(4);
    if mark == ENCRYPTED {
        return Err(COLUMNS_UNSUPPORTED.broken("the footer is encrypted, which is not supported"));
    }
    if mark != MARK {
        return broken(
            "it has no footer at its end: the file is cut short, or was not finished".to_owned(),
        );
    }
    let size = u64::from(u32::from_le_bytes(size.try_into().unwrap_or_default()));
    if size > source.limits.header_len {
        let most = source.limits.header_len;
        let raise = Remedy::RaiseLimit { limit: "header_len", at_least: Some(size) };
        let message = format!("a footer of {size} bytes; at most {most} are allowed");
        return Err(COLUMNS_LIMIT.broken(message).with_remedy(raise));
    }
    let Some(at) = start.checked_sub(size) else {
        return broken(format!("a footer of {size} bytes in a file of {len} bytes"));
    };
    let footer = source.get(at, size)?;
    match Reader::new(&footer).metadata() {
        Ok(depth) if depth <= source.limits.depth => Ok(()),
        Ok(depth) => {
            let most = source.limits.depth;
            let raise = Remedy::RaiseLimit { limit: "depth", at_least: Some(depth as u64) };
            let message = format!("columns are nested {depth} deep; at most {most} is allowed");
            Err(COLUMNS_LIMIT.broken(message).with_remedy(raise))
        }
        Err(_) => broken(format!("the last {size} bytes are not a valid footer")),
    }
}

fn viewed_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(viewed).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn viewed(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::List(item) => DataType::List(viewed(item)),
        DataType::LargeList(item) => DataType::LargeList(viewed(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(viewed(item), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(viewed).collect()),
        _ => return field.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// An iterator over the row groups of a file.
struct Groups {
    source: Source,
    metadata: ArrowReaderMetadata,
    next: usize,
    current: Option<ParquetRecordBatchReader>,
    /// Stored bytes of the current row group.
    stored: u64,
}

impl Groups {
    fn step(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(reader) = &mut self.current {
                if let Some(batch) = guarded(|| reader.next().transpose())? {
                    return Ok(Some(batch));
                }
                self.current = None;
                self.source.work.advance(self.stored)?;
            }
            let metadata = self.metadata.metadata();
            let Some(group) = metadata.row_groups().get(self.next) else { return Ok(None) };
            let at = self.next;
            let sizes = pages::check(&self.source, group)
                .map_err(|e| e.within(format!("row group {at}")))?;
            let rows = u64::try_from(group.num_rows()).unwrap_or_default();
            let each = (sizes.decoded / rows.max(1)).max(1);
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
                Chunks(self.source.clone()),
                self.metadata.clone(),
            );
            let count = (BYTES / each).clamp(1, ROWS) as usize;
            let builder = builder.with_row_groups(vec![at]).with_batch_size(count);
            self.current = Some(guarded(|| builder.build())?);
            (self.next, self.stored) = (at + 1, sizes.stored);
        }
    }
}

/// The file, as the decoder reads it.
struct Chunks(Source);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<From>;

    /// The decoder calls this only to read page headers, so little is buffered.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        const HEAD: usize = 512;
        Ok(BufReader::with_capacity(HEAD, From { source: self.0.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.0.get(start, length as u64);
        bytes.map_err(|e| ParquetError::External(Box::new(e)))
    }
}

/// A reader that starts at an offset of the file.
struct From {
    source: Source,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len().saturating_sub(self.at);
        let len = left.min(buf.len() as u64);
        let bytes = self.source.get(self.at, len).map_err(io::Error::other)?;
        buf.iter_mut().zip(&bytes).for_each(|(slot, b)| *slot = *b);
        self.at += len;
        Ok(bytes.len())
    }
}
