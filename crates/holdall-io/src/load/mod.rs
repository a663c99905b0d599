//! Loading many components into memory at once: planned in offset order, on several threads, decoded
//! and checked in the same pass.
//!
//! Plain components that lie near each other are merged into one *region*: a range of the file that is read unchanged
//! into one buffer, of which each component is a slice. All other components (compressed, big-endian) are decoded
//! into separate memory.

mod methods;

use crate::buffer::Buffer;
use crate::checked::Check;
use crate::error::{BUFFER_LEN, NO_COMPONENT};
use crate::executor::{Executor, FetchTarget, find_tables};
use crate::file::File;
use crate::options::Io;
use crate::with_work;
use crate::work::Work;
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::codec::{Checksums, check_decoded_len};
use holdall_core::read::{
    Access, Extent, FetchPart, FetchSizing, Plan, Purpose, Want, check_digest,
};
use holdall_core::{Component, Encoding, Error, Index, Remedy, Result, Role, TensorInfo};
use std::collections::HashMap;
use std::ops::Range;

/// The greatest distance between two components in bytes at which they are still merged into one region.
const MERGE_GAP: u64 = 64 << 10;
/// The length in bytes from which a component gets a region to itself, so that dropping the component frees its memory.
/// Also the greatest length of a region that has several components.
const OWN_REGION: u64 = 8 << 20;
/// The total length in bytes from which a load bypasses the system's page cache if the file is not in that cache.
const DIRECT_MIN: u64 = 64 << 20;
/// The alignment in bytes that direct reads (`O_DIRECT`) require of offsets and addresses.
const PAGE: u64 = 4096;
/// The alignment in bytes of the start of each region, in the file and in memory, so that elements are aligned.
const LINE: u64 = 64;

/// Options for loading tensors.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    pub(crate) check: Option<Check>,
    pub(crate) work: Work,
}

impl LoadOptions {
    /// Returns the default options: one thread for each core, the file's own [`Check`], no progress reports.
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// Sets which digests are checked, in place of the file's own [`Check`].
    pub fn with_check(mut self, check: Check) -> LoadOptions {
        self.check = Some(check);
        self
    }
}

with_work!(LoadOptions);

/// Loaded tensors: their components in memory, decoded, in little-endian order.
pub struct Loaded {
    index: Index,
    tensors: Vec<TensorInfo>,
    /// For each tensor, the index in `bytes` of its first component.
    first: Vec<u32>,
    bytes: Vec<Bytes>,
    /// The index in `tensors` by position in the file. `None` if all tensors were loaded in file order.
    indices: Option<HashMap<usize, usize>>,
}

impl Loaded {
    /// Creates the result of a load. `bytes` has the components of all tensors, in order.
    pub(crate) fn new(file: &File, tensors: Vec<TensorInfo>, bytes: Vec<Bytes>) -> Loaded {
        let mut first = Vec::with_capacity(tensors.len());
        let mut count = 0;
        for tensor in &tensors {
            first.push(count);
            count += tensor.components().len() as u32;
        }
        let own = || tensors.iter().enumerate();
        let whole = tensors.len() == file.len() && own().all(|(at, t)| t.position() == at);
        let indices = (!whole).then(|| own().map(|(at, t)| (t.position(), at)).collect());
        Loaded { index: file.index().clone(), tensors, first, bytes, indices }
    }

    /// Returns the number of loaded tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Returns `true` if no tensors were loaded.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Returns the loaded tensors, in the order of the request.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LoadedTensor<'_>> {
        (0..self.tensors.len()).map(|at| LoadedTensor { loaded: self, at })
    }

    /// Returns the tensor at index `at` of the request. Using it panics if `at` is out of range.
    pub(crate) fn at(&self, at: usize) -> LoadedTensor<'_> {
        LoadedTensor { loaded: self, at }
    }

    /// Returns the tensor called `name`, or `None` if it was not loaded.
    pub fn get(&self, name: &str) -> Option<LoadedTensor<'_>> {
        let position = self.index.position(name)?;
        let at = match &self.indices {
            None => position,
            Some(indices) => *indices.get(&position)?,
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
    /// Returns the tensor's description.
    pub fn info(&self) -> &'a TensorInfo {
        &self.loaded.tensors[self.at]
    }

    /// Returns the decoded bytes of a component. They stay valid after the [`Loaded`] is dropped.
    ///
    /// # Errors
    /// Returns a `NotFound` error if the tensor has no component in this role.
    pub fn bytes(&self, role: &Role) -> Result<&'a Bytes> {
        let at = self.info().components().position(|c| c.role == *role).ok_or_else(|| {
            NO_COMPONENT
                .broken(format!("there is no component `{role}`"))
                .in_tensor(self.info().name())
        })?;
        Ok(&self.loaded.bytes[self.loaded.first[self.at] as usize + at])
    }
}

