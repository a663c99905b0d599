//! zTensor 2: files of the published package are read unchanged, and written files equal those of the
//! package.

use crate::described::{self, code, dtype, hex, open};
use crate::ztensor2_files::{
    array, blob, data_shard, map, object, of_object, of_part, part, rejects, sharded, text, uint,
    with,
};
use holdall::{
    Algorithm, Attributes, ComponentSpec, Convert, DType, Edit, EncodeOptions, Encoding, Error,
    Faults, File, Layout, LogicalType, OpenOptions, Role, Sharing, TensorSpec, Value,
    VerifyOptions, Work, WriteOptions, Writer, convert, formats, verify,
};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Every part of every file that ztensor 2.1.2 wrote has its bytes, under its digests; parts that zTensor 1.2
/// supports are equal there.
#[test]
fn files_of_ztensor_have_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let files = described::files("ztensor2");
    for (path, wanted) in &files {
        let file = holdall::open(path).unwrap();
        assert_eq!((file.format(), file.version()), ("ztensor2", "2"));
        assert_eq!(file.len(), wanted.len(), "{}", path.display());
        let report = verify(&file, &Default::default()).unwrap();
        assert!(report.is_sound(), "{}: {:?}", path.display(), report.findings);
        let checked: u64 = report.digests.iter().map(|(_, count)| count).sum();
        assert_eq!(checked, report.components, "{}", path.display());
        let target = dir.path().join("out.zt");
        convert(&file, &target, &Convert::new(WriteOptions::new().with_overwrite(true))).unwrap();
        let converted = holdall::open(&target).unwrap();
        for wanted in wanted {
            let name = wanted["name"].as_str().unwrap();
            let tensor = file.tensor(name).unwrap();
            let is_group = *tensor.layout() == Layout::QuantizedGroup;
            match wanted["layout"].as_str().unwrap() {
                "zt.quant_group/1" | "zt.mx/1" if is_group => {}
                layout => assert_eq!(tensor.layout().as_str(), layout, "{name}"),
            }
            assert_eq!(serde_json::json!(tensor.shape()), wanted["shape"], "{name}");
            for (role, of) in wanted["components"].as_object().unwrap() {
                let role = match role.as_str() {
                    "data" if is_group => Role::PackedWeight,
                    role => Role::from_name(role),
                };
                let place = format!("{} {name} {role}", path.display());
                let c = tensor.component(&role).unwrap();
                assert_eq!(dtype(&c), of["dtype"], "{place}");
                // Indices have 64 bits in zTensor 1.2.
                let is_widened = matches!(c.dtype, holdall::DType::U32)
                    && matches!(role, Role::Indices | Role::Indptr | Role::Coords);
                let both = [&tensor, &converted.tensor(name).unwrap()];
                for tensor in &both[..if is_widened { 1 } else { 2 }] {
                    assert_eq!(hex(&tensor.bytes(&role).unwrap()), of["sha256"], "{place}");
                    let pieces = tensor.pieces(&role).unwrap();
                    let pieces: Vec<_> = pieces.map(|piece| piece.unwrap()).collect();
                    assert_eq!(hex(&pieces.concat()), of["sha256"], "{place}");
                }
            }
        }
        assert!(file.load_all().is_ok(), "{}", path.display());
    }
    assert_eq!(files.len(), 6);
}

#[test]
fn every_reject_fails_with_its_code() {
    described::all_fail(rejects());
    assert_eq!(code(of_part(&part())), "");
}

#[test]
fn unknown_fields_are_kept() {
    let attributes =
        map(&[("n", uint(300)), ("x", vec![0xf9, 0x3c, 0]), ("l", array(&[text("a")]))]);
    let fields = with(with(object(&part()), "layout", text("my.own/1")), "later", uint(1));
    let file = open(of_object(&fields, vec![("attributes", attributes)])).unwrap();
    assert_eq!(file.attributes().get("n"), Some(&Value::Integer(300)));
    assert_eq!(file.attributes().get("x"), Some(&Value::Float(1.0)));
    assert_eq!(file.tensor("w").unwrap().layout().as_str(), "my.own/1");
    assert!(file.index().unrepresented().join(" ").contains("`later`"));
    let typed = with(with(part(), "dtype", text("u8")), "type", text("my.type"));
    let fields = with(object(&typed), "shape", array(&[uint(16)]));
    let file = open(of_object(&fields, Vec::new())).unwrap();
    assert_eq!(file.warnings().first().map(|w| w.code), Some("index/logical-type"));
}

