//! Reads numbers, booleans and times as Rust types.

use super::{Accessor, Leaf};
use crate::error::Result;
use crate::extent::in_memory;
use crate::kinds::Scalar;
use crate::record::float::{self, SmallFloat};
use crate::record::rules::{LENGTH, RANGE};
use crate::record::walk::check_bool;
use holdall_collections::DebugUnwrap;
use std::marker::PhantomData;

/// An accessor of a member that is read and written as a `T`: see [`Accessor::typed`].
#[derive(Debug, Clone)]
pub struct Typed<T> {
    accessor: Accessor,
    form: ScalarRepr,
    marker: PhantomData<fn() -> T>,
}

/// The representation of a Rust type in a record.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)]
pub enum ScalarRepr {
    /// The type's own bytes, little-endian.
    Own,
    /// A boolean.
    Bool,
    /// A 32-bit float that is read as a 64-bit one.
    Single,
    /// A 16-bit float.
    Small16(&'static SmallFloat),
    /// An 8-bit float.
    Small8(&'static SmallFloat),
}

/// The reason why a value cannot be read.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)]
pub enum ScalarError {
    /// The record is too short.
    Short,
    /// A byte that is neither 0 nor 1.
    Bool,
}

/// Returns `N` bytes of a record.
#[inline]
fn bytes<const N: usize>(record: &[u8], start: usize) -> Result<[u8; N], ScalarError> {
    // A record is never longer than memory, so this does not wrap.
    let slot = record.get(start..start.wrapping_add(N));
    slot.and_then(|s| s.first_chunk()).copied().ok_or(ScalarError::Short)
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that members of records can be read as: integers as their own type, times as `i64` (nanoseconds since
/// 1970), floats as `f32` and `f64` if these represent every value of the kind, complex numbers as `[real, imaginary]`,
/// booleans as `bool`.
pub trait ReadScalar: sealed::Sealed + Copy {
    /// Returns the representation of values of this kind, or `None` if they cannot be read as this type.
    #[doc(hidden)]
    fn form(scalar: Scalar) -> Option<ScalarRepr>;
    /// Reads the value that starts at byte `start` of a record.
    #[doc(hidden)]
    fn read(form: ScalarRepr, record: &[u8], start: usize) -> Result<Self, ScalarError>;
    /// Writes the value into `out`, which has the size of the kind.
    #[doc(hidden)]
    fn write(self, form: ScalarRepr, out: &mut [u8]) -> Result<()>;
}

impl Accessor {
    /// Returns this accessor for reading and writing as a `T`.
    ///
    /// # Errors
    /// Returns `record/access` if a member of this kind cannot be read as a `T`.
    pub fn typed<T: ReadScalar>(&self) -> Result<Typed<T>> {
        let form = match &self.leaf {
            Leaf::Scalar(scalar) => T::form(*scalar),
            _ => None,
        };
        match form {
            Some(form) => Ok(Typed { accessor: self.clone(), form, marker: PhantomData }),
            None => Err(self.not(&format!("read as {}", std::any::type_name::<T>()))),
        }
    }
}

impl<T: ReadScalar> Typed<T> {
    /// Returns the value in a record. Returns `None` if an optional member of the path is absent or a union contains
    /// another variant.
    ///
    /// # Errors
    /// Returns `record/bool-byte` for a boolean other than 0 or 1, and the errors of [`Accessor::is_present`].
    #[inline]
    pub fn read(&self, record: &[u8]) -> Result<Option<T>> {
        let a = &self.accessor;
        if a.guards.is_empty()
            && let Ok(value) = T::read(self.form, record, a.start)
        {
            return Ok(Some(value));
        }
        self.read_guarded(record)
    }

    /// A separate function, to keep the code out of loops over members that are always present.
    #[inline(never)]
    fn read_guarded(&self, record: &[u8]) -> Result<Option<T>> {
        let a = &self.accessor;
        if !a.guards.is_empty() && !a.is_present(record)? {
            return Ok(None);
        }
        match T::read(self.form, record, a.start) {
            Ok(value) => Ok(Some(value)),
            Err(miss) => Err(self.missed(miss, record)),
        }
    }

    /// Writes the value into a record and makes the member present: see [`Accessor::make_present`].
    ///
    /// # Errors
    /// Returns `record/range` if the kind cannot represent the value, `record/length` if `record` is too short. After
    /// an error, the record is unchanged.
    #[inline]
    pub fn write(&self, record: &mut [u8], value: T) -> Result<()> {
        let a = &self.accessor;
        let mut bytes = [0; 16];
        let bytes = bytes.get_mut(..a.size()).debug_unwrap();
        value.write(self.form, bytes)?;
        if record.len() as u64 != a.record.size {
            return Err(a.short(record));
        }
        if !a.guards.is_empty() {
            a.make_present(record)?;
        }
        match record.get_mut(a.start..a.end) {
            Some(slot) => {
                slot.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(LENGTH.broken("a member ends after its record")),
        }
    }

    /// Copies the values of consecutive records, one for each element of `out`, as fast as a plain loop over a member.
    /// If a record does not have the member, the element becomes `absent`.
    ///
    /// # Errors
    /// Returns `record/length` if `records` does not have one record for each element of `out`, and the errors of
    /// [`Typed::read`].
    pub fn copy_column(&self, records: &[u8], out: &mut [T], absent: T) -> Result<()> {
        let a = &self.accessor;
        let stride = in_memory(a.record.stride)?;
        if stride.checked_mul(out.len()) != Some(records.len()) {
            let (found, wanted) = (records.len(), out.len());
            let message = format!(
                "{found} bytes of records for {wanted} values, expected {stride} bytes for each"
            );
            return Err(LENGTH.broken(message));
        }
        if stride == 0 {
            // Records without bytes have no numbers.
            return Ok(());
        }
        if let Some(values) = self.values(records) {
            out.iter_mut().zip(values.iter()).for_each(|(slot, value)| *slot = value);
            return Ok(());
        }
        for (slot, record) in out.iter_mut().zip(records.chunks_exact(stride)) {
            *slot = self.read(record)?.unwrap_or(absent);
        }
        Ok(())
    }

    /// Returns a view of the values of consecutive records. Returns `None` if the member can be absent from a record,
    /// or is not stored as a `T`: booleans, and floats that are read as wider floats.
    pub fn values<'r>(&self, records: &'r [u8]) -> Option<Values<'r, T>> {
        let a = &self.accessor;
        let stride = usize::try_from(a.record.stride).ok()?;
        // Each record contains the value, so that only the index has to be checked when one is read.
        let is_inside = size_of::<T>() <= stride.checked_sub(a.start)?;
        let is_plain = a.guards.is_empty() && matches!(self.form, ScalarRepr::Own);
        let len = records.len().checked_div(stride)?;
        let bytes = records.get(a.start..len.saturating_mul(stride)).unwrap_or_default();
        (is_plain && is_inside).then_some(Values { bytes, stride, len, marker: PhantomData })
    }

    #[cold]
    fn missed(&self, miss: ScalarError, record: &[u8]) -> crate::Error {
        let a = &self.accessor;
        let part = record.get(a.start..a.end).unwrap_or_default();
        match (miss, check_bool(part)) {
            (ScalarError::Bool, Err(e)) => e,
            _ => a.short(record),
        }
    }

    /// Returns the untyped accessor.
    pub fn accessor(&self) -> &Accessor {
        &self.accessor
    }
}

/// A view of one value of each of many records: see [`Typed::values`]. Reading a value takes a multiplication, a
/// comparison and a load.
#[derive(Debug, Clone, Copy)]
pub struct Values<'r, T> {
    /// The bytes from the first value on.
    bytes: &'r [u8],
    /// The distance from one value to the next, in bytes.
    stride: usize,
    len: usize,
    marker: PhantomData<fn() -> T>,
}

impl<'r, T: ReadScalar> Values<'r, T> {
    /// Returns the number of values, which is the number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value of the record at `index`, or `None` if `index` is out of range.
    #[inline]
    pub fn get(&self, index: usize) -> Option<T> {
        // The bytes end with the stride of the last value, so an index that is too large is out of bounds.
        let bytes = self.bytes.get(index.checked_mul(self.stride)?..)?;
        T::read(ScalarRepr::Own, bytes, 0).ok()
    }

    /// Returns an iterator over all values.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'r, T> {
        let each = self.bytes.chunks(self.stride);
        each.filter_map(|bytes| T::read(ScalarRepr::Own, bytes, 0).ok())
    }
}

macro_rules! integers {
    ($($ty:ty: $($scalar:ident)|+;)+) => {$(
        impl sealed::Sealed for $ty {}

        impl ReadScalar for $ty {
            fn form(scalar: Scalar) -> Option<ScalarRepr> {
                matches!(scalar, $(Scalar::$scalar)|+).then_some(ScalarRepr::Own)
            }

            #[inline]
            fn read(_form: ScalarRepr, record: &[u8], start: usize) -> Result<$ty, ScalarError> {
                bytes(record, start).map(<$ty>::from_le_bytes)
            }

            #[inline]
            fn write(self, _form: ScalarRepr, out: &mut [u8]) -> Result<()> {
                out.copy_from_slice(&self.to_le_bytes());
                Ok(())
            }
        }
    )+};
}

integers! {
    i8: Int8;
    i16: Int16;
    i32: Int32;
    i64: Int64 | Timestamp;
    u8: Uint8;
    u16: Uint16;
    u32: Uint32;
    u64: Uint64;
}

impl sealed::Sealed for bool {}

impl ReadScalar for bool {
    fn form(scalar: Scalar) -> Option<ScalarRepr> {
        (scalar == Scalar::Boolean).then_some(ScalarRepr::Bool)
    }

