//! Decodes the index of a tree of arrays, in one pass.

use super::{ARRAY, CHUNKS, DEPTH, ELEMENT_TYPE, FORMAT, KEY, TOO_MANY};
use crate::named::Element;
use holdall_collections::HashSet;
use holdall_core::error::{Escape as _, Remedy, Result};
use holdall_core::limits::Limits;
use holdall_core::model::builder::SIZE;
use holdall_core::model::{
    Attributes, ByteOrder, Component, Encoding, Index, IndexBuilder, Layout, Role, Value,
    element_count,
};
use holdall_core::read::{Chunk, Chunked, EdgeChunks, Extent, Grid};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::msgpack::{BROKEN, Item, Scan};
use std::ops::Range;

/// Types of extensions: arrays, complex numbers, scalars.
pub(super) const ARRAYS: i8 = 1;
const COMPLEX: i8 = 2;
pub(super) const SCALARS: i8 = 3;
/// The key that marks a map as an array in chunks.
const MARK: &str = "__msgpack_chunked_array__";

/// Decodes the index of the file in `window`.
pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let len = window.len();
    let mut walk = Walk {
        window,
        limits,
        scan: Scan::new(window, 0..len),
        builder: IndexBuilder::new(FORMAT.id, "", len, 0..len, limits),
        attributes: Attributes::new(),
        values: limits.attribute_values,
        names: limits.header_len,
    };
    match walk.scan.next()? {
        Item::Map(count) => walk.map(count, "", 1)?,
        Item::Array(count) => walk.list(count, "", 1)?,
        _ => return Err(KEY.broken("expected a map or a list at the start of the file").into()),
    }
    if !walk.scan.is_at_end() {
        let message = "found bytes after the last value";
        return Err(BROKEN.broken(message).at(walk.scan.position()..len).into());
    }
    walk.builder.attributes(walk.attributes);
    Ok(walk.builder.finish()?)
}

struct Walk<'w> {
    window: &'w Window,
    limits: &'w Limits,
    scan: Scan<'w>,
    builder: IndexBuilder,
    attributes: Attributes,
    /// The number of further values that are allowed, and the bytes of names so far.
    values: u64,
    names: u64,
}

/// The header of an array.
struct Array {
    shape: Vec<u64>,
    dtype: String,
    data: Range<u64>,
}

impl Array {
    fn element(&self) -> Result<Element> {
        Element::from_dtype(&self.dtype).ok_or_else(|| {
            ELEMENT_TYPE.broken(format!("unknown element type `{}`", self.dtype.escaped()))
        })
    }
}

