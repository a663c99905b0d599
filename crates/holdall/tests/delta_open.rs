//! Targets of deltas that are opened without being written: the same as those that are, and read in parts.

use bytes::Bytes;
use holdall::convert::convert;
use holdall::delta::{self, ApplyOptions, MakeOptions, apply, make};
use holdall::{
    ByteSource, Check, Convert, DType, DiffOptions, File, OpenOptions, Result, TensorSpec, Value,
    WriteOptions, Writer,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name)
}

fn accepted(name: &str) -> File {
    holdall::open(corpus("accept/ztensor").join(name)).unwrap()
}

/// Compares the target that is opened with the one that is written, as a whole and in parts.
fn compare(base: &File, change: &File, folder: &Path) {
    let path = folder.join("written.zt");
    let mut options = ApplyOptions::default();
    options.write.overwrite = true;
    apply(base, change, &path, &options).unwrap();
    let written = holdall::open(&path).unwrap();
    let opened = delta::open(base, change).unwrap();
    let name = change.name();
    let names: Vec<&str> = opened.names().collect();
    assert_eq!(names, written.names().collect::<Vec<_>>(), "{name}");
    assert_eq!(opened.attributes(), written.attributes(), "{name}");
    for (a, b) in opened.tensors().zip(written.tensors()) {
        assert_eq!(
            (a.shape(), a.attributes()),
            (b.shape(), b.attributes()),
            "{name}: {}",
            a.name()
        );
        if a.dense_type().is_none() {
            continue;
        }
        let whole = b.to_dense().unwrap();
        let Some(&rows) = a.shape().first() else { continue };
        for range in [0..0, 0..1, rows / 3..rows / 2, rows - 1..rows, rows / 2..rows] {
            let (x, y) = (a.rows(range.clone()).unwrap(), b.rows(range.clone()).unwrap());
            assert!(x.bytes() == y.bytes(), "{name}: {} {range:?}", a.name());
        }
        assert!(a.to_dense().unwrap().bytes() == whole.bytes(), "{name}: {}", a.name());
        let pieces: Vec<u8> =
            a.dense_pieces(Check::All).unwrap().flat_map(|piece| piece.unwrap().to_vec()).collect();
        assert!(pieces == whole.bytes()[..], "{name}: {}", a.name());
    }
    let differences = holdall::diff(&written, &opened, &DiffOptions::new()).unwrap();
    assert!(differences.is_identical(), "{name}: {differences:?}");
}

#[test]
fn targets_of_the_corpus_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    compare(&accepted("delta-base.zt"), &accepted("delta-all.zt"), folder.path());
    for name in ["delta-small_gaps.zt", "delta-small_mask.zt"] {
        compare(&accepted("delta-small_base.zt"), &accepted(name), folder.path());
    }
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

/// Elements of the base and of the target, of which one in `every` differs.
fn pair(len: usize, every: u64, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let base: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    let mut target = base.clone();
    for element in target.chunks_exact_mut(4) {
        if random.next().is_multiple_of(every) {
            element[0] ^= 1 + (random.next() % 3) as u8;
        }
    }
    (base, target)
}

fn write(path: &Path, tensors: &[(&str, DType, Vec<u64>, Vec<u8>)], note: &str) -> File {
    let attributes = [("note".to_owned(), Value::Text(note.into()))].into_iter().collect();
    let options = WriteOptions::new().with_attributes(attributes);
    let mut writer = Writer::create(path, &options).unwrap();
    for (name, dtype, shape, bytes) in tensors {
        writer.add(TensorSpec::dense(*name, *dtype, shape.clone()), &[bytes]).unwrap();
    }
    writer.finish().unwrap();
    holdall::open(path).unwrap()
}

struct Made {
    folder: tempfile::TempDir,
    base: File,
    change: PathBuf,
}

/// Tensors of several blocks with few and with many changes, one that is not changed, one that is new, and one that is removed.
fn made() -> Made {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let (few, few_new) = pair(1_200_000 * 2, 500, &mut random);
    let (many, many_new) = pair(1_100_000 * 4, 3, &mut random);
    let (same, _) = pair(400_000, 2, &mut random);
    let dense =
        |name, dtype, shape: [u64; 2], bytes: &[u8]| (name, dtype, shape.to_vec(), bytes.to_vec());
    let base = [
        dense("few", DType::Bf16, [1200, 1000], &few),
        dense("gone", DType::U8, [2, 2], &[1; 4]),
        dense("many", DType::F32, [1100, 1000], &many),
        dense("same", DType::U8, [400, 1000], &same),
    ];
    let target = [
        dense("few", DType::Bf16, [1200, 1000], &few_new),
        dense("many", DType::F32, [1100, 1000], &many_new),
        dense("same", DType::U8, [400, 1000], &same),
        dense("new", DType::F32, [100, 1000], &few[..400_000]),
    ];
    let base = write(&folder.path().join("base.zt"), &base, "base");
    let target = write(&folder.path().join("target.zt"), &target, "target");
    let change = folder.path().join("change.zt");
    make(&base, &target, &change, &MakeOptions::default()).unwrap();
    Made { folder, base, change }
}