    #[inline]
    fn read(_form: ScalarRepr, record: &[u8], start: usize) -> Result<bool, ScalarError> {
        match bytes(record, start)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(ScalarError::Bool),
        }
    }

    fn write(self, _form: ScalarRepr, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&[u8::from(self)]);
        Ok(())
    }
}

fn small_form(scalar: Scalar) -> Option<ScalarRepr> {
    match scalar {
        Scalar::Float16 => Some(ScalarRepr::Small16(&float::F16)),
        Scalar::BFloat16 => Some(ScalarRepr::Small16(&float::BF16)),
        Scalar::Float8E4M3 => Some(ScalarRepr::Small8(&float::F8_E4M3)),
        Scalar::Float8E5M2 => Some(ScalarRepr::Small8(&float::F8_E5M2)),
        _ => None,
    }
}

#[inline(never)]
fn read_small(form: ScalarRepr, record: &[u8], start: usize) -> Result<f64, ScalarError> {
    Ok(match form {
        ScalarRepr::Small16(kind) => {
            kind.number(u32::from(u16::from_le_bytes(bytes(record, start)?)))
        }
        ScalarRepr::Small8(kind) => {
            kind.number(u32::from(u8::from_le_bytes(bytes(record, start)?)))
        }
        ScalarRepr::Single => f64::from(f32::from_le_bytes(bytes(record, start)?)),
        ScalarRepr::Own | ScalarRepr::Bool => f64::from_le_bytes(bytes(record, start)?),
    })
}

