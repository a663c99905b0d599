//! The published packages of the same version can read files that we write, bit for bit, and we can read
//! theirs.
//!
//! The packages are pinned, and called as programs: see `interop/README.md`. `cargo xtask interop` builds
//! them, sets their paths and runs these tests; without it they are ignored.

use crate::corpus_files;
use holdall::{
    Algorithm, Convert, DType, EncodeOptions, File, Select, TensorSpec, Value, WriteOptions,
    Writer, convert, formats,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Components by tensor and role: shape, layout, dtype, logical type and decoded bytes.
type Contents = BTreeMap<(String, String), (Vec<u64>, String, String, String, Vec<u8>)>;

/// A program that reads and writes files with a published package.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Peer {
    /// The `ztensor` crate of this version.
    Crate(&'static str),
    /// Python, with `ztensor` 1.2.3 and `safetensors` 0.8.
    Python,
    /// Python, with `ztensor` 2.1.2.
    Python2,
}

const CRATES: [Peer; 4] =
    [Peer::Crate("0.1.0"), Peer::Crate("1.0.0"), Peer::Crate("1.1.1"), Peer::Crate("1.2.3")];

impl Peer {
    fn command(self) -> Command {
        let place = |key: &str| {
            PathBuf::from(std::env::var_os(key).expect("`cargo xtask interop` runs these tests"))
        };
        match self {
            Peer::Crate(version) => {
                let name = format!("ztensor-{}", version.replace('.', "-"));
                Command::new(place("HOLDALL_PEERS").join(name))
            }
            Peer::Python | Peer::Python2 => {
                let mut command = Command::new(place("HOLDALL_PYTHON"));
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                if self == Peer::Python2 {
                    command.env("PYTHONPATH", place("HOLDALL_ZTENSOR2"));
                }
                let script = if self == Peer::Python { "peer.py" } else { "peer2.py" };
                command.arg(root.join("interop/python").join(script));
                command
            }
        }
    }

    /// Returns the contents of a file as the peer reads it, or its error.
    fn read(self, path: &Path) -> Result<Contents, String> {
        let folder = tempfile::tempdir().unwrap();
        let out = self.command().arg("read").arg(path).arg(folder.path()).output().unwrap();
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        let line = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [number, name, shape, layout, role, dtype, logical] = fields[..] else {
                panic!("{self:?}: {line}");
            };
            let dims = shape.split(',').filter(|d| !d.is_empty());
            let shape: Vec<u64> = dims.map(|d| d.parse().unwrap()).collect();
            let bytes = std::fs::read(folder.path().join(number)).unwrap();
            let (dtype, logical) = our_names(dtype, logical);
            ((from_hex(name), role.to_owned()), (shape, layout.to_owned(), dtype, logical, bytes))
        };
        Ok(String::from_utf8(out.stdout).unwrap().lines().map(line).collect())
    }

    /// Returns the files that the peer writes.
    fn write(self, folder: &Path) -> Vec<PathBuf> {
        let out = self.command().arg("write").arg(folder).output().unwrap();
        assert!(out.status.success(), "{self:?}: {}", String::from_utf8_lossy(&out.stderr));
        let mut all: Vec<PathBuf> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        assert!(all.len() >= 3, "{self:?}: {all:?}");
        all
    }
}

fn from_hex(text: &str) -> String {
    let byte = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
    String::from_utf8((0..text.len()).step_by(2).map(byte).collect()).unwrap()
}

/// Returns our names for a dtype with its long name in 0.1 and 1.0, or with its safetensors name.
fn our_names(dtype: &str, logical: &str) -> (String, String) {
    let dtype = dtype.to_lowercase();
    let (dtype, logical) = match dtype.as_str() {
        "f4" => ("u8", "f4_e2m1"),
        "f8_e4m3" => ("u8", "f8_e4m3fn"),
        "c64" => ("f32", "complex64"),
        own if own.starts_with("f8_") || own.starts_with("f6_") => ("u8", own),
        own => (own, logical),
    };
    let mut short = dtype.to_owned();
    for (long, letter) in [("uint", "u"), ("int", "i"), ("bfloat", "bf"), ("float", "f")] {
        if let Some(bits) = dtype.strip_prefix(long) {
            short = format!("{letter}{bits}");
            break;
        }
    }
    (short, logical.to_owned())
}

