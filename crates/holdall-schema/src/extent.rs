//! Sizes, alignments and strides (sections 3 and 4).

use crate::error::{Error, Escape as _, Result, list};
use crate::kinds::{Align, Dim, Kind, Len, Struct, TensorType, Type, TypeId, Union};
use crate::rules::{SIZE_OVERFLOW, TENSOR, ZERO_SIZE};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The numbers of symbols.
pub type Symbols = BTreeMap<Arc<str>, u64>;

/// The alignment of a struct without `align`, in bytes (3.5.3).
const STRUCT_ALIGN: u32 = 16;
const ENTRY_LEN: u64 = 16;
const ENTRY_ALIGN: u32 = 8;

/// Computes size, alignment and offsets of a type of this kind; the types that it consists of are in `types`.
pub(crate) fn sized(
    mut kind: Kind,
    align_keyword: Option<Align>,
    types: &[Type],
    symbols: &Symbols,
) -> Result<Type> {
    let mut below = Below::default();
    let (size, own_align) = match &mut kind {
        Kind::Scalar(scalar) => (Some(u64::from(scalar.size())), scalar.align()),
        Kind::Enum(e) => (Some(u64::from(e.width.bytes())), e.width.bytes()),
        Kind::String | Kind::Bytes | Kind::Record => {
            below.heap(1);
            (Some(ENTRY_LEN), ENTRY_ALIGN)
        }
        Kind::Tensor(tensor) => (tensor_size(tensor, symbols)?, tensor_align(tensor)),
        Kind::Array(array) => {
            let items = below.take(types, array.items)?;
            if items.stride == Some(0) {
                return Err(ZERO_SIZE.broken("the elements of an array take 0 bytes"));
            }
            match array.len {
                Len::Fixed(len) => {
                    let size =
                        items.stride.map(|stride| fit(stride.checked_mul(len))).transpose()?;
                    (size, items.align)
                }
                Len::Variable { .. } => {
                    below.heap(items.align);
                    (Some(ENTRY_LEN), ENTRY_ALIGN)
                }
            }
        }
        Kind::Struct(fields) => struct_size(fields, align_keyword, types, &mut below)?,
        Kind::Union(union) => union_size(union, align_keyword, types, &mut below)?,
    };
    let align = match align_keyword {
        Some(Align::Bytes(bytes)) => bytes,
        Some(Align::Natural) | None => own_align,
    };
    let stride = size.map(|s| fit(round_up(s, align))).transpose()?;
    // Only structs and unions are padded to a multiple of their alignment.
    let size = if matches!(kind, Kind::Struct(_) | Kind::Union(_)) { stride } else { size };
    let height = below.height.saturating_add(1);
    Ok(Type {
        kind,
        size,
        align,
        stride,
        align_keyword,
        heap_align: below.heap_align,
        meaning: None,
        height,
    })
}

/// The heap alignment and the nesting height of the types that a type consists of.
#[derive(Default)]
struct Below {
    heap_align: Option<u32>,
    height: usize,
}

impl Below {
    fn heap(&mut self, align: u32) {
        self.heap_align = Some(self.heap_align.map_or(align, |a| a.max(align)));
    }

    fn take<'t>(&mut self, types: &'t [Type], id: TypeId) -> Result<&'t Type> {
        let ty = get(types, id)?;
        self.height = self.height.max(ty.height);
        if let Some(align) = ty.heap_align {
            self.heap(align);
        }
        Ok(ty)
    }
}

fn struct_size(
    fields: &mut Struct,
    keyword: Option<Align>,
    types: &[Type],
    below: &mut Below,
) -> Result<(Option<u64>, u32)> {
    let mut widest = 1;
    for member in &fields.members {
        widest = below.take(types, member.ty)?.align.max(widest);
    }
    let align = match keyword {
        Some(Align::Bytes(bytes)) => bytes,
        Some(Align::Natural) => widest,
        None => widest.max(STRUCT_ALIGN),
    };
    let mut at = Some(u64::from(fields.presence_len));
    for member in &mut fields.members {
        let ty = get(types, member.ty)?;
        let start = at.map(|at| fit(round_up(at, ty.align.min(align)))).transpose()?;
        member.offset = start;
        at = match (start, ty.size) {
            (Some(start), Some(size)) => Some(fit(start.checked_add(size))?),
            _ => None,
        };
    }
    Ok((at, align))
}

