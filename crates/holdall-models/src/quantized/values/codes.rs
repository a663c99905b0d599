//! Reading codes: bytes and fields of a few bits as `f32`.

use super::super::decoding::{ByteCode, Codes, Table, words_down};
use super::super::{Decoded, SHAPE};
use bytes::Bytes;
use holdall_core::error::Result;
use holdall_core::layout::float::into_f32;
use holdall_core::{DType, LogicalType};

/// The slot of element `i` of a word in AutoAWQ's order.
const AWQ_SLOTS: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Reads codes of a stack of matrices.
#[derive(Debug)]
pub(super) struct CodeReader {
    bytes: Bytes,
    rows: usize,
    columns: usize,
    /// Bytes of a row, or of a matrix of words if codes run down columns.
    stride: usize,
    reading: Reading,
}

#[derive(Debug)]
enum Reading {
    Signed,
    Unsigned,
    Table(Box<[f32; 256]>),
    /// A byte contains two codes.
    Nibbles(Box<[[f32; 2]; 256]>),
    /// A byte contains four codes.
    Quarters(Box<[[f32; 4]; 256]>),
    /// A stream of codes of any number of bits.
    Bits {
        bits: u32,
        table: Box<[f32; 256]>,
    },
    Words {
        bits: u32,
        per_word: usize,
    },
    Down {
        bits: u32,
        per_word: Option<usize>,
    },
    Awq,
    Slabs {
        bits: u32,
        rows: usize,
        word: usize,
        is_first_high: bool,
    },
}

impl CodeReader {
    /// Creates a reader of `dims` matrices, rows and columns, whose bytes are `bytes`.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the number of bytes does not fit, and the errors of `component`.
    pub(super) fn new(
        codes: &Codes,
        dims: [u64; 3],
        bytes: Bytes,
        component: impl Fn(&str) -> Result<Decoded>,
    ) -> Result<CodeReader> {
        let [matrices, rows, columns] = dims;
        let expected = codes.byte_len(matrices, rows, columns);
        if expected.is_none_or(|len| {
            // Blocks of a flat tensor may be stored in words, of which the last one is padded.
            len > bytes.len() as u64 || len.saturating_add(8) <= bytes.len() as u64
        }) {
            let message = format!(
                "expected {} bytes of codes, found {}",
                expected.map_or("too many".to_owned(), |len| len.to_string()),
                bytes.len()
            );
            return Err(SHAPE.broken(message));
        }
        let size = |n: u64| {
            usize::try_from(n).map_err(|_| SHAPE.broken(format!("{n} exceeds the address space")))
        };
        let values = |table: &Table| code_values(*table, &component);
        let (stride, reading) = match codes {
            Codes::Bytes(code) => (columns, byte_reading(*code)?),
            Codes::Stream { bits, row_len, table } => {
                let table = values(table)?;
                let reading = match bits {
                    8 => Reading::Table(table),
                    4 => Reading::Nibbles(pairs(&table, false)),
                    2 => Reading::Quarters(quarters(&table)),
                    bits => Reading::Bits { bits: *bits, table },
                };
                (*row_len, reading)
            }
            Codes::HighNibbles { row_len, table } => {
                let table = values(table)?;
                (*row_len, Reading::Nibbles(pairs(&table, true)))
            }
            Codes::Words { bits, per_word, row_len } => {
                (*row_len, Reading::Words { bits: *bits, per_word: size(*per_word)?.max(1) })
            }
            Codes::Down { bits, per_word } => {
                let words = words_down(rows, *bits, *per_word).unwrap_or(0);
                let per_word = per_word.map(size).transpose()?.map(|n| n.max(1));
                let stride = words.saturating_mul(columns).saturating_mul(4);
                (stride, Reading::Down { bits: *bits, per_word })
            }
            Codes::Awq => (columns.div_ceil(8).saturating_mul(4), Reading::Awq),
            Codes::Slabs { bits, rows, word, is_first_high } => {
                let (rows, word) = (size(*rows)?.max(1), size(*word)?);
                let stride = columns.saturating_mul(word as u64);
                let is_first_high = *is_first_high;
                (stride, Reading::Slabs { bits: *bits, rows, word, is_first_high })
            }
        };
        let (rows, columns, stride) = (size(rows)?, size(columns)?, size(stride)?);
        Ok(CodeReader { bytes, rows, columns, stride, reading })
    }

