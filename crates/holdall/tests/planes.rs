//! Tensors in byte planes: files by another writer, every bit pattern, rows, conversions both ways, damaged files.

use holdall::convert::convert;
use holdall::{
    Convert, DType, File, Layout, Role, StatsOptions, TensorForm, TensorSpec, WriteOptions, Writer,
    formats,
};
use holdall_core::model::plane::PLANE_TYPES;
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name)
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hashes of the dense bytes were computed by the writer of the file.
#[test]
fn planes_of_another_writer_are_read() {
    let file = holdall::open(corpus("accept/ztensor/planes-all.zt")).unwrap();
    let expected = [
        ("a.bf16", "8aa0c6eaf1c9ad0cbe77e59ac8f04fed812677d40c802132eba21d4b110fee59"),
        ("b.f16", "a9ca0abcb90471a814530ad42821f388953e31b0fc55e045b043b1f2c005f50e"),
        ("c.f32", "56ed46dc12bb092c06e25a70eeecca26b82724bac758e7a3c7eb8e7687043547"),
        ("d.f64", "7d77d7afff8d9b399be425467afb76bc0593345ee9a2b8720055dc63844de2a8"),
        ("e.up.f32", "cb319055b5c3b4abb407c87a18d1c8e40a807eb9472a883b207e9889ba0d7fe3"),
        ("f.special.bf16", "4a0df497e7c6b5b60b7c7fb191f54f52ba387a021f20ed8d83c84dde73c832e3"),
    ];
    assert_eq!(file.len(), expected.len());
    for (name, hash) in expected {
        let tensor = file.tensor(name).unwrap();
        let dense = tensor.to_dense().unwrap();
        assert_eq!(sha256(dense.bytes()), hash, "{name}");
        let pieces = tensor.dense_pieces(holdall::Check::All).unwrap();
        let all: Vec<u8> = pieces.flat_map(|piece| piece.unwrap().to_vec()).collect();
        assert_eq!(&all, dense.bytes(), "{name}");
        let Some(&first) = tensor.shape().first() else { continue };
        for rows in [0..0, 0..1, first / 3..first, first - 1..first] {
            let part = tensor.rows(rows.clone()).unwrap();
            let row = dense.bytes().len() / first as usize;
            let range = rows.start as usize * row..rows.end as usize * row;
            assert_eq!(part.bytes(), &dense.bytes()[range], "{name} {rows:?}");
        }
    }
}

/// Writes one dense tensor, in planes if they are smaller, and opens the file.
fn written(folder: &Path, dtype: DType, bytes: &[u8]) -> File {
    let path = folder.join("t.zt");
    let options = WriteOptions::new().with_planes().with_overwrite(true);
    let mut writer = Writer::create(&path, &options).unwrap();
    let count = bytes.len() as u64 / dtype.width();
    writer.tensor(TensorSpec::dense("t", dtype, [count])).unwrap();
    bytes.chunks(7919).for_each(|chunk| writer.write(chunk).unwrap());
    writer.finish().unwrap();
    holdall::open(path).unwrap()
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

/// Elements of any bits, whose highest byte has few values, so that planes are worth it.
#[test]
fn every_bit_pattern_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for case in 0..40 {
        let of = &PLANE_TYPES[case % PLANE_TYPES.len()];
        let count = 3000 + random.next() as usize % 3000 + (case / 20) * 400_000;
        let mut bytes = Vec::new();
        for _ in 0..count {
            let mut element = random.next().to_le_bytes();
            element[of.count - 1] = (random.next() % 12) as u8 * 21;
            bytes.extend_from_slice(&element[..of.count]);
        }
        let file = written(folder.path(), of.dtype, &bytes);
        let tensor = file.tensor("t").unwrap();
        assert!(tensor.to_dense().unwrap().bytes()[..] == bytes[..], "case {case}");
        assert_eq!(tensor.dtype(), Some(of.dtype));
        assert_eq!(tensor.layout(), &Layout::Planes(of), "case {case}");
        // A small tensor costs more in the manifest than it saves.
        if count > 100_000 {
            assert!(file.index().source_len() < bytes.len() as u64, "case {case}");
        }
    }
}

