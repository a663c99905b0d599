//! The header, as an index.

use super::value::{Head, TYPES, Type};
use super::{
    ALIGN_DEFAULT, ALIGN_KEY, ALIGNMENT, BIG_ENDIAN_BLOCKS, DTYPE, Element, HEADER_BOUNDS,
    HEADER_LIMIT, KEY, MAX_RANK, NAME, NAME_END, OFFSET, RANK, ROWS, TRUNCATED, VERSION,
};
use crate::error::hash::HashSet;
use crate::error::{Error, Result, Shown as _};
use crate::formats::kept;
use crate::limits::Limits;
use crate::model::builder::{SHAPE_OVERFLOW, TOO_MANY_TENSORS};
use crate::model::{
    Attributes, ByteOrder, Component, Encoding, Index, IndexBuilder, Role, Value, element_count,
};
use crate::window::{Stop, Window};
use crate::wire::cursor::Cursor;
use bytes::Bytes;
use std::ops::Range;

/// Bytes that are looked at first.
const FIRST: u64 = 1 << 10;
/// By how much a look grows, as a power of two.
const GROWTH: u32 = 3;

/// What the file in `window` contains.
pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let text = header(window, limits)?;
    let file = File { text: &text, len: window.len(), limits };
    Ok(file.index()?)
}

/// The start of the file with the whole of its header, or all there may be of it.
fn header(window: &Window, limits: &Limits) -> Result<Bytes, Stop> {
    let most = window.len().min(limits.header_len);
    let mut len = FIRST.min(most);
    loop {
        let bytes = window.head(len)?;
        if len == most
            || start(&bytes, window.len(), limits).is_ok_and(|(head, counts)| skim(head, counts))
        {
            return Ok(bytes);
        }
        len = len.saturating_mul(1 << GROWTH).min(most);
    }
}

/// How many tensors and key–values a header has.
type Counts = (u64, u64);

/// What stands before the key–values. `len` is that of the file.
fn start<'a>(text: &'a [u8], len: u64, limits: &Limits) -> Result<(Head<'a>, Counts)> {
    let mut head = Head { cursor: Cursor::new(text), is_big: false };
    let mut read = || {
        head.cursor.take(4)?;
        let version = head.u32()?;
        head.is_big = version & 0xffff == 0;
        let version = if head.is_big { version.swap_bytes() } else { version };
        Some((version, head.u64()?, head.u64()?))
    };
    let Some((version, tensors, pairs)) = read() else {
        return Err(HEADER_BOUNDS.broken(format!("the file has {} bytes", text.len())).at(0..len));
    };
    if !matches!(version, 2 | 3) {
        let e = VERSION.broken(format!("the version is {version}")).at(4..8);
        return Err(e.with_hint("files of version 1 are made anew from the model they came from"));
    }
    // A tensor takes at least 24 bytes, a key–value 13.
    let least =
        tensors.checked_mul(24).zip(pairs.checked_mul(13)).and_then(|(a, b)| a.checked_add(b));
    if least.is_none_or(|least| least > len) {
        let message =
            format!("{tensors} tensors and {pairs} key–values do not fit a file of {len} bytes");
        return Err(HEADER_BOUNDS.broken(message).at(8..24));
    }
    if tensors > limits.tensors {
        return Err(TOO_MANY_TENSORS
            .broken(format!("{tensors} tensors, at most {}", limits.tensors))
            .at(8..16));
    }
    Ok((head, (tensors, pairs)))
}

/// Whether the header is all there, or something in it is wrong, which decoding it will tell.
fn skim(mut head: Head<'_>, (tensors, pairs): Counts) -> bool {
    let mut walk = || -> Option<Result<()>> {
        for _ in 0..pairs {
            if let Err(e) = head.string()? {
                return Some(Err(e));
            }
            if let Err(e) = head.skip_value()? {
                return Some(Err(e));
            }
        }
        for _ in 0..tensors {
            if let Err(e) = head.string()? {
                return Some(Err(e));
            }
            let rank = head.u32()?;
            head.cursor.take(u64::from(rank).saturating_mul(8).saturating_add(12))?;
        }
        Some(Ok(()))
    };
    walk().is_some()
}

struct File<'a> {
    text: &'a [u8],
    /// Of the file.
    len: u64,
    limits: &'a Limits,
}

/// What the header says of one tensor.
struct Entry<'a> {
    name: &'a str,
    /// The last dimension first, as everywhere here.
    shape: Vec<u64>,
    number: u32,
    /// Counted from the start of the data.
    offset: u64,
    /// Where the entry stands.
    at: Range<u64>,
}

