//! Reads `tensors` together with the schema: sections 6.1 to 6.6.

use super::kind::Kinds;
use super::metadata::Metadata;
use super::ranges::Ranges;
use super::reference::{Flat, References};
use super::rules::*;
use super::{ENTRY_ALIGN, ENTRY_LEN};
use holdall_collections::HashMap;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::builder::SHAPE_OVERFLOW;
use holdall_core::model::{
    ByteOrder, Component, DType, Encoding, IndexBuilder, Layout, LogicalType, Role, element_count,
    stored_size,
};
use holdall_json::Reader;
use holdall_schema::{
    Checker, Content, Dim, Len, Node, NodeId, Schema, Symbols, TensorDType, TensorType, TypeId,
};
use serde_json::Value as Json;
use std::ops::Range;

/// The maximum offset in a file.
const MAX_OFFSET: u64 = i64::MAX as u64;

/// The file that contains the tensors.
#[derive(Clone, Copy)]
pub(super) struct Source<'l> {
    /// The length of the file.
    pub(super) len: u64,
    /// The offset of the data.
    pub(super) data: u64,
    pub(super) limits: &'l Limits,
}

/// The state of one pass over `tensors`.
pub(super) struct Walk<'s> {
    pub(super) schema: &'s Schema,
    kinds: Kinds<'s>,
    /// The text from which the schema was compiled.
    pub(super) json: &'s Json,
    /// Created for the first plain value.
    pub(super) checker: Option<Checker<'s>>,
    metadata: &'s mut Metadata,
    pub(super) source: Source<'s>,
    /// The values of symbols, as far as references have determined them.
    pub(super) symbols: Symbols,
    /// Whether the symbols of the schema have been replaced by their values.
    pub(super) symbols_are_known: bool,
    pub(super) builder: IndexBuilder,
    pub(super) ranges: Ranges,
    /// The plain values: path and JSON text.
    pub(super) values: Vec<(String, String)>,
    /// The number of further values that are allowed in plain values.
    pub(super) values_left: u64,
    references: References<'s>,
    /// The path of the current node.
    pub(super) path: String,
    /// The number of tensors so far.
    count: usize,
    /// The keys of the open objects, concatenated, and the end of each key.
    pub(super) keys: String,
    pub(super) ends: Vec<usize>,
    /// The number of required members of each object.
    pub(super) required: HashMap<NodeId, usize>,
}

