//! Values as ONNX Runtime has them, and back.

use crate::rules::{ONNX_RANGE, ONNX_TYPE};
use holdall::Result;
use holdall::carton::Number;
use holdall::carton::{TensorValue, ValueType};
use ort::value::{DynValue, PrimitiveTensorElementType, Tensor, TensorElementType};
use std::fmt::Debug;

/// Numbers of any type, as the widest of their kind.
enum Wide {
    Floats(Vec<f64>),
    Whole(Vec<i128>),
}

/// A type that graphs and Cartons have.
trait Element: Number + PrimitiveTensorElementType + Debug {
    fn read(data: &[u8]) -> Vec<Self>;
    fn widen(data: &[u8]) -> Wide;
    fn narrow(wide: Wide) -> Result<Vec<Self>>;
}

macro_rules! elements {
    ($variant:ident, $wide:ty: $($ty:ty),*; $number:ident => $fit:expr) => {$(
        impl Element for $ty {
            fn read(data: &[u8]) -> Vec<$ty> {
                let (chunks, _) = data.as_chunks::<{ size_of::<$ty>() }>();
                chunks.iter().map(|c| <$ty>::from_le_bytes(*c)).collect()
            }
            fn widen(data: &[u8]) -> Wide {
                #[allow(clippy::unnecessary_cast)]
                Wide::$variant(Self::read(data).into_iter().map(|n| n as $wide).collect())
            }
            fn narrow(wide: Wide) -> Result<Vec<$ty>> {
                match wide {
                    Wide::$variant(all) => all.into_iter().map(|$number| $fit).collect(),
                    _ => {
                        let ty = <$ty as Number>::TYPE.as_str();
                        Err(ONNX_TYPE.broken(format!("the graph takes {ty} here")))
                    }
                }
            }
        }
    )*};
}
elements!(Floats, f64: f32; n => Ok(n as f32));
elements!(Floats, f64: f64; n => Ok(n));
elements!(Whole, i128: i8, i16, i32, i64, u8, u16, u32, u64; n => n.try_into().map_err(|_| {
    ONNX_RANGE.broken(format!("{n} does not fit the type that the graph takes here"))
}));

/// Calls a function with the Rust type of a type of Cartons.
macro_rules! with_type {
    ($ty:expr, $call:ident ( $($arg:expr),* ), $other:expr) => {
        match $ty {
            ValueType::Float32 => $call::<f32>($($arg),*),
            ValueType::Float64 => $call::<f64>($($arg),*),
            ValueType::Int8 => $call::<i8>($($arg),*),
            ValueType::Int16 => $call::<i16>($($arg),*),
            ValueType::Int32 => $call::<i32>($($arg),*),
            ValueType::Int64 => $call::<i64>($($arg),*),
            ValueType::Uint8 => $call::<u8>($($arg),*),
            ValueType::Uint16 => $call::<u16>($($arg),*),
            ValueType::Uint32 => $call::<u32>($($arg),*),
            ValueType::Uint64 => $call::<u64>($($arg),*),
            _ => $other,
        }
    };
}

/// The type of Cartons that a graph's is; booleans and the short floats are none.
fn type_of(engine: TensorElementType) -> Option<ValueType> {
    Some(match engine {
        TensorElementType::Float32 => ValueType::Float32,
        TensorElementType::Float64 => ValueType::Float64,
        TensorElementType::Int8 => ValueType::Int8,
        TensorElementType::Int16 => ValueType::Int16,
        TensorElementType::Int32 => ValueType::Int32,
        TensorElementType::Int64 => ValueType::Int64,
        TensorElementType::Uint8 => ValueType::Uint8,
        TensorElementType::Uint16 => ValueType::Uint16,
        TensorElementType::Uint32 => ValueType::Uint32,
        TensorElementType::Uint64 => ValueType::Uint64,
        TensorElementType::String => ValueType::String,
        _ => return None,
    })
}

