//! Writes the header. The whole header is known before the first byte is written.

use super::decode::product;
use super::restore::WrittenMetadata;
use super::{
    ALIAS, ALIGN, COMPONENTS, DECLARED, DIALECT, LAYOUT, LOGICAL_TYPE, METADATA_KEY, RESERVED_NAME,
};
use crate::element::{ElementType, by_meaning};
use crate::header::{Slot, Slots, check_values};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_collections::HashMap;
use holdall_collections::sort_by;
use holdall_core::encode::{ComponentSpec, Encode, EncodeOptions, Stored, TensorSpec};
use holdall_core::error::{Error, Escape as _, Remedy, Result};
use holdall_core::model::{Attributes, Layout, Role, stored_size};
use holdall_json::write_string;
use std::fmt::Write as _;
use std::ops::Range;

/// The alignment of the data that the format requires of writers, in bytes.
const OWN_ALIGN: u64 = 8;
/// The maximum alignment: a larger one would fill the header with padding.
const MAX_ALIGN: u64 = 1 << 26;

/// Creates an encoder of one file.
pub(super) fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    options.check_unversioned("safetensors has no versions")?;
    let align = options.align_within(1..=MAX_ALIGN, &ALIGN)?.unwrap_or(OWN_ALIGN);
    Ok(Box::new(Encoder {
        align: align.max(OWN_ALIGN),
        slots: Slots::new(&DIALECT, Vec::new(), 0),
    }))
}

struct Encoder {
    /// The alignment of the data.
    align: u64,
    /// The declared tensors, in the order of declaration.
    slots: Slots,
}

impl Encode for Encoder {
    fn header_first(&self) -> bool {
        true
    }

    /// All attributes that can be read back can be stored, in the header or as text.
    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        check_values(attributes)
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        self.check_attributes(&tensor.attributes).map_err(|e| e.in_tensor(&tensor.name))?;
        element(tensor).map(|_| ())
    }

    /// The order of the reference: by alignment, the widest first, then by name. With an alignment above 8, tensors
    /// whose size is a multiple of it come before all others. Aliases come last.
    fn order(&self, tensors: &[TensorSpec]) -> Vec<usize> {
        let key = |tensor: &TensorSpec| {
            let data = tensor.components.first();
            let is_alias = data.is_some_and(|c| c.shares.is_some());
            let is_loose = self.align > OWN_ALIGN
                && data.is_some_and(|c| !c.decoded_len.is_multiple_of(self.align));
            let rank = data
                .and_then(|c| by_meaning(c.dtype, c.logical_type.as_ref()))
                .map(ElementType::rank);
            (is_alias, is_loose, std::cmp::Reverse(rank.filter(|_| !is_alias)))
        };
        let mut order: Vec<_> =
            tensors.iter().map(|t| (key(t), t.name.as_str())).enumerate().collect();
        sort_by(&mut order, |(_, a), (_, b)| a.cmp(b));
        order.into_iter().map(|(at, _)| at).collect()
    }

    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        let (entries, metadata) = collect(attributes, declared)?;
        let mut text = String::from("{");
        metadata.write(&mut text);
        let mut end = 0u64;
        let mut ranges = Vec::with_capacity(declared.len());
        for (tensor, entry) in declared.iter().zip(&entries) {
            let Entry::Own(element, len) = *entry else {
                ranges.push(0..0);
                continue;
            };
            let start = end;
            end = end.checked_add(len).ok_or_else(|| {
                DECLARED.broken("the tensors together exceed 2^64 bytes").in_tensor(&tensor.name)
            })?;
            write_entry(tensor, element, start..end, &mut text);
            ranges.push(start..end);
        }
        text.push('}');
        let header = DIALECT.pad(&text, self.align)?;
        let data = header.len() as u64;
        let absolute = |offset: u64| {
            let message = "the file exceeds 2^64 bytes";
            data.checked_add(offset).ok_or_else(|| DECLARED.broken(message))
        };
        let mut slots = Vec::with_capacity(declared.len());
        for ((tensor, entry), range) in declared.iter().zip(&entries).zip(&ranges) {
            let (range, shares) = match entry {
                Entry::Own(..) => (range.clone(), None),
                Entry::Alias(first) => (ranges.get(*first).cloned().debug_unwrap(), Some(*first)),
            };
            let range = absolute(range.start)?..absolute(range.end)?;
            slots.push(Slot { tensor: tensor.name.clone(), component: 0, range, shares });
        }
        self.slots = Slots::new(&DIALECT, slots, absolute(end)?);
        Ok(header)
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

    fn finish(&mut self, end: u64) -> Result<Bytes> {
        self.slots.finish(end)
    }
}

