//! The models of the matrix: one for each layout, and the formats that each is written in.

use crate::command::{accept, holdall};
use crate::matrix::reading::safetensors;
use crate::matrix::tensors::{LayoutForm, Stored, Tensors, bytes_of};
use crate::records_files;
use holdall::operations::LayoutKind;
use holdall::{
    Attributes, ComponentSpec, DType, EncodeOptions, Layout, Role, TensorSpec, Value, WriteOptions,
    Writer, formats,
};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

/// What the tensors of a model are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Dense,
    Csr,
    Coo,
    Group,
    Blocks,
    Strided,
    /// An array of NumPy's in column-major order, alone in its file.
    Fortran,
    /// PyTorch's sparse tensors, one by coordinates and one by rows.
    Sparse,
    /// PyTorch's quantized tensors, one with a scale for all and one with a scale for each row.
    Codes,
    Records,
    Blob,
    /// Lines of JSON, of which a file of records is built.
    Lines,
}

/// A model in a format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    pub(crate) extension: &'static str,
    /// The format, with its version.
    pub(crate) to: &'static str,
    /// Options of `convert`.
    pub(crate) more: &'static [&'static str],
    /// Whether its files have a digest of every component.
    pub(crate) digests: bool,
}

const fn source(
    kind: Kind,
    extension: &'static str,
    to: &'static str,
    more: &'static [&'static str],
    digests: bool,
) -> Source {
    Source { kind, extension, to, more, digests }
}

pub(crate) static SOURCES: &[Source] = &[
    source(Kind::Dense, "zt", "ztensor@1.2", &[], true),
    source(Kind::Dense, "zt", "ztensor@1.2", &["--encoding", "zstd"], true),
    source(Kind::Dense, "zt", "ztensor@1.2", &["--digest", "sha256"], true),
    source(Kind::Dense, "zt", "ztensor@1.0", &[], true),
    source(Kind::Dense, "zt", "ztensor@0.1", &[], true),
    source(Kind::Dense, "zt", "ztensor2", &[], true),
    source(Kind::Dense, "safetensors", "safetensors", &[], false),
    source(Kind::Dense, "mt", "metatensor", &[], false),
    source(Kind::Dense, "gguf", "gguf", &[], false),
    source(Kind::Dense, "npz", "npz", &[], true),
    source(Kind::Dense, "pt", "pytorch", &[], true),
    source(Kind::Dense, "h5", "hdf5", &[], false),
    source(Kind::Csr, "zt", "ztensor@1.2", &[], true),
    source(Kind::Csr, "zt", "ztensor@1.2", &["--encoding", "zstd"], true),
    source(Kind::Csr, "zt", "ztensor@1.0", &[], true),
    source(Kind::Csr, "zt", "ztensor@0.1", &[], true),
    source(Kind::Csr, "zt", "ztensor2", &[], true),
    source(Kind::Coo, "zt", "ztensor@1.2", &[], true),
    source(Kind::Coo, "zt", "ztensor@1.0", &[], true),
    source(Kind::Coo, "zt", "ztensor@0.1", &[], true),
    source(Kind::Coo, "zt", "ztensor2", &[], true),
    source(Kind::Group, "zt", "ztensor@1.2", &[], true),
    source(Kind::Group, "zt", "ztensor2", &[], true),
    source(Kind::Blocks, "gguf", "gguf", &[], false),
    source(Kind::Blocks, "zt", "ztensor@1.2", &[], true),
    source(Kind::Blocks, "zt", "ztensor2", &[], true),
    source(Kind::Strided, "npz", "npz", &[], true),
    source(Kind::Strided, "pt", "pytorch", &[], true),
    source(Kind::Fortran, "npy", "npy", &[], false),
    source(Kind::Sparse, "pt", "pytorch", &[], true),
    source(Kind::Codes, "pt", "pytorch", &[], true),
    source(Kind::Records, "mt", "metatensor", &[], false),
    source(Kind::Records, "zt", "ztensor@1.2", &[], true),
    source(Kind::Blob, "mt", "metatensor", &[], false),
    source(Kind::Blob, "zt", "ztensor@1.2", &[], true),
    source(Kind::Lines, "ndjson", "ndjson", &[], false),
];

/// How many records a dataset has.
const RECORDS: u64 = 5;
/// The lines of a text, each of two members.
pub(crate) const LINES: [(i32, i32); 4] = [(1, -2), (30, 4), (-500, 60), (7, 80_000)];
/// The runs of a blob.
const RUNS: [&[u8]; 3] = [b"the first run", b"", b"and the third, which is longer"];

