//! Files that open, but whose bytes break a rule: digests, compressed data, indices, quantization and
//! bool bytes.

use super::Made;
use super::zt::*;
use crate::tables::ztensor_files::{array, text, uint};
use holdall::Algorithm;
use holdall_core::codec::zstd;

pub(crate) fn rejects() -> Vec<Made> {
    let mut all = digests();
    all.extend(compressed());
    all.extend(sparse());
    all.extend(packed());
    all.extend(quantized());
    all.extend(bools());
    all.extend(kinds());
    all
}

/// Returns a zTensor file of that name with the contents that `build` adds.
fn zt(version: Version, name: &str, build: impl FnOnce(&mut Zt)) -> Made {
    let mut file = Zt::new(version);
    build(&mut file);
    Made::new(format!("reject/ztensor/{name}.zt"), file.finish())
}

fn digests() -> Vec<Made> {
    let bytes = noise(100, 1);
    let mut other = bytes.clone();
    other[50] ^= 0x10;
    let mut all = Vec::new();
    for algorithm in [Algorithm::Crc32c, Algorithm::Sha256] {
        for version in VERSIONS {
            let name = format!("file.digest.{}-{}", algorithm.as_str(), version.name());
            let wrong = digest_of(algorithm, &bytes);
            all.push(zt(version, &name, |f| {
                let part = f.part("u8", &other).digest(&wrong);
                f.dense("w", &[100], part);
            }));
        }
    }
    let v1_2 = |name: &str, build: &dyn Fn(&mut Zt)| zt(Version::V1_2, name, build);
    // A digest covers the stored bytes, not the decoded ones.
    all.push(v1_2("file.digest.of-decoded", &|f| {
        let stored = frame(&bytes, 1);
        let part = f.part("u8", &stored).zstd(100).digest(&digest_of(Algorithm::Crc32c, &bytes));
        f.dense("w", &[100], part);
    }));
    all.push(v1_2("file.digest.no-bytes", &|f| {
        let part = f.part("u8", &[]).digest("crc32c:0x00000001");
        f.dense("w", &[0], part);
    }));
    all.push(v1_2("file.digest.lower-case", &|f| {
        let part = f.part("u8", &bytes).digest("crc32c:deadbeef");
        f.dense("w", &[100], part);
    }));
    // Two tensors with the same bytes, of which the second has another description.
    for (name, compressed) in
        [("file.digest.second-of-two", false), ("file.digest.second-of-two-compressed", true)]
    {
        all.push(v1_2(name, &|f| {
            let stored = if compressed { frame(&bytes, 1) } else { bytes.clone() };
            let part = f.part("u8", &stored).digest(&digest_of(Algorithm::Crc32c, &stored));
            let part = if compressed { part.zstd(100) } else { part };
            f.dense("a", &[100], part.clone());
            f.dense("b", &[100], part.digest("crc32c:0x00000000"));
        }));
    }
    all.push(v1_2("file.digest.of-indices", &|f| {
        let values = f.part("f32", &f32s(&[1.0]));
        let indices = f.part("u64", &u64s(&[2])).digest("crc32c:0x00000000");
        let indptr = f.part("u64", &u64s(&[0, 1]));
        f.tensor("w", &[1, 4], "sparse_csr", &csr_parts(values, indices, indptr));
    }));
    all
}

