//! Adds NumPy arrays to an index as tensors.

use bytes::Bytes;
use holdall_core::codec::check_decoded_len;
use holdall_core::codec::columns::ColumnMajor;
use holdall_core::codec::deflate_npy::DeflateNpy;
use holdall_core::codec::members::Members;
use holdall_core::codec::pipeline::Step;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::layout::strided::column_major;
use holdall_core::limits::Limits;
use holdall_core::model::builder::{CUT_SHORT, SIZE};
use holdall_core::model::{
    Attributes, ByteOrder, Component, DType, Digest, Encoding, IndexBuilder, Layout, Role, Value,
    element_count, stored_size,
};
use holdall_core::read::{Chunk, Chunked, EdgeChunks, Extent, Grid};
use holdall_core::wire::npy::{self, Fields, Header};
use holdall_schema::TENSOR_SCHEMA_ATTRIBUTE;
use std::ops::Range;

/// The attribute that has the NumPy type (`descr`) of an array whose type has no counterpart among the dtypes.
pub(super) use holdall_core::wire::npy::DESCR_KEYWORD as DESCR;

/// The attribute that has the shape of a structured array that does not have exactly one dimension.
pub(super) const SHAPE: &str = "numpy.shape";
/// The number of bytes at the start of an `.npy` file that give the length of its header.
pub(super) const START: u64 = 12;
/// The length of most headers, in bytes.
pub(super) const USUAL: u64 = 128;
/// The number of stored bytes in one chunk of records, unless that would make more than [`MAX_CHUNKS`] chunks.
const CHUNK: u64 = 1 << 20;
/// The maximum number of chunks of an array.
const MAX_CHUNKS: u64 = 1 << 16;

/// The location of an array's elements, and how to decode them.
#[derive(Debug)]
pub struct Elements {
    /// The stored bytes.
    pub stored: Extent,
    /// How to decode the stored bytes.
    pub encoding: Encoding,
    /// The length after decoding, in bytes.
    pub len: u64,
    /// The digest of the stored bytes.
    pub digest: Option<Digest>,
}

/// Adds the array that `header` describes as a tensor. An array stored in column-major order has the layout
/// [`Layout::Strided`]. If `elements` has another length than dtype and shape require, the tensor gets a fault. No
/// error is returned in this case.
///
/// # Errors
/// Returns the errors of [`IndexBuilder::tensor`] and [`IndexBuilder::component`].
pub fn add_array(
    builder: &mut IndexBuilder,
    name: &str,
    header: &Header,
    elements: Elements,
    mut attributes: Attributes,
) -> Result<()> {
    if let Some(fields) = &header.fields {
        return add_records(builder, name, header, fields, elements, attributes);
    }
    let outer = header.shape.len().saturating_sub(header.inner.iter().len());
    let strides = column_major(header.shape.get(..outer).unwrap_or_default(), header.inner)
        .filter(|_| header.fortran_order);
    let layout = if strides.is_some() { Layout::Strided } else { Layout::Dense };
    builder.tensor(name, &header.shape, layout)?;
    if let Some(descr) = &header.descr {
        attributes.push(DESCR, Value::Text(descr.clone()));
    }
    let is_strided = strides.is_some();
    for (key, value) in strides.iter().flat_map(Attributes::iter) {
        attributes.push(key, value.clone());
    }
    builder.tensor_attributes(attributes);
    let count = element_count(&header.shape).unwrap_or(u64::MAX);
    let expected = stored_size(count, header.dtype, header.logical_type.as_ref()).ok().flatten();
    let (stored, len) = (elements.stored, elements.len);
    builder.component(Component {
        role: Role::Data,
        dtype: header.dtype,
        logical_type: header.logical_type.clone(),
        encoding: elements.encoding,
        byte_order: header.byte_order,
        stored,
        decoded_len: Some(len),
        digest: elements.digest,
    })?;
    // The builder itself checks the length of dense tensors.
    if is_strided && expected != Some(len) {
        let (shape, expected) = (&header.shape, expected.unwrap_or(u64::MAX));
        let message = format!("shape {shape:?} requires {expected} bytes, found {len}");
        builder.fault(SIZE.broken(message).in_component(Role::Data).at(stored.range()));
    }
    Ok(())
}