    /// Reads codes of row `row` of all matrices, from column `start` on.
    #[inline]
    pub(super) fn read(&self, row: usize, start: usize, out: &mut [f32]) {
        let line = |row: usize| self.bytes.get(row.saturating_mul(self.stride)..).unwrap_or(&[]);
        let codes = |row: usize| line(row).get(start..).unwrap_or(&[]);
        match &self.reading {
            Reading::Signed => {
                for (x, code) in out.iter_mut().zip(codes(row)) {
                    *x = f32::from(code.cast_signed());
                }
            }
            Reading::Unsigned => {
                for (x, code) in out.iter_mut().zip(codes(row)) {
                    *x = f32::from(*code);
                }
            }
            Reading::Table(table) => {
                for (x, code) in out.iter_mut().zip(codes(row)) {
                    *x = lookup(table, *code);
                }
            }
            Reading::Nibbles(table) => fields(line(row), start, out, table),
            Reading::Quarters(table) => fields(line(row), start, out, table),
            Reading::Bits { bits, table } => stream(line(row), start, *bits, out, table),
            Reading::Words { bits, per_word } => {
                for (column, x) in (start..).zip(out) {
                    let at = column.checked_div(*per_word).unwrap_or(0).saturating_mul(4);
                    let shift = low_u32(column.checked_rem(*per_word).unwrap_or(0));
                    let shift = shift.saturating_mul(*bits);
                    *x = small(word_at(line(row), at).wrapping_shr(shift) & mask(*bits));
                }
            }
            Reading::Down { bits, per_word } => self.read_down(row, start, *bits, *per_word, out),
            Reading::Awq => awq(line(row), start, out),
            Reading::Slabs { bits, rows, word, is_first_high } => {
                let (matrix, row) = self.split(row);
                let slab = low_u32(row.checked_div(*rows).unwrap_or(0));
                let line = line(
                    matrix
                        .saturating_mul(*rows)
                        .saturating_add(row.checked_rem(*rows).unwrap_or(0)),
                );
                let shift = match (*is_first_high, *word) {
                    (false, _) => slab.saturating_mul(*bits),
                    // The fields of a byte start at its highest bit, those of a word after its two highest.
                    (true, 1) => 8u32.saturating_sub(slab.saturating_add(1).saturating_mul(*bits)),
                    (true, _) => 27u32.saturating_sub(slab.saturating_mul(*bits)),
                };
                if *word == 1 {
                    for (x, byte) in out.iter_mut().zip(line.get(start..).unwrap_or(&[])) {
                        *x = small(u32::from(*byte).wrapping_shr(shift) & mask(*bits));
                    }
                } else {
                    let words = line.get(start.saturating_mul(4)..).unwrap_or(&[]).as_chunks().0;
                    for (x, word) in out.iter_mut().zip(words) {
                        *x = small(u32::from_le_bytes(*word).wrapping_shr(shift) & mask(*bits));
                    }
                }
            }
        }
    }

    /// Returns the table of the values of bytes, and the bytes of row `row` from column `start` on, if codes are bytes.
    #[inline]
    pub(super) fn table_row(&self, row: usize, start: usize) -> Option<(&[f32; 256], &[u8])> {
        match &self.reading {
            Reading::Table(table) => {
                let start = row.saturating_mul(self.stride).saturating_add(start);
                Some((table, self.bytes.get(start..)?))
            }
            _ => None,
        }
    }

    /// Returns the number of a row's matrix, and the number of the row in it.
    fn split(&self, row: usize) -> (usize, usize) {
        let rows = self.rows.max(1);
        (row.checked_div(rows).unwrap_or(0), row.checked_rem(rows).unwrap_or(0))
    }