/// Returns a want for each component of `tensors`, with the digest that is to be checked.
///
/// # Errors
/// Returns the first fault, if any of the tensors has one.
pub(crate) fn all_of(
    file: &File,
    tensors: &[TensorInfo],
    options: &LoadOptions,
) -> Result<Vec<Want>> {
    if let Some(e) = tensors.iter().find_map(TensorInfo::fault) {
        return Err(if tensors.len() > 1 { e.with_remedy(Remedy::LeaveOut) } else { e });
    }
    let check = options.check.unwrap_or(file.check());
    if check == Check::All {
        for tensor in tensors {
            let mut all = tensor.components();
            all.try_for_each(|c| file.compare_covering(&c))
                .map_err(|e| e.in_tensor(tensor.name()))?;
        }
    }
    let all = tensors.iter().flat_map(|t| t.components().map(|c| (t.position(), c)));
    Ok(all.map(|(at, c)| wanted(at, c, check)).collect())
}

/// Returns the want for a component of the tensor at position `tensor`, with the digest that is to be checked.
pub(crate) fn wanted(tensor: usize, component: Component, check: Check) -> Want {
    let digest = check.algorithm(&component);
    Want::new(tensor as u32, component).with_digests(digest)
}

/// Loads all components of `tensors`.
pub(crate) fn load(file: &File, tensors: Vec<TensorInfo>, options: &LoadOptions) -> Result<Loaded> {
    let bytes = all_of(file, &tensors, options)
        .and_then(|wants| components(file, wants, options))
        .map_err(|e| e.in_source(file.name()))?;
    Ok(Loaded::new(file, tensors, bytes))
}

/// Returns the bytes of a component as a slice of the memory map, without checking a digest. Returns `None` if the
/// component is encoded or its source is not mapped.
pub(crate) fn borrowed(file: &File, c: &Component) -> Option<Result<Bytes>> {
    let is_plain = Want::new(0, c.clone()).is_plain();
    let is_mapped = || file.sources().at(c.stored.source).read_hints().access == Access::Borrowed;
    (is_plain && is_mapped()).then(|| file.sources().read(c.stored))
}

/// Loads one component of the tensor at position `tensor`.
pub(crate) fn component(file: &File, tensor: usize, c: &Component, check: Check) -> Result<Bytes> {
    let wants = vec![wanted(tensor, c.clone(), check)];
    let options = LoadOptions::new().with_check(check);
    Ok(components(file, wants, &options)?.pop().debug_unwrap())
}

/// Decodes one component into the caller's memory.
pub(crate) fn component_into(
    file: &File,
    tensor: usize,
    c: &Component,
    out: &mut [u8],
) -> Result<()> {
    load_into(file, vec![(tensor, c.clone(), out)], &LoadOptions::new())
}

/// Decodes many components into the caller's memory.
pub(crate) fn load_into(
    file: &File,
    mut buffers: Vec<(usize, Component, &mut [u8])>,
    options: &LoadOptions,
) -> Result<()> {
    buffers.sort_by_key(|(_, c, _)| c.stored);
    let total = buffers.iter().fold(0u64, |n, (_, c, _)| n.saturating_add(c.stored_len()));
    options.work.begin(total);
    let check = options.check.unwrap_or(file.check());
    let (mut wants, mut memory) = (Vec::new(), Vec::new());
    for (tensor, component, out) in buffers {
        let want = wanted(tensor, component, check);
        let Some(len) = want.component.decoded_len else {
            let bytes = load_unknown_len(file, &want, options)?;
            if bytes.len() != out.len() {
                return Err(in_context(file, &want, wrong_len(out, bytes.len() as u64)));
            }
            out.copy_from_slice(&bytes);
            continue;
        };
        if len != out.len() as u64 {
            return Err(in_context(file, &want, wrong_len(out, len)));
        }
        wants.push(want);
        memory.push(out);
    }
    let order: Vec<u32> = (0..wants.len() as u32).collect();
    wants.iter_mut().zip(&order).for_each(|(want, slot)| want.group = *slot);
    fill(file, wants, &order, memory, 1, options)
}