fn writing() -> WriteOptions {
    WriteOptions::new().with_format(formats::by_name("ztensor2").unwrap()).with_overwrite(true)
}

#[track_caller]
fn written(source: &File, path: &Path, options: &Convert) -> File {
    convert(source, path, options).unwrap();
    let file = holdall::open(path).unwrap();
    let report = verify(&file, &Default::default()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    file
}

/// At the alignment of the canonical form, raw, with equal parts shared: byte for byte the package's output.
#[test]
fn the_canonical_form_is_the_packages_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = described::folder("ztensor2").join("ztensor-2.1.2_canonical.zt");
    let target = dir.path().join("out.zt");
    // Through another format, which has another order and no sharing.
    let other = dir.path().join("other.safetensors");
    let source = holdall::open(&path).unwrap();
    convert(&source, &other, &Convert::new(WriteOptions::new()).with_sharing(Sharing::Copy))
        .unwrap();
    let canonical = writing().with_encode(EncodeOptions::new().with_align(65536));
    let options = Convert::new(canonical).with_sharing(Sharing::Dedupe);
    for source in [source, holdall::open(other).unwrap()] {
        let _ = written(&source, &target, &options);
        assert!(std::fs::read(&target).unwrap() == std::fs::read(&path).unwrap());
    }
}

/// Compressed parts are frames with a seek table, with digests of their decoded bytes; parts that are already
/// compressed are copied.
#[test]
fn compressed_parts_are_seekable() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let long: Vec<u8> = (0..(9u32 << 18)).flat_map(|i| (i / 7).to_le_bytes()).collect();
    let mut writer = Writer::create(place("old.zt"), &WriteOptions::new().with_zstd(1)).unwrap();
    writer.add(TensorSpec::dense("long", DType::U32, [9u64 << 18]), &[&long]).unwrap();
    writer.add(TensorSpec::dense("none", DType::F32, [0u64]), &[&[]]).unwrap();
    writer.add(TensorSpec::dense("small", DType::U8, [4u64]), &[&[1, 2, 3, 4]]).unwrap();
    writer.finish().unwrap();
    let old = holdall::open(place("old.zt")).unwrap();
    let plain = Convert::new(writing());
    let zstd = Convert::new(writing().with_zstd(3)).reencode();
    for options in [plain, zstd] {
        let file = written(&old, &place("new.zt"), &options);
        for tensor in file.tensors() {
            let c = tensor.component(&Role::Data).unwrap();
            if c.encoding == Encoding::Raw && tensor.name() == "none" {
                continue;
            }
            assert_eq!(c.encoding, Encoding::ZSTD, "{}", tensor.name());
            assert_eq!(c.digest.as_ref().unwrap().algorithm(), Some(Algorithm::Xxh3));
            let stored = tensor.file().index().source_len();
            assert!(c.stored.end < stored && c.stored.start % 4096 == 0);
            let bytes = std::fs::read(place("new.zt")).unwrap();
            let stored = &bytes[c.stored.start as usize..c.stored.end as usize];
            assert!(stored.ends_with(&[0, 0xb1, 0xea, 0x92, 0x8f]), "{}", tensor.name());
        }
        assert_eq!(*file.tensor("long").unwrap().bytes(&Role::Data).unwrap(), long[..]);
        // And back, unchanged.
        convert(&file, place("back.zt"), &Convert::new(WriteOptions::new().with_overwrite(true)))
            .unwrap();
        let back = holdall::open(place("back.zt")).unwrap();
        let c = back.tensor("long").unwrap().component(&Role::Data).unwrap();
        assert_eq!(c.encoding, Encoding::ZSTD);
        assert_eq!(*back.tensor("long").unwrap().bytes(&Role::Data).unwrap(), long[..]);
    }
    // SHA-256 is of the decoded bytes, too: it is checked for raw parts.
    let sha = Convert::new(writing().with_digest(Some(Algorithm::Sha256))).reencode();
    let file = written(&old, &place("sha.zt"), &sha);
    let found = file.tensor("long").unwrap().component(&Role::Data).unwrap();
    assert_eq!(found.digest.unwrap().to_string(), format!("sha256:{}", hex(&long)));
}