fn union_size(
    union: &mut Union,
    keyword: Option<Align>,
    types: &[Type],
    below: &mut Below,
) -> Result<(Option<u64>, u32)> {
    let (mut widest, mut largest) = (1, Some(0u64));
    for variant in &union.variants {
        let ty = below.take(types, variant.ty)?;
        widest = ty.align.max(widest);
        largest = largest.zip(ty.size).map(|(a, b)| a.max(b));
    }
    let tag = union.width.bytes();
    // Both are powers of two, so the larger is a multiple of the smaller.
    union.start = widest.max(tag);
    let size = largest.map(|s| fit(s.checked_add(u64::from(union.start)))).transpose()?;
    let align = match keyword {
        Some(Align::Bytes(bytes)) => bytes,
        Some(Align::Natural) | None => widest.max(tag),
    };
    Ok((size, align))
}

/// Returns the size of a tensor in bytes, or `None` if it depends on a symbol without a number or is not fixed.
pub(crate) fn tensor_size(tensor: &TensorType, symbols: &Symbols) -> Result<Option<u64>> {
    let (Some(dtype), Some(shape)) = (tensor.dtype, &tensor.shape) else { return Ok(None) };
    let mut dims = Vec::with_capacity(shape.len());
    for dim in shape {
        let number = match dim {
            Dim::Known(n) => Some(*n),
            Dim::Symbol(name) => symbols.get(name).copied(),
            Dim::Any => None,
        };
        match number {
            Some(n) => dims.push(u128::from(n)),
            None => return Ok(None),
        }
    }
    if dims.contains(&0) {
        return Ok(Some(0));
    }
    let bits = dims.iter().try_fold(u128::from(dtype.bits()), |a, n| a.checked_mul(*n));
    let Some(bits) = bits else { return Err(overflow()) };
    if !bits.is_multiple_of(8) {
        let message = format!(
            "{dtype} of shape {} takes {bits} bits, which is not a whole number of bytes",
            show_shape(shape)
        );
        return Err(TENSOR.broken(message));
    }
    fit(u64::try_from(bits / 8).ok()).map(Some)
}

/// Returns the alignment of a tensor without `align`, in bytes.
fn tensor_align(tensor: &TensorType) -> u32 {
    tensor.dtype.map_or(1, |dtype| dtype.align())
}

/// Formats a shape as it is written in a schema.
pub(crate) fn show_shape(shape: &[Dim]) -> String {
    let show = |d: &Dim| match d {
        Dim::Known(n) => n.to_string(),
        Dim::Any => "null".to_owned(),
        Dim::Symbol(name) => format!("`{}`", name.escaped()),
    };
    format!("[{}]", list(shape.iter().map(show)))
}

/// Rounds up to the next multiple of a power of two.
pub(crate) fn round_up(n: u64, align: u32) -> Option<u64> {
    n.checked_next_multiple_of(u64::from(align))
}

/// Returns a computed size. Fails if it does not fit in 63 bits.
pub(crate) fn fit(size: Option<u64>) -> Result<u64> {
    size.filter(|s| i64::try_from(*s).is_ok()).ok_or_else(overflow)
}

/// Converts the size of an object in memory. Fails if it is too large for this machine.
pub(crate) fn in_memory(size: u64) -> Result<usize> {
    match isize::try_from(size).ok().and_then(|s| usize::try_from(s).ok()) {
        Some(size) => Ok(size),
        None => Err(SIZE_OVERFLOW.broken(format!("{size} bytes do not fit in memory"))),
    }
}

#[cold]
fn overflow() -> Error {
    SIZE_OVERFLOW.broken("a size exceeds 2^63 - 1 bytes")
}

/// Returns a type of the arena.
pub(crate) fn get(types: &[Type], id: TypeId) -> Result<&Type> {
    let found = usize::try_from(id.0).ok().and_then(|at| types.get(at));
    found.ok_or_else(|| crate::rules::UNKNOWN_PATH.broken("the type belongs to another schema"))
}
