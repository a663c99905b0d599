//! Files in the smallest encoding of each tensor: the same contents, in fewer bytes than any single encoding.

use holdall::convert::convert;
use holdall::{
    ComponentRef, ComponentSpec, Convert, DType, DiffOptions, Encoding, File, Layout, LogicalType,
    Role, TensorSpec, Value, VerifyOptions, WriteOptions, Writer, formats,
};
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

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Returns a number of a bell curve, like one of a trained weight.
    fn weight(&mut self) -> f32 {
        let uniform = |x: u64| (x >> 40) as f32 / (1u64 << 24) as f32;
        ((0..12).map(|_| uniform(self.next())).sum::<f32>() - 6.) * 0.05
    }
}

/// A tensor, its bytes (none if it shares those of another), and how it should be stored.
type Case = (TensorSpec, Option<Vec<u8>>, &'static str);

fn cases() -> Vec<Case> {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let weights: Vec<f32> = (0..500_000).map(|_| random.weight()).collect();
    let f32s: Vec<u8> = weights.iter().flat_map(|x| x.to_le_bytes()).collect();
    let bf16s: Vec<u8> =
        weights.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect();
    let f64s: Vec<u8> =
        weights.iter().take(100_000).flat_map(|x| f64::from(*x).to_le_bytes()).collect();
    // A pattern of a thousand floats, again and again: zstd finds it, planes of literals do not.
    let again: Vec<u8> = f32s.iter().copied().cycle().take(4000).collect();
    let again: Vec<u8> = again.iter().copied().cycle().take(800_000).collect();
    let fp8: Vec<u8> = (0..200_000).map(|_| 0x38 ^ (random.next() & random.next()) as u8).collect();
    let indices: Vec<u8> = (0..100_000u64).flat_map(|i| (i * 3).to_le_bytes()).collect();
    let mut attributed = TensorSpec::dense("bf16", DType::Bf16, [500, 1000]);
    attributed.attributes.set("note", Value::Text("kept".into()));
    let mut tied = TensorSpec::dense("tied", DType::Bf16, [500, 1000]);
    tied.components[0].shares = Some(ComponentRef { tensor: "bf16".into(), role: Role::Data });
    let mut float8 = TensorSpec::dense("fp8", DType::U8, [200_000]);
    float8.components[0].logical_type = Some(LogicalType::F8E4M3Fn);
    vec![
        (attributed, Some(bf16s), "planes"),
        (tied, None, "planes"),
        (TensorSpec::dense("f32", DType::F32, [500_000]), Some(f32s), "planes"),
        (TensorSpec::dense("f64", DType::F64, [100_000]), Some(f64s), "planes"),
        (TensorSpec::dense("again", DType::F32, [200, 1000]), Some(again), "zstd"),
        (float8, Some(fp8), "zstd"),
        (TensorSpec::dense("indices", DType::U64, [100_000]), Some(indices), "zstd"),
        (TensorSpec::dense("noise", DType::U8, [300_000]), Some(random.bytes(300_000)), "raw"),
        (TensorSpec::dense("noisy", DType::F16, [150_000]), Some(random.bytes(300_000)), "raw"),
        (TensorSpec::dense("small", DType::F32, [2]), Some(vec![1; 8]), "raw"),
        (TensorSpec::dense("empty", DType::F32, [0, 3]), Some(Vec::new()), "raw"),
        (TensorSpec::dense("scalar", DType::F64, []), Some(vec![7; 8]), "raw"),
    ]
}

fn write(path: &Path, options: &WriteOptions) {
    let mut writer = Writer::create(path, options).unwrap();
    for (spec, bytes, _) in cases() {
        writer.tensor(spec).unwrap();
        for chunk in bytes.unwrap_or_default().chunks(65_537) {
            writer.write(chunk).unwrap();
        }
    }
    writer.finish().unwrap();
}

fn stored_as(file: &File, name: &str) -> &'static str {
    let tensor = file.tensor(name).unwrap();
    match tensor.layout() {
        Layout::Planes(_) => "planes",
        _ if tensor.components().any(|c| c.encoding != Encoding::Raw) => "zstd",
        _ => "raw",
    }
}

