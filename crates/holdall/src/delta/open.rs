//! The target of a delta as an open file, which computes elements when they are read.

use super::apply::fitting;
use super::{BASE, TARGET, UNFIT, is_delta, is_difference, read_head};
use crate::repack::attributes_of_elements;
use bytes::{Bytes, BytesMut};
use holdall_core::error::{Error, Escape as _};
use holdall_core::layout::delta::{
    ATTRIBUTES, BLOCK, DeltaBlocks, DeltaType, DeltaView, ElementsDigest, KEY,
};
use holdall_core::{
    ComponentSpec, Digest, Encode, Encoding, Layout, Result, Role, Stored, TensorSpec,
};
use holdall_io::items::unchanged_item;
use holdall_io::source::check_range;
use holdall_io::{
    ByteSource, Check, DensePieces, File, OpenOptions, ReadHints, Tensor, WriteOptions,
};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Opens the target of `delta`, which was made from `base`, without writing it: a file in which unchanged tensors are read from
/// the base, and changed ones computed from the blocks of 2^20 elements that are read. Both files stay open as long as it is.
///
/// Only names, types, shapes and the number of tensors are compared with the base: its digests would take reading all of it. The
/// checksums of frames are compared when they are read. A changed tensor is compared with its digest in the delta once all of it was
/// read. [`apply`](super::apply()) checks everything.
///
/// # Errors
/// Returns `delta/base` if the base has other tensors; `delta/not-a-delta` and other rules of the delta's description.
pub fn open(base: &File, delta: &File) -> Result<File> {
    if is_delta(base) {
        return Err(UNFIT.broken("it is a delta itself").in_source(base.name()));
    }
    let head = read_head(delta)?;
    let wrong = |message: String| BASE.broken(message).in_source(delta.name());
    if let Some(name) = head.removed.iter().find(|name| base.tensor(name).is_err()) {
        let name = name.escaped();
        return Err(wrong(format!("the base lacks `{name}`, which is to be removed")));
    }
    if let Some(name) = head.added.iter().flatten().find(|name| base.tensor(name).is_ok()) {
        return Err(wrong(format!("the base has `{}`, which the delta adds", name.escaped())));
    }
    let format = holdall_formats::by_name("ztensor")
        .ok_or_else(|| UNFIT.broken("this build does not have the format zTensor"))?;
    let mut attributes = delta.attributes().clone();
    attributes.remove(KEY);
    let mut source = TargetSource::new(base, delta);
    let mut encoder = WriteOptions::new().with_format(format).encoder(format)?;
    encoder.check_attributes(&attributes)?;
    source.push(encoder.begin(&attributes, &[])?);
    let mut count = 0u64;
    let removed: HashSet<&str> = head.removed.iter().map(|name| &**name).collect();
    let is_kept = |tensor: &Tensor| !removed.contains(tensor.name());
    for old in base.tensors().filter(is_kept) {
        count += 1;
        match delta.tensor(old.name()) {
            Err(_) => source.add(&mut *encoder, &old)?,
            Ok(new) if is_difference(&new) => source.add_changed(&mut *encoder, &new)?,
            Ok(new) => source.add(&mut *encoder, &new)?,
        }
    }
    for new in delta.tensors().filter(|tensor| base.tensor(tensor.name()).is_err()) {
        count += 1;
        match is_difference(&new) {
            true => source.add_changed(&mut *encoder, &new)?,
            false => source.add(&mut *encoder, &new)?,
        }
    }
    if count != head.tensors {
        let stated = head.tensors;
        return Err(wrong(format!(
            "the target has {stated} tensors, but base and delta give {count}"
        )));
    }
    source.push(encoder.finish(source.len)?);
    let options = OpenOptions::new().with_limits(base.limits().clone()).with_check(base.check());
    options.with_layouts(Arc::clone(base.layouts())).open_source(Arc::new(source), delta.name())
}

/// A zTensor file that is nowhere: its manifest is in memory, and the bytes of its components are read or computed.
struct TargetSource {
    base: File,
    hints: ReadHints,
    /// The parts of the file, in order. Between them are zeros.
    segments: Vec<Segment>,
    len: u64,
}

struct Segment {
    range: Range<u64>,
    content: Content,
}

