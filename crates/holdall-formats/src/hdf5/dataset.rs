//! Datasets: shape, datatype, and location of the data.

use super::attribute::{Attribute, Budget, attributes};
use super::chunks::{ChunkedDataset, Index};
use super::datatype::{Dataspace, Datatype, ElementKind, Elements};
use super::header::{Header, Message, kind};
use super::mapping::{Mapping, mappings};
use super::reader::{Reader, little};
use super::variable_length::Records;
use super::{CHUNK, EXTERNAL, FILTER, LAYOUT, MARK, STRUCTURE, VERSION};
use crate::array::{self, chunked, schema_of};
use holdall_collections::HashSet;
use holdall_core::codec::check_decoded_len;
use holdall_core::codec::fletcher32::Fletcher32;
use holdall_core::codec::lzf::Lzf;
use holdall_core::codec::members::Members;
use holdall_core::codec::pipeline::Step;
use holdall_core::codec::scale_offset::ScaleOffset;
use holdall_core::codec::shuffle::Shuffle;
use holdall_core::codec::zlib::Zlib;
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::{Encoding, Value};
use holdall_core::read::{Chunked, EdgeChunks, Grid};
use holdall_core::window::Stop;
use holdall_core::wire::cursor::Cursor;
use holdall_schema::TENSOR_SCHEMA_ATTRIBUTE;
use std::ops::Range;
use std::sync::Arc;

/// A dataset.
pub(super) struct Dataset {
    pub(super) shape: Vec<u64>,
    pub(super) attributes: Vec<Attribute>,
    /// The elements and the location of their bytes, or the error why they cannot be read.
    pub(super) data: Result<(Elements, Data)>,
    /// The schema of the records, if the elements are records that can be read.
    pub(super) kind: Option<Value>,
    /// The names of the values of an enumeration; empty for other elements.
    pub(super) names: Vec<(String, i128)>,
    /// The type of its elements as they are stored, and its dimensions without those of the elements.
    pub(super) datatype: Datatype,
    pub(super) outer: Vec<u64>,
    /// The number of values that count for its attributes and members. Each further path to the dataset counts as many
    /// again.
    pub(super) values: u64,
}

/// The location of the bytes of a dataset.
pub(super) enum Data {
    /// The byte range in the window.
    Contiguous(Range<u64>),
    Chunked(Box<Chunked>),
    /// Parts of other datasets, until these are known.
    Virtual(Box<Virtual>),
    /// Bytes in the index itself, read from the global heap.
    InIndex(Box<Records>),
}

/// A virtual dataset.
pub(super) struct Virtual {
    pub(super) mappings: Vec<Mapping>,
    /// The value of the elements that no mapping has.
    pub(super) fill: Vec<u8>,
    /// The number of bytes of the elements.
    pub(super) len: u64,
    /// The step that converts stored records, as in [`Found`].
    pub(super) members: Option<Arc<Members>>,
}

/// Returns `true` if an object is a dataset.
pub(super) fn is_dataset(header: &Header) -> bool {
    header.has(kind::LAYOUT)
}