impl File<'_> {
    fn index(&self) -> Result<Index> {
        let (mut head, (tensors, pairs)) = start(self.text, self.len, self.limits)?;
        let version = if head.is_big { "big-endian" } else { "" };
        let number = if self.text.get(4..8).is_some_and(|b| b.contains(&2)) { "2" } else { "3" };
        let (attributes, alignment) = self.attributes(&mut head, pairs)?;
        let mut entries = Vec::new();
        for _ in 0..tensors {
            entries.push(self.entry(&mut head)?);
        }
        let end = head.cursor.position();
        let data = end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        // Bytes past the end of the file are found below, where more can be said about them.
        let mut builder = IndexBuilder::new("gguf", number, self.len, data..u64::MAX, self.limits);
        if !version.is_empty() {
            builder.warn("gguf/big-endian", None, None, || {
                "the file is big-endian; what is written from it is little-endian".into()
            });
        }
        let mut of_tensors = kept::TensorAttributes::default();
        let attributes = kept::restore(attributes, self.limits, &mut of_tensors, |key, why| {
            builder.warn("gguf/restore", None, None, || {
                format!("`{key}` is not as Holdall writes it and stays text: {why}").into()
            });
        });
        builder.attributes(attributes);
        let mut next = Some(0u64);
        for entry in &entries {
            self.tensor(
                entry,
                head.is_big,
                data,
                alignment,
                &mut next,
                &mut of_tensors,
                &mut builder,
            )
            .map_err(|e| e.in_tensor(entry.name))?;
        }
        builder.finish()
    }

    /// Where the bytes at hand end before the header does.
    #[cold]
    fn ends(&self, head: &Head<'_>) -> Error {
        let at = head.cursor.position()..self.text.len() as u64;
        if (self.text.len() as u64) < self.len {
            let message = format!("the header has more than {} bytes", self.limits.header_len);
            return HEADER_LIMIT.broken(message).at(at);
        }
        HEADER_BOUNDS.broken("the file ends inside of the header").at(at)
    }

    /// The key–values, with their types where those do not follow; and the alignment.
    fn attributes(&self, head: &mut Head<'_>, pairs: u64) -> Result<(Attributes, u64)> {
        let mut all = Attributes::new();
        let mut types = Vec::new();
        let mut seen = HashSet::default();
        let mut alignment = ALIGN_DEFAULT;
        let mut left = self.limits.attribute_values;
        for _ in 0..pairs {
            let start = head.cursor.position();
            let key = head.string().ok_or_else(|| self.ends(head))??;
            let at = start..head.cursor.position();
            let wrong = |message: String| KEY.broken(message).at(at.clone());
            let key = match std::str::from_utf8(key) {
                Ok("") => return Err(wrong("a key is empty".to_owned())),
                Ok(key) => key,
                Err(_) => return Err(wrong("a key is not UTF-8".to_owned())),
            };
            if !seen.insert(key) {
                return Err(wrong(format!("the key `{}` comes twice", key.shown())));
            }
            let start = head.cursor.position();
            let read = head.value(&mut left).ok_or_else(|| self.ends(head))?;
            let (of, value) =
                read.map_err(|e| e.within(format!("the value of `{}`", key.shown())))?;
            if key == ALIGN_KEY {
                let found = match (&*of.name(), &value) {
                    ("u32", value) => value.as_integer().and_then(|n| u64::try_from(n).ok()),
                    _ => None,
                };
                alignment = found.filter(|n| n.is_power_of_two()).ok_or_else(|| {
                    let message = format!("the alignment is {} ({})", value.to_json(), of.name());
                    ALIGNMENT.broken(message).at(start..head.cursor.position())
                })?;
            }
            if Type::of(&value) != Some(of) {
                types.push((Value::Text(key.to_owned()), Value::Text(of.name().into_owned())));
            }
            all.push(key.to_owned(), value);
        }
        if !types.is_empty() && all.get(TYPES).is_none() {
            all.push(TYPES.to_owned(), Value::Map(types));
        }
        Ok((all, alignment))
    }

    fn entry<'t>(&self, head: &mut Head<'t>) -> Result<Entry<'t>> {
        let start = head.cursor.position();
        let name = head.string().ok_or_else(|| self.ends(head))??;
        let at = start..head.cursor.position();
        let name = std::str::from_utf8(name).ok().filter(|name| name.len() < NAME_END);
        let Some(name) = name else {
            let message = "the name of a tensor has 64 bytes or more, or is not UTF-8";
            return Err(NAME.broken(message).at(at));
        };
        let rank = head.u32().ok_or_else(|| self.ends(head))?;
        if rank as usize > MAX_RANK {
            let e = RANK.broken(format!("{rank} dimensions")).in_tensor(name);
            return Err(e.at(at.end..head.cursor.position()));
        }
        let mut shape = Vec::with_capacity(MAX_RANK);
        for _ in 0..rank {
            let size = head.u64().ok_or_else(|| self.ends(head))?;
            if size > i64::MAX as u64 {
                let e = RANK.broken("a dimension is negative").in_tensor(name);
                return Err(e.at(at.end..head.cursor.position()));
            }
            shape.insert(0, size);
        }
        let number = head.u32().ok_or_else(|| self.ends(head))?;
        let offset = head.u64().ok_or_else(|| self.ends(head))?;
        Ok(Entry { name, shape, number, offset, at: start..head.cursor.position() })
    }

    /// Adds a tensor. `next` is the offset it must have, where that is known, and then that of the next one.
    #[allow(clippy::too_many_arguments)]
    fn tensor(
        &self,
        entry: &Entry<'_>,
        is_big: bool,
        data: u64,
        alignment: u64,
        next: &mut Option<u64>,
        of_tensors: &mut kept::TensorAttributes,
        builder: &mut IndexBuilder,
    ) -> Result<()> {
        let offset = entry.offset;
        let wanted = next.take().unwrap_or(offset);
        if offset != wanted || !offset.is_multiple_of(alignment) {
            let message =
                format!("the offset is {offset}, where the data before it ends at {wanted}");
            return Err(OFFSET.broken(message).at(entry.at.clone()));
        }
        let element = match element(entry) {
            Ok(found) => found,
            Err(e) => {
                // Where the next one starts is not known either.
                builder.tensor(entry.name, &entry.shape, crate::model::Layout::Dense)?;
                builder.fault(e.at(entry.at.clone()));
                of_tensors.remove(entry.name);
                return Ok(());
            }
        };
        let (element, len) = element;
        let stored =
            data.checked_add(offset).and_then(|start| Some(start..start.checked_add(len)?));
        let fits = |range: &Range<u64>| range.end <= self.len || self.limits.salvage;
        let Some(stored) = stored.filter(fits) else {
            let message = format!("its {len} bytes end past the file, which has {}", self.len);
            return Err(TRUNCATED.broken(message).at(entry.at.clone()));
        };
        *next = len.checked_next_multiple_of(alignment).and_then(|len| offset.checked_add(len));
        // An empty one may stand at the end, padding and all.
        let stored = if len == 0 {
            let at = stored.start.min(self.len);
            at..at
        } else {
            stored
        };
        builder.tensor(entry.name, &entry.shape, element.layout())?;
        if let Some(own) = of_tensors.remove(entry.name) {
            builder.tensor_attributes(own);
        }
        if is_big && matches!(element, Element::Blocks(_)) {
            let e = BIG_ENDIAN_BLOCKS.broken("its blocks are big-endian");
            builder.fault(e.at(entry.at.clone()));
            return builder.claim(stored.into());
        }
        builder.component(Component {
            role: Role::Data,
            dtype: element.dtype(),
            logical_type: None,
            encoding: Encoding::Raw,
            byte_order: if is_big { ByteOrder::Big } else { ByteOrder::Little },
            decoded_len: Some(len),
            stored: stored.into(),
            digest: None,
        })
    }
}

/// What the elements of a tensor are, and how many bytes they take.
fn element(entry: &Entry<'_>) -> Result<(Element, u64)> {
    let Some(found) = Element::by_id(entry.number) else {
        return Err(DTYPE.broken(format!("the type {} is not known", entry.number)));
    };
    let len = match found {
        Element::Plain(dtype) => {
            element_count(&entry.shape).and_then(|n| n.checked_mul(dtype.width()))
        }
        Element::Blocks(of) => of.stored_len(&entry.shape),
    };
    let Some(count) = element_count(&entry.shape) else {
        return Err(
            SHAPE_OVERFLOW.broken(format!("the product of shape {:?} passes 2^64", entry.shape))
        );
    };
    match len.filter(|_| count < i64::MAX as u64) {
        Some(len) => Ok((found, len)),
        None => {
            let shape = &entry.shape;
            let message = match found {
                Element::Blocks(of) => {
                    format!("shape {shape:?} is not made of whole blocks of {of}")
                }
                Element::Plain(dtype) => format!("shape {shape:?} of {dtype} passes 2^63"),
            };
            Err(ROWS.broken(message))
        }
    }
}
