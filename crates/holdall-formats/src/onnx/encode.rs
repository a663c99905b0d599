//! Writes a model with new elements of its tensors, and its file with external data. All other bytes of the model are
//! kept.

use super::graph::{Graph, MessagePiece, Slot, Stored, data_type};
use super::{DECLARED, ENCODING, TOO_LARGE};
use bytes::Bytes;
use holdall_collections::sort_by;
use holdall_core::encode::{self, Encode, TensorSpec};
use holdall_core::error::{Error, Result};
use holdall_core::model::{Attributes, Encoding};
use std::ops::Range;

/// The maximum length of a Protobuf message.
const MAX_MESSAGE_LEN: u64 = (1 << 31) - 1;
/// The alignment of elements in a file with external data.
const ALIGN: u64 = 4096;

/// The file with external data of a model.
#[derive(Debug, Clone, Default)]
pub struct External {
    /// The name of the external data file in the model.
    pub location: String,
    /// The tensors in it, in order.
    pub tensors: Vec<TensorSpec>,
}

impl Graph {
    /// Returns an encoder that writes the model with new elements. The elements of `external` are in a separate file,
    /// which [`external_data_encoder`] writes.
    pub fn encoder(self, external: External) -> Box<dyn Encode> {
        let new_tensors = vec![None; self.slots.len()];
        Box::new(Encoder {
            graph: self,
            external,
            new_tensors,
            heads: Vec::new().into_iter(),
            tail: Bytes::new(),
            len: None,
        })
    }
}

/// A tensor to be written.
#[derive(Debug, Clone)]
struct NewTensor {
    data_type: u64,
    len: u64,
    /// The range in the file with external data.
    external_range: Option<Range<u64>>,
    /// The stored tensor's name in the graph, if the graph's value is computed from it by a cast.
    stored_name: Option<String>,
}

struct Encoder {
    graph: Graph,
    external: External,
    /// The tensors to be written, by their numbers.
    new_tensors: Vec<Option<NewTensor>>,
    /// For each tensor, its number and the bytes before its elements.
    heads: std::vec::IntoIter<(usize, Bytes)>,
    tail: Bytes,
    /// The length of the tensor that is written now.
    len: Option<u64>,
}

impl Encode for Encoder {
    fn header_first(&self) -> bool {
        true
    }

    fn can_share(&self) -> bool {
        false
    }

    /// The attributes of the model are kept.
    fn writes_attributes(&self) -> bool {
        false
    }

    fn check_attributes(&self, _attributes: &Attributes) -> Result<()> {
        Ok(())
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        self.graph.check(tensor).map(drop).map_err(|e| e.in_tensor(&tensor.name))
    }

    fn order(&self, tensors: &[TensorSpec]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        let slot =
            |at: &usize| tensors.get(*at).and_then(|t| self.graph.slot(&t.name)).map(|(at, _)| at);
        sort_by(&mut order, |a, b| slot(a).cmp(&slot(b)));
        order
    }

    fn begin(&mut self, _attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        let external = std::mem::take(&mut self.external.tensors);
        let external_ranges = external_ranges(&external)?;
        let mut end = None;
        let declared = declared.iter().map(|tensor| (tensor, None));
        for (tensor, external_range) in
            declared.chain(external.iter().zip(external_ranges.into_iter().map(Some)))
        {
            let blame = |e: Error| e.in_tensor(&tensor.name);
            let at = self.graph.check(tensor).map_err(blame)?;
            let (Some(data_type), Some(slot)) = (data_type(tensor), self.graph.slots.get(at))
            else {
                continue;
            };
            let len = tensor.components.first().map_or(0, |data| data.decoded_len);
            let stored_name = (data_type != slot.data_type).then(|| {
                let end = end.get_or_insert_with(|| self.graph.stored());
                format!("{}{end}", slot.own_name)
            });
            let new_tensors = NewTensor { data_type, len, external_range, stored_name };
            if let Some(Some(_first)) =
                self.new_tensors.get_mut(at).map(|slot| slot.replace(new_tensors))
            {
                return Err(blame(DECLARED.broken("two tensors have this name")));
            }
        }
        let mut out = Output::default();
        let len = self.len_of(&self.graph.parts)?;
        if len > MAX_MESSAGE_LEN {
            return Err(TOO_LARGE.broken(format!("the model would have {len} bytes")));
        }
        self.put(&self.graph.parts, &mut out)?;
        let Output { heads, pending } = out;
        (self.heads, self.tail) = (heads.into_iter(), pending.into());
        Ok(Bytes::new())
    }

    fn preceding_bytes(
        &mut self,
        _end: u64,
        tensor: &TensorSpec,
        _component: usize,
    ) -> Result<Bytes> {
        let slot = self.graph.slot(&tensor.name).map(|(at, _)| at);
        match self.heads.next() {
            Some((at, head)) if Some(at) == slot => {
                self.len = self
                    .new_tensors
                    .get(at)
                    .and_then(Option::as_ref)
                    .map(|new_tensors| new_tensors.len);
                Ok(head)
            }
            _ => Err(DECLARED
                .broken("expected another tensor next, as declared")
                .in_tensor(&tensor.name)),
        }
    }

