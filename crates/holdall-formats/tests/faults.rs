//! An error in one tensor does not hide the others: the file is read, and that tensor is listed with its fault.

use crate::ztensor_files::*;
use holdall_core::{Bytes, Error, Index, Limits, Role, Stop, TensorInfo, Window};

fn decode(bytes: &[u8]) -> Result<Index, Error> {
    match holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), &Limits::default())
    {
        Ok(index) => Ok(index),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole file lacks {range:?}"),
    }
}

/// A sound component of 16 bytes at that offset.
fn part(offset: u64) -> Pairs {
    vec![("dtype", text("u8")), ("offset", uint(offset)), ("length", uint(16))]
}

/// A 1.2 tensor of shape [16] whose `data` is this.
fn dense(data: &Pairs) -> Pairs {
    vec![
        ("shape", array(&[uint(16)])),
        ("format", text("dense")),
        ("components", map(&[("data", map(data))])),
    ]
}

/// A 1.2 file of `bad` at bytes 64..80, as far as it says so, and sound tensors before and after it.
fn beside(bad: &Pairs) -> Vec<u8> {
    let objects = map(&[
        ("after", map(&dense(&part(96)))),
        ("bad", map(bad)),
        ("before", map(&dense(&part(80)))),
    ]);
    of_root(&[("version", text("1.2.0")), ("objects", objects)])
}

/// Checks an index of `after`, `bad` and `before`, of which only `bad` has a fault.
#[track_caller]
fn check(index: &Index, code: &str) -> TensorInfo {
    assert_eq!(index.names().collect::<Vec<_>>(), ["after", "bad", "before"]);
    for name in ["after", "before"] {
        let sound = index.get(name).unwrap();
        assert!(sound.fault().is_none(), "{name}");
        assert_eq!(sound.component(&Role::Data).unwrap().stored_len(), 16, "{name}");
    }
    let bad = index.get("bad").unwrap();
    let fault = bad.fault().expect("it cannot be read");
    assert_eq!((fault.code(), fault.tensor()), (code, Some("bad")), "{fault}");
    assert_eq!(bad.components().len(), 0);
    assert_eq!(bad.sound().unwrap_err().to_string(), fault.to_string());
    assert_eq!(index.faults().map(|e| e.code()).collect::<Vec<_>>(), [code]);
    assert_eq!(index.clone().sound().unwrap_err().to_string(), fault.to_string());
    bad
}

#[test]
fn a_broken_tensor_does_not_hide_the_others() {
    let data = || part(64);
    let zstd = |len| with(with(data(), "encoding", text("zstd")), "uncompressed_length", uint(len));
    let cases: Vec<(&str, Pairs)> = vec![
        ("ztensor/unknown-dtype", dense(&with(data(), "dtype", text("f128")))),
        ("ztensor/unknown-encoding", dense(&with(data(), "encoding", text("lz4")))),
        ("ztensor/digest", dense(&with(data(), "digest", text("crc32c:0xzz")))),
        ("ztensor/uncompressed-length", dense(&with(data(), "uncompressed_length", uint(15)))),
        ("ztensor/missing-field", dense(&without(data(), "dtype"))),
        ("ztensor/missing-field", dense(&without(data(), "offset"))),
        ("ztensor/missing-field", dense(&without(data(), "length"))),
        ("ztensor/missing-field", without(dense(&data()), "shape")),
        ("ztensor/missing-field", without(dense(&data()), "format")),
        ("ztensor/missing-field", without(dense(&data()), "components")),
        ("index/size", with(dense(&data()), "shape", array(&[uint(17)]))),
        ("index/shape-overflow", with(dense(&data()), "shape", array(&[uint(u64::MAX), uint(2)]))),
        ("index/missing-component", with(dense(&data()), "format", text("sparse_coo"))),
        ("index/expansion", dense(&zstd(1 << 40))),
        ("index/element-width", {
            let other = with(dense(&with(data(), "dtype", text("u64"))), "format", text("other"));
            with(
                other,
                "components",
                map(&[("x", map(&with(with(data(), "dtype", text("u64")), "length", uint(15))))]),
            )
        }),
        ("ztensor/index-dtype", csr("f32")),
    ];
    for (code, bad) in cases {
        let index = decode(&beside(&bad)).unwrap_or_else(|e| panic!("{code}: {e}"));
        check(&index, code);
    }
}

#[test]
fn known_properties_of_a_broken_tensor_are_kept() {
    let bad = with(
        dense(&with(part(64), "dtype", text("f128"))),
        "attributes",
        map(&[("note", text("x"))]),
    );
    let index = decode(&beside(&bad)).unwrap();
    let bad = check(&index, "ztensor/unknown-dtype");
    assert_eq!(bad.shape(), [16]);
    assert_eq!(bad.attributes().get("note").and_then(|v| v.as_text()), Some("x"));
    let fault = bad.fault().unwrap();
    assert_eq!(fault.component(), Some("data"));
    assert!(fault.range().is_some(), "it says where in the manifest");
    // Nothing else may lie there.
    let claimed: Vec<(u64, u64)> = index.claimed().iter().map(|e| (e.start, e.end)).collect();
    assert_eq!(claimed, [(64, 80)]);
}

