//! Records as Rust structs with the same memory layout.

use super::derive::{TypePath, wrong};
use super::{Records, placed};
use bytemuck::AnyBitPattern;
use holdall_core::Result;
use holdall_schema::TensorDType;
use std::marker::PhantomData;
use std::ops::Range;

/// A Rust type with the same memory layout as a record or a part of one: a number, an array of numbers, or a
/// `#[repr(C)]` struct of these with `#[derive(Record)]`. [`Records::structs`] compares offset, size and kind of each
/// field with the schema once, and then returns records as this type.
///
/// The numbers are `i8` to `i64`, `u8` to `u64`, `f32`, `f64` and the 16-bit floats of `half`. `i64` also matches a
/// time, `bool` a boolean, `[f32; 2]` a complex number, `[T; n]` a fixed array or a tensor. `u8` also matches other
/// members of one byte (a boolean, an 8-bit float), and `u8`, `u16` and `u32` the index of an enum. Optional members,
/// unions and entries have no Rust counterpart. A field whose name starts with `_` is not compared with the schema: use
/// it for padding, presence bits and members that you do not need. `#[record(name = "type")]` names the member if the
/// field has another name.
///
/// A struct of a schema is aligned to 16 bytes by default, so its Rust counterpart is `#[repr(C, align(16))]`. With
/// `"align": "natural"` in the schema use `#[repr(C)]`, with `"align": 1` use `#[repr(C, packed)]`.
pub trait FromRecord: Copy + 'static {
    /// The type of its elements, if it is a number or an array of numbers.
    #[doc(hidden)]
    const DTYPE: Option<TensorDType> = None;
    /// The number of numbers in it.
    #[doc(hidden)]
    const COUNT: u64 = 1;

    /// Compares this Rust type with the type at `path` in a schema.
    ///
    /// # Errors
    /// Returns `records/derive` if the two differ.
    #[doc(hidden)]
    fn check(path: &TypePath<'_>) -> Result<()>;

    /// Reads the value from its bytes.
    ///
    /// # Errors
    /// Returns `record/bool-byte` for a boolean other than 0 or 1, `record/length` if there are too few bytes.
    #[doc(hidden)]
    fn read(bytes: &[u8]) -> Result<Self>;
}

/// Records as a Rust type with the same memory layout: see [`Records::structs`].
#[derive(Clone)]
pub struct Structs<T> {
    records: Records,
    marker: PhantomData<fn() -> T>,
}

impl Records {
    /// Returns these records as a Rust type. The type is compared with the schema once, in this call.
    ///
    /// # Errors
    /// Returns `records/derive` with the name of the field, its Rust type and its type in the schema if the two differ.
    pub fn structs<T: FromRecord>(&self) -> Result<Structs<T>> {
        let path = TypePath::new(self.schema(), self.ty());
        T::check(&path).map_err(|e| placed(e, self.tensor()))?;
        if size_of::<T>() > self.0.size {
            let (own, schema) = (size_of::<T>(), self.0.size);
            let message = format!("{own} bytes in Rust, {schema} in the schema");
            return Err(placed(wrong("the record", message), self.tensor()));
        }
        Ok(Structs { records: self.clone(), marker: PhantomData })
    }
}

impl<T: FromRecord> Structs<T> {
    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.records.len()
    }

    /// Returns `true` if the dataset has no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the dataset that these records come from.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Returns a copy of the record at `index`.
    ///
    /// # Errors
    /// Returns `record/bool-byte` for a boolean other than 0 or 1, and the errors of [`Records::record`].
    pub fn get(&self, index: u64) -> Result<T> {
        let record = self.records.record(index)?;
        T::read(record.bytes()).map_err(|e| self.records.in_record(e, index))
    }

    /// Returns an iterator over copies of the records in a range.
    ///
    /// # Errors
    /// Returns `records/index` if the range is out of bounds. Items can be errors of [`Structs::get`].
    pub fn iter(&self, range: Range<u64>) -> Result<impl Iterator<Item = Result<T>> + '_> {
        Ok(self.records.iter(range)?.map(|record| {
            let record = record?;
            T::read(record.bytes()).map_err(|e| self.records.in_record(e, record.index()))
        }))
    }

    /// Returns all records as a slice of the mapped file or memory, without a copy. Returns `None` if that is not
    /// possible: the bytes are neither mapped nor in memory, do not start at a multiple of the alignment of `T`, have
    /// another size than `T`, or the machine is big-endian. [`Structs::get`] always works.
    ///
    /// Every bit pattern must be a valid `T` (`#[derive(AnyBitPattern)]` of `bytemuck`, or `Zeroable` and `Pod` for
    /// types that are elements of arrays). That rules out `bool`: use `u8` instead.
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
