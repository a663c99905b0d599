//! zTensor 2 files made byte by byte, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

use holdall_core::model::Hasher;
use holdall_core::{Algorithm, Digest};

pub(crate) const MAGIC: &[u8; 8] = b"\x89ZT2\r\n\x1a\n";

/// A head of CBOR in its shortest form.
fn head(major: u8, n: u64) -> Vec<u8> {
    let first = major << 5;
    match n {
        0..=23 => vec![first | n as u8],
        24..=0xff => vec![first | 24, n as u8],
        0x100..=0xffff => [vec![first | 25], (n as u16).to_be_bytes().to_vec()].concat(),
        0x1_0000..=0xffff_ffff => [vec![first | 26], (n as u32).to_be_bytes().to_vec()].concat(),
        _ => [vec![first | 27], n.to_be_bytes().to_vec()].concat(),
    }
}

pub(crate) fn uint(n: u64) -> Vec<u8> {
    head(0, n)
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [head(3, text.len() as u64), text.as_bytes().to_vec()].concat()
}

pub(crate) fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [head(4, items.len() as u64), items.concat()].concat()
}

/// A map, its keys in order.
pub(crate) fn map(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = pairs.iter().map(|(k, v)| [text(k), v.clone()].concat()).collect();
    all.sort();
    [head(5, pairs.len() as u64), all.concat()].concat()
}

pub(crate) fn xxh3(bytes: &[u8]) -> u64 {
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    hasher.update(bytes);
    match hasher.finish() {
        Digest::Xxh3(sum) => sum,
        other => panic!("{other}"),
    }
}

