//! The keys of the header: section 1.

use super::DIALECT;
use super::rules::*;
use crate::header::{LEN_BYTES, MAX_HEADER_LEN};
use holdall_collections::DebugUnwrap;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_json::{DUPLICATE_KEY, Reader, Token};
use holdall_schema::rules::TOO_LARGE;
use std::ops::Range;

/// The default alignment of the data, in bytes.
const DEFAULT_DATA_ALIGN: u64 = 256;
/// The maximum number of levels of JSON for one level of an attribute: a map is `{"$map":[[key,value]]}`.
const ATTRIBUTE_LEVELS: usize = 3;

/// A header with the ranges of its values.
pub(super) struct Header<'a> {
    pub(super) text: &'a str,
    /// The byte range of the header in the file.
    pub(super) range: Range<u64>,
    pub(super) version: String,
    /// The byte ranges of values in the file.
    pub(super) schema: Range<u64>,
    pub(super) tensors: Range<u64>,
    pub(super) metadata: Option<Range<u64>>,
    /// Unknown keys, which are ignored.
    pub(super) unknown: Vec<String>,
}

/// Returns the byte range of the header of the file in `window`.
pub(super) fn range(window: &Window, limits: &Limits) -> Result<Range<u64>, Stop> {
    let head = window.head(LEN_BYTES)?;
    let len = u64::from_le_bytes(*head.first_chunk::<8>().unwrap_or(&[0xff; 8]));
    Ok(DIALECT.range(window, len, MAX_HEADER_LEN.min(limits.header_len))?)
}

/// Returns the maximum depth of the values of `metadata`.
pub(super) fn metadata_depth(limits: &Limits) -> usize {
    limits.depth.saturating_mul(ATTRIBUTE_LEVELS).saturating_add(2)
}

/// The number of values in a schema that are allowed for each node.
const VALUES_OF_A_NODE: u64 = 4;

impl<'a> Header<'a> {
    /// Finds the keys of the header at `range`, and checks its small values.
    pub(super) fn read(bytes: &'a [u8], range: Range<u64>, limits: &Limits) -> Result<Header<'a>> {
        // The depth of the deepest value; other values are read later under their own limits.
        let depth = metadata_depth(limits).saturating_add(1);
        let mut reader = Reader::new(bytes, range.start, depth)?;
        // The text was validated above.
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut found = KeyRanges::default();
        let mut unknown = Vec::new();
        let mut scratch = String::new();
        let start = reader.offset();
        reader.begin_object()?;
        while let Some(key) = reader.next_key(&mut scratch)? {
            let Some((slot, wanted)) = found.slot(key) else {
                unknown.push(key.to_owned());
                reader.skip()?;
                continue;
            };
            let token = reader.peek()?;
            let at = reader.offset();
            if slot.is_some() {
                let message = format!("duplicate key `{key}` in the header");
                return Err(DUPLICATE_KEY.broken(message).at(reader.here()));
            }
            if !wanted.is_empty() && !wanted.contains(&token) {
                let message = format!("the value of `{key}` has the wrong type");
                return Err(HEADER.broken(message).at(reader.here()));
            }
            reader.skip()?;
            *slot = Some(at..reader.offset());
        }
        reader.end()?;
        if let Some(key) = holdall_json::duplicate(unknown.iter().map(String::as_str)) {
            let message = format!("duplicate key `{}` in the header", key.escaped());
            return Err(DUPLICATE_KEY.broken(message).at(start..range.end));
        }
        let sound = found.check(bytes, &range)?;
        let values = |part: &Range<u64>| count_values(slice(bytes, &range, part));
        let most = limits.schema_nodes.saturating_mul(VALUES_OF_A_NODE);
        if values(&sound.schema) > most {
            let message = format!("the schema has more than {most} values");
            return Err(TOO_LARGE.broken(message).at(sound.schema));
        }
        if let Some(part) = &sound.metadata {
            let left = limits.attribute_values.checked_sub(values(part));
            left.ok_or_else(|| too_many(limits).at(part.clone()))?;
        }
        Ok(sound.with(text, range, unknown))
    }
}

/// The ranges of the values of the keys.
#[derive(Default)]
struct KeyRanges {
    version: Option<Range<u64>>,
    endian: Option<Range<u64>>,
    data_align: Option<Range<u64>>,
    schema: Option<Range<u64>>,
    tensors: Option<Range<u64>>,
    metadata: Option<Range<u64>>,
    header_schema: Option<Range<u64>>,
}

impl KeyRanges {
    /// Returns the field for the range of a key's value, and the allowed types of the value; an empty list allows every
    /// type.
    fn slot(&mut self, key: &str) -> Option<(&mut Option<Range<u64>>, &'static [Token])> {
        Some(match key {
            "metatensor" => (&mut self.version, &[Token::String]),
            "endian" => (&mut self.endian, &[Token::String]),
            "data_align" => (&mut self.data_align, &[Token::Number]),
            "schema" => (&mut self.schema, &[Token::Object, Token::Bool]),
            "tensors" => (&mut self.tensors, &[]),
            "metadata" => (&mut self.metadata, &[Token::Object]),
            // For validators without support for kinds. It follows from `schema`.
            "header_schema" => (&mut self.header_schema, &[Token::Object, Token::Bool]),
            _ => return None,
        })
    }