enum Content {
    Bytes(Bytes),
    /// A component of one of the files, decoded.
    Component(Tensor, Role),
    /// The elements of a tensor, dense.
    Elements(Box<DenseTensor>),
    /// The elements of a tensor of the target.
    Changed(Box<ChangedTensor>),
}

impl TargetSource {
    fn new(base: &File, delta: &File) -> TargetSource {
        let (of_base, of_delta) = (base.sources().read_hints(), delta.sources().read_hints());
        let hints = match (of_base.is_remote(), of_delta.is_remote()) {
            (true, _) => of_base,
            (_, true) => of_delta,
            _ => ReadHints::DISK,
        };
        TargetSource { base: base.clone(), hints, segments: Vec::new(), len: 0 }
    }

    /// Appends bytes.
    fn push(&mut self, bytes: Bytes) {
        let range = self.len..self.len + bytes.len() as u64;
        self.append(range, Content::Bytes(bytes));
    }

    fn append(&mut self, range: Range<u64>, content: Content) {
        self.len = range.end;
        if !range.is_empty() {
            self.segments.push(Segment { range, content });
        }
    }

    /// Adds a tensor that is as it is in one of the files.
    fn add(&mut self, encoder: &mut dyn Encode, tensor: &Tensor) -> Result<()> {
        tensor.sound()?;
        if matches!(tensor.layout(), Layout::Planes(_) | Layout::Strided) {
            let mut spec = dense_spec(tensor)?;
            spec.attributes = attributes_of_elements(tensor);
            let content = Content::Elements(Box::new(DenseTensor::new(tensor.clone())));
            return self.add_all(encoder, spec, [(content, None)]);
        }
        let spec = unchanged_item(tensor)?.spec;
        let contents = tensor.components().map(|c| {
            // The stored bytes are the same.
            let is_raw = c.encoding == Encoding::Raw && c.swap_unit_len() == 1;
            let digest = c.digest.clone().filter(|_| is_raw);
            (Content::Component(tensor.clone(), c.role), digest)
        });
        let contents: Vec<_> = contents.collect();
        self.add_all(encoder, spec, contents)
    }

    /// Adds a tensor of which elements changed.
    fn add_changed(&mut self, encoder: &mut dyn Encode, new: &Tensor) -> Result<()> {
        let changed = ChangedTensor::new(&self.base, new)?;
        let mut spec = dense_spec(&changed.old.tensor)?;
        let own = |key: &str| ATTRIBUTES.contains(&key);
        let attributes = new.attributes().iter().filter(|(key, _)| !own(key));
        spec.attributes = attributes.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        self.add_all(encoder, spec, [(Content::Changed(Box::new(changed)), None)])
    }

    fn add_all(
        &mut self,
        encoder: &mut dyn Encode,
        spec: TensorSpec,
        contents: impl IntoIterator<Item = (Content, Option<Digest>)>,
    ) -> Result<()> {
        let spec = spec.with_plain_types();
        encoder.check_tensor(&spec)?;
        for (at, (content, digest)) in contents.into_iter().enumerate() {
            let before = encoder.preceding_bytes(self.len, &spec, at)?;
            self.push(before);
            let start = encoder.next_offset(self.len, &spec, at)?;
            let len = spec.components.get(at).map_or(0, |c| c.decoded_len);
            let range = start..start.saturating_add(len);
            let can_digest = |digest: &Digest| {
                digest.algorithm().is_some_and(|algorithm| encoder.can_digest(algorithm))
            };
            let digest = digest.filter(can_digest);
            let stored = Stored { range: range.clone(), encoding: Encoding::Raw, digest };
            encoder.component_written(&spec, at, stored)?;
            self.append(range, content);
        }
        Ok(())
    }

    fn bytes(&self, range: &Range<u64>) -> Result<Bytes> {
        check_range(range, self.len)?;
        let first = self.segments.partition_point(|segment| segment.range.end <= range.start);
        let inside = self
            .segments
            .get(first)
            .filter(|segment| segment.range.start <= range.start && range.end <= segment.range.end);
        if let Some(segment) = inside {
            return segment.read(range.clone());
        }
        let mut out = BytesMut::zeroed((range.end - range.start) as usize);
        for segment in self.segments.iter().skip(first) {
            if segment.range.start >= range.end {
                break;
            }
            let own = range.start.max(segment.range.start)..range.end.min(segment.range.end);
            let at = (own.start - range.start) as usize;
            let bytes = segment.read(own)?;
            out[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(out.freeze())
    }
}

impl ByteSource for TargetSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.bytes(range)).collect()
    }

    fn read_hints(&self) -> ReadHints {
        self.hints
    }

    /// The manifest, so that looking for it computes nothing.
    fn prefetched(&self) -> Vec<(u64, Bytes)> {
        let own = |segment: &Segment| match &segment.content {
            Content::Bytes(bytes) => Some((segment.range.start, bytes.clone())),
            _ => None,
        };
        self.segments.iter().filter_map(own).collect()
    }
}

