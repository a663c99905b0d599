//! Extreme numbers in every declared length, offset and count: each of them broke a released
//! reader.

use super::Made;
use super::zt::*;
use crate::tables::safetensors_files::file;
use crate::tables::ztensor_files::{map, of_root, text, with};
use crate::tables::ztensor_files::{object, root};

/// Numbers that are too large for any file.
const HUGE: [(&str, u64); 5] = [
    ("2-to-40", 1 << 40),
    ("2-to-63-less-1", (1 << 63) - 1),
    ("2-to-63", 1 << 63),
    ("2-to-64-less-8", u64::MAX - 7),
    ("2-to-64-less-1", u64::MAX),
];

pub(crate) fn rejects() -> Vec<Made> {
    let mut all = Vec::new();
    for version in VERSIONS {
        all.extend(in_version(version));
    }
    all.extend(shapes());
    all.extend(cbor_lengths());
    all.extend(safetensors());
    all
}

fn zt(version: Version, name: &str, build: impl FnOnce(&mut Zt)) -> Made {
    let mut f = Zt::new(version);
    build(&mut f);
    Made::new(format!("reject/ztensor/{name}.zt"), f.finish())
}

/// Cases for the length of the manifest, and the ranges of components.
fn in_version(version: Version) -> Vec<Made> {
    let v = version.name();
    let sound = || {
        let mut f = Zt::new(version);
        let part = f.part("u8", &noise(16, 1));
        f.dense("w", &[16], part);
        f.finish()
    };
    let footer_len = if matches!(version, Version::V1_1 | Version::V1_2) { 16 } else { 8 };
    let with_manifest_len = |name: &str, len: u64| {
        let mut bytes = sound();
        let at = bytes.len() - footer_len;
        bytes[at..at + 8].copy_from_slice(&len.to_le_bytes());
        Made::new(format!("reject/ztensor/ztensor.manifest-bounds.{name}-{v}.zt"), bytes)
    };
    let component = |name: &str, change: &dyn Fn(&mut ComponentFields)| {
        zt(version, &format!("{name}-{v}"), |f| {
            let mut part = f.part("u8", &noise(16, 1));
            change(&mut part);
            f.dense("w", &[16], part);
        })
    };
    let room = sound().len() as u64 - footer_len as u64 - 8;
    let mut all = vec![
        with_manifest_len("one-more", room + 1),
        with_manifest_len("file", room + 8 + footer_len as u64),
        component("index.bounds.offset-one-more", &|p| p.offset += 1),
        component("index.bounds.offset-in-magic", &|p| p.offset = 7),
        component("index.bounds.offset-0", &|p| p.offset = 0),
        component("index.bounds.length-one-more", &|p| p.len += 1),
        component("index.size.length-one-less", &|p| p.len -= 1),
        component("index.size.length-0", &|p| p.len = 0),
    ];
    for (name, n) in HUGE {
        all.push(with_manifest_len(name, n));
        all.push(component(&format!("index.bounds.offset-{name}"), &|p| p.offset = n));
        all.push(component(&format!("index.bounds.length-{name}"), &|p| p.len = n));
        // Offset and length that wrap around to the end of the data.
        all.push(component(&format!("index.bounds.both-{name}"), &|p| {
            (p.offset, p.len) = (n, (p.offset + p.len).wrapping_sub(n));
        }));
    }
    all
}

