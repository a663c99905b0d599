//! Meaning beyond numbers: conversions and edits keep it, or report that it is lost.

use crate::described::{self, compare};
use holdall::verify::Reason;
use holdall::{
    Convert, Edit, File, OpenOptions, Role, Value, VerifyOptions, WriteOptions, convert, verify,
};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept_files").join(name)
}

/// Converts a file to one with that name.
fn converted(file: &File, target: &Path) -> File {
    let write = WriteOptions::new().with_overwrite(true);
    convert(file, target, &Convert::new(write)).unwrap();
    holdall::open(target).unwrap()
}

/// Checks that two files have the same tensors with the same attributes and bytes.
#[track_caller]
fn are_same(one: &File, other: &File) {
    assert_eq!(one.len(), other.len());
    for t in one.tensors() {
        let o = other.tensor(t.name()).unwrap();
        assert_eq!((t.shape(), t.layout()), (o.shape(), o.layout()), "{}", t.name());
        let sorted = |attributes: &holdall::Attributes| {
            let mut all: Vec<_> =
                attributes.iter().map(|(k, v)| (k.to_owned(), v.to_json())).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(t.attributes()), sorted(o.attributes()), "{}", t.name());
        assert_eq!(t.bytes(&Role::Data).unwrap(), o.bytes(&Role::Data).unwrap(), "{}", t.name());
    }
}

fn rename(path: &Path, from: &str, to: &str) -> holdall::Result<()> {
    let mut edit = Edit::open(path)?;
    edit.rename(from, to)?;
    edit.commit().map(drop)
}

#[test]
fn quantizers_of_channels_survive_conversions_and_edits() {
    let dir = tempfile::tempdir().unwrap();
    let file = holdall::open(case("per_channel.pt")).unwrap();
    let qc = file.tensor("qc").unwrap();
    let get = |key: &str| qc.attributes().get(key).unwrap().to_json();
    assert_eq!(get("torch.qscheme"), "\"torch.per_channel_affine\"");
    assert_eq!(
        (get("scales"), get("zero_points"), get("axis")),
        ("[0.01,0.02,0.03]".into(), "[0,3,-2]".into(), "0".into())
    );
    let zt = converted(&file, &dir.path().join("a.zt"));
    are_same(&file, &zt);
    let back = converted(&zt, &dir.path().join("b.pt"));
    are_same(&file, &back);
    let edited = dir.path().join("c.pt");
    std::fs::copy(case("per_channel.pt"), &edited).unwrap();
    rename(&edited, "plain", "p").unwrap();
    rename(&edited, "p", "plain").unwrap();
    are_same(&file, &holdall::open(&edited).unwrap());
    // The data that torch needs to rebuild the object.
    let text = std::fs::read(&edited).unwrap();
    for needed in ["_rebuild_qtensor", "QInt8Storage", "QInt32Storage", "per_channel_affine"] {
        assert!(text.windows(needed.len()).any(|w| w == needed.as_bytes()), "{needed}");
    }
}