impl<'s> Walk<'s> {
    pub(super) fn new(
        schema: &'s Schema,
        json: &'s Json,
        kinds: Kinds<'s>,
        metadata: &'s mut Metadata,
        source: Source<'s>,
        builder: IndexBuilder,
    ) -> Walk<'s> {
        let limits = source.limits;
        Walk {
            schema,
            kinds,
            json,
            checker: None,
            metadata,
            source,
            symbols: Symbols::new(),
            symbols_are_known: true,
            builder,
            ranges: Ranges::default(),
            values: Vec::new(),
            values_left: limits.attribute_values,
            references: References { limits, shape: Vec::new(), heap_shape: Vec::new() },
            path: String::new(),
            count: 0,
            keys: String::new(),
            ends: Vec::new(),
            required: HashMap::default(),
        }
    }

    /// Reads the JSON for a node. The recursion is bounded by the reader.
    pub(super) fn node(&mut self, id: NodeId, reader: &mut Reader<'_>) -> Result<()> {
        let schema = self.schema;
        reader.peek()?;
        let start = reader.offset();
        let found = match schema.node(id) {
            Node::Flat { tensor, align } => self.flat(tensor, *align, reader),
            Node::Dataset { items, len, align, .. } => {
                self.dataset(id, *items, *len, *align, reader)
            }
            Node::Blob { content, .. } => self.blob(id, heap_align(content), reader),
            Node::Object(object) => self.object(id, object, reader),
            Node::List { items, min, max } => self.list(*items, *min, *max, reader),
            Node::Plain { .. } => self.plain(Some(id), reader),
            _ => Err(REFERENCE.broken("the schema node has an unknown kind")),
        };
        found.map_err(|e| self.blame(e, start..reader.offset()))
    }

    #[cold]
    pub(super) fn blame(&self, e: Error, at: Range<u64>) -> Error {
        let e = e.at(at);
        if self.path.is_empty() { e } else { e.in_tensor(self.path.as_str()) }
    }

    fn flat(
        &mut self,
        wanted: &TensorType,
        align: Option<u32>,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        let found = self.references.flat(reader)?;
        let shape = std::mem::take(&mut self.references.shape);
        check_dtype(found.element.named, wanted)?;
        self.check_shape(&shape, wanted.shape.as_deref())?;
        let align = u64::from(align.unwrap_or_else(|| found.element.named.align()));
        let range = self.sized(&found, &shape, align)?;
        self.tensor(&shape, Layout::Dense, None)?;
        let (dtype, logical_type) = (found.element.dtype, found.element.logical_type.clone());
        self.component(Role::Data, dtype, logical_type, range, align)?;
        self.references.shape = shape;
        Ok(())
    }

    fn dataset(
        &mut self,
        id: NodeId,
        items: TypeId,
        len: Len,
        align: u32,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        let found = self.references.dataset(reader)?;
        let count = found.count;
        let (min, max) = match len {
            Len::Fixed(n) => (n, Some(n)),
            Len::Variable { min, max } => (min, max),
        };
        check_count(count, min, max)?;
        let ty = self.schema.ty(items);
        let heap = match (ty.heap_align, &found.blob_data) {
            (Some(align), Some(heap)) => Some(self.heap(heap, u64::from(align))?),
            (None, None) => None,
            (Some(_), None) => {
                return Err(
                    REFERENCE.broken("the records have entries, but `blob_data` is missing")
                );
            }
            (None, Some(_)) => {
                return Err(REFERENCE.broken("it has `blob_data`, but the records have no entries"));
            }
        };
        let align = u64::from(align);
        if self.symbols_are_known {
            let stride = self.schema.extent(items)?.stride;
            let size = count.checked_mul(stride);
            check_size(&found.offsets, size, || format!("{count} records of {stride} bytes"))?;
        }
        let range = self.aligned(&found.offsets, align)?;
        self.tensor(&[count], Layout::Records, Some(id))?;
        self.component(Role::Data, DType::U8, None, range, align)?;
        match heap {
            Some((range, align)) => self.component(Role::BlobData, DType::U8, None, range, align),
            None => Ok(()),
        }
    }

    fn blob(&mut self, id: NodeId, heap_align: u64, reader: &mut Reader<'_>) -> Result<()> {
        let found = self.references.blob(reader)?;
        let count = found.entries.count;
        let offsets = &found.entries.offsets;
        let what = || format!("{count} entries of {ENTRY_LEN} bytes");
        check_size(offsets, count.checked_mul(ENTRY_LEN), what)
            .map_err(|e| e.in_component(Role::Entries))?;
        let range =
            self.aligned(offsets, ENTRY_ALIGN).map_err(|e| e.in_component(Role::Entries))?;
        let (heap, heap_align) = self.heap(&found.blob_data, heap_align)?;
        self.tensor(&[count], Layout::Blob, Some(id))?;
        self.component(Role::Entries, DType::U64, None, range, ENTRY_ALIGN)?;
        self.component(Role::BlobData, DType::U8, None, heap, heap_align)
    }

    /// Returns the byte range of a `blob_data`, and its alignment.
    fn heap(&mut self, found: &Flat, align: u64) -> Result<(Range<u64>, u64)> {
        let check = || {
            if found.element.named != TensorDType::U8 {
                let found = found.element.named;
                return Err(
                    DTYPE.broken(format!("the dtype of `blob_data` is {found}, expected U8"))
                );
            }
            if self.references.heap_shape.len() != 1 {
                let rank = self.references.heap_shape.len();
                return Err(SHAPE.broken(format!("`blob_data` has {rank} dimensions, expected 1")));
            }
            self.sized(found, &self.references.heap_shape, align)
        };
        let range = check().map_err(|e| e.in_component(Role::BlobData))?;
        Ok((range, align))
    }

    fn check_shape(&mut self, shape: &[u64], wanted: Option<&[Dim]>) -> Result<()> {
        let Some(wanted) = wanted else { return Ok(()) };
        if shape.len() != wanted.len() {
            let (found, wanted) = (shape.len(), wanted.len());
            let message = format!("expected {wanted} dimensions as in the schema, found {found}");
            return Err(SHAPE.broken(message));
        }
        for (at, (&found, wanted)) in shape.iter().zip(wanted).enumerate() {
            match wanted {
                Dim::Any => {}
                Dim::Known(wanted) if *wanted == found => {}
                Dim::Known(wanted) => {
                    let message =
                        format!("dimension {at} is {found}, expected {wanted} as in the schema");
                    return Err(SHAPE.broken(message));
                }
                Dim::Symbol(name) => match self.symbols.get(name) {
                    None => {
                        self.symbols.insert(name.clone(), found);
                    }
                    Some(&bound) if bound == found => {}
                    Some(bound) => {
                        let name = name.escaped();
                        let message =
                            format!("dimension {at}, `{name}`, is {found}, but {bound} elsewhere");
                        return Err(SYMBOL.broken(message));
                    }
                },
            }
        }
        Ok(())
    }

    /// Returns the byte range of a reference in the file, if its length is that of dtype and shape.
    fn sized(&self, found: &Flat, shape: &[u64], align: u64) -> Result<Range<u64>> {
        let element = found.element;
        let size = element_count(shape).and_then(|count| {
            stored_size(count, element.dtype, element.logical_type.as_ref()).ok().flatten()
        });
        let Some(size) = size else {
            let message = format!(
                "shape {shape:?} of {} does not have a whole number of bytes below 2^64",
                element.name
            );
            return Err(SHAPE_OVERFLOW.broken(message));
        };
        check_size(&found.offsets, Some(size), || format!("shape {shape:?} of {}", element.name))?;
        self.aligned(&found.offsets, align)
    }

    /// Returns the byte range in the file, if it is aligned and not too far away.
    fn aligned(&self, offsets: &Range<u64>, align: u64) -> Result<Range<u64>> {
        let absolute = |offset: u64| {
            self.source.data.checked_add(offset).filter(|&o| o <= MAX_OFFSET).ok_or_else(|| {
                BOUNDS.broken(format!("the offset {offset} in the data is past 2^63 in the file"))
            })
        };
        let range = absolute(offsets.start)?..absolute(offsets.end)?;
        if !offsets.start.is_multiple_of(align) {
            let start = offsets.start;
            let message =
                format!("it starts at {start} of the data, which is not a multiple of {align}");
            return Err(ALIGN.broken(message));
        }
        Ok(range)
    }

    /// Adds a tensor, with its attributes from the metadata and the schema.
    fn tensor(&mut self, shape: &[u64], layout: Layout, kind: Option<NodeId>) -> Result<()> {
        let name = self.metadata.names.remove(&self.path);
        let name = name.as_deref().unwrap_or(&self.path);
        let own = self.metadata.tensor_attributes.remove(name);
        self.builder.tensor(name, shape, layout)?;
        match kind {
            None => self.builder.tensor_attributes(own.unwrap_or_default()),
            Some(_) if !self.symbols_are_known => {}
            Some(id) => self.kinds.attach(self.schema, id, self.count, own, &mut self.builder)?,
        }
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Adds a component to the last tensor.
    fn component(
        &mut self,
        role: Role,
        dtype: DType,
        logical_type: Option<LogicalType>,
        range: Range<u64>,
        align: u64,
    ) -> Result<()> {
        self.ranges.push(range.clone(), align, self.count.saturating_sub(1));
        // Ranges past the end of the file are detected when all ranges are checked, with a better message.
        let stored = if range.is_empty() {
            let at = range.start.min(self.source.len);
            at..at
        } else {
            range
        };
        self.builder.component(Component {
            role,
            dtype,
            logical_type,
            encoding: Encoding::Raw,
            byte_order: ByteOrder::Little,
            decoded_len: Some(stored.end.saturating_sub(stored.start)),
            stored: stored.into(),
            digest: None,
        })
    }
}