#[test]
fn targets_of_every_kind_of_base_are_opened() {
    let made = made();
    let folder = made.folder.path();
    let change = holdall::open(&made.change).unwrap();
    compare(&made.base, &change, folder);
    for (name, write) in [
        ("planes.zt", WriteOptions::new().with_planes()),
        ("base.safetensors", WriteOptions::new()),
    ] {
        let path = folder.join(name);
        convert(&made.base, &path, &Convert::new(write).reencode()).unwrap();
        compare(&holdall::open(path).unwrap(), &change, folder);
    }
}

/// A source that counts the bytes that are read.
struct Counted(Arc<dyn ByteSource>, AtomicU64);

impl ByteSource for Counted {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let len: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        self.1.fetch_add(len, Ordering::Relaxed);
        self.0.read(ranges)
    }
}

fn counted(path: &Path) -> (Arc<Counted>, File) {
    let location = holdall::Location::new(path);
    let (source, _) = OpenOptions::new().source_at(&location).unwrap();
    let source = Arc::new(Counted(source, AtomicU64::new(0)));
    let file =
        OpenOptions::new().open_source(Arc::clone(&source) as Arc<dyn ByteSource>, "counted");
    (source, file.unwrap())
}

#[test]
fn a_row_needs_its_block_and_a_row_of_the_base() {
    let made = made();
    let ((of_base, base), (of_delta, change)) =
        (counted(&made.folder.path().join("base.zt")), counted(&made.change));
    let read = |counted: &Counted| counted.1.swap(0, Ordering::Relaxed);
    let (base_len, delta_len) = (of_base.len(), of_delta.len());
    read(&of_base);
    read(&of_delta);
    let opened = delta::open(&base, &change).unwrap();
    assert_eq!((read(&of_base), read(&of_delta)), (0, 0), "opening reads no tensor");
    let expected = holdall::open(made.folder.path().join("target.zt")).unwrap();
    for (name, row, row_len, most) in
        [("few", 1199, 2000, 200_000), ("few", 3, 2000, 200_000), ("many", 1090, 4000, 1_800_000)]
    {
        let rows = opened.tensor(name).unwrap().rows(row..row + 1).unwrap();
        assert!(rows.bytes() == expected.tensor(name).unwrap().rows(row..row + 1).unwrap().bytes());
        let (base_read, delta_read) = (read(&of_base), read(&of_delta));
        assert_eq!(base_read, row_len, "{name} {row}: of {base_len}");
        assert!(delta_read <= most, "{name} {row}: {delta_read} of {delta_len}");
    }
    // A tensor that is not in the delta is read from the base alone.
    opened.tensor("same").unwrap().rows(7..8).unwrap();
    assert_eq!((read(&of_base), read(&of_delta)), (1000, 0));
}

/// Nothing but the shapes is compared when a target is opened; a tensor that is read in order is compared with its digest.
#[test]
fn another_base_is_noticed_when_a_tensor_is_read_whole() {
    let made = made();
    let change = holdall::open(&made.change).unwrap();
    let path = made.folder.path().join("base.zt");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = made.base.tensor("few").unwrap().components().next().unwrap().stored.start as usize;
    bytes[at + 1_000_000] ^= 1;
    let options = OpenOptions::new().with_check(Check::Off);
    let other = options.open_bytes(bytes, "other").unwrap();
    let opened = delta::open(&other, &change).unwrap();
    let few = opened.tensor("few").unwrap();
    few.rows(500..501).unwrap();
    let e = few.to_dense().map(|_| ()).unwrap_err();
    assert_eq!(e.code(), "delta/target", "{e}");
    opened.tensor("many").unwrap().to_dense().unwrap();
    let to = made.folder.path().join("never.zt");
    let e = convert(&opened, &to, &Convert::new(WriteOptions::new())).unwrap_err();
    assert_eq!(e.code(), "delta/target", "{e}");
    assert!(!to.exists());
    // Other shapes, other names, a delta as the base.
    let small = accepted("delta-small_base.zt");
    for (base, change, code) in [
        (&small, &change, "delta/base"),
        (&change, &change, "delta/unfit"),
        (&made.base, &small, "delta/not-a-delta"),
        (&small, &accepted("delta-other_dtype.zt"), "delta/base"),
        (&small, &accepted("delta-other_stranger.zt"), "delta/base"),
    ] {
        assert_eq!(delta::open(base, change).unwrap_err().code(), code);
    }
}

#[test]
fn damaged_deltas_are_refused_when_they_are_read() {
    for (name, code) in [
        ("delta.components.golden-neither.zt", "delta/components"),
        ("delta.gap.golden-past.zt", "delta/gap"),
        ("delta.gap.golden-255.zt", "delta/gap"),
        ("delta.length.golden-mask.zt", "delta/length"),
        ("delta.changed.golden-starts.zt", "delta/changed"),
        ("delta.length.golden-changed.zt", "delta/length"),
        ("delta.value.golden-largest.zt", "delta/value"),
        ("delta.attribute.golden-digest.zt", "delta/attribute"),
        ("delta.spare-bits.golden-set.zt", "delta/spare-bits"),
    ] {
        let spare = name == "delta.spare-bits.golden-set.zt";
        let base = accepted(if spare { "delta-small_base_597.zt" } else { "delta-small_base.zt" });
        let change = holdall::open(corpus("reject/ztensor").join(name)).unwrap();
        let read = || {
            let opened = delta::open(&base, &change)?;
            for tensor in opened.tensors() {
                tensor.to_dense()?;
            }
            Ok::<(), holdall::Error>(())
        };
        assert_eq!(read().unwrap_err().code(), code, "{name}");
    }
}