/// Returns the contents of a file as we read it.
fn ours(path: &Path) -> Contents {
    let file = holdall::open(path).unwrap_or_else(|e| panic!("{e}"));
    let loaded = file.load_all().unwrap_or_else(|e| panic!("{e}"));
    let mut all = Contents::new();
    for tensor in file.tensors() {
        for c in tensor.components() {
            let bytes = loaded.get(tensor.name()).unwrap().bytes(&c.role).unwrap().to_vec();
            let logical = c.logical_type.as_ref().map_or("-", |t| t.as_str());
            // With an odd number of elements.
            let logical = logical.strip_prefix("zt.").unwrap_or(logical).to_owned();
            let (shape, layout) = (tensor.shape().to_vec(), tensor.layout().to_string());
            let entry = (shape, layout, c.dtype.to_string(), logical, bytes);
            all.insert((tensor.name().to_owned(), c.role.to_string()), entry);
        }
    }
    all
}

#[track_caller]
fn compare(peer: Peer, path: &Path) {
    let mut theirs = peer.read(path).unwrap_or_else(|e| panic!("{peer:?} {}: {e}", path.display()));
    let mut ours = ours(path);
    for (_, _, dtype, logical, _) in theirs.values_mut() {
        // A type with the name of the dtype adds nothing.
        if logical == dtype {
            *logical = "-".into();
        }
    }
    if peer == Peer::Python {
        // The peer takes the shape of a complex tensor for that of the stored elements.
        let is_complex = |logical: &str| logical.starts_with("complex");
        let is_zt = path.extension().is_some_and(|e| e == "zt");
        ours.retain(|_, (_, layout, _, logical, _)| {
            !(is_zt && layout == "dense" && is_complex(logical))
        });
    }
    if peer == Peer::Python2 {
        // The peer has its own names for groups and MX blocks.
        let is_theirs = |layout: &str| matches!(layout, "zt.quant_group/1" | "zt.mx/1");
        ours = std::mem::take(&mut ours)
            .into_iter()
            .map(|((name, role), mut entry)| {
                let is_group = entry.1 == "quantized_group";
                let role = if is_group && role == "packed_weight" { "data".into() } else { role };
                let theirs = theirs.get(&(name.clone(), role.clone()));
                if let Some(theirs) = theirs.filter(|of| is_group && is_theirs(&of.1)) {
                    entry.1.clone_from(&theirs.1);
                }
                ((name, role), entry)
            })
            .collect();
    }
    if path.extension().is_some_and(|e| e == "safetensors") {
        // For other readers, tensors that share the bytes of another are a text in the metadata.
        let is_alias = |all: &Contents, name: &(String, String)| {
            !theirs.contains_key(name)
                && all.keys().any(|other| other != name && all[other] == all[name])
        };
        let all = ours.clone();
        ours.retain(|name, _| !is_alias(&all, name));
    }
    let place = path.display();
    assert!(theirs.keys().eq(ours.keys()), "{peer:?} {place}: {:?}", theirs.keys());
    for (name, their) in &theirs {
        assert!(their == &ours[name], "{peer:?} {place}: {name:?}");
    }
}

#[test]
#[ignore = "needs the peers: cargo xtask interop"]
fn we_read_files_of_other_crates() {
    for peer in CRATES {
        let folder = tempfile::tempdir().unwrap();
        for path in peer.write(folder.path()) {
            compare(peer, &path);
        }
    }
}

#[test]
#[ignore = "needs the peers: cargo xtask interop"]
fn we_read_files_of_python() {
    let folder = tempfile::tempdir().unwrap();
    for path in Peer::Python.write(folder.path()) {
        compare(Peer::Python, &path);
    }
}

#[test]
#[ignore = "needs the peers: cargo xtask interop"]
fn we_read_and_convert_files_of_python2() {
    let folder = tempfile::tempdir().unwrap();
    for path in Peer::Python2.write(folder.path()) {
        compare(Peer::Python2, &path);
        // Conversion to 1.2 and back changes nothing.
        let (file, before) = (holdall::open(&path).unwrap(), ours(&path));
        let [old, new] = ["old.zt", "new.zt"].map(|name| folder.path().join(name));
        let write = |format| {
            WriteOptions::new().with_format(formats::by_name(format).unwrap()).with_overwrite(true)
        };
        convert(&file, &old, &Convert::new(write("ztensor"))).unwrap();
        let old = holdall::open(&old).unwrap();
        convert(&old, &new, &Convert::new(write("ztensor2"))).unwrap();
        compare(Peer::Python2, &new);
        let mut after = ours(&new);
        let widened =
            |(_, role): &&(String, String)| ["indices", "indptr", "coords"].contains(&&**role);
        for key in before.keys().filter(widened) {
            // Indices have 64 bits in 1.2.
            after.insert(key.clone(), before[key].clone());
        }
        assert!(before == after, "{}", path.display());
        assert_eq!(file.attributes(), holdall::open(&new).unwrap().attributes());
    }
}