impl Segment {
    /// Reads a range of the file that is in the segment.
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let own = range.start - self.range.start..range.end - self.range.start;
        match &self.content {
            Content::Bytes(bytes) => Ok(bytes.slice(own.start as usize..own.end as usize)),
            Content::Component(tensor, role) => tensor.bytes_range(role, own),
            Content::Elements(tensor) => tensor.bytes(own),
            Content::Changed(tensor) => tensor.bytes(own),
        }
    }
}

/// Returns the description of a tensor's dense form, without attributes.
fn dense_spec(tensor: &Tensor) -> Result<TensorSpec> {
    tensor.check_dense()?;
    let element_type =
        tensor.dense_type().ok_or_else(|| BASE.broken("the tensor has no elements"))?;
    let len = element_type.len_of(tensor.count());
    let mut data = ComponentSpec::new(Role::Data, element_type.dtype, len);
    data.logical_type = element_type.logical_type;
    Ok(TensorSpec {
        name: tensor.name().to_owned(),
        shape: tensor.shape().to_vec(),
        layout: Layout::Dense,
        attributes: Default::default(),
        components: vec![data],
    })
}

/// A tensor of which ranges of elements are read.
struct DenseTensor {
    tensor: Tensor,
    /// Of a layout whose elements are not in the order of the file.
    pieces: Mutex<Option<DensePieces>>,
}

impl DenseTensor {
    fn new(tensor: Tensor) -> DenseTensor {
        DenseTensor { tensor, pieces: Mutex::default() }
    }

    /// Returns a range of the elements' bytes.
    fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        if matches!(self.tensor.layout(), Layout::Dense | Layout::Planes(_)) {
            return self.tensor.bytes_range(&Role::Data, range);
        }
        let mut pieces = lock(&self.pieces);
        let pieces = match &mut *pieces {
            Some(pieces) => pieces,
            none => none.insert(self.tensor.dense_pieces(Check::All)?),
        };
        let width = pieces.element_type().len_of(1).max(1);
        let elements = range.start / width..range.end.div_ceil(width);
        let first = (range.start - elements.start * width) as usize;
        let bytes = pieces.piece(elements)?;
        Ok(bytes.slice(first..first + (range.end - range.start) as usize))
    }
}

/// A tensor of the target that is computed from the base and a difference.
struct ChangedTensor {
    old: DenseTensor,
    new: Tensor,
    width: u64,
    /// Where the blocks of the difference are, once that is read.
    blocks: OnceLock<DeltaBlocks>,
    /// The block that was read last.
    last: Mutex<Option<(u64, Arc<DeltaView>)>>,
    reading: Mutex<Reading>,
}

impl ChangedTensor {
    fn new(base: &File, new: &Tensor) -> Result<ChangedTensor> {
        let placed = |e: Error| e.in_tensor(new.name()).in_source(new.file().name());
        new.sound()?;
        let element_type = DeltaType::of_tensor(new.info()).map_err(placed)?;
        let old = fitting(base, new, &element_type)?;
        let width = element_type.width();
        Ok(ChangedTensor {
            old: DenseTensor::new(old.sound()?.clone()),
            new: new.clone(),
            width,
            blocks: OnceLock::new(),
            last: Mutex::default(),
            reading: Mutex::default(),
        })
    }

    fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        self.computed(range)
            .map_err(|e| e.in_tensor(self.new.name()).in_source(self.new.file().name()))
    }

    fn computed(&self, range: Range<u64>) -> Result<Bytes> {
        let width = self.width;
        let elements = range.start / width..range.end.div_ceil(width);
        let first = (range.start - elements.start * width) as usize;
        let out = self.elements(elements)?.freeze();
        let out = out.slice(first..first + (range.end - range.start) as usize);
        self.compare(range, &out)?;
        Ok(out)
    }

    /// Returns elements of the target.
    fn elements(&self, elements: Range<u64>) -> Result<BytesMut> {
        let width = self.width;
        let old = self.old.bytes(elements.start * width..elements.end * width)?;
        let mut out = BytesMut::from(&old[..]);
        for block in elements.start / BLOCK..elements.end.div_ceil(BLOCK) {
            let first = block * BLOCK;
            let own = elements.start.max(first)..elements.end.min(first + BLOCK);
            let at = |element: u64| ((element - elements.start) * width) as usize;
            let part = &mut out[at(own.start)..at(own.end)];
            self.block(block)?.apply_from(0, own.start - first, part)?;
        }
        Ok(out)
    }

    fn blocks(&self) -> Result<&DeltaBlocks> {
        if let Some(blocks) = self.blocks.get() {
            return Ok(blocks);
        }
        let checked = self.new.checked_with(Check::All);
        let found = DeltaBlocks::from_tensor(self.new.info(), |role| checked.bytes(role))?;
        Ok(self.blocks.get_or_init(|| found))
    }

    fn block(&self, block: u64) -> Result<Arc<DeltaView>> {
        if let Some((number, view)) = &*lock(&self.last)
            && *number == block
        {
            return Ok(Arc::clone(view));
        }
        let read = |role: &Role, range: Range<u64>| self.new.bytes_range(role, range);
        let view = Arc::new(self.blocks()?.block(block, read)?);
        *lock(&self.last) = Some((block, Arc::clone(&view)));
        Ok(view)
    }

    /// Compares the digest of the tensor once all of it was read: while it is read, if that is in order, else by computing it again.
    fn compare(&self, range: Range<u64>, bytes: &[u8]) -> Result<()> {
        let target = self.blocks()?.target();
        let len = self.old.tensor.count().saturating_mul(self.width);
        let mut reading = lock(&self.reading);
        if reading.is_checked {
            return Ok(());
        }
        if range.start == 0 {
            (reading.next, reading.digest) = (0, Some(ElementsDigest::like(target)));
        }
        if range.start == reading.next
            && let Some(digest) = &mut reading.digest
        {
            digest.update(bytes);
            reading.next = range.end;
        }
        reading.cover(range);
        let is_covered = matches!(&*reading.covered, [all] if *all == (0..len));
        if !is_covered {
            return Ok(());
        }
        let in_order = reading.digest.take().filter(|_| reading.next == len);
        let found = match in_order {
            Some(digest) => digest.finish(),
            None => self.digest(target)?,
        };
        if found != target {
            let message = format!("the result has the digest {found}, not {target}");
            return Err(TARGET.broken(message).with_hint("the base may be another model"));
        }
        reading.is_checked = true;
        Ok(())
    }

    /// Returns the digest of the whole tensor of the target.
    fn digest(&self, like: &str) -> Result<String> {
        let mut digest = ElementsDigest::like(like);
        let count = self.old.tensor.count();
        for block in 0..count.div_ceil(BLOCK) {
            digest.update(&self.elements(block * BLOCK..count.min((block + 1) * BLOCK))?);
        }
        Ok(digest.finish())
    }
}

/// What was read of a tensor.
#[derive(Default)]
struct Reading {
    /// The bytes that were read in order from the start, and their digest.
    next: u64,
    digest: Option<ElementsDigest>,
    /// The ranges that were read, in order, none of which touch.
    covered: Vec<Range<u64>>,
    /// Whether the digest of the whole tensor was compared.
    is_checked: bool,
}

impl Reading {
    /// The most ranges that are remembered. A tensor that is read in more pieces, in no order, is not compared.
    const MOST: usize = 4096;

    /// Adds a range.
    fn cover(&mut self, mut range: Range<u64>) {
        let first = self.covered.partition_point(|own| own.end < range.start);
        let last = self.covered.partition_point(|own| own.start <= range.end);
        if let (Some(a), Some(b)) = (self.covered.get(first), self.covered[..last].last())
            && first < last
        {
            range = a.start.min(range.start)..b.end.max(range.end);
        }
        if first < last || self.covered.len() < Self::MOST {
            self.covered.splice(first..last, [range]);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