/// Cases for shapes, and for the declared decoded length of compressed data.
fn shapes() -> Vec<Made> {
    let mut all = Vec::new();
    let stored = frame(&noise(16, 1), 1);
    for version in VERSIONS {
        let v = version.name();
        for (name, n) in HUGE {
            all.push(zt(version, &format!("index.size.shape-{name}-{v}"), |f| {
                let part = f.part("u8", &noise(16, 1));
                f.dense("w", &[n], part);
            }));
            // Before 1.2 the decoded length only follows from the shape.
            all.push(zt(version, &format!("index.expansion.shape-{name}-{v}"), |f| {
                let part = f.part("u8", &stored).zstd(n);
                f.dense("w", &[n], part);
            }));
        }
        all.push(zt(version, &format!("index.shape-overflow.f64-2-to-61-{v}"), |f| {
            let part = f.part("f64", &noise(16, 1));
            f.dense("w", &[1 << 61], part);
        }));
        all.push(zt(version, &format!("index.shape-overflow.2-to-64-{v}"), |f| {
            let part = f.part("u8", &[]);
            f.dense("w", &[1 << 32, 1 << 32], part);
        }));
        all.push(zt(version, &format!("index.size.no-elements-{v}"), |f| {
            let part = f.part("u8", &noise(16, 1));
            f.dense("w", &[1 << 63, 0, 1 << 63], part);
        }));
    }
    for (name, n) in HUGE {
        all.push(zt(Version::V1_2, &format!("index.expansion.declared-{name}"), |f| {
            let part = f.part("u8", &stored).zstd(n);
            f.dense("w", &[16], part);
        }));
        all.push(zt(Version::V1_2, &format!("ztensor.uncompressed-length.{name}"), |f| {
            let part = f.part("u8", &noise(16, 1)).zstd(n).with("encoding", text("raw"));
            f.dense("w", &[16], part);
        }));
        // Complex elements are two storage elements each.
        let half = n / 2 + 1;
        all.push(zt(Version::V1_2, &format!("index.size.complex-{name}"), |f| {
            let part = f.part("f32", &noise(16, 1)).with("type", text("complex64"));
            f.dense("w", &[half / 8 + 1], part);
        }));
    }
    // One byte in RLE blocks decodes to at most 32 KiB: one element more is too many.
    all.push(zt(Version::V1_2, "index.expansion.one-more", |f| {
        let most = stored.len() as u64 * (32 << 10);
        let part = f.part("u8", &stored).zstd(most + 1);
        f.dense("w", &[most + 1], part);
    }));
    all.push(zt(Version::V1_2, "index.shape-overflow.complex", |f| {
        let part = f.part("f64", &noise(16, 1)).with("type", text("complex128"));
        f.dense("w", &[1 << 60], part);
    }));
    all
}

/// Cases for lengths in CBOR: of text, bytes, arrays and maps.
fn cbor_lengths() -> Vec<Made> {
    let mut all = Vec::new();
    for (name, n) in HUGE {
        for (kind, head, code) in [
            ("bytes", 0x5b, "truncated"),
            ("text", 0x7b, "truncated"),
            ("array", 0x9b, "count"),
            ("map", 0xbb, "count"),
        ] {
            let value = [&[head][..], &n.to_be_bytes()].concat();
            let attributes = map(&[("a", value)]);
            let bytes = of_root(&with(root(&object()), "attributes", attributes));
            all.push(Made::new(format!("reject/ztensor/cbor.{code}.{kind}-{name}.zt"), bytes));
        }
    }
    all
}

fn safetensors() -> Vec<Made> {
    let case = |name: String, header: &str, data: usize| {
        let bytes = file(header.as_bytes(), data);
        Made::new(format!("reject/safetensors/{name}.safetensors"), bytes)
    };
    let mut all = Vec::new();
    for (name, n) in HUGE {
        let bytes = [&n.to_le_bytes()[..], b"{}"].concat();
        let path = format!("reject/safetensors/safetensors.header-bounds.{name}.safetensors");
        all.push(Made::new(path, bytes));
        // The reference implementation counts bits, and refuses a shape with 2^64 of them.
        let fits = n < 1 << 61;
        let end = format!(r#"{{"w":{{"dtype":"U8","shape":[{n}],"data_offsets":[0,{n}]}}}}"#);
        // An error about the file's bounds takes precedence over one about the shape. Offsets
        // count from the start of the data.
        let wraps = n.checked_add(1 << 10).is_none();
        let code = if wraps { "safetensors.offsets.end" } else { "safetensors.truncated.end" };
        all.push(case(format!("{code}-{name}"), &end, 4));
        let shape = format!(r#"{{"w":{{"dtype":"U8","shape":[{n}],"data_offsets":[0,4]}}}}"#);
        let code = if fits { "index.size" } else { "index.shape-overflow" };
        all.push(case(format!("{code}.shape-{name}"), &shape, 4));
        let start = format!(r#"{{"w":{{"dtype":"U8","shape":[4],"data_offsets":[{n},4]}}}}"#);
        all.push(case(format!("safetensors.offsets.start-{name}"), &start, 4));
        let wide = format!(r#"{{"w":{{"dtype":"U64","shape":[{n},{n}],"data_offsets":[0,4]}}}}"#);
        all.push(case(format!("index.shape-overflow.product-{name}"), &wide, 4));
    }
    all
}