fn compressed() -> Vec<Made> {
    let bytes = noise(100, 2);
    let whole = frame(&bytes, 1);
    // Declares `len` decoded bytes: by its own field in 1.2, by the shape before.
    let case = |version: Version, name: &str, stored: &[u8], len: u64| {
        zt(version, name, |f| {
            let part = f.part("u8", stored).zstd(len);
            f.dense("w", &[len], part);
        })
    };
    let v1_2 = |name: &str, stored: &[u8], len: u64| case(Version::V1_2, name, stored, len);
    let cut = |n: usize| &whole[..whole.len() - n];
    let mut flipped = whole.clone();
    // The last four bytes are the checksum of the content.
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let two = [&frame(&bytes[..60], 1)[..], &frame(&bytes[60..], 1)].concat();
    let skippable = |len: u32, there: usize| {
        let head = [0x184d_2a50u32.to_le_bytes(), len.to_le_bytes()].concat();
        [&whole[..], &head, &vec![0; there]].concat()
    };
    let mut all = vec![
        v1_2("zstd.broken.not-zstd", &bytes, 100),
        v1_2("zstd.broken.cut-by-one", cut(1), 100),
        v1_2("zstd.broken.cut-in-block", cut(20), 100),
        v1_2("zstd.broken.magic-only", cut(whole.len() - 4), 100),
        v1_2("zstd.broken.checksum", &flipped, 100),
        v1_2("zstd.broken.second-frame-cut", &two[..two.len() - 1], 100),
        v1_2("zstd.broken.bytes-after", &[&whole[..], &[0]].concat(), 100),
        v1_2("zstd.broken.skippable-past-end", &skippable(9, 8), 100),
        v1_2("zstd.broken.skippable-most", &skippable(u32::MAX, 0), 100),
        // RFC 8878, section 3.1.1.2.2: a block of the reserved kind.
        v1_2("zstd.broken.reserved-block", &[&whole[..4], &[0, 0x38, 7, 0, 0]].concat(), 100),
        v1_2("zstd.length.one-less", &whole, 101),
        v1_2("zstd.length.one-more", &whole, 99),
        v1_2("zstd.length.none", &skippable(0, 0)[whole.len()..], 100),
        v1_2("zstd.length.two-frames-less", &two, 101),
        v1_2("zstd.length.two-frames-more", &two, 60),
        v1_2("zstd.length.declared-0", &whole, 0),
        // Too short, and a reader could pad the buffer with zeros.
        v1_2("zstd.length.empty-frame", &frame(&[], 1), 100),
        // A bomb: 16 MiB in a few hundred bytes.
        v1_2("zstd.length.bomb", &frame_of_run(0, 16 << 20), 100),
        v1_2("zstd.length.seek-table-lies", &lying_seek_table(), 5 << 20),
    ];
    for version in [Version::V0_1, Version::V1_0, Version::V1_1] {
        let name = version.name();
        all.push(case(version, &format!("zstd.length.one-less-{name}"), &whole, 101));
        all.push(case(version, &format!("zstd.length.bomb-{name}"), &frame_of_run(0, 4 << 20), 8));
        all.push(case(version, &format!("zstd.broken.cut-{name}"), cut(5), 100));
    }
    // The decoded length of sparse components of 1.0 is unknown, so they are decoded as a stream.
    for (window_log, name) in [(28, "2-to-28"), (31, "2-to-31")] {
        all.push(zt(Version::V1_0, &format!("zstd.window.{name}"), |f| {
            let values = f.part("u8", &frame_of_window(&[7], window_log));
            let values = values.with("encoding", text("zstd"));
            let coords = f.part("u64", &u64s(&[2]));
            f.tensor("w", &[4], "sparse_coo", &[("values", values), ("coords", coords)]);
        }));
    }
    all
}

/// Returns three frames, with a seek table that swaps the lengths of the first two.
fn lying_seek_table() -> Vec<u8> {
    const LENS: [usize; 3] = [1 << 20, 3 << 20, 1 << 20];
    let frames: Vec<Vec<u8>> =
        LENS.iter().enumerate().map(|(i, &len)| frame_of_run(i as u8, len)).collect();
    let lens = [LENS[1], LENS[0], LENS[2]];
    let frame_lens: Vec<(u64, u64)> =
        frames.iter().zip(lens).map(|(f, len)| (f.len() as u64, len as u64)).collect();
    let table = zstd::seek_table(&frame_lens).expect("short frames");
    [frames.concat(), table].concat()
}

