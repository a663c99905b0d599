//! Deltas that are applied to the file of their base: it is the whole base or the whole target.

use holdall::convert::convert;
use holdall::delta::{ApplyOptions, InPlaceOptions, MakeOptions, apply, apply_in_place, make};
use holdall::{
    Convert, DType, DiffOptions, Role, TensorSpec, Value, VerifyOptions, WriteOptions, Writer,
};
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name)
}

/// Writes a model; those of two seeds differ in a few elements, in an attribute and in three tensors.
fn write(path: &Path, seed: u8) {
    let pair = |key: &str, value: &str| (key.to_owned(), Value::Text(value.to_owned()));
    let attributes = match seed {
        0 => [pair("kept", "yes"), pair("only", "old")],
        _ => [pair("kept", "yes"), pair("step", "1")],
    };
    let options = WriteOptions::new().with_attributes(attributes.into_iter().collect());
    let mut writer = Writer::create(path, &options).unwrap();
    for at in 0..6u8 {
        let mut bytes: Vec<u8> = (0..400_000u32).map(|i| (i * 7 + u32::from(at)) as u8).collect();
        if at % 2 == 0 {
            bytes.iter_mut().step_by(997).for_each(|byte| *byte ^= seed);
        }
        writer
            .add(TensorSpec::dense(format!("w{at}"), DType::Bf16, [200, 1000]), &[&bytes])
            .unwrap();
    }
    let mut tied = TensorSpec::dense("tied", DType::Bf16, [200, 1000]);
    tied.components[0].shares =
        Some(holdall::ComponentRef { tensor: "w1".into(), role: Role::Data });
    writer.add(tied, &[]).unwrap();
    let name = if seed == 0 { "gone" } else { "new" };
    writer.add(TensorSpec::dense(name, DType::F32, [3]), &[&[seed; 12]]).unwrap();
    writer.finish().unwrap();
}

struct Made {
    folder: tempfile::TempDir,
    change: PathBuf,
}

impl Made {
    fn new() -> Made {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write(&at("base.zt"), 0);
        write(&at("target.zt"), 1);
        let (base, target) =
            (holdall::open(at("base.zt")).unwrap(), holdall::open(at("target.zt")).unwrap());
        make(&base, &target, at("change.zt"), &MakeOptions::default()).unwrap();
        let change = at("change.zt");
        Made { folder, change }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Applies the delta to a copy of the base. Returns `None` where the file system cannot do it.
    fn apply(&self, change: &Path) -> Option<holdall::Result<holdall::delta::ApplyReport>> {
        std::fs::copy(self.at("base.zt"), self.at("model.zt")).unwrap();
        let change = holdall::open(change).unwrap();
        let done = apply_in_place(self.at("model.zt"), &change, &InPlaceOptions::default());
        match &done {
            Err(e) if e.code() == "delta/not-in-place" => {
                assert!(e.to_string().contains("file system"), "{e}");
                eprintln!("skipped: {e}");
                None
            }
            _ => Some(done),
        }
    }
}

#[test]
fn the_base_becomes_the_target() {
    let made = Made::new();
    let Some(done) = made.apply(&made.change) else { return };
    let report = done.unwrap();
    assert_eq!((report.tensors, report.changed, report.whole, report.removed), (8, 3, 1, 1));
    assert_eq!(report.len, made.at("model.zt").metadata().unwrap().len());
    let model = holdall::open(made.at("model.zt")).unwrap();
    let target = holdall::open(made.at("target.zt")).unwrap();
    let differences = holdall::diff(&model, &target, &DiffOptions::new()).unwrap();
    assert!(differences.is_identical(), "{differences:?}");
    assert_eq!(model.attributes().get("step"), Some(&Value::Text("1".into())));
    assert_eq!(model.attributes().get("only"), None);
    let places = |name: &str| model.tensor(name).unwrap().components().next().unwrap().stored;
    assert_eq!(places("w1"), places("tied"), "tensors that did not change stay tied");
    let verified = holdall::verify(&model, &VerifyOptions::new()).unwrap();
    assert!(verified.is_sound(), "{verified:?}");

    // Again: it is the target already.
    let before = std::fs::read(made.at("model.zt")).unwrap();
    let change = holdall::open(&made.change).unwrap();
    let again = apply_in_place(made.at("model.zt"), &change, &InPlaceOptions::default()).unwrap();
    assert!(again.was_applied);
    assert_eq!(std::fs::read(made.at("model.zt")).unwrap(), before);
}

/// A delta whose last tensor does not get its digest: the file has the same bytes as before.
#[test]
fn a_wrong_target_leaves_the_base() {
    let made = Made::new();
    let mut bytes = std::fs::read(&made.change).unwrap();
    let change = holdall::open(&made.change).unwrap();
    let tensor = change.tensor("w4").unwrap();
    let target = tensor.attributes().get("target").unwrap().as_text().unwrap().to_owned();
    let at = bytes.windows(target.len()).position(|part| part == target.as_bytes()).unwrap();
    let last = &mut bytes[at + target.len() - 1];
    *last = if *last == b'0' { b'1' } else { b'0' };
    let wrong = made.at("wrong.zt");
    std::fs::write(&wrong, bytes).unwrap();
    let Some(done) = made.apply(&wrong) else { return };
    assert_eq!(done.unwrap_err().code(), "delta/target");
    let bytes = |name: &str| std::fs::read(made.at(name)).unwrap();
    assert!(bytes("model.zt") == bytes("base.zt"));

    // Another base is refused before anything is written.
    let other = holdall::open(corpus("accept/ztensor/delta-all.zt")).unwrap();
    let e = apply_in_place(made.at("model.zt"), &other, &InPlaceOptions::default()).unwrap_err();
    assert_eq!(e.code(), "delta/base");
    assert!(bytes("model.zt") == bytes("base.zt"));
}

#[test]
fn bases_that_cannot_stay_valid_are_refused_with_the_reason() {
    let made = Made::new();
    let base = holdall::open(made.at("base.zt")).unwrap();
    let change = holdall::open(&made.change).unwrap();
    let sharded = Convert::new(WriteOptions::new()).with_max_shard_len(1 << 20);
    convert(&base, made.at("model"), &sharded).unwrap();
    convert(&base, made.at("model.safetensors"), &Convert::new(WriteOptions::new())).unwrap();
    let small = made.at("small.zt");
    std::fs::copy(corpus("accept/ztensor/delta-small_base.zt"), &small).unwrap();
    let small_change = holdall::open(corpus("accept/ztensor/delta-small_mask.zt")).unwrap();
    for (path, change, why) in [
        (made.at("model.safetensors"), &change, "header is before its data"),
        (made.at("model"), &change, "header is before its data"),
        (small, &small_change, "no page boundary"),
    ] {
        let e = apply_in_place(&path, change, &InPlaceOptions::default()).unwrap_err();
        assert_eq!(e.code(), "delta/not-in-place", "{e}");
        assert!(e.to_string().contains(why), "{e}");
        // Such a base can be written anew.
        let to = made.at("anew.zt");
        let mut options = ApplyOptions::default();
        options.write.overwrite = true;
        apply(&holdall::open(&path).unwrap(), change, &to, &options).unwrap();
    }
}
