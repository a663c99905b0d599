//! Salvages the complete tensors of files that were cut short, in any format, and of models with missing
//! files.

use crate::described::folder;
use holdall::{
    Attributes, Convert, DType, File, OpenOptions, Role, SalvageReport, WriteOptions, convert,
    salvage,
};
use std::path::Path;

fn take(from: &Path, to: &Path) -> holdall::Result<SalvageReport> {
    salvage(from, to, WriteOptions::new().with_overwrite(true), &OpenOptions::new())
}

/// Cuts a file at many offsets. Salvaged tensors have the bytes of the whole file, and from the fraction
/// `from` on each tensor whose bytes are complete is salvaged. Returns how often something was salvaged.
fn cut_everywhere(path: &Path, from: f64, step: usize) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(path).unwrap();
    let file = holdall::open(path).unwrap();
    let (cut, out) = (
        dir.path().join("cut").with_extension(path.extension().unwrap()),
        dir.path().join("out.zt"),
    );
    let mut taken = 0;
    for len in (1..whole.len()).step_by(step) {
        std::fs::write(&cut, &whole[..len]).unwrap();
        let report = take(&cut, &out);
        if let Err(e) = &report {
            assert_ne!(e.kind(), holdall::ErrorKind::Io, "{e}");
            assert!((len as f64) < from * whole.len() as f64, "{len} of {}: {e}", whole.len());
            continue;
        }
        assert!(!report.unwrap().is_complete());
        taken += 1;
        let found = holdall::open(&out).unwrap();
        for t in found.tensors() {
            let o = file.tensor(t.name()).unwrap();
            // A strided tensor is written in row-major order; if it is cut, rows or columns are missing.
            if *o.layout() == holdall::Layout::Strided {
                let same = t.shape() == o.shape();
                let dense = |t: &holdall::Tensor| t.to_dense().unwrap().bytes().clone();
                assert!(!same || dense(&t) == dense(&o), "{len} {}", t.name());
                continue;
            }
            for c in t.components() {
                let (found, whole) = (t.bytes(&c.role).unwrap(), o.bytes(&c.role).unwrap());
                let is_some = !found.is_empty() || whole.is_empty();
                assert!(whole.starts_with(&found) && is_some, "{len} {}", t.name());
            }
        }
        let is_there = |t: &holdall::Tensor| {
            t.components()
                .all(|c| c.stored.chunked().is_none() && c.stored.range().end <= len as u64)
        };
        // An entry of a zip whose descriptor is missing is not taken.
        let slack = if whole.starts_with(b"PK") { usize::MAX } else { 0 };
        if slack == 0 && path.extension().is_some_and(|e| e == "pt") {
            for t in file.tensors().filter(is_there) {
                assert!(found.tensor(t.name()).is_ok(), "{len}: {}", t.name());
            }
        }
    }
    taken
}

#[test]
fn files_of_torch_cut_anywhere() {
    for name in [
        "torch_state-legacy.pt",
        "torch_state.pt",
        "torch_quantized.pt",
        "torch_sparse.pt",
        "torch_signs.pt",
    ] {
        let path = folder("pytorch").join(name);
        // Without a complete pickle and one storage, nothing can be taken.
        let taken = cut_everywhere(&path, 0.97, 97);
        assert!(taken > 0, "{name}");
    }
}