#[test]
#[ignore = "needs the peers: cargo xtask interop"]
fn python2_reads_our_files() {
    with_every_option("ztensor2", "2", |path| compare(Peer::Python2, path));
    // A sharded model, which the package finds by the names of its files and verifies as a whole.
    let folder = tempfile::tempdir().unwrap();
    let source = corpus_files::files("accept")
        .into_iter()
        .find(|path| path.ends_with("ztensor2/ztensor-2.1.2_groups.zt"))
        .unwrap();
    let write = WriteOptions::new().with_format(formats::by_name("ztensor2").unwrap());
    let options = Convert::new(write).with_max_shard_len(2000);
    let model = folder.path().join("model");
    convert(&holdall::open(source).unwrap(), &model, &options).unwrap();
    compare(Peer::Python2, &model.join("model.zt"));
    // Files of every format, including blocks, sparse tensors, and types stored in other dtypes.
    let folder = tempfile::tempdir().unwrap();
    let mut written = BTreeMap::<String, u32>::new();
    for path in corpus_files::files("accept") {
        let file = holdall::open(&path).unwrap();
        let count = written.entry(file.format().to_owned()).or_default();
        let out = folder.path().join("out.zt");
        let write = WriteOptions::new().with_format(formats::by_name("ztensor2").unwrap());
        let options = Convert::new(write.with_overwrite(true)).with_raw_types();
        if *count < 4
            && !file.is_empty()
            && convert(&file, &out, &options.with_drop_attributes()).is_ok()
        {
            compare(Peer::Python2, &out);
            *count += 1;
        }
    }
    assert!(written.values().filter(|count| **count > 0).count() >= 10, "{written:?}");
}

/// Sound files of the corpus that peers cannot read, and why.
const BEYOND_PEERS: [(&str, &str); 9] = [
    // The document's spelling, layouts unknown to the peer.
    ("made-0.1-sparse.zt", "unknown variant"),
    ("made-0.1-sparse_stated.zt", "unknown variant"),
    ("made-0.1-unaligned.zt", "InvalidAlignment"),
    ("made-1.0-unaligned.zt", "InvalidAlignment"),
    ("made-1.1-unaligned.zt", "InvalidAlignment"),
    ("made-1.2-unaligned.zt", "InvalidAlignment"),
    ("made-1.2-attributes.zt", "expected known simple value"),
    ("made-1.2-nulls.zt", "invalid type: null"),
    ("made-0.1-custom_fields.zt", "CborDeserialize"),
];

/// Every accepted file is read by the crate of its version.
#[test]
#[ignore = "needs the peers: cargo xtask interop"]
fn crates_read_the_corpus() {
    let (mut read, mut wrong) = (0, Vec::new());
    for path in corpus_files::files("accept") {
        let name = path.file_name().unwrap().to_str().unwrap();
        // The name has the version of the format; for zTensor 2 it is that of the package, 2.1.2.
        if path.parent().is_some_and(|folder| folder.ends_with("ztensor2")) {
            continue;
        }
        let version = ["0.1", "1.0", "1.1", "1.2"].into_iter().find(|v| name.contains(v));
        let Some(at) = version.and_then(|v| CRATES.iter().position(|p| peer_is(*p, v))) else {
            continue;
        };
        let peer = CRATES[at];
        let documented_sparse = name.starts_with("made-0.1-written_") && has_sparse(&path);
        let why = BEYOND_PEERS.iter().find(|(beyond, _)| *beyond == name).map(|(_, why)| *why);
        match why.or(documented_sparse.then_some("unknown variant")) {
            None => match peer.read(&path) {
                Ok(_) => compare(peer, &path),
                Err(e) => wrong.push(format!("{name}: {e}")),
            },
            Some(why) => match peer.read(&path) {
                Ok(_) => wrong.push(format!("{name}: it is read")),
                Err(e) if !e.contains(why) => wrong.push(format!("{name}: {e}")),
                Err(_) => drop(ours(&path)),
            },
        }
        read += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 60, "{read} files");
}

