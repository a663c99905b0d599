//! Tensor files inside of tar and zip archives open by `!/`, in place.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use holdall::{DType, File, Io, Limits, Location, OpenOptions, TensorSpec, Writer, verify};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Returns a safetensors file with one tensor.
fn model(x: f32) -> Vec<u8> {
    model_as("m.safetensors", x)
}

/// Returns a file with one tensor, in the format of the name's extension.
fn model_as(name: &str, x: f32) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let mut writer = Writer::create(&path, &Default::default()).unwrap();
    let spec = TensorSpec::dense("w", DType::F32, [1000]);
    writer.declare(std::slice::from_ref(&spec)).unwrap();
    writer.add(spec, &[&x.to_le_bytes().repeat(1000)]).unwrap();
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

fn first(file: &File) -> f32 {
    file.tensor("w").unwrap().dense().unwrap().to_f32().unwrap()[999]
}

/// Returns a tar header with its contents.
pub(crate) fn member(name: &str, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    let mut out = summed(header).to_vec();
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn summed(mut header: [u8; 512]) -> [u8; 512] {
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

pub(crate) fn tar(members: &[Vec<u8>]) -> Vec<u8> {
    [members.concat(), vec![0; 1024]].concat()
}

/// Returns a zip of entries, each stored or compressed by Deflate.
pub(crate) fn zip(entries: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes, is_packed) in entries {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let stored = match is_packed {
            true => {
                let mut packer = DeflateEncoder::new(Vec::new(), Compression::default());
                packer.write_all(bytes).unwrap();
                packer.finish().unwrap()
            }
            false => bytes.to_vec(),
        };
        let method = if *is_packed { 8u16 } else { 0 };
        let fixed = [
            &[20, 0, 0, 0][..],
            &method.to_le_bytes(),
            &[0, 0, 0, 0],
            &crc.sum().to_le_bytes(),
            &(stored.len() as u32).to_le_bytes(),
            &(bytes.len() as u32).to_le_bytes(),
            &(name.len() as u16).to_le_bytes(),
            &[0, 0],
        ]
        .concat();
        let at = (out.len() as u32).to_le_bytes();
        directory
            .extend([b"PK\x01\x02\x14\0", &fixed[..], &[0; 10], &at, name.as_bytes()].concat());
        out.extend([b"PK\x03\x04", &fixed[..], name.as_bytes(), &stored].concat());
    }
    let (at, len) = ((out.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let count = (entries.len() as u16).to_le_bytes();
    out.extend(directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &len, &at, &[0, 0]].concat());
    out
}

fn put(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn inside(archive: &Path, path: &str) -> PathBuf {
    PathBuf::from(format!("{}!/{path}", archive.display()))
}

fn code(path: impl AsRef<Path>) -> &'static str {
    holdall::open(path).map_or_else(|e| e.code(), |_| "")
}

#[test]
fn files_in_archives_open_where_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (model(1.0), model(2.0));
    let long = format!("{}/b.safetensors", "folder".repeat(30));
    let pax = format!("path={long}\n");
    let pax = format!("{} {pax}", pax.len() + 4);
    let packed = zip(&[("w/a.safetensors", &a, false), ("w/b.safetensors", &b, true)]);
    let whole = tar(&[
        member("dir/", b'5', b""),
        member("./dir/a.safetensors", b'0', &a),
        member("link", b'2', b""),
        member("PaxHeaders/b", b'x', pax.as_bytes()),
        member("short", b'0', &b),
        member("././@LongLink", b'L', format!("{long}2\0").as_bytes()),
        member("short", b'0', &b),
        member("in.zip", 0, &packed),
    ]);
    let (tar, zip) = (put(&dir, "x.tar", &whole), put(&dir, "x.zip", &packed));
    for io in [Io::Map, Io::Read] {
        let options = OpenOptions::new().with_io(io);
        for (path, wanted) in [
            (inside(&tar, "dir/a.safetensors"), 1.0),
            (inside(&tar, &long), 2.0),
            (inside(&tar, &format!("{long}2")), 2.0),
            (inside(&zip, "w/a.safetensors"), 1.0),
            (inside(&zip, "w/b.safetensors"), 2.0),
            (inside(&tar, "in.zip!/w/a.safetensors"), 1.0),
            (inside(&tar, "in.zip!/w/b.safetensors"), 2.0),
        ] {
            let file = options.open(&path).unwrap();
            assert_eq!((file.format(), first(&file)), ("safetensors", wanted));
            assert_eq!(file.name(), path.display().to_string());
            assert!(verify(&file, &Default::default()).unwrap().is_sound());
        }
    }
    // Stored files are not copied: all bytes that are read lie in the map of the archive.
    let file = holdall::open(inside(&tar, "dir/a.safetensors")).unwrap();
    let local = file.all_sources()[0].local();
    assert!(local.is_some_and(|local| local.is_mapped()));
}

#[test]
fn opening_an_archive_names_its_members() {
    let dir = tempfile::tempdir().unwrap();
    let a = model(1.0);
    let both = tar(&[member("w/a.safetensors", b'0', &a), member("w/b.npy", b'0', b"")]);
    let tar = put(&dir, "x.tar", &both);
    let zip = put(&dir, "x.zip", &zip(&[("w/a.safetensors", &a, false), ("b.gguf", b"", false)]));
    for (path, names) in
        [(&tar, ["w/a.safetensors", "w/b.npy"]), (&zip, ["w/a.safetensors", "b.gguf"])]
    {
        let e = holdall::open(path).unwrap_err();
        assert_eq!(e.code(), "format/unknown");
        names.iter().for_each(|name| assert!(e.message().contains(name), "{e}"));
        assert_eq!(e.remedies(), [holdall::Remedy::OpenInside], "{e}");
        let e = holdall::open(inside(path, "w/a.safetensor")).unwrap_err();
        assert_eq!((e.code(), e.remedies().len()), ("archive/no-file", 1));
        // A folder in the archive opens like one on disk.
        let folder = holdall::open(inside(path, "w")).unwrap();
        assert_eq!((first(&folder), folder.format()), (1.0, "safetensors"));
    }
    let plain = put(&dir, "a.safetensors", &a);
    assert!(matches!(code(inside(&plain, "w")), "package/no-package" | "archive/no-archive"));
}

#[test]
fn errors_in_an_archive_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let of = |bytes: Vec<u8>| code(inside(&put(&dir, "x.tar", &bytes), "a"));
    let whole = tar(&[member("a", b'0', &[1; 600]), member("b", b'0', b"")]);
    assert_eq!(of(whole.clone()), "format/unknown", "it opens, and is no file of tensors");
    for (name, rule) in
        [("/etc/a", "tar/name"), ("w/../a", "tar/name"), ("..", "tar/name"), ("w//a", "tar/name")]
    {
        assert_eq!(of(tar(&[member(name, b'0', b"")])), rule, "{name}");
    }
    assert_eq!(of(tar(&[member("a", b'0', b""), member("./a", b'0', b"")])), "tar/duplicate-name");
    assert_eq!(of(tar(&[member("a", b'S', b"")])), "tar/sparse");
    assert_eq!(of(whole[..700].to_vec()), "tar/bounds");
    assert_eq!(of(whole[..1600].to_vec()), "tar/bounds");
    let mut broken = whole.clone();
    broken[1536 + 3] ^= 1;
    assert_eq!(of(broken), "tar/header");
    for pax in [&b"5 a=b"[..], b"x path=a\n", b"99 path=a\n", b"10 size=-1\n"] {
        let bytes =
            tar(&[member("first", b'0', b""), member("p", b'x', pax), member("a", b'0', b"")]);
        assert_eq!(of(bytes), "tar/header", "{}", pax.escape_ascii());
    }
    let huge = b"27 size=9223372036854775807\n";
    let bytes =
        tar(&[member("first", b'0', b""), member("p", b'x', &huge[..]), member("a", b'0', b"")]);
    assert!(matches!(of(bytes), "tar/bounds" | "tar/header"));
    // No prefix of the file causes a panic.
    for len in (0..whole.len()).step_by(37) {
        let _ = of(whole[..len].to_vec());
    }
    let mut limits = Limits::default();
    limits.files = 1;
    let path = put(&dir, "x.tar", &whole);
    let e = OpenOptions::new().with_limits(limits).open(inside(&path, "a")).unwrap_err();
    assert_eq!(e.code(), "tar/too-many-files");
    // The decoded length of a zip's entry is limited, and checked.
    let bomb = put(&dir, "bomb.zip", &zip(&[("a.npy", &vec![0; 8 << 20], true)]));
    let mut limits = Limits::default();
    (limits.decoded_len, limits.expansion) = (1 << 20, 2);
    let e = OpenOptions::new().with_limits(limits).open(inside(&bomb, "a.npy")).unwrap_err();
    assert_eq!((e.code(), e.remedies().len()), ("zstd/decoded-len", 1));
}