#[cold]
fn wrong_len(out: &[u8], len: u64) -> Error {
    let found = out.len();
    BUFFER_LEN.broken(format!("expected a buffer of {len} bytes, found {found}"))
}

/// Loads the wanted components and returns their decoded bytes, in the order of `wants`.
fn components(file: &File, wants: Vec<Want>, options: &LoadOptions) -> Result<Vec<Bytes>> {
    let Memory { buffers, ranges } = in_memory(file, wants, options)?;
    let shared: Vec<Bytes> = buffers.into_iter().map(Buffer::freeze).collect();
    Ok(ranges.into_iter().map(|range| shared[range.buffer].slice(range.range)).collect())
}

/// The location of a component in the memory that a load allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferRange {
    /// The index of the buffer.
    pub buffer: usize,
    /// The component's bytes in that buffer, half-open.
    pub range: Range<usize>,
}

/// Loaded memory, with the location of each wanted component in it.
struct Memory {
    buffers: Vec<Buffer>,
    ranges: Vec<BufferRange>,
}

fn in_memory(file: &File, mut wants: Vec<Want>, options: &LoadOptions) -> Result<Memory> {
    let total = stored_len(&wants);
    options.work.begin(total);
    let direct = go_direct(file, &wants, total);
    let mut layout = Layout::new(&mut wants, direct);
    let slabs = layout.slabs(file, &wants)?;
    let region = |r: &Extent| match direct {
        true => Buffer::mapped(r.len().next_multiple_of(PAGE) as usize),
        false => Buffer::new(r.len() as usize),
    };
    let end = |s: &Slab| s.last().map_or(0, |(_, r)| r.end);
    let regions = layout.regions.iter().map(region);
    let mut buffers =
        regions.chain(slabs.iter().map(|s| Buffer::new(end(s)))).collect::<Result<Vec<_>>>()?;

    // The memory of each region, followed by that of each decoded component.
    let mut memory: Vec<&mut [u8]> = buffers.iter_mut().map(Buffer::as_mut).collect();
    let of_slabs = memory.split_off(layout.regions.len());
    for (slab, mut rest) in slabs.iter().zip(of_slabs) {
        let mut at = 0;
        for (_, range) in slab {
            let (_, tail) = rest.split_at_mut(range.start - at);
            let (own, tail) = tail.split_at_mut(range.len());
            (rest, at) = (tail, range.end);
            memory.push(own);
        }
    }
    let first = layout.regions.len() as u32;
    for (slot, at) in (first..).zip(&layout.decoded) {
        wants[*at as usize].group = slot;
    }
    let order = layout.order();
    let unknown: Vec<Want> = layout.unknown.iter().map(|at| wants[*at as usize].clone()).collect();
    fill(file, wants, &order, memory, if direct { PAGE } else { LINE }, options)?;

    for (slab, number) in slabs.into_iter().zip(layout.regions.len()..) {
        for (at, range) in slab {
            layout.ranges[at as usize] = Some(BufferRange { buffer: number, range });
        }
    }
    let Layout { mut ranges, unknown: at_unknown, same, .. } = layout;
    for (want, at) in unknown.iter().zip(at_unknown) {
        let bytes = Buffer::from(load_unknown_len(file, want, options)?);
        ranges[at as usize] =
            Some(BufferRange { buffer: buffers.len(), range: 0..bytes.as_ref().len() });
        buffers.push(bytes);
    }
    for (at, first) in same {
        ranges[at as usize] = ranges[first as usize].clone();
    }
    // Components without bytes were not read: they get an empty buffer.
    let nowhere = buffers.len();
    if ranges.iter().any(Option::is_none) {
        buffers.push(Buffer::new(0)?);
    }
    let nowhere = || BufferRange { buffer: nowhere, range: 0..0 };
    let ranges = ranges.into_iter().map(|range| range.unwrap_or_else(nowhere)).collect();
    Ok(Memory { buffers, ranges })
}