/// Every quantizer that attributes can express, written and read again.
#[test]
fn made_quantizers_come_back() {
    let file = holdall::open(case("per_channel.pt")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let zt = dir.path().join("q.zt");
    for axis in 0..2u64 {
        for (scheme, zero) in [
            ("torch.per_channel_affine", Value::Integer(-(1 << 40))),
            ("torch.per_channel_affine_float_qparams", Value::Float(0.5)),
        ] {
            converted(&file, &zt);
            let count = if axis == 0 { 3 } else { 4 };
            let all = |value: &Value| Value::Array(vec![value.clone(); count]);
            let mut edit = Edit::open(&zt).unwrap();
            for (key, value) in [
                ("torch.qscheme", Value::Text(scheme.into())),
                ("axis", Value::Integer(axis.into())),
                ("scales", all(&Value::Float(1e-300))),
                ("zero_points", all(&zero)),
            ] {
                edit.set_tensor_attribute("qc", key, value).unwrap();
            }
            edit.commit().unwrap();
            let made = holdall::open(&zt).unwrap();
            are_same(&made, &converted(&made, &dir.path().join("q.pt")));
        }
    }
    // Quantizers that torch lacks are refused, not written as plain integers.
    for (key, value) in [
        ("torch.qscheme", Value::Text("torch.other".into())),
        ("axis", Value::Integer(2)),
        ("scales", Value::Array(vec![Value::Float(1.0)])),
        ("zero_points", Value::Text("0".into())),
    ] {
        converted(&file, &zt);
        let mut edit = Edit::open(&zt).unwrap();
        edit.set_tensor_attribute("qc", key, value).unwrap();
        edit.commit().unwrap();
        let made = holdall::open(&zt).unwrap();
        let write = WriteOptions::new().with_overwrite(true);
        let e = convert(&made, dir.path().join("q.pt"), &Convert::new(write)).unwrap_err();
        let cause =
            std::error::Error::source(&e).and_then(|of| of.downcast_ref::<holdall::Error>());
        let codes = (e.code(), cause.map(holdall::Error::code));
        assert_eq!(codes, ("convert/cannot-hold", Some("pytorch/element-type")), "{key}: {e}");
    }
}

#[test]
fn python_attributes_of_tensors_survive_or_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = holdall::open(case("attributes.pt")).unwrap();
    let p = file.tensor("p").unwrap();
    assert_eq!(p.attributes().get("torch.attributes").unwrap().to_json(), "{\"foo\":\"bar\"}");
    assert_eq!(file.tensor("p.tag").unwrap().shape(), [2]);
    let edited = dir.path().join("a.pt");
    std::fs::copy(case("attributes.pt"), &edited).unwrap();
    // A tensor subclass cannot be written again.
    let e = rename(&edited, "p", "q").unwrap_err();
    assert!(e.code() == "edit/unrepresented" && e.to_string().contains("`p.tag`"), "{e}");
    let zt = converted(&file, &dir.path().join("a.zt"));
    are_same(&file, &zt);
    let back = converted(&zt, &dir.path().join("b.pt"));
    are_same(&file, &back);
    let text = std::fs::read(dir.path().join("b.pt")).unwrap();
    assert!(text.windows(22).any(|w| w == b"_rebuild_from_type_v2\n"), "torch sees them, too");
    assert!(!text.windows(12).any(|w| w == b"tensors.json"));
    rename(&dir.path().join("b.pt"), "p", "q").unwrap();
    let q = holdall::open(dir.path().join("b.pt")).unwrap();
    let q = q.tensor("q").unwrap();
    assert_eq!(q.attributes().get("torch.attributes"), p.attributes().get("torch.attributes"));
}

#[test]
fn a_tensor_of_a_subclass_is_a_fault_by_name() {
    let file = holdall::open(case("subclass.pt")).unwrap();
    let e = file.tensor("w").unwrap().sound().unwrap_err();
    assert!(e.code() == "pytorch/global" && e.to_string().contains("DTensor"), "{e}");
    assert_eq!(file.tensor("w").unwrap().shape(), [3, 4]);
    assert!(file.tensor("b").unwrap().to_dense().is_ok());
    let dir = tempfile::tempdir().unwrap();
    convert(&file, dir.path().join("a.zt"), &Convert::new(WriteOptions::new())).unwrap_err();
}

#[test]
fn tensors_of_unknown_types_of_gguf_are_kept_as_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(case("opaque.gguf")).unwrap();
    let file = holdall::open(case("opaque.gguf")).unwrap();
    let name = "blk.0.ffn_up_exps.weight";
    let tensor = file.tensor(name).unwrap();
    assert_eq!((tensor.shape(), tensor.layout().as_str()), (&[4, 256][..], "gguf.type_153"));
    let bytes = tensor.bytes(&Role::Data).unwrap();
    assert!(bytes.len() == 320 && bytes[296..].iter().all(|b| *b == 0), "with the padding");
    let zt = converted(&file, &dir.path().join("a.zt"));
    converted(&zt, &dir.path().join("b.gguf"));
    assert_eq!(std::fs::read(dir.path().join("b.gguf")).unwrap(), whole);
    rename(&dir.path().join("b.gguf"), name, "x").unwrap();
    let edited = holdall::open(dir.path().join("b.gguf")).unwrap();
    assert_eq!(edited.tensor("x").unwrap().bytes(&Role::Data).unwrap(), bytes);
    // The meaning of its numbers is unknown.
    tensor.to_dense().unwrap_err();
}

