//! Folding deltas: the effect is that of applying one after the other.

use holdall::delta::{FoldOptions, MakeOptions, apply, fold, make, show};
use holdall::{
    Attributes, ComponentSpec, DType, File, Layout, LogicalType, Role, TensorSpec, Value,
    WriteOptions, Writer,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
}

type Model = BTreeMap<String, (TensorSpec, Vec<Vec<u8>>)>;

fn tensor(name: &str, random: &mut Random) -> (TensorSpec, Vec<Vec<u8>>) {
    let types = [
        (DType::Bf16, None),
        (DType::F32, None),
        (DType::U8, Some(LogicalType::F8E4M3Fn)),
        (DType::I64, None),
    ];
    let bytes = |len: u64, random: &mut Random| (0..len).map(|_| random.next() as u8).collect();
    if random.below(8) == 0 {
        // Of several components.
        let count = random.below(9);
        let spec = TensorSpec {
            name: name.to_owned(),
            shape: vec![count],
            layout: Layout::Other("pair".into()),
            attributes: Attributes::new(),
            components: ["a", "b"]
                .map(|role| ComponentSpec::new(Role::from_name(role), DType::U8, count))
                .into(),
        };
        return (spec, vec![bytes(count, random), bytes(count, random)]);
    }
    let (dtype, logical) = types[random.below(4) as usize].clone();
    let shape = [[40, 5], [200, 1], [1, 0]][random.below(3) as usize];
    let mut spec = TensorSpec::dense(name, dtype, shape);
    spec.components[0].logical_type = logical;
    if random.below(2) == 0 {
        spec.attributes.set("seen", Value::Integer(random.below(3).into()));
    }
    let len = spec.components[0].decoded_len;
    (spec, vec![bytes(len, random)])
}

/// Changes a model: elements (some of them back to what they were), types, attributes, tensors that go, come and come back.
fn change(model: &Model, old: &Model, random: &mut Random) -> Model {
    let mut out = model.clone();
    let names: Vec<String> = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
    for name in &names {
        match (random.below(10), out.contains_key(name)) {
            (0 | 1, true) => {
                out.remove(name);
            }
            (2 | 3, _) => {
                out.insert(name.clone(), tensor(name, random));
            }
            (4, true) => {
                if let Some(before) = old.get(name) {
                    out.insert(name.clone(), before.clone());
                }
            }
            (5..9, true) => {
                for bytes in &mut out.get_mut(name).unwrap().1 {
                    for byte in bytes.iter_mut() {
                        if random.below(12) == 0 {
                            *byte = random.next() as u8;
                        }
                    }
                }
            }
            _ => {}
        }
    }
    out
}

fn write(path: &Path, model: &Model, label: i128) -> File {
    let attributes = [("label".to_owned(), Value::Integer(label))].into_iter().collect();
    let options = WriteOptions::new().with_overwrite(true).with_attributes(attributes);
    let mut writer = Writer::create(path, &options).unwrap();
    for (spec, bytes) in model.values() {
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        writer.add(spec.clone(), &bytes).unwrap();
    }
    writer.finish().unwrap();
    holdall::open(path).unwrap()
}

fn assert_equal(made: &File, target: &File, case: u64) {
    assert_eq!(made.len(), target.len(), "case {case}");
    assert_eq!(made.attributes(), target.attributes(), "case {case}");
    for tensor in target.tensors() {
        let own = made.tensor(tensor.name()).unwrap();
        assert_eq!(own.shape(), tensor.shape(), "case {case}: {}", tensor.name());
        assert_eq!(own.layout(), tensor.layout(), "case {case}: {}", tensor.name());
        assert_eq!(own.attributes(), tensor.attributes(), "case {case}: {}", tensor.name());
        for c in tensor.components() {
            let bytes = |tensor: &holdall::Tensor| tensor.checked().bytes(&c.role).unwrap();
            assert!(bytes(&own) == bytes(&tensor), "case {case}: {}", tensor.name());
        }
    }
}

#[test]
fn a_folded_delta_has_the_effect_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: String| -> PathBuf { folder.path().join(name) };
    for case in 0..60u64 {
        let mut random = Random(0x1234_5678_9ABC_DEF1 ^ (case << 32) ^ case);
        let mut models = vec![Model::new()];
        for name in ["a", "b", "c", "d"] {
            models[0].insert(name.to_owned(), tensor(name, &mut random));
        }
        for n in 0..1 + random.below(4) as usize {
            let old = models[n.saturating_sub(1)].clone();
            let new = change(&models[n], &old, &mut random);
            models.push(new);
        }
        let files: Vec<File> = models
            .iter()
            .enumerate()
            .map(|(n, model)| write(&at(format!("m{n}.zt")), model, n as i128))
            .collect();
        let mut options = MakeOptions::default();
        options.write.overwrite = true;
        let deltas: Vec<File> = files
            .windows(2)
            .enumerate()
            .map(|(n, pair)| {
                let path = at(format!("d{n}.zt"));
                make(&pair[0], &pair[1], &path, &options).unwrap();
                holdall::open(path).unwrap()
            })
            .collect();
        let path = at("folded.zt".into());
        let mut options = FoldOptions::default();
        options.write.overwrite = true;
        fold(&deltas, &path, &options).unwrap_or_else(|e| panic!("case {case}: {e}"));
        let folded = holdall::open(&path).unwrap();
        show(&folded).unwrap();
        let mut options = holdall::delta::ApplyOptions::default();
        options.write.overwrite = true;
        let out = at("out.zt".into());
        apply(&files[0], &folded, &out, &options).unwrap_or_else(|e| panic!("case {case}: {e}"));
        assert_equal(&holdall::open(&out).unwrap(), files.last().unwrap(), case);
    }
}

#[test]
fn deltas_that_do_not_follow_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut random = Random(99);
    let model = |byte: u8| -> Model {
        let spec = TensorSpec::dense("a", DType::F32, [100]);
        [("a".to_owned(), (spec, vec![vec![byte; 400]]))].into()
    };
    let mut other = model(3);
    other.insert("b".into(), tensor("b", &mut random));
    let files: Vec<File> = [model(1), model(2), model(3), other]
        .iter()
        .enumerate()
        .map(|(n, model)| write(&at(&format!("m{n}.zt")), model, 0))
        .collect();
    let delta = |from: usize, to: usize| {
        let path = at(&format!("d{from}{to}.zt"));
        make(&files[from], &files[to], &path, &MakeOptions::default()).unwrap();
        holdall::open(path).unwrap()
    };
    let to = at("folded.zt");
    let (first, second, third) = (delta(0, 1), delta(1, 2), delta(2, 3));
    for wrong in [vec![first.clone(), third.clone()], vec![second.clone(), first.clone()]] {
        let e = fold(&wrong, &to, &FoldOptions::default()).unwrap_err();
        assert_eq!(e.code(), "delta/chain");
    }
    let e = fold(&[first.clone(), files[0].clone()], &to, &FoldOptions::default()).unwrap_err();
    assert_eq!(e.code(), "delta/not-a-delta");
    assert!(fold(&[], &to, &FoldOptions::default()).is_err());
    assert!(!to.exists());
    let report = fold(&[first, second, third], &to, &FoldOptions::default()).unwrap();
    assert_eq!((report.changed, report.whole), (1, 1));
}