/// Returns the total number of stored bytes of all components.
fn stored_len(wants: &[Want]) -> u64 {
    wants.iter().fold(0, |n, w| n.saturating_add(w.component.stored_len()))
}

/// The memory layout of a load, computed before anything is read. Components are given as indices into the wants.
struct Layout {
    /// Ranges of sources that are read unchanged.
    regions: Vec<Extent>,
    /// Components in regions, in the order of their bytes. The `group` of each is the index of its region.
    plain: Vec<u32>,
    /// Components that are decoded.
    decoded: Vec<u32>,
    /// Compressed components whose decoded length is not known in advance.
    unknown: Vec<u32>,
    /// Pairs of a component and an earlier component that decodes to the same bytes.
    same: Vec<(u32, u32)>,
    /// The location of each component, `None` until it is known.
    ranges: Vec<Option<BufferRange>>,
}

/// Components that are decoded into one buffer, each with its range in that buffer.
type Slab = Vec<(u32, Range<usize>)>;

impl Layout {
    fn new(wants: &mut [Want], direct: bool) -> Layout {
        let align = if direct { PAGE } else { LINE };
        let mut layout = Layout {
            regions: Vec::new(),
            plain: Vec::with_capacity(wants.len()),
            decoded: Vec::new(),
            unknown: Vec::new(),
            same: Vec::new(),
            ranges: vec![None; wants.len()],
        };
        let mut order: Vec<(Extent, u32)> =
            wants.iter().map(|w| w.component.stored).zip(0..).collect();
        if !order.is_sorted() {
            order.sort_unstable();
        }
        // Components of the same stored bytes come one after the other.
        let mut like: Range<usize> = 0..0;
        let mut region_is_open = false;
        for i in 0..order.len() {
            let (stored, at) = order[i];
            if order[like.clone()].first().is_none_or(|(first, _)| *first != stored) {
                like = i..i;
            }
            let want = &wants[at as usize];
            let mut earlier = order[like.clone()].iter().map(|(_, at)| *at);
            let c = &want.component;
            let twin = earlier.find(|at| wants[*at as usize].component.decodes_equally(c));
            if let Some(first) = twin.filter(|_| !stored.is_empty()) {
                layout.same.push((at, first));
                like.end = i + 1;
                continue;
            }
            let is_shared = !like.is_empty();
            like.end = i + 1;
            if !want.is_plain() {
                match c.decoded_len {
                    Some(_) => layout.decoded.push(at),
                    None => layout.unknown.push(at),
                }
                continue;
            }
            layout.plain.push(at);
            if stored.is_empty() {
                continue;
            }
            // Components with a sequential digest, and those large enough to be freed separately, get their own region.
            let is_big = stored.len() >= OWN_REGION;
            let is_apart = want.digests.is_sequential();
            let joins = layout.regions.last().is_some_and(|last| {
                let near = stored.start <= last.end.saturating_add(MERGE_GAP);
                let room = stored.end.saturating_sub(last.start) <= OWN_REGION;
                let inside = is_shared && stored.end <= last.end;
                let fits = inside || (!is_big && near && room);
                region_is_open && !is_apart && last.source == stored.source && fits
            });
            if !joins {
                // A component with a sequential digest is read from its first byte.
                let align = if is_apart { 1 } else { align };
                layout.regions.push(Extent { start: stored.start / align * align, ..stored });
                region_is_open = !is_apart;
            }
            let buffer = layout.regions.len() - 1;
            let last = &mut layout.regions[buffer];
            last.end = last.end.max(stored.end);
            let from = (stored.start - last.start) as usize;
            let range = from..from + stored.len() as usize;
            layout.ranges[at as usize] = Some(BufferRange { buffer, range });
            wants[at as usize].group = buffer as u32;
        }
        layout
    }