    #[inline]
    fn read_down(
        &self,
        row: usize,
        start: usize,
        bits: u32,
        per_word: Option<usize>,
        out: &mut [f32],
    ) {
        let (matrix, row) = self.split(row);
        let matrix = self.bytes.get(matrix.saturating_mul(self.stride)..).unwrap_or(&[]);
        let bit = row.saturating_mul(bits as usize);
        let (word, shift) = match per_word {
            None => (bit / 32, low_u32(bit % 32)),
            Some(n) => {
                let slot = low_u32(row.checked_rem(n).unwrap_or(0));
                (row.checked_div(n).unwrap_or(0), slot.saturating_mul(bits))
            }
        };
        let words = |word: usize| {
            let at = word.saturating_mul(self.columns).saturating_add(start).saturating_mul(4);
            matrix.get(at..).unwrap_or(&[]).as_chunks::<4>().0
        };
        let mask = i32::from(low_u8(mask(bits)));
        if shift.saturating_add(bits) <= 32 {
            for (x, word) in out.iter_mut().zip(words(word)) {
                *x = (i32::from_le_bytes(*word).wrapping_shr(shift) & mask) as f32;
            }
        } else {
            let high = 32u32.saturating_sub(shift);
            let both = words(word).iter().zip(words(word.saturating_add(1)));
            for (x, (low, next)) in out.iter_mut().zip(both) {
                let low = u32::from_le_bytes(*low).wrapping_shr(shift);
                let code = low | u32::from_le_bytes(*next).wrapping_shl(high);
                *x = (code.cast_signed() & mask) as f32;
            }
        }
    }
}

fn byte_reading(code: ByteCode) -> Result<Reading> {
    let table = |logical: LogicalType| -> Result<Reading> {
        Ok(Reading::Table(numbers(DType::U8, Some(&logical), &all_bytes())?))
    };
    match code {
        ByteCode::E4m3 => table(LogicalType::F8E4M3Fn),
        ByteCode::E5m2 => table(LogicalType::F8E5M2),
        ByteCode::E4m3Fnuz => table(LogicalType::F8E4M3FnUz),
        ByteCode::E5m2Fnuz => table(LogicalType::F8E5M2FnUz),
        ByteCode::Signed => Ok(Reading::Signed),
        ByteCode::Unsigned => Ok(Reading::Unsigned),
    }
}

/// Returns the value of each code, as often as 256 codes have room.
fn code_values(
    table: Table,
    component: &impl Fn(&str) -> Result<Decoded>,
) -> Result<Box<[f32; 256]>> {
    let mut out = Box::new([0f32; 256]);
    match table {
        Table::Integer => return numbers(DType::U8, None, &all_bytes()),
        Table::E2m1 => {
            let bytes: Vec<u8> =
                (0..128u8).map(|n| (n % 8) << 1 | ((n % 8) << 1 | 1) << 4).collect();
            into_f32(DType::U8, Some(&LogicalType::F4E2M1), &bytes, out.as_mut_slice())?;
        }
        Table::E2m3 => {
            // Four codes in three bytes.
            let codes: Vec<u32> = (0..256u32).map(|n| n % 64).collect();
            let (groups, _) = codes.as_chunks::<4>();
            let bytes = groups.iter().flat_map(|[a, b, c, d]| {
                let word = a | b << 6 | c << 12 | d << 18;
                let [x, y, z, _] = word.to_le_bytes();
                [x, y, z]
            });
            let bytes: Vec<u8> = bytes.collect();
            into_f32(DType::U8, Some(&LogicalType::F6E2M3), &bytes, out.as_mut_slice())?;
        }
        Table::Component(role) => {
            let decoded = component(role)?;
            let mut values = [0f32; 16];
            into_f32(decoded.dtype, decoded.logical_type.as_ref(), &decoded.bytes, &mut values)?;
            for (x, value) in out.iter_mut().zip(values.iter().cycle()) {
                *x = *value;
            }
        }
    }
    Ok(out)
}

fn all_bytes() -> Vec<u8> {
    (0..=255).collect()
}

fn numbers(dtype: DType, logical: Option<&LogicalType>, bytes: &[u8]) -> Result<Box<[f32; 256]>> {
    let mut out = Box::new([0f32; 256]);
    into_f32(dtype, logical, bytes, out.as_mut_slice())?;
    Ok(out)
}

/// Returns the values of both codes of each byte.
fn pairs(table: &[f32; 256], is_high_first: bool) -> Box<[[f32; 2]; 256]> {
    let mut out = Box::new([[0f32; 2]; 256]);
    for (pair, byte) in out.iter_mut().zip(0..=255u8) {
        let (low, high) = (lookup(table, byte & 15), lookup(table, byte >> 4));
        *pair = if is_high_first { [high, low] } else { [low, high] };
    }
    out
}

