//! Sparse views: checks, sums of duplicates, the packed layouts.

use half::f16;
use holdall_core::layout::Decoded;
use holdall_core::layout::dense::Dense;
use holdall_core::layout::sparse::{Coo, Csr};
use holdall_core::{DType, Error, Limits, LogicalType};
use proptest::prelude::*;

fn u64s(values: &[u64]) -> Decoded {
    Decoded::new(DType::U64, le(values))
}

fn le(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn f32s(values: &[f32]) -> Decoded {
    Decoded::new(DType::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
}

fn csr(shape: &[u64], indptr: &[u64], indices: &[u64], values: &[f32]) -> Result<Csr, Error> {
    Csr::new(shape, u64s(indptr), u64s(indices), f32s(values), &Limits::default())
}

fn coo(shape: &[u64], coords: &[u64], values: &[f32]) -> Result<Coo, Error> {
    Coo::new(shape, u64s(coords), f32s(values), &Limits::default())
}

fn dense(d: &Dense) -> Vec<f32> {
    d.to_vec::<f32>().unwrap()
}

#[test]
fn compressed_rows() {
    // [[1, 0, 2], [0, 0, 0], [0, 3, 0]]
    let m = csr(&[3, 3], &[0, 2, 2, 3], &[2, 0, 1], &[2.0, 1.0, 3.0]).unwrap();
    assert_eq!((m.shape(), m.count()), ([3, 3], 3));
    let places: Vec<_> = m.entries().map(|e| (e.row, e.column, e.value.to_vec())).collect();
    let value = |x: f32| x.to_le_bytes().to_vec();
    assert_eq!(places, [(0, 2, value(2.0)), (0, 0, value(1.0)), (2, 1, value(3.0))]);
    let d = m.to_dense(&Limits::default()).unwrap();
    assert_eq!(d.shape(), [3, 3]);
    assert_eq!(dense(&d), [1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0]);
    assert_eq!(m.values().to_f32().unwrap(), [2.0, 1.0, 3.0]);
    let empty = csr(&[0, 5], &[0], &[], &[]).unwrap();
    assert_eq!(empty.entries().count(), 0);
    assert_eq!(empty.to_dense(&Limits::default()).unwrap().bytes().len(), 0);
}

#[test]
fn coordinates() {
    let t = coo(&[2, 2, 2], &[0, 1, 1, 0, 0, 1, 1, 0, 1], &[5.0, 6.0, 7.0]).unwrap();
    let places: Vec<Vec<u64>> = t.entries().map(|e| e.coords().collect()).collect();
    assert_eq!(places, [[0, 0, 1], [1, 0, 0], [1, 1, 1]]);
    assert_eq!(t.coords(0), [0, 1, 1]);
    assert_eq!(t.coords(3), [0u64; 0]);
    let d = t.to_dense(&Limits::default()).unwrap();
    assert_eq!(dense(&d), [0.0, 5.0, 0.0, 0.0, 6.0, 0.0, 0.0, 7.0]);
    // A scalar has no coordinates; its values are added.
    let s = coo(&[], &[], &[1.0, 2.5]).unwrap();
    assert_eq!(dense(&s.to_dense(&Limits::default()).unwrap()), [3.5]);
    let vector = coo(&[4], &[3, 1], &[1.0, 2.0]).unwrap();
    assert_eq!(dense(&vector.to_dense(&Limits::default()).unwrap()), [0.0, 2.0, 0.0, 1.0]);
}

#[test]
fn indices_are_checked_before_there_is_a_view() {
    let code = |r: Result<Csr, Error>| r.unwrap_err().code();
    let v = &[1.0, 2.0];
    assert_eq!(code(csr(&[2], &[0, 1, 2], &[0, 1], v)), "sparse/rank");
    assert_eq!(code(csr(&[2, 2, 2], &[0, 1, 2], &[0, 1], v)), "sparse/rank");
    assert_eq!(code(csr(&[2, 2], &[0, 2], &[0, 1], v)), "sparse/counts");
    assert_eq!(code(csr(&[2, 2], &[], &[0, 1], v)), "sparse/counts");
    assert_eq!(code(csr(&[u64::MAX, 2], &[], &[0, 1], v)), "sparse/counts");
    assert_eq!(code(csr(&[2, 2], &[0, 1, 2], &[0], v)), "sparse/counts");
    assert_eq!(code(csr(&[2, 2], &[1, 1, 2], &[0, 1], v)), "sparse/indptr-start");
    assert_eq!(code(csr(&[2, 2], &[0, 3, 2], &[0, 1], v)), "sparse/indptr-order");
    assert_eq!(code(csr(&[2, 2], &[0, 1, 3], &[0, 1], v)), "sparse/indptr-end");
    assert_eq!(code(csr(&[2, 2], &[0, 1, 1], &[0, 1], v)), "sparse/indptr-end");
    assert_eq!(code(csr(&[2, 2], &[0, 1, 2], &[0, 2], v)), "sparse/index-bounds");
    assert_eq!(code(csr(&[2, 2], &[0, 1, 2], &[0, u64::MAX], v)), "sparse/index-bounds");
    let code = |r: Result<Coo, Error>| r.unwrap_err().code();
    assert_eq!(code(coo(&[2, 2], &[0, 1, 1], v)), "sparse/counts");
    assert_eq!(code(coo(&[], &[0], v)), "sparse/counts");
    assert_eq!(code(coo(&[2, 2], &[0, 1, 2, 1], v)), "sparse/index-bounds");
    assert_eq!(code(coo(&[2, 0], &[0, 1, 0, 0], v)), "sparse/index-bounds");
    let e = coo(&[2, 2], &[0, 1, 7, 1], v).unwrap_err();
    assert!(e.message().contains("coordinate 7 of entry 0 in dimension 1"), "{e}");
    assert_eq!(e.component(), Some("coords"));
}

#[test]
fn indices_may_be_any_integers() {
    let limits = Limits::default();
    macro_rules! check {
        ($($dtype:ident: $t:ty),*) => {$(
            let bytes = |all: &[$t]| {
                let bytes: Vec<u8> = all.iter().flat_map(|x| x.to_le_bytes()).collect();
                Decoded::new(DType::$dtype, bytes)
            };
            let m = Csr::new(&[2, 3], bytes(&[0, 1, 2]), bytes(&[2, 0]), f32s(&[1.0, 2.0]), &limits);
            let m = m.unwrap();
            assert_eq!((m.indptr(), m.indices()), (&[0u64, 1, 2][..], &[2u64, 0][..]));
        )*};
    }
    check!(U64: u64, U32: u32, U16: u16, U8: u8, I64: i64, I32: i32, I16: i16, I8: i8);
    let with = |coords: Decoded| Coo::new(&[2], coords, f32s(&[1.0]), &limits);
    let code = |coords| with(coords).unwrap_err().code();
    for (dtype, width) in [(DType::I64, 8), (DType::I32, 4), (DType::I16, 2), (DType::I8, 1)] {
        assert_eq!(code(Decoded::new(dtype, vec![255; width])), "sparse/negative-index");
    }
    assert_eq!(code(Decoded::new(DType::F32, vec![0; 4])), "sparse/index-dtype");
    assert_eq!(code(Decoded::new(DType::Bool, vec![0; 1])), "sparse/index-dtype");
    let typed =
        Decoded { logical_type: Some(LogicalType::F8E5M2), ..Decoded::new(DType::U8, vec![0]) };
    assert_eq!(code(typed), "sparse/index-dtype");
    assert_eq!(code(Decoded::new(DType::U64, vec![0; 7])), "layout/length");
    // Aligned u64 are borrowed, others are copied, under the limit.
    let room = le(&[0, 0, 1, 0]);
    let at = room.as_ptr().align_offset(8);
    let bytes = holdall_core::Bytes::from(room);
    let borrowed = with(Decoded::new(DType::U64, bytes.slice(at..at + 8))).unwrap();
    assert!(borrowed.indices().is_borrowed());
    let bytes = bytes.slice(at + 1..at + 9);
    let copied = with(Decoded::new(DType::U64, bytes.clone()));
    assert!(copied.is_ok_and(|c| !c.indices().is_borrowed()));
    let mut small = Limits::default();
    small.decoded_len = 7;
    let e = Coo::new(&[2], Decoded::new(DType::U64, bytes), f32s(&[1.0]), &small).unwrap_err();
    assert_eq!(e.code(), "layout/dense-limit");
}

#[test]
fn values_of_one_place_are_summed() {
    let limits = Limits::default();
    let twice = |values: Decoded| {
        let t = Coo::new(&[2], u64s(&[1, 1]), values, &limits).unwrap();
        t.to_dense(&limits)
    };
    macro_rules! check {
        ($($dtype:ident: $t:ty, $a:expr, $b:expr, $sum:expr;)*) => {$(
            let (a, b, sum): ($t, $t, $t) = ($a, $b, $sum);
            let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
            let d = twice(Decoded::new(DType::$dtype, bytes)).unwrap();
            assert_eq!(d.to_vec::<$t>().unwrap()[1], sum);
        )*};
    }
    check! {
        F64: f64, 1.5, 2.0, 3.5;
        F32: f32, 1.5, -1.5, 0.0;
        F16: f16, f16::from_f32(1.5), f16::from_f32(2.0), f16::from_f32(3.5);
        Bf16: half::bf16, half::bf16::from_f32(1.5), half::bf16::from_f32(2.0), half::bf16::from_f32(3.5);
        I64: i64, i64::MAX, 1, i64::MIN;
        I32: i32, -7, 5, -2;
        I16: i16, -7, 5, -2;
        I8: i8, 127, 1, -128;
        U64: u64, 7, 5, 12;
        U32: u32, 7, 5, 12;
        U16: u16, 7, 5, 12;
        U8: u8, 255, 2, 1;
    }
    let d = twice(Decoded::new(DType::Bool, vec![1, 1])).unwrap();
    assert_eq!(d.to_vec::<bool>().unwrap(), [false, true]);
    let parts: Vec<u8> = [1f32, 2.0, 10.0, 20.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let complex =
        Decoded { logical_type: Some(LogicalType::Complex64), ..Decoded::new(DType::F32, parts) };
    let d = twice(complex).unwrap();
    assert_eq!(d.to_vec::<[f32; 2]>().unwrap(), [[0.0; 2], [11.0, 22.0]]);
    let f8 = |bytes: Vec<u8>| Decoded {
        logical_type: Some(LogicalType::F8E4M3Fn),
        ..Decoded::new(DType::U8, bytes)
    };
    assert_eq!(twice(f8(vec![0x38, 0x38])).unwrap_err().code(), "sparse/sum");
    let once = Coo::new(&[2], u64s(&[1]), f8(vec![0x38]), &limits).unwrap();
    assert_eq!(once.to_dense(&limits).unwrap().to_f32().unwrap(), [0.0, 1.0]);
    let f4 =
        Decoded { logical_type: Some(LogicalType::F4E2M1), ..Decoded::new(DType::U8, vec![1]) };
    let e = Coo::new(&[2], u64s(&[0, 1]), f4, &limits).unwrap_err();
    assert_eq!(e.code(), "layout/element-size");
}

#[test]
fn a_dense_copy_is_bounded() {
    let mut limits = Limits::default();
    let vast = coo(&[1 << 40, 1 << 40], &[], &[]).unwrap();
    assert_eq!(vast.to_dense(&limits).unwrap_err().code(), "layout/dense-limit");
    let large = coo(&[1 << 40], &[], &[]).unwrap();
    assert_eq!(large.to_dense(&limits).unwrap_err().code(), "layout/dense-limit");
    limits.decoded_len = 15;
    let small = coo(&[4], &[], &[]).unwrap();
    assert_eq!(small.to_dense(&limits).unwrap_err().code(), "layout/dense-limit");
    limits.decoded_len = 16;
    assert_eq!(dense(&small.to_dense(&limits).unwrap()), [0.0; 4]);
}

/// The single component that zTensor 0.1 writes: row pointers, columns, values.
fn packed_csr(m: &Csr) -> Vec<u8> {
    [le(m.indptr()), le(m.indices()), m.values().bytes().to_vec()].concat()
}

/// The same for coordinates: those of each value precede it.
fn packed_coo(t: &Coo) -> Vec<u8> {
    t.entries()
        .flat_map(|e| [le(&e.coords().collect::<Vec<_>>()), e.value.to_vec()].concat())
        .collect()
}

#[test]
fn packed_components_must_have_their_size() {
    let limits = Limits::default();
    let f64s = |bytes: Vec<u8>| Decoded::new(DType::F64, bytes);
    let code = |r: Result<Csr, Error>| r.unwrap_err().code();
    let good = [le(&[0, 1, 1, 0]), 2.5f64.to_le_bytes().to_vec()].concat();
    let m = Csr::from_packed(&[2, 2], f64s(good.clone()), &limits).unwrap();
    assert_eq!((m.indptr(), m.indices()), (&[0u64, 1, 1][..], &[0u64][..]));
    assert_eq!(packed_csr(&m), good);
    for (len, wanted) in [(0, "packed"), (23, "packed"), (24, "indptr-end"), (39, "packed")] {
        let r = Csr::from_packed(&[2, 2], f64s(good[..len].to_vec()), &limits);
        assert_eq!(code(r), format!("sparse/{wanted}"));
    }
    for shape in [&[u64::MAX, 2][..], &[1 << 61, 2]] {
        assert_eq!(code(Csr::from_packed(shape, f64s(good.clone()), &limits)), "sparse/packed");
    }
    assert_eq!(code(Csr::from_packed(&[2], f64s(good.clone()), &limits)), "sparse/rank");
    let records = [le(&[1, 0]), 2.5f64.to_le_bytes().to_vec()].concat();
    let t = Coo::from_packed(&[2, 2], f64s(records.clone())).unwrap();
    assert_eq!((t.coords(0), t.coords(1)), (&[1u64][..], &[0u64][..]));
    assert_eq!(packed_coo(&t), records);
    let code = |r: Result<Coo, Error>| r.unwrap_err().code();
    assert_eq!(code(Coo::from_packed(&[2, 2], f64s(records[..23].to_vec()))), "sparse/packed");
    assert_eq!(code(Coo::from_packed(&[1, 1], f64s(records))), "sparse/index-bounds");
}

/// Places and small whole values in a matrix, in any order, with repeats.
fn any_matrix() -> impl Strategy<Value = (u64, u64, Vec<(u64, u64, i32)>)> {
    (1..6u64, 1..6u64).prop_flat_map(|(rows, columns)| {
        let entry = (0..rows, 0..columns, -4..4i32);
        (Just(rows), Just(columns), prop::collection::vec(entry, 0..12))
    })
}

proptest! {
    #[test]
    fn dense_copies_equal_the_sums((rows, columns, mut entries) in any_matrix()) {
        let limits = Limits::default();
        let mut wanted = vec![0i32; (rows * columns) as usize];
        for (r, c, v) in &entries {
            wanted[(r * columns + c) as usize] += v;
        }
        let values = |all: &[(u64, u64, i32)]| {
            let bytes: Vec<u8> = all.iter().flat_map(|e| e.2.to_le_bytes()).collect();
            Decoded::new(DType::I32, bytes)
        };
        let coords: Vec<u64> =
            entries.iter().map(|e| e.0).chain(entries.iter().map(|e| e.1)).collect();
        let t = Coo::new(&[rows, columns], u64s(&coords), values(&entries), &limits).unwrap();
        prop_assert_eq!(t.to_dense(&limits).unwrap().to_vec::<i32>().unwrap(), wanted.clone());
        let packed = Decoded::new(DType::I32, packed_coo(&t));
        prop_assert_eq!(&Coo::from_packed(&[rows, columns], packed).unwrap(), &t);

        entries.sort_by_key(|e| e.0);
        let indptr: Vec<u64> =
            (0..=rows).map(|r| entries.iter().filter(|e| e.0 < r).count() as u64).collect();
        let indices: Vec<u64> = entries.iter().map(|e| e.1).collect();
        let m =
            Csr::new(&[rows, columns], u64s(&indptr), u64s(&indices), values(&entries), &limits);
        let m = m.unwrap();
        prop_assert_eq!(m.to_dense(&limits).unwrap().to_vec::<i32>().unwrap(), wanted);
        let found: Vec<(u64, u64, i32)> = m
            .entries()
            .map(|e| (e.row, e.column, i32::from_le_bytes(e.value.try_into().unwrap())))
            .collect();
        prop_assert_eq!(found, entries);
        let packed = Decoded::new(DType::I32, packed_csr(&m));
        prop_assert_eq!(&Csr::from_packed(&[rows, columns], packed, &limits).unwrap(), &m);
    }

    #[test]
    fn any_bytes_are_survived(
        shape in prop::collection::vec(0..4u64, 0..4), bytes in prop::collection::vec(0..3u8, 0..64),
        cut in any::<prop::sample::Index>(), dtype in prop::sample::select(&DType::ALL[..]),
    ) {
        let limits = Limits::default();
        let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
        let part = |bytes: &[u8]| Decoded::new(dtype, bytes.to_vec());
        let all = [
            Csr::from_packed(&shape, part(&bytes), &limits).and_then(|m| m.to_dense(&limits)),
            Coo::from_packed(&shape, part(&bytes)).and_then(|m| m.to_dense(&limits)),
            Coo::new(&shape, part(a), part(b), &limits).and_then(|m| m.to_dense(&limits)),
            Csr::new(&shape, part(a), part(b), part(b), &limits).and_then(|m| m.to_dense(&limits)),
        ];
        for d in all.into_iter().flatten() {
            prop_assert_eq!(d.shape(), &shape[..]);
        }
    }
}