impl Kind {
    /// Returns the tensors of the model.
    pub(crate) fn tensors(self) -> Vec<Stored> {
        let some = |count: usize, first: usize| -> Vec<u8> {
            let one = |at: usize| (first + at) as f32 / 8.0 - 3.0;
            bytes_of(&(0..count).map(one).collect::<Vec<_>>())
        };
        let longs = |all: &[u64]| all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        let codes = |count: usize, first: usize| -> Vec<u8> {
            (0..count).map(|at| ((first + at) * 37 % 251) as u8).collect()
        };
        let dense = |name, shape: &[u64], first| {
            let count = shape.iter().product::<u64>() as usize;
            Stored::new(name, shape, LayoutForm::Dense, &[("data", some(count, first))])
        };
        let (a, c) = match self {
            Kind::Dense => (dense("a.weight", &[4, 8], 1), dense("c.weight", &[2, 3, 5], 200)),
            Kind::Csr => {
                let parts = |values: usize, first, indices: &[u64], indptr: &[u64]| {
                    [
                        ("values", some(values, first)),
                        ("indices", longs(indices)),
                        ("indptr", longs(indptr)),
                    ]
                };
                let a = parts(7, 30, &[0, 3, 7, 1, 2, 6, 4], &[0, 3, 4, 4, 7]);
                let c = parts(5, 70, &[5, 0, 3, 2, 1], &[0, 1, 2, 4, 4, 5]);
                (
                    Stored::new("a.weight", &[4, 8], LayoutForm::Csr, &a),
                    Stored::new("c.weight", &[5, 6], LayoutForm::Csr, &c),
                )
            }
            Kind::Coo => {
                let parts = |values: usize, first, coords: &[u64]| {
                    [("values", some(values, first)), ("coords", longs(coords))]
                };
                let a = parts(5, 30, &[0, 0, 1, 3, 3, 1, 7, 4, 0, 5]);
                let c = parts(4, 70, &[0, 0, 1, 1, 2, 1, 0, 2, 4, 0, 3, 1]);
                (
                    Stored::new("a.weight", &[4, 8], LayoutForm::Coo, &a),
                    Stored::new("c.weight", &[2, 3, 5], LayoutForm::Coo, &c),
                )
            }
            Kind::Group => {
                let scales = |count: usize| {
                    let one = |at: usize| 0.125 * (at + 1) as f32;
                    bytes_of(&(0..count).map(one).collect::<Vec<_>>())
                };
                let zeros = bytes_of(&(0..8).map(|at| (at % 5) as f32 + 3.0).collect::<Vec<_>>());
                let a = [("packed_weight", codes(32, 3)), ("scales", scales(8)), ("zeros", zeros)];
                let c = [("packed_weight", codes(64, 9)), ("scales", scales(4))];
                (
                    Stored::new("a.weight", &[4, 16], LayoutForm::Group { bits: 4, size: 8 }, &a),
                    Stored::new("c.weight", &[2, 32], LayoutForm::Group { bits: 8, size: 16 }, &c),
                )
            }
            Kind::Blocks => {
                let blocks = |count: usize, first: usize| -> Vec<u8> {
                    let one = |at: usize| {
                        let scale = 0x3000u16 + (at as u16) * 0x111;
                        [&scale.to_le_bytes()[..], &codes(32, first + 40 * at)].concat()
                    };
                    (0..count).flat_map(one).collect()
                };
                (
                    Stored::new("a.weight", &[4, 32], LayoutForm::Q8, &[("data", blocks(4, 5))]),
                    Stored::new("c.weight", &[2, 64], LayoutForm::Q8, &[("data", blocks(4, 300))]),
                )
            }
            Kind::Strided => {
                let a = [("data", some(32, 1))];
                let c = [("data", some(30, 200))];
                (
                    Stored::new("a.weight", &[4, 8], LayoutForm::Strided(vec![1, 4]), &a),
                    Stored::new("c.weight", &[2, 3, 5], LayoutForm::Strided(vec![1, 2, 6]), &c),
                )
            }
            Kind::Fortran => {
                let form = LayoutForm::Strided(vec![1, 2, 6]);
                return vec![Stored::new("data", &[2, 3, 5], form, &[("data", some(30, 200))])];
            }
            Kind::Sparse => {
                // Where the file of the corpus has them.
                let file = std::fs::read(accept("pytorch/torch_sparse.pt")).unwrap();
                let part = |offset: usize, len: usize| file[offset..offset + len].to_vec();
                let coo = [("coords", part(1152, 48)), ("values", part(1280, 12))];
                let csr = [
                    ("indptr", part(1408, 32)),
                    ("indices", part(1560, 24)),
                    ("values", part(1664, 12)),
                ];
                return vec![
                    Stored::new("coo", &[3, 3], LayoutForm::Coo, &coo),
                    Stored::new("csr", &[3, 3], LayoutForm::Csr, &csr),
                ];
            }
            Kind::Codes => {
                // What is in the file of the corpus.
                let q: [i8; 24] = [
                    -12, -5, -4, -13, 2, -3, -7, -13, 7, 15, 21, 2, 4, -13, 0, 0, -5, 6, 6, 20, 2,
                    12, -11, 30,
                ];
                let qc: [u8; 24] =
                    [0, 0, 0, 0, 0, 0, 0, 0, 3, 7, 10, 1, 2, 0, 1, 1, 0, 3, 4, 7, 3, 5, 0, 10];
                let q = [("data", q.map(|x| x as u8).to_vec())];
                let scales = [0.1f32, 0.2, 0.3, 0.4].map(f64::from);
                return vec![
                    Stored::new("q", &[4, 6], LayoutForm::Codes("I8"), &q)
                        .with_attributes(json!({"scale": 0.1, "zero_point": 3})),
                    Stored::new("qc", &[4, 6], LayoutForm::Codes("U8"), &[("data", qc.to_vec())])
                        .with_attributes(
                            json!({"scales": scales, "zero_points": [0, 1, 2, 3], "axis": 0}),
                        ),
                ];
            }
            Kind::Lines => return Vec::new(),
            Kind::Records | Kind::Blob => {
                let made = self.made();
                let roles = made.spec.components.iter().map(|c| c.role.as_str().to_owned());
                let form =
                    if self == Kind::Records { LayoutForm::Records } else { LayoutForm::Blob };
                let mut set = Stored::new("set", &made.spec.shape, form, &[]);
                set.parts = roles.zip(made.bytes).collect();
                return vec![dense("b.bias", &[16], 100), set];
            }
        };
        vec![a, dense("b.bias", &[16], 100), c]
    }

