//! What safetensors and Metatensor share: a file starts with the length of its header, 8 bytes, then
//! comes the header, one JSON object, then the data.

use bytes::Bytes;
use holdall_core::encode::{Stored, TensorSpec};
use holdall_core::error::{Result, Rule, Shown as _};
use holdall_core::model::attributes::NOT_JSON;
use holdall_core::model::{Attributes, Encoding};
use holdall_core::window::Window;
use holdall_json::{Reader, duplicate};
use std::ops::Range;

/// Bytes of the header's length.
pub(super) const LEN_BYTES: u64 = 8;
/// Bytes that a header may have, by the formats.
pub(super) const MAX_HEADER_LEN: u64 = 100_000_000;
/// The deepest attribute value written. Its JSON, up to three levels for each, stays within what is read
/// under the default [`holdall_core::Limits::depth`].
const MAX_VALUE_DEPTH: usize = 60;

/// What is different from one such format to another.
pub(super) struct Dialect {
    pub(super) bounds: &'static Rule,
    pub(super) limit: &'static Rule,
    pub(super) offsets: &'static Rule,
    pub(super) encoding: &'static Rule,
    pub(super) declared: &'static Rule,
    /// What has bytes of its own: a tensor, or each of its components.
    pub(super) unit: &'static str,
    /// Whether data may have gaps.
    pub(super) gaps: bool,
}

impl Dialect {
    /// Where the header of the file in `window` lies, which is said to have `len` bytes and may have
    /// `most`.
    pub(super) fn range(&self, window: &Window, len: u64, most: u64) -> Result<Range<u64>> {
        let end = len.checked_add(LEN_BYTES).filter(|&end| end <= window.len());
        let Some(end) = end else {
            let message = format!(
                "the header is said to have {len} bytes, but the file has {} after its length",
                window.len().saturating_sub(LEN_BYTES)
            );
            return Err(self.bounds.broken(message).at(0..LEN_BYTES));
        };
        if len > most {
            let message = format!("the header has {len} bytes, at most {most}");
            return Err(self.limit.broken(message).at(0..LEN_BYTES));
        }
        Ok(LEN_BYTES..end)
    }

    /// The two numbers of `data_offsets`, which start at byte `from`, after the bracket. `number` reads
    /// one.
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
                None => return wrong("more than two numbers".to_owned(), reader.offset()),
            }
            count = count.saturating_add(1);
        }
        let [start, end] = pair;
        if count < 2 {
            return wrong(format!("{count} numbers, not two"), reader.offset());
        }
        if start > end {
            let message = format!("the start {start} lies after the end {end}");
            return wrong(message, reader.offset());
        }
        Ok(start..end)
    }

    /// Length and header, padded with spaces so that the data starts at a multiple of `align`.
    pub(super) fn pad(&self, text: &str, align: u64) -> Result<Bytes> {
        let whole = LEN_BYTES.saturating_add(text.len() as u64);
        let len = whole
            .checked_next_multiple_of(align)
            .map(|end| end.saturating_sub(LEN_BYTES))
            .filter(|&len| len <= MAX_HEADER_LEN)
            .ok_or_else(|| {
                let len = text.len();
                let message = format!("the header takes {len} bytes, at most {MAX_HEADER_LEN}");
                self.limit
                    .broken(message)
                    .with_hint("the format allows no more: write fewer tensors or another format")
            })?;
        let mut header = Vec::with_capacity(text.len().saturating_add(8));
        header.extend_from_slice(&len.to_le_bytes());
        header.extend_from_slice(text.as_bytes());
        // At most 100,000,000: it fits any `usize`.
        let end = usize::try_from(LEN_BYTES.saturating_add(len)).unwrap_or_default();
        header.resize(end.max(header.len()), b' ');
        Ok(header.into())
    }
}

