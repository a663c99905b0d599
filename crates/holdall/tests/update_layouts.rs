//! Deltas and weight updates in each other's layouts, there and back.

use holdall::delta::{
    ChecksumKind, ConvertOptions, DeltaLayout, DeltaSource, UpdateOptions, Updates, apply,
    apply_updates, convert,
};
use holdall::{File, OpenOptions, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/updates").join(name)
}

fn source(path: &Path) -> DeltaSource {
    DeltaSource::open(path, &OpenOptions::new()).unwrap()
}

fn tensors(file: &File) -> BTreeMap<String, Vec<u8>> {
    let bytes = |name: &str| file.tensor(name).unwrap().to_dense().unwrap().bytes().to_vec();
    file.names().map(|name| (name.to_owned(), bytes(name))).collect()
}

/// Applies the delta at `path` to `base`, and returns the tensors of the result.
fn applied(base: &File, path: &Path, to: &Path) -> BTreeMap<String, Vec<u8>> {
    let _ = std::fs::remove_file(to);
    match source(path) {
        DeltaSource::Delta(delta) => {
            apply(base, &delta, to, &Default::default()).unwrap();
        }
        DeltaSource::Updates(updates) => {
            apply_updates(base, &updates, to, &UpdateOptions::default()).unwrap();
        }
    }
    tensors(&holdall::open(to).unwrap())
}

fn options(layout: DeltaLayout) -> ConvertOptions {
    let mut options = ConvertOptions::default();
    options.layout = layout;
    options
}

/// Returns the decoded differences and the checksums of a version's files.
fn differences(folder: &Path) -> BTreeMap<String, (Vec<u8>, String)> {
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().unwrap() != "safetensors" {
            continue;
        }
        let file = holdall::open(&path).unwrap();
        for (name, bytes) in tensors(&file) {
            let checksum = file.attributes().get(&name).unwrap().as_text().unwrap().to_owned();
            out.insert(name, (zstd::decode_all(&*bytes).unwrap(), checksum));
        }
    }
    out
}

fn index(folder: &Path) -> serde_json::Value {
    let text = std::fs::read(folder.join("model.safetensors.index.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn versions_go_to_every_layout_that_holds_them_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut base = holdall::open(corpus("versions/base")).unwrap();
    for version in 1..=3u64 {
        let golden = corpus(&format!("versions/updates/weight_v{version:06}"));
        let state = at(&format!("state-{version}.safetensors"));
        let target = applied(&base, &golden, &state);
        for layout in [DeltaLayout::Holdall, DeltaLayout::VersionXor, DeltaLayout::VersionOverwrite]
        {
            let name = format!("{version}-{}", layout.name());
            let is_file = layout == DeltaLayout::Holdall;
            let to = at(&if is_file { format!("{name}.zt") } else { name.clone() });
            convert(&source(&golden), Some(&base), &to, &options(layout)).unwrap();
            let result = at(&format!("{name}.result.safetensors"));
            let own = if is_file { to.clone() } else { to.join(format!("weight_v{version:06}")) };
            assert!(applied(&base, &own, &result) == target, "{name}");
            // And back to the layout of the golden files, with their numbers and their kind of checksums.
            let stated = &index(&golden)["metadata"];
            let back = match stated["delta_encoding"].as_str().unwrap() {
                "xor" => DeltaLayout::VersionXor,
                _ => DeltaLayout::VersionOverwrite,
            };
            let mut options = options(back);
            let kind = stated["checksum_format"].as_str().unwrap();
            options.checksums = ChecksumKind::from_name(kind).unwrap();
            let to = at(&format!("{name}-back"));
            convert(&source(&own), Some(&base), &to, &options).unwrap();
            let to = to.join(format!("weight_v{version:06}"));
            assert!(differences(&to) == differences(&golden), "{name}");
            assert_eq!(&index(&to)["metadata"], stated, "{name}");
        }
        // The golden model has elements of 8 bits, which steps do not have.
        let e = convert(&source(&golden), Some(&base), at("x"), &options(DeltaLayout::StepV1));
        assert_eq!(e.unwrap_err().code(), "delta/not-in-layout");
        let e = convert(&source(&golden), None, at("x.zt"), &options(DeltaLayout::Holdall));
        assert_eq!(e.unwrap_err().code(), "delta/needs-base");
        assert!(!at("x").exists() && !at("x.zt").exists());
        base = holdall::open(state).unwrap();
    }
    // Several versions become one.
    let base = holdall::open(corpus("versions/base")).unwrap();
    let mut options = options(DeltaLayout::VersionXor);
    options.to = Some(3);
    convert(&source(&corpus("versions/updates")), Some(&base), at("all"), &options).unwrap();
    assert_eq!(index(&at("all/weight_v000003"))["metadata"]["base_version"], "000000");
    let target = tensors(&holdall::open(at("state-3.safetensors")).unwrap());
    assert!(applied(&base, &at("all/weight_v000003"), &at("all.safetensors")) == target);
    assert!(
        std::fs::read_dir(folder.path())
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().ends_with(".part") })
    );
}

