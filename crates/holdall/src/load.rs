//! Loading many components into memory at once: planned in offset order, on several threads, decoded
//! and checked in the same pass.
//!
//! Raw components that lie near each other become one *region*: a stretch of the file read as it is
//! into one buffer, of which each component is a slice. All others (compressed, big-endian) get
//! memory of their own to decode into. Both are cut into jobs of about 2 MiB.

use crate::buffer::Buffer;
use crate::error::{BUFFER_LEN, NO_COMPONENT};
use crate::file::File;
use crate::fill::{Fill, Wanted, fill, place};
use crate::open::{Check, Io};
use crate::pieces::{Pieces, check_digest, checked_algorithm};
use crate::source::Access;
use crate::work::{Work, with_work};
use bytes::Bytes;
use holdall_core::model::Hasher;
use holdall_core::{ByteOrder, Component, Encoding, Index, ReadPlan, Result, Role, TensorInfo};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Components farther apart than this are not read in one region.
const MERGE_GAP: u64 = 64 << 10;
/// Components of at least this many bytes are regions of their own, so that dropping one frees it.
const OWN_REGION: u64 = 8 << 20;
/// The most bytes in a region of several components.
const MAX_REGION: u64 = 64 << 20;
/// From this many bytes on, a load of a file that is not in the system's cache goes past it.
const DIRECT_MIN: u64 = 64 << 20;
/// What direct reads want offsets and addresses to be multiples of.
const PAGE: u64 = 4096;

/// What a caller chooses about a load.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    pub(crate) check: Option<Check>,
    pub(crate) work: Work,
}

impl LoadOptions {
    /// One thread for each core, the digests that the file was opened with, no progress.
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// Checks these digests.
    pub fn with_check(mut self, check: Check) -> LoadOptions {
        self.check = Some(check);
        self
    }
}

with_work!(LoadOptions);

/// Tensors in memory, decoded, little-endian.
pub struct Loaded {
    index: Index,
    tensors: Vec<TensorInfo>,
    /// Where each tensor's components start in `bytes`.
    first: Vec<u32>,
    bytes: Vec<Bytes>,
    /// The place in `tensors` of each position in the file; `None` when they are the same.
    places: Option<HashMap<usize, usize>>,
}

impl Loaded {
    /// How many tensors were loaded.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether none were.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The tensors, in the order asked for.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LoadedTensor<'_>> {
        (0..self.tensors.len()).map(|at| LoadedTensor { loaded: self, at })
    }

    /// The tensor of that name, if it was loaded.
    pub fn get(&self, name: &str) -> Option<LoadedTensor<'_>> {
        let position = self.index.position(name)?;
        let at = match &self.places {
            None => position,
            Some(places) => *places.get(&position)?,
        };
        Some(LoadedTensor { loaded: self, at })
    }
}

/// One tensor of a [`Loaded`].
#[derive(Clone, Copy)]
pub struct LoadedTensor<'a> {
    loaded: &'a Loaded,
    at: usize,
}

impl<'a> LoadedTensor<'a> {
    /// What is known about it.
    pub fn info(&self) -> &'a TensorInfo {
        &self.loaded.tensors[self.at]
    }

    /// The decoded bytes of a component. They stay valid after the [`Loaded`] is gone.
    ///
    /// # Errors
    /// NotFound.
    pub fn bytes(&self, role: &Role) -> Result<&'a Bytes> {
        let at = self.info().components().position(|c| c.role == *role).ok_or_else(|| {
            NO_COMPONENT
                .broken(format!("there is no component `{role}`"))
                .in_tensor(self.info().name())
        })?;
        Ok(&self.loaded.bytes[self.loaded.first[self.at] as usize + at])
    }
}

/// Loads `tensors` whole.
pub(crate) fn load(file: &File, tensors: Vec<TensorInfo>, options: &LoadOptions) -> Result<Loaded> {
    let mut wanted = Vec::new();
    let mut first = Vec::with_capacity(tensors.len());
    for tensor in &tensors {
        first.push(wanted.len() as u32);
        wanted.extend(
            tensor.components().map(|c| Wanted { tensor: tensor.position(), component: c }),
        );
    }
    let bytes = components(file, &wanted, options).map_err(|e| e.in_source(file.name()))?;
    let whole =
        tensors.len() == file.len() && tensors.iter().enumerate().all(|(at, t)| t.position() == at);
    let places =
        (!whole).then(|| tensors.iter().enumerate().map(|(at, t)| (t.position(), at)).collect());
    Ok(Loaded { index: file.index().clone(), tensors, first, bytes, places })
}

