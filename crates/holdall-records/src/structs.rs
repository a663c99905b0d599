//! Records as Rust structs that mirror them.

use super::derive::{TypePath, wrong};
use super::{Records, placed};
use bytemuck::AnyBitPattern;
use holdall_core::Result;
use holdall_schema::TensorDType;
use std::marker::PhantomData;
use std::ops::Range;

/// A Rust type that mirrors a part of a record: a number, an array of such, or a `#[repr(C)]` struct of
/// such with `#[derive(Record)]`. [`Records::structs`] compares it with the schema once, by offset, size
/// and kind of each field, and then hands out records as it.
///
/// Numbers are `i8` to `u64`, `f32`, `f64` and the 16-bit floats of `half`; `i64` also mirrors a time,
/// `bool` a boolean, `[f32; 2]` a complex number, `[T; n]` a fixed array or a tensor; `u8` also what has
/// one byte (a boolean, a float of 8 bits), and `u8` to `u32` the place of an enum. Optional members,
/// unions and entries have no mirror. A field whose name starts with `_` stands for bytes that nothing is
/// compared with: padding, presence bits, members that do not matter. `#[record(name = "type")]` names the
/// member where the field has another name.
///
/// A struct of a schema is aligned to 16 bytes unless it says otherwise, so its mirror is
/// `#[repr(C, align(16))]`; with `"align": "natural"` it is plain `#[repr(C)]`, with `"align": 1`
/// `#[repr(C, packed)]`.
pub trait FromRecord: Copy + 'static {
    /// What its elements are, where it is a number or an array of such.
    #[doc(hidden)]
    const DTYPE: Option<TensorDType> = None;
    /// How many numbers it is.
    #[doc(hidden)]
    const COUNT: u64 = 1;

    /// Compares it with the type at that place of a schema.
    ///
    /// # Errors
    /// `records/derive`.
    #[doc(hidden)]
    fn check(place: &TypePath<'_>) -> Result<()>;

    /// The value of its bytes.
    ///
    /// # Errors
    /// `record/bool-byte`, `record/length`.
    #[doc(hidden)]
    fn read(bytes: &[u8]) -> Result<Self>;
}

/// Records as a Rust type that mirrors them: see [`Records::structs`].
#[derive(Clone)]
pub struct Structs<T> {
    records: Records,
    of: PhantomData<fn() -> T>,
}

impl Records {
    /// These records as a Rust type, which is compared with their schema now and never again.
    ///
    /// # Errors
    /// `records/derive`, naming the field and what both sides say.
    pub fn structs<T: FromRecord>(&self) -> Result<Structs<T>> {
        let place = TypePath::new(self.schema(), self.ty());
        T::check(&place).map_err(|e| placed(e, self.tensor()))?;
        if size_of::<T>() > self.0.size {
            let (own, schema) = (size_of::<T>(), self.0.size);
            let message = format!("{own} bytes in Rust, {schema} in the schema");
            return Err(placed(wrong("the record", message), self.tensor()));
        }
        Ok(Structs { records: self.clone(), of: PhantomData })
    }
}

impl<T: FromRecord> Structs<T> {
    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The records they are.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// A record by its place, copied.
    ///
    /// # Errors
    /// `record/bool-byte`, and as [`Records::record`].
    pub fn get(&self, index: u64) -> Result<T> {
        let record = self.records.record(index)?;
        T::read(record.bytes()).map_err(|e| self.records.in_record(e, index))
    }

    /// The records of a range, copied one after the other.
    ///
    /// # Errors
    /// `records/index`. Items are errors as in [`Structs::get`].
    pub fn iter(&self, range: Range<u64>) -> Result<impl Iterator<Item = Result<T>> + '_> {
        Ok(self.records.iter(range)?.map(|record| {
            let record = record?;
            T::read(record.bytes()).map_err(|e| self.records.in_record(e, record.index()))
        }))
    }

    /// All records as they lie in the map or in memory, without a copy. `None` where that cannot be: they
    /// are not at hand, do not lie at a multiple of the alignment of `T`, are of another size, or the
    /// machine has its bytes in the other order. [`Structs::get`] always works.
    ///
    /// `T` must be fine with any bytes (`#[derive(AnyBitPattern)]` of `bytemuck`, or `Zeroable` and `Pod`
    /// for what stands in arrays), which rules out `bool`: take `u8`.
    pub fn slice(&self) -> Option<&[T]>
    where
        T: AnyBitPattern,
    {
        if cfg!(target_endian = "big") || size_of::<T>() != self.records.0.stride {
            return None;
        }
        bytemuck::try_cast_slice(self.records.bytes()?).ok()
    }
}

impl<T> std::fmt::Debug for Structs<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Structs")
            .field("of", &std::any::type_name::<T>())
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}
