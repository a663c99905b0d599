//! Parses references in a header, without checking them against the schema (section 6.1).

use super::DIALECT;
use super::rules::{DTYPE, REFERENCE};
use crate::element::{ElementType, by_name};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::builder::RANK;
use holdall_json::{DUPLICATE_KEY, Reader};
use std::ops::Range;

/// A flat reference. Its shape is in [`References`].
pub(super) struct Flat {
    pub(super) element: &'static ElementType,
    /// The byte range in the data.
    pub(super) offsets: Range<u64>,
}

/// A number of consecutive items: the records of a dataset, or the entries of a blob.
pub(super) struct Counted {
    pub(super) count: u64,
    /// The byte range in the data.
    pub(super) offsets: Range<u64>,
    /// The heap of a dataset.
    pub(super) blob_data: Option<Flat>,
}

/// A blob.
pub(super) struct Blob {
    pub(super) entries: Counted,
    pub(super) blob_data: Flat,
}

/// Parses references. `shape` and `heap_shape` are the dimensions of the last one.
pub(super) struct References<'l> {
    pub(super) limits: &'l Limits,
    pub(super) shape: Vec<u64>,
    pub(super) heap_shape: Vec<u64>,
}

impl References<'_> {
    /// Parses a flat reference, and its dimensions into `shape`.
    pub(super) fn flat(&mut self, reader: &mut Reader<'_>) -> Result<Flat> {
        let mut shape = std::mem::take(&mut self.shape);
        let found = self.flat_into(reader, &mut shape);
        self.shape = shape;
        found
    }

    fn flat_into(&self, reader: &mut Reader<'_>, shape: &mut Vec<u64>) -> Result<Flat> {
        let mut fields = Fields::begin(reader)?;
        let (mut element, mut offsets, mut has_shape) = (None, None, false);
        let mut scratch = String::new();
        while let Some(field) = reader.next_key(&mut scratch)? {
            match field {
                "dtype" if element.is_none() => element = Some(dtype(reader)?),
                "shape" if !has_shape => {
                    self.dims(reader, shape)?;
                    has_shape = true;
                }
                "data_offsets" if offsets.is_none() => offsets = Some(pair(reader)?),
                "dtype" | "shape" | "data_offsets" => return Err(fields.twice(field, reader)),
                _ => reader.skip()?,
            }
        }
        fields.end(reader);
        let element = element.ok_or_else(|| fields.missing("dtype"))?;
        if !has_shape {
            return Err(fields.missing("shape"));
        }
        Ok(Flat { element, offsets: offsets.ok_or_else(|| fields.missing("data_offsets"))? })
    }

    /// Parses a dataset, and the dimensions of its heap into `heap_shape`.
    pub(super) fn dataset(&mut self, reader: &mut Reader<'_>) -> Result<Counted> {
        let mut fields = Fields::begin(reader)?;
        let (mut number, mut offsets, mut blob_data) = (None, None, None);
        let mut scratch = String::new();
        while let Some(field) = reader.next_key(&mut scratch)? {
            match field {
                "count" if number.is_none() => number = Some(typed(reader.u64())?),
                "data_offsets" if offsets.is_none() => offsets = Some(pair(reader)?),
                "blob_data" if blob_data.is_none() => blob_data = Some(self.heap(reader)?),
                "count" | "data_offsets" | "blob_data" => return Err(fields.twice(field, reader)),
                _ => reader.skip()?,
            }
        }
        fields.end(reader);
        let count = number.ok_or_else(|| fields.missing("count"))?;
        let offsets = offsets.ok_or_else(|| fields.missing("data_offsets"))?;
        Ok(Counted { count, offsets, blob_data })
    }

    /// Parses a blob, and the dimensions of its heap into `heap_shape`.
    pub(super) fn blob(&mut self, reader: &mut Reader<'_>) -> Result<Blob> {
        let mut fields = Fields::begin(reader)?;
        let (mut entries, mut blob_data) = (None, None);
        let mut scratch = String::new();
        while let Some(field) = reader.next_key(&mut scratch)? {
            match field {
                "entries" if entries.is_none() => entries = Some(counted(reader)?),
                "blob_data" if blob_data.is_none() => blob_data = Some(self.heap(reader)?),
                "entries" | "blob_data" => return Err(fields.twice(field, reader)),
                _ => reader.skip()?,
            }
        }
        fields.end(reader);
        let entries = entries.ok_or_else(|| fields.missing("entries"))?;
        let blob_data = blob_data.ok_or_else(|| fields.missing("blob_data"))?;
        Ok(Blob { entries, blob_data })
    }

    fn heap(&mut self, reader: &mut Reader<'_>) -> Result<Flat> {
        let mut shape = std::mem::take(&mut self.heap_shape);
        let found = self.flat_into(reader, &mut shape);
        self.heap_shape = shape;
        found.map_err(|e| e.in_component("blob_data"))
    }

    fn dims(&self, reader: &mut Reader<'_>, shape: &mut Vec<u64>) -> Result<()> {
        shape.clear();
        typed(reader.begin_array())?;
        while reader.next_item()? {
            if shape.len() >= self.limits.rank {
                let message = format!("more than {} dimensions", self.limits.rank);
                return Err(RANK.broken(message).at(reader.here()));
            }
            shape.push(typed(reader.u64())?);
        }
        Ok(())
    }
}

