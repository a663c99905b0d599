//! Deltas between models: files by another writer, every kind of element, wrong bases, damaged deltas.

use holdall::convert::convert;
use holdall::delta::{ApplyOptions, MakeOptions, apply, make, show};
use holdall::{
    Attributes, Convert, DType, File, Layout, LogicalType, TensorSpec, Value, WriteOptions, Writer,
};
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name)
}

fn accepted(name: &str) -> File {
    holdall::open(corpus("accept/ztensor").join(name)).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn dense(file: &File, name: &str) -> Vec<u8> {
    file.tensor(name).unwrap().to_dense().unwrap().bytes().to_vec()
}

/// The hashes of the target were computed by the writer of the files.
#[test]
fn a_delta_of_another_writer_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let (base, delta) = (accepted("delta-base.zt"), accepted("delta-all.zt"));
    for name in ["target.zt", "target.safetensors"] {
        let path = folder.path().join(name);
        let report = apply(&base, &delta, &path, &ApplyOptions::default()).unwrap();
        assert_eq!((report.tensors, report.removed, report.was_applied), (6, 1, false));
        let target = holdall::open(&path).unwrap();
        let expected = [
            ("a", "9b5f065ff5e964a540603045f8c81769ce6176818c19058685d24bd17b232fc7"),
            ("b", "b082c4de0a8c4311aef674d479adc8134fa4da2f18282fd9b07eced4170df5e5"),
            ("c", "a96a1c7df82d7295b674327c8e7f4546bc185d12c17a503ce82f8863dec642fb"),
            ("new", "e2c0a71510b5394df7773b63fb5f54372b84c3564e67811bde7d665be227976d"),
            ("special", "d26a0b8b99b0170e1a5190e8ce83ad1fe1434994e101dee34f201551ba7a8232"),
            ("f8", "6350de4819495217d75dc8c8281517a3e36fe737adebc95c6ec1aaba33fedfb7"),
        ];
        assert_eq!(target.len(), expected.len());
        for (tensor, hash) in expected {
            assert_eq!(sha256(&dense(&target, tensor)), hash, "{name}: {tensor}");
        }
        assert!(target.attributes().get("delta").is_none());
        // Applied to its target, it changes nothing.
        let again = folder.path().join(format!("again-{name}"));
        let report = apply(&target, &delta, &again, &ApplyOptions::default()).unwrap();
        assert!(report.was_applied);
    }
    let shown = show(&delta).unwrap();
    let changed: Vec<_> = shown.tensors.iter().map(|t| (&*t.name, t.changed)).collect();
    let expected = [
        ("a", Some(2227)),
        ("b", Some(24576)),
        ("f8", Some(676)),
        ("new", None),
        ("special", Some(12)),
    ];
    assert_eq!(changed, expected);
    assert_eq!(shown.removed, ["gone"]);
}

#[test]
fn small_deltas_are_applied_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let base = accepted("delta-small_base.zt");
    let to = folder.path().join("t.zt");
    for name in ["delta-small_gaps.zt", "delta-small_mask.zt"] {
        let mut options = ApplyOptions::default();
        options.write.overwrite = true;
        apply(&base, &accepted(name), &to, &options).unwrap();
        let hash = sha256(&dense(&holdall::open(&to).unwrap(), "t"));
        assert_eq!(hash, "de5b2c382019d8d859558700c338a5861c526edb5835a5696a705844aa59d524");
    }
    let mut refused: Vec<(PathBuf, &str)> = ["base", "dtype", "stranger"]
        .map(|name| (corpus("accept/ztensor").join(format!("delta-other_{name}.zt")), "delta/base"))
        .into();
    for (name, code) in [
        ("delta.components.golden-neither.zt", "delta/components"),
        ("delta.gap.golden-past.zt", "delta/gap"),
        ("delta.gap.golden-255.zt", "delta/gap"),
        ("delta.gap.golden-shape.zt", "delta/gap"),
        ("delta.length.golden-mask.zt", "delta/length"),
        ("delta.changed.golden-starts.zt", "delta/changed"),
        ("delta.length.golden-changed.zt", "delta/length"),
        ("delta.value.golden-largest.zt", "delta/value"),
        ("delta.attribute.golden-digest.zt", "delta/attribute"),
        ("delta.spare-bits.golden-set.zt", "delta/spare-bits"),
    ] {
        refused.push((corpus("reject/ztensor").join(name), code));
    }
    let to = folder.path().join("never.zt");
    for (path, code) in refused {
        let spare = path.ends_with("delta.spare-bits.golden-set.zt");
        let base = if spare { accepted("delta-small_base_597.zt") } else { base.clone() };
        let delta = holdall::open(&path).unwrap();
        let e = apply(&base, &delta, &to, &ApplyOptions::default()).unwrap_err();
        assert_eq!(e.code(), code, "{}: {e}", path.display());
        assert!(!to.exists());
        if code != "delta/base" {
            let found = holdall::verify(&delta, &holdall::VerifyOptions::new()).unwrap();
            assert!(!found.is_sound(), "{}", path.display());
        }
    }
}

