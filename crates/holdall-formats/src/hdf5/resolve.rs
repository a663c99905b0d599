//! Resolves datasets whose data depends on other objects of the file: virtual datasets, which are made of other
//! datasets, and datasets whose values have a variable length or are references.

use super::dataset::{Data, Dataset, Virtual};
use super::datatype::{ElementKind, Elements};
use super::mapping::{Run, copy};
use super::reader::Reader;
use super::variable_length::{Conversion, GlobalHeaps, Paths, Records, Room};
use super::{LAYOUT, LOOP};
use bytes::Bytes;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::{Value, element_count};
use holdall_core::read::{Chunk, Chunked, EdgeChunks, Extent, Grid};
use holdall_core::window::Stop;

/// The maximum number of virtual datasets that are made of one another.
const NESTED: usize = 16;
/// The maximum number of runs of a virtual dataset that are read where they are stored.
const MAX_CHUNKS: usize = 1 << 16;

/// Resolves the datasets of a file.
pub(super) struct DatasetResolver<'a, 'w> {
    pub(super) reader: &'a Reader<'w>,
    pub(super) datasets: &'a [Dataset],
    /// Returns the index of the dataset at a path.
    pub(super) find: &'a dyn Fn(&str) -> Result<Option<usize>>,
    pub(super) paths: &'a Paths,
    pub(super) room: Room,
}

/// The data of a dataset, and the schema of its records if they have values of variable length.
pub(super) type ResolvedData = (Data, Option<Value>);

/// Returns `true` if the data or the schema of a dataset depends on other datasets, or on the global heaps.
pub(super) fn needs_resolving(dataset: &Dataset) -> bool {
    match &dataset.data {
        Ok((Elements { what: ElementKind::Varying, .. }, _)) => true,
        Ok((_, data)) => matches!(data, Data::Virtual(_)),
        Err(_) => false,
    }
}

impl DatasetResolver<'_, '_> {
    /// Returns the data of the dataset with this index. See [`needs_resolving`].
    pub(super) fn resolve(&mut self, number: usize) -> Result<ResolvedData, Stop> {
        let datasets = self.datasets;
        let Some(dataset) = datasets.get(number) else { return Ok((Data::Contiguous(0..0), None)) };
        let is_varying =
            matches!(&dataset.data, Ok((Elements { what: ElementKind::Varying, .. }, _)));
        if !is_varying
            && let Ok((_, Data::Virtual(layout))) = &dataset.data
            && let Some(array) = self.in_place(dataset, layout)?
        {
            return Ok((Data::Chunked(Box::new(array)), None));
        }
        let bytes = self.stored(number, &mut Vec::new())?;
        if !is_varying {
            let records = match &dataset.data {
                Ok((_, Data::Virtual(layout))) if let Some(members) = &layout.members => {
                    members.decode(&bytes)?
                }
                _ => bytes.to_vec(),
            };
            return Ok((Data::InIndex(Box::new(Records { records, ..Records::default() })), None));
        }
        let datatype = dataset.datatype.innermost();
        let mut heaps = GlobalHeaps::default();
        heaps.load(self.reader, &[(datatype, &bytes)])?;
        let conversion = Conversion::new(self.reader, &heaps, self.paths, &mut self.room);
        let records = conversion.run(datatype, &bytes)?;
        let kind = Value::Text(datatype.field("", &records.bytes)?.schema());
        Ok((Data::InIndex(Box::new(records)), Some(kind)))
    }

    /// Returns all bytes of a dataset as they are stored, with the filters undone. `above` are the virtual datasets
    /// that need it.
    fn stored(&mut self, number: usize, above: &mut Vec<usize>) -> Result<Bytes, Stop> {
        let datasets = self.datasets;
        let Some(dataset) = datasets.get(number) else { return Ok(Bytes::new()) };
        let window = self.reader.window;
        match &dataset.data {
            Err(e) => Err(e.clone().into()),
            Ok((_, Data::Contiguous(range))) => {
                self.room.take(range.end.saturating_sub(range.start))?;
                window.bytes(range.clone())
            }
            Ok((_, Data::Chunked(array))) => {
                self.room.take(array.len())?;
                window.all(array.chunks().iter().map(|chunk| chunk.stored.range()))?;
                let mut out = vec![0; usize::try_from(array.len()).unwrap_or(usize::MAX)];
                array.clear(0, &mut out);
                for chunk in array.chunks() {
                    let decoded = array.decode(chunk, &window.bytes(chunk.stored.range())?)?;
                    array.copy_chunk(chunk, &decoded, 0, 0, &mut out);
                }
                Ok(out.into())
            }
            Ok((_, Data::Virtual(layout))) => {
                if above.len() >= NESTED || above.contains(&number) {
                    return Err(LOOP.broken("the virtual dataset refers to itself").into());
                }
                above.push(number);
                let found = self.assembled(dataset, layout, above);
                above.pop();
                found
            }
            Ok((_, Data::InIndex(_))) => Ok(Bytes::new()),
        }
    }

