//! Views of tensors in files.

use crate::make::{self, coo, csr, dense, f32s, file, part, tensor, u64s};
use holdall::layout::Computed as _;
use holdall::{DType, ErrorKind, Io, Layout, LogicalType, OpenOptions, Role, Value};

#[test]
fn dense_elements_and_rows() {
    let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
    for data in [
        part(Role::Data, DType::F32, f32s(&values)),
        part(Role::Data, DType::F32, f32s(&values)).zstd(),
    ] {
        let file = file("ztensor", &[dense("t", &[4, 3], data)]);
        let t = file.tensor("t").unwrap();
        assert_eq!(t.dense().unwrap().to_vec::<f32>().unwrap(), values);
        assert_eq!(t.to_dense().unwrap().shape(), [4, 3]);
        let rows = t.rows(1..3).unwrap();
        assert_eq!(rows.shape(), [2, 3]);
        assert_eq!(rows.to_f32().unwrap(), values[3..9]);
        assert_eq!(t.rows(4..4).unwrap().to_f32().unwrap(), [0f32; 0]);
        let e = t.rows(3..5).unwrap_err();
        assert_eq!((e.kind(), e.tensor()), (ErrorKind::Misuse, Some("t")));
        let e = t.csr().unwrap_err();
        assert_eq!(
            (e.kind(), e.tensor(), e.source_name()),
            (ErrorKind::Misuse, Some("t"), Some("made"))
        );
    }
    let data = part(Role::Data, DType::U8, [0x38]).logical(LogicalType::F8E4M3Fn);
    let file = file("ztensor", &[dense("one", &[], data)]);
    assert_eq!(file.tensor("one").unwrap().dense().unwrap().to_f32().unwrap(), [1.0]);
}

#[test]
fn sparse_with_their_zeros() {
    let made = [
        csr("csr", [3, 4], &[0, 2, 2, 3], &[0, 3, 1], &[1.0, 2.0, 3.0]),
        coo("coo", &[2, 3], &[0, 1, 1, 2], &[1.0, 2.0]),
    ];
    let file = file("ztensor", &made);
    let t = file.tensor("csr").unwrap();
    assert_eq!(t.csr().unwrap().count(), 3);
    let all = t.to_dense().unwrap().to_f32().unwrap();
    assert_eq!(all, [1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
    let t = file.tensor("coo").unwrap();
    assert_eq!(t.to_dense().unwrap().to_f32().unwrap(), [0.0, 1.0, 0.0, 0.0, 0.0, 2.0]);
    let e = t.dense().unwrap_err();
    assert_eq!((e.kind(), e.code()), (ErrorKind::Misuse, "file/wrong-layout"));
    assert!(e.hint().is_some_and(|h| h.contains("to_dense")));
}

#[test]
fn packed_layouts_of_0_1_are_read() {
    let file = holdall::open(
        make::corpus().into_iter().find(|p| p.ends_with("v0.1-sparse_layouts.zt")).unwrap(),
    )
    .unwrap();
    let (csr, zstd) = (file.tensor("csr_f64").unwrap(), file.tensor("csr_f64_zstd").unwrap());
    assert_eq!(csr.to_dense().unwrap(), zstd.to_dense().unwrap());
    assert_eq!(csr.csr().unwrap(), zstd.csr().unwrap());
    let coo = file.tensor("coo_f64").unwrap();
    assert_eq!(coo.coo().unwrap().count(), 2);
    assert_eq!(coo.to_dense().unwrap().shape(), [3, 2]);
}

#[test]
fn indices_stated_in_the_manifest_of_0_1_are_read() {
    let path =
        make::corpus().into_iter().find(|p| p.ends_with("made-0.1-sparse_stated.zt")).unwrap();
    for io in [Io::Map, Io::Read] {
        let file = OpenOptions::new().with_io(io).open(&path).unwrap();
        let codes: Vec<_> = file.warnings().iter().map(|w| (w.code, w.count)).collect();
        assert_eq!(codes, [("ztensor/sparse-format", 1)]);
        let dense = [0.0, 0.0, 0.0, 1.5, -2.0, 0.0, 0.0, 0.0];
        for t in file.tensors().filter(|t| t.shape() == [2, 4]) {
            assert_eq!(t.to_dense().unwrap().to_f64().unwrap(), dense, "{}", t.name());
            let (data, all) = (file.index().data_range(), t.components());
            for c in all.filter(|c| !c.stored.is_stated()) {
                assert!(c.stored.start >= data.start && c.stored.end <= data.end);
            }
        }
        let csr = file.tensor("csr").unwrap();
        let view = csr.csr().unwrap();
        assert_eq!((view.indptr(), view.indices()), (&[0, 1, 2][..], &[3, 0][..]));
        // Attributes that only repeat the layout are removed, the user's are kept.
        assert_eq!(csr.attributes().to_json(), r#"{"note":"kept"}"#);
        let either = file.tensor("coo_either_way").unwrap().coo().unwrap();
        assert_eq!((either.coords(0), either.coords(1)), (&[0, 1][..], &[3, 2][..]));
        assert_eq!(file.tensor("empty").unwrap().csr().unwrap().count(), 0);
        // All at once, too.
        let loaded = file.load_all().unwrap();
        let indptr = loaded.get("csr_compressed").unwrap().bytes(&Role::Indptr).unwrap();
        assert_eq!(&indptr[..], u64s(&[0, 1, 2]));
    }
}

#[test]
fn quantized_stands_for_floats() {
    let made = tensor(
        "q",
        &[2, 4],
        Layout::QuantizedGroup,
        vec![
            part(Role::PackedWeight, DType::I32, [0x10, 0x32, 0x54, 0x76]),
            part(Role::Scales, DType::F32, f32s(&[1.0, 10.0])),
            part(Role::Zeros, DType::F32, f32s(&[0.0, 4.0])),
        ],
    )
    .attribute("bits", Value::Integer(4))
    .attribute("group_size", Value::Integer(4))
    .attribute("packing", Value::Text("8_per_i32".into()));
    let file = file("ztensor", &[made]);
    let t = file.tensor("q").unwrap();
    assert_eq!(t.quantized().unwrap().count(), 8);
    let expected = [0.0, 1.0, 2.0, 3.0, 0.0, 10.0, 20.0, 30.0];
    assert_eq!(t.to_dense().unwrap().to_f32().unwrap(), expected);
}

#[test]
fn unknown_layouts_are_raw_components() {
    let parts = vec![part(Role::from_name("anything"), DType::U64, u64s(&[7]))];
    let file = file("ztensor", &[tensor("t", &[3], Layout::from_name("other"), parts)]);
    let t = file.tensor("t").unwrap();
    let e = t.to_dense().unwrap_err();
    assert_eq!((e.kind(), e.code()), (ErrorKind::Unsupported, "file/unknown-layout"));
    assert_eq!(&t.bytes(&Role::from_name("anything")).unwrap()[..], u64s(&[7]));
}

#[test]
fn every_tensor_of_the_corpus_has_its_view() {
    for path in make::corpus() {
        for io in [Io::Map, Io::Read] {
            let file = OpenOptions::new().with_io(io).open(&path).unwrap();
            for t in file.tensors() {
                match t.to_dense() {
                    Ok(dense) => assert_eq!(dense.shape(), t.shape()),
                    Err(e) => assert!(make::is_odd(&e), "{e}"),
                }
            }
        }
    }
}