/// How a declared tensor is stored.
enum Entry {
    /// An entry of its own with this number of bytes.
    Own(&'static ElementType, u64),
    /// An alias of the declared tensor with this index.
    Alias(usize),
}

/// Checks all declared tensors, and collects the metadata about them.
fn collect<'a>(
    attributes: &'a Attributes,
    declared: &'a [TensorSpec],
) -> Result<(Vec<Entry>, WrittenMetadata<'a>)> {
    let mut metadata = WrittenMetadata::new(attributes);
    let mut entries = Vec::with_capacity(declared.len());
    let mut indices: HashMap<&str, usize> =
        HashMap::with_capacity_and_hasher(declared.len(), Default::default());
    for (at, tensor) in declared.iter().enumerate() {
        if indices.insert(&tensor.name, at).is_some() {
            return Err(DECLARED.broken("two tensors have this name").in_tensor(&tensor.name));
        }
    }
    for tensor in declared {
        let (element, data) = element(tensor)?;
        entries.push(match data.shares {
            None => Entry::Own(element, data.decoded_len),
            Some(_) => {
                let first = first_of(tensor, declared, &indices)?;
                let name = declared.get(first).map_or("", |t| &t.name);
                metadata.aliases.insert(&tensor.name, name);
                Entry::Alias(first)
            }
        });
        if !tensor.attributes.is_empty() {
            metadata.tensor_attributes.insert(&tensor.name, &tensor.attributes);
        }
    }
    Ok((entries, metadata))
}

/// Returns the index of the declared tensor whose bytes `alias` shares, at the end of a chain of aliases.
fn first_of(
    alias: &TensorSpec,
    declared: &[TensorSpec],
    indices: &HashMap<&str, usize>,
) -> Result<usize> {
    let blame = |message: String| ALIAS.broken(message).in_tensor(&alias.name);
    let same = |a: &ComponentSpec, b: &ComponentSpec| {
        a.dtype == b.dtype && a.logical_type == b.logical_type
    };
    let mut link = alias;
    for _ in 0..=declared.len() {
        let Some(shared) = link.components.first().and_then(|c| c.shares.as_ref()) else {
            break;
        };
        let found =
            indices.get(shared.tensor.as_str()).and_then(|&at| Some((at, declared.get(at)?)));
        let name = shared.tensor.escaped();
        let Some((at, next)) = found.filter(|_| shared.role == Role::Data) else {
            return Err(blame(format!("it shares the bytes of `{name}`, which is not written")));
        };
        let (own, other) = (alias.components.first(), next.components.first());
        let is_same = own.zip(other).is_some_and(|(a, b)| same(a, b)) && next.shape == alias.shape;
        if !is_same {
            return Err(blame(format!(
                "it shares the bytes of `{name}`, but has another dtype or shape"
            )));
        }
        if other.is_some_and(|c| c.shares.is_none()) {
            return Ok(at);
        }
        link = next;
    }
    Err(blame("the alias refers to itself".to_owned()))
}

/// Returns the element type and the only component of a tensor, if the format can store it.
fn element(tensor: &TensorSpec) -> Result<(&'static ElementType, &ComponentSpec)> {
    let blame = |e: Error| e.in_tensor(&tensor.name);
    if tensor.name == METADATA_KEY {
        return Err(blame(RESERVED_NAME.broken("this name is reserved for the metadata")));
    }
    if tensor.layout != Layout::Dense {
        let layout = tensor.layout.as_str().escaped();
        let e = LAYOUT.broken(format!("safetensors has no layout `{layout}`"));
        return Err(blame(match tensor.layout {
            // Tensors with an unknown layout cannot be made dense either.
            Layout::Records | Layout::Blob | Layout::Other(_) => e.with_remedy(Remedy::LeaveOut),
            _ => e,
        }));
    }
    let data = match tensor.components.as_slice() {
        [data] if data.role == Role::Data => data,
        all => {
            let roles: Vec<String> =
                all.iter().map(|c| c.role.as_str().escaped().to_string()).collect();
            let message = format!("expected one component `data`, found {}", roles.join(", "));
            return Err(blame(COMPONENTS.broken(message)));
        }
    };
    let Some(element) = by_meaning(data.dtype, data.logical_type.as_ref()) else {
        let name = data.logical_type.as_ref().map_or("", |t| t.as_str()).escaped();
        let message = format!("safetensors has no logical type `{name}` over {}", data.dtype);
        return Err(blame(LOGICAL_TYPE.broken(message)).in_component(Role::Data));
    };
    let expected = product(&tensor.shape)
        .and_then(|n| stored_size(n, data.dtype, data.logical_type.as_ref()).ok().flatten());
    if expected != Some(data.decoded_len) {
        let size = expected.map_or("a fractional number of".to_owned(), |n| n.to_string());
        let message = format!(
            "shape {:?} of {} requires {size} bytes, but {} are declared",
            tensor.shape, element.name, data.decoded_len
        );
        return Err(blame(DECLARED.broken(message)));
    }
    Ok((element, data))
}

/// Appends the entry of a tensor whose data is at `range` in the data.
fn write_entry(tensor: &TensorSpec, element: &ElementType, range: Range<u64>, out: &mut String) {
    if !out.ends_with('{') {
        out.push(',');
    }
    write_string(&tensor.name, out);
    // Writing to a String cannot fail.
    let _ = write!(out, ":{{\"dtype\":\"{}\",\"shape\":[", element.name);
    for (i, dim) in tensor.shape.iter().enumerate() {
        let _ = write!(out, "{}{dim}", if i > 0 { "," } else { "" });
    }
    let _ = write!(out, "],\"data_offsets\":[{},{}]}}", range.start, range.end);
}
