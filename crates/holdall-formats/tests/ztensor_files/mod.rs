//! Builds zTensor files of every generation byte by byte, sound ones and others.
#![allow(dead_code)] // Each test crate uses some of it.

pub(crate) mod rejects;

use holdall_core::wire::cbor::Writer;
use holdall_core::{Bytes, Error, Index, Limits, Stop, Window};

// CBOR fragments.

pub(crate) fn text(s: &str) -> Vec<u8> {
    let mut w = Writer::new();
    w.text(s);
    w.into_bytes()
}

pub(crate) fn uint(n: u64) -> Vec<u8> {
    let mut w = Writer::new();
    w.u64(n);
    w.into_bytes()
}

pub(crate) fn array(items: &[Vec<u8>]) -> Vec<u8> {
    let mut w = Writer::new();
    w.array(items.len());
    items.iter().for_each(|item| w.raw(item));
    w.into_bytes()
}

pub(crate) type Pairs = Vec<(&'static str, Vec<u8>)>;

pub(crate) fn map(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut w = Writer::new();
    w.map(pairs.len());
    for (key, value) in pairs {
        w.text(key);
        w.raw(value);
    }
    w.into_bytes()
}

/// The pairs with `key` set to `value`, or added.
pub(crate) fn with(mut pairs: Pairs, key: &'static str, value: Vec<u8>) -> Pairs {
    match pairs.iter_mut().find(|(k, _)| *k == key) {
        Some((_, v)) => *v = value,
        None => pairs.push((key, value)),
    }
    pairs
}

pub(crate) fn without(mut pairs: Pairs, key: &str) -> Pairs {
    pairs.retain(|(k, _)| *k != key);
    pairs
}

pub(crate) const NULL: &[u8] = &[0xf6];

// Files: 64 bytes of data at 64, the manifest at 128.

pub(crate) fn container(magic: &[u8; 8], manifest: &[u8], ends_in_magic: bool) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.resize(128, 0);
    out.extend_from_slice(manifest);
    out.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
    if ends_in_magic {
        out.extend_from_slice(magic);
    }
    out
}

/// A 1.1+ container.
pub(crate) fn file_1_2(manifest: &[u8]) -> Vec<u8> {
    container(b"ZTEN1000", manifest, true)
}

pub(crate) fn file_1_0(manifest: &[u8]) -> Vec<u8> {
    container(b"ZTEN1000", manifest, false)
}

pub(crate) fn file_0_1(manifest: &[u8]) -> Vec<u8> {
    container(b"ZTEN0001", manifest, false)
}

/// A sound component of 16 bytes.
pub(crate) fn component() -> Pairs {
    vec![("dtype", text("u8")), ("offset", uint(64)), ("length", uint(16))]
}

/// A sound dense tensor.
pub(crate) fn object() -> Pairs {
    let data = map(&component());
    vec![
        ("shape", array(&[uint(4), uint(4)])),
        ("format", text("dense")),
        ("components", map(&[("data", data)])),
    ]
}

pub(crate) fn root(object: &[(&str, Vec<u8>)]) -> Pairs {
    vec![("version", text("1.2.0")), ("objects", map(&[("w", map(object))]))]
}

pub(crate) fn of_object(object: &[(&str, Vec<u8>)]) -> Vec<u8> {
    file_1_2(&map(&root(object)))
}

/// A file with one dense tensor of these fields of its component.
pub(crate) fn of_component(component: &[(&str, Vec<u8>)]) -> Vec<u8> {
    of_object(&with(object(), "components", map(&[("data", map(component))])))
}

pub(crate) fn of_root(root: &[(&str, Vec<u8>)]) -> Vec<u8> {
    file_1_2(&map(root))
}

/// A sound 1.0 tensor.
pub(crate) fn tensor_1_0() -> Pairs {
    let data = map(&[("offset", uint(64)), ("length", uint(16))]);
    vec![
        ("dtype", text("uint8")),
        ("shape", array(&[uint(16)])),
        ("format", text("dense")),
        ("components", map(&[("data", data)])),
    ]
}

pub(crate) fn root_1_0(tensor: &[(&str, Vec<u8>)]) -> Pairs {
    vec![
        ("version", text("1.0")),
        ("generator", text("a test")),
        ("attributes", map(&[])),
        ("tensors", map(&[("w", map(tensor))])),
    ]
}

/// A sound 0.1 tensor.
pub(crate) fn entry() -> Pairs {
    vec![
        ("name", text("w")),
        ("offset", uint(64)),
        ("size", uint(16)),
        ("dtype", text("uint16")),
        ("layout", text("dense")),
        ("shape", array(&[uint(8)])),
        ("encoding", text("raw")),
    ]
}

pub(crate) fn of_entry(entry: &[(&str, Vec<u8>)]) -> Vec<u8> {
    file_0_1(&array(&[map(entry)]))
}

/// A `sparse_csr` tensor of shape [1, 4] whose indices have that dtype, of 4 bytes.
pub(crate) fn csr(dtype: &str) -> Pairs {
    let part = |dtype: &str, offset, len| {
        map(&[("dtype", text(dtype)), ("offset", uint(offset)), ("length", uint(len))])
    };
    let components = map(&[
        ("values", part("u8", 64, 1)),
        ("indices", part(dtype, 68, 4)),
        ("indptr", part(dtype, 72, 8)),
    ]);
    vec![
        ("shape", array(&[uint(1), uint(4)])),
        ("format", text("sparse_csr")),
        ("components", components),
    ]
}

pub(crate) fn decode_with(bytes: &[u8], limits: &Limits) -> Result<Index, Error> {
    match holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), limits) {
        Ok(index) => index.sound(),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Index, Error> {
    decode_with(bytes, &Limits::default())
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/ztensor/{name}.zt");
    rejects::rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
