//! Values in the engine's types, and back.

use crate::rules::{ONNX_RANGE, ONNX_TYPE};
use holdall::Result;
use holdall::carton::{TensorValue, ValueType};
use rten::DataType;
use rten_tensor::Tensor;
use rten_tensor::prelude::*;

/// An element in bytes, least significant first, as the widest of its kind.
trait Read {
    fn float(bytes: &[u8]) -> Vec<f32>;
    fn whole(bytes: &[u8]) -> Box<dyn Iterator<Item = i128> + '_>;
}

macro_rules! read {
    ($($ty:ty),*) => {$(
        impl Read for $ty {
            #[allow(clippy::unnecessary_cast)]
            fn float(bytes: &[u8]) -> Vec<f32> {
                let (chunks, _) = bytes.as_chunks::<{ size_of::<$ty>() }>();
                chunks.iter().map(|c| <$ty>::from_le_bytes(*c) as f32).collect()
            }
            #[allow(clippy::unnecessary_cast)]
            fn whole(bytes: &[u8]) -> Box<dyn Iterator<Item = i128> + '_> {
                let (chunks, _) = bytes.as_chunks::<{ size_of::<$ty>() }>();
                Box::new(chunks.iter().map(|c| <$ty>::from_le_bytes(*c) as i128))
            }
        }
    )*};
}
read!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

/// The type that the engine has for a value whose input does not say what it takes.
fn natural(ty: ValueType) -> DataType {
    match ty {
        ValueType::Float32 | ValueType::Float64 => DataType::Float,
        ValueType::Int8 => DataType::Int8,
        ValueType::Uint8 => DataType::UInt8,
        _ => DataType::Int32,
    }
}

/// A value as the engine takes it.
pub(super) fn to_engine(value: &TensorValue, wanted: Option<DataType>) -> Result<rten::Value> {
    let TensorValue::Numbers { ty, shape, data } = value else {
        let what = if value.shape().is_some() { "texts" } else { "a nested tensor" };
        return Err(ONNX_TYPE.broken(format!("{what}, which the engine does not take")));
    };
    let mut dims = Vec::with_capacity(shape.len());
    for size in shape {
        let fits = usize::try_from(*size);
        dims.push(fits.map_err(|_| ONNX_RANGE.broken(format!("a dimension of {size}")))?);
    }
    match ty {
        ValueType::Float32 => numbers::<f32>(*ty, data, &dims, wanted),
        ValueType::Float64 => numbers::<f64>(*ty, data, &dims, wanted),
        ValueType::Int8 => numbers::<i8>(*ty, data, &dims, wanted),
        ValueType::Int16 => numbers::<i16>(*ty, data, &dims, wanted),
        ValueType::Int32 => numbers::<i32>(*ty, data, &dims, wanted),
        ValueType::Int64 => numbers::<i64>(*ty, data, &dims, wanted),
        ValueType::Uint8 => numbers::<u8>(*ty, data, &dims, wanted),
        ValueType::Uint16 => numbers::<u16>(*ty, data, &dims, wanted),
        ValueType::Uint32 => numbers::<u32>(*ty, data, &dims, wanted),
        ValueType::Uint64 => numbers::<u64>(*ty, data, &dims, wanted),
        other => Err(ONNX_TYPE.broken(format!("elements of {}", other.as_str()))),
    }
}

fn numbers<T: Read>(
    ty: ValueType,
    data: &[u8],
    dims: &[usize],
    wanted: Option<DataType>,
) -> Result<rten::Value> {
    let is_float = natural(ty) == DataType::Float;
    match wanted.unwrap_or(natural(ty)) {
        DataType::Float if is_float => Ok(Tensor::from_data(dims, T::float(data)).into()),
        DataType::Int32 if !is_float => {
            Ok(Tensor::from_data(dims, whole::<T, i32>(data, "int32")?).into())
        }
        DataType::Int8 if !is_float => {
            Ok(Tensor::from_data(dims, whole::<T, i8>(data, "int8")?).into())
        }
        DataType::UInt8 if !is_float => {
            Ok(Tensor::from_data(dims, whole::<T, u8>(data, "uint8")?).into())
        }
        other => {
            Err(ONNX_TYPE.broken(format!("the graph takes {other} here, not {}", ty.as_str())))
        }
    }
}

fn whole<T: Read, U: TryFrom<i128>>(data: &[u8], name: &str) -> Result<Vec<U>> {
    T::whole(data)
        .map(|n| {
            U::try_from(n).map_err(|_| {
                ONNX_RANGE.broken(format!("{n} does not fit {name}, in which the engine computes"))
            })
        })
        .collect()
}

/// What the engine gave, in the declared type.
pub(super) fn from_engine(value: rten::Value, ty: Option<ValueType>) -> Result<TensorValue> {
    match value {
        rten::Value::FloatTensor(t) => {
            let (shape, data) = parts(t);
            match ty.unwrap_or(ValueType::Float32) {
                ValueType::Float64 => {
                    let wide: Vec<f64> = data.into_iter().map(f64::from).collect();
                    TensorValue::from_elements(shape, &wide)
                }
                // Of another type than declared: reported where outputs are checked against the description.
                _ => TensorValue::from_elements(shape, &data),
            }
        }
        rten::Value::Int32Tensor(t) => integers(parts(t), ty.unwrap_or(ValueType::Int32)),
        rten::Value::Int8Tensor(t) => integers(parts(t), ty.unwrap_or(ValueType::Int8)),
        rten::Value::UInt8Tensor(t) => integers(parts(t), ty.unwrap_or(ValueType::Uint8)),
        other => Err(ONNX_TYPE.broken(format!("the graph gave a {}", other.dtype()))),
    }
}

fn parts<T: Copy>(t: Tensor<T>) -> (Vec<u64>, Vec<T>) {
    let shape = t.shape().iter().map(|&n| n as u64).collect();
    (shape, t.into_data())
}

fn integers<T: Copy + Into<i64>>(
    (shape, data): (Vec<u64>, Vec<T>),
    ty: ValueType,
) -> Result<TensorValue> {
    macro_rules! narrow {
        ($to:ty) => {{
            let fits = |n: &T| {
                let n: i64 = (*n).into();
                <$to>::try_from(n).map_err(|_| {
                    ONNX_RANGE.broken(format!("the graph gave {n}, declared as {}", ty.as_str()))
                })
            };
            let out: Result<Vec<$to>> = data.iter().map(fits).collect();
            TensorValue::from_elements(shape, &out?)
        }};
    }
    match ty {
        ValueType::Int8 => narrow!(i8),
        ValueType::Int16 => narrow!(i16),
        ValueType::Int64 => narrow!(i64),
        ValueType::Uint8 => narrow!(u8),
        ValueType::Uint16 => narrow!(u16),
        ValueType::Uint32 => narrow!(u32),
        ValueType::Uint64 => narrow!(u64),
        // Of another type than declared: reported where outputs are checked against the description.
        _ => narrow!(i32),
    }
}
