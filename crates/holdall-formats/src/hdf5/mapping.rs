//! Virtual datasets: parts of other datasets of the same file.

use super::heaps::global_heap_objects;
use super::reader::{Reader, little, without_sum};
use super::tree::slice;
use super::{EXTERNAL, LAYOUT, VERSION};
use bytes::Bytes;
use holdall_collections::sort;
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::element_count;
use holdall_core::window::Stop;
use holdall_core::wire::cursor::Cursor;

/// The maximum number of runs of elements in a selection.
const MAX_RUNS: u64 = 1 << 20;
/// The maximum number of dimensions in HDF5.
const RANK: u32 = 32;

/// Flags of a mapping of version 1: its file or its path is that of an earlier one, given by number; its file is the one
/// that has the virtual dataset.
const SHARES_FILE: u8 = 1;
const SHARES_PATH: u8 = 2;
const IN_SAME_FILE: u8 = 4;

/// A part of a virtual dataset, and the part of the dataset that it is taken from.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    /// The path of the dataset in the file.
    pub(super) path: String,
    pub(super) from: Selection,
    pub(super) to: Selection,
}

/// The selected elements of a dataset, in row-major order.
#[derive(Debug, Clone)]
pub(super) enum Selection {
    All,
    Nothing,
    /// In each dimension: the start, the distance between blocks, their number, and the elements of each.
    Regular(Vec<[u64; 4]>),
    /// Blocks: the first and the last element of each, in each dimension.
    Blocks(Vec<Vec<[u64; 2]>>),
}

/// Elements of a virtual dataset, and those that they are taken from: the index of the first, and the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) to: u64,
    pub(super) from: u64,
    pub(super) len: u64,
}

/// Returns the mappings in an object of the global heap.
pub(super) fn mappings(
    reader: &Reader<'_>,
    collection: u64,
    number: u32,
) -> Result<Vec<Mapping>, Stop> {
    let found = global_heap_objects(reader, &[collection])?;
    let objects = found.get(&collection);
    let object = u16::try_from(number).ok().and_then(|number| objects?.get(&number));
    let Some(object) = object else {
        return Err(reader
            .broken(collection, "the mappings of a virtual dataset are missing")
            .into());
    };
    reader.verified_len(collection, object)?;
    let body = slice(object, 0..without_sum(object.len() as u64));
    let read = reader.read(collection, "a virtual dataset", &body, |cursor| {
        let (version, count) = (cursor.u8()?, reader.length(cursor)?);
        if version > 1 {
            return Some(Err(VERSION.broken(format!("unsupported mapping version {version}"))));
        }
        let mut out: Vec<Mapping> = Vec::new();
        for _ in 0..count {
            let flags = if version == 1 { cursor.u8()? } else { 0 };
            // All mappings before this one are of the same file.
            let file = match flags {
                _ if flags & IN_SAME_FILE != 0 => ".".to_owned(),
                _ if flags & SHARES_FILE != 0 => {
                    reader.length(cursor)?;
                    ".".to_owned()
                }
                _ => text(cursor)?,
            };
            let path = match flags & SHARES_PATH != 0 {
                true => out.get(usize::try_from(reader.length(cursor)?).ok()?)?.path.clone(),
                false => text(cursor)?,
            };
            match mapping(cursor, &file, path)? {
                Ok(mapping) => out.push(mapping),
                Err(e) => return Some(Err(e)),
            }
        }
        Some(Ok(out))
    })?;
    Ok(read?)
}

fn mapping(cursor: &mut Cursor<'_>, file: &str, path: String) -> Option<Result<Mapping>> {
    if file != "." {
        let message =
            format!("it has elements of `{}` in the file `{}`", path.escaped(), file.escaped());
        return Some(Err(EXTERNAL.broken(message)));
    }
    let (from, to) = (selection(cursor)?, selection(cursor)?);
    Some(match (from, to) {
        (Ok(from), Ok(to)) => Ok(Mapping { path, from, to }),
        (Err(e), _) | (_, Err(e)) => Err(e),
    })
}

fn text(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        match cursor.u8()? {
            0 => return Some(String::from_utf8_lossy(&bytes).into_owned()),
            byte => bytes.push(byte),
        }
    }
}

