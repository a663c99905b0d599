//! The tensors of the matrix: their stored form, and their values as decoded by this module, independently of Holdall.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A dense tensor in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<u64>,
    pub(crate) dtype: String,
    /// The elements, little-endian.
    pub(crate) bytes: Vec<u8>,
}

/// Tensors by name.
pub(crate) type Tensors = BTreeMap<String, Tensor>;

impl Tensor {
    pub(crate) fn f32(shape: &[u64], elements: &[f32]) -> Tensor {
        Tensor { shape: shape.to_vec(), dtype: "F32".to_owned(), bytes: bytes_of(elements) }
    }

    /// Returns the elements of a range of rows.
    pub(crate) fn rows(&self, from: u64, to: u64) -> &[u8] {
        let row = self.bytes.len() / self.shape[0] as usize;
        &self.bytes[from as usize * row..to as usize * row]
    }

    /// Returns the smallest and the largest element.
    pub(crate) fn range(&self) -> (f64, f64) {
        let numbers = self.numbers();
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        numbers.iter().fold(ends, |(min, max), x| (min.min(*x), max.max(*x)))
    }

    pub(crate) fn numbers(&self) -> Vec<f64> {
        match &*self.dtype {
            "F32" => floats(&self.bytes).into_iter().map(f64::from).collect(),
            "I8" => self.bytes.iter().map(|x| f64::from(*x as i8)).collect(),
            "U8" => self.bytes.iter().map(|x| f64::from(*x)).collect(),
            other => panic!("elements of {other}"),
        }
    }
}

pub(crate) fn bytes_of(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|x| u64::from_le_bytes(x.try_into().unwrap())).collect()
}

/// How a tensor is represented by its components.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LayoutForm {
    Dense,
    Csr,
    Coo,
    /// Quantized elements of `bits` bits, with a scale and a zero point per group of `size` elements.
    Group {
        bits: u32,
        size: usize,
    },
    /// ggml's Q8_0.
    Q8,
    /// Elements with these strides, one per dimension.
    Strided(Vec<u64>),
    /// Quantized values in this safetensors dtype, with scales in the attributes.
    Codes(&'static str),
    /// Records, whose values are those of the sample.
    Records,
    /// Runs of bytes.
    Blob,
}

/// A tensor in its stored form.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) name: &'static str,
    pub(crate) shape: Vec<u64>,
    pub(crate) form: LayoutForm,
    /// The components' roles and bytes.
    pub(crate) parts: Vec<(String, Vec<u8>)>,
    /// The attributes that operations must keep.
    pub(crate) attributes: Map<String, Value>,
}

impl Stored {
    pub(crate) fn new(
        name: &'static str,
        shape: &[u64],
        form: LayoutForm,
        parts: &[(&str, Vec<u8>)],
    ) -> Stored {
        let parts = parts.iter().map(|(role, bytes)| ((*role).to_owned(), bytes.clone()));
        let parts = parts.collect();
        Stored { name, shape: shape.to_vec(), form, parts, attributes: Map::new() }
    }

    pub(crate) fn with_attributes(mut self, attributes: Value) -> Stored {
        let Value::Object(attributes) = attributes else { panic!("{attributes}") };
        self.attributes = attributes;
        self
    }

    pub(crate) fn part(&self, role: &str) -> Option<&[u8]> {
        let found = self.parts.iter().find(|(own, _)| own == role);
        found.map(|(_, bytes)| &**bytes)
    }

    /// Returns whether the tensor's bytes are not elements.
    pub(crate) fn is_opaque(&self) -> bool {
        matches!(self.form, LayoutForm::Records | LayoutForm::Blob)
    }

    fn count(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }

    /// Returns the dense tensor, or `None` if the components do not form one.
    pub(crate) fn dense(&self) -> Option<Tensor> {
        let at = |position: &[u64]| -> Option<usize> {
            let inside = position.iter().zip(&self.shape).all(|(p, n)| p < n);
            let step = |at: u64, (p, n): (&u64, &u64)| at * n + p;
            inside.then(|| position.iter().zip(&self.shape).fold(0, step) as usize)
        };
        let mut out = vec![0f32; self.count()];
        match &self.form {
            LayoutForm::Dense => out = floats(self.part("data")?),
            LayoutForm::Csr => {
                let (values, columns) = (floats(self.part("values")?), self.numbers("indices")?);
                let starts = self.numbers("indptr")?;
                let is_whole = starts.first() == Some(&0)
                    && starts.is_sorted()
                    && starts.last() == Some(&(values.len() as u64));
                if !is_whole {
                    return None;
                }
                for row in 0..self.shape[0] {
                    for entry in starts[row as usize]..starts[row as usize + 1] {
                        let entry = entry as usize;
                        out[at(&[row, columns[entry]])?] += values[entry];
                    }
                }
            }
            LayoutForm::Coo => {
                let (values, coords) = (floats(self.part("values")?), self.numbers("coords")?);
                for (entry, value) in values.iter().enumerate() {
                    let position: Vec<u64> = (0..self.shape.len())
                        .map(|dimension| coords[dimension * values.len() + entry])
                        .collect();
                    out[at(&position)?] += value;
                }
            }
            LayoutForm::Group { bits, size } => {
                let packed = self.part("packed_weight")?;
                let scales = floats(self.part("scales")?);
                let zeros = self.part("zeros").map(floats);
                for (k, element) in out.iter_mut().enumerate() {
                    let bit = k * *bits as usize;
                    let code = (packed[bit / 8] >> (bit % 8)) & ((1u16 << bits) - 1) as u8;
                    let zero = zeros.as_ref().map_or((1u32 << (bits - 1)) as f32, |z| z[k / size]);
                    *element = (f32::from(code) - zero) * scales[k / size];
                }
            }
            LayoutForm::Q8 => {
                for (block, out) in self.part("data")?.chunks(34).zip(out.chunks_mut(32)) {
                    let scale = half(u16::from_le_bytes([block[0], block[1]]));
                    for (code, element) in block[2..].iter().zip(out) {
                        *element = f32::from(*code as i8) * scale;
                    }
                }
            }
            LayoutForm::Strided(strides) => {
                let stored = floats(self.part("data")?);
                for (k, element) in out.iter_mut().enumerate() {
                    let (mut rest, mut from) = (k as u64, 0);
                    for (n, stride) in self.shape.iter().zip(strides).rev() {
                        from += rest % n * stride;
                        rest /= n;
                    }
                    *element = stored[from as usize];
                }
            }
            LayoutForm::Codes(dtype) => {
                let (shape, bytes) = (self.shape.clone(), self.part("data")?.to_vec());
                return Some(Tensor { shape, dtype: (*dtype).to_owned(), bytes });
            }
            LayoutForm::Records | LayoutForm::Blob => return None,
        }
        Some(Tensor::f32(&self.shape, &out))
    }

    fn numbers(&self, role: &str) -> Option<Vec<u64>> {
        self.part(role).map(numbers)
    }
}

/// Converts a finite half-precision float.
pub(crate) fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, (bits >> 10) & 31, bits & 1023);
    assert_ne!(exponent, 31, "{bits:#x}");
    let sign = if sign == 1 { -1.0 } else { 1.0 };
    let fraction = f32::from(fraction) / 1024.0;
    match exponent {
        0 => sign * fraction * 2f32.powi(-14),
        _ => sign * (1.0 + fraction) * 2f32.powi(i32::from(exponent) - 15),
    }
}