/// Reads the dataset with this object header. Errors in its data are stored in [`Dataset::data`].
pub(super) fn dataset(
    reader: &Reader<'_>,
    header: &Header,
    budget: &mut Budget,
) -> Result<Dataset, Stop> {
    let before = budget.left();
    let mut attributes = attributes(reader, header, budget)?;
    let needed = |kind: u16, what: &str| {
        let message = header.get(reader, kind)?;
        let missing = || reader.broken(header.at, format!("the dataset has no {what}"));
        Ok::<Message, Stop>(message.ok_or_else(missing)?)
    };
    let datatype = needed(kind::DATATYPE, "datatype")?;
    let space = needed(kind::DATASPACE, "dataspace")?;
    let space = Dataspace::read(reader, space.at, &space.body)?;
    let datatype = Datatype::read(reader, datatype.at, &datatype.body)?;
    let mark = attributes.iter().find(|attribute| attribute.name == MARK);
    let mark = mark.and_then(|mark| mark.value.as_ref().ok()).and_then(Value::as_text);
    // A null dataspace has no elements, in one dimension.
    let outer = space.shape.clone().unwrap_or_else(|| vec![0]);
    let elements = datatype.elements(mark);
    let (mut kind, mut members) = (None, None);
    let names = datatype.innermost().names();
    budget.take(reader, names.len() as u64)?;
    if let Ok(Elements { what: ElementKind::Varying, .. }) = &elements {
        let nodes =
            datatype.innermost().field("", &HashSet::default()).map_or(0, |field| field.nodes());
        budget.take(reader, nodes)?;
    }
    if let Ok(Elements { what: ElementKind::Record(fields), .. }) = &elements {
        budget.take(reader, fields.nodes())?;
        let own = attributes.iter().find(|attribute| attribute.name == TENSOR_SCHEMA_ATTRIBUTE);
        let (kind_text, steps) = schema_of(fields, own.and_then(|own| own.value.as_ref().ok()));
        budget.take_bytes(reader, kind_text.as_text().map_or(0, str::len) as u64)?;
        (kind, members) = (Some(kind_text), steps.map(Arc::new));
    }
    // The attribute is redundant, because the tensor has this type.
    if elements.as_ref().is_ok_and(|elements| elements.is_marked) {
        attributes.retain(|attribute| attribute.name != MARK);
    }
    let inner = elements.as_ref().map_or(&[][..], |elements| &elements.inner);
    let shape = [outer.as_slice(), inner].concat();
    let found = match elements {
        Ok(elements) => {
            let found = Found { reader, header, datatype: &datatype, space: &space, members };
            match found.data(&outer) {
                Ok(data) => Ok((elements, data)),
                Err(Stop::Fail(e)) => Err(e),
                Err(need) => return Err(need),
            }
        }
        Err(e) => Err(e),
    };
    let kind = kind.filter(|_| found.is_ok());
    let values = before.saturating_sub(budget.left());
    Ok(Dataset { shape, attributes, data: found, kind, names, datatype, outer, values })
}

/// The messages in a dataset's header about its data.
struct Found<'a, 'w> {
    reader: &'a Reader<'w>,
    header: &'a Header,
    datatype: &'a Datatype,
    space: &'a Dataspace,
    /// The step that converts the stored records to those of the schema; `None` if they need no conversion, or elements
    /// are not records.
    members: Option<Arc<Members>>,
}

impl Found<'_, '_> {
    fn data(&self, shape: &[u64]) -> Result<Data, Stop> {
        let reader = self.reader;
        if self.header.has(kind::EXTERNAL) {
            return Err(EXTERNAL.broken("the data is in other files").into());
        }
        let Some(message) = self.header.get(reader, kind::LAYOUT)? else {
            return Err(LAYOUT
                .broken("the dataset has no layout message, so the location of its data is unknown")
                .into());
        };
        let width = u64::from(self.datatype.size);
        let count = holdall_core::model::element_count(shape);
        let Some(len) = count.and_then(|count| count.checked_mul(width)) else {
            let message =
                format!("{shape:?} elements of {width} bytes each have more than 2^64 bytes");
            return Err(holdall_core::model::builder::SHAPE_OVERFLOW.broken(message).into());
        };
        match self.layout(&message, len)? {
            Stored::Contiguous(at, found) if found >= len => {
                let stored = reader.locate(at, len)?;
                let Some(members) = self.members.clone().filter(|_| len > 0) else {
                    return Ok(Data::Contiguous(stored));
                };
                let decoded = members.decoded_len(len);
                let records = decoded.checked_div(members.decoded()).unwrap_or(0);
                let stored = stored.into();
                let elements =
                    array::Elements { stored, encoding: Encoding::Raw, len, digest: None };
                let steps = vec![Step::shared(members)];
                let array = chunked(steps, false, records, decoded, elements, reader.limits)?;
                Ok(Data::Chunked(Box::new(array)))
            }
            Stored::Contiguous(_, found) => {
                let message = format!("the shape {shape:?} requires {len} bytes, found {found}");
                Err(reader.broken(self.header.at, message).into())
            }
            Stored::Virtual(at, number) => {
                let mappings = mappings(reader, at, number)?;
                let (fill, members) = (self.fill()?, self.members.clone());
                Ok(Data::Virtual(Box::new(Virtual { mappings, fill, len, members })))
            }
            Stored::Unallocated if len == 0 => Ok(Data::Contiguous(0..0)),
            Stored::Unallocated => {
                let whole: Vec<u64> = shape.iter().map(|dim| (*dim).max(1)).collect();
                self.chunked(shape, &whole, Vec::new(), EdgeChunks::Filtered, Vec::new())
            }
            Stored::Chunks { chunk, edges, index, at } => {
                let filters = self.filters()?;
                let grid = self.grid(shape, &chunk, width)?;
                let chunked = ChunkedDataset {
                    grid: &grid,
                    chunk: &chunk,
                    max_shape: &self.space.most,
                    has_filters: self.header.has(kind::FILTERS),
                };
                let chunks = match at {
                    Some(at) if len > 0 => chunked.chunks(reader, &index, at)?,
                    _ => Vec::new(),
                };
                self.chunked(shape, &chunk, filters, edges, chunks)
            }
        }
    }