    /// Assigns memory to the decoded components: each large one has a slab to itself, small ones share slabs.
    fn slabs(&self, file: &File, wants: &[Want]) -> Result<Vec<Slab>> {
        let component_at = |at: &u32| &wants[*at as usize].component;
        let (mut stored, mut decoded) = (0u64, 0u64);
        for c in self.decoded.iter().map(component_at).filter(|c| c.encoding != Encoding::Raw) {
            stored = stored.saturating_add(c.stored_len());
            decoded = decoded.saturating_add(c.decoded_len.unwrap_or(0));
        }
        check_decoded_len(decoded, stored, file.limits())?;
        let mut slabs: Vec<Slab> = Vec::new();
        for at in &self.decoded {
            let len = component_at(at).decoded_len.unwrap_or(0);
            let last_end = slabs.last().and_then(|s| s.last()).map(|(_, r)| r.end);
            match (last_end, slabs.last_mut()) {
                (Some(end), Some(slab)) if end as u64 + len <= OWN_REGION => {
                    let start = end.next_multiple_of(64);
                    slab.push((*at, start..start + len as usize));
                }
                _ => slabs.push(vec![(*at, 0..len as usize)]),
            }
        }
        Ok(slabs)
    }

    /// Returns the components to be read: those in regions first, then the decoded ones.
    fn order(&mut self) -> Vec<u32> {
        let mut order = std::mem::take(&mut self.plain);
        order.extend_from_slice(&self.decoded);
        order
    }
}

/// Returns the plan of a load of `tensors`, without reading them.
pub(crate) fn plan(file: &File, tensors: &[TensorInfo], options: &LoadOptions) -> Result<Plan> {
    let mut wants = all_of(file, tensors, options)?;
    let direct = go_direct(file, &wants, stored_len(&wants));
    let order = Layout::new(&mut wants, direct).order();
    planned(file, wants, &order, if direct { PAGE } else { LINE })
}

/// Plans the fetches for the wants whose indices are in `order`. Wants of one group fill one contiguous memory.
fn planned(file: &File, mut wants: Vec<Want>, order: &[u32], align: u64) -> Result<Plan> {
    let mut hints = file.sources().read_hints();
    if hints.is_remote() {
        // For a remote source each request costs a round trip, so small neighbours share one.
        let decoded = wants.iter_mut().filter(|want| !want.is_plain());
        decoded.for_each(|want| want.group = u32::MAX);
    } else {
        find_tables(file.sources(), &mut wants)?;
    }
    hints.gap = hints.gap.max(MERGE_GAP);
    // A fetch longer than the gap always has bytes of a component, so the memory that it fills is known.
    hints.piece = hints.piece.max(hints.gap.saturating_add(1));
    Ok(Plan::for_subset(
        wants,
        order.iter().copied(),
        FetchSizing { hints, align, whole: u64::MAX },
    ))
}

/// Fetches the wants whose indices are in `order` into `memory`. The `group` of each want is the index of its memory.
/// Plain components of one group fill their memory together, from one contiguous range of a source.
fn fill(
    file: &File,
    wants: Vec<Want>,
    order: &[u32],
    mut memory: Vec<&mut [u8]>,
    align: u64,
    options: &LoadOptions,
) -> Result<()> {
    let slots: Vec<u32> = wants.iter().map(|want| want.group).collect();
    let plan = planned(file, wants, order, align)?;
    let in_context = |number: u32, e: Error| in_context(file, &plan.wants()[number as usize], e);
    let mut streamed = None;
    let outs = plan.fetches().iter().map(|fetch| {
        let parts = plan.parts_of(fetch);
        let Some(first) = parts.first() else { return FetchTarget::Nowhere };
        let is_plain = plan.want(first).is_plain();
        let mut take = |part: &FetchPart, len: u64| {
            let slot = &mut memory[slots[part.want as usize] as usize];
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(slot.len());
            let (own, rest) = std::mem::take(slot).split_at_mut(len);
            *slot = rest;
            own
        };
        if first.purpose == Purpose::Next {
            // The memory of the first fetch also receives the bytes of the following ones.
            if streamed.replace(first.want) == Some(first.want) {
                return FetchTarget::Nowhere;
            }
            let all = take(first, u64::MAX);
            return if is_plain { FetchTarget::Stored(all) } else { FetchTarget::Parts(vec![all]) };
        }
        if is_plain {
            let len = fetch.extent.len();
            let len = if align == PAGE { len.next_multiple_of(PAGE) } else { len };
            return FetchTarget::Stored(take(first, len));
        }
        let len = |part: &FetchPart| part.decoded.end - part.decoded.start;
        FetchTarget::Parts(parts.iter().map(|part| take(part, len(part))).collect())
    });
    let outs = outs.collect();
    let vouched = options.check.unwrap_or(file.check()) == Check::Off;
    let sums = Executor::new(file.sources(), file.limits(), &options.work)
        .direct(align == PAGE)
        .with_digests(options.check.unwrap_or(file.check()) != Check::Off)
        .checksums(if vouched { Checksums::Ignore } else { Checksums::Compare })
        .run(&plan, outs, |visit| {
            visit.decoded.map(drop).map_err(|e| in_context(visit.want_index, e))
        })?;
    for (number, digest) in sums.finish() {
        let c = &plan.wants()[number as usize].component;
        check_digest(c, &digest).map_err(|e| in_context(number, e))?;
    }
    Ok(())
}