    fn next_offset(&mut self, end: u64, _tensor: &TensorSpec, _component: usize) -> Result<u64> {
        Ok(end)
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        _component: usize,
        stored: encode::Stored,
    ) -> Result<()> {
        let len = self.len.take();
        check_written(tensor, &stored, len)
    }

    fn finish(&mut self, _end: u64) -> Result<Bytes> {
        match self.heads.len() {
            0 => Ok(std::mem::take(&mut self.tail)),
            left => Err(DECLARED.broken(format!("{left} declared tensors were not written"))),
        }
    }
}

/// Checks that a tensor was written as declared.
fn check_written(tensor: &TensorSpec, stored: &encode::Stored, len: Option<u64>) -> Result<()> {
    let found = stored.range.end.saturating_sub(stored.range.start);
    let e = if stored.encoding != Encoding::Raw || stored.digest.is_some() {
        ENCODING.broken("it is compressed, or has a digest")
    } else if len != Some(found) {
        DECLARED
            .broken(format!("{found} bytes were written, which differs from the declared length"))
    } else {
        return Ok(());
    };
    Err(e.in_tensor(&tensor.name))
}

/// The bytes that are written before the elements of each tensor, and after the last.
#[derive(Default)]
struct Output {
    heads: Vec<(usize, Bytes)>,
    pending: Vec<u8>,
}

impl Encoder {
    fn new_tensors(&self, slot: usize) -> Option<&NewTensor> {
        self.new_tensors.get(slot)?.as_ref()
    }

    fn run(&self, number: usize) -> &[u8] {
        self.graph.runs.get(number).map_or(&[], |run| run)
    }

    /// Returns the number of bytes of parts.
    fn len_of(&self, parts: &[MessagePiece]) -> Result<u64> {
        let mut len = 0u64;
        for part in parts {
            let one = match part {
                MessagePiece::Run(run) => self.run(*run).len() as u64,
                MessagePiece::Message { field, is_graph, parts } => {
                    framed_len(*field, self.len_inside(*is_graph, parts)?)
                }
                MessagePiece::Tensor { field, slot } => {
                    framed_len(*field, self.tensor(*slot)?.len())
                }
            };
            len = len.saturating_add(one);
        }
        Ok(len)
    }

    fn len_inside(&self, is_graph: bool, parts: &[MessagePiece]) -> Result<u64> {
        let casts = if is_graph { self.casts(parts).len() as u64 } else { 0 };
        Ok(self.len_of(parts)?.saturating_add(casts))
    }

    /// Appends the bytes of parts to `out`.
    fn put(&self, parts: &[MessagePiece], out: &mut Output) -> Result<()> {
        for part in parts {
            match part {
                MessagePiece::Run(run) => out.pending.extend_from_slice(self.run(*run)),
                MessagePiece::Message { field, is_graph, parts } => {
                    put_head(*field, self.len_inside(*is_graph, parts)?, &mut out.pending);
                    if *is_graph {
                        out.pending.extend_from_slice(&self.casts(parts));
                    }
                    self.put(parts, out)?;
                }
                MessagePiece::Tensor { field, slot } => {
                    let tensor = self.tensor(*slot)?;
                    put_head(*field, tensor.len(), &mut out.pending);
                    let Tensor { before, data, after } = tensor;
                    out.pending.extend_from_slice(&before);
                    if data.is_some() {
                        out.heads.push((*slot, std::mem::take(&mut out.pending).into()));
                    }
                    out.pending.extend_from_slice(&after);
                }
            }
        }
        Ok(())
    }

    /// Returns the message of a tensor.
    fn tensor(&self, number: usize) -> Result<Tensor> {
        let none = Tensor { before: Vec::new(), data: None, after: Vec::new() };
        let Some(slot) = self.graph.slots.get(number) else { return Ok(none) };
        let Some(new_tensors) = self.new_tensors(number) else {
            return match slot.stored {
                Stored::Whole(run) => Ok(Tensor { before: self.run(run).to_vec(), ..none }),
                _ => Err(DECLARED.broken("it was not declared").in_tensor(&slot.name)),
            };
        };
        // The message is kept, except the elements themselves.
        if let (Stored::Here { before, len, after }, None) =
            (&slot.stored, &new_tensors.external_range)
            && (*len, slot.data_type) == (new_tensors.len, new_tensors.data_type)
        {
            let (before, after) = (self.run(*before).to_vec(), self.run(*after).to_vec());
            return Ok(Tensor { before, data: Some(new_tensors.len), after });
        }
        let mut out = Vec::new();
        slot.rest.iter().for_each(|run| out.extend_from_slice(self.run(*run)));
        put_number(2, new_tensors.data_type, &mut out);
        let name = new_tensors.stored_name.as_deref().unwrap_or(&slot.own_name);
        if !name.is_empty() {
            put_bytes(8, name.as_bytes(), &mut out);
        }
        let Some(external_range) = &new_tensors.external_range else {
            put_head(9, new_tensors.len, &mut out);
            return Ok(Tensor { before: out, data: Some(new_tensors.len), after: Vec::new() });
        };
        let offset = external_range.start.to_string();
        let len = external_range.end.saturating_sub(external_range.start).to_string();
        for (key, value) in
            [("location", &self.external.location), ("offset", &offset), ("length", &len)]
        {
            let mut pair = Vec::new();
            put_bytes(1, key.as_bytes(), &mut pair);
            put_bytes(2, value.as_bytes(), &mut pair);
            put_bytes(13, &pair, &mut out);
        }
        put_number(14, 1, &mut out);
        Ok(Tensor { before: out, ..none })
    }