#[test]
fn a_delta_is_not_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let delta = accepted("delta-all.zt");
    let to = folder.path().join("x.zt");
    let e = convert(&delta, &to, &Convert::new(WriteOptions::new())).unwrap_err();
    assert_eq!(e.code(), "delta/not-a-model");
    let e = make(&delta, &delta, &to, &MakeOptions::default()).unwrap_err();
    assert_eq!(e.code(), "delta/unfit");
    let e = apply(&delta, &delta, &to, &ApplyOptions::default()).unwrap_err();
    assert_eq!(e.code(), "delta/unfit");
    let base = accepted("delta-base.zt");
    let e = apply(&base, &base, &to, &ApplyOptions::default()).unwrap_err();
    assert_eq!(e.code(), "delta/not-a-delta");
    let found = holdall::verify(&delta, &holdall::VerifyOptions::new()).unwrap();
    assert!(found.is_sound(), "{found:?}");
    assert!(!to.exists());
}

/// A generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn write(path: &Path, tensors: &[(TensorSpec, Vec<u8>)]) -> File {
    let options = WriteOptions::new().with_overwrite(true);
    let mut writer = Writer::create(path, &options).unwrap();
    for (spec, bytes) in tensors {
        writer.add(spec.clone(), &[bytes]).unwrap();
    }
    writer.finish().unwrap();
    holdall::open(path).unwrap()
}

/// Models of all types, changed in a few elements, in many, in all, in none: making and applying gives the target.
#[test]
fn what_is_made_gives_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let f8 = Some(LogicalType::F8E4M3Fn);
    let types = [
        (DType::F32, None),
        (DType::Bf16, None),
        (DType::F16, None),
        (DType::F64, None),
        (DType::U8, f8),
        (DType::I8, None),
        (DType::U16, None),
        (DType::I64, None),
        (DType::U32, None),
    ];
    for case in 0..24u64 {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (at, (dtype, logical)) in types.iter().enumerate() {
            // Some longer than a block.
            let count = if case == 0 { (1 << 20) + 77 + at as u64 } else { random.next() % 3000 };
            let width = dtype.width();
            let bytes: Vec<u8> = (0..count * width).map(|_| random.next() as u8).collect();
            let mut changed = bytes.clone();
            let every = [3, 40, 1000, u64::MAX][((case + at as u64) % 4) as usize];
            for element in changed.chunks_exact_mut(width as usize) {
                if every < u64::MAX && random.next().is_multiple_of(every) {
                    let byte = random.next() % width;
                    element[byte as usize] ^= (random.next() as u8).max(1);
                }
            }
            let mut spec = TensorSpec::dense(format!("t{at}"), *dtype, [count]);
            spec.components[0].logical_type = logical.clone();
            spec.attributes.set("kept", Value::Integer(at as i128));
            old.push((spec.clone(), bytes));
            new.push((spec, changed));
        }
        if case % 3 == 0 {
            new.push((TensorSpec::dense("added", DType::F32, [2]), vec![0; 8]));
        }
        if case % 4 == 1 {
            new.remove(2);
        }
        if case % 5 == 2 {
            new[1].0.shape = vec![new[1].0.shape[0], 1];
            new[3].0.attributes.set("kept", Value::Text("other".into()));
        }
        let base = write(&folder.path().join("base.zt"), &old);
        let target = write(&folder.path().join("target.zt"), &new);
        let mut options = MakeOptions::default();
        options.write.overwrite = true;
        let path = folder.path().join("d.zt");
        let report = make(&base, &target, &path, &options).unwrap();
        assert_eq!(report.changed + report.whole + report.unchanged, new.len() as u64);
        let delta = holdall::open(&path).unwrap();
        assert!(holdall::verify(&delta, &holdall::VerifyOptions::new()).unwrap().is_sound());
        let mut options = ApplyOptions::default();
        options.write.overwrite = true;
        let out = folder.path().join("out.zt");
        apply(&base, &delta, &out, &options).unwrap();
        let out = holdall::open(&out).unwrap();
        assert_eq!(out.len(), target.len(), "case {case}");
        for tensor in target.tensors() {
            let made = out.tensor(tensor.name()).unwrap();
            assert_eq!(made.shape(), tensor.shape());
            assert_eq!(made.attributes(), tensor.attributes(), "case {case}");
            assert_eq!(made.dense_type(), tensor.dense_type());
            assert!(dense(&out, tensor.name()) == dense(&target, tensor.name()), "case {case}");
            assert_eq!(made.layout(), &Layout::Dense);
        }
        // Another base is refused, also if it differs only where the delta changes nothing.
        if report.unchanged > 0 {
            let at = (0..old.len()).find(|at| {
                new.iter().any(|(spec, bytes)| *spec == old[*at].0 && *bytes == old[*at].1)
            });
            let Some(at) = at.filter(|at| !old[*at].1.is_empty()) else { continue };
            old[at].1[0] ^= 1;
            let other = write(&folder.path().join("other.zt"), &old);
            let e = apply(&other, &delta, folder.path().join("never.zt"), &options).unwrap_err();
            assert_eq!(e.code(), "delta/base", "case {case}: {e}");
        }
    }
}

