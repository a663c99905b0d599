//! Conversion of record values to Python objects.

use crate::errors::Raise;
use crate::kinds::{Table, is_block};
use holdall::schema::rules::{ENUM_INDEX, LENGTH, TOO_LARGE, UNION_TAG, UTF8};
use holdall::schema::{
    Array, Entry, Enum, IndexWidth, Kind, Len, Path, Scalar, Schema, Struct, TypeId, Union,
};
use holdall::{Remedy, Result, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyComplex, PyDict, PyList, PyString};
use std::cell::Cell;

/// Creates Python objects from checked bytes: numbers, strings, dicts, lists; `make` creates
/// arrays, times and JSON values.
pub(crate) struct Decode<'d, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) tensor: &'d Tensor,
    pub(crate) schema: &'d Schema,
    pub(crate) table: &'d Table,
    pub(crate) heap: &'d [u8],
    /// The `Types` object of the Python half.
    pub(crate) make: &'d Bound<'py, PyAny>,
    /// The number of heap bytes that values may still refer to: entries may share bytes.
    pub(crate) left: &'d Cell<u64>,
}

impl<'py> Decode<'_, 'py> {
    pub(crate) fn value(&self, ty: TypeId, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match &self.schema.ty(ty).kind {
            Kind::Scalar(scalar) => self.scalar(ty, *scalar, bytes)?,
            Kind::Enum(e) => PyString::new(py, enum_value(e, bytes).raise(py)?).into_any(),
            Kind::String => PyString::new(py, self.text(bytes)?).into_any(),
            Kind::Bytes => PyBytes::new(py, self.entry(bytes)?).into_any(),
            Kind::Record => self.make.call_method1("json", (self.text(bytes)?,))?,
            Kind::Array(array) => self.array(ty, array, bytes)?,
            Kind::Struct(fields) => {
                let out = PyDict::new(py);
                self.fields(fields, bytes, &out)?;
                out.into_any()
            }
            Kind::Union(union) => self.union(union, bytes)?,
            _ => self.block(ty, bytes, None)?,
        })
    }

    fn scalar(&self, ty: TypeId, scalar: Scalar, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        macro_rules! number {
            ($ty:ty) => {
                <$ty>::from_le_bytes(first(bytes).raise(py)?).into_pyobject(py)?.into_any()
            };
        }
        Ok(match scalar {
            Scalar::Int8 => number!(i8),
            Scalar::Int16 => number!(i16),
            Scalar::Int32 => number!(i32),
            Scalar::Int64 => number!(i64),
            Scalar::Uint8 => number!(u8),
            Scalar::Uint16 => number!(u16),
            Scalar::Uint32 => number!(u32),
            Scalar::Uint64 => number!(u64),
            Scalar::Float64 => number!(f64),
            Scalar::Float32 => {
                f64::from(f32::from_le_bytes(first(bytes).raise(py)?)).into_pyobject(py)?.into_any()
            }
            Scalar::Float16 | Scalar::BFloat16 | Scalar::Float8E4M3 | Scalar::Float8E5M2 => {
                let read = || self.schema.accessor(ty, &Path::root())?.typed::<f64>()?.read(bytes);
                read().raise(py)?.into_pyobject(py)?.into_any()
            }
            Scalar::Complex64 => {
                let half = |at: usize| first(bytes.get(at..).unwrap_or_default());
                let re = f32::from_le_bytes(half(0).raise(py)?);
                let im = f32::from_le_bytes(half(4).raise(py)?);
                PyComplex::from_doubles(py, f64::from(re), f64::from(im)).into_any()
            }
            Scalar::Complex128 => {
                let half = |at: usize| first(bytes.get(at..).unwrap_or_default());
                let re = f64::from_le_bytes(half(0).raise(py)?);
                let im = f64::from_le_bytes(half(8).raise(py)?);
                PyComplex::from_doubles(py, re, im).into_any()
            }
            Scalar::Boolean => {
                let [byte] = first(bytes).raise(py)?;
                (byte != 0).into_pyobject(py)?.to_owned().into_any()
            }
            Scalar::Timestamp => {
                let time = i64::from_le_bytes(first(bytes).raise(py)?);
                self.make.call_method1("time", (time,))?
            }
        })
    }

    /// Adds the members of a struct, `None` for absent ones.
    fn fields(&self, fields: &Struct, bytes: &[u8], out: &Bound<'py, PyDict>) -> PyResult<()> {
        for member in &fields.members {
            let is_present = member.presence.is_none_or(|bit| {
                bytes.get(bit as usize / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
            });
            let value = if is_present {
                let slot = self.slot(bytes, member.offset.unwrap_or(0), member.ty);
                Some(self.value(member.ty, slot.raise(self.py)?)?)
            } else {
                None
            };
            out.set_item(&*member.name, value)?;
        }
        Ok(())
    }

    fn union(&self, union: &Union, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let tag = read_index(union.width, bytes).raise(self.py)?;
        let Some(variant) = union.variants.get(tag as usize) else {
            let message = format!("tag {tag} of a union with {} variants", union.variants.len());
            return Err(UNION_TAG.broken(message)).raise(self.py);
        };
        let out = PyDict::new(self.py);
        out.set_item(&*union.discriminator, &*variant.key)?;
        let slot = self.slot(bytes, u64::from(union.start), variant.ty).raise(self.py)?;
        if let Kind::Struct(fields) = &self.schema.ty(variant.ty).kind {
            self.fields(fields, slot, &out)?;
        }
        Ok(out.into_any())
    }

    fn array(&self, ty: TypeId, array: &Array, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let items = self.schema.extent(array.items).raise(self.py)?;
        let (stride, size) = (items.stride.max(1) as usize, items.size as usize);
        let bytes = match array.len {
            Len::Fixed(_) if is_block(self.schema, ty) => return self.block(ty, bytes, None),
            Len::Fixed(_) => bytes,
            Len::Variable { .. } => self.entry(bytes)?,
        };
        if is_block(self.schema, array.items) {
            return self.block(array.items, bytes, Some(bytes.len() / stride));
        }
        let out = PyList::empty(self.py);
        for element in bytes.chunks_exact(stride) {
            out.append(self.value(array.items, element.get(..size).unwrap_or(element))?)?;
        }
        Ok(out.into_any())
    }

    /// Returns an array of numbers: one value of a type, or `count` of them.
    fn block(&self, ty: TypeId, bytes: &[u8], count: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let data = PyByteArray::new(self.py, bytes);
        self.make.call_method1("block", (self.table.index_of(ty), data, count))
    }

    /// Returns the bytes that an entry refers to.
    fn entry(&self, bytes: &[u8]) -> PyResult<&[u8]> {
        let found = || {
            let found = Entry::from_bytes(first(bytes)?).bytes(self.heap)?;
            let Some(left) = self.left.get().checked_sub(found.len() as u64) else {
                return Err(too_large(self.tensor));
            };
            self.left.set(left);
            Ok(found)
        };
        found().raise(self.py)
    }

    fn text(&self, bytes: &[u8]) -> PyResult<&str> {
        let found = std::str::from_utf8(self.entry(bytes)?);
        found.map_err(|e| UTF8.broken(e.to_string())).raise(self.py)
    }

    fn slot<'b>(&self, bytes: &'b [u8], start: u64, ty: TypeId) -> Result<&'b [u8]> {
        let end = start.saturating_add(self.schema.extent(ty)?.size);
        let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let found = bytes.get(to_usize(start)..to_usize(end));
        found.ok_or_else(|| LENGTH.broken(format!("a part leaves {} bytes", bytes.len())))
    }
}

