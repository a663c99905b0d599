//! Numbers, booleans and times by their Rust types.

use super::{Accessor, Leaf};
use crate::error::Result;
use crate::extent::in_memory;
use crate::kinds::Scalar;
use crate::record::float::{self, SmallFloat};
use crate::record::rules::{LENGTH, RANGE};
use crate::record::walk::check_bool;
use std::marker::PhantomData;

/// The way to a part that is read and written as a `T`: see [`Accessor::typed`].
#[derive(Debug, Clone)]
pub struct Typed<T> {
    accessor: Accessor,
    form: ScalarRepr,
    of: PhantomData<fn() -> T>,
}

/// How a Rust type lies in a record.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)]
pub enum ScalarRepr {
    /// As it is.
    Own,
    /// A boolean.
    Bool,
    /// A float of 32 bits read as one of 64.
    Single,
    /// A float of 16 bits.
    Small16(&'static SmallFloat),
    /// A float of 8 bits.
    Small8(&'static SmallFloat),
}

/// Why there is no value.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)]
pub enum ScalarError {
    /// The record is too short.
    Short,
    /// A byte that is not a boolean.
    Bool,
}

/// So many bytes of a record.
#[inline]
fn bytes<const N: usize>(record: &[u8], start: usize) -> Result<[u8; N], ScalarError> {
    // A record is no longer than memory, so this never wraps.
    let slot = record.get(start..start.wrapping_add(N));
    slot.and_then(|s| s.first_chunk()).copied().ok_or(ScalarError::Short)
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that parts of records are read as: integers as their own type, times as `i64`
/// (nanoseconds since 1970), floats as `f32` and `f64` where these hold every value of the kind,
/// complex numbers as `[real, imaginary]`, booleans as `bool`.
pub trait ReadScalar: sealed::Sealed + Copy {
    /// How values of that kind lie, if they are values of this type.
    #[doc(hidden)]
    fn form(scalar: Scalar) -> Option<ScalarRepr>;
    /// The value that starts at that byte of a record.
    #[doc(hidden)]
    fn read(form: ScalarRepr, record: &[u8], start: usize) -> Result<Self, ScalarError>;
    /// The bytes of the value, into as many as the kind has.
    #[doc(hidden)]
    fn write(self, form: ScalarRepr, out: &mut [u8]) -> Result<()>;
}

impl Accessor {
    /// The same way, for reading and writing as a `T`.
    ///
    /// # Errors
    /// `record/access` where the kind is not one of `T`.
    pub fn typed<T: ReadScalar>(&self) -> Result<Typed<T>> {
        let form = match &self.leaf {
            Leaf::Scalar(scalar) => T::form(*scalar),
            _ => None,
        };
        match form {
            Some(form) => Ok(Typed { accessor: self.clone(), form, of: PhantomData }),
            None => Err(self.not(&format!("read as {}", std::any::type_name::<T>()))),
        }
    }
}

impl<T: ReadScalar> Typed<T> {
    /// The value in a record; `None` where an optional member on the way is absent, or a union holds
    /// another variant.
    ///
    /// # Errors
    /// `record/bool-byte`, and as [`Accessor::is_there`].
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

    /// Out of the way of loops over parts that are always there.
    #[inline(never)]
    fn read_guarded(&self, record: &[u8]) -> Result<Option<T>> {
        let a = &self.accessor;
        if !a.guards.is_empty() && !a.is_there(record)? {
            return Ok(None);
        }
        match T::read(self.form, record, a.start) {
            Ok(value) => Ok(Some(value)),
            Err(miss) => Err(self.missed(miss, record)),
        }
    }

    /// Puts the value into a record, and makes it be there: see [`Accessor::make_there`].
    ///
    /// # Errors
    /// `record/range` where the kind does not have the value; `record/length`. The record is then as
    /// it was.
    #[inline]
    pub fn write(&self, record: &mut [u8], value: T) -> Result<()> {
        let a = &self.accessor;
        let mut bytes = [0; 16];
        let bytes = bytes.get_mut(..a.size()).unwrap_or_default();
        value.write(self.form, bytes)?;
        if record.len() as u64 != a.record.size {
            return Err(a.short(record));
        }
        if !a.guards.is_empty() {
            a.make_there(record)?;
        }
        match record.get_mut(a.start..a.end) {
            Some(slot) => {
                slot.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(LENGTH.broken("a part leaves its record")),
        }
    }

    /// Copies the values of records that lie one after the other at their stride, one for each element of
    /// `out`, as fast as a plain loop over a member would. Where an optional member on the way is absent, or
    /// a union holds another variant, that is `absent`.
    ///
    /// # Errors
    /// `record/length` where `records` is not as long as `out` asks for; as [`Typed::read`].
    pub fn copy_column(&self, records: &[u8], out: &mut [T], absent: T) -> Result<()> {
        let a = &self.accessor;
        let stride = in_memory(a.record.stride)?;
        if stride.checked_mul(out.len()) != Some(records.len()) {
            let (found, wanted) = (records.len(), out.len());
            let message = format!("{found} bytes of records of {stride}, for {wanted} values");
            return Err(LENGTH.broken(message));
        }
        if stride == 0 {
            // Records without bytes have no part that is a number.
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

    /// The values of records that lie one after the other at their stride. `None` where a record may be without the value, or where the
    /// value is not stored as a `T` is: booleans, and floats that are read as wider ones.
    pub fn values<'r>(&self, records: &'r [u8]) -> Option<Values<'r, T>> {
        let a = &self.accessor;
        let stride = usize::try_from(a.record.stride).ok()?;
        // Each record has the value, so that reading one has only its place left to check.
        let is_inside = size_of::<T>() <= stride.checked_sub(a.start)?;
        let is_plain = a.guards.is_empty() && matches!(self.form, ScalarRepr::Own);
        let len = records.len().checked_div(stride)?;
        let bytes = records.get(a.start..len.saturating_mul(stride)).unwrap_or_default();
        (is_plain && is_inside).then_some(Values { bytes, stride, len, of: PhantomData })
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

    /// The way itself.
    pub fn accessor(&self) -> &Accessor {
        &self.accessor
    }
}

/// A value of each of many records, where they lie: see [`Typed::values`]. Reading one multiplies, compares and loads.
#[derive(Debug, Clone, Copy)]
pub struct Values<'r, T> {
    /// From the first value on.
    bytes: &'r [u8],
    /// From one value to the next.
    stride: usize,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<'r, T: ReadScalar> Values<'r, T> {
    /// How many there are: one for each record.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of one record, if there is one at that place.
    #[inline]
    pub fn get(&self, index: usize) -> Option<T> {
        // The last value is within the last stride, so that nothing else can be read from a place that is too high.
        let bytes = self.bytes.get(index.checked_mul(self.stride)?..)?;
        T::read(ScalarRepr::Own, bytes, 0).ok()
    }

    /// All of them.
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
        return Err(RANGE.broken(format!("{x:?} is not a number of its kind")));
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
