//! The elements of a tensor to be added, from an `.npy` file or raw bytes.

use crate::exit::{ARGUMENTS, Failure, LENGTH};
use crate::input;
use crate::session::Session;
use clap::Args;
use holdall::{ByteOrder, DType, Edit, LogicalType, Result, Tensor, TensorSpec, npy, stored_size};
use std::io::{Cursor, Read};
use std::path::PathBuf;

/// The source of the elements.
#[derive(Debug, Args)]
pub(super) struct From {
    /// An .npy file, a file of raw little-endian elements, or `-` for standard input
    #[arg(long, value_name = "PATH")]
    from: PathBuf,

    /// Type of raw elements, such as `f32`, `bf16`, `f8_e4m3fn`, `complex64`
    #[arg(long, value_parser = element_type, requires = "shape")]
    dtype: Option<ElementType>,

    /// Dimensions of raw elements, such as `3,4`; empty for a scalar
    #[arg(long, value_parser = shape, requires = "dtype", allow_hyphen_values = true)]
    shape: Option<Shape>,
}

/// The value of the `--dtype` option.
#[derive(Debug, Clone, PartialEq)]
struct ElementType(DType, Option<LogicalType>);

/// The value of the `--shape` option.
#[derive(Debug, Clone, PartialEq)]
struct Shape(Vec<u64>);

fn element_type(text: &str) -> std::result::Result<ElementType, String> {
    if let Some(dtype) = DType::from_name(text) {
        return Ok(ElementType(dtype, None));
    }
    let logical = LogicalType::from_name(text);
    match logical.storage() {
        Some(dtype) => Ok(ElementType(dtype, Some(logical))),
        None => {
            let all: Vec<&str> = DType::ALL.iter().map(|d| d.as_str()).collect();
            let logical: Vec<&str> = LogicalType::KNOWN.iter().map(|t| t.as_str()).collect();
            Err(format!("write one of {}, {}", all.join(", "), logical.join(", ")))
        }
    }
}

fn shape(text: &str) -> std::result::Result<Shape, String> {
    let text = text.trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
    let dims = text.split([',', 'x']).map(str::trim).filter(|dim| !dim.is_empty());
    let wrong = |dim: &str| format!("`{dim}` is not a dimension; write for example 3,4");
    let read = |dim: &str| dim.parse().map_err(|_| wrong(dim));
    dims.map(read).collect::<std::result::Result<_, _>>().map(Shape)
}

impl From {
    /// Adds a tensor with these elements. If it replaces `old`, it keeps that tensor's attributes and, for raw bytes
    /// without a type, its dtype and shape.
    pub(super) fn add(
        &self,
        session: &Session,
        edit: &mut Edit,
        name: &str,
        old: Option<&Tensor>,
    ) -> Result<(), Failure> {
        let (len, mut reader) = input::reader(session, &self.from)?;
        let shown = input::display_name(&self.from);
        let mut head = Vec::new();
        let read_head = |reader: &mut dyn Read, most: u64, head: &mut Vec<u8>| {
            reader
                .take(most - head.len() as u64)
                .read_to_end(head)
                .map_err(|e| holdall::error::io(e, "reading").in_source(&shown))
        };
        let raw = self.dtype.as_ref().zip(self.shape.as_ref());
        if raw.is_none() {
            read_head(&mut reader, 12, &mut head)?;
        }
        let named = |e: holdall::Error| e.in_source(&shown);
        let (mut spec, header_len) = if let Some((ElementType(dtype, logical), shape)) = raw {
            (spec(name, *dtype, logical.clone(), &shape.0)?, 0)
        } else if head.starts_with(b"\x93NUMPY") {
            let header_len = npy::header_len(&head).map_err(named)?;
            read_head(&mut reader, header_len, &mut head)?;
            let header = npy::read(&head).map_err(named)?;
            let spec = spec(name, header.dtype, header.logical_type.clone(), &header.shape)?;
            if header.byte_order == ByteOrder::Big || header.fortran_order {
                let mut bytes = Vec::new();
                check_length(&spec, len - header_len).map_err(named)?;
                read_head(&mut reader, len - header_len, &mut bytes)?;
                let bytes = in_our_order(bytes, &header);
                return Ok(edit.add(with_attributes(spec, old), vec![bytes.into()])?);
            }
            (spec, header_len)
        } else if let Some(old) = old {
            let component = old.components().next();
            let (dtype, logical) = match component.filter(|_| old.components().len() == 1) {
                Some(c) => (c.dtype, c.logical_type),
                None => return Err(no_type(&shown)),
            };
            (spec(name, dtype, logical, old.shape())?, 0)
        } else {
            return Err(no_type(&shown));
        };
        check_length(&spec, len - header_len).map_err(named)?;
        spec = with_attributes(spec, old);
        let rest = if header_len == 0 { head } else { Vec::new() };
        Ok(edit.add_from(spec, Cursor::new(rest).chain(reader))?)
    }
}