/// Groups and MX blocks have the elements of their profile's formula, which the file contains next to each;
/// rewritten, they equal the package's output, byte for byte, also through zTensor 1.2.
#[test]
fn groups_have_their_elements() {
    let dir = tempfile::tempdir().unwrap();
    let path = described::folder("ztensor2").join("ztensor-2.1.2_groups.zt");
    let source = holdall::open(&path).unwrap();
    assert!(source.warnings().is_empty(), "{:?}", source.warnings());
    let old = dir.path().join("old.zt");
    convert(&source, &old, &Convert::new(WriteOptions::new())).unwrap();
    let old = holdall::open(old).unwrap();
    let mut count = 0;
    for file in [&source, &old] {
        for tensor in file.tensors().filter(|t| *t.layout() == Layout::QuantizedGroup) {
            let elements = file.tensor(&format!("{}.elements", tensor.name())).unwrap();
            let dense = tensor.to_dense().unwrap();
            assert_eq!((dense.dtype(), dense.shape()), (DType::F32, elements.shape()));
            let wanted = elements.bytes(&Role::Data).unwrap();
            assert_eq!(hex(dense.bytes()), hex(&wanted), "{}", tensor.name());
            let [of, same] = [&tensor, &elements].map(|t| holdall::stats(t, &Default::default()));
            assert_eq!(of.unwrap().zeros, same.unwrap().zeros, "{}", tensor.name());
            assert_eq!(tensor.attributes().get("note").is_some(), tensor.name().starts_with('g'));
            count += 1;
        }
    }
    assert_eq!(count, 2 * 13);
    let target = dir.path().join("new.zt");
    for file in [source, old] {
        let _ = written(&file, &target, &Convert::new(writing()).with_sharing(Sharing::Dedupe));
        assert!(std::fs::read(&target).unwrap() == std::fs::read(&path).unwrap());
    }
}

/// Tensors that no profile describes do not get a typed layout: the file opens, the tensor keeps its parts,
/// and a warning says why.
#[test]
fn odd_groups_are_kept_whole() {
    let file =
        holdall::open(described::folder("ztensor2").join("ztensor-2.1.2_layouts.zt")).unwrap();
    assert_eq!(file.tensor("qg").unwrap().layout().as_str(), "zt.quant_group/1");
    assert_eq!(*file.tensor("mx").unwrap().layout(), Layout::QuantizedGroup);
    let warning = file.warnings().iter().find(|w| w.code == "ztensor2/layout").unwrap();
    assert_eq!(warning.tensor.as_deref(), Some("qg"));
    assert!(
        warning.message.contains("packing") || warning.message.contains("scale"),
        "{warning:?}"
    );
}