    /// Returns the bytes of a virtual dataset.
    fn assembled(
        &mut self,
        dataset: &Dataset,
        layout: &Virtual,
        above: &mut Vec<usize>,
    ) -> Result<Bytes, Stop> {
        self.room.take(layout.len)?;
        let width = u64::from(dataset.datatype.size);
        let len = usize::try_from(layout.len).unwrap_or(usize::MAX);
        let mut out: Vec<u8> = layout.fill.iter().copied().cycle().take(len).collect();
        let mut sources: Vec<(usize, Bytes)> = Vec::new();
        for mapping in &layout.mappings {
            let (number, runs) =
                self.runs(dataset, &mapping.path, |from| mapping.runs(from, &dataset.outer))?;
            let bytes = match sources.iter().find(|(known, _)| *known == number) {
                Some((_, bytes)) => Bytes::clone(bytes),
                None => {
                    let bytes = self.stored(number, above)?;
                    sources.push((number, bytes.clone()));
                    bytes
                }
            };
            for run in runs {
                let outside = || self.reader.broken(0, "a virtual dataset has too few bytes");
                copy(&run, width, &bytes, &mut out).ok_or_else(outside)?;
            }
        }
        Ok(out.into())
    }

    /// Returns a virtual dataset as an array in chunks, if all its elements are in the file as they are.
    fn in_place(&self, dataset: &Dataset, layout: &Virtual) -> Result<Option<Chunked>> {
        let count = element_count(&dataset.outer).unwrap_or(u64::MAX);
        if layout.members.is_some() || layout.len == 0 {
            return Ok(None);
        }
        let width = u64::from(dataset.datatype.size);
        let mut all = Vec::new();
        for mapping in &layout.mappings {
            let (number, runs) =
                self.runs(dataset, &mapping.path, |from| mapping.runs(from, &dataset.outer))?;
            let source = self.datasets.get(number).and_then(|other| other.data.as_ref().ok());
            let Some((_, Data::Contiguous(place))) = source else { return Ok(None) };
            if all.len().saturating_add(runs.len()) > MAX_CHUNKS {
                return Ok(None);
            }
            all.extend(runs.into_iter().map(|run| (run, place.clone())));
        }
        holdall_collections::sort_by(&mut all, |(a, _), (b, _)| a.to.cmp(&b.to));
        let end = |run: &Run| run.to.saturating_add(run.len);
        if all.iter().zip(all.iter().skip(1)).any(|((a, _), (b, _))| end(a) > b.to) {
            return Ok(None);
        }
        // The starts of all chunks, and the chunks that are stored.
        let (mut starts, mut chunks, mut at) = (Vec::new(), Vec::new(), 0u64);
        for (run, place) in &all {
            if run.to > at {
                starts.push(at);
            }
            let from = run.from.saturating_mul(width);
            let upto = from.saturating_add(run.len.saturating_mul(width));
            let stored = Extent::from(place.clone()).part(from..upto);
            chunks.push(Chunk { number: starts.len() as u64, stored, skipped_steps: 0 });
            starts.push(run.to);
            at = end(run);
        }
        if at < count {
            starts.push(at);
        }
        let Some(grid) = Grid::cut(&[count], vec![starts], width) else { return Ok(None) };
        Chunked::new(grid, layout.fill.clone(), Vec::new(), EdgeChunks::Filtered, chunks).map(Some)
    }

    /// Returns the number of the dataset at a path, which must have the same type as `dataset`, and what `runs` returns
    /// for its dimensions.
    fn runs(
        &self,
        dataset: &Dataset,
        path: &str,
        runs: impl FnOnce(&[u64]) -> Result<Vec<Run>>,
    ) -> Result<(usize, Vec<Run>)> {
        let wrong = |what: &str| -> Error {
            LAYOUT.broken(format!("it has elements of `{}`, which {what}", path.escaped()))
        };
        let number = (self.find)(path)?.ok_or_else(|| wrong("is not a dataset"))?;
        let source = self.datasets.get(number).ok_or_else(|| wrong("is not a dataset"))?;
        if source.datatype != dataset.datatype {
            return Err(wrong("has another type"));
        }
        Ok((number, runs(&source.outer)?))
    }
}
