//! Functions that `#[derive(Record)]` calls: they compare Rust types with a schema, and read values.

use super::FromRecord;
use super::rules::DERIVE;
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_schema::record::rules::{BOOL_BYTE, LENGTH};
use holdall_schema::{IndexWidth, Kind, Len, Scalar, Schema, TensorDType, TypeId};

/// A type of a schema and its path.
pub struct TypePath<'s> {
    schema: &'s Schema,
    ty: TypeId,
    path: String,
}

/// A field of a Rust struct.
pub struct Field {
    name: &'static str,
    offset: usize,
    size: usize,
    check: fn(&TypePath<'_>) -> Result<()>,
}

impl Field {
    /// Creates a field of type `T` that starts `offset` bytes after the start of its struct.
    pub fn new<T: FromRecord>(name: &'static str, offset: usize) -> Field {
        Field { name, offset, size: size_of::<T>(), check: T::check }
    }
}

impl TypePath<'_> {
    pub(super) fn new(schema: &Schema, ty: TypeId) -> TypePath<'_> {
        TypePath { schema, ty, path: String::new() }
    }

    /// Compares the fields of a Rust struct with the members of this type.
    ///
    /// # Errors
    /// Returns `records/derive`.
    pub fn members(&self, fields: &[Field]) -> Result<()> {
        let Kind::Struct(members) = self.kind() else {
            return Err(self.other("a struct"));
        };
        for field in fields {
            let path = match self.path.as_str() {
                "" => field.name.to_owned(),
                path => format!("{path}.{}", field.name),
            };
            let found = members.index_of(field.name).and_then(|at| members.members.get(at));
            let Some(member) = found else {
                return Err(wrong(&path, "this field exists in Rust, but not in the schema"));
            };
            if member.presence.is_some() {
                return Err(wrong(
                    &path,
                    "a plain field in Rust, but an optional member in the schema",
                ));
            }
            let path = TypePath { schema: self.schema, ty: member.ty, path };
            (field.check)(&path)?;
            let offset = member.offset.unwrap_or(0);
            if offset != field.offset as u64 {
                let message = format!("at byte {} in Rust, {offset} in the schema", field.offset);
                return Err(wrong(&path.path, message));
            }
            path.size(field.size)?;
        }
        Ok(())
    }

    fn kind(&self) -> &Kind {
        &self.schema.ty(self.ty).kind
    }

    fn size(&self, own: usize) -> Result<()> {
        let size = self.schema.extent(self.ty)?.size;
        if size != own as u64 {
            let message = format!("{own} bytes in Rust, {size} in the schema");
            return Err(wrong(&self.path, message));
        }
        Ok(())
    }

    /// Accepts a number of one of these kinds, or an enum of this width.
    fn number(&self, own: &str, scalars: &[Scalar], width: Option<IndexWidth>) -> Result<()> {
        match self.kind() {
            Kind::Scalar(scalar) if scalars.contains(scalar) => Ok(()),
            Kind::Enum(e) if Some(e.width) == width => Ok(()),
            _ => Err(self.other(own)),
        }
    }

    fn array<T: FromRecord>(&self, len: usize) -> Result<()> {
        let own = || format!("an array of {len} {}", std::any::type_name::<T>());
        match self.kind() {
            Kind::Array(array) if array.len == Len::Fixed(len as u64) => {
                let path = format!("{}[]", self.path);
                let items = TypePath { schema: self.schema, ty: array.items, path };
                T::check(&items)?;
                let stride = self.schema.extent(array.items)?.stride;
                if stride != size_of::<T>() as u64 {
                    let found = size_of::<T>();
                    let message = format!("{found} bytes apart in Rust, {stride} in the schema");
                    return Err(wrong(&items.path, message));
                }
                Ok(())
            }
            Kind::Tensor(tensor) if tensor.dtype.is_some() && tensor.dtype == T::DTYPE => {
                // Inside a struct the sizes are compared with the field; an array that is not a field is compared here.
                let size = self.schema.extent(self.ty)?.size;
                let count = (len as u64).saturating_mul(T::COUNT);
                let found = size * 8 / tensor.dtype.map_or(8, TensorDType::bits);
                if found != count {
                    let message = format!("{count} elements in Rust, {found} in the schema");
                    return Err(wrong(&self.path, message));
                }
                Ok(())
            }
            Kind::Scalar(Scalar::Complex64)
                if (T::DTYPE, T::COUNT, len) == (Some(TensorDType::F32), 1, 2) =>
            {
                Ok(())
            }
            Kind::Scalar(Scalar::Complex128)
                if (T::DTYPE, T::COUNT, len) == (Some(TensorDType::F64), 1, 2) =>
            {
                Ok(())
            }
            _ => Err(self.other(&own())),
        }
    }

    #[cold]
    fn other(&self, own: &str) -> Error {
        let kind = match self.kind() {
            Kind::Array(array) => match array.len {
                Len::Fixed(len) => format!("Array of {len}"),
                Len::Variable { .. } => "Array of any length".to_owned(),
            },
            kind => kind.as_str().to_owned(),
        };
        wrong(&self.path, format!("{own} in Rust, a `TypeDef:{kind}` in the schema"))
    }
}

