//! The runs of a blob: checks their bytes, and encodes them from JSON (section 6.5).

use super::encode::base64;
use super::number::{Element, Num, expect, small_code};
use super::rules::{ENTRY_LENGTH, JSON, UTF8};
use crate::error::Result;
use crate::kinds::Content;
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use holdall_collections::DebugUnwrap;
use holdall_json::{Reader, Token, parse};

/// Checks that bytes are a run of this content type, and returns their alignment in the heap.
///
/// # Errors
/// Returns `record/utf8`, `record/json` or `record/entry-length` if they are not.
pub fn check_run(content: Content, bytes: &[u8], limits: &SchemaLimits) -> Result<u32> {
    match content {
        Content::Bytes => Ok(1),
        Content::Utf8 => match std::str::from_utf8(bytes) {
            Ok(_) => Ok(1),
            Err(e) => {
                let (at, len) = (e.valid_up_to(), bytes.len());
                Err(UTF8.broken(format!("byte {at} of {len} is not UTF-8")))
            }
        },
        Content::Json => match parse(bytes, limits.depth) {
            Ok(_) => Ok(1),
            Err(e) => Err(JSON.broken("the run is not valid JSON").because(e)),
        },
        Content::Elements(dtype) => {
            let width = (dtype.bits() / 8).max(1);
            if !(bytes.len() as u64).is_multiple_of(width) {
                let message =
                    format!("{} bytes, not a multiple of the element size {width}", bytes.len());
                return Err(ENTRY_LENGTH.broken(message));
            }
            Ok(u32::try_from(width).unwrap_or(u32::MAX))
        }
    }
}

/// Encodes a run of this content type from its JSON text and appends its bytes to `out`. The JSON is a string for text,
/// a base64 string for bytes, the text itself for JSON, and an array of numbers for elements.
///
/// # Errors
/// Returns an error of the `json/…` rules or of those in section 5.2. After an error, part of the run may have been
/// appended.
pub fn encode_run(
    content: Content,
    json: &[u8],
    limits: &SchemaLimits,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut reader = Reader::new(json, 0, limits.json_depth())?;
    let mut scratch = String::new();
    match content {
        Content::Utf8 => {
            expect(&mut reader, Token::String, "text")?;
            out.extend_from_slice(reader.string(&mut scratch)?.as_bytes());
        }
        Content::Bytes => {
            expect(&mut reader, Token::String, "base64")?;
            base64(reader.string(&mut scratch)?, out)?;
        }
        Content::Json => {
            reader.skip()?;
            out.extend_from_slice(json.trim_ascii());
        }
        Content::Elements(dtype) => {
            let element = Num::from_dtype(dtype);
            let width = usize::try_from(dtype.bits().div_ceil(8)).unwrap_or(1);
            expect(&mut reader, Token::Array, "an array of numbers")?;
            reader.begin_array()?;
            let mut at = 0u64;
            while reader.next_item()? {
                let start = out.len();
                out.resize(start.saturating_add(width), 0);
                let slot = out.get_mut(start..).debug_unwrap();
                let done = match element {
                    Element::Whole(num) => num.encode(&mut reader, slot, &mut scratch),
                    Element::Bits(kind) => {
                        let code = small_code(kind, &mut reader, &mut scratch);
                        code.map(|code| {
                            slot.iter_mut().zip(code.to_le_bytes()).for_each(|(s, b)| *s = b);
                        })
                    }
                };
                done.map_err(|e| e.within(format!("`{}`", Path(vec![Segment::Index(at)]))))?;
                at = at.saturating_add(1);
            }
        }
    }
    reader.end()
}
