//! Writes and reads back: every format and version, encoding and length.

use holdall::{
    Algorithm, Attributes, Check, DType, EncodeOptions, Encoding, ErrorKind, File, Io, OpenOptions,
    Role, TensorSpec, Value, Work, WriteOptions, Writer, formats,
};
use std::path::Path;
use std::sync::LazyLock;

/// Returns pseudorandom bytes that compress a little.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 60) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Lengths of tensors around all thresholds.
const LENS: [usize; 10] =
    [0, 1, 63, 64, 4096, 1 << 20, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (9 << 20) + 12_345];

fn specs() -> impl Iterator<Item = (TensorSpec, &'static [u8])> {
    static BYTES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        LENS.iter().enumerate().map(|(i, &len)| noise(len, i as u64 + 1)).collect()
    });
    BYTES.iter().enumerate().map(|(i, bytes)| {
        let spec = TensorSpec::dense(format!("t{i}"), DType::U8, [bytes.len() as u64]);
        (spec, &bytes[..])
    })
}

fn options(format: &str, version: &str) -> WriteOptions {
    let mut encode = EncodeOptions::new();
    if !version.is_empty() {
        encode = encode.with_version(version);
    }
    let mut attributes = Attributes::new();
    attributes.set("made_by", Value::Text("a test".into()));
    WriteOptions::new()
        .with_format(formats::by_name(format).unwrap())
        .with_encode(encode)
        .with_attributes(attributes)
}

fn write(path: &Path, options: &WriteOptions) {
    let mut writer = Writer::create(path, options).unwrap();
    writer.declare(&specs().map(|(spec, _)| spec).collect::<Vec<_>>()).unwrap();
    for (i, (spec, bytes)) in specs().enumerate() {
        writer.tensor(spec).unwrap();
        // Pieces of odd lengths, so that none ends at a boundary.
        for piece in bytes.chunks(777_777 + i) {
            writer.write(piece).unwrap();
        }
    }
    writer.finish().unwrap();
}

fn check(file: &File) {
    assert_eq!(file.len(), LENS.len());
    assert_eq!(file.attributes().get("made_by").and_then(Value::as_text), Some("a test"));
    let loaded = file.load_all().unwrap();
    for (spec, bytes) in specs() {
        let tensor = file.tensor(&spec.name).unwrap();
        assert_eq!(tensor.shape(), spec.shape);
        assert_eq!(tensor.bytes(&Role::Data).unwrap(), bytes, "{}", spec.name);
        assert_eq!(*loaded.get(&spec.name).unwrap().bytes(&Role::Data).unwrap(), bytes);
        let mut out = vec![0; bytes.len()];
        tensor.read_into(&Role::Data, &mut out).unwrap();
        assert_eq!(out, bytes);
        let mut pieces = Vec::new();
        for piece in tensor.pieces(&Role::Data).unwrap() {
            pieces.extend_from_slice(&piece.unwrap());
        }
        assert_eq!(pieces, bytes);
        let mut many = vec![vec![0; bytes.len()]; 2];
        let into = many.iter_mut().map(|out| (&*spec.name, Role::Data, &mut out[..]));
        file.load_into(into, &holdall::LoadOptions::new()).unwrap();
        assert!(many.iter().all(|out| out == bytes));
        let (from, to) = (bytes.len() / 3, bytes.len() * 2 / 3);
        let range = tensor.bytes_range(&Role::Data, from as u64..to as u64).unwrap();
        assert_eq!(range, bytes[from..to]);
    }
}

