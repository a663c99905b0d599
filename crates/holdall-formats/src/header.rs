//! The parts that safetensors and Metatensor have in common. A file consists of the length of its header (8 bytes), the
//! header (one JSON object), and the data.

use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::encode::{Stored, TensorSpec};
use holdall_core::error::{Escape as _, Result, Rule};
use holdall_core::model::attributes::NOT_JSON;
use holdall_core::model::{Attributes, Encoding};
use holdall_core::window::Window;
use holdall_json::{Reader, duplicate};
use std::ops::Range;

/// The number of bytes that give the length of the header.
pub(super) const LEN_BYTES: u64 = 8;
/// The maximum length of a header, by both formats, in bytes.
pub(super) const MAX_HEADER_LEN: u64 = 100_000_000;
/// The maximum depth of an attribute value that is written. Its JSON has up to three levels for each, and can still be
/// read with the default [`holdall_core::Limits::depth`].
const MAX_VALUE_DEPTH: usize = 60;

/// The differences between the formats.
pub(super) struct Dialect {
    pub(super) bounds: &'static Rule,
    pub(super) limit: &'static Rule,
    pub(super) offsets: &'static Rule,
    pub(super) encoding: &'static Rule,
    pub(super) declared: &'static Rule,
    /// The word for whatever has a byte range: a tensor, or a component of one.
    pub(super) unit: &'static str,
    /// Whether there may be gaps in the data.
    pub(super) gaps: bool,
}

impl Dialect {
    /// Returns the byte range of the header of the file in `window`. The file gives its length as `len`; `most` is the
    /// maximum.
    pub(super) fn range(&self, window: &Window, len: u64, most: u64) -> Result<Range<u64>> {
        let end = len.checked_add(LEN_BYTES).filter(|&end| end <= window.len());
        let Some(end) = end else {
            let message = format!(
                "the header should have {len} bytes, but only {} bytes follow its length",
                window.len().saturating_sub(LEN_BYTES)
            );
            return Err(self.bounds.broken(message).at(0..LEN_BYTES));
        };
        if len > most {
            let message = format!("the header has {len} bytes, at most {most} are allowed");
            return Err(self.limit.broken(message).at(0..LEN_BYTES));
        }
        Ok(LEN_BYTES..end)
    }

    /// Reads the two numbers of `data_offsets`, which start at offset `from`, after the bracket. `number` reads one of
    /// them.
    pub(super) fn offsets<'t>(
        &self,
        reader: &mut Reader<'t>,
        from: u64,
        number: impl Fn(&mut Reader<'t>) -> Result<u64>,
    ) -> Result<Range<u64>> {
        let wrong = |message: String, end: u64| Err(self.offsets.broken(message).at(from..end));
        let (mut pair, mut count) = ([0; 2], 0usize);
        while reader.next_item()? {
            let value = number(reader)?;
            match pair.get_mut(count) {
                Some(slot) => *slot = value,
                None => return wrong("expected 2 numbers, found more".to_owned(), reader.offset()),
            }
            count = count.saturating_add(1);
        }
        let [start, end] = pair;
        if count < 2 {
            return wrong(format!("expected 2 numbers, found {count}"), reader.offset());
        }
        if start > end {
            let message = format!("the start {start} is after the end {end}");
            return wrong(message, reader.offset());
        }
        Ok(start..end)
    }

    /// Returns the length and the header, padded with spaces so that the data starts at a multiple of `align`.
    pub(super) fn pad(&self, text: &str, align: u64) -> Result<Bytes> {
        let whole = LEN_BYTES.saturating_add(text.len() as u64);
        let len = whole
            .checked_next_multiple_of(align)
            .map(|end| end.saturating_sub(LEN_BYTES))
            .filter(|&len| len <= MAX_HEADER_LEN)
            .ok_or_else(|| {
                let len = text.len();
                let message =
                    format!("the header has {len} bytes, at most {MAX_HEADER_LEN} are allowed");
                self.limit.broken(message).with_hint("write fewer tensors, or another format")
            })?;
        let mut header = Vec::with_capacity(text.len().saturating_add(8));
        header.extend_from_slice(&len.to_le_bytes());
        header.extend_from_slice(text.as_bytes());
        // At most 100,000,000, which fits any `usize`.
        let end = usize::try_from(LEN_BYTES.saturating_add(len)).debug_unwrap();
        header.resize(end.max(header.len()), b' ');
        Ok(header.into())
    }
}

