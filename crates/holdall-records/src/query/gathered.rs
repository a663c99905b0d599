//! Sorts and counts records by columns that are gathered, which is much faster than reading record by record.

use super::{Groups, RecordSorter};
use crate::Records;
use crate::gather::{Gathered, RowSelection, Values};
use holdall_collections::HashMap;
use holdall_core::Result;
use holdall_io::Work;
use holdall_schema::{Kind, Path, Scalar};
use std::ops::Range;

/// Bytes of records whose columns are gathered together.
const TOGETHER: u64 = 64 << 20;

impl Records {
    /// Returns the indices of the chosen records, sorted by members as [`Records::order`] sorts them.
    ///
    /// # Errors
    /// Returns the errors of [`Records::order`], [`RecordSorter::add`] and [`Records::gather`].
    pub fn sorted(
        &self,
        members: &[impl AsRef<str>],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<u64>> {
        let sorter = self.order(members)?;
        let count = chosen_len(chosen);
        let is_few =
            count.saturating_mul(size_of::<(u64, u64)>() as u64) < self.limits().decoded_len;
        match members {
            [one] if is_few && let Some((path, order)) = self.key(one.as_ref()) => {
                self.sorted_by_key(&path, &order, chosen, work)
            }
            _ => self.sorted_one_by_one(sorter, chosen, work),
        }
    }

    fn sorted_one_by_one(
        &self,
        mut sorter: RecordSorter,
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<u64>> {
        let parts: Vec<_> = sorter.parts().cloned().collect();
        for (at, record) in self.at(indices(chosen)).with_parts(parts).enumerate() {
            sorter.add(&record?)?;
            if at.is_multiple_of(STEP) {
                work.check()?;
            }
        }
        Ok(sorter.finish())
    }

    /// Returns the path of a member whose values are sorted as numbers of 64 bits, and how; `None` for other members.
    fn key(&self, member: &str) -> Option<(Path, KeyOrder)> {
        let member = member.trim();
        let path = member.strip_prefix('-');
        let is_descending = path.is_some();
        let path: Path = path.unwrap_or(member).parse().ok()?;
        let part = self.schema().accessor(self.ty(), &path).ok()?;
        let number = match &self.schema().ty(part.ty()).kind {
            Kind::Enum(_) => KeyNumber::Unsigned,
            Kind::Scalar(scalar) => match scalar {
                Scalar::Int8 | Scalar::Int16 | Scalar::Int32 | Scalar::Int64 => KeyNumber::Signed,
                Scalar::Timestamp => KeyNumber::Signed,
                Scalar::Uint8 | Scalar::Uint16 | Scalar::Uint32 | Scalar::Uint64 => {
                    KeyNumber::Unsigned
                }
                Scalar::Float32 | Scalar::Float64 => KeyNumber::Float,
                _ => return None,
            },
            _ => return None,
        };
        Some((path, KeyOrder { number, is_descending }))
    }

    fn sorted_by_key(
        &self,
        path: &Path,
        order: &KeyOrder,
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<u64>> {
        let count = usize::try_from(chosen_len(chosen)).unwrap_or(0);
        let (mut keys, mut absent) = (Vec::with_capacity(count), Vec::new());
        self.each_batch(std::slice::from_ref(path), chosen, work, &mut |first, columns| {
            let [
                Gathered {
                    presence: there,
                    values: Values::Numbers(data) | Values::EnumIndices(data, _),
                    len,
                    ..
                },
            ] = columns
            else {
                return Ok(());
            };
            let width = data.as_ref().len().checked_div(*len).unwrap_or(1).max(1);
            for (at, number) in data.as_ref().chunks_exact(width).enumerate() {
                let row = first + at as u64;
                match there.as_ref().is_none_or(|bits| bits[at / 8] >> (at % 8) & 1 == 1) {
                    true => keys.push((order.key(number), row)),
                    false => absent.push(row),
                }
            }
            Ok(())
        })?;
        // The position makes the sort stable.
        keys.sort_unstable();
        let rows = keys.into_iter().map(|(_, row)| row).chain(absent);
        Ok(match chosen {
            RowSelection::Range(range) => rows.map(|row| range.start + row).collect(),
            RowSelection::At(indices) => rows.map(|row| indices[row as usize]).collect(),
            RowSelection::These(all) => rows.map(|row| all[row as usize].index()).collect(),
        })
    }

    /// Counts the chosen records by members, and computes aggregates of each group: see [`Records::groups`].
    ///
    /// # Errors
    /// Returns the errors of [`Records::groups`], [`Groups::add`] and [`Records::gather`].
    pub fn counted(
        &self,
        members: &[impl AsRef<str>],
        aggregates: &[impl AsRef<str>],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Groups> {
        let mut groups = self.groups(members, aggregates)?;
        let parts: Vec<_> = groups.keys().cloned().collect();
        let inputs: Vec<_> = groups.inputs().cloned().collect();
        let has_bytes =
            |kind: &Kind| matches!(kind, Kind::Enum(_) | Kind::String | Kind::Scalar(_));
        let paths = members.iter().map(|member| member.as_ref().trim().parse());
        let paths: Option<Vec<Path>> = paths.collect::<Result<_>>().ok();
        let is_known = parts.iter().all(|part| has_bytes(&self.schema().ty(part.ty()).kind));
        let Some(paths) = paths.filter(|_| is_known && !parts.is_empty()) else {
            let parts = parts.into_iter().chain(inputs);
            for (at, record) in self.at(indices(chosen)).with_parts(parts).enumerate() {
                groups.add(&record?)?;
                if at.is_multiple_of(STEP) {
                    work.check()?;
                }
            }
            return Ok(groups);
        };
        self.each_batch(&paths, chosen, work, &mut |first, columns| {
            let (found, numbers) = match columns {
                [one] if let Some(found) = small(one, !inputs.is_empty()) => found,
                _ => count_keys(columns, !inputs.is_empty()),
            };
            let index = |row: usize| {
                let row = first + row as u64;
                match chosen {
                    RowSelection::Range(range) => range.start + row,
                    RowSelection::At(indices) => indices[row as usize],
                    RowSelection::These(all) => all[row as usize].index(),
                }
            };
            // Each group is read from the first of its records.
            let indices: Vec<u64> = found.iter().map(|(row, _)| index(*row)).collect();
            let records = self.at(indices).with_parts(parts.clone());
            let mut known = Vec::with_capacity(found.len());
            for (record, (_, count)) in records.zip(found) {
                known.push(groups.count(&record?, count)?);
            }
            if !inputs.is_empty() {
                let indices: Vec<u64> = (0..numbers.len()).map(index).collect();
                let records = self.at(indices).with_parts(inputs.iter().cloned());
                for (record, number) in records.zip(&numbers) {
                    groups.aggregate(known[*number as usize], &record?)?;
                }
            }
            Ok(())
        })?;
        Ok(groups)
    }

    /// Gathers columns of the chosen records, some at a time, and calls `with` with the number of the first.
    fn each_batch(
        &self,
        paths: &[Path],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
        with: &mut dyn FnMut(u64, &[Gathered]) -> Result<()>,
    ) -> Result<()> {
        let (count, every) = (chosen_len(chosen), self.rows_in(TOGETHER).max(8));
        let mut first = 0;
        while first < count {
            let end = count.min(first + every);
            let Range { start, end: stop } = first as usize..end as usize;
            let part = match chosen {
                RowSelection::Range(range) => {
                    RowSelection::Range(range.start + first..range.start + end)
                }
                RowSelection::At(indices) => RowSelection::At(&indices[start..stop]),
                RowSelection::These(all) => RowSelection::These(&all[start..stop]),
            };
            with(first, &self.gather(paths, &part, work)?)?;
            work.check()?;
            first = end;
        }
        Ok(())
    }
}

/// Records between two checks for cancellation.
const STEP: usize = 4096;

/// How the values of a member are compared.
struct KeyOrder {
    number: KeyNumber,
    is_descending: bool,
}

enum KeyNumber {
    Signed,
    Unsigned,
    Float,
}

impl KeyOrder {
    /// Returns a number whose order is that of the values.
    #[inline]
    fn key(&self, bytes: &[u8]) -> u64 {
        const SIGN: u64 = 1 << 63;
        let mut wide = [0; 8];
        let number = match (&self.number, bytes) {
            (KeyNumber::Float, [a, b, c, d]) => {
                float_key(f64::from(f32::from_le_bytes([*a, *b, *c, *d])))
            }
            (number, bytes) => {
                let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
                if matches!(number, KeyNumber::Signed) && is_negative {
                    wide.fill(0xff);
                }
                wide.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
                match number {
                    KeyNumber::Float => float_key(f64::from_le_bytes(wide)),
                    KeyNumber::Signed => Some(u64::from_le_bytes(wide) ^ SIGN),
                    KeyNumber::Unsigned => Some(u64::from_le_bytes(wide)),
                }
            }
        };
        match number {
            Some(key) if self.is_descending => !key,
            Some(key) => key,
            // NaN comes last in both directions.
            None => u64::MAX,
        }
    }
}

/// Returns a number whose order is that of the floats; `None` for NaN. Positive and negative zero are equal.
fn float_key(x: f64) -> Option<u64> {
    let bits = if x == 0.0 { 0 } else { x.to_bits() };
    let key = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    (!x.is_nan()).then_some(key)
}

fn chosen_len(chosen: &RowSelection<'_, '_>) -> u64 {
    match chosen {
        RowSelection::Range(range) => range.end.saturating_sub(range.start),
        RowSelection::At(indices) => indices.len() as u64,
        RowSelection::These(all) => all.len() as u64,
    }
}

fn indices(chosen: &RowSelection<'_, '_>) -> Vec<u64> {
    match chosen {
        RowSelection::Range(range) => range.clone().collect(),
        RowSelection::At(indices) => indices.to_vec(),
        RowSelection::These(all) => all.iter().map(crate::Record::index).collect(),
    }
}

/// The first row and the number of rows of each different value; and for each row the index of its value, if they are
/// requested.
type Counted = (Vec<(usize, u64)>, Vec<u32>);

/// Counts values of one byte, or of one bit; returns `None` for other columns.
fn small(column: &Gathered, with_numbers: bool) -> Option<Counted> {
    let mut found = vec![(usize::MAX, 0u64); 257];
    let there = |at: usize| column.presence.as_ref().is_none_or(|bits| bit(bits, at));
    let (data, is_bits) = match &column.values {
        Values::Bits(data) => (data.as_ref(), true),
        Values::Numbers(data) | Values::EnumIndices(data, _)
            if data.as_ref().len() == column.len =>
        {
            (data.as_ref(), false)
        }
        _ => return None,
    };
    let value = |at: usize| {
        let value = if is_bits { usize::from(bit(data, at)) } else { usize::from(data[at]) };
        if there(at) { value } else { 256 }
    };
    for at in 0..column.len {
        let (first, count) = &mut found[value(at)];
        *first = at.min(*first);
        *count += 1;
    }
    let mut numbers = Vec::new();
    if with_numbers {
        let mut number = [0; 257];
        let used = found.iter().enumerate().filter(|(_, (_, count))| *count > 0);
        used.zip(0..).for_each(|((value, _), at)| number[value] = at);
        numbers = (0..column.len).map(|at| number[value(at)]).collect();
    }
    found.retain(|(_, count)| *count > 0);
    Some((found, numbers))
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

/// Counts the different rows of columns of numbers and texts.
fn count_keys(columns: &[Gathered], with_numbers: bool) -> Counted {
    let len = columns.first().map_or(0, |column| column.len);
    let mut indices: HashMap<Box<[u8]>, usize> = HashMap::default();
    let (mut found, mut key) = (Vec::<(usize, u64)>::new(), Vec::new());
    let mut numbers = Vec::with_capacity(if with_numbers { len } else { 0 });
    // Keys that were seen lately, so that few keys of many rows are looked up in the map.
    let mut recent: Vec<(Vec<u8>, usize)> = vec![(Vec::new(), usize::MAX); RECENT];
    for row in 0..len {
        key.clear();
        for column in columns {
            add_key(column, row, &mut key);
        }
        let slot = &mut recent[slot(&key)];
        let at = match slot {
            (known, at) if *at != usize::MAX && *known == key => *at,
            (known, at) => {
                *at = match indices.get(key.as_slice()) {
                    Some(at) => *at,
                    None => {
                        indices.insert(key.as_slice().into(), found.len());
                        found.push((row, 0));
                        found.len() - 1
                    }
                };
                known.clear();
                known.extend_from_slice(&key);
                *at
            }
        };
        found[at].1 += 1;
        if with_numbers {
            numbers.push(at as u32);
        }
    }
    (found, numbers)
}

/// The number of keys that are remembered, a power of two.
const RECENT: usize = 256;

/// Returns the index of a key among the keys that were seen lately.
fn slot(key: &[u8]) -> usize {
    let mut first = [0; 8];
    first.iter_mut().zip(key).for_each(|(slot, byte)| *slot = *byte);
    let first = u64::from_le_bytes(first);
    let last = key.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
    let mixed =
        (first ^ last.rotate_left(29) ^ key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as usize % RECENT
}

/// Appends bytes that two rows share only if their values are equal.
fn add_key(column: &Gathered, row: usize, out: &mut Vec<u8>) {
    let is_present = column.presence.as_ref().is_none_or(|bits| bit(bits, row));
    out.push(u8::from(is_present));
    if !is_present {
        return;
    }
    match &column.values {
        Values::Bits(data) => out.push(u8::from(bit(data.as_ref(), row))),
        Values::Numbers(data) | Values::EnumIndices(data, _) => {
            let width = data.as_ref().len() / column.len;
            out.extend_from_slice(&data.as_ref()[row * width..(row + 1) * width]);
        }
        Values::Binary64(offsets, bytes) => {
            let offsets = offsets.as_chunks::<8>().0;
            let [start, end] = [row, row + 1].map(|at| u64::from_le_bytes(offsets[at]) as usize);
            out.extend_from_slice(&((end - start) as u64).to_le_bytes());
            out.extend_from_slice(&bytes[start..end]);
        }
        _ => {}
    }
}