fn check(file: &File, what: &str) {
    for (spec, bytes, expected) in cases() {
        let name = &spec.name;
        // A tensor in planes stays there.
        let stays = what == "planes.zt" && name == "again";
        let expected = if stays { "planes" } else { expected };
        assert_eq!(stored_as(file, name), expected, "{what}: {name}");
        let tensor = file.tensor(name).unwrap();
        if let Some(bytes) = bytes {
            assert!(tensor.to_dense().unwrap().bytes()[..] == bytes[..], "{what}: {name}");
        }
        assert_eq!(tensor.attributes(), &spec.attributes, "{what}: {name}");
        assert_eq!(tensor.dense_type().unwrap().dtype, spec.components[0].dtype, "{what}: {name}");
    }
    let places = |name: &str| -> Vec<_> {
        file.tensor(name).unwrap().components().map(|c| c.stored).collect()
    };
    assert_eq!(places("bf16"), places("tied"), "{what}: ties are kept");
    let verified = holdall::verify(file, &VerifyOptions::new()).unwrap();
    assert!(verified.is_sound(), "{what}: {verified:?}");
}

#[test]
fn each_tensor_has_its_smallest_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("raw.zt"), &WriteOptions::new());
    let source = holdall::open(path("raw.zt")).unwrap();
    let smallest = Convert::new(WriteOptions::new().with_smallest()).reencode();
    let report = convert(&source, path("smallest.zt"), &smallest).unwrap();
    assert!(report.left_behind.is_empty(), "{:?}", report.left_behind);
    assert_eq!((report.tensors, report.in_planes, report.compressed), (12, 4, 3));
    let made = holdall::open(path("smallest.zt")).unwrap();
    check(&made, "converted");
    // No single encoding is smaller.
    for (name, write) in [
        ("zstd.zt", WriteOptions::new().with_zstd(3)),
        ("planes.zt", WriteOptions::new().with_planes()),
    ] {
        let report = convert(&source, path(name), &Convert::new(write).reencode()).unwrap();
        let (other, own) = (report.target_len, made.index().source_len());
        assert!(own < other, "{name}: {own} of {other}");
    }
    // From an encoding that is not the smallest, and from one that is in planes already.
    for name in ["zstd.zt", "planes.zt", "smallest.zt"] {
        let again = path(&format!("again-{name}"));
        convert(&holdall::open(path(name)).unwrap(), &again, &smallest).unwrap();
        check(&holdall::open(&again).unwrap(), name);
    }
    let safetensors = path("dense.safetensors");
    convert(&made, &safetensors, &Convert::new(WriteOptions::new())).unwrap();
    let back = holdall::open(&safetensors).unwrap();
    let differences = holdall::diff(&made, &back, &DiffOptions::new()).unwrap();
    assert!(differences.values_agree(), "{differences:?}");

    write(&path("written.zt"), &WriteOptions::new().with_smallest());
    check(&holdall::open(path("written.zt")).unwrap(), "written");
}

/// Sparse and quantized tensors, records, unknown layouts and everything else that the corpus has.
#[test]
fn files_of_the_corpus_keep_their_contents() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept");
    let mut kept = 0;
    for of in ["ztensor", "metatensor", "safetensors"] {
        let mut paths: Vec<PathBuf> =
            corpus.join(of).read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let Ok(file) = holdall::open(&path) else { continue };
            let (plain, small) = (folder.path().join("plain.zt"), folder.path().join("small.zt"));
            let write = WriteOptions::new().with_overwrite(true);
            if convert(&file, &plain, &Convert::new(write.clone())).is_err() {
                continue;
            }
            let smallest = Convert::new(write.with_smallest()).reencode();
            let name = path.display();
            let report = convert(&file, &small, &smallest);
            let report = report.unwrap_or_else(|e| panic!("{name}: {e}"));
            let (plain, small) = (holdall::open(&plain).unwrap(), holdall::open(&small).unwrap());
            let shared = |file: &File| {
                let places = |t: holdall::Tensor| t.components().map(|c| c.stored).collect();
                let all: Vec<Vec<_>> = file.tensors().map(places).collect();
                let mut all = all.concat();
                all.sort();
                let len = all.len();
                all.dedup();
                len - all.len()
            };
            if report.in_planes == 0 {
                assert_eq!(shared(&plain), shared(&small), "{name}");
            }
            let differences = holdall::diff(&plain, &small, &DiffOptions::new()).unwrap();
            assert!(differences.values_agree(), "{name}: {differences:?}");
            assert!(differences.changed.is_empty(), "{name}: {differences:?}");
            // As text, in which a NaN is one.
            let attributes = |file: &File| format!("{:?}", file.attributes());
            assert_eq!(attributes(&plain), attributes(&small), "{name}");
            kept += 1;
        }
    }
    assert!(kept > 60, "{kept}");
}