#[test]
fn all_16_bit_patterns_come_back() {
    let folder = tempfile::tempdir().unwrap();
    // Each pattern once, and some often, so that planes are smaller.
    let all = (0..=u16::MAX).chain((0..200_000).map(|i| 0x3C00 | (i % 1024) as u16));
    let bytes: Vec<u8> = all.flat_map(u16::to_le_bytes).collect();
    for dtype in [DType::F16, DType::Bf16] {
        let file = written(folder.path(), dtype, &bytes);
        let tensor = file.tensor("t").unwrap();
        assert!(matches!(tensor.layout(), Layout::Planes(_)), "{}", tensor.layout());
        assert_eq!(tensor.to_dense().unwrap().bytes(), &bytes);
        let planes: Vec<u64> = tensor.components().map(|c| c.stored_len()).collect();
        assert!(planes.iter().any(|len| *len < tensor.count() * 7 / 10), "{planes:?}");
    }
}

/// Numbers of a bell curve, like those of a trained weight.
fn weights(count: usize) -> Vec<f32> {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let mut uniform = move || (random.next() >> 40) as f32 / (1u64 << 24) as f32;
    (0..count).map(|_| ((0..12).map(|_| uniform()).sum::<f32>() - 6.) * 0.05).collect()
}

#[test]
fn conversions_keep_values_ties_and_attributes() {
    let folder = tempfile::tempdir().unwrap();
    let (dense, planes) = (folder.path().join("dense.zt"), folder.path().join("planes.zt"));
    let mut writer = Writer::create(&dense, &WriteOptions::new()).unwrap();
    let floats = weights(600_000);
    let long: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut spec = TensorSpec::dense("long", DType::F32, [600, 1000]);
    spec.attributes.set("note", holdall::Value::Text("kept".into()));
    writer.add(spec.clone(), &[&long]).unwrap();
    let mut tied = TensorSpec::dense("tied", DType::F32, [600, 1000]);
    tied.components[0].shares =
        Some(holdall::ComponentRef { tensor: "long".into(), role: Role::Data });
    writer.add(tied, &[]).unwrap();
    let half: Vec<u8> =
        floats.iter().take(5000).flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect();
    writer.add(TensorSpec::dense("half", DType::Bf16, [50, 100]), &[&half]).unwrap();
    let integers: Vec<u8> = (0..4000u32).flat_map(u32::to_le_bytes).collect();
    writer.add(TensorSpec::dense("integers", DType::U32, [4000]), &[&integers]).unwrap();
    writer.add(TensorSpec::dense("empty", DType::F32, [0, 3]), &[&[]]).unwrap();
    writer.finish().unwrap();

    let source = holdall::open(&dense).unwrap();
    let report =
        convert(&source, &planes, &Convert::new(WriteOptions::new().with_planes())).unwrap();
    assert!(report.left_behind.is_empty(), "{:?}", report.left_behind);
    let made = holdall::open(&planes).unwrap();
    let tensor = made.tensor("long").unwrap();
    assert_eq!(tensor.layout().as_str(), "planes.f32");
    assert_eq!(tensor.attributes().get("note"), Some(&holdall::Value::Text("kept".into())));
    let stored_ranges = |name: &str| -> Vec<_> {
        made.tensor(name).unwrap().components().map(|c| c.stored).collect()
    };
    assert_eq!(stored_ranges("long"), stored_ranges("tied"), "ties are kept");
    assert_eq!(made.tensor("half").unwrap().layout().as_str(), "planes.bf16");
    assert_eq!(made.tensor("integers").unwrap().layout(), &Layout::Dense);
    let verified = holdall::verify(&made, &holdall::VerifyOptions::new()).unwrap();
    assert!(verified.is_sound(), "{verified:?}");

    // A row reads a frame of each plane, not the whole tensor.
    let row = tensor.rows(599..600).unwrap();
    assert_eq!(row.bytes(), &long[599 * 4000..]);
    let differences = holdall::diff(&source, &made, &holdall::DiffOptions::new()).unwrap();
    assert!(differences.values_agree(), "{differences:?}");
    assert!(differences.changed.is_empty(), "{differences:?}");
    let stats =
        |file: &File| holdall::stats(&file.tensor("long").unwrap(), &StatsOptions::new()).unwrap();
    assert_eq!(stats(&source), stats(&made));

    // To formats without planes, and to planes again: nothing changes.
    for to in ["back.safetensors", "back.gguf", "back.zt"] {
        let back = folder.path().join(to);
        let mut options = Convert::new(WriteOptions::new());
        if to == "back.zt" {
            options = options.with_dense();
        }
        let select = holdall::Select::new(&["long", "tied", "half"], &[]).unwrap();
        convert(&made, &back, &options.with_select(select)).unwrap();
        let back = holdall::open(&back).unwrap();
        for name in ["long", "half"] {
            let (a, b) = (source.tensor(name).unwrap(), back.tensor(name).unwrap());
            assert_eq!(b.layout(), &Layout::Dense, "{to}");
            assert_eq!(a.to_dense().unwrap().bytes(), b.to_dense().unwrap().bytes(), "{to}");
        }
    }
    let again = folder.path().join("again.zt");
    convert(&made, &again, &Convert::new(WriteOptions::new())).unwrap();
    let again = holdall::open(&again).unwrap();
    assert_eq!(again.tensor("long").unwrap().layout().as_str(), "planes.f32");
    let (len, before) = (again.index().source_len(), made.index().source_len());
    assert!(len.abs_diff(before) < 100, "{before} bytes became {len}");
}