fn peer_is(peer: Peer, version: &str) -> bool {
    matches!(peer, Peer::Crate(own) if own.starts_with(version))
}

fn has_sparse(path: &Path) -> bool {
    holdall::open(path).unwrap().tensors().any(|t| t.layout().as_str().starts_with("sparse"))
}

/// Returns a file with tensors of every dtype and of lengths around thresholds.
fn source(folder: &Path) -> File {
    let path = folder.join("source.zt");
    let mut attributes = holdall::Attributes::new();
    attributes.set("license", Value::Text("MIT".into()));
    let options = WriteOptions::new().with_attributes(attributes);
    let mut writer = Writer::create(&path, &options).unwrap();
    for (i, dtype) in DType::ALL.into_iter().enumerate() {
        for count in [0, 1, 37, 1 << 16] {
            let mut bytes = noise(count * dtype.width() as usize, i as u64 + 1);
            if dtype == DType::Bool {
                bytes.iter_mut().for_each(|b| *b &= 1);
            }
            let spec = TensorSpec::dense(format!("{dtype}.{count}"), dtype, [count as u64]);
            writer.add(spec, &[&bytes]).unwrap();
        }
    }
    for len in [(4 << 20) - 4, 4 << 20, (4 << 20) + 4, (9 << 20) + 12] {
        let bytes = noise(len, 99);
        let spec = TensorSpec::dense(format!("long.{len}"), DType::F32, [len as u64 / 4]);
        writer.add(spec, &[&bytes]).unwrap();
    }
    writer.add(TensorSpec::dense("scalar", DType::F64, []), &[&1.5f64.to_le_bytes()]).unwrap();
    writer.finish().unwrap();
    holdall::open(path).unwrap()
}

/// Returns pseudorandom bytes that compress a little.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 59) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Writes the source as this version with every option; each file is passed to `check`.
fn with_every_option(format: &str, version: &str, mut check: impl FnMut(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let source = source(folder.path());
    let expected = ours(&folder.path().join("source.zt"));
    for level in [None, Some(1), Some(19)] {
        let quick = if format == "ztensor2" { Algorithm::Xxh3 } else { Algorithm::Crc32c };
        let aligns = if format == "ztensor2" { [4096, 65536] } else { [64, 4096] };
        for digest in [None, Some(quick), Some(Algorithm::Sha256)] {
            for align in aligns {
                // This version has neither: requesting them is refused.
                let plain = level.is_none() && digest.is_none();
                let is_slow = level == Some(19) && (align != aligns[0] || format == "ztensor2");
                if is_slow || (format == "safetensors" && !plain) {
                    continue;
                }
                let mut encode = EncodeOptions::new().with_align(align);
                if !version.is_empty() {
                    encode = encode.with_version(version);
                }
                let mut options = WriteOptions::new()
                    .with_format(formats::by_name(format).unwrap())
                    .with_encode(encode)
                    .with_digest(digest)
                    .with_overwrite(true);
                if let Some(level) = level {
                    options = options.with_zstd(level);
                }
                let extension = formats::by_name(format).unwrap().extensions[0];
                let path = folder.path().join(format!("written.{extension}"));
                // Level 19 is slow; long tensors test nothing more with it.
                let exclude: &[&str] = if level == Some(19) { &["long.*"] } else { &[] };
                let options = Convert::new(options)
                    .reencode()
                    .with_select(Select::new(&[] as &[&str], exclude).unwrap());
                convert(&source, &path, &options).unwrap();
                let mut expected = expected.clone();
                expected.retain(|(name, _), _| level != Some(19) || !name.starts_with("long."));
                assert!(ours(&path) == expected, "we read something else: {options:?}");
                check(&path);
            }
        }
    }
}

#[test]
#[ignore = "needs the peers: cargo xtask interop"]
fn other_crates_read_our_files() {
    for (version, peer) in [("0.1", "0.1.0"), ("1.0", "1.0.0"), ("1.2", "1.1.1"), ("1.2", "1.2.3")]
    {
        with_every_option("ztensor", version, |path| compare(Peer::Crate(peer), path));
    }
}

#[test]
#[ignore = "needs the peers: cargo xtask interop"]
fn python_reads_our_files() {
    with_every_option("ztensor", "1.2", |path| compare(Peer::Python, path));
    with_every_option("safetensors", "", |path| compare(Peer::Python, path));
    for path in corpus_files::files("accept") {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("made-1.2-written_") || name.ends_with(".safetensors") {
            compare(Peer::Python, &path);
        }
    }
}