/// Components that come in pieces, several of them from one reader, get their encodings too.
#[test]
fn components_are_sampled_as_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.zt");
    let mut random = Random(7);
    let (noise, zeros) = (random.bytes(3 << 20), vec![0u8; (1 << 20) + 17]);
    let spec = |name: &str| TensorSpec {
        name: name.to_owned(),
        shape: vec![3],
        layout: Layout::Other("two.parts".into()),
        attributes: Default::default(),
        components: vec![
            ComponentSpec::new(Role::from_name("zeros"), DType::U8, zeros.len() as u64),
            ComponentSpec::new(Role::from_name("none"), DType::U8, 0),
            ComponentSpec::new(Role::from_name("noise"), DType::U8, noise.len() as u64),
        ],
    };
    let mut writer = Writer::create(&path, &WriteOptions::new().with_smallest()).unwrap();
    let all = [&zeros[..], &noise].concat();
    writer.add_from(spec("read"), &all[..]).unwrap();
    writer.tensor(spec("given")).unwrap();
    all.chunks(999_983).for_each(|chunk| writer.write(chunk).unwrap());
    writer.tensor(spec("short")).unwrap();
    writer.write(&all[..40]).unwrap();
    let e = writer.finish().unwrap_err();
    let missing = format!("{} of the declared bytes are missing", zeros.len() - 40);
    assert!(e.to_string().contains(&missing), "{e}");

    let mut writer = Writer::create(&path, &WriteOptions::new().with_smallest()).unwrap();
    writer.add_from(spec("read"), &all[..]).unwrap();
    writer.add(spec("given"), &[&zeros, &noise]).unwrap();
    writer.finish().unwrap();
    let file = holdall::open(&path).unwrap();
    for name in ["read", "given"] {
        let tensor = file.tensor(name).unwrap();
        for (role, encoding) in
            [("zeros", Encoding::ZSTD), ("none", Encoding::Raw), ("noise", Encoding::Raw)]
        {
            let c = tensor.component(&Role::from_name(role)).unwrap();
            assert_eq!(c.encoding, encoding, "{name} {role}");
        }
        for (role, bytes) in [("zeros", &zeros), ("noise", &noise)] {
            assert!(
                tensor.bytes(&Role::from_name(role)).unwrap()[..] == bytes[..],
                "{name} {role}"
            );
        }
    }
}

#[test]
fn formats_without_planes_refuse() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["safetensors", "gguf", "metatensor"] {
        let options =
            WriteOptions::new().with_smallest().with_format(formats::by_name(name).unwrap());
        let e = Writer::create(folder.path().join("x"), &options).err().unwrap();
        assert_eq!(e.code(), "write/not-in-format", "{name}: {e}");
    }
}

/// A sparse tensor is not made dense by planes.
#[test]
fn planes_are_of_dense_tensors_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut random = Random(3);
    let bytes: Vec<u8> = (0..200_000)
        .flat_map(|i| if i % 50 == 0 { random.weight() } else { 0. }.to_le_bytes())
        .collect();
    let mut writer = Writer::create(path("dense.zt"), &WriteOptions::new()).unwrap();
    writer.add(TensorSpec::dense("t", DType::F32, [400, 500]), &[&bytes]).unwrap();
    writer.finish().unwrap();
    let sparse = Convert::new(WriteOptions::new()).with_form(holdall::TensorForm::Csr);
    convert(&holdall::open(path("dense.zt")).unwrap(), path("sparse.zt"), &sparse).unwrap();
    let file = holdall::open(path("sparse.zt")).unwrap();
    for write in [WriteOptions::new().with_planes(), WriteOptions::new().with_smallest()] {
        let to = path("out.zt");
        let options = Convert::new(write.with_overwrite(true)).reencode();
        convert(&file, &to, &options).unwrap();
        let tensor = holdall::open(&to).unwrap().tensor("t").unwrap();
        assert_eq!(tensor.layout(), &Layout::SparseCsr);
        assert_eq!(tensor.to_dense().unwrap().bytes(), &bytes);
    }
}
