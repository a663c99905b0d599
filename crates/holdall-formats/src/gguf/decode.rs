//! Decodes the header into an index.

use super::value::{Head, TYPES, Type};
use super::{
    ALIGN_DEFAULT, ALIGN_KEY, ALIGNMENT, BIG_ENDIAN_BLOCKS, DTYPE, Element, HEADER_BOUNDS,
    HEADER_LIMIT, KEY, MAX_RANK, NAME, NAME_END, OFFSET, RANK, REVERSED, ROWS, TRUNCATED, VERSION,
};
use crate::kept;
use bytes::Bytes;
use holdall_collections::HashSet;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::builder::{SAMPLE, SHAPE_OVERFLOW, TOO_MANY_TENSORS};
use holdall_core::model::{
    Attributes, ByteOrder, Component, Encoding, Index, IndexBuilder, Layout, Role, Value,
    element_count,
};
use holdall_core::window::{ParseAttempt, Stop, Window};
use holdall_core::wire::cursor::Cursor;
use std::ops::{Deref, Range};

/// The number of bytes read first.
const FIRST: u64 = 1 << 10;

/// Decodes the index of the file in `window`.
pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let len = window.len();
    let whole = |text: Bytes| {
        let (head, counts) = start(&text, len, limits)?;
        Ok(match skim(head, &counts) {
            ParseAttempt::Read(end) => ParseAttempt::Read((text, end)),
            ParseAttempt::Short { guess } => ParseAttempt::Short { guess },
        })
    };
    let (text, end) = match window.growing(FIRST, limits.header_len, whole)? {
        Some(found) => found,
        // The bytes of an incomplete header are decoded to report the error.
        None => (window.head(limits.header_len)?, None),
    };
    Ok(Decoder { text: &text, len, limits }.index(end)?)
}

/// The part of the header before the key–values: numbers of tensors and key–values.
struct Counts {
    version: u32,
    tensors: u64,
    pairs: u64,
}

/// Reads the part of the header before the key–values. `len` is the length of the file.
fn start<'a>(text: &'a [u8], len: u64, limits: &Limits) -> Result<(Head<'a>, Counts)> {
    let mut head = Head { cursor: Cursor::new(text), is_big: false };
    let mut read = || {
        let is_reversed = head.cursor.take(4)? == REVERSED;
        let version = head.u32()?;
        // The reversed magic also means big-endian. A version that disagrees with it is unknown.
        head.is_big = version & 0xffff == 0 || is_reversed;
        let version = if head.is_big { version.swap_bytes() } else { version };
        Some((version, head.u64()?, head.u64()?))
    };
    let Some((version, tensors, pairs)) = read() else {
        return Err(HEADER_BOUNDS.broken(format!("the file has {len} bytes")).at(0..len));
    };
    if !matches!(version, 2 | 3) {
        let e = VERSION.broken(format!("the version is {version}")).at(4..8);
        return Err(e.with_hint("convert the original model again to get a newer version"));
    }
    // A tensor takes at least 24 bytes, a key–value 13.
    let least =
        tensors.checked_mul(24).zip(pairs.checked_mul(13)).and_then(|(a, b)| a.checked_add(b));
    if least.is_none_or(|least| least > len) {
        let message =
            format!("{tensors} tensors and {pairs} key–values do not fit a file of {len} bytes");
        return Err(HEADER_BOUNDS.broken(message).at(8..24));
    }
    if least.is_some_and(|least| least > limits.header_len) {
        let most = limits.header_len;
        let message =
            format!("{tensors} tensors and {pairs} key–values take more than {most} bytes");
        return Err(HEADER_LIMIT.broken(message).at(8..24));
    }
    if tensors > limits.tensors {
        return Err(TOO_MANY_TENSORS
            .broken(format!("{tensors} tensors, at most {} are allowed", limits.tensors))
            .at(8..16));
    }
    Ok((head, Counts { version, tensors, pairs }))
}