/// Groups of zTensor 1.2 that zTensor 2 cannot express are refused; others survive the round trip.
#[test]
fn groups_of_zt12_are_written_where_they_can_be() {
    let encoder = writing().encoder(formats::by_name("ztensor2").unwrap()).unwrap();
    let group = |attributes: &[(&str, Value)], words: u64, scales: u64| {
        let mut spec = TensorSpec::dense("w", DType::F32, [4u64, 16]);
        spec.layout = Layout::QuantizedGroup;
        spec.attributes.set("bits", Value::Integer(4));
        spec.attributes.set("group_size", Value::Integer(8));
        for (key, value) in attributes {
            spec.attributes.set(*key, value.clone());
        }
        spec.components = vec![
            ComponentSpec::new(Role::PackedWeight, DType::I32, words),
            ComponentSpec::new(Role::Scales, DType::F32, scales),
        ];
        encoder.check_tensor(&spec).map_err(|e| (e.code(), e.message().to_owned()))
    };
    let text = |text: &str| Value::Text(text.into());
    let refused = |of: Result<(), (&'static str, String)>| of.unwrap_err().0;
    assert_eq!(group(&[], 32, 32), Ok(()));
    assert_eq!(group(&[("group_size", Value::Integer(-1))], 32, 16), Ok(()));
    assert_eq!(group(&[("packing", text("8_per_i32_msb"))], 32, 32), Ok(()));
    let other = "ztensor2/other-layout";
    assert_eq!(refused(group(&[("order", text("awq"))], 32, 32)), other);
    assert_eq!(refused(group(&[("axis", Value::Integer(0))], 32, 32)), other);
    assert_eq!(refused(group(&[("zero_offset", Value::Integer(1))], 32, 32)), other);
    assert_eq!(refused(group(&[("bits", Value::Integer(3))], 24, 32)), other);
    assert_eq!(refused(group(&[("group_size", Value::Integer(3))], 32, 88)), other);
    assert_eq!(refused(group(&[("element_exponent", Value::Integer(-6))], 32, 32)), other);
    // Invalid groups, such as one without a number of bits.
    assert_eq!(refused(group(&[("bits", text("four"))], 32, 32)), other);
    assert_eq!(refused(group(&[], 28, 32)), other);
    assert_eq!(refused(group(&[], 32, 28)), other);
}

#[test]
fn narrow_indices_stay_narrow() {
    let dir = tempfile::tempdir().unwrap();
    let source =
        holdall::open(described::folder("ztensor2").join("ztensor-2.1.2_layouts.zt")).unwrap();
    let file = written(&source, &dir.path().join("out.zt"), &Convert::new(writing()));
    for tensor in source.tensors() {
        let new = file.tensor(tensor.name()).unwrap();
        assert_eq!((tensor.layout(), tensor.shape()), (new.layout(), new.shape()));
        assert_eq!(tensor.attributes(), new.attributes(), "{}", tensor.name());
        for c in tensor.components() {
            let found = new.component(&c.role).unwrap();
            assert_eq!((c.dtype, c.logical_type), (found.dtype, found.logical_type));
            assert_eq!(tensor.bytes(&c.role).unwrap(), new.bytes(&c.role).unwrap());
        }
    }
}

#[test]
fn unsupported_tensors_are_refused_with_a_remedy() {
    let encoder = writing().encoder(formats::by_name("ztensor2").unwrap()).unwrap();
    let w = || TensorSpec::dense("w", DType::F32, [2u64]);
    let with = |change: &dyn Fn(&mut TensorSpec)| {
        let mut spec = w();
        change(&mut spec);
        encoder.check_tensor(&spec)
    };
    let attribute = |value: Value| {
        let attributes = Attributes::from_iter([("k".to_owned(), value)]);
        encoder.check_attributes(&attributes)
    };
    let deep = |levels| (1..levels).fold(Value::Array(Vec::new()), |v, _| Value::Array(vec![v]));
    assert!(attribute(deep(30)).is_ok());
    let map = |key| Value::Map(vec![(key, Value::Null)]);
    let named = |name: &str| {
        let attributes = Attributes::from_iter([(name.to_owned(), Value::Null)]);
        encoder.check_attributes(&attributes)
    };
    let typed = |t: LogicalType| {
        move |spec: &mut TensorSpec| {
            spec.shape = vec![8];
            spec.components[0] = ComponentSpec::new(Role::Data, DType::U8, 6);
            spec.components[0].logical_type = Some(t.clone());
        }
    };
    let refused: Vec<(&str, Result<(), Error>)> = vec![
        ("ztensor2/attribute", attribute(deep(31))),
        ("ztensor2/attribute", attribute(Value::Tag(0, Box::new(Value::Text("x".into()))))),
        ("ztensor2/attribute", attribute(Value::Undefined)),
        ("ztensor2/attribute", attribute(Value::Simple(99))),
        ("ztensor2/attribute", attribute(Value::Float(f64::from_bits(0x7ff8_0000_0000_0001)))),
        ("ztensor2/attribute", attribute(map(Value::Array(Vec::new())))),
        ("ztensor2/attribute", attribute(Value::Integer(1 << 65))),
        ("ztensor2/attribute", named("")),
        ("ztensor2/attribute", named(&"x".repeat(1025))),
        ("ztensor2/attribute", with(&|spec| spec.attributes.set("k", deep(29)))),
        ("ztensor2/tensor-name", with(&|spec| spec.name = "a\0b".into())),
        ("ztensor2/tensor-name", with(&|spec| spec.name = String::new())),
        ("ztensor2/components", with(&|spec| spec.layout = Layout::QuantizedGroup)),
        ("ztensor2/other-layout", with(&|spec| spec.layout = Layout::Records)),
        ("ztensor2/other-layout", with(&|spec| spec.layout = Layout::Other("dense".into()))),
        ("ztensor2/logical-type", with(&typed(LogicalType::F6E2M3))),
        ("ztensor2/logical-type", with(&typed(LogicalType::Other("bool".into())))),
        ("ztensor2/logical-type", with(&typed(LogicalType::Other("complex64".into())))),
        ("ztensor2/components", with(&|spec| spec.shape = vec![3])),
        ("ztensor2/components", with(&|spec| spec.layout = Layout::SparseCsr)),
        ("ztensor2/components", with(&|spec| spec.components.clear())),
    ];
    for (at, (code, found)) in refused.into_iter().enumerate() {
        let e = found.expect_err(&format!("{at}: {code}"));
        assert_eq!(e.code(), code, "{at}: {e}");
        assert!(e.advice(|remedy| Some(remedy.to_string())).is_some(), "{at}: {e}");
    }
    let version = |format: &str, version: &str| {
        let encode = EncodeOptions::new().with_version(version);
        let format = formats::by_name(format).unwrap();
        writing().with_encode(encode).encoder(format).map(drop).unwrap_err()
    };
    let advice = version("ztensor", "2.0").advice(|remedy| Some(remedy.to_string()));
    assert!(advice.unwrap().contains("`ztensor2`"));
    assert_eq!(version("ztensor2", "1.2").code(), "format/unknown-version");
    let digest = writing().with_digest(Some(Algorithm::Crc32c));
    assert!(digest.encoder(formats::by_name("ztensor2").unwrap()).is_err());
}

/// Maps are in the order of deterministic CBOR, for any order of attributes; edits keep everything else.
#[test]
fn attributes_and_edits_are_deterministic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.zt");
    let value = Value::Map(vec![
        (Value::Text("bb".into()), Value::Float(f64::NAN)),
        (Value::Text("c".into()), Value::Bytes(vec![1])),
        (Value::Integer(-1), Value::Array(vec![Value::Bool(true), Value::Null])),
    ]);
    let mut attributes = Attributes::new();
    attributes.set("long name", value);
    attributes.set("n", Value::Integer((1 << 64) - 1));
    let mut writer = Writer::create(&path, &writing().with_attributes(attributes)).unwrap();
    for name in ["zz", "b", "long.name.of.a.tensor.in.more.than.23.bytes"] {
        writer.add(TensorSpec::dense(name, DType::F32, [1u64]), &[&[0, 0, 128, 63]]).unwrap();
    }
    writer.finish().unwrap();
    assert!(verify(&holdall::open(&path).unwrap(), &Default::default()).unwrap().is_sound());
    let mut edit = Edit::open(&path).unwrap();
    edit.rename("zz", "a").unwrap();
    edit.set_attribute("more", Value::Text("1".into()));
    edit.add(TensorSpec::dense("new", DType::U8, [2u64]), vec![vec![1u8, 2].into()]).unwrap();
    edit.commit().unwrap();
    let file = holdall::open(&path).unwrap();
    assert_eq!((file.format(), file.len()), ("ztensor2", 4));
    assert_eq!(file.attributes().get("n"), Some(&Value::Integer((1 << 64) - 1)));
    assert!(verify(&file, &Default::default()).unwrap().is_sound());
    assert_eq!(*file.tensor("a").unwrap().bytes(&Role::Data).unwrap(), [0, 0, 128, 63]);
}

