//! A dense view never returns more than it holds, and all ways to read its elements agree.

use crate::take::{Put, Take};
use holdall::layout::{Dense, Element, decode_f32, decode_f64, into_f32, row_range};
use holdall::{DType, Layout, Role, element_count, stored_size};

/// The bytes of the input are repeated to fill the shape, up to this many.
const MAX: u64 = 64 << 10;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    let shape = take.shape();
    let is_fit = take.below(2) == 1;
    let (from, to) = (take.u64(), take.u64());
    let part = take.component();
    let (dtype, logical) = (part.dtype, part.logical_type);
    let count = element_count(&shape);
    let size = count.and_then(|n| stored_size(n, dtype, logical.as_ref()).ok().flatten());
    let bytes = match size {
        Some(size) if is_fit && size <= MAX => {
            let all = part.bytes.iter().copied().chain([1]).cycle();
            all.take(size as usize).collect()
        }
        _ => part.bytes,
    };
    let dense = Dense::new(dtype, logical.clone(), shape.clone(), bytes.clone());
    let f32s = dense.to_f32();
    let f64s = dense.to_f64();
    assert_eq!(f32s.is_ok(), f64s.is_ok());
    if let (Ok(f32s), Ok(f64s)) = (&f32s, f64s) {
        if let (Some(count), Some(_)) = (count, size) {
            assert_eq!(f32s.len() as u64, count);
        }
        assert_eq!(f32s.len(), f64s.len());
        // A 64-bit integer may be rounded twice when it is converted to f32 through f64.
        let is_wide = matches!(dtype, DType::I64 | DType::U64);
        for (x, y) in f32s.iter().zip(f64s) {
            let near = is_wide && (f64::from(*x) - y).abs() <= y.abs() / f64::from(1 << 23);
            assert!(*x == y as f32 || near || (x.is_nan() && y.is_nan()), "{x} and {y}");
        }
        let mut out = vec![0.0; f32s.len()];
        into_f32(dtype, logical.as_ref(), &bytes, &mut out).expect("they could be decoded");
        assert!(same(&out, f32s));
        into_f32(dtype, logical.as_ref(), &bytes, &mut vec![0.0; out.len() + 1])
            .expect_err("the range is outside the view");
    }
    each_type(&dense);
    let rows = row_range(&shape, dtype, logical.as_ref(), from..to);
    let view = dense.rows(from..to);
    if let Ok(view) = &view {
        let range = rows.as_ref().expect("the view was made");
        assert!(range.start <= range.end && range.end <= bytes.len() as u64);
        assert_eq!(view.bytes(), &bytes.slice(range.start as usize..range.end as usize));
        if let (Ok(all), Ok(rows)) = (&f32s, view.to_f32()) {
            let start = rows.len() as u64 / (to - from).max(1) * from;
            let found = all.get(start as usize..).and_then(|all| all.get(..rows.len()));
            assert!(rows.is_empty() || found.is_some_and(|found| same(found, &rows)));
        }
    }
    // This holds for any bytes: errors in the shape are found first.
    let (mut singles, mut doubles) = (0, 0);
    let a = decode_f32(dtype, logical.as_ref(), &bytes, |c| singles += c.len());
    let b = decode_f64(dtype, logical.as_ref(), &bytes, |c| doubles += c.len());
    assert_eq!((a.is_ok(), singles), (b.is_ok(), doubles));
}

/// Returns whether both have the same bits.
fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Borrows and copies the elements as every element type.
fn each_type(dense: &Dense) {
    let all = [
        elements::<f64>(dense),
        elements::<f32>(dense),
        elements::<i64>(dense),
        elements::<i32>(dense),
        elements::<i16>(dense),
        elements::<i8>(dense),
        elements::<u64>(dense),
        elements::<u32>(dense),
        elements::<u16>(dense),
        elements::<u8>(dense),
        elements::<bool>(dense),
        elements::<[f32; 2]>(dense),
        elements::<[f64; 2]>(dense),
    ];
    let types = all.into_iter().flatten().count();
    assert!(types <= 2, "elements of {types} types at once");
}

/// Returns the number of elements as `T`, or `None` if they are of another type.
fn elements<T: Element>(dense: &Dense) -> Option<usize> {
    let copied = dense.to_vec::<T>();
    let borrowed = dense.as_slice::<T>();
    if let Ok(borrowed) = borrowed {
        let copied = copied.as_ref().expect("what can be borrowed can be copied");
        assert_eq!(borrowed.len(), copied.len());
    }
    let count = copied.ok()?.len();
    assert_eq!(count * size_of::<T>(), dense.bytes().len());
    assert_eq!(T::DTYPE, dense.dtype());
    Some(count)
}

/// Returns every dense tensor, and its first two rows.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let Some(file) = crate::open(file) else { return Vec::new() };
    let mut out = Vec::new();
    for t in file.tensors().filter(|t| *t.layout() == Layout::Dense) {
        let (Some(c), Ok(bytes)) = (t.component(&Role::Data), t.bytes(&Role::Data)) else {
            continue;
        };
        let mut put = Put::default();
        if bytes.len() <= 4096 && put.shape(t.shape()) && c.dtype != DType::Bool {
            put.u8(1);
            put.0.extend(0u64.to_le_bytes());
            put.0.extend(t.shape().first().map_or(0, |n| 2.min(*n)).to_le_bytes());
            put.component(&c, &bytes);
            out.push(put.0);
        }
    }
    out
}