/// A state dict stores the versions of its modules in a Python attribute: rewriting the file reports it as
/// left behind.
#[test]
fn attributes_of_dicts_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let tensor = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x01tQK\0K\x01\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR";
    let dict = |entries: &[u8], state: &[u8]| {
        [b"ccollections\nOrderedDict\n)R(", entries, b"u", state].concat()
    };
    let state = b"}X\x09\0\0\0_metadata}X\0\0\0\0}X\x07\0\0\0versionK\x01sssb";
    let named = |name: &str, value: &[u8]| {
        [b"X", &(name.len() as u32).to_le_bytes()[..], name.as_bytes(), value].concat()
    };
    let weights = dict(&named("w", tensor), state);
    let nested = dict(&named("model", &weights), b"");
    let plain = dict(&named("w", tensor), b"");
    for (pickle, tensor, left, is_editable) in [
        (plain, "w", None, true),
        (weights, "w", Some("`_metadata`, an attribute of the dict of all tensors"), true),
        (nested, "model.w", Some("`_metadata`, an attribute of the dict `model`"), false),
    ] {
        let pickle = [b"\x80\x02", &pickle[..], b"."].concat();
        let path = dir.path().join("a.pt");
        let entries: [(&str, &[u8], bool); 3] = [
            ("a/data.pkl", &pickle, false),
            ("a/data/0", &1.5f32.to_le_bytes(), false),
            ("a/version", b"3\n", false),
        ];
        std::fs::write(&path, crate::archives::zip(&entries)).unwrap();
        let file = holdall::open(&path).unwrap();
        let options = Convert::new(WriteOptions::new().with_overwrite(true));
        for target in ["b.zt", "b.safetensors", "b.pt"] {
            let report = convert(&file, dir.path().join(target), &options).unwrap();
            let is_named = |what: &&String| what.contains("_metadata");
            let found = report.left_behind.iter().find(is_named).map(String::as_str);
            assert_eq!(found, left, "{target} {:?}", report.left_behind);
        }
        let mut edit = Edit::open(&path).unwrap();
        edit.rename(tensor, "v").unwrap();
        match edit.commit() {
            Ok(report) => assert_eq!(report.left_behind, Vec::from_iter(left)),
            Err(e) => assert!(e.code() == "edit/unrepresented" && !is_editable, "{e}"),
        }
    }
}

/// Returns the same zip, with its entries compressed by Deflate.
fn deflated(path: &Path) -> Vec<u8> {
    let options = OpenOptions::new();
    let listed = holdall::archive::contents(
        std::sync::Arc::new(holdall::source::MemorySource::new(std::fs::read(path).unwrap())),
        "made",
        options.limits(),
    );
    let (mut out, mut directory, mut count) = (Vec::new(), Vec::new(), 0u16);
    for entry in listed.unwrap().files {
        let inside = format!("{}!/{}", path.display(), entry.name);
        let (source, _) = options.source_at(&holdall::Location::new(inside)).unwrap();
        let bytes = source.read_range(0..source.len()).unwrap();
        let mut encoder =
            flate2::read::DeflateEncoder::new(&bytes[..], flate2::Compression::fast());
        let mut stored = Vec::new();
        encoder.read_to_end(&mut stored).unwrap();
        let mut crc = flate2::CrcWriter::new(std::io::sink());
        crc.write_all(&bytes).unwrap();
        let mut fixed = vec![20, 0, 0, 0, 8, 0, 0, 0, 0, 0];
        fixed.extend(crc.crc().sum().to_le_bytes());
        fixed.extend((stored.len() as u32).to_le_bytes());
        fixed.extend((bytes.len() as u32).to_le_bytes());
        fixed.extend((entry.name.len() as u16).to_le_bytes());
        fixed.extend([0, 0]);
        let at = out.len() as u32;
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&fixed);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(entry.name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(fixed);
        out.extend(entry.name.as_bytes());
        out.extend(stored);
        count += 1;
    }
    let at = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    out.extend([(directory.len() as u32).to_le_bytes(), at.to_le_bytes()].concat());
    out.extend([0, 0]);
    out
}

