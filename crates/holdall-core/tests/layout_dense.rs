//! Dense views: borrowing, copying, converting, rows.

use half::{bf16, f16};
use holdall_core::layout::dense::{Dense, Element, row_range};
use holdall_core::{Bytes, DType, LogicalType};

/// Returns the bytes at an address that is a multiple of 64, plus `shift`.
fn at_shift(bytes: &[u8], shift: usize) -> Bytes {
    let mut room = vec![0u8; bytes.len() + 128];
    let start = room.as_ptr().align_offset(64) + shift;
    room[start..start + bytes.len()].copy_from_slice(bytes);
    Bytes::from(room).slice(start..start + bytes.len())
}

fn check<T: Element + PartialEq + std::fmt::Debug>(values: &[T], bytes: &[u8]) {
    let shape = vec![values.len() as u64];
    let aligned = Dense::new(T::DTYPE, T::COMPLEX, shape.clone(), at_shift(bytes, 0));
    assert_eq!(aligned.to_vec::<T>().unwrap(), values);
    let odd = Dense::new(T::DTYPE, T::COMPLEX, shape, at_shift(bytes, 1));
    assert_eq!(odd.to_vec::<T>().unwrap(), values);
    if cfg!(target_endian = "little") {
        let slice = aligned.as_slice::<T>().unwrap();
        assert_eq!(slice, values);
        assert_eq!(slice.as_ptr().cast::<u8>(), aligned.bytes().as_ptr());
        if align_of::<T>() > 1 {
            let e = odd.as_slice::<T>().unwrap_err();
            assert_eq!(e.code(), "layout/alignment");
            assert_eq!(e.remedies(), [holdall_core::Remedy::CopyElements]);
        }
    }
}