/// Returns the end of the header, if it is complete; `None` if it is invalid, which decoding it will report.
fn skim(mut head: Head<'_>, counts: &Counts) -> ParseAttempt<Option<u64>> {
    let mut pairs = || -> Option<Result<()>> {
        for _ in 0..counts.pairs {
            if let Err(e) = head.string()? {
                return Some(Err(e));
            }
            if let Err(e) = head.skip_value()? {
                return Some(Err(e));
            }
        }
        Some(Ok(()))
    };
    match pairs() {
        None => return ParseAttempt::Short { guess: 0 },
        Some(Err(_)) => return ParseAttempt::Read(None),
        Some(Ok(())) => {}
    }
    let start = head.cursor.position();
    let mut seen = 0;
    if let Some(end) = skim_entries(&mut head, counts, &mut seen) {
        return ParseAttempt::Read(end.ok());
    }
    // Estimates that the remaining entries are as long as those before, plus an eighth because numbers in names get
    // longer.
    let own = head.cursor.position().saturating_sub(start);
    let all = own.checked_div(seen).unwrap_or_default().saturating_add(1);
    let all = all.saturating_mul(counts.tensors);
    ParseAttempt::Short { guess: start.saturating_add(all).saturating_add(all / 8) }
}

/// Returns the end of the tensors' entries, if they are complete. `seen` counts the complete entries.
fn skim_entries(head: &mut Head<'_>, counts: &Counts, seen: &mut u64) -> Option<Result<u64>> {
    for at in 0..counts.tensors {
        *seen = at;
        if let Err(e) = head.string()? {
            return Some(Err(e));
        }
        let rank = head.u32()?;
        head.cursor.take(u64::from(rank).saturating_mul(8).saturating_add(12))?;
    }
    Some(Ok(head.cursor.position()))
}

struct Decoder<'a> {
    text: &'a [u8],
    /// The length of the file.
    len: u64,
    limits: &'a Limits,
}

/// A shape, without a heap allocation.
#[derive(Default)]
struct Shape {
    /// The dimensions: the last `rank` items of the array.
    dims: [u64; MAX_RANK],
    rank: usize,
}

impl Shape {
    /// Inserts a dimension before the others, of which there are fewer than [`MAX_RANK`].
    fn push_front(&mut self, size: u64) {
        self.rank = self.rank.saturating_add(1);
        if let Some(first) = MAX_RANK.checked_sub(self.rank).and_then(|at| self.dims.get_mut(at)) {
            *first = size;
        }
    }
}

impl Deref for Shape {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        self.dims.get(MAX_RANK.saturating_sub(self.rank)..).unwrap_or_default()
    }
}

/// The header's entry of a tensor.
struct Entry<'a> {
    name: &'a str,
    /// The last dimension first, as in all of Holdall.
    shape: Shape,
    /// The number of the element type.
    type_id: u32,
    /// The offset from the start of the data.
    offset: u64,
    /// The byte range of the entry in the file.
    at: Range<u64>,
}