    fn grid(&self, shape: &[u64], chunk: &[u64], width: u64) -> Result<Grid> {
        let refused = || {
            CHUNK.broken(format!(
                "chunks of {chunk:?} elements of {width} bytes do not fit the shape {shape:?}"
            ))
        };
        Grid::new(shape, chunk, width).ok_or_else(refused)
    }

    fn chunked(
        &self,
        shape: &[u64],
        chunk: &[u64],
        mut filters: Vec<Step>,
        edges: EdgeChunks,
        mut chunks: Vec<holdall_core::read::Chunk>,
    ) -> Result<Data, Stop> {
        let mut fill = self.fill()?;
        if let Some(members) = &self.members {
            fill = members.decode(&fill)?;
            // The records are converted after all filters are undone.
            filters.insert(0, Step::shared(members.clone()));
            chunks.iter_mut().for_each(|chunk| chunk.skipped_steps <<= 1);
        }
        let grid = self.grid(shape, chunk, fill.len() as u64)?;
        let has_chunks = !chunks.is_empty();
        let chunked = Chunked::new(grid, fill, filters, edges, chunks)?;
        let (limits, stored) = (self.reader.limits, chunked.stored_len());
        check_decoded_len(chunked.len(), stored, limits)?;
        if has_chunks {
            check_decoded_len(chunked.chunk_len(), stored, limits)?;
        }
        Ok(Data::Chunked(Box::new(chunked)))
    }

    /// Reads the layout message. `len` is the number of bytes of the elements.
    fn layout(&self, message: &Message, len: u64) -> Result<Stored> {
        let reader = self.reader;
        let version = message.body.first().copied().unwrap_or_default();
        if !(1..=5).contains(&version) {
            return Err(VERSION.broken(format!("unsupported layout version {version}")));
        }
        reader.read(message.at, "a layout", &message.body, |cursor| {
            cursor.u8()?;
            Some(match version {
                1 | 2 => self.layout_v1(cursor, message.at, len)?,
                _ => self.layout_v3(cursor, message.at, version)?,
            })
        })?
    }

    fn layout_v1(&self, cursor: &mut Cursor<'_>, at: u64, len: u64) -> Option<Result<Stored>> {
        let (rank, class) = (cursor.u8()?, cursor.u8()?);
        cursor.take(5)?;
        let address = if class == 0 { None } else { self.reader.address(cursor)? };
        let dims: Option<Vec<u64>> = (0..rank).map(|_| cursor.u32_le().map(u64::from)).collect();
        Some(match class {
            0 => {
                let len = cursor.u32_le()?.into();
                cursor.clone().take(len)?;
                Ok(Stored::Contiguous(at.saturating_add(cursor.position()), len))
            }
            1 => Ok(address.map_or(Stored::Unallocated, |at| Stored::Contiguous(at, len))),
            2 => self.chunk(dims?, EdgeChunks::Filtered, Index::Tree, address),
            _ => Err(LAYOUT.broken(format!("unknown layout class {class}"))),
        })
    }