#[test]
fn elements_of_every_dtype_are_borrowed_or_copied() {
    macro_rules! numbers {
        ($($t:ty),*) => {$(
            let values = [0 as $t, 1 as $t, <$t>::MIN, <$t>::MAX, 77 as $t];
            check(&values, &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
        )*};
    }
    numbers!(f64, f32, i64, i32, i16, i8, u64, u32, u16, u8);
    let halves = [f16::from_f32(1.5), f16::MAX];
    check(&halves, &halves.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    let halves = [bf16::from_f32(1.5), bf16::MIN];
    check(&halves, &halves.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    check(&[true, false, true], &[1, 0, 1]);
    let pairs = [[1f32, -2.0], [0.5, f32::MAX]];
    check(&pairs, &pairs.iter().flatten().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    let pairs = [[1f64, -2.0], [0.5, f64::MAX]];
    check(&pairs, &pairs.iter().flatten().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    check::<f64>(&[], &[]);
}

#[test]
fn only_the_stored_type_is_borrowed() {
    let code = |d: &Dense| {
        let [a, b] = [d.as_slice::<i32>().map(drop), d.to_vec::<i32>().map(drop)];
        let [a, b] = [a.unwrap_err().code(), b.unwrap_err().code()];
        assert_eq!(a, b);
        a
    };
    assert_eq!(code(&Dense::new(DType::F32, None, [2], vec![0; 8])), "layout/element-type");
    assert_eq!(code(&Dense::new(DType::U32, None, [2], vec![0; 8])), "layout/element-type");
    assert_eq!(code(&Dense::new(DType::I32, None, [2], vec![0; 9])), "layout/length");
    assert_eq!(code(&Dense::new(DType::I32, None, [2], vec![0; 4])), "layout/length");
    assert_eq!(code(&Dense::new(DType::I32, None, [u64::MAX, 2], vec![0; 8])), "layout/length");
    // Pairs only if the type is complex, and of the right width.
    let pairs = Dense::new(DType::F32, None, [2], vec![0; 8]);
    assert_eq!(pairs.to_vec::<[f32; 2]>().unwrap_err().code(), "layout/element-type");
    let complex = Dense::new(DType::F32, Some(LogicalType::Complex64), [2], vec![0; 16]);
    assert_eq!(complex.to_vec::<[f32; 2]>().unwrap().len(), 2);
    assert_eq!(complex.to_vec::<f32>().unwrap().len(), 4);
    assert_eq!(complex.to_vec::<[f64; 2]>().unwrap_err().code(), "layout/element-type");
    assert_eq!(complex.to_f32().unwrap_err().code(), "layout/not-a-number");
    // The storage of a small float, and of an unknown type.
    let f8 = Dense::new(DType::U8, Some(LogicalType::F8E4M3Fn), [2], vec![0x38, 0xb8]);
    assert_eq!(f8.as_slice::<u8>().unwrap(), [0x38, 0xb8]);
    assert_eq!(f8.to_f32().unwrap(), [1.0, -1.0]);
    assert_eq!(f8.to_f64().unwrap(), [1.0, -1.0]);
    let other = Dense::new(DType::U16, Some(LogicalType::Other("x".into())), [7], vec![1; 6]);
    assert_eq!(other.to_vec::<u16>().unwrap(), [0x101; 3]);
    assert_eq!(other.to_f32().unwrap_err().code(), "layout/unknown-type");
    assert_eq!(other.to_f64().unwrap_err().code(), "layout/unknown-type");
    let odd = Dense::new(DType::U16, Some(LogicalType::Other("x".into())), [7], vec![1; 5]);
    assert_eq!(odd.to_vec::<u16>().unwrap_err().code(), "layout/length");
}

#[test]
fn a_bool_is_0_or_1() {
    let d = Dense::new(DType::Bool, None, [3], vec![0, 1, 2]);
    for e in [
        d.as_slice::<bool>().map(drop).unwrap_err(),
        d.to_vec::<bool>().map(drop).unwrap_err(),
        d.to_f32().map(drop).unwrap_err(),
    ] {
        assert_eq!(e.code(), "layout/bool-byte");
    }
    assert_eq!(d.bytes()[..], [0, 1, 2]);
}

#[test]
fn rows_are_ranges_of_bytes() {
    let f4 = Some(LogicalType::F4E2M1);
    let f6 = Some(LogicalType::F6E2M3);
    let complex = Some(LogicalType::Complex64);
    let cases = [
        (vec![4, 3], DType::F32, None, 1..3, Ok(12..36)),
        (vec![4, 3], DType::F32, None, 0..4, Ok(0..48)),
        (vec![4, 3], DType::F32, None, 4..4, Ok(0..0)),
        (vec![4], DType::U8, None, 3..4, Ok(3..4)),
        (vec![4, 0], DType::F64, None, 1..2, Ok(0..0)),
        (vec![0, u64::MAX, u64::MAX], DType::F64, None, 0..0, Ok(0..0)),
        (vec![3, 2, 2], DType::F32, complex.clone(), 1..2, Ok(32..64)),
        (vec![4, 3], DType::U8, f4.clone(), 0..2, Ok(0..3)),
        (vec![4, 3], DType::U8, f4.clone(), 2..4, Ok(3..6)),
        (vec![4, 3], DType::U8, f4, 1..2, Err("layout/row-boundary")),
        (vec![8, 2], DType::U8, f6.clone(), 2..4, Ok(3..6)),
        (vec![8, 2], DType::U8, f6, 2..3, Err("layout/row-boundary")),
        (vec![], DType::F32, None, 0..1, Err("layout/rows")),
        (vec![4, 3], DType::F32, None, 3..5, Err("layout/rows")),
        #[allow(clippy::reversed_empty_ranges)]
        (vec![4, 3], DType::F32, None, 3..2, Err("layout/rows")),
        (
            vec![4],
            DType::U8,
            Some(LogicalType::Other("x".into())),
            0..1,
            Err("layout/element-size"),
        ),
        (vec![u64::MAX, 4], DType::U8, None, 0..u64::MAX, Err("layout/length")),
        (vec![2, u64::MAX, 4], DType::U8, None, 0..1, Err("layout/length")),
    ];
    for (shape, dtype, logical, rows, wanted) in cases {
        let found = row_range(&shape, dtype, logical.as_ref(), rows.clone());
        assert_eq!(found.map_err(|e| e.code()), wanted, "{shape:?} {rows:?}");
    }
    let d = Dense::new(DType::U16, None, [3, 2], vec![0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]);
    let rows = d.rows(1..3).unwrap();
    assert_eq!(rows.shape(), [2, 2]);
    assert_eq!(rows.to_vec::<u16>().unwrap(), [2, 3, 4, 5]);
    assert_eq!(d.rows(3..3).unwrap().shape(), [0, 2]);
    assert_eq!(d.rows(0..4).unwrap_err().code(), "layout/rows");
    let short = Dense::new(DType::U16, None, [3, 2], vec![0; 4]);
    assert_eq!(short.rows(1..3).unwrap_err().code(), "layout/length");
}