    /// Checks the values that describe the file as a whole.
    fn check(self, bytes: &[u8], header: &Range<u64>) -> Result<Sound> {
        let reader = |range: &Range<u64>| Reader::new(slice(bytes, header, range), range.start, 1);
        let missing = |key: &str| -> Error {
            HEADER.broken(format!("missing key `{key}`")).at(header.clone())
        };
        let mut scratch = String::new();
        let version = self.version.ok_or_else(|| missing("metatensor"))?;
        let text = reader(&version)?.string(&mut scratch)?.to_owned();
        let minor = text.strip_prefix("1.").unwrap_or_default();
        if minor.is_empty() || !minor.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!("unknown version `{}`", text.escaped());
            return Err(VERSION.broken(message).at(version));
        }
        let endian = self.endian.ok_or_else(|| missing("endian"))?;
        let found = reader(&endian)?.string(&mut scratch)?.to_owned();
        if found != "little" {
            let message = format!("`endian` is `{}`, expected `little`", found.escaped());
            return Err(ENDIAN.broken(message).at(endian));
        }
        let data_align = match self.data_align {
            None => DEFAULT_DATA_ALIGN,
            Some(range) => {
                let number = reader(&range)?.number()?;
                let align = number.text.parse::<u64>().ok().filter(|_| number.is_integer);
                let align = align.filter(|a| a.is_power_of_two() && (64..=65536).contains(a));
                align.ok_or_else(|| {
                    let message = format!("`data_align` is {}", number.text.escaped());
                    DATA_ALIGN.broken(message).at(range)
                })?
            }
        };
        if !header.end.is_multiple_of(data_align) {
            let message = format!(
                "the data starts at {}, which is not a multiple of {data_align}",
                header.end
            );
            return Err(PADDING.broken(message).at(header.clone()));
        }
        Ok(Sound {
            version: text,
            schema: self.schema.ok_or_else(|| missing("schema"))?,
            tensors: self.tensors.ok_or_else(|| missing("tensors"))?,
            metadata: self.metadata,
        })
    }
}

/// A header whose small values are valid.
struct Sound {
    version: String,
    schema: Range<u64>,
    tensors: Range<u64>,
    metadata: Option<Range<u64>>,
}

impl Sound {
    fn with(self, text: &str, range: Range<u64>, unknown: Vec<String>) -> Header<'_> {
        let Sound { version, schema, tensors, metadata } = self;
        Header { text, range, version, schema, tensors, metadata, unknown }
    }
}

impl Header<'_> {
    /// Returns the text of a range of the file.
    pub(super) fn text_of(&self, range: &Range<u64>) -> &str {
        let from = usize::try_from(range.start.saturating_sub(self.range.start)).debug_unwrap();
        let to = usize::try_from(range.end.saturating_sub(self.range.start)).debug_unwrap();
        self.text.get(from..to).debug_unwrap()
    }
}

/// Returns the number of values in a JSON text, including keys. In memory, values take much more space than as text.
pub(super) fn count_values(text: &[u8]) -> u64 {
    let (mut count, mut is_text, mut is_escaped) = (1u64, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            // One more value, or the first value of an object or array.
            b',' | b':' | b'[' | b'{' if !is_text => count = count.saturating_add(1),
            _ => {}
        }
    }
    count
}

/// Returns the error for too many values.
#[cold]
pub(super) fn too_many(limits: &Limits) -> Error {
    TOO_MANY_VALUES.broken(format!("there are more than {} values", limits.attribute_values))
}

fn slice<'b>(bytes: &'b [u8], header: &Range<u64>, range: &Range<u64>) -> &'b [u8] {
    let from = usize::try_from(range.start.saturating_sub(header.start)).debug_unwrap();
    let to = usize::try_from(range.end.saturating_sub(header.start)).debug_unwrap();
    bytes.get(from..to).debug_unwrap()
}
