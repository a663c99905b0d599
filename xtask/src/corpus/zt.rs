//! Assembles zTensor files field by field, so that any field can be invalid.

use crate::tables::ztensor_files::{array, map, text, uint};
use holdall::{Algorithm, DType, Hasher};
use holdall_core::codec::zstd;

/// The versions of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V0_1,
    V1_0,
    V1_1,
    V1_2,
}

pub(crate) const VERSIONS: [Version; 4] =
    [Version::V0_1, Version::V1_0, Version::V1_1, Version::V1_2];

impl Version {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Version::V0_1 => "0.1",
            Version::V1_0 => "1.0",
            Version::V1_1 => "1.1",
            Version::V1_2 => "1.2",
        }
    }
}

/// A file that is being assembled. Its bytes so far hold the components.
pub(crate) struct Zt {
    version: Version,
    out: Vec<u8>,
    align: usize,
    tensors: Vec<(String, Tensor)>,
    attributes: Option<Vec<u8>>,
}

/// The fields of a tensor, from which all versions are written.
#[derive(Clone)]
pub(crate) struct Tensor {
    dtype: &'static str,
    shape: Vec<u64>,
    layout: &'static str,
    parts: Vec<(&'static str, ComponentFields)>,
    attributes: Vec<(&'static str, Vec<u8>)>,
}

/// The fields of a component.
#[derive(Clone)]
pub(crate) struct ComponentFields {
    dtype: &'static str,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    fields: Vec<(&'static str, Vec<u8>)>,
}

impl ComponentFields {
    /// Sets a field of the component.
    pub(crate) fn with(mut self, key: &'static str, value: Vec<u8>) -> ComponentFields {
        self.fields.retain(|(k, _)| *k != key);
        self.fields.push((key, value));
        self
    }

    /// Changes the component's dtype, with the same bytes.
    pub(crate) fn with_dtype(self, dtype: &'static str) -> ComponentFields {
        ComponentFields { dtype, ..self }
    }

    /// Marks the component as compressed; 1.2 also declares the decoded length.
    pub(crate) fn zstd(self, decoded: u64) -> ComponentFields {
        self.with("encoding", text("zstd")).with("uncompressed_length", uint(decoded))
    }

    pub(crate) fn digest(self, digest: &str) -> ComponentFields {
        self.with("digest", text(digest))
    }
}

impl Zt {
    pub(crate) fn new(version: Version) -> Zt {
        let magic = if version == Version::V0_1 { b"ZTEN0001" } else { b"ZTEN1000" };
        let (out, tensors) = (magic.to_vec(), Vec::new());
        Zt { version, out, align: 64, tensors, attributes: None }
    }

    /// Aligns the next bytes to a multiple of `align`.
    pub(crate) fn align(&mut self, align: usize) {
        self.align = align;
    }

    /// Adds stored bytes.
    pub(crate) fn part(&mut self, dtype: &'static str, stored: &[u8]) -> ComponentFields {
        self.out.resize(self.out.len().next_multiple_of(self.align), 0);
        let offset = self.out.len() as u64;
        self.out.extend_from_slice(stored);
        ComponentFields { dtype, offset, len: stored.len() as u64, fields: Vec::new() }
    }