/// Headers far from both ends of an archive are read with the header that they follow.
#[test]
fn long_names_are_read_from_every_field() {
    let dir = tempfile::tempdir().unwrap();
    let (big, long) = (vec![1; 4 << 20], format!("{}/m.safetensors", "d/".repeat(80) + "e"));
    let gnu = member("././@LongLink", b'L', format!("{long}\0").as_bytes());
    let parts =
        [member("a", b'0', &big), gnu, member("short", b'0', &model(3.0)), member("b", b'0', &big)];
    let path = put(&dir, "x.tar", &tar(&parts));
    for io in [Io::Map, Io::Read] {
        let file = OpenOptions::new().with_io(io).open(inside(&path, &long)).unwrap();
        assert_eq!(first(&file), 3.0);
    }
}

/// Everything in an archive is listed, with the formats of files that can be opened, however it is stored.
#[test]
fn contents_lists_every_file_of_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let listed = |path: &Path| {
        let options = OpenOptions::new();
        let (source, name) = options.unchecked_source_at(&Location::new(path)).unwrap();
        holdall::archive::contents(source, &name, options.limits()).unwrap()
    };
    let (whole, numpy) = (model(1.0), model_as("a.npz", 2.0));
    let zipped =
        zip(&[("m.bin", &whole, true), ("a.npz", &numpy, false), ("notes.txt", b"hi", true)]);
    let tarred = tar(&[member("w/m.bin", b'0', &whole), member("in.zip", b'0', &zipped)]);
    let outer = put(&dir, "x.tar", &tarred);
    let entries = |found: &holdall::archive::ArchiveContents| -> Vec<(String, u64, Option<&str>)> {
        let one =
            |f: &holdall::archive::ArchiveEntry| (f.name.clone(), f.len, f.format.map(|f| f.id));
        found.files.iter().map(one).collect()
    };
    let found = listed(&outer);
    assert_eq!((found.kind, found.len), ("tar", tarred.len() as u64));
    let m = whole.len() as u64;
    let safetensors = Some("safetensors");
    assert_eq!(
        entries(&found),
        [("w/m.bin".to_owned(), m, safetensors), ("in.zip".to_owned(), zipped.len() as u64, None)]
    );
    // An archive inside another is listed by its path.
    let found = listed(&inside(&outer, "in.zip"));
    assert_eq!(found.kind, "zip");
    assert_eq!(
        entries(&found),
        [
            ("m.bin".to_owned(), m, safetensors),
            ("a.npz".to_owned(), numpy.len() as u64, Some("npz")),
            ("notes.txt".to_owned(), 2, None)
        ]
    );
    let methods: Vec<Option<&str>> = found.files.iter().map(|f| f.method.as_deref()).collect();
    assert_eq!(methods, [Some("deflate"), None, Some("deflate")]);
    assert!(found.files[0].stored_len < m);
    // A file that is not an archive, and a damaged one.
    let other = put(&dir, "x.txt", b"text");
    let (source, name) = OpenOptions::new().unchecked_source_at(&Location::new(&other)).unwrap();
    let e = holdall::archive::contents(source, &name, &Limits::default()).unwrap_err();
    assert_eq!(e.code(), "archive/no-archive");
    let cut = put(&dir, "cut.tar", &tarred[..700]);
    let (source, name) = OpenOptions::new().unchecked_source_at(&Location::new(&cut)).unwrap();
    let e = holdall::archive::contents(source, &name, &Limits::default()).unwrap_err();
    assert_eq!((e.code(), e.source_name().is_some()), ("tar/bounds", true));
}

/// The data before the first member has the length of an HDF5 file's user block.
#[test]
fn an_archive_that_begins_with_hdf5_is_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("models.tar");
    let members = [("a.h5", model_as("a.h5", 1.0)), ("b.safetensors", model(2.0))];
    let members = members.map(|(name, bytes)| member(name, b'0', &bytes));
    std::fs::write(&path, tar(&members)).unwrap();
    let e = holdall::open(&path).unwrap_err();
    assert_eq!(e.code(), "format/unknown");
    assert!(e.to_string().contains("a.h5") && e.to_string().contains("b.safetensors"), "{e}");
    for (name, x) in [("a.h5", 1.0), ("b.safetensors", 2.0)] {
        let file = holdall::open(format!("{}!/{name}", path.display())).unwrap();
        assert_eq!(first(&file), x);
    }
}