/// One component: a view into a map where that is possible, else loaded.
pub(crate) fn component(file: &File, tensor: &TensorInfo, c: &Component) -> Result<Bytes> {
    let plain = c.encoding == Encoding::Raw && c.byte_order == ByteOrder::Little;
    if plain && file.source().access() == Access::Borrowed {
        let bytes = file.source().read_range(c.stored.clone())?;
        if file.check() == Check::All
            && let Some(algorithm) = checked_algorithm(c, Check::All)
        {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(&bytes);
            check_digest(c, hasher.finish())?;
        }
        return Ok(bytes);
    }
    let wanted = [Wanted { tensor: tensor.position(), component: c.clone() }];
    Ok(components(file, &wanted, &LoadOptions::new())?.pop().unwrap_or_default())
}

/// One component into the caller's memory.
pub(crate) fn component_into(
    file: &File,
    tensor: &TensorInfo,
    c: &Component,
    out: &mut [u8],
) -> Result<()> {
    let wrong_len = |len: u64| {
        let found = out.len();
        BUFFER_LEN.broken(format!("the buffer has {found} bytes, the component {len}"))
    };
    let Some(len) = c.decoded_len else {
        let bytes = component(file, tensor, c)?;
        if bytes.len() != out.len() {
            return Err(wrong_len(bytes.len() as u64));
        }
        out.copy_from_slice(&bytes);
        return Ok(());
    };
    if len != out.len() as u64 {
        return Err(wrong_len(len));
    }
    let wanted = [Wanted { tensor: tensor.position(), component: c.clone() }];
    fill(file, &wanted, vec![Fill::Component { wanted: 0, out }], false, &LoadOptions::new())
}

/// Many components into the caller's memory.
pub(crate) fn load_into(
    file: &File,
    mut buffers: Vec<(usize, Component, &mut [u8])>,
    options: &LoadOptions,
) -> Result<()> {
    buffers.sort_by_key(|(_, c, _)| c.stored.start);
    let (mut wanted, mut fills) = (Vec::new(), Vec::new());
    let mut stored = 0u64;
    for (at, (tensor, component, out)) in buffers.into_iter().enumerate() {
        stored = stored.saturating_add(component.stored_len());
        if component.decoded_len != Some(out.len() as u64) {
            let Some(info) = file.index().at(tensor) else { continue };
            // Of unknown length, or wrong: the way for one component says which.
            component_into(file, &info, &component, out)
                .map_err(|e| e.in_tensor(info.name()).in_component(&component.role))?;
            wanted.push(Wanted { tensor, component });
            continue;
        }
        wanted.push(Wanted { tensor, component });
        fills.push(Fill::Component { wanted: at, out });
    }
    options.work.begin(stored);
    fill(file, &wanted, fills, false, options)
}

/// A stretch of the file and the raw components in it.
struct Region {
    file: Range<u64>,
    /// Places in the list of wanted components, in offset order.
    parts: Vec<usize>,
}

/// The decoded bytes of each wanted component, in order.
fn components(file: &File, wanted: &[Wanted], options: &LoadOptions) -> Result<Vec<Bytes>> {
    let Memory { buffers, places } = in_memory(file, wanted, options)?;
    let shared: Vec<Bytes> = buffers.into_iter().map(Buffer::freeze).collect();
    Ok(places.into_iter().map(|place| shared[place.buffer].slice(place.range)).collect())
}

/// Where a component lies in the memory that was taken for a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Number of its buffer.
    pub buffer: usize,
    /// Its bytes in that buffer, half-open.
    pub range: Range<usize>,
}

/// Memory that was filled, and where each wanted component lies in it.
struct Memory {
    buffers: Vec<Buffer>,
    places: Vec<Place>,
}

