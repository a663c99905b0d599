//! Writing a file tensor by tensor, in bounded memory.

mod finished;
mod options;

pub use finished::Finished;
pub use options::WriteOptions;

use crate::compress::{Buffers, Compressor};
use crate::error::{DECLARE, FAILED, NOT_WRITTEN, WRITE_LEN};
use crate::sink::{FileSink, Sink, StreamSink};
use holdall_core::codec::{SINGLE_FRAME_MAX, frame_lens};
use holdall_core::error::Shown as _;
use holdall_core::ledger::Record;
use holdall_core::model::Hasher;
use holdall_core::{
    Algorithm, ComponentRef, Digest, Encode, Encoding, Error, Result, Stored, TensorSpec,
};
use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Bytes written between two looks at whether the file is still wanted.
const STRETCH: u64 = 64 << 20;
/// From this many bytes on, taking their digest beside the writing pays for the thread it needs.
const BESIDE_MIN: usize = 4 << 20;

/// Writes a file tensor by tensor: [`Writer::tensor`] says what comes, [`Writer::write`] takes its
/// bytes in pieces of any length, one component after the other, and [`Writer::finish`] publishes.
/// Memory is a few pieces (raw) or a few frames for each thread (compressed), and the manifest.
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
    /// Whether something could not be written, and so the file is never finished.
    failed: bool,
    /// Threads that may be used, once it was found out.
    threads: Option<usize>,
    /// Component to be given bytes next.
    current: Option<Current>,
    compressor: Option<Compressor>,
    slots: VecDeque<Slot>,
    /// The compressed component whose frames are arriving at the sink.
    arriving: Option<Arriving>,
    spare: Vec<Buffers>,
    /// Where components are that others may share; `None` when it was declared that none do.
    placed: Option<HashMap<ComponentRef, Stored>>,
    /// What was given to the encoder.
    record: Record,
}

struct Current {
    tensor: Arc<TensorSpec>,
    component: usize,
    left: u64,
    as_is: Option<AsIs>,
    to: To,
}

/// Bytes that come encoded already.
pub(crate) struct AsIs {
    pub(crate) encoding: Encoding,
    pub(crate) stored_len: u64,
    /// Their digest, or none, where that is to stay as it is; else it is computed.
    pub(crate) digest: Option<Option<Digest>>,
}

