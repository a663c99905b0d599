//! Files made in memory, sound or deliberately damaged.
#![allow(dead_code)] // Each test file uses some of it.

use holdall::{
    Algorithm, Attributes, ByteSource, Bytes, ComponentRef, ComponentSpec, DType, Digest,
    EncodeOptions, Encoding, File, Hasher, Layout, LogicalType, OpenOptions, ReadHints, Role,
    Stored, TensorSpec, Value, formats,
};
use holdall_core::codec::{frame_lens, zstd};
use holdall_core::model::crc32c;
use std::ops::Range;
use std::sync::Arc;

/// A component to be written.
#[derive(Clone)]
pub(crate) struct MadeComponent {
    spec: ComponentSpec,
    /// The bytes as stored in the file.
    pub(crate) stored: Vec<u8>,
    encoding: Encoding,
    /// `None` for the CRC-32C of the stored bytes.
    digest: Option<Option<Digest>>,
}

/// Creates a raw component with its CRC-32C.
pub(crate) fn part(role: Role, dtype: DType, bytes: impl Into<Vec<u8>>) -> MadeComponent {
    let stored = bytes.into();
    let spec = ComponentSpec::new(role, dtype, stored.len() as u64);
    MadeComponent { spec, stored, encoding: Encoding::Raw, digest: None }
}

impl MadeComponent {
    /// Compresses into one zstd frame, or into several with a seek table for lengths that are written so.
    pub(crate) fn zstd(mut self) -> MadeComponent {
        let (lens, seekable) = frame_lens(self.stored.len() as u64);
        let mut encoder = zstd::Encoder::new(1).unwrap();
        let (mut out, mut frames, mut frame) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = &self.stored[..];
        for len in lens {
            let (now, tail) = rest.split_at(len as usize);
            rest = tail;
            encoder.frame(now, &mut frame).unwrap();
            frames.push((frame.len() as u64, len));
            out.extend_from_slice(&frame);
        }
        if seekable {
            out.extend(zstd::seek_table(&frames).unwrap());
        }
        self.stored = out;
        self.encoding = Encoding::ZSTD;
        self
    }

    /// Compresses into one zstd frame, whatever the length.
    pub(crate) fn one_frame(mut self) -> MadeComponent {
        let mut out = Vec::new();
        zstd::Encoder::new(1).unwrap().frame(&self.stored, &mut out).unwrap();
        self.stored = out;
        self.encoding = Encoding::ZSTD;
        self
    }

    pub(crate) fn logical(mut self, t: LogicalType) -> MadeComponent {
        self.spec.logical_type = Some(t);
        self
    }

    pub(crate) fn digest(mut self, digest: Option<Digest>) -> MadeComponent {
        self.digest = Some(digest);
        self
    }

    pub(crate) fn sha256(self) -> MadeComponent {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(&self.stored);
        let digest = hasher.finish();
        self.digest(Some(digest))
    }

    pub(crate) fn decoded_len(mut self, len: u64) -> MadeComponent {
        self.spec.decoded_len = len;
        self
    }

    /// Uses the stored bytes of an earlier component.
    pub(crate) fn shares(mut self, tensor: &str, role: Role) -> MadeComponent {
        self.spec.shares = Some(ComponentRef { tensor: tensor.to_owned(), role });
        self
    }
}

/// A tensor to be written.
#[derive(Clone)]
pub(crate) struct Made {
    spec: TensorSpec,
    parts: Vec<MadeComponent>,
}

pub(crate) fn dense(name: &str, shape: &[u64], data: MadeComponent) -> Made {
    tensor(name, shape, Layout::Dense, vec![data])
}

pub(crate) fn tensor(name: &str, shape: &[u64], layout: Layout, parts: Vec<MadeComponent>) -> Made {
    let spec = TensorSpec {
        name: name.to_owned(),
        shape: shape.to_vec(),
        layout,
        attributes: Attributes::new(),
        components: parts.iter().map(|p| p.spec.clone()).collect(),
    };
    Made { spec, parts }
}

impl Made {
    pub(crate) fn attribute(mut self, key: &str, value: Value) -> Made {
        self.spec.attributes.set(key, value);
        self
    }

    pub(crate) fn renamed(mut self, name: &str) -> Made {
        self.spec.name = name.to_owned();
        self
    }
}