fn in_memory(file: &File, wanted: &[Wanted], options: &LoadOptions) -> Result<Memory> {
    let total = wanted.iter().fold(0u64, |n, w| n.saturating_add(w.component.stored_len()));
    options.work.begin(total);
    let check = options.check.unwrap_or(file.check());
    // Nothing is read for these, but they may have a digest all the same.
    for w in wanted.iter().filter(|w| w.component.stored.is_empty()) {
        check_nothing(&w.component, check).map_err(|e| place(file, w, e))?;
    }
    let direct = go_direct(file, wanted, total);
    let regions = regions(wanted, direct);
    let (own, unknown, same) = decoded_apart(wanted);
    let memory_of = |r: &Region| {
        if direct { Buffer::mapped(len(&r.file)) } else { Buffer::new(len(&r.file)) }
    };
    let mut buffers = regions.iter().map(memory_of).collect::<Result<Vec<_>>>()?;
    let (slabs, mut slab_memory) = slabs(file, wanted, &own)?;

    let mut fills = Vec::new();
    for (region, memory) in regions.iter().zip(&mut buffers) {
        let (offset, out) = (region.file.start, memory.as_mut());
        fills.push(Fill::Region { offset, parts: &region.parts, out });
    }
    for (slab, memory) in slabs.iter().zip(&mut slab_memory) {
        let mut rest = memory.as_mut();
        let mut at = 0;
        for (wanted, range) in slab {
            let (_, tail) = rest.split_at_mut(range.start - at);
            let (out, tail) = tail.split_at_mut(range.len());
            (rest, at) = (tail, range.end);
            fills.push(Fill::Component { wanted: *wanted, out });
        }
    }
    fill(file, wanted, fills, direct, options)?;

    let mut places: Vec<Option<Place>> = vec![None; wanted.len()];
    for (buffer, region) in regions.iter().enumerate() {
        for &i in &region.parts {
            let stored = &wanted[i].component.stored;
            let from = (stored.start - region.file.start) as usize;
            places[i] = Some(Place { buffer, range: from..from + len(stored) });
        }
    }
    for (slab, memory) in slabs.into_iter().zip(slab_memory) {
        let buffer = buffers.len();
        buffers.push(memory);
        for (i, range) in slab {
            places[i] = Some(Place { buffer, range });
        }
    }
    for i in unknown {
        let memory = Buffer::from(of_unknown_len(file, &wanted[i], check)?);
        places[i] = Some(Place { buffer: buffers.len(), range: 0..memory.as_ref().len() });
        buffers.push(memory);
    }
    for (i, first) in same {
        places[i] = places[first].clone();
    }
    // What has no bytes was read by nobody.
    let nowhere = buffers.len();
    if places.iter().any(Option::is_none) {
        buffers.push(Buffer::new(0)?);
    }
    let places = places
        .into_iter()
        .map(|place| place.unwrap_or(Place { buffer: nowhere, range: 0..0 }))
        .collect();
    Ok(Memory { buffers, places })
}

/// Tensors in memory that belongs to the caller alone and may be written to, decoded, little-endian.
/// Components that have the same bytes in the file are at the same place.
pub struct LoadedMemory {
    /// The tensors, in the order asked for.
    pub tensors: Vec<TensorInfo>,
    /// The memory. Large components have a buffer of their own, small neighbours share one.
    pub buffers: Vec<Buffer>,
    /// Where each tensor's components lie, one tensor after the other, each in the file's own order.
    pub places: Vec<Place>,
}

/// Loads `tensors` whole, as [`load`] does, into memory that is not shared yet.
pub(crate) fn load_memory(
    file: &File,
    tensors: Vec<TensorInfo>,
    options: &LoadOptions,
) -> Result<LoadedMemory> {
    let one = |t: &TensorInfo, component| Wanted { tensor: t.position(), component };
    let wanted: Vec<Wanted> =
        tensors.iter().flat_map(|t| t.components().map(|c| one(t, c))).collect();
    let memory = in_memory(file, &wanted, options).map_err(|e| e.in_source(file.name()))?;
    Ok(LoadedMemory { tensors, buffers: memory.buffers, places: memory.places })
}

/// One component in memory that is not shared yet.
pub(crate) fn component_memory(
    file: &File,
    tensor: &TensorInfo,
    c: &Component,
) -> Result<(Buffer, Range<usize>)> {
    let wanted = [Wanted { tensor: tensor.position(), component: c.clone() }];
    let mut memory = in_memory(file, &wanted, &LoadOptions::new())?;
    match (memory.places.pop(), memory.buffers.pop()) {
        (Some(place), Some(buffer)) => Ok((buffer, place.range)),
        _ => Ok((Buffer::new(0)?, 0..0)),
    }
}

/// Compares the digest of a component without stored bytes.
fn check_nothing(c: &Component, check: Check) -> Result<()> {
    match checked_algorithm(c, check) {
        Some(algorithm) => check_digest(c, Hasher::new(algorithm).finish()),
        None => Ok(()),
    }
}

fn is_plain(c: &Component) -> bool {
    c.encoding == Encoding::Raw && c.byte_order == ByteOrder::Little
}