#[test]
fn every_version_and_encoding_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    for (format, version) in
        [("ztensor", "1.2"), ("ztensor", "1.0"), ("ztensor", "0.1"), ("safetensors", "")]
    {
        for zstd in [None, Some(1)] {
            for digest in [None, Some(Algorithm::Crc32c), Some(Algorithm::Sha256)] {
                let mut options = options(format, version).with_digest(digest);
                if let Some(level) = zstd {
                    options = options.with_zstd(level);
                }
                let path = dir.path().join(format!("{format}{version}{zstd:?}{digest:?}"));
                if format == "safetensors" && (zstd.is_some() || digest.is_some()) {
                    let e = Writer::create(&path, &options).map(drop).unwrap_err();
                    assert_eq!(e.code(), "write/not-in-format");
                    continue;
                }
                write(&path, &options);
                // How a file is read is independent of its contents: all ways once for each format, version
                // and encoding.
                let ways: &[Io] = match digest {
                    None if format == "safetensors" => &[Io::Map, Io::Read, Io::Direct, Io::Auto],
                    None => &[Io::Read],
                    Some(Algorithm::Sha256) => &[Io::Auto],
                    Some(_) => &[Io::Map, Io::Direct],
                };
                for &io in ways {
                    let open = OpenOptions::new().with_io(io).with_check(Check::All);
                    check(&open.open(&path).unwrap());
                }
                std::fs::remove_file(&path).unwrap();
            }
        }
        // By default: what the format supports.
        let path = dir.path().join("usual");
        write(&path, &options(format, version));
        let file = holdall::open(&path).unwrap();
        let has_digest = |t: holdall::Tensor| t.components().all(|c| c.digest.is_some());
        assert_eq!(file.tensors().all(has_digest), format != "safetensors");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn output_does_not_depend_on_threads() {
    let dir = tempfile::tempdir().unwrap();
    let one = dir.path().join("one.zt");
    let many = dir.path().join("many.zt");
    write(&one, &options("ztensor", "1.2").with_zstd(3).with_work(Work::new().with_threads(1)));
    write(&many, &options("ztensor", "1.2").with_zstd(3).with_work(Work::new().with_threads(5)));
    assert!(std::fs::read(one).unwrap() == std::fs::read(many).unwrap());
}

#[test]
fn long_components_are_frames_with_a_seek_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    write(&path, &options("ztensor", "1.2").with_zstd(3));
    let file = holdall::open(&path).unwrap();
    let tensor = file.tensor("t9").unwrap();
    let c = tensor.component(&Role::Data).unwrap();
    assert_eq!(c.encoding, Encoding::ZSTD);
    let stored = tensor.stored(&Role::Data).unwrap();
    assert_eq!(stored[stored.len() - 4..], 0x8F92_EAB1u32.to_le_bytes());
    // Any zstd decoder skips the table.
    let whole = zstd::decode_all(&stored[..]).unwrap();
    assert!(specs().any(|(_, bytes)| bytes == whole));
}

#[test]
fn damage_is_found_on_load() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    for zstd in [false, true] {
        let options = options("ztensor", "1.2").with_overwrite(true);
        write(&path, &if zstd { options.with_zstd(3) } else { options });
        let mut bytes = std::fs::read(&path).unwrap();
        let file = holdall::open(&path).unwrap();
        let stored = file.tensor("t9").unwrap().component(&Role::Data).unwrap().stored;
        bytes[stored.start as usize + 3_000_000] ^= 0x40;
        let bad = OpenOptions::new().open_bytes(bytes, "bad").unwrap();
        let e = bad.load_all().err().unwrap();
        assert_eq!(e.tensor(), Some("t9"), "{e}");
        assert_eq!(e.range(), Some(stored.range()));
        assert!(bad.tensor("t8").unwrap().bytes(&Role::Data).is_ok());
    }
}

#[test]
fn too_many_or_too_few_bytes_are_refused() {
    let options = options("ztensor", "1.2");
    let mut writer = Writer::stream(Vec::new(), &options).unwrap();
    writer.tensor(TensorSpec::dense("w", DType::F32, [2])).unwrap();
    assert_eq!(writer.write(&[0; 9]).unwrap_err().code(), "write/length");
    // A caller that continues after the error does not get an incomplete file.
    assert_eq!(writer.finish().err().unwrap().code(), "write/failed");
    let mut writer = Writer::stream(Vec::new(), &options).unwrap();
    writer.tensor(TensorSpec::dense("w", DType::F32, [2])).unwrap();
    writer.write(&[0; 7]).unwrap();
    assert_eq!(writer.finish().err().unwrap().code(), "write/length");
}