/// Returns the alignment of a blob's heap: elements are aligned to their size.
pub(super) fn heap_align(content: &Content) -> u64 {
    match content {
        Content::Elements(dtype) => (dtype.bits() / 8).max(1),
        _ => 1,
    }
}

fn check_dtype(found: TensorDType, wanted: &TensorType) -> Result<()> {
    if wanted.accepts(found) {
        return Ok(());
    }
    let wanted = wanted.dtype_names().unwrap_or_default().replace('|', ", ");
    Err(DTYPE.broken(format!("the dtype is {found}, expected {wanted} as in the schema")))
}

pub(super) fn check_count(count: u64, min: u64, max: Option<u64>) -> Result<()> {
    if count < min {
        return Err(COUNT.broken(format!("{count} elements, at least {min} are required")));
    }
    match max {
        Some(max) if count > max => {
            Err(COUNT.broken(format!("{count} elements, at most {max} are allowed")))
        }
        _ => Ok(()),
    }
}

fn check_size(
    offsets: &Range<u64>,
    size: Option<u64>,
    what: impl FnOnce() -> String,
) -> Result<()> {
    let found = offsets.end.saturating_sub(offsets.start);
    if size == Some(found) {
        return Ok(());
    }
    let size = size.map_or("more than 2^64".to_owned(), |n| n.to_string());
    let message = format!(
        "{} requires {size} bytes, but {}..{} of the data has {found}",
        what(),
        offsets.start,
        offsets.end
    );
    Err(SIZE.broken(message))
}