/// Parses `count` and `data_offsets`.
fn counted(reader: &mut Reader<'_>) -> Result<Counted> {
    let mut fields = Fields::begin(reader)?;
    let (mut number, mut offsets) = (None, None);
    let mut scratch = String::new();
    while let Some(field) = reader.next_key(&mut scratch)? {
        match field {
            "count" if number.is_none() => number = Some(typed(reader.u64())?),
            "data_offsets" if offsets.is_none() => offsets = Some(pair(reader)?),
            "count" | "data_offsets" => return Err(fields.twice(field, reader)),
            _ => reader.skip()?,
        }
    }
    fields.end(reader);
    let count = number.ok_or_else(|| fields.missing("count"))?;
    let offsets = offsets.ok_or_else(|| fields.missing("data_offsets"))?;
    Ok(Counted { count, offsets, blob_data: None })
}

/// The fields of an object that is a reference, or a part of one.
struct Fields {
    at: Range<u64>,
}

impl Fields {
    fn begin(reader: &mut Reader<'_>) -> Result<Fields> {
        reader.peek()?;
        let start = reader.offset();
        typed(reader.begin_object())?;
        Ok(Fields { at: start..start })
    }

    fn end(&mut self, reader: &Reader<'_>) {
        self.at.end = reader.offset();
    }

    #[cold]
    fn missing(&self, field: &str) -> Error {
        REFERENCE.broken(format!("missing field `{field}`")).at(self.at.clone())
    }

    #[cold]
    fn twice(&self, field: &str, reader: &Reader<'_>) -> Error {
        let message = format!("duplicate field `{field}`");
        DUPLICATE_KEY.broken(message).at(self.at.start..reader.offset())
    }
}

/// Turns the error of a field with the wrong type into an error of the reference.
pub(super) fn typed<T>(found: Result<T>) -> Result<T> {
    found.map_err(|e| match e.code() {
        "json/type" | "json/integer" => e.with_rule(&REFERENCE),
        _ => e,
    })
}

fn dtype(reader: &mut Reader<'_>) -> Result<&'static ElementType> {
    let mut scratch = String::new();
    let name = typed(reader.string(&mut scratch))?;
    by_name(name).ok_or_else(|| {
        DTYPE.broken(format!("unknown dtype `{}`", name.escaped())).at(reader.here())
    })
}

fn pair(reader: &mut Reader<'_>) -> Result<Range<u64>> {
    reader.peek()?;
    let from = reader.offset();
    typed(reader.begin_array())?;
    DIALECT.offsets(reader, from, |reader| typed(reader.u64()))
}
