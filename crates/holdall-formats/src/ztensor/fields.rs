//! What the manifests of all generations have in common: known and unknown fields, dtypes,
//! encodings, digests.

use super::rules::*;
use holdall_core::error::{Error, Result, Rule, Shown as _};
use holdall_core::model::{DType, Digest, Encoding, IndexBuilder};
use holdall_core::wire::cbor::{DUPLICATE_KEY, Items, Reader, has_duplicates};

/// Every component starts at a multiple of this many bytes.
pub(super) const ALIGNMENT: u64 = 64;

/// The keys of one map that were read, to find one that comes twice. Reused from map to map.
#[derive(Debug, Default)]
pub(super) struct Keys<'a> {
    known: u32,
    unknown: Vec<&'a [u8]>,
}

impl<'a> Keys<'a> {
    /// Forgets the map before.
    pub(super) fn clear(&mut self) {
        self.known = 0;
        self.unknown.clear();
    }

    /// Notes known field number `field` (below 32).
    pub(super) fn known(&mut self, field: u8, key: &[u8]) -> Result<()> {
        let bit = 1u32.wrapping_shl(field.into());
        if self.known & bit != 0 {
            return Err(twice(key));
        }
        self.known |= bit;
        Ok(())
    }

    /// Whether known field number `field` was seen.
    pub(super) fn has(&self, field: u8) -> bool {
        self.known & 1u32.wrapping_shl(field.into()) != 0
    }

    /// Notes a field without a meaning here, and skips its value.
    pub(super) fn unknown(&mut self, key: &'a [u8], reader: &mut Reader<'a>) -> Result<()> {
        reader.utf8(key, reader.offset().saturating_sub(key.len() as u64))?;
        self.unknown.push(key);
        reader.skip()
    }

    /// The unknown fields.
    pub(super) fn all_unknown(&self) -> impl Iterator<Item = &'a [u8]> {
        self.unknown.iter().copied()
    }

    /// Notes the unknown fields, of the map that `place` names.
    pub(super) fn tell(&self, place: impl Fn() -> String, builder: &mut IndexBuilder) {
        // Who wrote a file says nothing about it.
        for key in self.unknown.iter().filter(|key| **key != b"generator") {
            builder.unkept(|| format!("the field `{}` of {}", shown(key), place()));
        }
    }

    /// Checks the unknown fields at the end of the map.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.unknown.len() > 1 && has_duplicates(&mut self.unknown) {
            let pair = self.unknown.windows(2).find(|pair| matches!(pair, [a, b] if a == b));
            return Err(twice(pair.and_then(|pair| pair.first()).copied().unwrap_or_default()));
        }
        Ok(())
    }
}

fn twice(key: &[u8]) -> holdall_core::error::Error {
    DUPLICATE_KEY.broken(format!("field `{}` comes twice", shown(key)))
}

/// Makes room for the tensors of a manifest that says how many it has. One takes at least some 50
/// bytes in any file that is sound, so the count is checked against the bytes left.
pub(super) fn reserve(builder: &mut IndexBuilder, tensors: &Items, reader: &Reader<'_>) {
    const LEAST: u64 = 48;
    let most = reader.remaining().wrapping_div(LEAST);
    let count = tensors.left().unwrap_or_default().min(most);
    builder.reserve(usize::try_from(count).unwrap_or_default());
}

/// The value of a required field.
pub(super) fn required<T>(value: Option<T>, field: &'static str) -> Result<T> {
    value.ok_or_else(|| MISSING_FIELD.broken(format!("there is no `{field}`")))
}

/// Whether an error is about the tensor that is being read and no other. The manifest around it stands.
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

/// What was read, or nothing where what is wrong is the [fault](is_fault) of the tensor; `fault` keeps the first.
pub(super) fn judge<T>(fault: &mut Option<Error>, read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(e) if is_fault(&e) => {
            fault.get_or_insert(e);
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Reads a dtype of 1.1's spelling (`f32`).
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

/// Reads a dtype of 0.1's and 1.0's spelling (`float32`).
#[inline]
pub(super) fn long_dtype(reader: &mut Reader<'_>) -> Result<DType> {
    let name = reader.name("`dtype`")?;
    let found = DType::ALL.into_iter().find(|&dtype| long_name(dtype).as_bytes() == name);
    found.ok_or_else(|| unknown(&UNKNOWN_DTYPE, "dtype", name))
}

/// 0.1's and 1.0's spelling of a dtype.
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
    // Those that are read only are of other formats.
    let known = std::str::from_utf8(name).ok().and_then(Encoding::from_name);
    let known = known.filter(|encoding| encoding.is_writable());
    known.ok_or_else(|| unknown(&UNKNOWN_ENCODING, "encoding", name))
}

/// A name that is not one of those known.
#[cold]
pub(super) fn unknown(rule: &'static Rule, what: &str, name: &[u8]) -> holdall_core::error::Error {
    rule.broken(format!("{what} `{}` is not one this version knows", shown(name)))
}

/// A file's text as it stands in an error.
pub(super) fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).shown().to_string()
}

/// The digest that `text` stands for.
pub(super) fn digest(
    text: &str,
    tensor: &str,
    component: &str,
    builder: &mut IndexBuilder,
) -> Result<Digest> {
    let Some(digest) = Digest::from_text(text) else {
        let (algorithm, _) = text.split_once(':').unwrap_or((text, ""));
        return Err(DIGEST.broken(format!(
            "a {algorithm} digest with a value of {} characters that is not one",
            text.len().saturating_sub(algorithm.len()).saturating_sub(1)
        )));
    };
    if digest.algorithm().is_none() {
        builder.warn(warnings::UNKNOWN_DIGEST, Some(tensor), Some(component), || {
            "a digest of an unknown algorithm; it cannot be verified".into()
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
                "offset {offset} is not a multiple of {ALIGNMENT}; such data is copied, not mapped"
            )
            .into()
        });
    }
}