impl Decoder<'_> {
    /// Returns the index. `end` is the end of the header, if the header is valid.
    fn index(&self, end: Option<u64>) -> Result<Index> {
        let (mut head, counts) = start(self.text, self.len, self.limits)?;
        let (attributes, alignment) = self.attributes(&mut head, counts.pairs)?;
        let Some(end) = end else {
            for _ in 0..counts.tensors {
                self.entry(&mut head)?;
            }
            return Err(self.ends(&head));
        };
        let data = end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let version = counts.version.to_string();
        // Bytes past the end of the file are detected below, with a better message.
        let mut builder = IndexBuilder::new("gguf", version, self.len, data..u64::MAX, self.limits);
        if head.is_big {
            builder.warn("gguf/big-endian", None, None, || {
                "the file is big-endian; files written from it are little-endian".into()
            });
        }
        let mut of_tensors = kept::TensorAttributes::default();
        let attributes = kept::restore(attributes, self.limits, &mut of_tensors, |key, why| {
            builder.warn("gguf/restore", None, None, || {
                format!(
                    "`{key}` is not in the form that Holdall writes, and is kept as text: {why}"
                )
                .into()
            });
        });
        builder.attributes(attributes);
        let (is_big, len) = (head.is_big, self.len);
        let may_end_late = self.limits.salvage;
        let next = Some(0);
        let mut data =
            Data { start: data, alignment, is_big, len, may_end_late, next, of_tensors, builder };
        let count = usize::try_from(counts.tensors).unwrap_or_default();
        data.builder.reserve(count);
        let mut pending: Option<Entry<'_>> = None;
        for at in 0..count {
            if at == SAMPLE {
                data.builder.reserve(count.saturating_sub(at));
            }
            let entry = self.entry(&mut head)?;
            // A tensor of an unknown type ends where the next one starts.
            if let Some(before) = pending.replace(entry) {
                let end = pending.as_ref().map(|next| next.offset);
                data.tensor(&before, end).map_err(|e| e.in_tensor(before.name))?;
            }
        }
        if let Some(last) = pending {
            data.tensor(&last, None).map_err(|e| e.in_tensor(last.name))?;
        }
        data.builder.finish()
    }

    /// Returns the error for a header that continues after the available bytes.
    #[cold]
    fn ends(&self, head: &Head<'_>) -> Error {
        let at = head.cursor.position()..self.text.len() as u64;
        if (self.text.len() as u64) < self.len {
            let message = format!("the header has more than {} bytes", self.limits.header_len);
            return HEADER_LIMIT.broken(message).at(at);
        }
        HEADER_BOUNDS.broken("the file ends inside the header").at(at)
    }

    /// Reads the key–values, with their types if these do not follow from the values, and the alignment.
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
                return Err(wrong(format!("duplicate key `{}`", key.escaped())));
            }
            let start = head.cursor.position();
            let read = head.value(&mut left).ok_or_else(|| self.ends(head))?;
            let (value_type, value) =
                read.map_err(|e| e.within(format!("the value of `{}`", key.escaped())))?;
            if key == ALIGN_KEY {
                let found = match (&*value_type.name(), &value) {
                    ("u32", value) => value.as_integer().and_then(|n| u64::try_from(n).ok()),
                    _ => None,
                };
                alignment = found.filter(|n| n.is_power_of_two()).ok_or_else(|| {
                    let message =
                        format!("the alignment is {} ({})", value.to_json(), value_type.name());
                    ALIGNMENT.broken(message).at(start..head.cursor.position())
                })?;
            }
            if Type::default_for(&value) != Some(value_type) {
                types.push((
                    Value::Text(key.to_owned()),
                    Value::Text(value_type.name().into_owned()),
                ));
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
        let fits = |name: &&str| name.len() < NAME_END || self.limits.salvage;
        let Some(name) = std::str::from_utf8(name).ok().filter(fits) else {
            let message = "the name of a tensor has 128 bytes or more, or is not UTF-8";
            return Err(NAME.broken(message).at(at));
        };
        let rank = head.u32().ok_or_else(|| self.ends(head))?;
        if rank as usize > MAX_RANK {
            let e = RANK
                .broken(format!("{rank} dimensions, at most {MAX_RANK} are allowed"))
                .in_tensor(name);
            return Err(e.at(at.end..head.cursor.position()));
        }
        let mut shape = Shape::default();
        for _ in 0..rank {
            let size = head.u64().ok_or_else(|| self.ends(head))?;
            if size > i64::MAX as u64 {
                let e = RANK
                    .broken(format!("a dimension is {size}, at most {} is allowed", i64::MAX))
                    .in_tensor(name);
                return Err(e.at(at.end..head.cursor.position()));
            }
            shape.push_front(size);
        }
        let type_id = head.u32().ok_or_else(|| self.ends(head))?;
        let offset = head.u64().ok_or_else(|| self.ends(head))?;
        Ok(Entry { name, shape, type_id, offset, at: start..head.cursor.position() })
    }
}

/// The data of a file, which is added to an index tensor by tensor.
struct Data {
    start: u64,
    alignment: u64,
    is_big: bool,
    /// The length of the file.
    len: u64,
    /// Whether a tensor may end after the end of the file, which is then the tensor's fault.
    may_end_late: bool,
    /// The offset that the next tensor must have, if known.
    next: Option<u64>,
    of_tensors: kept::TensorAttributes,
    builder: IndexBuilder,
}

