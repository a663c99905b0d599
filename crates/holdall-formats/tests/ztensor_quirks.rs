//! Unusual but valid zTensor files are read, with a warning if there is something to
//! tell.

use crate::ztensor_files::*;
use holdall_core::{ByteOrder, Layout, LogicalType, Role, Value};

/// The codes of the warnings of a file that decodes.
fn warnings(bytes: &[u8]) -> Vec<&'static str> {
    decode(bytes).unwrap().warnings().iter().map(|w| w.code).collect()
}

#[test]
fn sound_files_are_read_without_a_warning() {
    for bytes in [
        of_object(&object()),
        of_object(&csr_u64()),
        file_1_0(&map(&root_1_0(&tensor_1_0()))),
        of_entry(&entry()),
    ] {
        assert_eq!(warnings(&bytes), [""; 0]);
    }
}

fn csr_u64() -> Pairs {
    let part = |dtype: &str, offset, len| {
        map(&[("dtype", text(dtype)), ("offset", uint(offset)), ("length", uint(len))])
    };
    let components = map(&[
        ("values", part("u8", 64, 0)),
        ("indices", part("u64", 64, 0)),
        ("indptr", part("u64", 64, 16)),
    ]);
    vec![
        ("components", components),
        ("format", text("sparse_csr")),
        ("shape", array(&[uint(1), uint(4)])),
    ]
}

#[test]
fn keys_come_in_any_order() {
    let mut object = object();
    object.reverse();
    let mut root = root(&object);
    root.reverse();
    root.insert(0, ("attributes", map(&[("k", text("v"))])));
    let index = decode(&of_root(&root)).unwrap();
    assert_eq!((index.version(), index.names().collect::<Vec<_>>()), ("1.2.0", vec!["w"]));
    assert_eq!(index.attributes().get("k"), Some(&Value::Text("v".into())));
    // The major version decides first, wherever it stands.
    root.pop();
    root.push(("version", text("3.0")));
    root.retain(|(k, _)| *k != "objects");
    root.insert(0, ("objects", uint(1)));
    assert_eq!(decode(&of_root(&root)).unwrap_err().code(), "ztensor/unsupported-version");
}

#[test]
fn versions_are_negotiated() {
    let version = |v: &str| of_root(&with(root(&object()), "version", text(v)));
    assert_eq!(warnings(&version("1.2")), [""; 0]);
    assert_eq!(warnings(&version("1.1.0")), [""; 0]);
    assert_eq!(warnings(&version("1.2.7-rc1")), [""; 0]);
    assert_eq!(warnings(&version("1.3.0")), ["ztensor/version"]);
    assert_eq!(warnings(&version("1.0.0")), ["ztensor/version"]);
    assert_eq!(decode(&version("1.3.0")).unwrap().version(), "1.3.0");
    let late_1_0 = with(root_1_0(&tensor_1_0()), "version", text("1.2.0"));
    assert_eq!(warnings(&file_1_0(&map(&late_1_0))), ["ztensor/version"]);
}

#[test]
fn unknown_fields_are_ignored_and_nulls_are_absent() {
    let null = || NULL.to_vec();
    let tagged = [&[0xd8, 0x40][..], &[0x5f, 0x41, 0x00, 0xff]].concat();
    let c = [component(), vec![("x", tagged.clone()), ("type", null()), ("encoding", null())]];
    let c = [c.concat(), vec![("digest", null()), ("uncompressed_length", null())]].concat();
    let object = with(object(), "components", map(&[("data", map(&c))]));
    let object = [object, vec![("attributes", null()), ("x", tagged.clone())]].concat();
    let root = [root(&object), vec![("attributes", null()), ("tensors", tagged)]].concat();
    assert_eq!(warnings(&of_root(&root)), [""; 0]);
    let entry = [entry(), vec![("checksum", null()), ("data_endianness", null())]].concat();
    let index = decode(&of_entry(&entry)).unwrap();
    assert!(index.at(0).unwrap().attributes().is_empty());
}

#[test]
fn containers_of_indefinite_length_are_read() {
    let mut object = vec![0xbf];
    for (key, value) in [
        ("shape", vec![0x9f, 0x04, 0x04, 0xff]),
        ("format", text("dense")),
        ("components", [&[0xbf][..], &text("data"), &map(&component()), &[0xff]].concat()),
    ] {
        object.extend(text(key));
        object.extend(value);
    }
    object.push(0xff);
    let root = vec![("version", text("1.2.0")), ("objects", map(&[("w", object)]))];
    assert_eq!(decode(&of_root(&root)).unwrap().at(0).unwrap().shape(), [4, 4]);
}