/// A file opens as one with its shards, which are in its folder under its name; without them, their tensors
/// are faults.
#[test]
fn shards_are_read_with_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    std::fs::write(place("m.zt"), sharded()).unwrap();
    let strict = OpenOptions::new().with_faults(Faults::Refuse);
    let fault = |file: &File| file.tensor("far").unwrap().fault().map(|e| e.to_string());
    let alone = holdall::open(place("m.zt")).unwrap();
    assert!(fault(&alone).unwrap().contains("`00.a`"));
    assert_eq!(*alone.tensor("near").unwrap().bytes(&Role::Data).unwrap(), blob()[..]);
    assert_eq!(strict.open(place("m.zt")).unwrap_err().code(), "ztensor2/shard");
    std::fs::write(place("m-00.a.zt"), data_shard()).unwrap();
    for options in [OpenOptions::new(), strict] {
        let file = options.open(place("m.zt")).unwrap();
        assert_eq!(*file.tensor("far").unwrap().bytes(&Role::Data).unwrap(), blob()[..]);
        let report = verify(&file, &Default::default()).unwrap();
        assert!(report.is_sound(), "{:?}", report.findings);
        assert_eq!(report.digests, [(Algorithm::Xxh3, 2)]);
    }
    // As one file, it is like any other.
    let file = holdall::open(place("m.zt")).unwrap();
    let whole = written(&file, &place("one.zt"), &Convert::new(writing()));
    assert_eq!(*whole.tensor("far").unwrap().bytes(&Role::Data).unwrap(), blob()[..]);
    // A byte of the shard changed, the shard cut, the shard alone.
    let mut bytes = data_shard();
    bytes[4100] ^= 1;
    std::fs::write(place("m-00.a.zt"), &bytes).unwrap();
    let file = holdall::open(place("m.zt")).unwrap();
    assert!(!verify(&file, &Default::default()).unwrap().is_sound());
    std::fs::write(place("m-00.a.zt"), &bytes[1..]).unwrap();
    let file = holdall::open(place("m.zt")).unwrap();
    assert!(fault(&file).unwrap().contains("the manifest gives 4152"));
    assert_eq!(code(data_shard()), "ztensor2/data-shard");
    // A link out of the folder is not followed.
    #[cfg(unix)]
    {
        let away = tempfile::tempdir().unwrap();
        std::fs::write(away.path().join("x"), data_shard()).unwrap();
        std::fs::remove_file(place("m-00.a.zt")).unwrap();
        std::os::unix::fs::symlink(away.path().join("x"), place("m-00.a.zt")).unwrap();
        assert_eq!(holdall::open(place("m.zt")).unwrap_err().code(), "ztensor2/shard-name");
    }
}

