//! The parts that the manifests of all generations have in common: known and unknown fields, dtypes, encodings,
//! digests.

use super::rules::*;
use holdall_collections::DebugUnwrap;
use holdall_core::error::{Error, Escape as _, Result, Rule};
use holdall_core::model::{DType, Digest, Encoding, IndexBuilder};
use holdall_core::wire::cbor::{DUPLICATE_KEY, Items, Reader, has_duplicates};

/// The alignment of components, in bytes.
pub(super) const ALIGNMENT: u64 = 64;

/// The keys of a map that were read, to detect duplicates. Reused for each map.
#[derive(Debug, Default)]
pub(super) struct Keys<'a> {
    known: u32,
    unknown: Vec<&'a [u8]>,
}

impl<'a> Keys<'a> {
    /// Clears the keys, for another map.
    pub(super) fn clear(&mut self) {
        self.known = 0;
        self.unknown.clear();
    }

    /// Records the known field number `field` (below 32).
    pub(super) fn known(&mut self, field: u8, key: &[u8]) -> Result<()> {
        let bit = 1u32.wrapping_shl(field.into());
        if self.known & bit != 0 {
            return Err(twice(key));
        }
        self.known |= bit;
        Ok(())
    }

    /// Returns `true` if the known field number `field` was recorded.
    pub(super) fn has(&self, field: u8) -> bool {
        self.known & 1u32.wrapping_shl(field.into()) != 0
    }

    /// Records an unknown field, and skips its value.
    pub(super) fn unknown(&mut self, key: &'a [u8], reader: &mut Reader<'a>) -> Result<()> {
        reader.utf8(key, reader.offset().saturating_sub(key.len() as u64))?;
        self.unknown.push(key);
        reader.skip()
    }

    /// Returns the unknown fields.
    pub(super) fn all_unknown(&self) -> impl Iterator<Item = &'a [u8]> {
        self.unknown.iter().copied()
    }

    /// Reports the unknown fields to `builder`. `location` returns a name for the map.
    pub(super) fn report_unknown(&self, location: impl Fn() -> String, builder: &mut IndexBuilder) {
        // The program that wrote a file is not a part of its contents.
        for key in self.unknown.iter().filter(|key| **key != b"generator") {
            builder.unrepresented(|| format!("the field `{}` of {}", escaped(key), location()));
        }
    }

    /// Checks the unknown fields for duplicates at the end of the map.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.unknown.len() > 1 && has_duplicates(&mut self.unknown) {
            let pair = self.unknown.windows(2).find(|pair| matches!(pair, [a, b] if a == b));
            return Err(twice(pair.and_then(|pair| pair.first()).copied().unwrap_or_default()));
        }
        Ok(())
    }
}

fn twice(key: &[u8]) -> holdall_core::error::Error {
    DUPLICATE_KEY.broken(format!("duplicate field `{}`", escaped(key)))
}

/// Allocates space for the tensors of a manifest that states their number. In a valid file, a tensor takes at least
/// about 50 bytes, so the number is checked against the remaining bytes.
pub(super) fn reserve(builder: &mut IndexBuilder, tensors: &Items, reader: &Reader<'_>) {
    const LEAST: u64 = 48;
    let most = reader.remaining().wrapping_div(LEAST);
    let count = tensors.left().unwrap_or_default().min(most);
    builder.reserve(usize::try_from(count).debug_unwrap());
}

/// Returns the value of a required field.
pub(super) fn required<T>(value: Option<T>, field: &'static str) -> Result<T> {
    value.ok_or_else(|| MISSING_FIELD.broken(format!("missing field `{field}`")))
}

/// Returns `true` if an error concerns only the tensor that is being read, so that the rest of the manifest can be
/// read.
pub(super) fn is_fault(e: &Error) -> bool {
    let of_a_tensor = [
        &MISSING_FIELD,
        &UNKNOWN_DTYPE,
        &UNKNOWN_ENCODING,
        &UNKNOWN_BYTE_ORDER,
        &DIGEST,
        &UNCOMPRESSED_LENGTH,
        &INDEX_DTYPE,
    ];
    of_a_tensor.contains(&e.rule())
}