/// Adds the arrays of an `.npy` file of `len` bytes. The file is source number `source` of the index, and `bytes`
/// returns the bytes of a range of it. Usually there is one array, whose header is `first`. There are more if
/// `numpy.save` was called several times with the same open file.
///
/// Returns the number of arrays, and whether the last one is cut short.
///
/// # Errors
/// Returns the errors of `bytes`, of reading a header, and of [`add_array`].
pub fn add_arrays<E: From<Error>>(
    builder: &mut IndexBuilder,
    name: &str,
    source: u32,
    first: Header,
    len: u64,
    bytes: &impl Fn(Range<u64>) -> Result<Bytes, E>,
) -> Result<(u64, bool), E> {
    let (mut header, mut start, mut number) = (first, 0u64, 0u64);
    loop {
        start = start.saturating_add(header.len);
        let there = len.saturating_sub(start);
        let wanted = header.elements_len();
        let is_cut = wanted.is_some_and(|wanted| wanted > there);
        if builder.limits().salvage {
            keep_whole(builder, name, &mut header, there);
        }
        let own = header.elements_len().map_or(there, |own| own.min(there));
        let end = start.saturating_add(own);
        let stored = Extent::new(source, start..end);
        let elements = Elements { stored, encoding: Encoding::Raw, len: own, digest: None };
        let name = if number == 0 { name.to_owned() } else { format!("{name}.{number}") };
        add_array(builder, &name, &header, elements, Attributes::new())?;
        number = number.saturating_add(1);
        let rest = if is_cut { 0 } else { len.saturating_sub(end) };
        let next = end..end.saturating_add(rest.min(USUAL));
        if rest < START || !bytes(next)?.starts_with(npy::MAGIC_BYTES) {
            if rest > 0 {
                builder
                    .unrepresented(|| format!("{rest} bytes after the array `{}`", name.escaped()));
                builder.warn("npy/passed-over", Some(&name), None, || {
                    format!("{rest} bytes after the array are ignored").into()
                });
            }
            return Ok((number, is_cut));
        }
        header = array_header(end, len, bytes)?;
        start = end;
    }
}

/// Reduces the shape in the header of an array that is cut short to the rows that are complete, or to the columns if
/// the array is stored in column-major order. `there` is the number of bytes that remain of the array. Leaves the
/// header unchanged if no row is complete.
fn keep_whole(builder: &mut IndexBuilder, name: &str, header: &mut Header, there: u64) {
    let Some(wanted) = header.elements_len().filter(|wanted| *wanted > there) else { return };
    let outer = header.shape.len().saturating_sub(header.inner.iter().len());
    let (at, what) = match header.fortran_order {
        true => (outer.checked_sub(1), "columns"),
        false => (Some(0).filter(|_| outer > 0), "rows"),
    };
    let Some(count) = at.and_then(|at| header.shape.get_mut(at)) else { return };
    let rows = wanted.checked_div(*count).and_then(|len| there.checked_div(len)).unwrap_or(0);
    if rows == 0 {
        return;
    }
    let all = std::mem::replace(count, rows);
    builder.warn(CUT_SHORT.code, Some(name), None, || {
        format!("only the first {rows} of {all} {what} are in the file").into()
    });
}

/// Reads the header that starts at `offset` of a file of `len` bytes. `bytes` returns the bytes of a range of the
/// file.
///
/// # Errors
/// Returns the errors of `bytes` and of [`npy::read_any`].
pub fn array_header<E: From<Error>>(
    offset: u64,
    len: u64,
    bytes: &impl Fn(Range<u64>) -> Result<Bytes, E>,
) -> Result<Header, E> {
    let upto = |count: u64| offset..offset.saturating_add(count).min(len);
    let len = npy::header_len(&bytes(upto(START))?)?;
    Ok(npy::read_any(&bytes(upto(len))?)?)
}