/// A digest of decoded bytes is compared with decoded bytes, even if they are few.
#[test]
fn compressed_parts_of_any_length_go_into_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("z.zt");
    let write = |format| {
        WriteOptions::new().with_format(formats::by_name(format).unwrap()).with_overwrite(true)
    };
    let mut writer = Writer::create(&path, &write("ztensor2").with_zstd(3)).unwrap();
    for len in [0u64, 1, 1000, 5 << 20] {
        let spec = TensorSpec::dense(format!("t{len}"), DType::U8, [len]);
        writer.add(spec, &[&vec![7; len as usize]]).unwrap();
    }
    writer.finish().unwrap();
    let file = holdall::open(&path).unwrap();
    let out = dir.path().join("out");
    for format in ["ztensor", "ztensor2", "safetensors"] {
        for keeps in [false, true] {
            let options = Convert::new(write(format));
            convert(&file, &out, &if keeps { options.reencode() } else { options }).unwrap();
            let found = holdall::diff(&file, &holdall::open(&out).unwrap(), &Default::default());
            assert!(found.unwrap().values_agree(), "{format}");
        }
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let stored = file.tensor("t1").unwrap().components().next().unwrap().stored;
    // The frame's only literal.
    let at = (stored.start..stored.end).find(|at| bytes[*at as usize] == 7).unwrap() as usize;
    bytes[at] = 8;
    std::fs::write(&path, bytes).unwrap();
    let e =
        convert(&holdall::open(&path).unwrap(), &out, &Convert::new(write("ztensor"))).unwrap_err();
    assert_eq!(e.tensor(), Some("t1"), "{e}");
}

/// The digests are those of the crate `ztensor` 2.1.1 for these files (`Manifest::content_digest`). They do
/// not depend on the division into files, and are reported only if every part is right.
#[test]
fn the_content_digest_is_the_packages_own() {
    let dir = tempfile::tempdir().unwrap();
    for (name, wanted) in [
        ("canonical", "5ef42db9188539fd8b3eaae172d511fc0de59597f24a1b1e12ab99391b1cd787"),
        ("dense", "4740a6d259c24341ffd94603462e5c5818eb26a412b3722ec8a3b7333b783297"),
        ("encoded", "6596436fea0e7936e90bacc90b68841de7a4f930cfd7e0c36acd1563925f37ec"),
        ("groups", "c32c4fc3d05898957e5aecbd1e7015ff28f7f33ac879bfa1120155dcf9bf9a59"),
        ("layouts", "8cd63537e6577db047bce8ecbc8fac7537a9e3e4d753e4eb85c199a69e1b52f1"),
        ("none", "cdbccfb030f9f9559ff19c0bd40bda2dc6cd34fb7546baba75837e2cd45b0733"),
    ] {
        let path = described::folder("ztensor2").join(format!("ztensor-2.1.2_{name}.zt"));
        let file = holdall::open(path).unwrap();
        let content = |file: &File| verify(file, &Default::default()).unwrap().content;
        let wanted = format!("sha256:{wanted}");
        assert_eq!(content(&file).as_deref(), Some(&*wanted), "{name}");
        let align = writing().with_encode(EncodeOptions::new().with_align(65536));
        for options in [Convert::new(writing().with_zstd(3)), Convert::new(align)] {
            let again = written(&file, &dir.path().join("again.zt"), &options);
            assert_eq!(content(&again).as_deref(), Some(&*wanted), "{name}");
        }
        let none = Convert::new(writing().with_digest(None));
        assert_eq!(
            content(&written(&file, &dir.path().join("none.zt"), &none)).is_some(),
            file.is_empty()
        );
    }
    let broken = rejects().into_iter().find(|(name, _)| *name == "file.digest.xxh3").unwrap().1;
    let report = verify(&open(broken).unwrap(), &Default::default()).unwrap();
    assert_eq!((report.content, report.finding_count), (None, 1));
}