#[test]
fn formats_without_planes_refuse_them() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["safetensors", "gguf", "npz", "metatensor"] {
        let format = formats::by_name(name).unwrap();
        let options = WriteOptions::new().with_planes().with_format(format);
        let e = Writer::create(folder.path().join("x"), &options).err().unwrap();
        assert_eq!(e.code(), "write/not-in-format", "{name}: {e}");
    }
    let old = holdall::EncodeOptions::new().with_version("0.1");
    let options = WriteOptions::new().with_planes().with_encode(old);
    let e = Writer::create(folder.path().join("x.zt"), &options).err().unwrap();
    assert_eq!(e.code(), "write/not-in-format");
}

#[test]
fn a_rule_can_name_planes() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = weights(4000).iter().flat_map(|x| x.to_le_bytes()).collect();
    let path = folder.path().join("in.zt");
    let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
    writer.add(TensorSpec::dense("t", DType::F32, [4000]), &[&bytes]).unwrap();
    writer.finish().unwrap();
    let file = holdall::open(&path).unwrap();
    let to = folder.path().join("out.zt");
    let options = Convert::new(WriteOptions::new()).with_form(TensorForm::new("planes").unwrap());
    convert(&file, &to, &options).unwrap();
    let tensor = holdall::open(&to).unwrap().tensor("t").unwrap();
    assert_eq!(tensor.layout().as_str(), "planes.f32");
    assert_eq!(tensor.to_dense().unwrap().bytes(), &bytes);
}

#[test]
fn damaged_planes_are_kept_and_not_decoded() {
    for name in ["planes.components.golden-missing.zt", "planes.components.golden-dtype.zt"] {
        let file = holdall::open(corpus("reject/ztensor").join(name)).unwrap();
        let tensor = file.tensor("t").unwrap();
        assert_eq!(tensor.to_dense().unwrap_err().code(), "planes/components", "{name}");
        assert_eq!(tensor.rows(0..1).unwrap_err().code(), "planes/components", "{name}");
        let verified = holdall::verify(&file, &holdall::VerifyOptions::new()).unwrap();
        assert!(!verified.is_sound(), "{name}");
    }
    let unknown = holdall::open(corpus("accept/ztensor/planes-unknown.zt")).unwrap();
    let tensor = unknown.tensor("t").unwrap();
    assert!(matches!(tensor.layout(), Layout::Other(_)), "{}", tensor.layout());
}

/// Many small tensors do not grow by their further components, even when planes are requested.
#[test]
fn small_tensors_stay_dense() {
    let folder = tempfile::tempdir().unwrap();
    let (path, to) = (folder.path().join("in.zt"), folder.path().join("out.zt"));
    let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
    for at in 0..200 {
        writer.add(TensorSpec::dense(format!("t{at}"), DType::F32, [8]), &[&[at; 32]]).unwrap();
    }
    writer.finish().unwrap();
    let file = holdall::open(&path).unwrap();
    convert(&file, &to, &Convert::new(WriteOptions::new().with_planes())).unwrap();
    let made = holdall::open(&to).unwrap();
    assert!(made.tensors().all(|tensor| *tensor.layout() == Layout::Dense));
    // A tensor given by its exact name gets the form in any case.
    let rule = holdall::FormRule::new("t7=planes").unwrap();
    let named = folder.path().join("named.zt");
    convert(&file, &named, &Convert::new(WriteOptions::new()).with_forms([rule])).unwrap();
    let tensor = holdall::open(&named).unwrap().tensor("t7").unwrap();
    assert_eq!(tensor.layout().as_str(), "planes.f32");
    assert_eq!(tensor.to_dense().unwrap().bytes(), &[7; 32][..]);
}