/// Returns little-endian f32 elements.
pub(crate) fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Returns little-endian u64 elements.
pub(crate) fn u64s(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Returns a CSR tensor of f32.
pub(crate) fn csr(
    name: &str,
    shape: [u64; 2],
    indptr: &[u64],
    indices: &[u64],
    values: &[f32],
) -> Made {
    let parts = vec![
        part(Role::Values, DType::F32, f32s(values)),
        part(Role::Indices, DType::U64, u64s(indices)),
        part(Role::Indptr, DType::U64, u64s(indptr)),
    ];
    tensor(name, &shape, Layout::SparseCsr, parts)
}

/// Returns a COO tensor of f32; coordinates are one dimension after the other.
pub(crate) fn coo(name: &str, shape: &[u64], coords: &[u64], values: &[f32]) -> Made {
    let parts = vec![
        part(Role::Values, DType::F32, f32s(values)),
        part(Role::Coords, DType::U64, u64s(coords)),
    ];
    tensor(name, shape, Layout::SparseCoo, parts)
}

/// Returns a file of that format and version (`ztensor@1.2.0`, `safetensors`) with these tensors.
pub(crate) fn bytes_of(format: &str, attributes: &Attributes, tensors: &[Made]) -> Vec<u8> {
    let (format, version) = format.split_once('@').unwrap_or((format, ""));
    let mut options = EncodeOptions::new();
    if !version.is_empty() {
        options = options.with_version(version);
    }
    let format = formats::by_name(format).unwrap();
    let mut encoder = (format.encode.unwrap())(&options).unwrap();
    let specs: Vec<TensorSpec> = tensors.iter().map(|t| t.spec.clone()).collect();
    let order = encoder.order(&specs);
    let ordered: Vec<TensorSpec> = order.iter().map(|&i| specs[i].clone()).collect();
    let mut out = encoder.begin(attributes, &ordered).unwrap().to_vec();
    let mut done: Vec<(String, Role, Stored)> = Vec::new();
    for i in order {
        let Made { spec, parts } = &tensors[i];
        for (n, part) in parts.iter().enumerate() {
            let digest = match &part.digest {
                Some(digest) => digest.clone(),
                None if encoder.can_digest(Algorithm::Crc32c) => {
                    Some(Digest::Crc32c(crc32c(&part.stored)))
                }
                None => None,
            };
            let range = match &part.spec.shares {
                Some(shared) => {
                    let same =
                        |d: &&(String, Role, Stored)| d.0 == shared.tensor && d.1 == shared.role;
                    done.iter().find(same).unwrap().2.range.clone()
                }
                None => {
                    let start = encoder.next_offset(out.len() as u64, spec, n).unwrap();
                    out.resize(start as usize, 0);
                    out.extend_from_slice(&part.stored);
                    start..out.len() as u64
                }
            };
            let stored = Stored { range, encoding: part.encoding, digest };
            encoder.component_written(spec, n, stored.clone()).unwrap();
            done.push((spec.name.clone(), part.spec.role.clone(), stored));
        }
    }
    let tail = encoder.finish(out.len() as u64).unwrap();
    out.extend_from_slice(&tail);
    out
}

/// Returns that file, opened.
pub(crate) fn file(format: &str, tensors: &[Made]) -> File {
    open(bytes_of(format, &Attributes::new(), tensors))
}

pub(crate) fn open(bytes: Vec<u8>) -> File {
    OpenOptions::new().open_bytes(Bytes::from(bytes), "made").unwrap()
}

/// Returns the same file from a source whose reads are all copies.
pub(crate) fn copied(file: &File) -> File {
    from(file, ReadHints::DISK)
}

/// Returns the same file from a source that claims to be remote.
pub(crate) fn far(file: &File) -> File {
    from(file, ReadHints::REMOTE)
}

fn from(file: &File, hints: ReadHints) -> File {
    struct Copied(Bytes, ReadHints);
    impl ByteSource for Copied {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }
        fn read(&self, ranges: &[Range<u64>]) -> holdall::Result<Vec<Bytes>> {
            let one =
                |r: &Range<u64>| Bytes::copy_from_slice(&self.0[r.start as usize..r.end as usize]);
            Ok(ranges.iter().map(one).collect())
        }
        fn read_hints(&self) -> ReadHints {
            self.1
        }
    }
    let bytes = file.all_sources()[0].read_range(0..file.all_sources()[0].len()).unwrap();
    let options = OpenOptions::new().with_limits(file.limits().clone());
    options.open_source(Arc::new(Copied(bytes, hints)), file.name()).unwrap()
}

/// Returns bytes that neither repeat nor compress well.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns every sound file of the corpus.
pub(crate) fn corpus() -> Vec<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept");
    let mut out = Vec::new();
    for format in std::fs::read_dir(root).unwrap() {
        for entry in std::fs::read_dir(format.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e != "json") {
                out.push(path);
            }
        }
    }
    out.sort();
    assert!(out.len() >= 10, "the corpus is missing");
    out
}

/// Returns `true` if the error means that a sound tensor has no individual elements: its layout or type is
/// unknown, or it is sparse and too wide.
pub(crate) fn is_odd(e: &holdall::Error) -> bool {
    matches!(
        e.code(),
        "file/unknown-layout"
            | "layout/unknown-type"
            | "layout/element-size"
            | "layout/dense-limit"
    )
}