/// The components that need memory of their own to be decoded into: those whose decoded length is
/// known, those of unknown length, and those that are the same as an earlier one.
fn decoded_apart(wanted: &[Wanted]) -> (Vec<usize>, Vec<usize>, Vec<(usize, usize)>) {
    let (mut known, mut unknown, mut same) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = HashMap::new();
    for (i, w) in wanted.iter().enumerate().filter(|(_, w)| !is_plain(&w.component)) {
        let c = &w.component;
        let bytes = (c.stored.clone(), c.encoding, c.byte_order, c.dtype.width(), c.decoded_len);
        let bytes = (bytes, c.digest.clone());
        match seen.entry(bytes) {
            Entry::Occupied(first) => same.push((i, *first.get())),
            Entry::Vacant(place) => {
                place.insert(i);
                if c.decoded_len.is_some() { known.push(i) } else { unknown.push(i) }
            }
        }
    }
    (known, unknown, same)
}

/// Whether to read past the system's cache.
fn go_direct(file: &File, wanted: &[Wanted], total: u64) -> bool {
    match file.wanted_io() {
        Io::Direct => true,
        Io::Auto if total >= DIRECT_MIN => {
            let start = wanted.iter().map(|w| w.component.stored.start).min().unwrap_or(0);
            let end = wanted.iter().map(|w| w.component.stored.end).max().unwrap_or(0);
            file.source().is_cold(start..end)
        }
        _ => false,
    }
}

/// The stretches of the file to read as they are. Components big enough to be worth freeing on their
/// own are kept apart, neighbours among the others are put together.
fn regions(wanted: &[Wanted], direct: bool) -> Vec<Region> {
    let ranges = wanted
        .iter()
        .map(|w| if is_plain(&w.component) { w.component.stored.clone() } else { 0..0 });
    let align = if direct { PAGE } else { 64 };
    let mut out: Vec<Region> = Vec::new();
    for read in ReadPlan::new(ranges, MERGE_GAP, MAX_REGION).reads() {
        // The first component of a read never joins what came before: the plan saw to that.
        let mut open = false;
        for part in &read.parts {
            let big = part.range.end - part.range.start >= OWN_REGION;
            match out.last_mut() {
                Some(last) if open && part.range.end <= last.file.end => {
                    last.parts.push(part.wanted)
                }
                Some(last) if open && !big && part.range.end - last.file.start <= OWN_REGION => {
                    last.file.end = part.range.end;
                    last.parts.push(part.wanted);
                }
                _ => out.push(Region {
                    file: part.range.start / align * align..part.range.end,
                    parts: vec![part.wanted],
                }),
            }
            open = true;
        }
    }
    if direct {
        out.iter_mut().for_each(|r| r.file.end = r.file.end.next_multiple_of(PAGE));
    }
    out
}

type Slab = Vec<(usize, Range<usize>)>;

/// Memory for components that are decoded: big ones alone, small ones together.
fn slabs(file: &File, wanted: &[Wanted], own: &[usize]) -> Result<(Vec<Slab>, Vec<Buffer>)> {
    let (mut stored, mut decoded) = (0u64, 0u64);
    for c in own.iter().map(|&i| &wanted[i].component).filter(|c| c.encoding != Encoding::Raw) {
        stored = stored.saturating_add(c.stored_len());
        decoded = decoded.saturating_add(c.decoded_len.unwrap_or(0));
    }
    holdall_core::codec::zstd::check_decoded_len(decoded, stored, file.limits())?;
    let mut slabs: Vec<Slab> = Vec::new();
    for &i in own {
        let len = wanted[i].component.decoded_len.unwrap_or(0);
        let last_end = slabs.last().and_then(|s| s.last()).map(|(_, r)| r.end);
        match (last_end, slabs.last_mut()) {
            (Some(end), Some(slab)) if end as u64 + len <= OWN_REGION => {
                let start = end.next_multiple_of(64);
                slab.push((i, start..start + len as usize));
            }
            _ => slabs.push(vec![(i, 0..len as usize)]),
        }
    }
    let end = |s: &Slab| s.last().map_or(0, |(_, r)| r.end);
    let memory = slabs.iter().map(|s| Buffer::new(end(s))).collect::<Result<_>>()?;
    Ok((slabs, memory))
}

/// A compressed component of which nothing tells how long it decodes to.
fn of_unknown_len(file: &File, wanted: &Wanted, check: Check) -> Result<Vec<u8>> {
    let Some(tensor) = file.index().at(wanted.tensor) else { return Ok(Vec::new()) };
    let c = wanted.component.clone();
    let hasher = checked_algorithm(&c, check).map(Hasher::new);
    let mut out = Vec::new();
    for piece in Pieces::hashed(file, &tensor, c, hasher) {
        out.extend_from_slice(&piece?);
    }
    Ok(out)
}

fn len(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}