/// Reads a selection; `None` if it is cut short.
fn selection(cursor: &mut Cursor<'_>) -> Option<Result<Selection>> {
    let (class, version) = (cursor.u32_le()?, cursor.u32_le()?);
    let refused = |what: String| Some(Err(LAYOUT.broken(what)));
    match class {
        0 | 3 => {
            cursor.take(8)?;
            Some(Ok(if class == 0 { Selection::Nothing } else { Selection::All }))
        }
        2 => {
            let (is_regular, width) = match version {
                1 => {
                    cursor.take(8)?;
                    (false, 4)
                }
                2 => {
                    let flags = cursor.u8()?;
                    cursor.take(4)?;
                    (flags & 1 == 1, 8)
                }
                3 => (cursor.u8()? & 1 == 1, cursor.u8()?),
                _ => {
                    return Some(Err(
                        VERSION.broken(format!("unsupported selection version {version}"))
                    ));
                }
            };
            let rank = cursor.u32_le().filter(|rank| *rank <= RANK)?;
            if !matches!(width, 2 | 4 | 8) {
                return None;
            }
            let none =
                u64::MAX.checked_shr(64u32.checked_sub(u32::from(width).checked_mul(8)?)?)?;
            let mut number = || cursor.take(width.into()).and_then(little);
            if is_regular {
                let mut dims = Vec::new();
                for _ in 0..rank {
                    let dim = [number()?, number()?, number()?, number()?];
                    if dim.contains(&none) {
                        return refused("it has a selection without an end".to_owned());
                    }
                    dims.push(dim);
                }
                return Some(Ok(Selection::Regular(dims)));
            }
            let count = number()?;
            let mut blocks = Vec::new();
            for _ in 0..count {
                let firsts = (0..rank).map(|_| number()).collect::<Option<Vec<u64>>>()?;
                let lasts = (0..rank).map(|_| number()).collect::<Option<Vec<u64>>>()?;
                blocks.push(firsts.into_iter().zip(lasts).map(|(a, b)| [a, b]).collect());
            }
            Some(Ok(Selection::Blocks(blocks)))
        }
        1 => refused("it has a selection of points".to_owned()),
        _ => refused(format!("unknown selection type {class}")),
    }
}

impl Selection {
    /// Returns the runs of elements in a dataset of this shape, in row-major order: the index of the first, and the
    /// number. No element is in two of them.
    fn runs(&self, shape: &[u64]) -> Result<Vec<(u64, u64)>> {
        let outside = || LAYOUT.broken(format!("a selection is outside the shape {shape:?}"));
        let mut out: Vec<(u64, u64)> = Vec::new();
        match self {
            Selection::Nothing => {}
            Selection::All => {
                let count = element_count(shape).ok_or_else(outside)?;
                out.extend(Some((0, count)).filter(|(_, count)| *count > 0));
            }
            Selection::Regular(dims) => {
                if dims.len() != shape.len() {
                    return Err(outside());
                }
                let mut each = Vec::new();
                for ([start, stride, count, block], dim) in dims.iter().zip(shape) {
                    // The end of the last block.
                    let last = count.checked_sub(1).and_then(|n| n.checked_mul(*stride));
                    let end = match (last, block) {
                        (None, _) | (_, 0) => return Ok(out),
                        (Some(last), block) => {
                            start.checked_add(last).and_then(|at| at.checked_add(*block))
                        }
                    };
                    if end.is_none_or(|end| end > *dim) || (*count > 1 && stride < block) {
                        return Err(outside());
                    }
                    each.push(match stride == block || *count == 1 {
                        true => vec![(*start, count.saturating_mul(*block))],
                        false if *count > MAX_RUNS => return Err(too_many()),
                        false => {
                            let at = |n: u64| start.saturating_add(n.saturating_mul(*stride));
                            (0..*count).map(|n| (at(n), *block)).collect()
                        }
                    });
                }
                boxes(shape, &each, &mut out)?;
            }
            Selection::Blocks(blocks) => {
                for block in blocks {
                    let fits =
                        |([first, last], dim): (&[u64; 2], &u64)| first <= last && last < dim;
                    if block.len() != shape.len() || !block.iter().zip(shape).all(fits) {
                        return Err(outside());
                    }
                    let one = |[first, last]: &[u64; 2]| {
                        vec![(*first, last.saturating_sub(*first).saturating_add(1))]
                    };
                    let each: Vec<Vec<(u64, u64)>> = block.iter().map(one).collect();
                    boxes(shape, &each, &mut out)?;
                }
                sort(&mut out);
            }
        }
        let next = out.iter().skip(1);
        if out.iter().zip(next).any(|((at, len), (next, _))| at.saturating_add(*len) > *next) {
            return Err(LAYOUT.broken("a selection contains an element twice"));
        }
        Ok(out)
    }
}