/// An attribute of this name does not make a delta of a model, and is not overwritten in one.
#[test]
fn a_model_may_have_an_attribute_called_delta() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zt");
    let own = Value::Map(vec![(Value::Text("lr".into()), Value::Float(0.1))]);
    let attributes = [("delta".to_owned(), own.clone())].into_iter().collect();
    let mut writer =
        Writer::create(&path, &WriteOptions::new().with_attributes(attributes)).unwrap();
    writer.add(TensorSpec::dense("t", DType::F32, [2]), &[&[0; 8]]).unwrap();
    writer.finish().unwrap();
    let model = holdall::open(&path).unwrap();
    let copy = folder.path().join("b.zt");
    convert(&model, &copy, &Convert::new(WriteOptions::new())).unwrap();
    let copy = holdall::open(&copy).unwrap();
    assert_eq!(copy.attributes().get("delta"), Some(&own));
    let to = folder.path().join("d.zt");
    let e = make(&accepted("delta-base.zt"), &model, &to, &MakeOptions::default()).unwrap_err();
    assert_eq!(e.code(), "delta/unfit");
    assert!(!to.exists());
}

#[test]
fn ties_that_a_delta_does_not_have_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, byte: u8| {
        let path = folder.path().join(name);
        let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
        let spec = |name: &str| TensorSpec::dense(name, DType::F32, [64]);
        writer.add(spec("a"), &[&[byte; 256]]).unwrap();
        let mut tied = spec("b");
        tied.components[0].shares =
            Some(holdall::ComponentRef { tensor: "a".into(), role: holdall::Role::Data });
        writer.add(tied, &[]).unwrap();
        writer.finish().unwrap();
        holdall::open(&path).unwrap()
    };
    let (base, target) = (write("base.zt", 1), write("target.zt", 2));
    let report = make(&base, &target, folder.path().join("d.zt"), &MakeOptions::default()).unwrap();
    assert_eq!(report.not_covered, ["which tensors share their bytes"]);
}

/// A model of up to four tensors with one of a few values, types and shapes, so that two models often have some in common.
fn small_model(random: &mut Random, path: &Path) -> File {
    let mut options = WriteOptions::new().with_overwrite(true);
    if random.next().is_multiple_of(3) {
        let licence = ["MIT", "Apache-2.0"][(random.next() % 2) as usize];
        let mut attributes = Attributes::new();
        attributes.set("licence", Value::Text(licence.into()));
        options = options.with_attributes(attributes);
    }
    let mut writer = Writer::create(path, &options).unwrap();
    for name in ["a", "b", "c", "d"] {
        if random.next().is_multiple_of(4) {
            continue;
        }
        let shape = [vec![4, 25], vec![100]][usize::from(random.next().is_multiple_of(8))].clone();
        let dtype = [DType::F32, DType::U32][usize::from(random.next().is_multiple_of(8))];
        let mut spec = TensorSpec::dense(name, dtype, shape);
        if random.next().is_multiple_of(8) {
            spec.attributes.set("note", Value::Text("kept".into()));
        }
        let mut elements = [0u32; 100];
        elements[(random.next() % 3) as usize] = (random.next() % 2) as u32;
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
        writer.add(spec, &[&bytes]).unwrap();
    }
    writer.finish().unwrap();
    holdall::open(path).unwrap()
}

/// Whatever a delta is applied to, the result is its target or an error.
#[test]
fn a_result_is_the_target_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut random = Random(0xD17A);
    let (mut applied, mut refused) = (0, 0);
    for _ in 0..400 {
        let base = small_model(&mut random, &path("base.zt"));
        let target = small_model(&mut random, &path("target.zt"));
        let other = small_model(&mut random, &path("other.zt"));
        let mut options = MakeOptions::default();
        options.write = WriteOptions::new().with_overwrite(true);
        make(&base, &target, path("delta.zt"), &options).unwrap();
        let delta = holdall::open(path("delta.zt")).unwrap();
        for start in [&base, &target, &other] {
            let mut options = ApplyOptions::default();
            options.write = WriteOptions::new().with_overwrite(true);
            match apply(start, &delta, path("result.zt"), &options) {
                Ok(_) => {
                    applied += 1;
                    let result = holdall::open(path("result.zt")).unwrap();
                    let diff = holdall::diff(&result, &target, &holdall::DiffOptions::new());
                    let diff = diff.unwrap();
                    assert!(diff.is_identical(), "{diff:?}");
                }
                Err(e) => {
                    assert!(!std::ptr::eq(start, &base), "the base itself is refused: {e}");
                    assert_eq!(e.code(), "delta/base", "{e}");
                    refused += 1;
                }
            }
        }
    }
    assert!(applied > 800 && refused > 100, "{applied} applied, {refused} refused");
}