    fn made(self) -> records_files::Made {
        match self {
            Kind::Blob => records_files::blob("utf-8", &RUNS, 1),
            _ => records_files::dataset(RECORDS),
        }
    }

    /// Returns the values of the records or runs, as `holdall records --json` shows them.
    pub(crate) fn records(self) -> Option<Vec<Json>> {
        match self {
            Kind::Records => Some((0..RECORDS).map(records_files::value).collect()),
            Kind::Blob => {
                Some(RUNS.iter().map(|run| json!(String::from_utf8_lossy(run))).collect())
            }
            _ => None,
        }
    }

    /// Returns its column in the table of operations.
    pub(crate) fn layout(self) -> LayoutKind {
        match self {
            Kind::Dense | Kind::Codes | Kind::Lines => LayoutKind::Dense,
            Kind::Strided | Kind::Fortran => LayoutKind::Strided,
            Kind::Csr | Kind::Coo | Kind::Sparse => LayoutKind::Sparse,
            Kind::Group | Kind::Blocks => LayoutKind::Quantized,
            Kind::Records => LayoutKind::Records,
            Kind::Blob => LayoutKind::Blob,
        }
    }
}

/// Returns the tensor for a writer.
fn spec(kind: Kind, stored: &Stored) -> TensorSpec {
    if matches!(stored.form, LayoutForm::Records | LayoutForm::Blob) {
        return kind.made().spec;
    }
    let number = |n: u64| Value::Integer(n.into());
    let (layout, attributes) = match &stored.form {
        LayoutForm::Csr => (Layout::SparseCsr, vec![]),
        LayoutForm::Coo => (Layout::SparseCoo, vec![]),
        LayoutForm::Group { bits, size } => (
            Layout::QuantizedGroup,
            vec![("bits", number(u64::from(*bits))), ("group_size", number(*size as u64))],
        ),
        LayoutForm::Q8 => (Layout::from_name("gguf.q8_0"), vec![]),
        LayoutForm::Strided(strides) => {
            let strides = strides.iter().map(|n| number(*n)).collect();
            (Layout::Strided, vec![("strides", Value::Array(strides))])
        }
        _ => (Layout::Dense, vec![]),
    };
    let dtype = |role: &str| match (role, &stored.form) {
        ("indices" | "indptr" | "coords", _) => DType::U64,
        ("packed_weight", LayoutForm::Group { bits: 4, .. }) => DType::U32,
        ("packed_weight", _) | (_, LayoutForm::Q8) => DType::U8,
        _ => DType::F32,
    };
    let one = |(role, bytes): &(String, Vec<u8>)| {
        ComponentSpec::new(Role::from_name(role), dtype(role), bytes.len() as u64)
    };
    TensorSpec {
        name: stored.name.to_owned(),
        shape: stored.shape.clone(),
        layout,
        attributes: attributes.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Attributes>(),
        components: stored.parts.iter().map(one).collect(),
    }
}