#[test]
fn arrays_cut_anywhere_give_their_whole_rows() {
    for name in ["npy_fortran_f32.npy", "npy_records_big.npy"] {
        assert!(cut_everywhere(&folder("numpy").join(name), 1.0, 3) > 0, "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut npy = holdall::npy::header(DType::F64, None, &[100, 10]).unwrap();
    npy.extend((0..505).flat_map(|n| f64::from(n).to_le_bytes()));
    let (cut, out) = (dir.path().join("cut.npy"), dir.path().join("out.zt"));
    std::fs::write(&cut, npy).unwrap();
    let report = take(&cut, &out).unwrap();
    assert_eq!((report.tensors, report.left_out_count), (1, 1));
    assert!(
        report.left_out[0].to_string().contains("first 50 of 100 rows"),
        "{}",
        report.left_out[0]
    );
    let file = holdall::open(&out).unwrap();
    let data = file.tensor("data").unwrap();
    let wanted: Vec<u8> = (0..500).flat_map(|n| f64::from(n).to_le_bytes()).collect();
    assert_eq!((data.shape(), data.bytes(&Role::Data).unwrap()), (&[50, 10][..], wanted.into()));
}

/// Zips of other formats, without their directories.
#[test]
fn zips_without_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.zt");
    for path in [
        folder("numpy").join("numpy_types.npz"),
        folder("numpy").join("npz_deflate.npz"),
        folder("pytorch").join("torch_export.pt2"),
    ] {
        let whole = std::fs::read(&path).unwrap();
        let cut = dir.path().join("cut").with_extension(path.extension().unwrap());
        std::fs::write(&cut, &whole[..whole.len() - 30]).unwrap();
        let report = take(&cut, &out).unwrap();
        assert_eq!(
            report.tensors as usize,
            holdall::open(&path).unwrap().len(),
            "{}",
            path.display()
        );
    }
    // Our zips have descriptors, too.
    let ours = dir.path().join("ours.npz");
    let file = holdall::open(folder("numpy").join("numpy_types.npz")).unwrap();
    convert(&file, &ours, &Convert::new(WriteOptions::new())).unwrap();
    assert!(cut_everywhere(&ours, 1.0, 101) > 0);
}

/// An archive whose directory is intact is not reported as one that lost it.
#[test]
fn a_zip_that_has_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pt");
    let sound = b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.";
    std::fs::write(&path, crate::pytorch_files::zip(&[("a/data.pkl", sound)])).unwrap();
    let e = take(&path, &dir.path().join("out.zt")).unwrap_err();
    assert_eq!(e.code(), "pytorch/global", "{e}");
    let advice = format!("{:?}", e.hint());
    assert!(
        !advice.contains("lost") && advice.contains("directory of the zip is intact"),
        "{advice}"
    );
}

/// Writes these tensors, of two floats each, as a safetensors file.
fn shard(path: &Path, names: &[&str]) {
    let one = |name: &&str| {
        crate::make::dense(
            name,
            &[2],
            crate::make::part(Role::Data, DType::F32, crate::make::f32s(&[1.0, name.len() as f32])),
        )
    };
    let all: Vec<_> = names.iter().map(one).collect();
    std::fs::write(path, crate::make::bytes_of("safetensors", &Attributes::new(), &all)).unwrap();
}

fn names_of(file: &File) -> Vec<String> {
    let mut names: Vec<String> = file.names().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn models_of_which_files_are_missing_or_the_index_is_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let index = |map: &str| {
        std::fs::write(
            path("model.safetensors.index.json"),
            format!("{{\"weight_map\":{{{map}}}}}"),
        )
        .unwrap();
    };
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out.zt");
    shard(&path("model-00001-of-00002.safetensors"), &["a", "b"]);
    // One shard is missing.
    index(
        r#""a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors""#,
    );
    for from in [dir.path(), &path("model.safetensors.index.json")] {
        let report = take(from, &out).unwrap();
        assert_eq!((report.tensors, report.left_out_count), (2, 2));
        assert_eq!(names_of(&holdall::open(&out).unwrap()), ["a", "b"]);
        let codes: Vec<_> = report.left_out.iter().map(|e| e.code()).collect();
        assert_eq!(codes, ["shards/tensor", "shards/missing"]);
    }
    // The index belongs to another division.
    shard(&path("model-00002-of-00002.safetensors"), &["c"]);
    for map in [
        r#""a":"model-00001-of-00004.safetensors","b":"model-00004-of-00004.safetensors","c":"model-00004-of-00004.safetensors""#,
        r#""a":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors""#,
    ] {
        index(map);
        let report = take(dir.path(), &out).unwrap();
        assert_eq!((report.tensors, report.left_out_count), (3, 0));
        assert!(report.open_error.is_some());
    }
    // One shard is damaged.
    std::fs::write(path("model-00002-of-00002.safetensors"), [7; 100]).unwrap();
    let report = take(dir.path(), &out).unwrap();
    assert_eq!(report.tensors, 2);
    assert!(report.left_out_count >= 1);
}