/// An empty map of attributes is content, of an object and of the file. The package `ztensor` 2.1.2 keeps
/// that of a file when rewriting it, and counts that of an object in the content digest.
#[test]
fn empty_attributes_are_written_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let empty = || ("attributes", map(&[]));
    let with_own = with(object(&part()), "attributes", map(&[]));
    let content = |file: &File| verify(file, &Default::default()).unwrap().content.unwrap();
    let mut contents = Vec::new();
    for (object, others, count) in [
        (object(&part()), vec![], 0),
        (object(&part()), vec![empty()], 1),
        (with_own, vec![empty()], 2),
    ] {
        let source = open(of_object(&object, others)).unwrap();
        let path = dir.path().join("out.zt");
        let out = written(&source, &path, &Convert::new(writing()));
        assert_eq!(content(&out), content(&source));
        contents.push(content(&out));
        let field = [text("attributes"), vec![0xa0]].concat();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.windows(field.len()).filter(|at| *at == field).count(), count);
        // Other formats do not have them.
        let other =
            Convert::new(WriteOptions::new().with_format(formats::by_name("safetensors").unwrap()));
        convert(&source, dir.path().join(format!("{count}.safetensors")), &other).unwrap();
    }
    assert!(contents[0] == contents[1] && contents[1] != contents[2]);
}

/// Half bytes, scalars as coordinates, and groups in unusual spellings are written unchanged, also through
/// zTensor 1.2.
#[test]
fn unusual_fields_are_written_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let source = holdall::open(described::folder("ztensor2").join("python-2.1.2-odd.zt")).unwrap();
    let content = |file: &File| verify(file, &Default::default()).unwrap().content.unwrap();
    let again = written(&source, &dir.path().join("again.zt"), &Convert::new(writing()));
    assert_eq!(content(&again), content(&source));
    let of = |file: &File, name: &str| {
        let info = file.tensor(name).unwrap();
        let c = info.components().next().unwrap();
        (info.layout().as_str().to_owned(), c.logical_type, c.decoded_len)
    };
    let odd = Some(LogicalType::Other("zt.f4_e2m1".into()));
    assert_eq!(of(&source, "f4"), ("dense".into(), odd.clone(), Some(2)));
    assert_eq!(of(&source, "f4_scalar"), ("dense".into(), odd, Some(1)));
    let scalar = source.tensor("scalar").unwrap().to_dense().unwrap();
    assert_eq!((scalar.shape(), scalar.bytes().len()), (&[][..], 4));
    for name in ["g_vector", "g_cube", "g_zero", "mx"] {
        let tensor = source.tensor(name).unwrap();
        assert_eq!(tensor.layout(), &Layout::QuantizedGroup, "{name}");
        let spelled = tensor.attributes().get("ztensor2.spelled");
        assert!(matches!(spelled, Some(Value::Map(_))), "{name}: {spelled:?}");
    }
    let by_way = dir.path().join("1.2.zt");
    convert(&source, &by_way, &Convert::new(WriteOptions::new())).unwrap();
    let back = dir.path().join("back.zt");
    let back = written(&holdall::open(by_way).unwrap(), &back, &Convert::new(writing()));
    let groups = |file: &File| {
        let tensors = file.tensors().filter(|t| *t.layout() == Layout::QuantizedGroup);
        tensors.map(|t| (t.name().to_owned(), t.attributes().clone())).collect::<Vec<_>>()
    };
    assert_eq!(groups(&back).len(), 4);
    assert_eq!(groups(&back), groups(&source));
    assert_eq!(of(&back, "f4"), of(&source, "f4"));
    // A spelling that contradicts the attributes is ignored.
    let mut edit = Edit::open(dir.path().join("again.zt")).unwrap();
    let spelled = Value::Map(vec![(Value::Text("group_size".into()), Value::Integer(4))]);
    edit.set_tensor_attribute("g_zero", "ztensor2.spelled", spelled).unwrap();
    edit.commit().unwrap();
    let edited = holdall::open(dir.path().join("again.zt")).unwrap();
    let size = edited.tensor("g_zero").unwrap().attributes().get("group_size").cloned();
    assert_eq!(size, Some(Value::Integer(2)));
}