    fn layout_v3(&self, cursor: &mut Cursor<'_>, at: u64, version: u8) -> Option<Result<Stored>> {
        let reader = self.reader;
        let class = cursor.u8()?;
        Some(match class {
            0 => {
                let len = cursor.u16_le()?.into();
                cursor.clone().take(len)?;
                Ok(Stored::Contiguous(at.saturating_add(cursor.position()), len))
            }
            1 => {
                let (address, len) = (reader.address(cursor)?, reader.length(cursor)?);
                Ok(address.map_or(Stored::Unallocated, |at| Stored::Contiguous(at, len)))
            }
            2 if version == 3 => {
                let (rank, address) = (cursor.u8()?, reader.address(cursor)?);
                let dims: Option<Vec<u64>> =
                    (0..rank).map(|_| cursor.u32_le().map(u64::from)).collect();
                self.chunk(dims?, EdgeChunks::Filtered, Index::Tree, address)
            }
            2 => {
                let (flags, rank, dim_len) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
                let dims: Option<Vec<u64>> =
                    (0..rank).map(|_| cursor.take(dim_len.into()).and_then(little)).collect();
                let edges = if flags & 1 == 1 { EdgeChunks::Plain } else { EdgeChunks::Filtered };
                let index = match cursor.u8()? {
                    1 if flags & 2 != 0 => {
                        Index::Single(Some((reader.length(cursor)?, cursor.u32_le()?)))
                    }
                    1 => Index::Single(None),
                    2 => Index::Implicit,
                    3 => cursor.take(1).map(|_| Index::FixedArray)?,
                    4 => cursor.take(5).map(|_| Index::ExtensibleArray)?,
                    5 => cursor.take(6).map(|_| Index::BTreeV2)?,
                    other => {
                        let message = format!("unknown type of chunk index {other}");
                        return Some(Err(LAYOUT.broken(message)));
                    }
                };
                self.chunk(dims?, edges, index, reader.address(cursor)?)
            }
            3 => {
                let (at, number) = (reader.address(cursor)?, cursor.u32_le()?);
                let missing = || LAYOUT.broken("the virtual dataset has no mappings");
                at.map(|at| Stored::Virtual(at, number)).ok_or_else(missing)
            }
            _ => Err(LAYOUT.broken(format!("unknown layout class {class}"))),
        })
    }

    /// Checks the dimensions of a chunk. The last is the length of an element.
    fn chunk(
        &self,
        mut dims: Vec<u64>,
        edges: EdgeChunks,
        index: Index,
        at: Option<u64>,
    ) -> Result<Stored> {
        let width = dims.pop();
        let rank = self.space.shape.as_ref().map_or(0, Vec::len);
        if width != Some(self.datatype.size.into()) || dims.len() != rank || dims.contains(&0) {
            let size = self.datatype.size;
            let message = format!(
                "chunks of {dims:?} elements of {width:?} bytes do not fit {rank} dimensions of {size}-byte elements"
            );
            return Err(CHUNK.broken(message));
        }
        Ok(Stored::Chunks { chunk: dims, edges, index, at })
    }