/// Checks that a header can hold these attributes.
pub(super) fn check_values(attributes: &Attributes) -> Result<()> {
    attributes.iter().try_for_each(|(_, value)| value.check_json(MAX_VALUE_DEPTH))?;
    match duplicate(attributes.iter().map(|(key, _)| key)) {
        Some(key) => {
            let message = format!("the attribute `{}` comes twice", key.shown());
            Err(NOT_JSON.broken(message))
        }
        None => Ok(()),
    }
}

/// A component that was declared, and where it will lie.
pub(super) struct Slot {
    pub(super) tensor: String,
    /// Its number in the tensor.
    pub(super) component: usize,
    /// Bytes of the file.
    pub(super) range: Range<u64>,
    /// The slot whose bytes it has.
    pub(super) shares: Option<usize>,
}

/// All that was declared, in order, and how much of it was written.
pub(super) struct Slots {
    of: &'static Dialect,
    all: Vec<Slot>,
    /// The slot that comes next.
    next: usize,
    /// Where the file will end.
    end: u64,
}

impl Slots {
    /// Nothing of `all` is written yet.
    pub(super) fn new(of: &'static Dialect, all: Vec<Slot>, end: u64) -> Slots {
        Slots { of, all, next: 0, end }
    }

    #[cfg(feature = "metatensor")]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.all.iter()
    }

    /// Where the file will end.
    #[cfg(feature = "metatensor")]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// As [`holdall_core::encode::Encode::place`].
    pub(super) fn next_offset(
        &self,
        end: u64,
        tensor: &TensorSpec,
        component: usize,
    ) -> Result<u64> {
        let slot = self.due(tensor, component)?;
        if slot.shares.is_some() {
            let unit = self.of.unit;
            let message = format!("it was declared to share the bytes of another {unit}");
            return Err(self.of.declared.broken(message).in_tensor(&tensor.name));
        }
        let start = slot.range.start;
        let fits = if self.of.gaps { end <= start } else { end == start };
        if !fits {
            let message = format!("its bytes start at {start}, the file ends at {end}");
            return Err(self.of.declared.broken(message).in_tensor(&tensor.name));
        }
        Ok(start)
    }

    /// As [`holdall_core::encode::Encode::placed`].
    pub(super) fn placed(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: &Stored,
    ) -> Result<()> {
        let slot = self.due(tensor, component)?;
        if stored.encoding != Encoding::Raw || stored.digest.is_some() {
            let what = if stored.digest.is_some() { "a digest" } else { stored.encoding.as_str() };
            let message = format!("{what} cannot be recorded");
            return Err(self.of.encoding.broken(message).in_tensor(&tensor.name));
        }
        if stored.range != slot.range {
            let (found, wanted) = (&stored.range, &slot.range);
            let message = format!(
                "bytes {}..{} were declared, {}..{} written",
                wanted.start, wanted.end, found.start, found.end
            );
            return Err(self.of.declared.broken(message).in_tensor(&tensor.name));
        }
        self.next = self.next.saturating_add(1);
        Ok(())
    }

    /// As [`holdall_core::encode::Encode::finish`]: nothing comes after the data.
    pub(super) fn finish(&self, end: u64) -> Result<Bytes> {
        if let Some(slot) = self.all.get(self.next) {
            let missing = self.all.len().saturating_sub(self.next);
            let message = format!("{missing} declared {}s were not written", self.of.unit);
            return Err(self.of.declared.broken(message).in_tensor(&slot.tensor));
        }
        if end != self.end {
            let message = format!("the file was to have {} bytes, it has {end}", self.end);
            return Err(self.of.declared.broken(message));
        }
        Ok(Bytes::new())
    }

    /// The slot that comes next, if it is this component's.
    fn due(&self, tensor: &TensorSpec, component: usize) -> Result<&Slot> {
        let message = match self.all.get(self.next) {
            Some(slot) if slot.tensor == tensor.name && slot.component == component => {
                return Ok(slot);
            }
            Some(slot) => format!("`{}` was declared to come next", slot.tensor.shown()),
            None => "nothing more was declared".to_owned(),
        };
        Err(self.of.declared.broken(message).in_tensor(&tensor.name))
    }
}