#[cold]
pub(super) fn wrong(path: &str, message: impl AsRef<str>) -> Error {
    let path = if path.is_empty() { "the record" } else { path };
    DERIVE.broken(format!("`{}`: {}", path.escaped(), message.as_ref()))
}

/// Reads the value of type `T` that starts at byte `offset`.
///
/// # Errors
/// Returns the same errors as [`FromRecord::read`].
#[inline]
pub fn read<T: FromRecord>(bytes: &[u8], offset: usize) -> Result<T> {
    match bytes.get(offset..) {
        Some(bytes) => T::read(bytes),
        None => Err(short(bytes)),
    }
}

#[cold]
fn short(bytes: &[u8]) -> Error {
    LENGTH.broken(format!("a member ends after the {} bytes of its record", bytes.len()))
}

macro_rules! numbers {
    ($($ty:ty: $($scalar:ident)|+, $dtype:expr, $width:expr;)+) => {$(
        impl FromRecord for $ty {
            const DTYPE: Option<TensorDType> = $dtype;

            fn check(path: &TypePath<'_>) -> Result<()> {
                path.number(stringify!($ty), &[$(Scalar::$scalar),+], $width)
            }

            #[inline]
            fn read(bytes: &[u8]) -> Result<$ty> {
                match bytes.first_chunk() {
                    Some(bytes) => Ok(<$ty>::from_le_bytes(*bytes)),
                    None => Err(short(bytes)),
                }
            }
        }
    )+};
}

numbers! {
    i8: Int8, Some(TensorDType::I8), None;
    i16: Int16, Some(TensorDType::I16), None;
    i32: Int32, Some(TensorDType::I32), None;
    i64: Int64 | Timestamp, Some(TensorDType::I64), None;
    u8: Uint8 | Boolean | Float8E4M3 | Float8E5M2, Some(TensorDType::U8), Some(IndexWidth::One);
    u16: Uint16, Some(TensorDType::U16), Some(IndexWidth::Two);
    u32: Uint32, Some(TensorDType::U32), Some(IndexWidth::Four);
    u64: Uint64, Some(TensorDType::U64), None;
    f32: Float32, Some(TensorDType::F32), None;
    f64: Float64, Some(TensorDType::F64), None;
    half::f16: Float16, Some(TensorDType::F16), None;
    half::bf16: BFloat16, Some(TensorDType::Bf16), None;
}

impl FromRecord for bool {
    const DTYPE: Option<TensorDType> = Some(TensorDType::Bool);

    fn check(path: &TypePath<'_>) -> Result<()> {
        path.number("bool", &[Scalar::Boolean], None)
    }

    #[inline]
    fn read(bytes: &[u8]) -> Result<bool> {
        match bytes.first() {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(b) => Err(BOOL_BYTE.broken(format!("a boolean is 0 or 1, found {b}"))),
            None => Err(short(bytes)),
        }
    }
}

impl<T: FromRecord, const N: usize> FromRecord for [T; N] {
    const DTYPE: Option<TensorDType> = T::DTYPE;
    const COUNT: u64 = T::COUNT * N as u64;

    fn check(path: &TypePath<'_>) -> Result<()> {
        path.array::<T>(N)
    }

    fn read(bytes: &[u8]) -> Result<[T; N]> {
        const { assert!(N > 0, "an array in a record has at least one element") };
        let mut out = [T::read(bytes)?; N];
        for (at, slot) in out.iter_mut().enumerate().skip(1) {
            *slot = read(bytes, at * size_of::<T>())?;
        }
        Ok(out)
    }
}
