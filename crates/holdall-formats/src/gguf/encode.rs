//! Writes the header. The whole header is known before the first byte is written.

use super::value::{TYPES, Type, write_pair, write_string};
use super::{
    ALIGN, ALIGN_DEFAULT, ALIGN_KEY, DECLARED, ELEMENT_TYPE, ENCODING, Element, FIT, GGML_NAME_END,
    HEADER_BOUNDS, HEADER_LIMIT, LAYOUT, MAGIC, MAX_RANK, NAME_END, OFFSET,
};
use crate::header::{Dialect, Slot, Slots, check_values};
use crate::kept::{ATTRIBUTES, TENSOR_ATTRIBUTES, object};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_collections::HashSet;
use holdall_core::encode::UNKNOWN_VERSION;
use holdall_core::encode::{Encode, EncodeOptions, Stored, TensorSpec};
use holdall_core::error::{Error, Escape as _, Remedy, Result};
use holdall_core::model::{Attributes, Layout, Role, Value, Warning};

/// The version that is written.
const VERSION: u32 = 3;
/// The maximum alignment: a larger one would fill the file with padding.
const MAX_ALIGN: u64 = 1 << 26;

static DIALECT: Dialect = Dialect {
    bounds: &HEADER_BOUNDS,
    limit: &HEADER_LIMIT,
    offsets: &OFFSET,
    encoding: &ENCODING,
    declared: &DECLARED,
    unit: "tensor",
    gaps: true,
};

/// Creates an encoder of one file.
pub(super) fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    if let Some(version) = options.version.as_deref().filter(|version| *version != "3") {
        return Err(UNKNOWN_VERSION.broken(format!("cannot write GGUF version `{version}`")));
    }
    Ok(Box::new(Encoder {
        align: options.align_within(8..=MAX_ALIGN, &ALIGN)?,
        slots: Slots::new(&DIALECT, Vec::new(), 0),
        end: 0,
    }))
}

struct Encoder {
    /// The alignment that the caller requested.
    align: Option<u64>,
    slots: Slots,
    /// The end of the file, including padding.
    end: u64,
}

impl Encode for Encoder {
    fn header_first(&self) -> bool {
        true
    }

    fn states_align(&self) -> bool {
        true
    }

    fn own_attributes(&self) -> &'static [&'static str] {
        &[ALIGN_KEY]
    }

    /// Tensors cannot share bytes: the offset of a tensor is where the one before it ends.
    fn can_share(&self) -> bool {
        false
    }

    /// Checks only attributes that readers of GGUF interpret. All others can be stored, as key–values or as text.
    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        check_values(attributes)?;
        match attributes.get(ALIGN_KEY) {
            Some(value) if self.align.is_none() && stated(value).is_none() => {
                let message = format!("`{ALIGN_KEY}` is {}", value.to_json());
                Err(ALIGN.broken(message))
            }
            _ => Ok(()),
        }
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        check_values(&tensor.attributes)
            .and_then(|()| element(tensor).map(drop))
            .map_err(|e| e.in_tensor(&tensor.name))
    }

    fn warning(&self, tensor: &TensorSpec) -> Option<Warning> {
        let len = tensor.name.len();
        (len >= GGML_NAME_END).then(|| {
            let message = format!(
                "its name has {len} bytes; llama.cpp and others that use ggml refuse files with names of {GGML_NAME_END} bytes or more"
            );
            Warning::new("gguf/long-name", message).in_tensor(&tensor.name)
        })
    }

    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        let (pairs, count, align) = pairs(attributes, declared, self.align)?;
        let mut header =
            Vec::with_capacity(pairs.len().saturating_add(declared.len().saturating_mul(96)));
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&(declared.len() as u64).to_le_bytes());
        header.extend_from_slice(&count.to_le_bytes());
        header.extend_from_slice(&pairs);
        let mut names = HashSet::default();
        let mut offset = 0u64;
        let mut ranges = Vec::with_capacity(declared.len());
        for tensor in declared {
            let blame = |e: Error| e.in_tensor(&tensor.name);
            if !names.insert(tensor.name.as_str()) {
                return Err(blame(DECLARED.broken("two tensors have this name")));
            }
            let (id, len) = element(tensor).map_err(blame)?;
            write_string(tensor.name.as_bytes(), &mut header);
            header
                .extend_from_slice(&u32::try_from(tensor.shape.len()).debug_unwrap().to_le_bytes());
            tensor.shape.iter().rev().for_each(|n| header.extend_from_slice(&n.to_le_bytes()));
            header.extend_from_slice(&id.to_le_bytes());
            header.extend_from_slice(&offset.to_le_bytes());
            ranges.push((offset, len));
            offset = len
                .checked_next_multiple_of(align)
                .and_then(|len| offset.checked_add(len))
                .ok_or_else(|| blame(DECLARED.broken("the tensors together exceed 2^64 bytes")))?;
        }
        let too_long = || DECLARED.broken("the file passes 2^64 bytes");
        let start = (header.len() as u64).checked_next_multiple_of(align).ok_or_else(too_long)?;
        header.resize(usize::try_from(start).map_err(|_| too_long())?, 0);
        self.end = start.checked_add(offset).ok_or_else(too_long)?;
        let mut slots = Vec::with_capacity(declared.len());
        for (tensor, (offset, len)) in declared.iter().zip(ranges) {
            let from = start.saturating_add(offset);
            let range = from..from.saturating_add(len);
            slots.push(Slot { tensor: tensor.name.clone(), component: 0, range, shares: None });
        }
        let last = slots.last().map_or(start, |slot| slot.range.end);
        self.slots = Slots::new(&DIALECT, slots, last);
        Ok(header.into())
    }

    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, component: usize) -> Result<u64> {
        self.slots.next_offset(end, tensor, component)
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()> {
        self.slots.component_written(tensor, component, &stored)
    }

    /// Returns the padding of the last tensor.
    fn finish(&mut self, end: u64) -> Result<Bytes> {
        self.slots.finish(end)?;
        let missing = usize::try_from(self.end.saturating_sub(end)).debug_unwrap();
        Ok(vec![0; missing].into())
    }
}