/// Returns the error for values that refer to more bytes than one call may return.
#[cold]
pub(crate) fn too_large(tensor: &Tensor) -> holdall::Error {
    let e = TOO_LARGE.broken("the requested values have more bytes than the limit");
    let e = e.in_tensor(tensor.name()).in_source(tensor.file().name());
    let raise = Remedy::RaiseLimit { limit: "decoded_len", at_least: None };
    e.with_hint("ask for fewer records at a time").with_remedy(raise)
}

fn first<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    let found = bytes.first_chunk().copied();
    found.ok_or_else(|| LENGTH.broken(format!("a part leaves {} bytes", bytes.len())))
}

fn read_index(width: IndexWidth, bytes: &[u8]) -> Result<u32> {
    Ok(match width {
        IndexWidth::One => u32::from(u8::from_le_bytes(first(bytes)?)),
        IndexWidth::Two => u32::from(u16::from_le_bytes(first(bytes)?)),
        IndexWidth::Four => u32::from_le_bytes(first(bytes)?),
    })
}

fn enum_value<'e>(e: &'e Enum, bytes: &[u8]) -> Result<&'e str> {
    let at = read_index(e.width, bytes)?;
    e.value(at).ok_or_else(|| {
        ENUM_INDEX.broken(format!(
            "index {at} is out of range for an enum with {} values",
            e.values.len()
        ))
    })
}