/// A value as the graph takes it.
pub(super) fn to_engine(value: &TensorValue, wanted: TensorElementType) -> Result<DynValue> {
    let shape = || -> Result<Vec<i64>> {
        let size = |n: &u64| {
            i64::try_from(*n).map_err(|_| ONNX_RANGE.broken(format!("a dimension of {n}")))
        };
        value.shape().unwrap_or_default().iter().map(size).collect()
    };
    let refused =
        |what: &str| Err(ONNX_TYPE.broken(format!("the graph takes {wanted} here, not {what}")));
    match (value, wanted) {
        (TensorValue::Strings { data, .. }, TensorElementType::String) => {
            if data.iter().any(|text| text.contains('\0')) {
                return Err(ONNX_TYPE.broken("a text with a NUL, which the engine does not take"));
            }
            let made = Tensor::from_string_array((shape()?, data.as_slice()));
            made.map(Tensor::into_dyn).map_err(|e| super::session_error(&ONNX_TYPE, &e))
        }
        (TensorValue::Numbers { ty, data, .. }, TensorElementType::Bool) => {
            let Wide::Whole(all) = wide(*ty, data)? else { return refused(ty.as_str()) };
            made(shape()?, all.into_iter().map(|n| n != 0).collect::<Vec<bool>>())
        }
        (TensorValue::Numbers { ty, data, .. }, _) => match type_of(wanted) {
            None | Some(ValueType::String) => refused(ty.as_str()),
            Some(target) => {
                with_type!(target, numbers(*ty, data, shape()?), refused(ty.as_str()))
            }
        },
        (TensorValue::Strings { .. }, _) => refused("texts"),
        (TensorValue::Nested(_), _) => refused("a nested tensor"),
    }
}

fn numbers<T: Element>(ty: ValueType, data: &[u8], shape: Vec<i64>) -> Result<DynValue> {
    match ty == T::TYPE {
        true => made(shape, T::read(data)),
        false => made(shape, T::narrow(wide(ty, data)?)?),
    }
}

fn wide(ty: ValueType, data: &[u8]) -> Result<Wide> {
    fn widen<T: Element>(data: &[u8]) -> Result<Wide> {
        Ok(T::widen(data))
    }
    with_type!(ty, widen(data), Err(ONNX_TYPE.broken(format!("elements of {}", ty.as_str()))))
}

fn made<T: PrimitiveTensorElementType + Debug + Clone + 'static>(
    shape: Vec<i64>,
    data: Vec<T>,
) -> Result<DynValue> {
    let tensor = Tensor::from_array((shape, data));
    tensor.map(Tensor::into_dyn).map_err(|e| super::session_error(&ONNX_TYPE, &e))
}

/// What the graph gave. Booleans are in the declared type, or `uint8`.
pub(super) fn from_engine(value: &DynValue, declared: Option<ValueType>) -> Result<TensorValue> {
    let Some(engine) = value.dtype().tensor_type() else {
        return Err(ONNX_TYPE.broken(format!("the graph gave a {}", value.dtype())));
    };
    if engine == TensorElementType::Bool {
        let (shape, data) = value.try_extract_tensor::<bool>().map_err(wrong)?;
        let shape = sizes(shape)?;
        fn flags<T: Number + From<u8>>(shape: Vec<u64>, data: &[bool]) -> Result<TensorValue> {
            TensorValue::from_elements(
                shape,
                &data.iter().map(|b| T::from(u8::from(*b))).collect::<Vec<T>>(),
            )
        }
        return match declared {
            Some(ValueType::Int16) => flags::<i16>(shape, data),
            Some(ValueType::Int32) => flags::<i32>(shape, data),
            Some(ValueType::Int64) => flags::<i64>(shape, data),
            Some(ValueType::Uint16) => flags::<u16>(shape, data),
            Some(ValueType::Uint32) => flags::<u32>(shape, data),
            Some(ValueType::Uint64) => flags::<u64>(shape, data),
            Some(ValueType::Int8) => TensorValue::from_elements(
                shape,
                &data.iter().map(|b| i8::from(*b)).collect::<Vec<_>>(),
            ),
            _ => flags::<u8>(shape, data),
        };
    }
    let Some(ty) = type_of(engine) else {
        return Err(ONNX_TYPE.broken(format!("the graph gave elements of {engine}")));
    };
    if ty == ValueType::String {
        let (shape, data) = value.try_extract_strings().map_err(wrong)?;
        return TensorValue::strings(sizes(shape)?, data);
    }
    with_type!(ty, given(value), Err(ONNX_TYPE.broken(format!("the graph gave a {engine}"))))
}

fn given<T: Element>(value: &DynValue) -> Result<TensorValue> {
    let (shape, data) = value.try_extract_tensor::<T>().map_err(wrong)?;
    TensorValue::from_elements(sizes(shape)?, data)
}

fn sizes(shape: &[i64]) -> Result<Vec<u64>> {
    let size = |n: &i64| {
        u64::try_from(*n).map_err(|_| ONNX_TYPE.broken(format!("the graph gave a size of {n}")))
    };
    shape.iter().map(size).collect()
}

fn wrong(e: ort::Error) -> holdall::Error {
    super::session_error(&ONNX_TYPE, &e)
}