    /// Adds a tensor of these components, the first of which has the tensor's dtype.
    pub(crate) fn tensor(
        &mut self,
        name: &str,
        shape: &[u64],
        layout: &'static str,
        parts: &[(&'static str, ComponentFields)],
    ) -> &mut Tensor {
        let dtype = parts.first().map_or("u8", |(_, p)| p.dtype);
        let parts = parts.to_vec();
        let tensor = Tensor { dtype, shape: shape.to_vec(), layout, parts, attributes: Vec::new() };
        self.tensors.push((name.to_owned(), tensor));
        &mut self.tensors.last_mut().expect("just added").1
    }

    /// Adds a dense tensor.
    pub(crate) fn dense(
        &mut self,
        name: &str,
        shape: &[u64],
        part: ComponentFields,
    ) -> &mut Tensor {
        self.tensor(name, shape, "dense", &[("data", part)])
    }

    pub(crate) fn attributes(&mut self, cbor: Vec<u8>) {
        self.attributes = Some(cbor);
    }

    /// Returns the file.
    pub(crate) fn finish(self) -> Vec<u8> {
        let (version, mut out) = (self.version, self.out);
        let manifest = match version {
            Version::V0_1 => {
                let entries = self.tensors.iter().map(|(name, t)| t.entry(name));
                array(&entries.collect::<Vec<_>>())
            }
            Version::V1_0 => map(&[
                ("version", text("1.0")),
                ("generator", text("cargo xtask corpus")),
                ("attributes", self.attributes.unwrap_or_else(|| map(&[]))),
                ("tensors", objects(&self.tensors, version)),
            ]),
            Version::V1_1 | Version::V1_2 => {
                let number = if version == Version::V1_1 { "1.1.0" } else { "1.2.0" };
                let mut root = vec![("version", text(number))];
                root.extend(self.attributes.map(|a| ("attributes", a)));
                root.push(("objects", objects(&self.tensors, version)));
                map(&root)
            }
        };
        out.extend_from_slice(&manifest);
        out.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
        if matches!(version, Version::V1_1 | Version::V1_2) {
            out.extend_from_slice(b"ZTEN1000");
        }
        out
    }
}

impl Tensor {
    pub(crate) fn attribute(&mut self, key: &'static str, cbor: Vec<u8>) -> &mut Tensor {
        self.attributes.push((key, cbor));
        self
    }

    /// Returns the tensor's fields in the form of 1.0 to 1.2.
    fn object(&self, version: Version) -> Vec<u8> {
        let mut fields = Vec::new();
        if version == Version::V1_0 {
            fields.push(("dtype", text(long_name(self.dtype))));
        }
        fields.push(("shape", shape(&self.shape)));
        fields.push(("format", text(self.layout)));
        if !self.attributes.is_empty() {
            fields.push(("attributes", map(&self.attributes)));
        }
        let part =
            |(role, part): &(&'static str, ComponentFields)| (*role, part.component(version));
        let parts: Vec<_> = self.parts.iter().map(part).collect();
        fields.push(("components", map(&parts)));
        map(&fields)
    }

    /// Returns the tensor's fields in the form of 0.1, which has a single component.
    fn entry(&self, name: &str) -> Vec<u8> {
        let (_, part) = self.parts.first().expect("a 0.1 tensor has a component");
        let mut fields = vec![
            ("name", text(name)),
            ("offset", uint(part.offset)),
            ("size", uint(part.len)),
            ("dtype", text(long_name(part.dtype))),
            ("layout", text(self.layout)),
            ("shape", shape(&self.shape)),
        ];
        if !part.fields.iter().any(|(key, _)| *key == "encoding") {
            fields.push(("encoding", text("raw")));
        }
        for (key, value) in &part.fields {
            match *key {
                "uncompressed_length" => {}
                "digest" => fields.push(("checksum", value.clone())),
                key => fields.push((key, value.clone())),
            }
        }
        fields.extend(self.attributes.iter().cloned());
        map(&fields)
    }
}

impl ComponentFields {
    fn component(&self, version: Version) -> Vec<u8> {
        let mut fields = Vec::new();
        if version != Version::V1_0 {
            fields.push(("dtype", text(self.dtype)));
        }
        fields.push(("offset", uint(self.offset)));
        fields.push(("length", uint(self.len)));
        for (key, value) in &self.fields {
            let is_new = matches!(*key, "uncompressed_length" | "type");
            if !is_new || version == Version::V1_2 {
                fields.push((key, value.clone()));
            }
        }
        map(&fields)
    }
}

fn objects(tensors: &[(String, Tensor)], version: Version) -> Vec<u8> {
    let pairs: Vec<_> = tensors.iter().map(|(n, t)| (n.as_str(), t.object(version))).collect();
    map(&pairs)
}

fn shape(dims: &[u64]) -> Vec<u8> {
    array(&dims.iter().map(|&d| uint(d)).collect::<Vec<_>>())
}

/// Returns the name of a dtype in 0.1 and 1.0.
fn long_name(name: &'static str) -> &'static str {
    const LONG: [(&str, &str); 12] = [
        ("f64", "float64"),
        ("f32", "float32"),
        ("f16", "float16"),
        ("bf16", "bfloat16"),
        ("i64", "int64"),
        ("i32", "int32"),
        ("i16", "int16"),
        ("i8", "int8"),
        ("u64", "uint64"),
        ("u32", "uint32"),
        ("u16", "uint16"),
        ("u8", "uint8"),
    ];
    LONG.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long)
}

/// Returns all dtypes by their short names.
pub(crate) fn dtypes() -> impl Iterator<Item = (&'static str, u64)> {
    DType::ALL.into_iter().map(|d| (d.as_str(), d.width()))
}

// Bytes of components.

pub(crate) fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub(crate) fn u64s(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub(crate) fn i32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Returns pseudorandom bytes that are the same every time.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns the text of a digest of `bytes`.
pub(crate) fn digest_of(algorithm: Algorithm, bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish().to_string()
}

// zstd frames.

/// Returns a frame as our encoder writes it: with its content's length and checksum.
pub(crate) fn frame(bytes: &[u8], level: i32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = zstd::Encoder::new(level).expect("the level is one of zstd's");
    encoder.frame(bytes, &mut out).expect("memory");
    out
}

/// Returns a frame of raw blocks that requires a window of `2^window_log` bytes and does not
/// state its length (RFC 8878, section 3.1.1).
pub(crate) fn frame_of_window(bytes: &[u8], window_log: u8) -> Vec<u8> {
    let mut out = 0xfd2f_b528u32.to_le_bytes().to_vec();
    out.push(0);
    out.push((window_log - 10) << 3);
    block(&mut out, 0, bytes.len(), bytes);
    out
}

/// Returns a frame that repeats `byte`: four bytes for up to 128 KiB.
pub(crate) fn frame_of_run(byte: u8, len: usize) -> Vec<u8> {
    const MAX: usize = 128 << 10;
    let mut out = 0xfd2f_b528u32.to_le_bytes().to_vec();
    out.push(0);
    out.push((17 - 10) << 3);
    let mut left = len;
    loop {
        let now = left.min(MAX);
        left -= now;
        block_at(&mut out, left == 0, 1, now, &[byte]);
        if left == 0 {
            return out;
        }
    }
}

fn block(out: &mut Vec<u8>, kind: u32, len: usize, bytes: &[u8]) {
    block_at(out, true, kind, len, bytes);
}

fn block_at(out: &mut Vec<u8>, last: bool, kind: u32, len: usize, bytes: &[u8]) {
    let head = u32::from(last) | kind << 1 | (len as u32) << 3;
    out.extend_from_slice(&head.to_le_bytes()[..3]);
    out.extend_from_slice(bytes);
}