    /// Returns the nodes that cast stored tensors to the values that the graph uses, for the tensors of one graph.
    fn casts(&self, parts: &[MessagePiece]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in parts {
            let MessagePiece::Tensor { slot: number, .. } = part else { continue };
            let (Some(slot), Some(new_tensors)) =
                (self.graph.slots.get(*number), self.new_tensors(*number))
            else {
                continue;
            };
            let Some(stored) = &new_tensors.stored_name else { continue };
            put_bytes(1, &cast(slot, stored), &mut out);
        }
        out
    }
}

/// The parts of a tensor's message before and after its elements.
struct Tensor {
    before: Vec<u8>,
    data: Option<u64>,
    after: Vec<u8>,
}

impl Tensor {
    fn len(&self) -> u64 {
        let around = self.before.len().saturating_add(self.after.len()) as u64;
        around.saturating_add(self.data.unwrap_or_default())
    }
}

/// Returns a node that casts the elements of `stored` to the type of a tensor.
fn cast(slot: &Slot, stored: &str) -> Vec<u8> {
    let mut to = Vec::new();
    put_bytes(1, b"to", &mut to);
    put_number(3, slot.data_type, &mut to);
    // The attribute is an integer.
    put_number(20, 2, &mut to);
    let mut out = Vec::new();
    put_bytes(1, stored.as_bytes(), &mut out);
    put_bytes(2, slot.own_name.as_bytes(), &mut out);
    put_bytes(3, format!("{stored}.cast").as_bytes(), &mut out);
    put_bytes(4, b"Cast", &mut out);
    put_bytes(5, &to, &mut out);
    out
}

/// Returns the ranges of tensors in a file with external data.
///
/// # Errors
/// Returns [`DECLARED`] if they exceed 2^63 bytes.
fn external_ranges(tensors: &[TensorSpec]) -> Result<Vec<Range<u64>>> {
    let mut end = 0u64;
    let external_range = |tensor: &TensorSpec| {
        let len = tensor.components.first().map_or(0, |data| data.decoded_len);
        let start = start_after(end)?;
        end = start.checked_add(len).filter(|end| *end < 1 << 63).ok_or_else(too_long)?;
        Ok(start..end)
    };
    tensors.iter().map(external_range).collect()
}

/// Returns the offset of elements that come after `end` bytes.
fn start_after(end: u64) -> Result<u64> {
    end.checked_next_multiple_of(ALIGN).ok_or_else(too_long)
}

#[cold]
fn too_long() -> Error {
    DECLARED.broken("the tensors together exceed 2^63 bytes")
}

/// Returns an encoder for a file with external data: elements of tensors, one after the other, and nothing else.
pub fn external_data_encoder() -> Box<dyn Encode> {
    Box::new(ExternalEncoder)
}

struct ExternalEncoder;

impl Encode for ExternalEncoder {
    fn header_first(&self) -> bool {
        true
    }

    fn can_share(&self) -> bool {
        false
    }

    fn writes_attributes(&self) -> bool {
        false
    }

    fn check_attributes(&self, _attributes: &Attributes) -> Result<()> {
        Ok(())
    }

    fn check_tensor(&self, _tensor: &TensorSpec) -> Result<()> {
        Ok(())
    }

    fn begin(&mut self, _attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        external_ranges(declared).map(|_| Bytes::new())
    }

    fn next_offset(&mut self, end: u64, _tensor: &TensorSpec, _component: usize) -> Result<u64> {
        start_after(end)
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: encode::Stored,
    ) -> Result<()> {
        check_written(
            tensor,
            &stored,
            tensor.components.get(component).map(|data| data.decoded_len),
        )
    }

    fn finish(&mut self, _end: u64) -> Result<Bytes> {
        Ok(Bytes::new())
    }
}

/// Returns the length of a field with `len` bytes, including tag and length.
fn framed_len(field: u64, len: u64) -> u64 {
    let mut head = Vec::new();
    put_head(field, len, &mut head);
    len.saturating_add(head.len() as u64)
}

fn put_head(field: u64, len: u64, out: &mut Vec<u8>) {
    put_varint(field << 3 | 2, out);
    put_varint(len, out);
}

fn put_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_head(field, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_number(field: u64, n: u64, out: &mut Vec<u8>) {
    put_varint(field << 3, out);
    put_varint(n, out);
}

fn put_varint(mut n: u64, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = n.to_le_bytes();
        n >>= 7;
        if n == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}
