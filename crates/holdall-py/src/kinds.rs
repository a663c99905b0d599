//! The types of a schema as a table, from which the Python half makes NumPy dtypes.

use crate::errors::Raise;
use holdall::schema::{Dim, Kind, Len, Scalar, Schema, TensorDType, TypeId};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::collections::HashMap;

/// The types that a type consists of: the parts come first, the type itself is last.
pub(crate) struct Table {
    order: Vec<TypeId>,
    indices: HashMap<TypeId, usize>,
}

impl Table {
    /// Returns the table for `root`.
    pub(crate) fn from_type(schema: &Schema, root: TypeId) -> Table {
        let mut table = Table { order: Vec::new(), indices: HashMap::new() };
        table.add(schema, root);
        table
    }

    /// Returns the index of a type in the table; the last index if it is missing.
    pub(crate) fn index_of(&self, ty: TypeId) -> usize {
        self.indices.get(&ty).copied().unwrap_or(self.order.len() - 1)
    }

    /// Adds a type once, however often it is used; a schema has at most 256 levels.
    fn add(&mut self, schema: &Schema, ty: TypeId) {
        if self.indices.contains_key(&ty) {
            return;
        }
        match &schema.ty(ty).kind {
            Kind::Array(array) => self.add(schema, array.items),
            Kind::Struct(fields) => fields.members.iter().for_each(|m| self.add(schema, m.ty)),
            Kind::Union(union) => union.variants.iter().for_each(|v| self.add(schema, v.ty)),
            _ => {}
        }
        self.indices.insert(ty, self.order.len());
        self.order.push(ty);
    }

    /// Returns a row for each type: kind, size and stride in bytes, whether it has entries in the
    /// heap, and further properties of its kind.
    pub(crate) fn rows<'py>(
        &self,
        py: Python<'py>,
        schema: &Schema,
    ) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for &id in &self.order {
            let ty = schema.ty(id);
            let extent = schema.extent(id).raise(py)?;
            let (kind, more) = self.more(py, &ty.kind)?;
            out.append((kind, extent.size, extent.stride, ty.heap_align.is_some(), more))?;
        }
        Ok(out)
    }

    fn more<'py>(
        &self,
        py: Python<'py>,
        kind: &Kind,
    ) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        Ok(match kind {
            Kind::Scalar(scalar) => ("scalar", scalar_name(*scalar).into_pyobject(py)?.into_any()),
            Kind::Enum(e) => {
                let values = PyTuple::new(py, e.values.iter().map(|v| &**v))?;
                ("enum", (e.width.bytes(), values).into_pyobject(py)?.into_any())
            }
            Kind::Array(array) => {
                let len = match array.len {
                    Len::Fixed(n) => Some(n),
                    Len::Variable { .. } => None,
                };
                ("array", (self.index_of(array.items), len).into_pyobject(py)?.into_any())
            }
            Kind::Struct(fields) => {
                let members = PyList::empty(py);
                for m in &fields.members {
                    let offset = m.offset.unwrap_or(0);
                    members.append((
                        &*m.name,
                        self.index_of(m.ty),
                        offset,
                        m.presence.is_some(),
                    ))?;
                }
                ("struct", members.into_any())
            }
            Kind::Union(union) => {
                let variants = PyList::empty(py);
                for v in &union.variants {
                    variants.append((&*v.key, self.index_of(v.ty)))?;
                }
                let more = (&*union.discriminator, variants);
                ("union", more.into_pyobject(py)?.into_any())
            }
            Kind::Tensor(tensor) => {
                let dims = tensor.shape.iter().flatten();
                let known = dims.map(|dim| if let Dim::Known(n) = dim { *n } else { 0 });
                let shape = PyTuple::new(py, known.collect::<Vec<u64>>())?;
                let dtype = tensor.dtype.map_or("none", dtype_name);
                ("tensor", (dtype, shape).into_pyobject(py)?.into_any())
            }
            Kind::Bytes => ("bytes", py.None().into_bound(py)),
            Kind::Record => ("json", py.None().into_bound(py)),
            Kind::String => ("string", py.None().into_bound(py)),
            other => {
                let name = other.as_str().to_ascii_lowercase();
                ("other", name.into_pyobject(py)?.into_any())
            }
        })
    }
}

/// Returns whether all values of a type are numbers in one block of fixed shape, which becomes an
/// array.
pub(crate) fn is_block(schema: &Schema, ty: TypeId) -> bool {
    match &schema.ty(ty).kind {
        Kind::Scalar(_) | Kind::Tensor(_) => true,
        Kind::Array(array) => matches!(array.len, Len::Fixed(_)) && is_block(schema, array.items),
        _ => false,
    }
}

fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Int8 => "int8",
        Scalar::Int16 => "int16",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Uint8 => "uint8",
        Scalar::Uint16 => "uint16",
        Scalar::Uint32 => "uint32",
        Scalar::Uint64 => "uint64",
        Scalar::Float16 => "float16",
        Scalar::Float32 => "float32",
        Scalar::Float64 => "float64",
        Scalar::BFloat16 => "bfloat16",
        Scalar::Float8E4M3 => "float8_e4m3fn",
        Scalar::Float8E5M2 => "float8_e5m2",
        Scalar::Complex64 => "complex64",
        Scalar::Complex128 => "complex128",
        Scalar::Boolean => "bool",
        Scalar::Timestamp => "datetime64[ns]",
    }
}

/// Returns the name of the element type of a tensor in a record, or of elements in a blob.
pub(crate) fn dtype_name(dtype: TensorDType) -> &'static str {
    match dtype {
        TensorDType::Bool => "bool",
        TensorDType::F4 => "float4_e2m1fn",
        TensorDType::F6_E2M3 => "float6_e2m3fn",
        TensorDType::F6_E3M2 => "float6_e3m2fn",
        TensorDType::U8 => "uint8",
        TensorDType::I8 => "int8",
        TensorDType::F8_E5M2 => "float8_e5m2",
        TensorDType::F8_E4M3 => "float8_e4m3fn",
        TensorDType::F8_E8M0 => "float8_e8m0fnu",
        TensorDType::F8_E4M3Fnuz => "float8_e4m3fnuz",
        TensorDType::F8_E5M2Fnuz => "float8_e5m2fnuz",
        TensorDType::I16 => "int16",
        TensorDType::U16 => "uint16",
        TensorDType::F16 => "float16",
        TensorDType::Bf16 => "bfloat16",
        TensorDType::I32 => "int32",
        TensorDType::U32 => "uint32",
        TensorDType::F32 => "float32",
        TensorDType::C64 => "complex64",
        TensorDType::F64 => "float64",
        TensorDType::I64 => "int64",
        TensorDType::U64 => "uint64",
    }
}