enum To {
    /// Straight to the sink; where it started, and its digest so far.
    Sink { start: u64, hasher: Option<Hasher> },
    /// Into the file's own words, once all bytes are there.
    Words(Vec<u8>),
    /// Into frames of that encoding: the one being filled, and how long it and those after it shall be; the digest so far
    /// where it is of decoded bytes.
    Frames {
        encoding: Encoding,
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
    encoding: Encoding,
    first: bool,
    /// Of the last one, the digest of all that was decoded, where it is of that.
    last: Option<Option<Digest>>,
}

struct Arriving {
    start: u64,
    frames: Vec<(u64, u64)>,
    hasher: Option<Hasher>,
}

impl Writer<FileSink> {
    /// Begins a file that appears at `path` when [`Writer::finish`] succeeds.
    ///
    /// # Errors
    /// Misuse when the file exists and may not be replaced, or no format is known; Io.
    pub fn create(path: impl AsRef<Path>, options: &WriteOptions) -> Result<Writer<FileSink>> {
        let path = path.as_ref();
        let encoder = options.encoder(options.format_for(path)?)?;
        let sink = FileSink::create(path, options.overwrite, options.durability)?;
        Ok(Writer::new(sink, encoder, options))
    }
}

impl<W: Write> Writer<StreamSink<W>> {
    /// Begins a file that goes to `to` as it is written. The options name the format.
    ///
    /// # Errors
    /// Misuse when the options name no format.
    pub fn stream(to: W, options: &WriteOptions) -> Result<Writer<StreamSink<W>>> {
        let encoder = options.encoder(options.format_for(Path::new("-"))?)?;
        Ok(Writer::new(StreamSink::new(to), encoder, options))
    }
}

impl<S: Sink> Writer<S> {
    /// A writer of what `encoder` lays out, to `sink`.
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
        }
    }

    /// The order in which the format itself has such tensors, as places in `tensors`: safetensors has the widest elements
    /// first, then goes by name. Who declares and writes them in it gets the same file whatever order they came in.
    #[must_use]
    pub fn order(&self, tensors: &[TensorSpec]) -> Vec<usize> {
        self.encoder.order(tensors)
    }

    /// Declares all tensors, in the order in which they will be written. Needed by formats whose header
    /// comes first; for others it finds early what the format cannot hold, and reserves the space.
    ///
    /// # Errors
    /// Unsupported: what the format cannot hold. Nothing was written then. Io.
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
                if c.shares.is_none() && !self.encoder.states(tensor, at) {
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

    /// Notes an error after which the file lacks something.
    fn noting<T>(&mut self, done: Result<T>) -> Result<T> {
        self.failed |= done.is_err();
        done
    }

    /// Begins a tensor; [`Writer::write`] gives it its bytes.
    ///
    /// # Errors
    /// Misuse when the tensor before it lacks bytes, Unsupported when the format cannot hold it.
    pub fn tensor(&mut self, tensor: TensorSpec) -> Result<()> {
        self.check_complete()?;
        if !self.begun {
            if self.encoder.header_first() {
                return Err(DECLARE.broken("the tensors of this format were not declared"));
            }
            self.encoder.check_attributes(&self.options.attributes)?;
            self.begin(&[])?;
        }
        let tensor = tensor.with_plain_types();
        self.encoder.check_tensor(&tensor)?;
        let tensor = Arc::new(tensor);
        self.record.add(Arc::clone(&tensor));
        let begun = self.next_component(tensor, 0);
        self.noting(begun)
    }

    /// Begins a component that has bytes of its own, passing over those that have none to be given.
    fn next_component(&mut self, tensor: Arc<TensorSpec>, from: usize) -> Result<()> {
        for component in from..tensor.components.len() {
            let Some(spec) = tensor.components.get(component) else { break };
            if let Some(of) = &spec.shares {
                self.share(of, &tensor, component)?;
                continue;
            }
            let to = match self.options.encoding {
                _ if self.encoder.states(&tensor, component) => To::Words(Vec::new()),
                Encoding::Raw => self.straight(&tensor, component)?,
                encoding => self.frames(encoding, spec.dtype.width(), spec.decoded_len),
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

    /// Makes ready to compress a component's bytes as they come.
    fn frames(&mut self, encoding: Encoding, width: u64, decoded_len: u64) -> To {
        let frame_len = match encoding.seek_format() {
            Some(_) => frame_lens(decoded_len).0.next().unwrap_or(0),
            None => decoded_len,
        };
        let hasher = self.digest.filter(|_| self.encoder.digests_decoded()).map(Hasher::new);
        let buffers = self.buffers(frame_len, width);
        To::Frames { encoding, buffers, frame_len, first: true, hasher }
    }

    fn buffers(&mut self, len: u64, width: u64) -> Buffers {
        let mut buffers = self.spare.pop().unwrap_or_default();
        buffers.width = width;
        buffers.decoded.clear();
        buffers.decoded.reserve(len as usize);
        buffers
    }

    fn share(
        &mut self,
        of: &ComponentRef,
        tensor: &Arc<TensorSpec>,
        component: usize,
    ) -> Result<()> {
        self.drain(0)?;
        let Some(stored) = self.placed.as_ref().and_then(|placed| placed.get(of).cloned()) else {
            let name = of.tensor.shown();
            return Err(NOT_WRITTEN
                .broken(format!("shares `{}` of tensor `{name}`, which was not written", of.role))
                .in_tensor(tensor.name.as_str()));
        };
        self.placed(tensor, component, stored)
    }

    /// Makes ready to append a component's bytes as they come.
    fn straight(&mut self, tensor: &TensorSpec, component: usize) -> Result<To> {
        self.drain(0)?;
        let start = self.next_offset(tensor, component)?;
        Ok(To::Sink { start, hasher: self.digest.map(Hasher::new) })
    }

    fn next_offset(&mut self, tensor: &TensorSpec, component: usize) -> Result<u64> {
        static ZEROS: [u8; 4096] = [0; 4096];
        let before = self.encoder.before(self.sink.len(), tensor, component)?;
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

    fn placed(&mut self, tensor: &TensorSpec, component: usize, stored: Stored) -> Result<()> {
        if let (Some(placed), Some(spec)) = (&mut self.placed, tensor.components.get(component)) {
            let name = ComponentRef { tensor: tensor.name.clone(), role: spec.role.clone() };
            placed.insert(name, stored.clone());
        }
        self.record.store(tensor, component, &stored);
        self.encoder.placed(tensor, component, stored)
    }

    /// Whether the bytes given next become words of the file, and so must be decoded.
    pub(crate) fn states(&self) -> bool {
        matches!(&self.current, Some(Current { to: To::Words(_), .. }))
    }

    /// Whether the bytes given next go into the file as they are.
    pub(crate) fn fills(&self) -> bool {
        matches!(&self.current, Some(Current { to: To::Sink { .. }, .. }))
    }

    /// Takes all bytes of the component begun last, which [`Writer::fills`], from `read`: it fills the memory that it is
    /// called with.
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

    /// Returns `true` if the file may have components in this encoding.
    pub(crate) fn can_encode(&self, encoding: Encoding) -> bool {
        self.encoder.can_encode(encoding)
    }

    /// Whether compressed components of any writer may come as they are.
    pub(crate) fn takes_frames(&self) -> bool {
        !self.encoder.needs_seek_table()
    }

    /// Says that the component to be given bytes next is to be stored in this encoding, whatever the options say.
    pub(crate) fn compressed(&mut self, encoding: Encoding) {
        let Some(mut current) = self.current.take() else { return };
        if let To::Sink { .. } = current.to {
            let spec = current.tensor.components.get(current.component);
            let width = spec.map_or(1, |spec| spec.dtype.width());
            current.to = self.frames(encoding, width, current.left);
        }
        self.current = Some(current);
    }

    /// Says that the component to be given bytes next comes encoded already, and decodes to what was
    /// declared. The caller has made sure of that.
    pub(crate) fn as_is(&mut self, as_is: AsIs) -> Result<()> {
        let taken = self.take_as_is(as_is);
        self.noting(taken)
    }

    fn take_as_is(&mut self, as_is: AsIs) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        if let To::Frames { buffers, .. } = current.to {
            self.spare.push(buffers);
            let tensor = Arc::clone(&current.tensor);
            current.to = self.straight(&tensor, current.component)?;
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

    /// Takes the next bytes of the tensor begun last: decoded, little-endian, one component after the
    /// other. After an error, also that the work was cancelled, the file cannot be finished.
    ///
    /// # Errors
    /// Misuse for more bytes than were declared; Io.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.write_all(bytes);
        self.noting(written)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let Some(mut current) = self.current.take() else {
                let more = bytes.len();
                return Err(WRITE_LEN.broken(format!("{more} bytes more than were declared")));
            };
            self.options.work.check()?;
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

    /// Takes some bytes of a component; how many.
    fn take_bytes(&mut self, current: &mut Current, bytes: &[u8]) -> Result<usize> {
        match &mut current.to {
            To::Words(all) => {
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
                // In pieces that the sink finds in the processor's cache after the digest.
                for piece in bytes.chunks(512 << 10) {
                    hasher.update(piece);
                    self.sink.append(piece)?;
                }
                Ok(bytes.len())
            }
            To::Frames { encoding, buffers, frame_len, first, hasher } => {
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
                        encoding: *encoding,
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

    fn compress(&mut self, buffers: Buffers, slot: Slot) -> Result<()> {
        let WriteOptions { encoding: asked, level, ref work, .. } = self.options;
        if self.compressor.as_ref().is_none_or(|c| c.encoding() != slot.encoding) {
            let level = level.filter(|_| asked == slot.encoding);
            let compressor = Compressor::new(slot.encoding, level, work)?;
            self.drain(0)?;
            self.compressor = Some(compressor);
        }
        // A whole component takes as much memory as it is long: one at a time.
        if slot.encoding.seek_format().is_none() && buffers.decoded.len() as u64 > SINGLE_FRAME_MAX
        {
            self.drain(0)?;
        }
        loop {
            match &mut self.compressor {
                Some(c) if c.has_room() => {
                    c.give(buffers);
                    break;
                }
                _ => self.take_frame()?,
            }
        }
        self.slots.push_back(slot);
        Ok(())
    }

    /// Waits until at most `left` frames are being compressed.
    fn drain(&mut self, left: u64) -> Result<()> {
        while self.compressor.as_ref().is_some_and(|c| c.in_flight() > left) {
            self.take_frame()?;
        }
        Ok(())
    }

    /// Appends the next compressed frame.
    fn take_frame(&mut self) -> Result<()> {
        let next = self.compressor.as_mut().and_then(Compressor::take);
        let (Some(result), Some(slot)) = (next, self.slots.pop_front()) else { return Ok(()) };
        let buffers = result.map_err(|e| e.in_tensor(slot.tensor.name.as_str()))?;
        if slot.first {
            let start = self.next_offset(&slot.tensor, slot.component)?;
            let of_stored = self.digest.filter(|_| !self.encoder.digests_decoded());
            let hasher = of_stored.map(Hasher::new);
            self.arriving = Some(Arriving { start, frames: Vec::new(), hasher });
        }
        let Some(mut arriving) = self.arriving.take() else { return Ok(()) };
        arriving.frames.push((buffers.frame.len() as u64, buffers.decoded.len() as u64));
        arriving.append(&mut self.sink, &buffers.frame)?;
        self.spare.push(buffers);
        let Some(of_decoded) = slot.last else {
            self.arriving = Some(arriving);
            return Ok(());
        };
        if (arriving.frames.len() > 1 || self.encoder.needs_seek_table())
            && let Some(seek) = slot.encoding.seek_format()
        {
            let table = seek.write_table(&arriving.frames)?;
            arriving.append(&mut self.sink, &table)?;
        }
        let stored = Stored {
            range: arriving.start..self.sink.len(),
            encoding: slot.encoding,
            digest: of_decoded.or_else(|| arriving.hasher.map(Hasher::finish)),
        };
        self.placed(&slot.tensor, slot.component, stored)
    }

    /// Notes that a component has all its bytes.
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
                self.placed(&tensor, component, Stored { range, encoding, digest })
            }
            To::Words(bytes) => {
                self.drain(0)?;
                self.encoder.state(&tensor, component, &bytes)
            }
            // An empty component is one frame of nothing; others went out when they were full.
            To::Frames { encoding, buffers, first: true, hasher, .. } => {
                let last = Some(hasher.map(Hasher::finish));
                self.compress(buffers, Slot { tensor, component, encoding, first: true, last })
            }
            To::Frames { .. } => Ok(()),
        }
    }

    /// Writes a whole tensor: `components` are the decoded bytes of each component with bytes of its
    /// own, in order.
    ///
    /// # Errors
    /// As [`Writer::tensor`] and [`Writer::write`].
    pub fn add(&mut self, tensor: TensorSpec, components: &[&[u8]]) -> Result<()> {
        self.tensor(tensor)?;
        components.iter().try_for_each(|bytes| self.write(bytes))?;
        self.check_complete()
    }

    /// Writes a whole tensor from a reader that gives its components' bytes one after the other.
    ///
    /// # Errors
    /// As [`Writer::add`]; Io when the reader fails, Misuse when it ends early.
    pub fn add_from(&mut self, tensor: TensorSpec, from: impl Read) -> Result<()> {
        self.tensor(tensor)?;
        self.write_from(from, usize::MAX)?;
        self.check_complete()
    }

    /// Gives up to `components` components, the current one first, the bytes that `from` has.
    pub(crate) fn write_from(&mut self, mut from: impl Read, components: usize) -> Result<()> {
        let mut buffer = vec![0; 1 << 20];
        let mut done = 0;
        while let Some(current) = &self.current {
            let (left, component) = (current.left, current.component);
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
        match &self.current {
            None => Ok(()),
            Some(current) => Err(self.incomplete(current)),
        }
    }

    #[cold]
    fn incomplete(&self, current: &Current) -> Error {
        let e = WRITE_LEN.broken(format!("{} bytes were declared and not given", current.left));
        let e = e.in_tensor(current.tensor.name.as_str());
        match current.tensor.components.get(current.component) {
            Some(spec) => e.in_component(&spec.role),
            None => e,
        }
    }

    /// Bytes of the file so far. Frames that are being compressed are not counted.
    pub fn len(&self) -> u64 {
        self.sink.len()
    }

    /// Whether giving so many bytes more begins to compress a frame, and so may wait for others.
    pub fn may_wait(&self, more: usize) -> bool {
        match &self.current {
            Some(Current { to: To::Frames { buffers, frame_len, .. }, .. }) => {
                buffers.decoded.len().saturating_add(more) as u64 >= *frame_len
            }
            _ => false,
        }
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes what is left and publishes the file.
    ///
    /// # Errors
    /// Misuse when the last tensor lacks bytes, or something before could not be written; as [`Writer::close`]; Io.
    pub fn finish(self) -> Result<S::Done> {
        self.close()?.publish()
    }

    /// Writes what is left, and compares what a reader finds in the file with what was written, where the file can be read
    /// back. It is not published yet.
    ///
    /// # Errors
    /// As [`Writer::finish`]; `internal/ledger`.
    pub fn close(self) -> Result<Finished<S>> {
        self.end(true)
    }

    /// As [`Writer::close`], for bytes that are no file of a format by themselves, which are not read back.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn close_unread(self) -> Result<Finished<S>> {
        self.end(false)
    }

    fn end(self, reads_back: bool) -> Result<Finished<S>> {
        let (mut sink, mut encoder, record) = self.into_parts()?;
        let tail = encoder.finish(sink.len())?;
        sink.append(&tail)?;
        Finished::new(sink, record, &*encoder, reads_back)
    }

    /// Writes what is left but for the end of the file. Gives also what was written.
    pub fn into_parts(mut self) -> Result<(S, Box<dyn Encode>, Record)> {
        self.check_complete()?;
        if !self.begun {
            self.encoder.check_attributes(&self.options.attributes)?;
            self.begin(&[])?;
        }
        self.drain(0)?;
        Ok((self.sink, self.encoder, self.record))
    }

    /// A writer that continues a file whose start is there: `encoder` has begun, and has what is in `record`.
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

/// Appends bytes while another thread takes their digest.
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