/// Returns the value, or `None` if the error is a [fault](is_fault) of the tensor. The first fault is stored in
/// `fault`.
pub(super) fn record_fault<T>(fault: &mut Option<Error>, read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(e) if is_fault(&e) => {
            fault.get_or_insert(e);
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Reads a dtype in the spelling of 1.1 (`f32`).
#[inline]
pub(super) fn short_dtype(reader: &mut Reader<'_>) -> Result<DType> {
    Ok(match reader.name("`dtype`")? {
        b"f64" => DType::F64,
        b"f32" => DType::F32,
        b"f16" => DType::F16,
        b"bf16" => DType::Bf16,
        b"i64" => DType::I64,
        b"i32" => DType::I32,
        b"i16" => DType::I16,
        b"i8" => DType::I8,
        b"u64" => DType::U64,
        b"u32" => DType::U32,
        b"u16" => DType::U16,
        b"u8" => DType::U8,
        b"bool" => DType::Bool,
        name => return Err(unknown(&UNKNOWN_DTYPE, "dtype", name)),
    })
}

/// Reads a dtype in the spelling of 0.1 and 1.0 (`float32`).
#[inline]
pub(super) fn long_dtype(reader: &mut Reader<'_>) -> Result<DType> {
    let name = reader.name("`dtype`")?;
    let found = DType::ALL.into_iter().find(|&dtype| long_name(dtype).as_bytes() == name);
    found.ok_or_else(|| unknown(&UNKNOWN_DTYPE, "dtype", name))
}

/// Returns the spelling of a dtype in 0.1 and 1.0.
pub(super) const fn long_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "float64",
        DType::F32 => "float32",
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::I64 => "int64",
        DType::I32 => "int32",
        DType::I16 => "int16",
        DType::I8 => "int8",
        DType::U64 => "uint64",
        DType::U32 => "uint32",
        DType::U16 => "uint16",
        DType::U8 => "uint8",
        DType::Bool => "bool",
    }
}

/// Reads an encoding.
#[inline]
pub(super) fn encoding(reader: &mut Reader<'_>) -> Result<Encoding> {
    let name = reader.name("`encoding`")?;
    if name == b"raw" {
        return Ok(Encoding::Raw);
    }
    // Read-only encodings belong to other formats.
    let known = std::str::from_utf8(name).ok().and_then(Encoding::from_name);
    let known = known.filter(|encoding| encoding.is_writable());
    known.ok_or_else(|| unknown(&UNKNOWN_ENCODING, "encoding", name))
}

/// Returns the error for an unknown name.
#[cold]
pub(super) fn unknown(rule: &'static Rule, what: &str, name: &[u8]) -> holdall_core::error::Error {
    rule.broken(format!("unknown {what} `{}`", escaped(name)))
}

/// Returns a text of the file in a form for messages.
pub(super) fn escaped(text: &[u8]) -> String {
    String::from_utf8_lossy(text).escaped().to_string()
}

/// Parses a digest.
pub(super) fn digest(
    text: &str,
    tensor: &str,
    component: &str,
    builder: &mut IndexBuilder,
) -> Result<Digest> {
    let Some(digest) = Digest::from_text(text) else {
        let (algorithm, _) = text.split_once(':').unwrap_or((text, ""));
        return Err(DIGEST.broken(format!(
            "invalid {algorithm} digest of {} characters",
            text.len().saturating_sub(algorithm.len()).saturating_sub(1)
        )));
    };
    if digest.algorithm().is_none() {
        builder.warn(warnings::UNKNOWN_DIGEST, Some(tensor), Some(component), || {
            "the digest has an unknown algorithm and cannot be verified".into()
        });
    }
    Ok(digest)
}

/// Warns of a component that does not start at a multiple of 64 bytes.
pub(super) fn check_alignment(
    offset: u64,
    len: u64,
    tensor: &str,
    component: &str,
    builder: &mut IndexBuilder,
) {
    if len > 0 && !offset.is_multiple_of(ALIGNMENT) {
        builder.warn(warnings::ALIGNMENT, Some(tensor), Some(component), || {
            format!(
                "offset {offset} is not a multiple of {ALIGNMENT}; such data is copied instead of memory-mapped"
            )
            .into()
        });
    }
}