/// The existing parts of a split GGUF file.
#[test]
fn parts_of_a_split_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = holdall::open(folder("gguf").join("gguf_f32_f16.gguf")).unwrap();
    let count = source.len();
    let gguf = WriteOptions::new().with_format(holdall::formats::by_name("gguf").unwrap());
    let folder_of_parts = dir.path().join("parts");
    let small = Convert::new(gguf).with_max_shard_len(1);
    convert(&source, &folder_of_parts, &small).unwrap();
    let mut parts: Vec<_> =
        folder_of_parts.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    parts.sort();
    assert!(parts.len() > 2, "{parts:?}");
    let lost = holdall::open(&parts[1]).unwrap().len();
    std::fs::remove_file(&parts[1]).unwrap();
    let out = tempfile::tempdir().unwrap();
    for from in [&folder_of_parts, &parts[0]] {
        let out = out.path().join("out.gguf");
        let report = take(from, &out).unwrap();
        assert_eq!(report.tensors as usize, count - lost);
        assert_eq!(report.left_out[0].code(), "shards/missing");
        // Attributes of one part are not those of the whole.
        let file = holdall::open(&out).unwrap();
        assert!(file.attributes().iter().all(|(key, _)| !key.starts_with("split.")));
    }
}

/// A part alone is not the whole model, whatever its name.
#[test]
fn a_single_shard_reports_the_missing_ones() {
    let dir = tempfile::tempdir().unwrap();
    let source = holdall::open(folder("gguf").join("gguf_f32_f16.gguf")).unwrap();
    for (format, extension) in [("gguf", "gguf"), ("safetensors", "safetensors")] {
        let write = WriteOptions::new().with_format(holdall::formats::by_name(format).unwrap());
        let parts = dir.path().join(extension);
        let small = Convert::new(write).with_max_shard_len(1).with_drop_attributes();
        convert(&source, &parts, &small).unwrap();
        let mut all: Vec<_> = parts.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
        all.retain(|path| path.extension().is_some_and(|e| e == extension));
        all.sort();
        let count = all.len();
        let out = dir.path().join("out.zt");
        for (at, part) in all.iter().enumerate() {
            let lone = dir.path().join(part.file_name().unwrap());
            std::fs::copy(part, &lone).unwrap();
            let renamed = dir.path().join(format!("lone.{extension}"));
            std::fs::copy(part, &renamed).unwrap();
            // A shard of safetensors does not state that it is one.
            for from in [lone, renamed].iter().take(if extension == "gguf" { 2 } else { 1 }) {
                let report = take(from, &out).unwrap();
                assert_eq!((report.is_complete(), report.left_out_count > 0), (false, true));
                let text = report.left_out.iter().map(|e| e.to_string()).collect::<String>();
                let (first, other) = (at == 0, if at == 0 { 2 } else { 1 });
                // All parts other than the first are named as missing, or the part is named.
                let own = format!("part {} of {count}", at + 1);
                assert!(text.contains(&own) || first, "{text}");
                let name = format!("-{other:05}-of-{count:05}.{extension}");
                assert!(
                    text.contains(&name) || text.contains(&format!("part {other}")),
                    "{}: {text}",
                    from.display()
                );
            }
        }
    }
}

/// Headers that break rules about order and names, but not about the positions of tensors.
#[test]
fn headers_that_say_where_tensors_are_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("a.safetensors"), dir.path().join("out.zt"));
    let made = |header: &str| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend((0..6).flat_map(|n| (n as f32).to_le_bytes()));
        std::fs::write(&from, file).unwrap();
        take(&from, &out).unwrap()
    };
    let entry = |name: &str, at: u32| {
        format!("\"{name}\":{{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[{at},{}]}}", at + 8)
    };
    made(&format!("{{{},{},{}}}", entry("a", 0), entry("a", 8), entry("b", 16)));
    assert_eq!(names_of(&holdall::open(&out).unwrap()), ["a", "a#2", "b"]);
    made(&format!("{{{},{}}}", entry("a", 4), entry("b", 14)));
    assert_eq!(names_of(&holdall::open(&out).unwrap()), ["a", "b"]);
    made(&format!(
        "{{\"__metadata__\":{{\"k\":\"1\",\"k\":\"2\"}},{},{}}}",
        entry("a", 0),
        entry("b", 8)
    ));
    assert_eq!(holdall::open(&out).unwrap().len(), 2);
}