/// Returns the alignment that an attribute states, if it is an alignment that can be written.
fn stated(value: &Value) -> Option<u64> {
    let n = u64::try_from(value.as_integer()?).ok()?;
    (n.is_power_of_two() && n <= MAX_ALIGN).then_some(n)
}

/// Returns the key–values of a file, their number, and the file's alignment.
fn pairs(
    attributes: &Attributes,
    declared: &[TensorSpec],
    align: Option<u64>,
) -> Result<(Vec<u8>, u64, u64)> {
    let (mut out, mut count) = (Vec::new(), 0u64);
    let mut put = |key: &str, value_type: Type, value: &Value| {
        write_pair(key, value_type, value, &mut out);
        count = count.saturating_add(1);
    };
    let stated = attributes.get(ALIGN_KEY).and_then(stated);
    let align = align.or(stated).unwrap_or(ALIGN_DEFAULT);
    if align != ALIGN_DEFAULT && stated.is_none() {
        let value = Value::Integer(align.into());
        put(ALIGN_KEY, Type::default_for(&value).unwrap_or(Type::STRING), &value);
    }
    let mut others = Vec::new();
    for (key, value) in attributes.iter().filter(|(key, _)| *key != TYPES) {
        let is_ours = matches!(key, ATTRIBUTES | TENSOR_ATTRIBUTES);
        if key == ALIGN_KEY {
            let value = Value::Integer(align.into());
            put(key, Type::default_for(&value).unwrap_or(Type::STRING), &value);
        } else if let Some(value_type) =
            Type::to_write(key, value, attributes).filter(|_| !key.is_empty() && !is_ours)
        {
            put(key, value_type, value);
        } else {
            others.push((key, value));
        }
    }
    let of_tensors = declared.iter().filter(|tensor| !tensor.attributes.is_empty());
    let of_tensors = object(of_tensors.map(|t| (t.name.as_str(), &t.attributes)), |own, out| {
        out.push_str(&own.to_json());
    });
    let others = object(others, |value, out| value.write_json(out));
    for (key, text) in [(ATTRIBUTES, others), (TENSOR_ATTRIBUTES, of_tensors)] {
        if let Some(text) = text {
            put(key, Type::STRING, &Value::Text(text));
        }
    }
    Ok((out, count, align))
}

/// Returns the number of a tensor's type, and the tensor's length in bytes.
fn element(tensor: &TensorSpec) -> Result<(u32, u64)> {
    let data = match tensor.components.as_slice() {
        [data] if data.role == Role::Data => Some(data),
        _ => None,
    };
    let found = match (&tensor.layout, data) {
        (Layout::Dense, Some(data)) => Some((Element::Plain(data.dtype), data)),
        (Layout::Blocks(block_type), Some(data)) => Some((Element::Blocks(block_type), data)),
        (other, Some(data)) => Element::by_layout(other).map(|block_type| (block_type, data)),
        _ => None,
    };
    let Some((element, data)) = found else {
        let layout = tensor.layout.as_str().escaped();
        let e = LAYOUT.broken(format!("GGUF has no layout `{layout}`"));
        return Err(match tensor.layout {
            // Tensors with an unknown layout cannot be made dense either.
            Layout::Records | Layout::Blob | Layout::Other(_) => e.with_remedy(Remedy::LeaveOut),
            _ => e,
        });
    };
    let id = element.id().filter(|_| data.logical_type.is_none());
    let Some(id) = id else {
        let type_name = match &data.logical_type {
            Some(t) => t.as_str().escaped().to_string(),
            None => data.dtype.to_string(),
        };
        return Err(ELEMENT_TYPE.broken(format!("GGUF has no elements of type {type_name}")));
    };
    if tensor.shape.len() > MAX_RANK {
        let e = FIT.broken(format!(
            "it has {} dimensions, at most {MAX_RANK} are allowed",
            tensor.shape.len()
        ));
        return Err(e.with_remedy(Remedy::LeaveOut));
    }
    if tensor.name.len() >= NAME_END {
        let message =
            format!("its name has {} bytes, expected fewer than {NAME_END}", tensor.name.len());
        return Err(FIT.broken(message).with_remedy(Remedy::RenameTensor));
    }
    let expected = match element {
        Element::Plain(dtype) => {
            holdall_core::model::stored_size(count(tensor), dtype, None).ok().flatten()
        }
        Element::Blocks(block_type) => block_type.stored_len(&tensor.shape),
        Element::Opaque(_) => Some(data.decoded_len),
    };
    if expected != Some(data.decoded_len) || data.dtype != element.dtype() {
        let message = format!(
            "shape {:?} of {} does not match {} bytes of {}",
            tensor.shape, tensor.layout, data.decoded_len, data.dtype
        );
        return Err(DECLARED.broken(message));
    }
    if data.shares.is_some() {
        let e =
            DECLARED.broken("it shares the bytes of another tensor, which GGUF cannot represent");
        return Err(e.with_remedy(Remedy::CopyShared));
    }
    Ok((id, data.decoded_len))
}

fn count(tensor: &TensorSpec) -> u64 {
    holdall_core::model::element_count(&tensor.shape).unwrap_or(u64::MAX)
}