/// Returns the values of the four codes of each byte, from the low bits up.
fn quarters(table: &[f32; 256]) -> Box<[[f32; 4]; 256]> {
    let mut out = Box::new([[0f32; 4]; 256]);
    for (four, byte) in out.iter_mut().zip(0..=255u8) {
        *four = [byte & 3, byte >> 2 & 3, byte >> 4 & 3, byte >> 6].map(|code| lookup(table, code));
    }
    out
}

/// Reads bytes with `N` codes each.
#[inline]
fn fields<const N: usize>(line: &[u8], start: usize, out: &mut [f32], table: &[[f32; N]; 256]) {
    let value = |byte: u8| table.get(usize::from(byte)).copied().unwrap_or([f32::NAN; N]);
    let byte = start.checked_div(N).unwrap_or(0);
    let within = start.checked_rem(N).unwrap_or(0);
    let line = line.get(byte..).unwrap_or(&[]);
    let mut out = out;
    let mut line = line;
    if within > 0
        && let Some((first, rest)) = line.split_first()
    {
        let len = (N.saturating_sub(within)).min(out.len());
        let Some((head, tail)) = out.split_at_mut_checked(len) else { return };
        for (x, v) in head.iter_mut().zip(value(*first).iter().skip(within)) {
            *x = *v;
        }
        (out, line) = (tail, rest);
    }
    let (whole, last) = out.as_chunks_mut::<N>();
    let count = whole.len();
    for (x, byte) in whole.iter_mut().zip(line) {
        *x = value(*byte);
    }
    if let Some(byte) = line.get(count) {
        for (x, v) in last.iter_mut().zip(value(*byte)) {
            *x = v;
        }
    }
}

/// Reads a stream of codes of at most 8 bits.
fn stream(line: &[u8], start: usize, bits: u32, out: &mut [f32], table: &[f32; 256]) {
    let mut bit = start.saturating_mul(bits as usize);
    let mask = mask(bits);
    for x in out {
        let at = bit / 8;
        let byte = |at: usize| line.get(at).map_or(0, |byte| u32::from(*byte));
        let window = byte(at) | byte(at.saturating_add(1)) << 8;
        *x = lookup(table, low_u8(window.wrapping_shr(low_u32(bit % 8)) & mask));
        bit = bit.saturating_add(bits as usize);
    }
}

/// Reads words in AutoAWQ's order.
#[inline]
fn awq(line: &[u8], start: usize, out: &mut [f32]) {
    let code = |word: u32, slot: u32| (word.wrapping_shr(slot.wrapping_mul(4)) & 15).cast_signed();
    let mut column = start;
    let mut out = out;
    // The end of a word that starts before the first column.
    while !column.is_multiple_of(8) {
        let Some((x, rest)) = out.split_first_mut() else { return };
        let slot = AWQ_SLOTS.get(column % 8).copied().unwrap_or(0);
        *x = code(word_at(line, (column / 8).saturating_mul(4)), slot) as f32;
        (out, column) = (rest, column.saturating_add(1));
    }
    let words = line.get((column / 8).saturating_mul(4)..).unwrap_or(&[]).as_chunks::<4>().0;
    let (whole, last) = out.as_chunks_mut::<8>();
    let count = whole.len();
    for (out, word) in whole.iter_mut().zip(words) {
        let word = u32::from_le_bytes(*word);
        *out = AWQ_SLOTS.map(|slot| code(word, slot) as f32);
    }
    if let Some(word) = words.get(count) {
        let word = u32::from_le_bytes(*word);
        for (x, slot) in last.iter_mut().zip(AWQ_SLOTS) {
            *x = code(word, slot) as f32;
        }
    }
}

#[inline]
pub(super) fn lookup(table: &[f32; 256], code: u8) -> f32 {
    table.get(usize::from(code)).copied().unwrap_or(f32::NAN)
}

#[inline]
fn word_at(line: &[u8], at: usize) -> u32 {
    line.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_le_bytes(*word))
}

/// Returns a mask of the low bits.
#[inline]
fn mask(bits: u32) -> u32 {
    1u32.wrapping_shl(bits).wrapping_sub(1)
}

/// Returns a number that fits a byte.
#[inline]
fn low_u8(n: u32) -> u8 {
    n.to_le_bytes()[0]
}

/// Returns a number of bits or fields, which is small.
#[inline]
fn low_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[inline]
fn small(n: u32) -> f32 {
    n.cast_signed() as f32
}