impl Data {
    /// Adds a tensor. `next` is the offset of the tensor after it, if there is one.
    fn tensor(&mut self, entry: &Entry<'_>, next: Option<u64>) -> Result<()> {
        let offset = entry.offset;
        let wanted = self.next.take().unwrap_or(offset);
        let is_next = offset == wanted && offset.is_multiple_of(self.alignment);
        if !is_next && !self.may_end_late {
            let message =
                format!("the offset is {offset}, expected {wanted}, where the data before it ends");
            return Err(OFFSET.broken(message).at(entry.at.clone()));
        }
        // Avoids hashing if the set is empty, as in all files that Holdall did not write.
        let attributes = match self.of_tensors.is_empty() {
            true => None,
            false => self.of_tensors.remove(entry.name),
        };
        let rest = self.len.saturating_sub(self.start.saturating_add(offset));
        let upto = next.map(|next| next.checked_sub(offset));
        // The last tensor extends to the end of the file.
        let upto = upto.unwrap_or(Some(rest));
        let (element, len) = match element(entry, upto, self.is_big) {
            Ok(found) => found,
            Err(e) => {
                // The start of the next tensor is also unknown.
                self.builder.tensor(entry.name, &entry.shape, Layout::Dense)?;
                self.builder.fault(e.at(entry.at.clone()));
                return Ok(());
            }
        };
        let stored =
            self.start.checked_add(offset).and_then(|start| Some(start..start.checked_add(len)?));
        let fits = |range: &Range<u64>| range.end <= self.len || self.may_end_late;
        let Some(mut stored) = stored.filter(fits) else {
            let message = format!(
                "its {len} bytes end after the end of the file, which has {} bytes",
                self.len
            );
            return Err(TRUNCATED.broken(message).at(entry.at.clone()));
        };
        let padded = len.checked_next_multiple_of(self.alignment);
        self.next = padded.and_then(|len| offset.checked_add(len));
        if len == 0 {
            // An empty tensor may lie at the end of the file, after its padding.
            let at = stored.start.min(self.len);
            stored = at..at;
        }
        let (name, shape) = (entry.name, &*entry.shape);
        let byte_order = match element {
            _ if !self.is_big => Some(ByteOrder::Little),
            Element::Plain(_) | Element::Opaque(_) => Some(ByteOrder::Big),
            Element::Blocks(block_type) => block_type.big_endian(),
        };
        match (element, byte_order) {
            (Element::Plain(dtype), Some(order)) => {
                self.builder.dense(name, shape, dtype, None, order, stored.into())?;
            }
            (_, Some(byte_order)) => {
                self.builder.tensor(name, shape, element.layout())?;
                self.builder.component(Component {
                    role: Role::Data,
                    dtype: element.dtype(),
                    logical_type: None,
                    encoding: Encoding::Raw,
                    byte_order,
                    decoded_len: Some(len),
                    stored: stored.into(),
                    digest: None,
                })?;
            }
            (_, None) => {
                let layout = element.layout();
                let message = format!(
                    "its blocks are {} and big-endian: ggml swaps groups of four bytes when writing them, but not when reading",
                    layout.as_str()
                );
                self.builder.tensor(name, shape, layout)?;
                self.builder.fault(BIG_ENDIAN_BLOCKS.broken(message).at(entry.at.clone()));
                self.builder.claim(stored.into())?;
            }
        }
        if let Some(own) = attributes {
            self.builder.tensor_attributes(own);
        }
        Ok(())
    }
}

/// Returns the type of a tensor's elements, and their length in bytes. `upto` is the number of bytes up to the next
/// tensor.
fn element(entry: &Entry<'_>, upto: Option<u64>, is_big: bool) -> Result<(Element, u64)> {
    let found = match Element::by_id(entry.type_id) {
        Some(found) => found,
        None if is_big => {
            return Err(DTYPE.broken(format!("unknown type {}", entry.type_id)));
        }
        None => Element::Opaque(entry.type_id),
    };
    let len = match found {
        Element::Plain(dtype) => {
            element_count(&entry.shape).and_then(|n| n.checked_mul(dtype.width()))
        }
        Element::Blocks(block_type) => block_type.stored_len(&entry.shape),
        Element::Opaque(_) => upto,
    };
    let Some(count) = element_count(&entry.shape) else {
        return Err(
            SHAPE_OVERFLOW.broken(format!("the product of shape {:?} passes 2^64", &*entry.shape))
        );
    };
    match len.filter(|_| count < i64::MAX as u64) {
        Some(len) => Ok((found, len)),
        None => {
            let shape = &*entry.shape;
            let message = match found {
                Element::Blocks(block_type) => {
                    format!("the rows of shape {shape:?} are not whole blocks of {block_type}")
                }
                Element::Plain(dtype) => format!("shape {shape:?} of {dtype} passes 2^63"),
                Element::Opaque(id) => {
                    let message = format!(
                        "the tensor after it begins before the start of this tensor, of type {id}"
                    );
                    return Err(OFFSET.broken(message));
                }
            };
            Err(ROWS.broken(message))
        }
    }
}