/// Adds a structured array as a dataset with its records in row-major order, even if the array is stored in
/// column-major order. Records are decoded to little-endian members without padding. If they are stored in another way,
/// the component is built from chunks. If the attributes contain a schema, it describes the stored records, which are
/// then used as they are.
fn add_records(
    builder: &mut IndexBuilder,
    name: &str,
    header: &Header,
    fields: &Fields,
    elements: Elements,
    mut attributes: Attributes,
) -> Result<()> {
    let Elements { stored, encoding, len, ref digest } = elements;
    let shape = &header.shape;
    let count = element_count(shape).unwrap_or(u64::MAX);
    builder.tensor(name, &[count], Layout::Records)?;
    if count.checked_mul(fields.size()) != Some(len) {
        let size = fields.size();
        let message =
            format!("shape {shape:?} of records of {size} bytes each does not match {len} bytes");
        builder.claim(stored)?;
        builder.fault(SIZE.broken(message).in_component(Role::Data).at(stored.range()));
        return Ok(());
    }
    let (kind, members) = schema_of(fields, attributes.get(TENSOR_SCHEMA_ATTRIBUTE));
    describe(&mut attributes, kind, shape);
    builder.tensor_attributes(attributes);
    let mut steps = Vec::new();
    let mut decoded = len;
    if let Some(members) = members.filter(|_| count > 0) {
        decoded = members.decoded_len(len);
        steps.push(Step::new(members));
    }
    let is_whole = header.fortran_order && count > 0 && column_major(shape, None).is_some();
    if is_whole {
        steps.push(Step::new(ColumnMajor::new(shape, fields.size())));
    }
    let (extent, encoding, len, digest) = match steps.is_empty() {
        true => (stored, encoding, len, digest.clone()),
        false => {
            builder.claim(stored)?;
            match chunked(steps, is_whole, count, decoded, elements, builder.limits()) {
                Ok(chunked) => (builder.chunked(chunked)?, Encoding::Raw, decoded, None),
                Err(e) => {
                    builder.fault(e);
                    return Ok(());
                }
            }
        }
    };
    builder.component(Component {
        role: Role::Data,
        dtype: DType::U8,
        logical_type: None,
        encoding,
        byte_order: ByteOrder::Little,
        stored: extent,
        decoded_len: Some(len),
        digest,
    })
}

/// Returns the schema of the records, and the step that decodes the stored records to it if their stored form differs.
/// `own` is the schema that a file written by Holdall has among its attributes. It describes the records as they are
/// stored, so it is used only for little-endian ones.
pub(super) fn schema_of(fields: &Fields, own: Option<&Value>) -> (Value, Option<Members>) {
    match own.filter(|_| fields.is_little_endian()) {
        Some(own) => (own.clone(), None),
        None => (Value::Text(fields.schema()), fields.members()),
    }
}

/// Sets the attributes of a dataset that have the schema of its records and, unless the array has one dimension, its
/// shape.
pub(super) fn describe(attributes: &mut Attributes, kind: Value, shape: &[u64]) {
    if shape.len() != 1 {
        let dims = shape.iter().map(|dim| Value::Integer((*dim).into()));
        attributes.set(SHAPE, Value::Array(dims.collect()));
    }
    attributes.set(TENSOR_SCHEMA_ATTRIBUTE, kind);
}

/// Divides an array of `count` records into chunks. `steps` decode the stored `elements` to `decoded` bytes. Raw
/// records in row-major order are divided into runs of several records. An array that is compressed, or that a step
/// needs whole, is one chunk.
pub(super) fn chunked(
    mut steps: Vec<Step>,
    is_whole: bool,
    count: u64,
    decoded: u64,
    elements: Elements,
    limits: &Limits,
) -> Result<Chunked> {
    let Elements { stored, encoding, len, .. } = elements;
    let of_one = |bytes: u64| bytes.checked_div(count).unwrap_or(0);
    let (size, width) = (of_one(len), of_one(decoded));
    if encoding != Encoding::Raw {
        steps.push(Step::new(DeflateNpy));
    }
    let every = match encoding {
        Encoding::Raw if !is_whole => {
            let some = CHUNK.checked_div(size).unwrap_or(1);
            some.max(count.div_ceil(MAX_CHUNKS)).min(count).max(1)
        }
        _ => {
            check_decoded_len(len, stored.len(), limits)?;
            count
        }
    };
    let firsts = || (0..count).step_by(usize::try_from(every).unwrap_or(usize::MAX));
    let chunk = |(number, first): (u64, u64)| {
        let end = first.saturating_add(every).min(count);
        let part = first.saturating_mul(size)..end.saturating_mul(size);
        let stored = if encoding == Encoding::Raw { stored.part(part) } else { stored };
        Chunk { number, stored, skipped_steps: 0 }
    };
    let chunks = (0..).zip(firsts()).map(chunk).collect();
    // The grid is that of an array of bytes, divided at the start of a record.
    let starts = firsts().map(|first| first.saturating_mul(width)).collect();
    let grid = Grid::cut(&[count.saturating_mul(width)], vec![starts], 1);
    let grid = grid.ok_or_else(|| {
        SIZE.broken(format!("cannot divide {count} records of {width} bytes into chunks"))
    })?;
    Chunked::new(grid, vec![0], steps, EdgeChunks::Filtered, chunks)
}