/// Writes the model with the library.
fn write(kind: Kind, to: &str, path: &Path) {
    let (format, version) = to.split_once('@').unwrap_or((to, ""));
    let mut encode = EncodeOptions::new();
    if !version.is_empty() {
        encode = encode.with_version(version);
    }
    let options =
        WriteOptions::new().with_format(formats::by_name(format).unwrap()).with_encode(encode);
    let mut writer = Writer::create(path, &options).unwrap();
    let tensors = kind.tensors();
    let specs: Vec<TensorSpec> = tensors.iter().map(|stored| spec(kind, stored)).collect();
    writer.declare(&specs).unwrap();
    for at in writer.order(&specs) {
        let parts: Vec<&[u8]> = tensors[at].parts.iter().map(|(_, bytes)| &**bytes).collect();
        writer.add(specs[at].clone(), &parts).unwrap();
    }
    writer.finish().unwrap();
}

/// Returns an `.npy` file in column-major order.
fn fortran(stored: &Stored) -> Vec<u8> {
    let shape = stored.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut header = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': ({shape}), }}");
    header = format!("{header:117}\n");
    let len = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), stored.part("data").unwrap()].concat()
}

impl Source {
    /// Returns whether models of the format may be several files.
    pub(crate) fn has_shards(&self) -> bool {
        matches!(self.to, "safetensors" | "gguf" | "ztensor2")
    }

    /// Writes the model as one file, or as shards in a folder, with two tensors at most in each. Returns the files.
    pub(crate) fn write(&self, folder: &Path, is_sharded: bool) -> Vec<PathBuf> {
        let home = folder.join("model");
        std::fs::create_dir(&home).unwrap();
        let target = match is_sharded {
            true => home.join("shards"),
            false => home.join(format!("model.{}", self.extension)),
        };
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let corpus = |name: &str| assert!(std::fs::copy(accept(name), &target).unwrap() > 0);
        let seed = folder.join("seed");
        match self.kind {
            Kind::Fortran => {
                let [stored] = &self.kind.tensors()[..] else { unreachable!() };
                std::fs::write(&target, fortran(stored)).unwrap();
            }
            Kind::Lines => {
                let lines = LINES.map(|(a, b)| json!({"a": a, "b": b}).to_string());
                std::fs::write(&target, lines.join("\n") + "\n").unwrap();
            }
            Kind::Sparse => corpus("pytorch/torch_sparse.pt"),
            Kind::Codes => corpus("pytorch/torch_quantized.pt"),
            // What is converted is row by row.
            Kind::Strided => write(self.kind, self.to, &target),
            Kind::Dense => {
                let named = |s: Stored| (s.name.to_owned(), s.dense().unwrap());
                let tensors: Tensors = self.kind.tensors().into_iter().map(named).collect();
                std::fs::write(&seed, safetensors(&tensors)).unwrap();
            }
            kind => write(kind, "ztensor@1.2", &seed),
        }
        if !seed.exists() {
            return vec![target];
        }
        let (seed, out) = (text(&seed), text(&target));
        let mut args = vec!["convert", &seed, &out, "--no-sync", "--to", self.to];
        args.extend(self.more);
        if is_sharded {
            args.extend(["--max-shard-tensors", "2"]);
        }
        holdall(args).ends_with(0);
        std::fs::remove_file(&seed).unwrap();
        match is_sharded {
            true => {
                let entries = std::fs::read_dir(&target).unwrap();
                let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
                all.sort();
                all
            }
            false => vec![target],
        }
    }
}