type Parts = [(&'static str, ComponentFields); 3];

fn csr_parts(values: ComponentFields, indices: ComponentFields, indptr: ComponentFields) -> Parts {
    [("values", values), ("indices", indices), ("indptr", indptr)]
}

fn sparse() -> Vec<Made> {
    // A 3 × 4 matrix.
    let csr = |name: &str, indptr: &[u64], indices: &[u64], values: usize| {
        zt(Version::V1_2, name, |f| {
            let values = f.part("f32", &f32s(&vec![1.0; values]));
            let indices = f.part("u64", &u64s(indices));
            let indptr = f.part("u64", &u64s(indptr));
            f.tensor("w", &[3, 4], "sparse_csr", &csr_parts(values, indices, indptr));
        })
    };
    let coo = |name: &str, shape: &[u64], coords: &[u64], values: usize| {
        zt(Version::V1_2, name, |f| {
            let values = f.part("f32", &f32s(&vec![1.0; values]));
            let coords = f.part("u64", &u64s(coords));
            f.tensor("w", shape, "sparse_coo", &[("values", values), ("coords", coords)]);
        })
    };
    let signed = |name: &str, indices: &[i32]| {
        zt(Version::V1_2, name, |f| {
            let values = f.part("f32", &f32s(&vec![1.0; indices.len()]));
            let indices = f.part("i32", &i32s(indices));
            let indptr = f.part("i32", &i32s(&[0, 1, 1, 2]));
            f.tensor("w", &[3, 4], "sparse_csr", &csr_parts(values, indices, indptr));
        })
    };
    vec![
        csr("sparse.counts.short-indptr", &[0, 1, 2], &[0, 1], 2),
        csr("sparse.counts.long-indptr", &[0, 1, 1, 2, 2], &[0, 1], 2),
        csr("sparse.counts.no-indptr", &[], &[], 0),
        csr("sparse.counts.fewer-indices", &[0, 1, 1, 2], &[0], 2),
        csr("sparse.counts.more-indices", &[0, 1, 1, 2], &[0, 1, 2], 2),
        csr("sparse.index-bounds.column", &[0, 1, 1, 2], &[0, 4], 2),
        csr("sparse.index-bounds.column-most", &[0, 1, 1, 2], &[0, u64::MAX], 2),
        csr("sparse.index-bounds.column-wraps", &[0, 1, 1, 2], &[0, 1 << 63], 2),
        csr("sparse.indptr-start.one", &[1, 1, 1, 2], &[0, 1], 2),
        csr("sparse.indptr-order.falls", &[0, 2, 1, 2], &[0, 1], 2),
        csr("sparse.indptr-order.past-the-end", &[0, 3, 2, 2], &[0, 1], 2),
        csr("sparse.indptr-order.most", &[0, u64::MAX, 2, 2], &[0, 1], 2),
        csr("sparse.indptr-end.less", &[0, 1, 1, 1], &[0, 1], 2),
        csr("sparse.indptr-end.more", &[0, 1, 1, 3], &[0, 1], 2),
        csr("sparse.indptr-end.terabyte", &[0, 1, 1, 1 << 40], &[0, 1], 2),
        coo("sparse.counts.coords", &[3, 4], &[0, 1, 2], 2),
        coo("sparse.counts.coords-of-nothing", &[3, 4], &[0, 1], 0),
        coo("sparse.index-bounds.coordinate", &[3, 4], &[0, 3, 0, 0], 2),
        coo("sparse.index-bounds.last-dimension", &[3, 4], &[0, 0, 0, 4], 2),
        coo("sparse.index-bounds.coordinate-most", &[3, 4], &[0, 0, 0, u64::MAX], 2),
        coo("sparse.index-bounds.no-rows", &[0, 4], &[0, 0], 1),
        signed("sparse.negative-index.minus-1", &[0, -1]),
        signed("sparse.negative-index.least", &[i32::MIN, 0]),
        zt(Version::V1_2, "sparse.rank.three", |f| {
            let values = f.part("f32", &f32s(&[1.0]));
            let indices = f.part("u64", &u64s(&[0]));
            let indptr = f.part("u64", &u64s(&[0, 1]));
            f.tensor("w", &[1, 4, 4], "sparse_csr", &csr_parts(values, indices, indptr));
        }),
        zt(Version::V1_0, "sparse.index-bounds.column-1.0", |f| {
            let values = f.part("f32", &f32s(&[1.0]));
            let indices = f.part("u64", &u64s(&[4]));
            let indptr = f.part("u64", &u64s(&[0, 1]));
            f.tensor("w", &[1, 4], "sparse_csr", &csr_parts(values, indices, indptr));
        }),
        // Unsigned indices with all bits set are not -1.
        zt(Version::V1_2, "sparse.index-bounds.u8", |f| {
            let values = f.part("f32", &f32s(&[1.0]));
            let coords = f.part("u8", &[0xff]);
            f.tensor("w", &[200], "sparse_coo", &[("values", values), ("coords", coords)]);
        }),
        zt(Version::V1_2, "sparse.sum.f8", |f| {
            let values = f.part("u8", &[1, 1]).with("type", text("f8_e4m3fn"));
            let coords = f.part("u64", &u64s(&[3, 3]));
            f.tensor("w", &[4], "sparse_coo", &[("values", values), ("coords", coords)]);
        }),
    ]
}

/// Sparse tensors of 0.1 with one component.
fn packed() -> Vec<Made> {
    let case = |name: &str, layout: &'static str, bytes: &[u8]| {
        zt(Version::V0_1, name, |f| {
            let part = f.part("f64", bytes);
            f.tensor("w", &[2, 4], layout, &[("data", part)]);
        })
    };
    let record =
        |row: u64, column: u64| [u64s(&[row, column]), 1f64.to_le_bytes().to_vec()].concat();
    let csr = |indptr: &[u64], indices: &[u64]| {
        [u64s(indptr), u64s(indices), vec![0; indices.len() * 8]].concat()
    };
    vec![
        case("sparse.packed.coo-part", "sparsecoo", &[record(0, 0), vec![0; 8]].concat()),
        case("sparse.packed.csr-no-indptr", "sparsecsr", &u64s(&[0, 0])),
        case("sparse.packed.csr-part", "sparsecsr", &[csr(&[0, 1, 1], &[0]), vec![0; 8]].concat()),
        case("sparse.index-bounds.packed-coo", "sparsecoo", &record(2, 0)),
        case("sparse.index-bounds.packed-csr", "sparsecsr", &csr(&[0, 1, 1], &[4])),
        case("sparse.indptr-end.packed-csr", "sparsecsr", &csr(&[0, 1, 2], &[0])),
        case("sparse.indptr-start.packed-csr", "sparsecsr", &csr(&[1, 1, 1], &[0])),
    ]
}

fn quantized() -> Vec<Made> {
    let int = |n: u64| uint(n);
    let minus = |n: u64| vec![0x20 | (n as u8 - 1)];
    let sound: &[(&'static str, Vec<u8>)] =
        &[("bits", int(4)), ("group_size", int(8)), ("packing", text("8_per_i32"))];
    // A 2 × 8 matrix: two words, two groups.
    struct QuantizedComponents {
        words: usize,
        scales: usize,
        zeros: Option<(&'static str, usize)>,
        g_idx: Option<Vec<i32>>,
        shape: &'static [u64],
    }
    let plain = || QuantizedComponents {
        words: 2,
        scales: 2,
        zeros: Some(("f16", 4)),
        g_idx: None,
        shape: &[2, 8],
    };
    let case =
        |name: &str, attributes: &[(&'static str, Vec<u8>)], quantized: QuantizedComponents| {
            zt(Version::V1_2, name, |f| {
                let mut parts = vec![
                    ("packed_weight", f.part("i32", &noise(quantized.words * 4, 3))),
                    ("scales", f.part("f16", &vec![0; quantized.scales * 2])),
                ];
                if let Some((dtype, len)) = quantized.zeros {
                    parts.push(("zeros", f.part(dtype, &vec![0; len])));
                }
                if let Some(g_idx) = &quantized.g_idx {
                    parts.push(("g_idx", f.part("i32", &i32s(g_idx))));
                }
                let tensor = f.tensor("w", quantized.shape, "quantized_group", &parts);
                for (key, value) in attributes {
                    tensor.attribute(key, value.clone());
                }
            })
        };
    let with = |key: &'static str, value: Vec<u8>| {
        let mut all = sound.to_vec();
        all.retain(|(k, _)| *k != key);
        all.push((key, value));
        all
    };
    let without = |key: &str| {
        let mut all = sound.to_vec();
        all.retain(|(k, _)| *k != key);
        all
    };
    let down = |g_idx: Vec<i32>| QuantizedComponents {
        words: 8,
        scales: 8,
        zeros: None,
        g_idx: Some(g_idx),
        ..plain()
    };
    vec![
        case("quantized.attribute.no-bits", &without("bits"), plain()),
        case("quantized.attribute.no-group-size", &without("group_size"), plain()),
        case("quantized.attribute.bits-text", &with("bits", text("four")), plain()),
        case("quantized.attribute.group-size-0", &with("group_size", int(0)), plain()),
        case("quantized.attribute.group-size-minus-2", &with("group_size", minus(2)), plain()),
        case("quantized.attribute.packing-number", &with("packing", int(8)), plain()),
        case("quantized.attribute.bits-0", &with("bits", int(0)), plain()),
        case("quantized.attribute.axis-2", &with("axis", int(2)), plain()),
        case(
            "quantized.bits.nine",
            &with("bits", int(9)),
            QuantizedComponents { words: 5, ..plain() },
        ),
        case("quantized.counts.bits-nine", &with("bits", int(9)), plain()),
        case("quantized.counts.bits-most", &with("bits", int(u64::MAX)), plain()),
        case("quantized.packing.words", &with("packing", text("eight per i32")), plain()),
        case("quantized.packing.long", &with("packing", text("65_per_65_i32")), plain()),
        case("quantized.fit.too-many", &with("packing", text("9_per_i32")), plain()),
        case("quantized.fit.width", &with("packing", text("2_per_u8")), plain()),
        case("quantized.fit.none", &with("packing", text("0_per_i32")), plain()),
        case("quantized.fit.most", &with("packing", text("18446744073709551615_per_i32")), plain()),
        case(
            "quantized.axis.cube",
            &with("axis", int(0)),
            QuantizedComponents { shape: &[1, 2, 8], ..plain() },
        ),
        case("quantized.counts.fewer-words", sound, QuantizedComponents { words: 1, ..plain() }),
        case("quantized.counts.more-words", sound, QuantizedComponents { words: 3, ..plain() }),
        case("quantized.counts.fewer-scales", sound, QuantizedComponents { scales: 1, ..plain() }),
        case("quantized.counts.more-scales", sound, QuantizedComponents { scales: 3, ..plain() }),
        case(
            "quantized.counts.fewer-zeros",
            sound,
            QuantizedComponents { zeros: Some(("f16", 2)), ..plain() },
        ),
        case("quantized.counts.group-size-most", &with("group_size", int(u64::MAX)), plain()),
        case(
            "quantized.zeros.bool",
            sound,
            QuantizedComponents { zeros: Some(("bool", 2)), ..plain() },
        ),
        case(
            "quantized.zeros.not-symmetric",
            &with("sym", vec![0xf4]),
            QuantizedComponents { zeros: None, ..plain() },
        ),
        case("quantized.group-index.past-end", &with("axis", int(0)), down(vec![0, 1])),
        case("quantized.group-index.negative", &with("axis", int(0)), down(vec![0, -1])),
        case("quantized.group-index.fewer", &with("axis", int(0)), down(vec![0])),
        case(
            "quantized.group-index.flat",
            sound,
            QuantizedComponents { g_idx: Some(vec![0, 0]), ..plain() },
        ),
        case("quantized.attribute.array", &with("bits", array(&[int(4)])), plain()),
    ]
}

fn bools() -> Vec<Made> {
    let mut all = Vec::new();
    for version in VERSIONS {
        all.push(zt(version, &format!("layout.bool-byte.two-{}", version.name()), |f| {
            let part = f.part("bool", &[0, 1, 2, 1]);
            f.dense("w", &[4], part);
        }));
    }
    all.push(zt(Version::V1_2, "layout.bool-byte.compressed", |f| {
        let part = f.part("bool", &frame(&[1, 0, 0xff, 1], 1)).zstd(4);
        f.dense("w", &[4], part);
    }));
    let header = r#"{"w":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}"#;
    let bytes =
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[1, 255, 0]].concat();
    all.push(Made::new("reject/safetensors/layout.bool-byte.most.safetensors".into(), bytes));
    all
}

/// Records and blobs without a valid schema in their attribute.
fn kinds() -> Vec<Made> {
    let number = r#"{"type":"integer","TypeDef:Uint32":true}"#;
    let case = |name: &str, layout: &'static str, kind: Option<&str>| {
        zt(Version::V1_2, &format!("records.{name}"), |f| {
            let parts = match layout {
                "blob" => {
                    let entries = [0u64, 4].map(u64::to_le_bytes).concat();
                    vec![("entries", f.part("u64", &entries)), ("blob_data", f.part("u8", &[1; 4]))]
                }
                _ => vec![("data", f.part("u8", &[0; 16]))],
            };
            let tensor = f.tensor("w", &[1], layout, &parts);
            if let Some(kind) = kind {
                tensor.attribute("metatensor.kind", text(kind));
            }
        })
    };
    vec![
        case("kind.none", "records", None),
        case("size.stride", "records", Some(r#"{"type":"integer","TypeDef:Uint64":true}"#)),
        case("heap.none", "records", Some(r#"{"type":"string","TypeDef:String":true}"#)),
        case("kind.no-blob", "blob", None),
        case("kind.records", "blob", Some(number)),
    ]
}