    /// Returns the value of elements that were never written.
    fn fill(&self) -> Result<Vec<u8>, Stop> {
        let reader = self.reader;
        let width = usize::try_from(self.datatype.size).unwrap_or(usize::MAX);
        let mut fill = None;
        if let Some(message) = self.header.get(reader, kind::FILL)? {
            let read = |cursor: &mut Cursor<'_>| {
                let is_defined = match cursor.u8()? {
                    1 | 2 => {
                        cursor.take(2)?;
                        cursor.u8()? == 1
                    }
                    _ => cursor.u8()? & 32 != 0,
                };
                Some(if is_defined { value(cursor)? } else { Vec::new() })
            };
            fill = Some(reader.read(message.at, "a fill value", &message.body, read)?);
        } else if let Some(message) = self.header.get(reader, kind::OLD_FILL)? {
            fill = Some(reader.read(message.at, "a fill value", &message.body, value)?);
        }
        // No value, or a value of a type that cannot be read.
        Ok(match fill {
            Some(fill) if fill.len() == width => fill,
            _ if width <= MAX_FILL => vec![0; width],
            _ => {
                let message = format!("elements of {width} bytes that were never written");
                return Err(STRUCTURE.broken(message).into());
            }
        })
    }

    /// Returns the filters of the chunks.
    fn filters(&self) -> Result<Vec<Step>, Stop> {
        let Some(message) = self.header.get(self.reader, kind::FILTERS)? else {
            return Ok(Vec::new());
        };
        let read = |cursor: &mut Cursor<'_>| {
            let (version, count) = (cursor.u8()?, cursor.u8()?);
            if !matches!(version, 1 | 2) {
                return Some(Err(VERSION.broken(format!("unsupported filter version {version}"))));
            }
            cursor.take(if version == 1 { 6 } else { 0 })?;
            let mut filters = Vec::new();
            for _ in 0..count {
                let id = cursor.u16_le()?;
                let has_name = version == 1 || id >= 256;
                let name_len = if has_name { cursor.u16_le()? } else { 0 };
                let (_, count) = (cursor.u16_le()?, cursor.u16_le()?);
                let name_len = match version {
                    1 => u64::from(name_len).next_multiple_of(8),
                    _ => name_len.into(),
                };
                let name = cursor.take(name_len)?;
                let values: Option<Vec<u32>> = (0..count).map(|_| cursor.u32_le()).collect();
                cursor.take(if version == 1 && count % 2 == 1 { 4 } else { 0 })?;
                match filter(id, name, &values?) {
                    Ok(filter) => filters.push(filter),
                    Err(e) => return Some(Err(e)),
                }
            }
            Some(Ok(filters))
        };
        Ok(self.reader.read(message.at, "a list of filters", &message.body, read)??)
    }
}

/// The maximum length of a fill value, in bytes.
const MAX_FILL: usize = 1 << 20;

/// The location of data, as the layout message gives it.
enum Stored {
    /// An offset and a length.
    Contiguous(u64, u64),
    /// No bytes: all elements have the fill value.
    Unallocated,
    Chunks {
        chunk: Vec<u64>,
        edges: EdgeChunks,
        index: Index,
        at: Option<u64>,
    },
    /// The address of a collection of the global heap, and the number in it of the mappings.
    Virtual(u64, u32),
}

/// Reads a length, and as many bytes.
fn value(cursor: &mut Cursor<'_>) -> Option<Vec<u8>> {
    let len = cursor.u32_le()?;
    // Old writers give the length -1 if there is no value.
    if len == u32::MAX {
        return Some(Vec::new());
    }
    cursor.take(len.into()).map(<[u8]>::to_vec)
}

/// Returns the step that undoes a filter.
fn filter(id: u16, name: &[u8], values: &[u32]) -> Result<Step> {
    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default());
    let what: std::borrow::Cow<'_, str> = match id {
        1 => return Ok(Step::new(Zlib)),
        2 => return Ok(Step::new(Shuffle::new(values.first().copied().unwrap_or(1)))),
        3 => return Ok(Step::new(Fletcher32)),
        6 if let Some(filter) = ScaleOffset::new(values) => return Ok(Step::new(filter)),
        32000 => return Ok(Step::new(Lzf)),
        4 => "szip".into(),
        5 => "nbit".into(),
        6 => "scaleoffset".into(),
        307 => "bzip2".into(),
        32001 => "Blosc".into(),
        32004 => "LZ4".into(),
        32008 => "bitshuffle".into(),
        32013 => "zfp".into(),
        32015 => "Zstandard".into(),
        32026 => "Blosc2".into(),
        _ => name,
    };
    Err(FILTER.broken(format!("unsupported filter {id}, `{}`", what.escaped())))
}