/// Adds the runs of all combinations of ranges, which are given for each dimension by their start and their length.
fn boxes(shape: &[u64], each: &[Vec<(u64, u64)>], out: &mut Vec<(u64, u64)>) -> Result<()> {
    let Some((last, rows)) = each.split_last() else {
        out.push((0, 1));
        return Ok(());
    };
    let width = shape.last().copied().unwrap_or(1);
    // The indices of rows: for each dimension before the last, the elements of its ranges.
    let mut starts = vec![0u64];
    for (ranges, dim) in rows.iter().zip(shape) {
        let mut next = Vec::new();
        for start in &starts {
            for (first, len) in ranges {
                if (next.len() as u64).saturating_add(*len) > MAX_RUNS {
                    return Err(too_many());
                }
                let base = start.saturating_mul(*dim).saturating_add(*first);
                next.extend((0..*len).map(|at| base.saturating_add(at)));
            }
        }
        starts = next;
    }
    for start in starts {
        for (first, len) in last {
            let is_full = out.len() as u64 >= MAX_RUNS;
            let at = start.saturating_mul(width).saturating_add(*first);
            match out.last_mut() {
                Some((before, count)) if before.saturating_add(*count) == at => {
                    *count = count.saturating_add(*len);
                }
                _ if is_full => return Err(too_many()),
                _ => out.push((at, *len)),
            }
        }
    }
    Ok(())
}

fn too_many() -> holdall_core::error::Error {
    LAYOUT.broken(format!("a selection has more than {MAX_RUNS} runs of elements"))
}

impl Mapping {
    /// Returns the runs of elements that are taken from a dataset of the shape `from` into one of the shape `to`.
    pub(super) fn runs(&self, from: &[u64], to: &[u64]) -> Result<Vec<Run>> {
        let (from, to) = (self.from.runs(from)?, self.to.runs(to)?);
        let count =
            |runs: &[(u64, u64)]| runs.iter().fold(0u64, |n, (_, len)| n.saturating_add(*len));
        let (selected, filled) = (count(&from), count(&to));
        if selected != filled {
            let message = format!(
                "it takes {selected} elements of `{}` for {filled} of its own",
                self.path.escaped()
            );
            return Err(LAYOUT.broken(message));
        }
        let mut out = Vec::new();
        let (mut from, mut to) = (from.into_iter(), to.into_iter());
        let (mut a, mut b) = (from.next(), to.next());
        while let (Some((first, here)), Some((start, there))) = (a, b) {
            let len = here.min(there);
            out.push(Run { to: start, from: first, len });
            let rest = |at: u64, left: u64| {
                (left > len).then(|| (at.saturating_add(len), left.saturating_sub(len)))
            };
            a = rest(first, here).or_else(|| from.next());
            b = rest(start, there).or_else(|| to.next());
        }
        Ok(out)
    }
}

/// Copies the elements of `width` bytes of a run.
pub(super) fn copy(run: &Run, width: u64, from: &Bytes, to: &mut [u8]) -> Option<()> {
    let range = |at: u64| {
        let start = usize::try_from(at.checked_mul(width)?).ok()?;
        Some(start..start.checked_add(usize::try_from(run.len.checked_mul(width)?).ok()?)?)
    };
    to.get_mut(range(run.to)?)?.copy_from_slice(from.get(range(run.from)?)?);
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_runs_in_row_major_order() {
        let regular = Selection::Regular(vec![[1, 2, 2, 1], [0, 3, 2, 2]]);
        assert_eq!(regular.runs(&[4, 5]).unwrap(), [(5, 2), (8, 2), (15, 2), (18, 2)]);
        let whole = Selection::Regular(vec![[0, 1, 4, 1], [0, 1, 1, 5]]);
        assert_eq!(whole.runs(&[4, 5]).unwrap(), [(0, 20)]);
        let blocks = Selection::Blocks(vec![vec![[1, 1], [0, 4]], vec![[0, 0], [3, 4]]]);
        assert_eq!(blocks.runs(&[2, 5]).unwrap(), [(3, 2), (5, 5)]);
        assert_eq!(Selection::All.runs(&[]).unwrap(), [(0, 1)]);
        assert_eq!(Selection::Nothing.runs(&[3]).unwrap(), []);
        for wrong in [
            Selection::Regular(vec![[2, 1, 1, 2]]),
            Selection::Regular(vec![[0, 1, 2, 2]]),
            Selection::Regular(vec![[1, u64::MAX, 2, 1]]),
            Selection::Blocks(vec![vec![[0, 3]]]),
            Selection::Blocks(vec![vec![[0, 1]], vec![[1, 2]]]),
            Selection::Regular(Vec::new()),
        ] {
            assert_eq!(wrong.runs(&[3]).unwrap_err().code(), "hdf5/layout", "{wrong:?}");
        }
        let mapping = |from, to| Mapping { path: "a".to_owned(), from, to };
        let every = Selection::Regular(vec![[0, 2, 3, 1]]);
        let runs = mapping(Selection::All, every.clone()).runs(&[3], &[6]).unwrap();
        let run = |to, from| Run { to, from, len: 1 };
        assert_eq!(runs, [run(0, 0), run(2, 1), run(4, 2)]);
        assert_eq!(
            mapping(Selection::All, every).runs(&[4], &[6]).unwrap_err().code(),
            "hdf5/layout"
        );
    }
}