#[test]
fn steps_go_to_every_layout_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let steps = [DeltaLayout::StepV1, DeltaLayout::StepV2Raw, DeltaLayout::StepV2Gap];
    let golden = |layout: DeltaLayout, step: u64| {
        let name = match layout {
            DeltaLayout::StepV1 => "v1",
            DeltaLayout::StepV2Raw => "v2-raw",
            _ => "v2-gap_delta",
        };
        corpus(&format!("steps/{name}/deltas/step_{step:06}.safetensors"))
    };
    let same = |a: &Path, b: &Path| {
        let (a, b) = (holdall::open(a).unwrap(), holdall::open(b).unwrap());
        assert!(tensors(&a) == tensors(&b), "{} {}", a.name(), b.name());
        let dtypes = |file: &File| -> BTreeMap<String, _> {
            let dtype = |name: &str| file.tensor(name).unwrap().dense_type().unwrap().dtype;
            file.names().map(|name| (name.to_owned(), dtype(name))).collect()
        };
        assert_eq!(dtypes(&a), dtypes(&b));
        let attributes = |file: &File| -> BTreeMap<String, holdall::Value> {
            file.attributes().iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()
        };
        assert_eq!(attributes(&a), attributes(&b));
    };
    let mut base = holdall::open(corpus("steps/v1/anchors/step_000001.safetensors")).unwrap();
    for step in 2..=4u64 {
        let state = at(&format!("state-{step}.safetensors"));
        let target = applied(&base, &golden(DeltaLayout::StepV1, step), &state);
        for from in steps {
            for to in steps {
                let path = at(&format!("{step}-{}-{}.safetensors", from.name(), to.name()));
                convert(&source(&golden(from, step)), None, &path, &options(to)).unwrap();
                same(&path, &golden(to, step));
            }
            for over in
                [DeltaLayout::Holdall, DeltaLayout::VersionXor, DeltaLayout::VersionOverwrite]
            {
                let name = format!("{step}-{}-{}", from.name(), over.name());
                let is_file = over == DeltaLayout::Holdall;
                let to = at(&if is_file { format!("{name}.zt") } else { name.clone() });
                convert(&source(&golden(from, step)), Some(&base), &to, &options(over)).unwrap();
                let own = if is_file { to } else { to.join(format!("weight_v{step:06}")) };
                let result = at(&format!("{name}.result.safetensors"));
                assert!(applied(&base, &own, &result) == target, "{name}");
                let back = at(&format!("{name}.back"));
                convert(&source(&own), Some(&base), &back, &options(from)).unwrap();
                same(&back.join(format!("step_{step:06}.safetensors")), &golden(from, step));
            }
        }
        base = holdall::open(state).unwrap();
    }
}

#[test]
fn a_source_is_recognised() -> Result<()> {
    let options = OpenOptions::new();
    let delta = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/ztensor");
    let found = DeltaSource::open(delta.join("delta-all.zt"), &options)?;
    assert!(matches!(found, DeltaSource::Delta(_)));
    let found = DeltaSource::open(corpus("versions"), &options)?;
    assert!(matches!(found, DeltaSource::Updates(_)));
    for other in [corpus("versions/base"), delta.join("delta-base.zt")] {
        let e = DeltaSource::open(other, &options).err().unwrap();
        assert_eq!(e.code(), "delta/not-a-delta");
    }
    let versions = Updates::open(corpus("steps/v1"), &options)?.unwrap();
    assert_eq!(versions.versions().collect::<Vec<_>>(), [1, 2, 3, 4]);
    Ok(())
}