/// Checks that a header can hold these attributes.
pub(super) fn check_values(attributes: &Attributes) -> Result<()> {
    attributes.iter().try_for_each(|(_, value)| value.check_json(MAX_VALUE_DEPTH))?;
    match duplicate(attributes.iter().map(|(key, _)| key)) {
        Some(key) => {
            let message = format!("duplicate attribute `{}`", key.escaped());
            Err(NOT_JSON.broken(message))
        }
        None => Ok(()),
    }
}

/// A declared component, and its byte range in the file.
pub(super) struct Slot {
    pub(super) tensor: String,
    /// The index of the component in its tensor.
    pub(super) component: usize,
    /// The byte range in the file.
    pub(super) range: Range<u64>,
    /// The index of the slot whose bytes it shares.
    pub(super) shares: Option<usize>,
}

/// All declared components, in order, and the number of those that are written.
pub(super) struct Slots {
    dialect: &'static Dialect,
    all: Vec<Slot>,
    /// The index of the slot to be written next.
    next: usize,
    /// The length that the file will have, in bytes.
    end: u64,
}

impl Slots {
    /// Creates the slots of a file of which nothing is written yet.
    pub(super) fn new(dialect: &'static Dialect, all: Vec<Slot>, end: u64) -> Slots {
        Slots { dialect, all, next: 0, end }
    }

    #[cfg(feature = "metatensor")]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.all.iter()
    }

    /// Returns the length that the file will have, in bytes.
    #[cfg(feature = "metatensor")]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Implements [`holdall_core::encode::Encode::next_offset`].
    pub(super) fn next_offset(
        &self,
        end: u64,
        tensor: &TensorSpec,
        component: usize,
    ) -> Result<u64> {
        let slot = self.due(tensor, component)?;
        if slot.shares.is_some() {
            let unit = self.dialect.unit;
            let message = format!(
                "it was declared with the bytes of another {unit}, so it cannot be written itself"
            );
            return Err(self.dialect.declared.broken(message).in_tensor(&tensor.name));
        }
        let start = slot.range.start;
        let fits = if self.dialect.gaps { end <= start } else { end == start };
        if !fits {
            let message = format!(
                "its bytes were declared to start at {start}, but the file now ends at {end}"
            );
            return Err(self.dialect.declared.broken(message).in_tensor(&tensor.name));
        }
        Ok(start)
    }

    /// Implements [`holdall_core::encode::Encode::component_written`].
    pub(super) fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: &Stored,
    ) -> Result<()> {
        let slot = self.due(tensor, component)?;
        if stored.encoding != Encoding::Raw || stored.digest.is_some() {
            let what = if stored.digest.is_some() { "a digest" } else { stored.encoding.as_str() };
            let message = format!("a component cannot be stored with {what}");
            return Err(self.dialect.encoding.broken(message).in_tensor(&tensor.name));
        }
        if stored.range != slot.range {
            let (found, wanted) = (&stored.range, &slot.range);
            let message = format!(
                "expected the declared bytes {}..{}, but {}..{} were written",
                wanted.start, wanted.end, found.start, found.end
            );
            return Err(self.dialect.declared.broken(message).in_tensor(&tensor.name));
        }
        self.next = self.next.saturating_add(1);
        Ok(())
    }

    /// Implements [`holdall_core::encode::Encode::finish`]. Nothing follows the data.
    pub(super) fn finish(&self, end: u64) -> Result<Bytes> {
        if let Some(slot) = self.all.get(self.next) {
            let missing = self.all.len().saturating_sub(self.next);
            let message =
                format!("{missing} of the declared {}s were not written", self.dialect.unit);
            return Err(self.dialect.declared.broken(message).in_tensor(&slot.tensor));
        }
        if end != self.end {
            let message =
                format!("the declared length of the file is {} bytes, but it has {end}", self.end);
            return Err(self.dialect.declared.broken(message));
        }
        Ok(Bytes::new())
    }

    /// Returns the slot to be written next, if it is that of this component.
    fn due(&self, tensor: &TensorSpec, component: usize) -> Result<&Slot> {
        let message = match self.all.get(self.next) {
            Some(slot) if slot.tensor == tensor.name && slot.component == component => {
                return Ok(slot);
            }
            Some(slot) => format!("expected `{}` next, as declared", slot.tensor.escaped()),
            None => "no further components were declared".to_owned(),
        };
        Err(self.dialect.declared.broken(message).in_tensor(&tensor.name))
    }
}