/// Every zip file of torch has torch's elements when its entries are compressed.
#[test]
fn deflated_files_of_torch_have_its_elements() {
    let mut seen = 0;
    for (path, wanted) in described::files("pytorch") {
        if !std::fs::read(&path).unwrap().starts_with(b"PK") {
            continue;
        }
        let file = described::open(deflated(&path)).unwrap();
        assert_eq!(file.len(), wanted.len(), "{}", path.display());
        for wanted in wanted {
            let name = wanted["name"].as_str().unwrap();
            let dense = file.tensor(name).unwrap().to_dense().unwrap();
            let place = format!("{} {name}", path.display());
            compare(&dense, &wanted, &wanted["dense_sha256"], &place);
        }
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}

/// A storage's CRC-32 in the zip is compared wherever the storage is decoded, alone or for a part of it.
#[test]
fn deflated_storages_of_torch_are_held_to_their_checksums() {
    let mut tried = 0;
    for (path, _) in described::files("pytorch") {
        if !std::fs::read(&path).unwrap().starts_with(b"PK") {
            continue;
        }
        let zip = deflated(&path);
        let sound = described::open(zip.clone()).unwrap();
        let report = verify(&sound, &VerifyOptions::new()).unwrap();
        let unsummed = report.unverified_for(Reason::NoDigest);
        let checked: u64 = report.checked().iter().map(|(_, count)| count).sum();
        assert!(report.is_sound() && checked + unsummed >= report.components, "{report:?}");
        let entries = (0..zip.len() - 46).filter(|at| zip[*at..].starts_with(b"PK\x01\x02"));
        for entry in entries {
            let number = |at: usize| u32::from_le_bytes(zip[at..at + 4].try_into().unwrap());
            let name_len = u16::from_le_bytes([zip[entry + 28], zip[entry + 29]]) as usize;
            let name = String::from_utf8_lossy(&zip[entry + 46..entry + 46 + name_len]);
            if !name.contains("/data/") || number(entry + 24) == 0 {
                continue;
            }
            let mut changed = zip.clone();
            changed[entry + 16] ^= 1;
            changed[number(entry + 42) as usize + 14] ^= 1;
            // For bytes that are read on opening, the sum is compared then.
            let Ok(file) = described::open(changed) else { continue };
            let report = verify(&file, &VerifyOptions::new()).unwrap();
            let place = format!("{} {name}", path.display());
            // Some storages belong to no tensor.
            for e in &report.findings {
                let tensor = file.tensor(e.tensor().unwrap()).unwrap();
                assert_eq!(
                    (e.code(), tensor.to_dense().is_err()),
                    ("file/digest", true),
                    "{place}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

/// An 8-bit weight is not cast without its scales.
#[test]
fn a_weight_with_a_separate_scale_is_not_cast() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.safetensors"), dir.path().join("out.safetensors"));
    for scales in ["l.weight_scale_inv", "l.weight_scale", "l.scale_weight", "l.weight.scales"] {
        let header = format!(
            "{{\"l.weight\":{{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}},\"{scales}\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}}}"
        );
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[56; 8]].concat();
        std::fs::write(&path, file).unwrap();
        let file = holdall::open(&path).unwrap();
        let with = |rules: &[&str]| {
            let write = WriteOptions::new().with_overwrite(true);
            let casts = rules.iter().map(|rule| holdall::Cast::new(rule).unwrap());
            convert(&file, &out, &Convert::new(write).with_dtypes(casts)).map(drop)
        };
        let done = with(&["bf16"]);
        let is_refused = done.as_ref().is_err_and(|e| e.message().contains("without their scale"));
        assert!(is_refused, "{scales}: {done:?}");
        with(&["bf16", "l.weight=keep", &format!("{scales}=keep")]).unwrap();
    }
}