#[test]
fn layouts_and_types_without_a_meaning_here_are_kept() {
    let with_format = |name: &str| of_object(&with(object(), "format", text(name)));
    let of_others = ["strided", "sparse_blocks", "sparse_hybrid"];
    for name in ["ragged", "sparsecsr", "sparsecoo", ""].into_iter().chain(of_others) {
        let index = decode(&with_format(name)).unwrap();
        assert_eq!(index.at(0).unwrap().layout(), &Layout::Other(name.into()));
    }
    let typed = |name: &str| of_component(&with(component(), "type", text(name)));
    assert_eq!(warnings(&typed("f8_e4m3fn")), [""; 0]);
    assert_eq!(warnings(&typed("int4")), ["index/logical-type"]);
    let index = decode(&typed("int4")).unwrap();
    let logical = index.at(0).unwrap().logical_type();
    assert_eq!(logical, Some(LogicalType::Other("int4".into())));
}

#[test]
fn odd_components_are_read_with_a_warning() {
    let set = |key, value| of_component(&with(component(), key, value));
    assert_eq!(warnings(&set("offset", uint(65))), ["ztensor/alignment"]);
    assert_eq!(warnings(&set("digest", text("md5:00"))), ["ztensor/unknown-digest"]);
    assert_eq!(warnings(&set("digest", text("crc32c:0123abcd"))), [""; 0]);
    let zstd = with(component(), "encoding", text("zstd"));
    assert_eq!(warnings(&of_component(&zstd)), ["ztensor/uncompressed-length"]);
    let data = decode(&of_component(&zstd)).unwrap().at(0).unwrap().component(&Role::Data).unwrap();
    assert_eq!(data.decoded_len, Some(16));
    // 1.1 has no such field.
    let object = with(object(), "components", map(&[("data", map(&zstd))]));
    let root = with(root(&object), "version", text("1.1.0"));
    assert_eq!(warnings(&of_root(&root)), [""; 0]);
    for dtype in ["i32", "u32"] {
        let index = decode(&of_object(&csr(dtype))).unwrap();
        let found: Vec<_> = index.warnings().iter().map(|w| (w.code, w.count)).collect();
        assert!(found.contains(&("ztensor/index-dtype", 2)), "{found:?}");
    }
}

#[test]
fn empty_components_share_an_offset_and_equal_ranges_are_sharing() {
    let dense = |offset, len: u64| {
        let c = with(with(component(), "offset", uint(offset)), "length", uint(len));
        let object = with(object(), "shape", array(&[uint(len)]));
        map(&with(object, "components", map(&[("data", map(&c))])))
    };
    let objects = map(&[
        ("a", dense(64, 16)),
        ("b", dense(64, 16)),
        ("c", dense(128, 0)),
        ("d", dense(128, 0)),
        ("e\0\u{1b}", dense(64, 0)),
    ]);
    let index = decode(&of_root(&with(root(&[]), "objects", objects))).unwrap();
    assert_eq!((index.len(), index.warnings()), (5, &[][..]));
    assert!(index.get("e\0\u{1b}").is_some());
}

// 0.1's own.

#[test]
fn version_0_1_byte_order() {
    let big = with(entry(), "data_endianness", text("big"));
    let order = |bytes: &[u8]| {
        let index = decode(bytes).unwrap();
        index.at(0).unwrap().component(&Role::Data).unwrap().byte_order
    };
    assert_eq!(order(&of_entry(&entry())), ByteOrder::Little);
    assert_eq!(order(&of_entry(&big)), ByteOrder::Big);
    let zstd = of_entry(&with(big, "encoding", text("zstd")));
    assert_eq!(order(&zstd), ByteOrder::Little);
    assert_eq!(warnings(&zstd), ["ztensor/byte-order"]);
}