#[cold]
fn in_context(file: &File, want: &Want, e: Error) -> Error {
    let e = match file.index().at(want.tensor as usize) {
        Some(tensor) => e.in_tensor(tensor.name()),
        None => e,
    };
    want.in_context(e).in_source(file.name())
}

/// Loaded tensors in memory that only the caller has and may write to: decoded, in little-endian order.
/// Components that share their bytes in the file also share them in memory.
pub struct LoadedMemory {
    /// The tensors, in the order of the request.
    pub tensors: Vec<TensorInfo>,
    /// The memory. Each large component has its own buffer, small neighbours share one.
    pub buffers: Vec<Buffer>,
    /// The location of each component: tensor by tensor, each tensor's components in the order of the file.
    pub ranges: Vec<BufferRange>,
}

/// Loads all components of `tensors`, as [`load`] does, into memory that the caller owns exclusively.
pub(crate) fn load_memory(
    file: &File,
    tensors: Vec<TensorInfo>,
    options: &LoadOptions,
) -> Result<LoadedMemory> {
    let memory = all_of(file, &tensors, options)
        .and_then(|wants| in_memory(file, wants, options))
        .map_err(|e| e.in_source(file.name()))?;
    Ok(LoadedMemory { tensors, buffers: memory.buffers, ranges: memory.ranges })
}

/// Loads one component into memory that the caller owns exclusively.
pub(crate) fn component_memory(
    file: &File,
    tensor: usize,
    c: &Component,
) -> Result<(Buffer, Range<usize>)> {
    let wants = vec![wanted(tensor, c.clone(), file.check())];
    let mut memory = in_memory(file, wants, &LoadOptions::new())?;
    match (memory.ranges.pop(), memory.buffers.pop()) {
        (Some(range), Some(buffer)) => Ok((buffer, range.range)),
        _ => Ok((Buffer::new(0)?, 0..0)),
    }
}

/// Returns `true` if the load should bypass the system's page cache.
fn go_direct(file: &File, wanted: &[Want], total: u64) -> bool {
    match file.wanted_io() {
        Io::Direct => true,
        Io::Auto if total >= DIRECT_MIN => {
            let start = wanted.iter().map(|w| w.component.stored.start).min().unwrap_or(0);
            let end = wanted.iter().map(|w| w.component.stored.end).max().unwrap_or(0);
            file.sources().at(0).local().is_some_and(|local| local.is_mostly_uncached(start..end))
        }
        _ => false,
    }
}

/// Decodes a compressed component whose decoded length is not known in advance.
fn load_unknown_len(file: &File, want: &Want, options: &LoadOptions) -> Result<Vec<u8>> {
    let Some(tensor) = file.at(want.tensor as usize) else { return Ok(Vec::new()) };
    let c = want.component.clone();
    let digest = options.check.unwrap_or(file.check()).algorithm(&c);
    let mut out = Vec::new();
    for piece in tensor.component_pieces(c, digest)? {
        out.extend_from_slice(&piece?);
    }
    Ok(out)
}