/// Fails once.
struct Full {
    room: usize,
    to: Vec<u8>,
}

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.to.len() + bytes.len() > self.room {
            self.room = usize::MAX;
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.to.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failed_write_is_reported_at_finish() {
    for (version, zstd) in [("1.2", false), ("1.2", true), ("0.1", false)] {
        let options = options("ztensor", version);
        let options = if zstd { options.with_zstd(3) } else { options };
        let [a, b] = ["a", "b"].map(|name| TensorSpec::dense(name, DType::U8, [4096]));
        let bytes: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
        for room in [0, 500, 4500] {
            let to = Full { room, to: Vec::new() };
            let mut writer = Writer::stream(to, &options).unwrap();
            let added = [a.clone(), b.clone()].map(|spec| writer.add(spec, &[&bytes]));
            match added.iter().any(Result::is_err) {
                true => assert_eq!(writer.finish().err().unwrap().code(), "write/failed"),
                // Frames are written later.
                false => assert_eq!(writer.finish().err().unwrap().kind(), ErrorKind::Io),
            }
        }
    }
    // A tensor that was refused before any of it was written can be left out.
    let mut writer = Writer::stream(Vec::new(), &options("ztensor", "1.0")).unwrap();
    let spec = TensorSpec::dense("w", DType::U8, [2]);
    let mut refused = spec.clone();
    refused.attributes.push("a", Value::Null);
    assert!(writer.add(refused, &[&[1, 2]]).is_err());
    writer.add(spec, &[&[1, 2]]).unwrap();
    let file = OpenOptions::new().open_bytes(writer.finish().unwrap(), "f").unwrap();
    assert_eq!(file.len(), 1);
}

#[test]
fn a_stream_is_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    write(&path, &options("ztensor", "1.2"));
    let mut writer = Writer::stream(Vec::new(), &options("ztensor", "1.2")).unwrap();
    for (spec, bytes) in specs() {
        writer.add_from(spec, bytes).unwrap();
    }
    assert!(writer.finish().unwrap() == std::fs::read(&path).unwrap());
}

#[test]
fn a_bomb_is_over_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    let mut writer = Writer::create(&path, &options("ztensor", "1.2").with_zstd(3)).unwrap();
    for i in 0..3 {
        let spec = TensorSpec::dense(format!("z{i}"), DType::U8, [40 << 20]);
        writer.add(spec, &[&vec![0; 40 << 20]]).unwrap();
    }
    writer.finish().unwrap();
    let mut limits = holdall::Limits::default();
    limits.decoded_len = 100 << 20;
    let file = OpenOptions::new().with_limits(limits.clone()).open(&path).unwrap();
    // One alone is within the limit, all at once are not.
    assert_eq!(file.tensor("z0").unwrap().bytes(&Role::Data).unwrap().len(), 40 << 20);
    assert_eq!(file.load_all().err().unwrap().code(), "zstd/decoded-len");
    limits.decoded_len = 30 << 20;
    let file = OpenOptions::new().with_limits(limits).open(&path).unwrap();
    let tensor = file.tensor("z0").unwrap();
    assert_eq!(tensor.bytes(&Role::Data).unwrap_err().code(), "zstd/decoded-len");
    assert_eq!(tensor.pieces(&Role::Data).err().unwrap().code(), "zstd/decoded-len");
}

#[test]
fn a_cancelled_writer_ends_at_once_while_frames_are_compressed() {
    use std::time::{Duration, Instant};
    let dir = tempfile::tempdir().unwrap();
    let bytes = noise(24 << 20, 7);
    // Cancelled while frames are written, and while the remaining ones are awaited.
    for whole in [false, true] {
        let cancel = holdall::Cancel::new();
        let work = Work::new().with_threads(2).with_cancel(&cancel);
        let options = WriteOptions::new().with_zstd(19).with_work(work);
        let path = dir.path().join("slow.zt");
        let mut writer = Writer::create(&path, &options).unwrap();
        let len = if whole { 4 << 20 } else { bytes.len() };
        writer.tensor(TensorSpec::dense("w", DType::U8, [len as u64])).unwrap();
        let (e, took) = std::thread::scope(|scope| {
            let later = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                cancel.cancel();
                Instant::now()
            });
            let e = match whole {
                false => writer.write(&bytes).and_then(|()| writer.finish()).unwrap_err(),
                true => {
                    writer.write(&bytes[..len]).unwrap();
                    writer.finish().unwrap_err()
                }
            };
            let ended = Instant::now();
            (e, ended.saturating_duration_since(later.join().unwrap()))
        });
        assert_eq!(e.code(), "work/cancelled", "{e}");
        assert!(took < Duration::from_millis(500), "{took:?}");
        assert!(!path.exists());
    }
}