#[test]
fn version_0_1_sparse_in_both_spellings() {
    // 16 bytes: one record of a coordinate and a u64.
    let sparse = |fields: &[(&'static str, Vec<u8>)]| {
        let mut pairs = with(entry(), "dtype", text("uint64"));
        for (key, value) in fields {
            pairs = with(pairs, key, value.clone());
        }
        let index = decode(&of_entry(&pairs)).unwrap();
        let t = index.at(0).unwrap();
        let codes: Vec<_> = index.warnings().iter().map(|w| w.code).collect();
        let len = t.component(&Role::Data).unwrap().decoded_len;
        (t.layout().clone(), t.attributes().to_json(), len, codes)
    };
    let is = |layout, attributes: &str, len, codes: &[&'static str]| {
        (layout, attributes.to_owned(), len, codes.to_vec())
    };
    let document = ("layout", text("sparse"));
    let coo = ("sparse_format", text("coo"));
    let csr = ("sparse_format", text("csr"));
    let zstd = ("encoding", text("zstd"));
    let some = Some(16);

    assert_eq!(sparse(&[("layout", text("sparsecoo"))]), is(Layout::PackedCoo, "{}", some, &[]));
    // CSR: 9 pointers do not fit into 16 bytes.
    assert_eq!(
        sparse(&[("layout", text("sparsecsr"))]),
        is(Layout::PackedCsr, "{}", some, &["ztensor/packed-sparse"])
    );
    let one_row = ("shape", array(&[uint(1), uint(4)]));
    assert_eq!(
        sparse(&[("layout", text("sparsecsr")), one_row.clone()]),
        is(Layout::PackedCsr, "{}", some, &[])
    );
    // The document's form takes its own fields, if they are consistent.
    let nnz = |n| ("nnz", uint(n));
    assert_eq!(
        sparse(&[document.clone(), coo.clone(), nnz(1)]),
        is(Layout::PackedCoo, "{}", some, &[])
    );
    assert_eq!(
        sparse(&[document.clone(), csr.clone(), one_row, nnz(0)]),
        is(Layout::PackedCsr, "{}", some, &[])
    );
    assert_eq!(
        sparse(&[document.clone(), coo.clone(), nnz(2)]),
        is(Layout::PackedCoo, r#"{"nnz":2}"#, some, &["ztensor/packed-sparse"])
    );
    // Compressed: only `nnz` tells the decoded length.
    assert_eq!(
        sparse(&[document.clone(), coo.clone(), zstd.clone()]),
        is(Layout::PackedCoo, "{}", None, &[])
    );
    assert_eq!(
        sparse(&[document.clone(), coo, zstd, nnz(7)]),
        is(Layout::PackedCoo, "{}", Some(7 * 16), &[])
    );
    // A format that is not known stays as it is.
    assert_eq!(
        sparse(&[document.clone(), ("sparse_format", text("bsr"))]),
        is(
            Layout::Other("sparse".into()),
            r#"{"sparse_format":"bsr"}"#,
            some,
            &["ztensor/sparse-format"]
        )
    );
    assert_eq!(
        sparse(&[document]),
        is(Layout::Other("sparse".into()), "{}", some, &["ztensor/sparse-format"])
    );
    // On a dense tensor the fields are custom ones.
    let pairs = with(with(entry(), "nnz", uint(1)), "sparse_format", text("csr"));
    let index = decode(&of_entry(&pairs)).unwrap();
    let attributes = index.at(0).unwrap().attributes().to_json();
    assert_eq!(attributes, r#"{"nnz":1,"sparse_format":"csr"}"#);
}

#[test]
fn version_0_1_file_attributes_come_from_the_first_tensor_only() {
    let kept = map(&[("a", uint(1))]);
    let first = with(entry(), "holdall.file_attributes", kept.clone());
    let second = with(with(first.clone(), "name", text("x")), "offset", uint(80));
    let index = decode(&file_0_1(&array(&[map(&first), map(&second)]))).unwrap();
    assert_eq!(index.attributes().to_json(), r#"{"a":1}"#);
    assert!(index.get("w").unwrap().attributes().is_empty());
    assert_eq!(index.get("x").unwrap().attributes().len(), 1);
    // What the encoder never writes is an ordinary field.
    let other = with(entry(), "holdall.file_attributes", uint(1));
    let index = decode(&of_entry(&other)).unwrap();
    assert!(index.attributes().is_empty());
    assert_eq!(index.at(0).unwrap().attributes().len(), 1);
}

#[test]
fn version_1_0_gives_the_dtype_of_the_tensor_to_its_components() {
    let part = |offset, len| map(&[("offset", uint(offset)), ("length", uint(len))]);
    let tensor = vec![
        ("dtype", text("float32")),
        ("shape", array(&[uint(1), uint(4)])),
        ("format", text("sparse_csr")),
        (
            "components",
            map(&[("values", part(64, 4)), ("indices", part(72, 8)), ("indptr", part(80, 16))]),
        ),
        // Not a field of 1.0.
        ("attributes", uint(1)),
    ];
    let index = decode(&file_1_0(&map(&root_1_0(&tensor)))).unwrap();
    let t = index.at(0).unwrap();
    let dtypes: Vec<String> = t.components().map(|c| format!("{} {}", c.role, c.dtype)).collect();
    assert_eq!(dtypes, ["values f32", "indices u64", "indptr u64"]);
    assert!(index.attributes().is_empty(), "`generator` is not kept");
}

#[test]
fn a_decoded_length_that_follows_from_the_shape_is_one_that_the_bytes_can_reach() {
    let big = array(&[uint(1 << 36)]);
    let part = [("offset", uint(64)), ("length", uint(16)), ("encoding", text("zstd"))];
    let tensor = with(tensor_1_0(), "components", map(&[("data", map(&part))]));
    let tensor = with(tensor, "shape", big.clone());
    let entry = with(with(entry(), "encoding", text("zstd")), "shape", big);
    for bytes in [file_1_0(&map(&root_1_0(&tensor))), of_entry(&entry)] {
        let e = decode(&bytes).unwrap_err();
        assert_eq!(
            (e.code(), e.tensor(), e.component()),
            ("index/expansion", Some("w"), Some("data"))
        );
        assert_eq!(e.range(), Some(64..80));
    }
}