/// In the canonical form all empty parts are at the offset of the first.
#[test]
fn parts_without_bytes_share_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zt");
    let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
    for (name, count) in [("a", 1), ("b", 0), ("c", 2), ("d", 0)] {
        writer
            .add(TensorSpec::dense(name, DType::U8, [count]), &[&[1, 2][..count as usize]])
            .unwrap();
    }
    writer.finish().unwrap();
    let source = holdall::open(&path).unwrap();
    let place = |file: &File, name: &str| {
        file.tensor(name).unwrap().components().next().unwrap().stored.range()
    };
    for (sharing, last) in [(Sharing::Dedupe, 8192), (Sharing::Keep, 12288)] {
        let options = Convert::new(writing()).with_sharing(sharing);
        let out = written(&source, &dir.path().join("out.zt"), &options);
        assert_eq!(place(&out, "b"), 8192..8192);
        assert_eq!(place(&out, "c"), 8192..8194);
        assert_eq!(place(&out, "d"), last..last);
    }
}

/// A sharded model is a folder that opens as one, is verified to the last byte of every shard, and equals the
/// model in one file.
#[test]
fn models_are_written_in_shards() {
    let dir = tempfile::tempdir().unwrap();
    let source =
        holdall::open(described::folder("ztensor2").join("ztensor-2.1.2_groups.zt")).unwrap();
    let plain = Convert::new(writing().with_zstd(3)).reencode();
    drop(written(&source, &dir.path().join("whole.zt"), &plain));
    let mut edit = Edit::open(dir.path().join("whole.zt")).unwrap();
    edit.set_attribute("name", Value::Text("of all".into()));
    edit.commit().unwrap();
    let whole = holdall::open(dir.path().join("whole.zt")).unwrap();
    let content = |file: &File| verify(file, &Default::default()).unwrap().content.unwrap();
    let folder = dir.path().join("model");
    for algorithm in [Algorithm::Xxh3, Algorithm::Sha256] {
        let write = writing().with_digest(Some(algorithm));
        let options = Convert::new(write).with_max_shard_len(2000);
        let report = convert(&whole, &folder, &options).unwrap();
        let count = report.files.len() - 1;
        assert!(count > 2 && report.files[0] == format!("model-00001-of-{count:05}.zt"));
        assert_eq!(report.files[count], "model.zt");
        let strict = OpenOptions::new().with_faults(Faults::Refuse);
        for path in [folder.clone(), folder.join("model.zt")] {
            let file = strict.open(path).unwrap();
            assert_eq!(file.attributes().get("name"), Some(&Value::Text("of all".into())));
            let progress = Arc::new(Mutex::new((0, 0)));
            let reporting = Arc::clone(&progress);
            let work = Work::new().with_threads(1).on_progress(move |done, total| {
                *reporting.lock().unwrap() = (done, total);
            });
            let report = verify(&file, &VerifyOptions::new().with_work(work)).unwrap();
            assert!(report.read_len <= report.stored_len, "bytes that are read twice count once");
            let (done, total) = *progress.lock().unwrap();
            let shards: u64 = file.index().source_lens().skip(1).sum();
            assert!(done == total && total >= shards + report.read_len, "{done} {total} {shards}");
            assert!(report.is_sound(), "{:?}", report.findings);
            assert_eq!(file.index().checksums().len(), count);
            let all = file.index().checksums().iter();
            assert!(all.map(|c| c.bytes.stored_digest_algorithm()).all(|of| of == Some(algorithm)));
            let found = holdall::diff(&source, &file, &Default::default()).unwrap();
            assert!(found.values_agree(), "{algorithm:?}");
            if algorithm == Algorithm::Xxh3 {
                assert_eq!(content(&file), content(&whole));
            }
        }
    }
    // A byte between two parts changed: no tensor changes, the shard does.
    let shard = folder.join(&shards_of(&folder)[1]);
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    let report = verify(&holdall::open(&folder).unwrap(), &Default::default()).unwrap();
    assert_eq!((report.finding_count, report.content), (1, None));
    assert_eq!(report.findings[0].code(), "file/digest");
    assert!(report.findings[0].to_string().contains("in `00002-of-"));
    // If everything fits, there is one file; with another model next to it, a folder is not a model.
    let one = dir.path().join("one");
    let report = convert(&source, &one, &Convert::new(writing()).with_max_shard_len(1 << 30));
    assert_eq!(report.unwrap().files, ["model.zt"]);
    std::fs::copy(one.join("model.zt"), one.join("model-lora.zt")).unwrap();
    assert_eq!(holdall::open(&one).unwrap_err().code(), "shards/no-model");
}

fn shards_of(folder: &Path) -> Vec<String> {
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}