fn write_small(x: f64, form: ScalarRepr, out: &mut [u8]) -> Result<()> {
    let code = match form {
        ScalarRepr::Small16(kind) | ScalarRepr::Small8(kind) => kind.code(x),
        #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest, held below")]
        ScalarRepr::Single => {
            let single = x as f32;
            (single.is_finite() || !x.is_finite()).then_some(single.to_bits())
        }
        ScalarRepr::Own | ScalarRepr::Bool => {
            out.copy_from_slice(&x.to_le_bytes());
            return Ok(());
        }
    };
    let Some(code) = code else {
        return Err(RANGE.broken(format!("{x:?} is out of range for its kind")));
    };
    for (slot, b) in out.iter_mut().zip(code.to_le_bytes()) {
        *slot = b;
    }
    Ok(())
}

impl sealed::Sealed for f32 {}

impl ReadScalar for f32 {
    fn form(scalar: Scalar) -> Option<ScalarRepr> {
        if scalar == Scalar::Float32 { Some(ScalarRepr::Own) } else { small_form(scalar) }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a float of 16 bits or fewer")]
    fn read(form: ScalarRepr, record: &[u8], start: usize) -> Result<f32, ScalarError> {
        match form {
            ScalarRepr::Own => bytes(record, start).map(f32::from_le_bytes),
            form => read_small(form, record, start).map(|x| x as f32),
        }
    }

    #[inline]
    fn write(self, form: ScalarRepr, out: &mut [u8]) -> Result<()> {
        match form {
            ScalarRepr::Own => {
                out.copy_from_slice(&self.to_le_bytes());
                Ok(())
            }
            form => write_small(f64::from(self), form, out),
        }
    }
}

impl sealed::Sealed for f64 {}

impl ReadScalar for f64 {
    fn form(scalar: Scalar) -> Option<ScalarRepr> {
        match scalar {
            Scalar::Float64 => Some(ScalarRepr::Own),
            Scalar::Float32 => Some(ScalarRepr::Single),
            small => small_form(small),
        }
    }

    #[inline]
    fn read(form: ScalarRepr, record: &[u8], start: usize) -> Result<f64, ScalarError> {
        match form {
            ScalarRepr::Own => bytes(record, start).map(f64::from_le_bytes),
            form => read_small(form, record, start),
        }
    }

    #[inline]
    fn write(self, form: ScalarRepr, out: &mut [u8]) -> Result<()> {
        write_small(self, form, out)
    }
}

macro_rules! complex {
    ($($ty:ty: $scalar:ident, $half:literal;)+) => {$(
        impl sealed::Sealed for [$ty; 2] {}

        impl ReadScalar for [$ty; 2] {
            fn form(scalar: Scalar) -> Option<ScalarRepr> {
                (scalar == Scalar::$scalar).then_some(ScalarRepr::Own)
            }

            #[inline]
            fn read(_form: ScalarRepr, record: &[u8], start: usize) -> Result<[$ty; 2], ScalarError> {
                let imaginary = start.wrapping_add($half);
                Ok([bytes(record, start)?, bytes(record, imaginary)?].map(<$ty>::from_le_bytes))
            }

            #[inline]
            fn write(self, _form: ScalarRepr, out: &mut [u8]) -> Result<()> {
                let [real, imaginary] = self;
                let bytes = real.to_le_bytes().into_iter().chain(imaginary.to_le_bytes());
                for (slot, b) in out.iter_mut().zip(bytes) {
                    *slot = b;
                }
                Ok(())
            }
        }
    )+};
}

complex! {
    f32: Complex64, 4;
    f64: Complex128, 8;
}