impl Walk<'_> {
    /// Reads the entries of a map. Their names begin with `prefix`.
    fn map(&mut self, count: u64, prefix: &str, depth: usize) -> Result<(), Stop> {
        let mut keys = HashSet::default();
        for at in 0..count {
            let key = self.key()?;
            if key == MARK {
                let start = self.scan.position();
                let e = CHUNKS.broken(match (at, prefix) {
                    (0, "") => "the file is an array in chunks, without a name",
                    (0, _) => {
                        let name = prefix.strip_suffix('.').unwrap_or(prefix);
                        return self.chunked(count, name);
                    }
                    _ => "expected the mark of an array in chunks as the first key of its map",
                });
                return Err(e.at(start..start).into());
            }
            let name = self.named(prefix, &key)?;
            if !keys.insert(key) {
                let message = format!("duplicate key `{}`", name.escaped());
                let at = self.scan.position();
                return Err(KEY.broken(message).at(at..at).into());
            }
            self.value(&name, depth)?;
        }
        Ok(())
    }

    /// Reads the items of a list. Their names begin with `prefix`.
    fn list(&mut self, count: u64, prefix: &str, depth: usize) -> Result<(), Stop> {
        for at in 0..count {
            let own = self.named(prefix, &at.to_string())?;
            self.value(&own, depth)?;
        }
        Ok(())
    }

    /// Returns the full name of a key, and counts its bytes.
    fn named(&mut self, prefix: &str, key: &str) -> Result<String, Stop> {
        let len = prefix.len().saturating_add(key.len()) as u64;
        let left = self.names.checked_sub(len);
        self.names = left.ok_or_else(|| {
            let most = self.limits.header_len;
            let raise = Remedy::RaiseLimit { limit: "header_len", at_least: None };
            let message = format!("names take more than {most} bytes together");
            TOO_MANY.broken(message).with_remedy(raise)
        })?;
        Ok(format!("{prefix}{key}"))
    }

    fn key(&mut self) -> Result<String, Stop> {
        let start = self.scan.position();
        match self.scan.next()? {
            Item::Text(place) => match String::from_utf8(self.bytes(place.clone())?) {
                Ok(key) => Ok(key),
                Err(_) => Err(KEY.broken("a key is not UTF-8").at(place).into()),
            },
            Item::Integer(n) => Ok(n.to_string()),
            _ => {
                let e = KEY.broken("a key is neither a string nor an integer");
                Err(e.at(start..self.scan.position()).into())
            }
        }
    }

    /// Reads the value with this name: an array, an attribute, or a map or list of values.
    fn value(&mut self, name: &str, depth: usize) -> Result<(), Stop> {
        let start = self.scan.position();
        let value = match self.scan.next()? {
            Item::Map(_) | Item::Array(_) if depth >= self.limits.depth => {
                let message =
                    format!("maps and lists are nested deeper than {}", self.limits.depth);
                return Err(DEPTH.broken(message).at(start..self.scan.position()).into());
            }
            Item::Map(count) => {
                return self.map(count, &format!("{name}."), depth.saturating_add(1));
            }
            Item::Array(count) => {
                return self.list(count, &format!("{name}."), depth.saturating_add(1));
            }
            Item::Ext(ARRAYS | SCALARS, place) => {
                let array = self.array(place).map_err(|stop| in_tensor(stop, name))?;
                return Ok(self.tensor(name, &array)?);
            }
            Item::Ext(COMPLEX, place) => self.complex(place)?,
            Item::Ext(kind, _) => {
                self.builder
                    .unrepresented(|| format!("an extension of type {kind}, `{}`", name.escaped()));
                self.builder.warn("flax/passed-over", None, None, || {
                    let name = name.escaped();
                    format!("`{name}` is an extension of type {kind}, which is ignored").into()
                });
                return Ok(());
            }
            Item::Nil => Value::Null,
            Item::Bool(is) => Value::Bool(is),
            Item::Integer(n) => Value::Integer(n),
            Item::Float(x) => Value::Float(x),
            Item::Text(place) => {
                let text = self.bytes(place.clone())?;
                let text = String::from_utf8(text)
                    .map_err(|_| BROKEN.broken("a string is not UTF-8").at(place))?;
                Value::Text(text)
            }
            Item::Bytes(place) => Value::Bytes(self.bytes(place)?),
        };
        self.values = self.values.checked_sub(1).ok_or_else(|| {
            TOO_MANY.broken(format!("more than {} values", self.limits.attribute_values))
        })?;
        self.attributes.push(name, value);
        Ok(())
    }

    fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>, Stop> {
        let (len, most) = (range.end.saturating_sub(range.start), self.limits.text_len);
        if len > most {
            let message = format!("a string of {len} bytes, at most {most} are allowed");
            let raise = Remedy::RaiseLimit { limit: "text_len", at_least: Some(len) };
            return Err(TOO_MANY.broken(message).with_remedy(raise).at(range).into());
        }
        Ok(self.window.bytes(range)?.to_vec())
    }

    fn complex(&mut self, range: Range<u64>) -> Result<Value, Stop> {
        let mut scan = Scan::new(self.window, range.clone());
        let is_pair = scan.next()? == Item::Array(2);
        let parts = if is_pair { Some((scan.next()?, scan.next()?)) } else { None };
        match parts {
            Some((Item::Float(re), Item::Float(im))) if scan.is_at_end() => {
                Ok(Value::Array([re, im].map(Value::Float).to_vec()))
            }
            _ => Err(ARRAY.broken("expected two floats for a complex number").at(range).into()),
        }
    }

    /// Reads the header of the array at `range`.
    fn array(&mut self, range: Range<u64>) -> Result<Array, Stop> {
        let wrong = |what: &'static str| -> Stop { ARRAY.broken(what).at(range.clone()).into() };
        let mut scan = Scan::new(self.window, range.clone());
        let (Item::Array(3), Item::Array(rank)) = (scan.next()?, scan.next()?) else {
            return Err(wrong("expected a list of a shape, a type and bytes"));
        };
        let mut shape = Vec::new();
        for at in 0..rank {
            let Item::Integer(dim) = scan.next()? else {
                return Err(wrong("a dimension is not a number"));
            };
            let dim = u64::try_from(dim).map_err(|_| wrong("a dimension is negative"))?;
            // One dimension more than allowed is enough to detect that there are too many.
            if at <= self.limits.rank as u64 {
                shape.push(dim);
            }
        }
        let dtype = match scan.next()? {
            Item::Text(range) | Item::Bytes(range) => {
                String::from_utf8_lossy(&self.bytes(range)?).into_owned()
            }
            _ => return Err(wrong("its type has no name")),
        };
        let data = match scan.next()? {
            Item::Bytes(data) | Item::Text(data) if scan.is_at_end() => data,
            _ => return Err(wrong("expected a byte string of elements, with nothing after it")),
        };
        Ok(Array { shape, dtype, data })
    }

    fn tensor(&mut self, name: &str, array: &Array) -> Result<()> {
        self.builder.tensor(name, &array.shape, Layout::Dense)?;
        self.stored(array.element(), array.data.clone().into())
    }

    /// Adds the only component of the last tensor. An unknown element type becomes the tensor's fault.
    fn stored(&mut self, element: Result<Element>, stored: Extent) -> Result<()> {
        let Element { dtype, logical } = match element {
            Ok(element) => element,
            Err(e) => {
                if stored.chunked().is_none() {
                    self.builder.claim(stored)?;
                }
                self.builder.fault(e);
                return Ok(());
            }
        };
        self.builder.component(Component {
            role: Role::Data,
            dtype,
            logical_type: logical,
            encoding: Encoding::Raw,
            byte_order: ByteOrder::Little,
            stored,
            decoded_len: None,
            digest: None,
        })
    }

    /// Reads an array in chunks, after the key of its mark.
    fn chunked(&mut self, count: u64, name: &str) -> Result<(), Stop> {
        let start = self.scan.position();
        let wrong = |what: &'static str| -> Stop {
            CHUNKS.broken(what).in_tensor(name).at(start..start).into()
        };
        if count != 3 || self.scan.next()? != Item::Bool(true) {
            return Err(wrong("expected the mark, shape and chunks of an array in chunks"));
        }
        let mut shape = Vec::new();
        for at in 0..self.entries("shape").map_err(|stop| in_tensor(stop, name))? {
            let is_next = self.key()? == at.to_string();
            match self.scan.next()? {
                Item::Integer(dim) if is_next && at <= self.limits.rank as u64 => {
                    let dim = u64::try_from(dim).map_err(|_| wrong("a dimension is negative"))?;
                    shape.push(dim);
                }
                _ => return Err(wrong("expected the dimensions of the shape in order")),
            }
        }
        let mut chunks: Vec<Array> = Vec::new();
        for at in 0..self.entries("chunks").map_err(|stop| in_tensor(stop, name))? {
            let is_next = self.key()? == at.to_string();
            match self.scan.next()? {
                Item::Ext(ARRAYS, place) if is_next => {
                    let array = self.array(place).map_err(|stop| in_tensor(stop, name))?;
                    if chunks.first().is_some_and(|first| first.dtype != array.dtype) {
                        return Err(wrong("the chunks have several element types"));
                    }
                    chunks.push(array);
                }
                _ => return Err(wrong("expected the chunks as arrays in order")),
            }
        }
        let Some(first) = chunks.first() else { return Err(wrong("there are no chunks")) };
        let element = first.element();
        self.builder.tensor(name, &shape, Layout::Dense)?;
        let Ok(element_type) = &element else {
            for chunk in &chunks {
                self.builder.claim(chunk.data.clone().into())?;
            }
            return Ok(self.stored(element, Extent::new(Extent::STATED, 0..0))?);
        };
        match joined(&shape, element_type, &chunks) {
            Ok(array) => {
                let stored = self.builder.chunked(array)?;
                self.stored(element, stored)?;
            }
            Err(e) => {
                for chunk in &chunks {
                    self.builder.claim(chunk.data.clone().into())?;
                }
                self.builder.fault(e);
            }
        }
        Ok(())
    }

    /// Reads the next key, which must be `key`, and returns the number of entries of the map after it.
    fn entries(&mut self, key: &str) -> Result<u64, Stop> {
        let start = self.scan.position();
        let found = self.key()?;
        match self.scan.next()? {
            Item::Map(count) if found == key => Ok(count),
            _ => {
                let message = format!("expected the key `{key}` next, with a map");
                Err(CHUNKS.broken(message).at(start..self.scan.position()).into())
            }
        }
    }
}