/// The blob at 4096: four f32.
pub(crate) fn blob() -> Vec<u8> {
    [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn footer(at: u64, len: u64, sum: u64, version: u32, reserved: u32) -> Vec<u8> {
    let numbers = [at, len, sum].into_iter().flat_map(|n| n.to_le_bytes());
    let rest = [version, reserved].into_iter().flat_map(|n| n.to_le_bytes());
    numbers.chain(rest).chain(*MAGIC).collect()
}

/// A file with that manifest, with its own digest or another's.
pub(crate) fn summed(manifest: &[u8], sum: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.resize(4096, 0);
    out.extend(blob());
    out.resize(8192, 0);
    out.extend_from_slice(manifest);
    out.extend(footer(8192, manifest.len() as u64, sum, 2, 0));
    out
}

pub(crate) fn file(manifest: &[u8]) -> Vec<u8> {
    summed(manifest, xxh3(manifest))
}

pub(crate) type Fields = Vec<(&'static str, Vec<u8>)>;

/// The fields of a sound part.
pub(crate) fn part() -> Fields {
    let digest = format!("xxh3:{:016x}", xxh3(&blob()));
    vec![
        ("dtype", text("f32")),
        ("blob", array(&[uint(4096), uint(16)])),
        ("digest", text(&digest)),
    ]
}

/// Fields with one in place of that of its name, or more.
pub(crate) fn with(mut fields: Fields, name: &'static str, value: Vec<u8>) -> Fields {
    fields.retain(|(key, _)| *key != name);
    fields.push((name, value));
    fields
}

fn without(mut fields: Fields, name: &str) -> Fields {
    fields.retain(|(key, _)| *key != name);
    fields
}

pub(crate) fn object(part: &Fields) -> Fields {
    vec![
        ("shape", array(&[uint(4)])),
        ("layout", text("dense")),
        ("parts", map(&[("data", map(part))])),
    ]
}

/// A file of one object `w`, and of other fields of the manifest.
pub(crate) fn of_object(fields: &Fields, others: Fields) -> Vec<u8> {
    let objects = ("objects", map(&[("w", map(fields))]));
    file(&map(&[vec![objects], others].concat()))
}

/// A file of one object of that part.
pub(crate) fn of_part(part: &Fields) -> Vec<u8> {
    of_object(&object(part), Vec::new())
}

/// A shard with that blob.
pub(crate) fn data_shard() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.resize(4096, 0);
    out.extend(blob());
    out.extend(footer(0, 0, 0, 2, 0));
    out
}

/// A file of two tensors: `far` has its blob in that shard, `near` has it here.
pub(crate) fn sharded() -> Vec<u8> {
    let shard = data_shard();
    let digest = text(&format!("xxh3:{:016x}", xxh3(&shard)));
    let of = map(&[("size", uint(shard.len() as u64)), ("digest", digest)]);
    let far = object(&with(part(), "shard", text("00.a")));
    let objects = map(&[("far", map(&far)), ("near", map(&object(&part())))]);
    file(&map(&[("objects", objects), ("shards", map(&[("00.a", of)]))]))
}

/// Files that break a rule each, and the names that say which.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let sound = of_part(&part());
    let end = sound.len();
    let patched = |at: usize, by: &[u8]| {
        let mut bytes = sound.clone();
        bytes[at..at + by.len()].copy_from_slice(by);
        bytes
    };
    let odd = |from: &[u8], to: &[u8]| {
        let manifest = &sound[8192..end - 40];
        let at = manifest.windows(from.len()).position(|w| w == from).unwrap();
        file(&[&manifest[..at], to, &manifest[at + from.len()..]].concat())
    };
    let shard = |name: &'static str, listed: &'static str| {
        let digest = text("xxh3:0000000000000000");
        let of = map(&[("size", uint(4136)), ("digest", digest)]);
        let part = without(with(part(), "shard", text(name)), "digest");
        of_object(&object(&part), vec![("shards", map(&[(listed, of)]))])
    };
    let digest = |of: &str| of_part(&with(part(), "digest", text(of)));
    let encoded = |by: &str| {
        let part = with(part(), "encoding", text(by));
        of_part(&with(part, "decoded_length", uint(16)))
    };
    let deep = (0..33).fold(uint(1), |inner, _| array(&[inner]));
    let attributes = |value: Vec<u8>| of_object(&object(&part()), vec![("attributes", value)]);
    let blocks = with(object(&with(part(), "dtype", text("u8"))), "layout", text("gguf.q4_0/1"));
    vec![
        ("ztensor2.container.short", MAGIC.to_vec()),
        ("ztensor2.container.cut", sound[..end - 1].to_vec()),
        ("ztensor2.container.reserved", patched(end - 12, &[1])),
        ("ztensor2.version.three", patched(end - 16, &[3])),
        ("ztensor2.data-shard.alone", [&MAGIC[..], &footer(0, 0, 0, 2, 0)].concat()),
        ("ztensor2.manifest-bounds.offset", patched(end - 40, &8191u64.to_le_bytes())),
        ("ztensor2.manifest-bounds.zero", patched(end - 40, &0u64.to_le_bytes())),
        ("ztensor2.manifest-bounds.len", patched(end - 32, &u64::MAX.to_le_bytes())),
        ("ztensor2.manifest-digest.other", summed(&sound[8192..end - 40], 1)),
        ("ztensor2.deterministic.long-number", odd(&[0x81, 4], &[0x81, 0x18, 4])),
        (
            "ztensor2.deterministic.order",
            file(&{
                let (a, b) =
                    ([text("shards"), map(&[])].concat(), [text("objects"), map(&[])].concat());
                // The longer key is the later one, and the other comes second.
                [vec![0xa2], [text("zzzzzzzzz"), uint(1)].concat(), a, b][..3].concat()
            }),
        ),
        (
            "ztensor2.deterministic.twice",
            file(&[vec![0xa2], text("objects"), map(&[]), text("objects"), map(&[])].concat()),
        ),
        ("ztensor2.deterministic.tag", attributes(map(&[("a", [vec![0xc1], uint(1)].concat())]))),
        (
            "ztensor2.deterministic.indefinite",
            file(&[vec![0xbf], text("objects"), map(&[]), vec![0xff]].concat()),
        ),
        (
            "ztensor2.deterministic.float",
            attributes(map(&[("a", vec![0xfb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0])])),
        ),
        (
            "ztensor2.deterministic.trailing",
            file(&[map(&[("objects", map(&[]))]), vec![0]].concat()),
        ),
        ("ztensor2.deterministic.cut", odd(b"\x65shape", b"\x7ashape")),
        ("ztensor2.deterministic.depth", attributes(map(&[("a", deep)]))),
        ("ztensor2.field.objects", file(&map(&[]))),
        ("ztensor2.field.shape", of_object(&without(object(&part()), "shape"), Vec::new())),
        ("ztensor2.field.parts", of_object(&without(object(&part()), "parts"), Vec::new())),
        ("ztensor2.field.blob", of_part(&without(part(), "blob"))),
        (
            "ztensor2.field.blob-of-3",
            of_part(&with(part(), "blob", array(&[uint(4096), uint(16), uint(0)]))),
        ),
        ("ztensor2.name.empty", file(&map(&[("objects", map(&[("", map(&object(&part())))]))]))),
        ("ztensor2.name.nul", file(&map(&[("objects", map(&[("a\0", map(&object(&part())))]))]))),
        ("ztensor2.name.key", attributes(map(&[("", uint(1))]))),
        ("ztensor2.blob.unaligned", of_part(&with(part(), "blob", array(&[uint(4100), uint(12)])))),
        ("ztensor2.blob.start", of_part(&with(part(), "blob", array(&[uint(0), uint(16)])))),
        ("index.bounds.blob", of_part(&with(part(), "blob", array(&[uint(4096), uint(1 << 40)])))),
        ("index.overlap.blobs", {
            let other = with(part(), "blob", array(&[uint(4096), uint(8)]));
            let objects = map(&[
                ("v", map(&with(object(&without(other, "digest")), "shape", array(&[uint(2)])))),
                ("w", map(&object(&part()))),
            ]);
            file(&map(&[("objects", objects)]))
        }),
        (
            "index.size.shape",
            of_object(&with(object(&part()), "shape", array(&[uint(5)])), Vec::new()),
        ),
        (
            "index.missing-component.data",
            of_object(&with(object(&part()), "parts", map(&[])), Vec::new()),
        ),
        ("ztensor2.dtype.unknown", of_part(&with(part(), "dtype", text("f33")))),
        ("ztensor2.dtype.bool", of_part(&with(part(), "dtype", text("bool")))),
        ("ztensor2.dtype.type", of_part(&with(part(), "type", text("f8_e5m2")))),
        ("ztensor2.digest.case", digest("xxh3:00000000000000AB")),
        ("ztensor2.digest.short", digest("xxh3:ab")),
        ("ztensor2.digest.kind", digest("md5:0123456789abcdef")),
        ("file.digest.xxh3", digest("xxh3:0000000000000001")),
        ("ztensor2.encoding.unknown", encoded("zt.other/1")),
        ("zstd.broken.seekable", encoded("zt.zstd-seekable/1")),
        ("ztensor2.decoded-length.raw", of_part(&with(part(), "decoded_length", uint(16)))),
        (
            "ztensor2.decoded-length.missing",
            of_part(&with(part(), "encoding", text("zt.zstd-seekable/1"))),
        ),
        ("ztensor2.shard.part", shard("a", "a")),
        ("ztensor2.shard-name.dot", shard(".a", ".a")),
        ("ztensor2.shard-name.not-listed", shard("a", "b")),
        ("ztensor2.layout.blocks", of_object(&blocks, Vec::new())),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/ztensor2/{name}.zt");
    rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
