//! Converts folders of `.npy` files, and single ones.

use holdall::{
    Convert, DType, ErrorKind, FloatType, LogicalType, OpenOptions, Role, WriteOptions, convert,
    npy,
};
use std::path::Path;

fn write(path: &Path, dtype: DType, logical: Option<&LogicalType>, shape: &[u64], bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut all = npy::header(dtype, logical, shape).unwrap();
    all.extend_from_slice(bytes);
    std::fs::write(path, all).unwrap();
}

#[test]
fn a_folder_of_arrays_is_converted_under_the_names_of_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    let floats: Vec<u8> =
        [1.0f32, -2.5, 0.1, 7.0, 8.0, 9.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    write(&folder.join("layers/0/w.npy"), DType::F32, None, &[2, 3], &floats);
    write(&folder.join("ids.NPY"), DType::I64, None, &[2], &[7; 16]);
    write(&folder.join("c.npy"), DType::F32, Some(&LogicalType::Complex64), &[1], &[1; 8]);
    write(&folder.join("scalar.npy"), DType::U8, None, &[], &[3]);
    write(&folder.join("none.npy"), DType::F64, None, &[0, 4], &[]);
    // Big-endian.
    let mut big = npy::header(DType::I32, None, &[2]).unwrap();
    let at = big.windows(3).position(|w| w == b"<i4").unwrap();
    big[at] = b'>';
    big.extend([0, 0, 0, 5, 0, 0, 1, 0]);
    std::fs::write(folder.join("big.npy"), big).unwrap();
    std::fs::write(folder.join("README.txt"), "not an array").unwrap();

    let file = OpenOptions::new().open(&folder).unwrap();
    let mut names: Vec<&str> = file.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["big", "c", "ids", "layers.0.w", "none", "scalar"]);
    let out = dir.path().join("out.zt");
    assert_eq!(convert(&file, &out, &Convert::new(WriteOptions::new())).unwrap().tensors, 6);
    let made = holdall::open(&out).unwrap();
    let bytes = |name: &str| made.tensor(name).unwrap().bytes(&Role::Data).unwrap();
    assert_eq!(bytes("layers.0.w"), floats);
    assert_eq!(made.tensor("layers.0.w").unwrap().shape(), [2, 3]);
    assert_eq!(bytes("big"), [5, 0, 0, 0, 0, 1, 0, 0][..]);
    assert_eq!(made.tensor("c").unwrap().logical_type(), Some(LogicalType::Complex64));
    assert!(made.tensor("scalar").unwrap().shape().is_empty());
    assert!(holdall::verify(&made, &Default::default()).unwrap().is_sound());

    // One file, and with another type.
    let one = OpenOptions::new().open(folder.join("layers/0/w.npy")).unwrap();
    let options = Convert::new(WriteOptions::new().with_overwrite(true)).with_dtype(FloatType::F16);
    assert_eq!(convert(&one, &out, &options).unwrap().cast, 1);
    assert_eq!(holdall::open(&out).unwrap().tensor("data").unwrap().dtype(), Some(DType::F16));
}