#[test]
fn the_table_itself_is_not_forgiven() {
    let unknown = |offset: u64, len: u64| {
        let data = with(part(offset), "dtype", text("f128"));
        dense(&with(data, "length", uint(len)))
    };
    let refused = |bad: Pairs| decode(&beside(&bad)).expect_err("it is refused").code();
    // Bytes of the manifest; sums that wrap.
    assert_eq!(refused(unknown(64, 4096)), "index/bounds");
    assert_eq!(refused(unknown(u64::MAX, 16)), "index/bounds");
    assert_eq!(refused(with(dense(&part(64)), "shape", text("x"))), "cbor/kind");
    // Another tensor's bytes, in part: that one cannot be read either, whatever else is wrong with this one.
    for bad in [unknown(72, 16), dense(&with(part(72), "length", uint(17)))] {
        let index = decode(&beside(&bad)).unwrap();
        assert_eq!(index.faults().filter(|e| e.code() == "index/overlap").count(), 1);
        assert_eq!(index.faults().len(), 2);
    }
}

#[test]
fn generations_before_1_1_are_judged_the_same_way() {
    let of_1_0 = |bad: Pairs| {
        let at = |offset| {
            let data = map(&[("offset", uint(offset)), ("length", uint(16))]);
            with(tensor_1_0(), "components", map(&[("data", data)]))
        };
        let tensors = map(&[("after", map(&at(96))), ("bad", map(&bad)), ("before", map(&at(80)))]);
        file_1_0(&map(&with(root_1_0(&[]), "tensors", tensors)))
    };
    let index = decode(&of_1_0(with(tensor_1_0(), "dtype", text("f128")))).unwrap();
    check(&index, "ztensor/unknown-dtype");
    let index = decode(&of_1_0(without(tensor_1_0(), "dtype"))).unwrap();
    check(&index, "ztensor/missing-field");

    let of_0_1 = |bad: Pairs| {
        let sound =
            |name, offset| map(&with(with(entry(), "name", text(name)), "offset", uint(offset)));
        let bad = map(&with(bad, "name", text("bad")));
        file_0_1(&array(&[sound("after", 96), bad, sound("before", 80)]))
    };
    for (code, bad) in [
        ("ztensor/unknown-dtype", with(entry(), "dtype", text("f128"))),
        ("ztensor/unknown-encoding", with(entry(), "encoding", text("lz4"))),
        ("ztensor/unknown-byte-order", with(entry(), "data_endianness", text("middle"))),
        ("ztensor/missing-field", without(entry(), "size")),
        ("ztensor/digest", with(entry(), "checksum", text("crc32c:0xzz"))),
        ("index/size", with(entry(), "shape", array(&[uint(9)]))),
    ] {
        let index = decode(&of_0_1(bad)).unwrap_or_else(|e| panic!("{code}: {e}"));
        check(&index, code);
    }
}

/// A safetensors file of this header and 16 bytes of data.
fn safetensors(header: &str) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header.as_bytes());
    out.resize(out.len() + 16, 7);
    out
}

#[test]
fn safetensors_are_judged_the_same_way() {
    let entry = |dtype: &str, shape: &str, at: &str| {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":{at}}}"#)
    };
    for (code, bad) in [
        ("safetensors/dtype", entry("F128", "[4]", "[4,8]")),
        ("index/size", entry("F32", "[2]", "[4,8]")),
        ("index/shape-overflow", entry("F32", "[4294967296,4294967296]", "[4,8]")),
    ] {
        let (first, last) = (entry("U8", "[4]", "[0,4]"), entry("U8", "[8]", "[8,16]"));
        for header in [
            format!(r#"{{"a":{first},"bad":{bad},"z":{last}}}"#),
            // Out of order, which is noticed after the fault.
            format!(r#"{{"bad":{bad},"z":{last},"a":{first}}}"#),
        ] {
            let index = decode(&safetensors(&header)).unwrap_or_else(|e| panic!("{header}: {e}"));
            assert_eq!(index.faults().map(|e| e.code()).collect::<Vec<_>>(), [code], "{header}");
            assert!(index.get("a").unwrap().fault().is_none());
            assert_eq!(index.get("z").unwrap().component(&Role::Data).unwrap().stored_len(), 8);
        }
        // Its bytes count as claimed; other bytes belong to no tensor.
        let header = format!(r#"{{"a":{first},"bad":{}}}"#, bad.replace("[4,8]", "[4,12]"));
        let e = decode(&safetensors(&header)).unwrap_err();
        assert_eq!(e.code(), "safetensors/trailing-data", "{header}");
    }
}

#[test]
fn faults_take_little_memory_however_many_there_are() {
    let mut w = holdall_core::wire::cbor::Writer::new();
    let count = 3000;
    w.map(2);
    w.text("version");
    w.text("1.2.0");
    w.text("objects");
    w.map(count);
    for at in 0..count {
        w.text(&format!("t{at:05}"));
        w.raw(&map(&dense(&with(part(64), "dtype", text("f128")))));
    }
    let index = decode(&file_1_2(&w.into_bytes())).unwrap();
    assert_eq!(index.faults().len(), count);
    let all: Vec<Error> = index.faults().collect();
    assert!(all.iter().all(|e| e.code() == "ztensor/unknown-dtype"));
    // The first are reported in full, the others by their rule and their name.
    assert!(all[0].message().contains("f128"), "{}", all[0]);
    assert_eq!(all[2999].tensor(), Some("t02999"));
    assert!(!all[2999].message().contains("f128"), "{}", all[2999]);
}