#[cold]
fn no_type(shown: &str) -> Failure {
    let e = ARGUMENTS.broken("raw bytes need a type and a shape").in_source(shown);
    e.with_hint("add `--dtype f32 --shape 3,4`, or give an .npy file").into()
}

fn spec(
    name: &str,
    dtype: DType,
    logical: Option<LogicalType>,
    shape: &[u64],
) -> Result<TensorSpec> {
    let count = holdall::element_count(shape);
    let size = count.ok_or(()).and_then(|n| stored_size(n, dtype, logical.as_ref()));
    let Ok(Some(len)) = size else {
        let name = logical.as_ref().map_or(dtype.as_str(), |t| t.as_str());
        return Err(ARGUMENTS.broken(format!(
            "shape {shape:?} of {name} is not a whole number of bytes below 2^64"
        )));
    };
    let mut spec = TensorSpec::dense(name, dtype, shape);
    if let Some(c) = spec.components.first_mut() {
        (c.logical_type, c.decoded_len) = (logical, len);
    }
    Ok(spec)
}

fn with_attributes(mut spec: TensorSpec, old: Option<&Tensor>) -> TensorSpec {
    if let Some(old) = old {
        spec.attributes = old.attributes().clone();
    }
    spec
}

fn check_length(spec: &TensorSpec, found: u64) -> Result<()> {
    let expected: u64 = spec.components.iter().map(|c| c.decoded_len).sum();
    if found == expected {
        return Ok(());
    }
    let dtype = spec.components.first().map_or("", |c| c.dtype.as_str());
    Err(LENGTH
        .broken(format!("shape {:?} of {dtype} takes {expected} bytes, found {found}", spec.shape)))
}

/// Converts the elements that `header` describes to little-endian, row-major order.
fn in_our_order(mut bytes: Vec<u8>, header: &npy::Header) -> Vec<u8> {
    let part = header.dtype.width() as usize;
    if header.byte_order == ByteOrder::Big {
        bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    if !header.fortran_order {
        return bytes;
    }
    let width = if header.logical_type.is_some() { 2 * part } else { part };
    let dims: Vec<usize> = header.shape.iter().map(|d| *d as usize).collect();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = vec![0; dims.len()];
    while out.len() < bytes.len() {
        // The index of the element in column-major order.
        let index = at.iter().zip(&dims).rev().fold(0, |index, (i, dim)| index * dim + i);
        out.extend_from_slice(&bytes[index * width..][..width]);
        for (i, dim) in at.iter_mut().zip(&dims).rev() {
            *i += 1;
            if *i < *dim {
                break;
            }
            *i = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_shapes_are_read() {
        assert_eq!(element_type("bf16"), Ok(ElementType(DType::Bf16, None)));
        let f8 = LogicalType::F8E4M3Fn;
        assert_eq!(element_type("f8_e4m3fn"), Ok(ElementType(DType::U8, Some(f8))));
        assert!(element_type("float").is_err());
        assert_eq!(shape("3,4"), Ok(Shape(vec![3, 4])));
        assert_eq!(shape("[3, 4]"), Ok(Shape(vec![3, 4])));
        assert_eq!(shape("3x4"), Ok(Shape(vec![3, 4])));
        assert_eq!(shape("[]"), Ok(Shape(vec![])));
        assert!(shape("3,-4").is_err());
    }

    #[test]
    fn fortran_order_becomes_row_major() {
        let header = npy::Header {
            dtype: DType::U16,
            logical_type: None,
            byte_order: ByteOrder::Big,
            fortran_order: true,
            shape: vec![2, 3],
            len: 0,
            descr: None,
            inner: None,
            fields: None,
        };
        // [[1, 2, 3], [4, 5, 6]], in column-major order.
        let stored = [0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6];
        let expected = [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0];
        assert_eq!(in_our_order(stored.to_vec(), &header), expected);
    }
}
