//! Checks the pages of a Parquet file before they are decoded.

use super::Source;
use super::thrift::{Broken, Page, Reader};
use crate::rules::{COLUMNS, COLUMNS_UNSUPPORTED};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use parquet::basic::{Compression, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

/// Number of bytes of a page header to read at first, and at most.
const HEAD: u64 = 512;
const LONGEST_HEAD: u64 = 16 << 20;
/// The encoding in which a value shares a prefix with the previous one.
const DELTA_BYTE_ARRAY: i64 = 7;
/// Types of pages.
const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const DATA_V2: i64 = 3;

/// The sizes of the pages of a row group.
pub(super) struct Sizes {
    /// Stored bytes.
    pub(super) stored: u64,
    /// Approximate bytes of all rows as decoded columns.
    pub(super) decoded: u64,
}

/// Checks every page of a row group.
///
/// # Errors
/// Returns `input/columns` if a page is invalid; `input/columns-limit` if too much must be in memory at the same time,
/// which is the dictionary and the longest page of each column, and all elements of a column with lists;
/// `input/columns-unsupported` for an unsupported codec; or an I/O error.
pub(super) fn check(source: &Source, group: &RowGroupMetaData) -> Result<Sizes> {
    let mut sizes = Sizes { stored: 0, decoded: 0 };
    let mut at_once = 0u64;
    for column in group.columns() {
        let name = column.column_path().string();
        let named = |e: Error| e.within(format!("column `{}`", name.escaped()));
        check_codec(column).map_err(named)?;
        let found = pages(source, column).map_err(named)?;
        let width = width(column).max(1);
        let mut decoded = found.values.saturating_mul(width).max(found.decoded);
        if found.is_delta {
            decoded = decoded.max(found.values.saturating_mul(found.longest));
        }
        sizes.stored = sizes.stored.saturating_add(found.stored);
        sizes.decoded = sizes.decoded.saturating_add(decoded);
        at_once = at_once.saturating_add(found.dictionary).saturating_add(found.longest);
        // All elements may belong to one row, each with two levels of two bytes.
        if column.column_descr().max_rep_level() > 0 {
            at_once = at_once.saturating_add(found.values.saturating_mul(width + 4));
        }
    }
    source.check("the data that must be in memory at once", at_once, sizes.stored)?;
    let rows = u64::try_from(group.num_rows())
        .map_err(|_| COLUMNS.broken(format!("invalid number of rows: {}", group.num_rows())))?;
    source.check("rows", rows, sizes.stored)?;
    Ok(sizes)
}

fn check_codec(column: &ColumnChunkMetaData) -> Result<()> {
    match column.compression() {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::GZIP(_)
        | Compression::BROTLI(_)
        | Compression::ZSTD(_)
        | Compression::LZ4
        | Compression::LZ4_RAW => Ok(()),
        other => {
            let name = other.to_string();
            let name = name.split('(').next().unwrap_or_default();
            let message = format!("the pages are compressed with {name}, which is not supported");
            Err(COLUMNS_UNSUPPORTED.broken(message))
        }
    }
}

/// Returns the bytes of a value in memory, without the text that it refers to.
fn width(column: &ColumnChunkMetaData) -> u64 {
    match column.column_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BYTE_ARRAY => 16,
        Type::FIXED_LEN_BYTE_ARRAY => {
            u64::try_from(column.column_descr().type_length()).unwrap_or_default()
        }
    }
}

/// The sums over the page headers of a column.
#[derive(Default)]
struct Found {
    stored: u64,
    decoded: u64,
    values: u64,
    dictionary: u64,
    longest: u64,
    is_delta: bool,
}

fn pages(source: &Source, column: &ColumnChunkMetaData) -> Result<Found> {
    let wrong = || COLUMNS.broken("the column's pages are outside of the file");
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let start = u64::try_from(start).map_err(|_| wrong())?;
    let len = u64::try_from(column.compressed_size()).map_err(|_| wrong())?;
    let end = start.checked_add(len).filter(|end| *end <= source.len()).ok_or_else(wrong)?;
    let mut found = Found { stored: len, ..Found::default() };
    let mut at = start;
    while at < end {
        let (page, header) = header(source, at, end)?;
        let odd = || COLUMNS.broken("a page has a negative length");
        let decoded = u64::try_from(page.decoded).map_err(|_| odd())?;
        let stored = u64::try_from(page.stored).map_err(|_| odd())?;
        let values = u64::try_from(page.values).map_err(|_| odd())?;
        let next = at.checked_add(header).and_then(|at| at.checked_add(stored));
        at = next.filter(|next| *next <= end).ok_or_else(|| {
            COLUMNS
                .broken(format!("a page at offset {at} ends after its column, which ends at {end}"))
        })?;
        match page.kind {
            DICTIONARY => found.dictionary = found.dictionary.saturating_add(decoded),
            DATA | DATA_V2 => {
                found.values = found.values.saturating_add(values);
                found.longest = found.longest.max(decoded);
                found.is_delta |= page.encoding == DELTA_BYTE_ARRAY;
            }
            _ => {}
        }
        found.decoded = found.decoded.saturating_add(decoded);
    }
    Ok(found)
}

/// Returns the header of the page at `at`, and its length in bytes.
fn header(source: &Source, at: u64, end: u64) -> Result<(Page, u64)> {
    let mut len = HEAD;
    loop {
        let there = end - at;
        let bytes = source.get(at, len.min(there))?;
        let mut reader = Reader::new(&bytes);
        match reader.page() {
            Ok(page) => return Ok((page, reader.at() as u64)),
            Err(Broken::Short) if len < there.min(LONGEST_HEAD) => len = len.saturating_mul(8),
            Err(_) => return Err(COLUMNS.broken(format!("no valid page header at offset {at}"))),
        }
    }
}