/// Joins the elements of chunks, one after the other.
fn joined(shape: &[u64], element: &Element, chunks: &[Array]) -> Result<Chunked> {
    let width = element.width();
    let (mut starts, mut total) = (Vec::new(), 0u64);
    for chunk in chunks {
        let len = chunk.data.end.saturating_sub(chunk.data.start);
        if len == 0 || !len.is_multiple_of(width) {
            return Err(CHUNKS
                .broken(format!("a chunk has {len} bytes, which is not a whole number of elements"))
                .at(chunk.data.clone()));
        }
        starts.push(total.checked_div(width).unwrap_or(0));
        total = total.saturating_add(len);
    }
    let count = total.checked_div(width).unwrap_or(0);
    if element_count(shape) != Some(count) {
        let message =
            format!("the chunks have {count} elements, which do not fit the shape {shape:?}");
        return Err(SIZE.broken(message));
    }
    let grid = Grid::cut(&[count], Vec::from([starts]), width)
        .ok_or_else(|| CHUNKS.broken("the chunks have too many elements"))?;
    let fill = vec![0; usize::try_from(width).unwrap_or(0)];
    let chunk_at = |(number, chunk): (usize, &Array)| {
        let stored = chunk.data.clone().into();
        Chunk { number: number as u64, stored, skipped_steps: 0 }
    };
    let chunks = chunks.iter().enumerate().map(chunk_at).collect();
    Chunked::new(grid, fill, Vec::new(), EdgeChunks::Filtered, chunks)
}

/// Adds the tensor's name to an error.
fn in_tensor(stop: Stop, name: &str) -> Stop {
    match stop {
        Stop::Fail(e) => Stop::Fail(e.in_tensor(name)),
        need => need,
    }
}