#[test]
fn folders_that_cannot_be_opened_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |name: &str| OpenOptions::new().open(dir.path().join(name)).unwrap_err();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    assert_eq!(fails("empty").code(), "shards/no-model");
    assert_eq!(fails("gone.npy").kind(), ErrorKind::Io);
    std::fs::write(dir.path().join("text.npy"), "hello, world").unwrap();
    assert_eq!(fails("text.npy").code(), "format/unknown");
    std::fs::write(dir.path().join("nothing.npy"), "").unwrap();
    assert_eq!(fails("nothing.npy").kind(), ErrorKind::Malformed);
    let whole = npy::header(DType::F32, None, &[2, 2]).unwrap();
    std::fs::write(dir.path().join("short.npy"), [&whole[..], &[0; 15]].concat()).unwrap();
    let e = fails("short.npy");
    assert_eq!(e.kind(), ErrorKind::Malformed, "{e}");
    let fortran = String::from_utf8_lossy(&whole).replace("False, ", "True,  ");
    let mut fortran: Vec<u8> =
        fortran.chars().map(|c| if c == '\u{fffd}' { 0x93 } else { c as u8 }).collect();
    fortran.extend([0; 15]);
    std::fs::write(dir.path().join("fortran.npy"), fortran).unwrap();
    assert_eq!(fails("fortran.npy").code(), "index/size");
    // A dot and a folder may give the same name.
    let twice = dir.path().join("twice");
    write(&twice.join("a.b.npy"), DType::U8, None, &[1], &[1]);
    write(&twice.join("a/b.npy"), DType::U8, None, &[1], &[1]);
    assert_eq!(fails("twice").kind(), ErrorKind::Malformed);
}

/// Bytes after an array in a folder are treated like those in a single file: more arrays, or ignored with a
/// warning.
#[test]
fn bytes_after_an_array_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let one = [&npy::header(DType::U8, None, &[2]).unwrap()[..], &[1, 2]].concat();
    std::fs::create_dir(dir.path().join("layers")).unwrap();
    std::fs::write(dir.path().join("layers/w.npy"), [&one[..], b"more"].concat()).unwrap();
    std::fs::write(dir.path().join("two.npy"), [&one[..], &one, b"more than that"].concat())
        .unwrap();
    let file = OpenOptions::new().open(dir.path()).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["layers.w", "two", "two.1"]);
    for name in file.names() {
        assert_eq!(file.tensor(name).unwrap().bytes(&Role::Data).unwrap(), [1, 2][..], "{name}");
    }
    let [warned] = file.index().warnings() else { panic!() };
    assert_eq!((warned.code, warned.count), ("npy/passed-over", 2));
    assert_eq!(warned.tensor.as_deref(), Some("layers.w"));
    let alone = OpenOptions::new().open(dir.path().join("two.npy")).unwrap();
    assert_eq!(alone.names().collect::<Vec<_>>(), ["data", "data.1"]);
    // An array with missing bytes is refused.
    std::fs::write(dir.path().join("cut.npy"), &one[..one.len() - 1]).unwrap();
    let e = OpenOptions::new().open(dir.path()).unwrap_err();
    assert_eq!((e.code(), e.tensor()), ("index/size", Some("cut")));
}

/// An array in Fortran order as `numpy.save` writes it, in either byte order.
#[test]
fn columns_that_lie_together_are_read_row_by_row() {
    let dir = tempfile::tempdir().unwrap();
    for (descr, is_big) in [("<i2", false), (">i2", true)] {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': True, 'shape': (2, 3), }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend_from_slice(dict.as_bytes());
        bytes.resize(127, b' ');
        bytes.push(b'\n');
        // The columns are 1 4, 2 5 and 3 6.
        for x in [1i16, 4, 2, 5, 3, 6] {
            bytes.extend(if is_big { x.to_be_bytes() } else { x.to_le_bytes() });
        }
        let path = dir.path().join("x.npy");
        std::fs::write(&path, bytes).unwrap();
        let file = OpenOptions::new().open(&path).unwrap();
        let x = file.tensor("data").unwrap();
        assert_eq!((x.layout().as_str(), x.shape()), ("strided", &[2, 3][..]));
        assert_eq!(x.to_dense().unwrap().to_vec::<i16>().unwrap(), [1, 2, 3, 4, 5, 6]);
        let out = dir.path().join("out.safetensors");
        let options = holdall::Convert::new(holdall::WriteOptions::new().with_overwrite(true));
        holdall::convert(&file, &out, &options).unwrap();
        let x = holdall::open(&out).unwrap().tensor("data").unwrap();
        assert_eq!(x.dense().unwrap().to_vec::<i16>().unwrap(), [1, 2, 3, 4, 5, 6]);
    }
}
