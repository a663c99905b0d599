//! Writing a file tensor by tensor, in bounded memory.

mod finished;
mod frames;
mod options;
mod sampled;
mod whole;

pub use finished::Finished;
pub use options::WriteOptions;

use crate::compress::{Buffers, Compression, Compressor};
use crate::error::{DECLARE, FAILED, NOT_WRITTEN, WRITE_LEN};
use crate::sink::{FileSink, Sink, StreamSink};
use holdall_core::error::Escape as _;
use holdall_core::ledger::Record;
use holdall_core::model::Hasher;
use holdall_core::{
    Algorithm, ComponentRef, Digest, Encode, Encoding, Error, Result, Role, Stored, TensorSpec,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use whole::WholeTensor;

/// The number of bytes after which cancellation is checked during a write.
const STRETCH: u64 = 64 << 20;
/// The least number of bytes of one write for which the digest is computed on a second thread.
const BESIDE_MIN: usize = 4 << 20;

/// Writes a file tensor by tensor: [`Writer::tensor`] begins a tensor, [`Writer::write`] takes its bytes in chunks of
/// any length, one component after the other, and [`Writer::finish`] publishes the file. Memory use is bounded: a few
/// chunks (raw) or a few frames for each thread (compressed), plus the manifest.
///
/// ```no_run
/// # fn main() -> holdall_core::Result<()> {
/// use holdall_core::{DType, TensorSpec};
/// use holdall_io::{WriteOptions, Writer};
/// let mut writer = Writer::create("out.zt", &WriteOptions::new())?;
/// writer.tensor(TensorSpec::dense("w", DType::F32, [2, 2]))?;
/// for x in [1f32, 2.0, 3.0, 4.0] {
///     writer.write(&x.to_le_bytes())?;
/// }
/// writer.finish()
/// # }
/// ```
pub struct Writer<S: Sink> {
    sink: S,
    encoder: Box<dyn Encode>,
    options: WriteOptions,
    digest: Option<Algorithm>,
    begun: bool,
    /// Whether a write has failed; the file can then no longer be finished.
    failed: bool,
    /// The number of threads that may be used. `None` until first needed.
    threads: Option<usize>,
    /// The component that receives the next bytes.
    current: Option<Current>,
    compressor: Option<Compressor>,
    slots: VecDeque<Slot>,
    /// The compressed component whose frames are being appended to the sink.
    arriving: Option<Arriving>,
    spare: Vec<Buffers>,
    /// The stored location of each written component, for components that share it. `None` if the declaration has no
    /// shared components.
    placed: Option<HashMap<ComponentRef, Stored>>,
    /// The record of everything given to the encoder.
    record: Record,
    /// The tensor that is collected before it is written in planes.
    whole: Option<WholeTensor>,
    /// The names of the tensors that were written in planes.
    in_planes: HashSet<String>,
}

struct Current {
    tensor: Arc<TensorSpec>,
    component: usize,
    left: u64,
    as_is: Option<AsIs>,
    to: To,
}

/// Describes bytes that the caller has already encoded.
pub(crate) struct AsIs {
    pub(crate) encoding: Encoding,
    pub(crate) stored_len: u64,
    /// The digest to store, `Some(None)` to store no digest, `None` to compute it.
    pub(crate) digest: Option<Option<Digest>>,
}

enum To {
    /// Collects the first bytes, by which the encoding is chosen.
    Sampled(Vec<u8>),
    /// Appends directly to the sink. `start` is the offset of the component, `hasher` its digest so far.
    Sink { start: u64, hasher: Option<Hasher> },
    /// Collects all bytes, which the encoder then writes in the file's own syntax (such as JSON values).
    Words(Vec<u8>),
    /// Collects a frame, which is then compressed. `frame_len` is the length of this frame and of those
    /// after it; `hasher` is the digest so far if the format's digests cover decoded bytes.
    Frames {
        compression: Compression,
        buffers: Buffers,
        frame_len: u64,
        first: bool,
        hasher: Option<Hasher>,
    },
}

/// A frame being compressed.
struct Slot {
    tensor: Arc<TensorSpec>,
    component: usize,
    compression: Compression,
    first: bool,
    /// For the last frame: `Some`, with the digest of all decoded bytes if the format's digests cover those.
    last: Option<Option<Digest>>,
}

struct Arriving {
    start: u64,
    frames: Vec<(u64, u64)>,
    hasher: Option<Hasher>,
}

impl Writer<FileSink> {
    /// Starts a file that appears at `path` when [`Writer::finish`] succeeds.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the file exists and may not be replaced, or if the format is unknown; an `Io` error.
    pub fn create(path: impl AsRef<Path>, options: &WriteOptions) -> Result<Writer<FileSink>> {
        let path = path.as_ref();
        let encoder = options.encoder(options.format_for(path)?)?;
        let sink = FileSink::create(path, options.overwrite, options.durability)?;
        Ok(Writer::new(sink, encoder, options))
    }
}

impl<W: Write> Writer<StreamSink<W>> {
    /// Starts a file that is written to `to` as its tensors arrive. The options must have a format.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the options have no format.
    pub fn stream(to: W, options: &WriteOptions) -> Result<Writer<StreamSink<W>>> {
        let encoder = options.encoder(options.format_for(Path::new("-"))?)?;
        Ok(Writer::new(StreamSink::new(to), encoder, options))
    }
}

impl<S: Sink> Writer<S> {
    /// Creates a writer that writes the output of `encoder` to `sink`.
    pub fn new(sink: S, encoder: Box<dyn Encode>, options: &WriteOptions) -> Writer<S> {
        Writer {
            sink,
            digest: options.digest.algorithm(&*encoder),
            encoder,
            options: options.clone(),
            begun: false,
            failed: false,
            threads: None,
            current: None,
            compressor: None,
            slots: VecDeque::new(),
            arriving: None,
            spare: Vec::new(),
            placed: Some(HashMap::new()),
            record: Record::new(Some(options.attributes.clone())),
            whole: None,
            in_planes: HashSet::new(),
        }
    }

    /// Returns the order in which the format's own libraries write these tensors, as indices into `tensors`:
    /// safetensors sorts by element width, widest first, then by name. Declaring and writing the tensors in this order
    /// makes the file independent of the order in which they came.
    #[must_use]
    pub fn order(&self, tensors: &[TensorSpec]) -> Vec<usize> {
        self.encoder.order(tensors)
    }

    /// Declares all tensors, in the order in which they will be written. Required by formats whose header comes first.
    /// For other formats it is optional: it reports early what the format cannot hold, and reserves space.
    ///
    /// # Errors
    /// Returns an `Unsupported` error if the format cannot hold a tensor or an attribute; nothing has been written then. an `Io` error.
    pub fn declare(&mut self, tensors: &[TensorSpec]) -> Result<()> {
        let tensors: Vec<_> = tensors.iter().cloned().map(TensorSpec::with_plain_types).collect();
        let tensors = &tensors[..];
        self.encoder.check_attributes(&self.options.attributes)?;
        tensors.iter().try_for_each(|t| self.encoder.check_tensor(t))?;
        if !tensors.iter().flat_map(|t| &t.components).any(|c| c.shares.is_some()) {
            self.placed = None;
        }
        self.begin(tensors)
    }

    fn begin(&mut self, declared: &[TensorSpec]) -> Result<()> {
        let head = self.encoder.begin(&self.options.attributes, declared)?;
        self.begun = true;
        let mut total = head.len() as u64;
        for tensor in declared {
            for (at, c) in tensor.components.iter().enumerate() {
                if c.shares.is_none() && !self.encoder.stores_in_header(tensor, at) {
                    total = total.saturating_add(c.decoded_len);
                }
            }
        }
        let reserved = match self.options.encoding {
            Encoding::Raw => self.sink.reserve(total),
            _ => {
                self.sink.expect(total / 2);
                Ok(())
            }
        };
        let done = reserved.and_then(|()| self.sink.append(&head));
        self.noting(done)
    }

    /// Records a failed write: the file is incomplete from then on.
    fn noting<T>(&mut self, done: Result<T>) -> Result<T> {
        self.failed |= done.is_err();
        done
    }

    /// Begins a tensor. [`Writer::write`] then takes its bytes.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the previous tensor lacks bytes; an `Unsupported` error if the format cannot hold the tensor.
    pub fn tensor(&mut self, tensor: TensorSpec) -> Result<()> {
        self.ready()?;
        match self.collect(tensor.with_plain_types())? {
            Some(tensor) => self.begin_tensor(tensor),
            None => Ok(()),
        }
    }

    /// Begins a tensor in the layout that it has, also if the options ask for planes.
    pub(crate) fn tensor_in_layout(&mut self, tensor: TensorSpec) -> Result<()> {
        self.ready()?;
        self.begin_tensor(tensor.with_plain_types())
    }

    /// Checks that a tensor can begin, and begins the file with the first one.
    fn ready(&mut self) -> Result<()> {
        self.check_complete()?;
        if !self.begun {
            if self.encoder.header_first() {
                return Err(DECLARE.broken("the tensors of this format were not declared"));
            }
            self.encoder.check_attributes(&self.options.attributes)?;
            self.begin(&[])?;
        }
        Ok(())
    }

    /// Begins a tensor in the layout that it has.
    fn begin_tensor(&mut self, tensor: TensorSpec) -> Result<()> {
        self.encoder.check_tensor(&tensor)?;
        let tensor = Arc::new(tensor);
        self.record.add(Arc::clone(&tensor));
        let begun = self.next_component(tensor, 0);
        self.noting(begun)
    }

    /// Begins the next component that takes bytes, skipping shared and empty ones.
    fn next_component(&mut self, tensor: Arc<TensorSpec>, from: usize) -> Result<()> {
        for component in from..tensor.components.len() {
            let Some(spec) = tensor.components.get(component) else { break };
            if let Some(owner) = &spec.shares {
                self.share(owner, &tensor, component)?;
                continue;
            }
            let to = match self.options.encoding {
                _ if self.encoder.stores_in_header(&tensor, component) => To::Words(Vec::new()),
                _ if self.options.smallest => To::Sampled(Vec::new()),
                Encoding::Raw => self.straight(&tensor, component)?,
                encoding => {
                    let usual = self.usual(encoding);
                    self.frames(usual, spec.dtype.width(), spec.decoded_len)
                }
            };
            let current = Current {
                tensor: Arc::clone(&tensor),
                component,
                left: spec.decoded_len,
                as_is: None,
                to,
            };
            if spec.decoded_len > 0 {
                self.current = Some(current);
                return Ok(());
            }
            self.complete(current)?;
        }
        Ok(())
    }

    fn share(
        &mut self,
        owner: &ComponentRef,
        tensor: &Arc<TensorSpec>,
        component: usize,
    ) -> Result<()> {
        self.drain(0)?;
        let Some(stored) = self.placed.as_ref().and_then(|placed| placed.get(owner).cloned())
        else {
            let name = owner.tensor.escaped();
            return Err(NOT_WRITTEN
                .broken(format!(
                    "shares `{}` of tensor `{name}`, which was not written",
                    owner.role
                ))
                .in_tensor(tensor.name.as_str()));
        };
        self.component_written(tensor, component, stored)
    }

    /// Prepares to append the bytes of a component to the sink.
    fn straight(&mut self, tensor: &TensorSpec, component: usize) -> Result<To> {
        self.drain(0)?;
        let start = self.next_offset(tensor, component)?;
        Ok(To::Sink { start, hasher: self.digest.map(Hasher::new) })
    }

    fn next_offset(&mut self, tensor: &TensorSpec, component: usize) -> Result<u64> {
        static ZEROS: [u8; 4096] = [0; 4096];
        let before = self.encoder.preceding_bytes(self.sink.len(), tensor, component)?;
        if !before.is_empty() {
            self.sink.append(&before)?;
        }
        let start = self.encoder.next_offset(self.sink.len(), tensor, component)?;
        while self.sink.len() < start {
            let gap = (start - self.sink.len()).min(ZEROS.len() as u64);
            self.sink.append(&ZEROS[..gap as usize])?;
        }
        Ok(start)
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()> {
        if let (Some(placed), Some(spec)) = (&mut self.placed, tensor.components.get(component)) {
            let name = ComponentRef { tensor: tensor.name.clone(), role: spec.role.clone() };
            placed.insert(name, stored.clone());
        }
        self.record.store(tensor, component, &stored);
        self.encoder.component_written(tensor, component, stored)
    }

    /// Returns `true` if the next bytes are written in the file's own syntax, and so must be decoded.
    pub(crate) fn stores_in_header(&self) -> bool {
        matches!(&self.current, Some(Current { to: To::Words(_), .. }))
    }

    /// Returns `true` if the next bytes are appended to the file unchanged.
    pub(crate) fn fills(&self) -> bool {
        matches!(&self.current, Some(Current { to: To::Sink { .. }, .. }))
    }

    /// Reads all bytes of the current component directly into the sink's memory: `read` fills each buffer that it is
    /// called with. Only for components for which [`Writer::fills`] returns `true`.
    pub(crate) fn fill(&mut self, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let filled = self.fill_all(read);
        self.noting(filled)
    }

    fn fill_all(&mut self, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let To::Sink { hasher, .. } = &mut current.to else {
            self.current = Some(current);
            return Ok(());
        };
        let work = &self.options.work;
        self.sink.fill(current.left, &mut |memory| {
            work.check()?;
            read(memory)?;
            if let Some(hasher) = hasher {
                hasher.update(memory);
            }
            Ok(())
        })?;
        current.left = 0;
        let (tensor, next) = (Arc::clone(&current.tensor), current.component + 1);
        self.complete(current)?;
        self.next_component(tensor, next)
    }

    /// Returns `true` if the format can store components in this encoding.
    pub(crate) fn can_encode(&self, encoding: Encoding) -> bool {
        self.encoder.can_encode(encoding)
    }

    /// Returns `true` if compressed components from other writers can be copied without re-encoding them.
    pub(crate) fn takes_frames(&self) -> bool {
        !self.encoder.needs_seek_table()
    }

    /// Declares that the bytes of the current component are already encoded. The caller guarantees that they decode to
    /// the declared length.
    pub(crate) fn as_is(&mut self, as_is: AsIs) -> Result<()> {
        let taken = self.take_as_is(as_is);
        self.noting(taken)
    }

    fn take_as_is(&mut self, as_is: AsIs) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        if matches!(current.to, To::Frames { .. } | To::Sampled(_)) {
            current.to = self.straight_instead(current.to, &current.tensor, current.component)?;
        }
        if let (To::Sink { hasher, .. }, Some(_)) = (&mut current.to, &as_is.digest) {
            *hasher = None;
        }
        current.left = as_is.stored_len;
        current.as_is = Some(as_is);
        if current.left == 0 {
            return self.complete(current);
        }
        self.current = Some(current);
        Ok(())
    }

    /// Appends bytes of the current tensor: decoded, little-endian, one component after the other. After an error,
    /// including cancellation, the file can no longer be finished.
    ///
    /// # Errors
    /// Returns a `Misuse` error if there are more bytes than were declared; an `Io` error.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.write_all(bytes);
        self.noting(written)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        if let Some(whole) = &mut self.whole {
            let now = whole.left().min(bytes.len() as u64) as usize;
            let (now, later) = bytes.split_at(now);
            whole.bytes.extend_from_slice(now);
            if whole.is_complete()
                && let Some(whole) = self.whole.take()
            {
                self.write_whole(whole)?;
            }
            bytes = later;
        }
        while !bytes.is_empty() {
            let Some(mut current) = self.current.take() else {
                let more = bytes.len();
                return Err(WRITE_LEN.broken(format!("{more} more bytes than were declared")));
            };
            self.options.work.check()?;
            if let To::Sampled(first) = &mut current.to {
                let first = std::mem::take(first);
                bytes = self.sample(current, first, bytes)?;
                continue;
            }
            let now = current.left.min(bytes.len() as u64).min(STRETCH) as usize;
            let (now, later) = bytes.split_at(now);
            let count = self.take_bytes(&mut current, now)?;
            bytes = if count == now.len() { later } else { &bytes[count..] };
            current.left -= count as u64;
            if current.left > 0 {
                self.current = Some(current);
                continue;
            }
            let (tensor, next) = (Arc::clone(&current.tensor), current.component + 1);
            self.complete(current)?;
            self.next_component(tensor, next)?;
        }
        Ok(())
    }

    /// Appends bytes to a component, and returns how many were taken.
    fn take_bytes(&mut self, current: &mut Current, bytes: &[u8]) -> Result<usize> {
        match &mut current.to {
            To::Words(all) | To::Sampled(all) => {
                all.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            To::Sink { hasher: None, .. } => {
                self.sink.append(bytes)?;
                Ok(bytes.len())
            }
            To::Sink { hasher: Some(hasher), .. } => {
                if bytes.len() >= BESIDE_MIN
                    && *self.threads.get_or_insert_with(|| self.options.work.threads()) > 1
                {
                    append_summed(&mut self.sink, hasher, bytes)?;
                    return Ok(bytes.len());
                }
                // In chunks small enough to still be in the processor's cache when the sink copies them.
                for piece in bytes.chunks(512 << 10) {
                    hasher.update(piece);
                    self.sink.append(piece)?;
                }
                Ok(bytes.len())
            }
            To::Frames { compression, buffers, frame_len, first, hasher } => {
                let filled = buffers.decoded.len() as u64;
                let room = (*frame_len - filled).min(bytes.len() as u64) as usize;
                buffers.decoded.extend_from_slice(&bytes[..room]);
                if let Some(hasher) = hasher {
                    hasher.update(&bytes[..room]);
                }
                if filled + room as u64 == *frame_len {
                    let left = current.left - room as u64;
                    let full = std::mem::take(buffers);
                    let width = full.width;
                    let slot = Slot {
                        tensor: Arc::clone(&current.tensor),
                        component: current.component,
                        compression: *compression,
                        first: std::mem::take(first),
                        last: (left == 0).then(|| hasher.take().map(Hasher::finish)),
                    };
                    *frame_len = (*frame_len).min(left);
                    let next_len = *frame_len;
                    self.compress(full, slot)?;
                    if left > 0 {
                        *buffers = self.buffers(next_len, width);
                    }
                }
                Ok(room)
            }
        }
    }

    /// Finishes a component that has received all its bytes.
    fn complete(&mut self, current: Current) -> Result<()> {
        let Current { tensor, component, as_is, to, .. } = current;
        match to {
            To::Sink { start, hasher } => {
                let computed = hasher.map(Hasher::finish);
                let (encoding, digest) = match as_is {
                    Some(as_is) => (as_is.encoding, as_is.digest.unwrap_or(computed)),
                    None => (Encoding::Raw, computed),
                };
                let range = start..self.sink.len();
                self.component_written(&tensor, component, Stored { range, encoding, digest })
            }
            To::Words(bytes) => {
                self.drain(0)?;
                self.encoder.add_header_values(&tensor, component, &bytes)
            }
            // An empty component is one empty frame. All others were compressed when their last frame was full.
            To::Frames { compression, buffers, first: true, hasher, .. } => {
                let last = Some(hasher.map(Hasher::finish));
                self.compress(buffers, Slot { tensor, component, compression, first: true, last })
            }
            // An empty component stays raw.
            To::Sampled(_) => {
                let to = self.straight(&tensor, component)?;
                self.complete(Current { tensor, component, left: 0, as_is, to })
            }
            To::Frames { .. } => Ok(()),
        }
    }

    /// Writes a whole tensor. `components` has the decoded bytes of each component that does not share another's bytes,
    /// in order.
    ///
    /// # Errors
    /// Returns the same errors as [`Writer::tensor`] and [`Writer::write`].
    pub fn add(&mut self, tensor: TensorSpec, components: &[&[u8]]) -> Result<()> {
        self.tensor(tensor)?;
        components.iter().try_for_each(|bytes| self.write(bytes))?;
        self.check_complete()
    }

    /// Writes a whole tensor from a reader that returns the bytes of its components one after the other.
    ///
    /// # Errors
    /// Returns the same errors as [`Writer::add`]; an `Io` error if the reader fails, a `Misuse` error if it ends early.
    pub fn add_from(&mut self, tensor: TensorSpec, from: impl Read) -> Result<()> {
        self.tensor(tensor)?;
        self.write_from(from, usize::MAX)?;
        self.check_complete()
    }

    /// Reads up to `components` components from `from`, starting with the current one.
    pub(crate) fn write_from(&mut self, mut from: impl Read, components: usize) -> Result<()> {
        let mut buffer = vec![0; 1 << 20];
        let mut done = 0;
        while let Some(current) = &self.current {
            let (left, component) = (current.missing(), current.component);
            let most = left.min(buffer.len() as u64) as usize;
            match from.read(&mut buffer[..most]) {
                Ok(0) => break,
                Ok(n) => {
                    self.write(&buffer[..n])?;
                    let still = self.current.as_ref().is_some_and(|c| c.component == component);
                    done += usize::from(!still);
                    if done == components {
                        break;
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(crate::error::io(e, "reading a tensor's bytes")),
            }
        }
        Ok(())
    }

    fn check_complete(&self) -> Result<()> {
        if self.failed {
            return Err(FAILED.broken("an earlier write failed, so the file would be incomplete"));
        }
        if let Some(whole) = &self.whole {
            let e = WRITE_LEN.broken(format!("{} of the declared bytes are missing", whole.left()));
            return Err(e.in_tensor(whole.spec.name.as_str()).in_component(&Role::Data));
        }
        match &self.current {
            None => Ok(()),
            Some(current) => Err(self.incomplete(current)),
        }
    }

    #[cold]
    fn incomplete(&self, current: &Current) -> Error {
        let missing = current.missing();
        let e = WRITE_LEN.broken(format!("{missing} of the declared bytes are missing"));
        let e = e.in_tensor(current.tensor.name.as_str());
        match current.tensor.components.get(current.component) {
            Some(spec) => e.in_component(&spec.role),
            None => e,
        }
    }

    /// Returns the number of bytes written so far, without frames that are still being compressed.
    pub fn len(&self) -> u64 {
        self.sink.len()
    }

    /// Returns `true` if writing `more` bytes starts compressing a frame, and so may block.
    pub fn may_block(&self, more: usize) -> bool {
        match &self.current {
            Some(Current { to: To::Frames { buffers, frame_len, .. }, .. }) => {
                buffers.decoded.len().saturating_add(more) as u64 >= *frame_len
            }
            _ => false,
        }
    }

    /// Returns `true` if nothing has been written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the rest of the file and publishes it.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the last tensor lacks bytes or an earlier write failed; the errors of [`Writer::close`]; an `Io` error.
    pub fn finish(self) -> Result<S::Done> {
        self.close()?.publish()
    }

    /// Writes the rest of the file without publishing it. If the sink can be read back, decodes the file and compares
    /// the result with what was written.
    ///
    /// # Errors
    /// Returns the same errors as [`Writer::finish`]; `internal/ledger` if the file differs from what was written.
    pub fn close(self) -> Result<Finished<S>> {
        self.end(true)
    }

    /// Does what [`Writer::close`] does, without reading back, for output that is not a complete file of its format.
    ///
    /// # Errors
    /// Returns the same errors as [`Writer::finish`].
    pub fn close_unread(self) -> Result<Finished<S>> {
        self.end(false)
    }

    fn end(self, reads_back: bool) -> Result<Finished<S>> {
        let (mut sink, mut encoder, record) = self.into_parts()?;
        let tail = encoder.finish(sink.len())?;
        sink.append(&tail)?;
        Finished::new(sink, record, &*encoder, reads_back)
    }

    /// Writes everything except the end of the file, and returns the sink, the encoder and the record of what was
    /// written.
    pub fn into_parts(mut self) -> Result<(S, Box<dyn Encode>, Record)> {
        self.check_complete()?;
        if !self.begun {
            self.encoder.check_attributes(&self.options.attributes)?;
            self.begin(&[])?;
        }
        self.drain(0)?;
        Ok((self.sink, self.encoder, self.record))
    }

    /// Creates a writer that continues a partly written file. `encoder` has begun, and `record` has what was given to
    /// it.
    pub fn resumed(
        sink: S,
        encoder: Box<dyn Encode>,
        record: Record,
        options: &WriteOptions,
    ) -> Writer<S> {
        let mut writer = Writer::new(sink, encoder, options);
        (writer.begun, writer.record) = (true, record);
        writer
    }
}

/// Appends bytes while another thread computes their digest.
fn append_summed(sink: &mut impl Sink, hasher: &mut Hasher, bytes: &[u8]) -> Result<()> {
    let (summed, appended) = std::thread::scope(|scope| {
        let sum = || hasher.update(bytes);
        let summed = std::thread::Builder::new().spawn_scoped(scope, sum).is_ok();
        (summed, sink.append(bytes))
    });
    if !summed {
        hasher.update(bytes);
    }
    appended
}

impl Arriving {
    fn append<S: Sink>(&mut self, sink: &mut S, bytes: &[u8]) -> Result<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        sink.append(bytes)
    }
}
