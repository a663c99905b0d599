//! Valid files with unusual features: those that other programs may write and ours does not, and
//! those that have caused errors in readers.

use super::Made;
use super::zt::*;
use crate::tables::safetensors_files;
use crate::tables::ztensor_files::{Pairs, array, container, map, object, text, uint};
use holdall::{Algorithm, LogicalType};
use holdall_core::codec::zstd;

pub(crate) fn accepts() -> Vec<Made> {
    let mut all = Vec::new();
    for version in VERSIONS {
        all.push(zt(version, "dtypes", every_dtype));
        all.push(zt(version, "names", names));
        all.push(zt(version, "edges", scalars_and_nothing));
        all.push(zt(version, "frames", frames));
        all.push(zt(version, "digests", digests));
        all.push(zt(version, "tied", tied));
        all.push(zt(version, "unaligned", |f| {
            f.align(1);
            every_dtype(f);
        }));
    }
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        all.push(zt(version, "sparse", |f| sparse(f, false)));
        all.push(zt(version, "sparse_zstd", |f| sparse(f, true)));
    }
    all.push(zt(Version::V0_1, "sparse", packed));
    all.push(zt(Version::V0_1, "sparse_stated", stated));
    all.push(zt(Version::V0_1, "big_endian", big_endian));
    all.push(zt(Version::V0_1, "custom_fields", custom_fields));
    all.push(zt(Version::V1_0, "attributes", |f| {
        let pairs = [("", text("")), ("ключ", text("значение")), ("nul", text("a\0b"))];
        f.attributes(map(&pairs));
    }));
    all.extend(only_1_2());
    all.extend(safetensors());
    all
}

fn zt(version: Version, name: &str, build: impl FnOnce(&mut Zt)) -> Made {
    let mut f = Zt::new(version);
    build(&mut f);
    Made::new(format!("accept/ztensor/made-{}-{name}.zt", version.name()), f.finish())
}

fn every_dtype(f: &mut Zt) {
    for (i, (dtype, width)) in dtypes().enumerate() {
        let mut bytes = noise(6 * width as usize, i as u64);
        if dtype == "bool" {
            bytes.iter_mut().for_each(|b| *b &= 1);
        }
        let part = f.part(dtype, &bytes);
        f.dense(&format!("t_{dtype}"), &[2, 3], part);
    }
}

/// Names may be any text, and sort by their bytes.
const NAMES: [&str; 14] = [
    "",
    " ",
    "\0",
    "\u{1b}[31mred",
    "../../etc/passwd",
    "/",
    "C:\\model",
    "\"quoted\"",
    "a\nb",
    "layer.0.weight",
    "\u{65e5}\u{672c}\u{8a9e}",
    "e\u{301}",
    "\u{1f9e0}",
    "\u{10ffff}",
];

fn names(f: &mut Zt) {
    for name in NAMES {
        let part = f.part("u8", name.as_bytes());
        f.dense(name, &[name.len() as u64], part);
    }
    let long = "long.".repeat(300);
    let part = f.part("u8", &[1]);
    f.dense(&long, &[1], part);
}

fn scalars_and_nothing(f: &mut Zt) {
    let part = f.part("f64", &1.5f64.to_le_bytes());
    f.dense("scalar", &[], part);
    let part = f.part("f64", &1.5f64.to_le_bytes());
    f.dense("one", &[1], part);
    let part = f.part("i16", &[1, 2]);
    f.dense("ones", &[1; 64], part);
    // An empty component takes no space, so the next one has the same offset.
    let part = f.part("f32", &[]);
    f.dense("nothing", &[0], part);
    let part = f.part("f32", &[]);
    f.dense("nothing_wide", &[1 << 40, 0, 1 << 40], part);
    let part = f.part("u8", &frame(&[], 3)).zstd(0);
    f.dense("nothing_compressed", &[3, 0], part);
    let part = f.part("u8", &[7]);
    f.dense("last", &[1], part);
    let part = f.part("u16", &[]);
    f.dense("nothing_at_the_end", &[0], part);
}

/// Adds compressed data in every form that decodes to the same bytes.
fn frames(f: &mut Zt) {
    let bytes: Vec<u8> = noise(600, 9).iter().map(|b| b & 7).collect();
    let half = bytes.len() / 2;
    let two = [&frame(&bytes[..half], 3)[..], &frame(&bytes[half..], 19)].concat();
    let empty = frame(&[], 1);
    let skippable = |n: u8| [&[0x50 | n, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
    let around = [&skippable(0)[..], &two, &empty, &skippable(15)].concat();
    let ones: Vec<Vec<u8>> = bytes.iter().map(|b| frame(&[*b], 1)).collect();
    let dense = [
        ("level_-5", frame(&bytes, -5)),
        ("level_1", frame(&bytes, 1)),
        ("level_19", frame(&bytes, 19)),
        ("level_22", frame(&bytes, 22)),
        ("frames_2", two),
        ("frames_600", ones.concat()),
        ("skippable", around),
        ("raw_block", frame_of_window(&bytes, 10)),
        ("widest_window", frame_of_window(&bytes, 27)),
    ];
    for (name, stored) in dense {
        let part = f.part("u8", &stored).zstd(600);
        f.dense(name, &[600], part);
    }
    let part = f.part("f32", &frame_of_run(0, 1 << 20)).zstd(1 << 20);
    f.dense("zeros", &[1 << 18], part);
}

fn digests(f: &mut Zt) {
    let bytes = noise(64, 4);
    let crc = digest_of(Algorithm::Crc32c, &bytes);
    let sha = digest_of(Algorithm::Sha256, &bytes);
    for (name, digest) in [
        ("crc32c", crc.clone()),
        ("crc32c_lower_case", crc.to_lowercase()),
        ("crc32c_without_0x", crc.replace("0x", "")),
        ("crc32c_with_0X", crc.replace("0x", "0X")),
        ("sha256", sha.clone()),
        ("sha256_upper_case", format!("sha256:{}", sha["sha256:".len()..].to_uppercase())),
        ("unknown", "blake3:0123".to_owned()),
        ("no_colon", "checked".to_owned()),
    ] {
        let part = f.part("u8", &bytes).digest(&digest);
        f.dense(name, &[64], part);
    }
    let stored = frame(&bytes, 1);
    let part = f.part("u8", &stored).zstd(64).digest(&digest_of(Algorithm::Crc32c, &stored));
    f.dense("compressed", &[64], part);
    let part = f.part("u8", &[]).digest("crc32c:0x00000000");
    f.dense("of_nothing", &[0], part);
}

/// Adds tensors that share their bytes but have different types.
fn tied(f: &mut Zt) {
    let part = f.part("f32", &noise(48, 5));
    f.dense("embed", &[3, 4], part.clone());
    f.dense("head", &[4, 3], part.clone());
    f.dense("bits", &[12], part.with_dtype("u32"));
    let part = f.part("u8", &frame(&noise(48, 6), 1)).zstd(48);
    f.dense("packed", &[48], part.clone());
    f.dense("packed_too", &[6, 8], part);
}

fn sparse(f: &mut Zt, compressed: bool) {
    let part = |f: &mut Zt, dtype: &'static str, bytes: &[u8]| match compressed {
        true => f.part(dtype, &frame(bytes, 3)).zstd(bytes.len() as u64),
        false => f.part(dtype, bytes),
    };
    let csr = |f: &mut Zt, name: &str, shape, indptr: &[u64], indices: &[u64]| {
        let values = part(f, "f32", &noise(indices.len() * 4, 1));
        let indices = part(f, "u64", &u64s(indices));
        let indptr = part(f, "u64", &u64s(indptr));
        let parts = [("values", values), ("indices", indices), ("indptr", indptr)];
        f.tensor(name, shape, "sparse_csr", &parts);
    };
    csr(f, "csr", &[3, 4], &[0, 2, 2, 3], &[0, 3, 1]);
    csr(f, "csr_empty", &[2, 2], &[0, 0, 0], &[]);
    csr(f, "csr_no_rows", &[0, 5], &[0], &[]);
    csr(f, "csr_unsorted", &[1, 4], &[0, 3], &[3, 0, 2]);
    csr(f, "csr_twice", &[1, 4], &[0, 3], &[1, 1, 1]);
    csr(f, "csr_wide", &[1, 1 << 40], &[0, 1], &[(1 << 40) - 1]);
    let coo = |f: &mut Zt, name: &str, shape, coords: &[u64], count: usize| {
        let values = part(f, "i16", &noise(count * 2, 2));
        let coords = part(f, "u64", &u64s(coords));
        f.tensor(name, shape, "sparse_coo", &[("values", values), ("coords", coords)]);
    };
    coo(f, "coo", &[3, 4], &[0, 2, 1, 3], 2);
    coo(f, "coo_vector", &[9], &[8, 0, 4], 3);
    coo(f, "coo_cube", &[2, 2, 2], &[1, 0, 1], 1);
    coo(f, "coo_scalar", &[], &[], 1);
    coo(f, "coo_twice", &[2, 2], &[1, 1, 0, 0], 2);
    coo(f, "coo_empty", &[3, 3], &[], 0);
}

/// Adds sparse tensors of 0.1: as specified by its document, and as written by its crate.
fn packed(f: &mut Zt) {
    let value = |x: f64| x.to_le_bytes().to_vec();
    let record = |at: [u64; 2], x: f64| [u64s(&at), value(x)].concat();
    let coo = [record([0, 3], 1.5), record([1, 0], -2.0)].concat();
    let csr = [u64s(&[0, 1, 2]), u64s(&[3, 0]), value(1.5), value(-2.0)].concat();
    for (name, format, bytes, crate_layout) in
        [("coo", "coo", &coo, "sparsecoo"), ("csr", "csr", &csr, "sparsecsr")]
    {
        let part = f.part("f64", bytes);
        f.tensor(&format!("{name}_document"), &[2, 4], "sparse", &[("data", part.clone())])
            .attribute("sparse_format", text(format))
            .attribute("nnz", uint(2));
        f.tensor(&format!("{name}_crate"), &[2, 4], crate_layout, &[("data", part)]);
        let part = f.part("f64", &frame(bytes, 3)).zstd(0);
        f.tensor(&format!("{name}_compressed"), &[2, 4], "sparse", &[("data", part.clone())])
            .attribute("sparse_format", text(format))
            .attribute("nnz", uint(2));
        f.tensor(&format!("{name}_compressed_crate"), &[2, 4], crate_layout, &[("data", part)]);
    }
    // Neither form: only its bytes can be read.
    let part = f.part("f64", &noise(24, 3));
    f.tensor("unknown", &[2, 4], "sparse", &[("data", part.clone())]);
    f.tensor("other_layout", &[3], "ragged", &[("data", part)]);
}

/// Adds sparse tensors with their indices in the manifest, as in 0.1's document: [[0, 0, 0, 1.5],
/// [-2, 0, 0, 0]].
fn stated(f: &mut Zt) {
    let list = |items: &[u64]| array(&items.iter().map(|&item| uint(item)).collect::<Vec<_>>());
    let lists = |items: &[&[u64]]| array(&items.iter().map(|&item| list(item)).collect::<Vec<_>>());
    let values = [1.5f64, -2.0].map(f64::to_le_bytes).concat();
    let by_rows = [("indptr", list(&[0, 1, 2])), ("indices", list(&[3, 0]))];
    let parts = [
        ("csr", f.part("f64", &values)),
        ("csr_compressed", f.part("f64", &frame(&values, 3)).zstd(0)),
        ("csr_big", {
            let big = [1.5f64, -2.0].map(f64::to_be_bytes).concat();
            f.part("f64", &big).with("data_endianness", text("big"))
        }),
        ("csr_digest", f.part("f64", &values).digest(&digest_of(Algorithm::Crc32c, &values))),
    ];
    for (name, part) in parts {
        let t = f.tensor(name, &[2, 4], "sparse", &[("data", part)]);
        t.attribute("sparse_format", text("csr"));
        for (key, value) in &by_rows {
            t.attribute(key, value.clone());
        }
        if name == "csr" {
            t.attribute("nnz", uint(2)).attribute("note", text("kept"));
        }
    }
    let part = f.part("f64", &values);
    let coordinates: [(&str, Pairs); 4] = [
        ("coo_flat", vec![("coords", list(&[0, 1, 3, 0]))]),
        ("coo_by_dimension", vec![("indices", lists(&[&[0, 1], &[3, 0]]))]),
        ("coo_row_col", vec![("row", list(&[0, 1])), ("col", list(&[3, 0]))]),
        // In the other order a coordinate would be out of bounds.
        ("coo_by_value", vec![("coords", lists(&[&[0, 3], &[1, 0]]))]),
    ];
    for (name, fields) in coordinates {
        let t = f.tensor(name, &[2, 4], "sparse", &[("data", part.clone())]);
        t.attribute("sparse_format", text("coo"));
        for (key, value) in fields {
            t.attribute(key, value);
        }
    }
    // As many values as dimensions, so the order is ambiguous: it is read as a list for each
    // dimension, with a warning.
    f.tensor("coo_either_way", &[4, 4], "sparse", &[("data", part)])
        .attribute("sparse_format", text("coo"))
        .attribute("coords", lists(&[&[0, 1], &[3, 2]]));
    let empty = f.part("f32", &[]);
    f.tensor("empty", &[3, 4], "sparse", &[("data", empty)])
        .attribute("sparse_format", text("csr"))
        .attribute("indptr", list(&[0, 0, 0, 0]))
        .attribute("indices", list(&[]));
}

fn big_endian(f: &mut Zt) {
    for (i, (dtype, width)) in dtypes().enumerate() {
        let mut bytes = noise(6 * width as usize, i as u64);
        if dtype == "bool" {
            bytes.iter_mut().for_each(|b| *b &= 1);
        }
        let part = f.part(dtype, &bytes).with("data_endianness", text("big"));
        f.dense(&format!("t_{dtype}"), &[6], part);
    }
    let part = f.part("u32", &noise(8, 9)).with("data_endianness", text("little"));
    f.dense("little", &[2], part);
    // The crate swaps all bytes of a sparse tensor, including indices, in units of its dtype.
    let record = [1u64.to_be_bytes(), 1.5f64.to_be_bytes()].concat();
    let part = f.part("f64", &record).with("data_endianness", text("big"));
    f.tensor("coo", &[2], "sparsecoo", &[("data", part)]);
}

/// Returns attribute values of every kind in CBOR.
fn every_value() -> Vec<(&'static str, Vec<u8>)> {
    let deep = (0..20).fold(uint(1), |inner, _| array(&[inner]));
    vec![
        ("array", array(&[uint(1), text("two"), array(&[])])),
        ("array_indefinite", vec![0x9f, 0x01, 0x82, 0x02, 0x03, 0xff]),
        ("bytes", vec![0x43, 0, 0xff, 0x7f]),
        ("bytes_in_pieces", vec![0x5f, 0x41, 1, 0x42, 2, 3, 0xff]),
        ("deep", deep),
        ("false", vec![0xf4]),
        ("float_16", vec![0xf9, 0x3e, 0x00]),
        ("float_32", vec![0xfa, 0x3d, 0xcc, 0xcc, 0xcd]),
        ("float_64", vec![0xfb, 0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a]),
        ("float_denormal", vec![0xf9, 0x00, 0x01]),
        ("float_infinity", vec![0xf9, 0x7c, 0x00]),
        ("float_nan", vec![0xf9, 0x7e, 0x00]),
        ("float_minus_0", vec![0xf9, 0x80, 0x00]),
        ("integer_0", vec![0x00]),
        ("integer_long_form", vec![0x1b, 0, 0, 0, 0, 0, 0, 0, 5]),
        ("integer_most", uint(u64::MAX)),
        ("integer_minus_1", vec![0x20]),
        ("integer_least", [&[0x3b][..], &[0xff; 8]].concat()),
        ("map", map(&[("a", uint(1)), ("b", map(&[]))])),
        ("map_indefinite", vec![0xbf, 0x61, b'k', 0x01, 0xff]),
        ("map_of_numbers", vec![0xa2, 0x01, 0x02, 0x20, 0xf5]),
        ("null", vec![0xf6]),
        ("simple", vec![0xf8, 0xff]),
        ("tagged_date", [&[0xc0][..], &text("2024-02-29T12:00:00Z")].concat()),
        ("tagged_bignum", vec![0xc2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("text", text("\u{fc} \u{5c64}\0\"")),
        ("text_in_pieces", vec![0x7f, 0x61, b'a', 0x61, b'b', 0xff]),
        ("true", vec![0xf5]),
        ("undefined", vec![0xf7]),
    ]
}

fn custom_fields(f: &mut Zt) {
    let part = f.part("u8", &[1, 2]);
    let tensor = f.dense("w", &[2], part);
    for (key, value) in every_value() {
        tensor.attribute(key, value);
    }
}

fn only_1_2() -> Vec<Made> {
    let v1_2 = |name: &str, build: &dyn Fn(&mut Zt)| zt(Version::V1_2, name, build);
    vec![
        v1_2("no_tensors", &|_| {}),
        v1_2("attributes", &|f| {
            f.attributes(map(&every_value()));
            custom_fields(f);
        }),
        v1_2("logical_types", &logical_types),
        v1_2("layouts", &layouts),
        v1_2("quantized", &quantized),
        v1_2("narrow_indices", &narrow_indices),
        v1_2("seek_table", &seek_tables),
        v1_2("no_uncompressed_length", &|f| {
            let part = f.part("u8", &frame(&[1; 99], 1)).with("encoding", text("zstd"));
            f.dense("w", &[99], part);
        }),
        v1_2("padding", &|f| {
            // Neither zeros between components nor a component for every byte.
            f.part("u8", &noise(100, 1));
            let part = f.part("u8", &noise(100, 2));
            f.dense("w", &[100], part);
            f.part("u8", &noise(100, 3));
        }),
        v1_2("nulls", &|f| {
            // Writers without a value write null.
            let null = || vec![0xf6];
            let part = f.part("u8", &[1]);
            let part = ["digest", "type", "uncompressed_length", "encoding"]
                .into_iter()
                .fold(part, |part, key| part.with(key, null()));
            f.attributes(null());
            f.dense("w", &[1], part);
        }),
        unknown_fields("higher_minor", "1.99.0"),
        unknown_fields("unknown_fields", "1.2.0"),
    ]
}

/// Returns a file with fields of a possible later version, at every level.
fn unknown_fields(name: &str, version: &str) -> Made {
    let new = || ("new", map(&[("x", array(&[uint(1), vec![0xf7], vec![0xc1, 0x00]]))]));
    let part = map(&[("dtype", text("u8")), ("offset", uint(64)), ("length", uint(16)), new()]);
    let mut object = object();
    object.retain(|(key, _)| *key != "components");
    object.extend([("components", map(&[("data", part)])), new()]);
    let root = [("version", text(version)), ("objects", map(&[("w", map(&object))])), new()];
    let bytes = container(b"ZTEN1000", &map(&root), true);
    Made::new(format!("accept/ztensor/made-1.2-{name}.zt"), bytes)
}

fn logical_types(f: &mut Zt) {
    for (i, t) in LogicalType::KNOWN.into_iter().enumerate() {
        // Eight elements have a whole number of bytes in every type.
        let len = t.bits().expect("a known type");
        let dtype = t.storage().expect("a known type").as_str();
        let part = f.part(dtype, &noise(len as usize, i as u64)).with("type", text(t.as_str()));
        f.dense(&format!("t_{}", t.as_str()), &[2, 4], part);
    }
    // Unknown logical types, and known ones with an undefined storage dtype: plain elements.
    for (name, dtype, t) in
        [("unknown", "i16", "i12"), ("wrong_storage", "i8", "f8_e5m2"), ("itself", "f32", "f32")]
    {
        let width = if dtype == "f32" { 4 } else { 2 };
        let part = f.part(dtype, &noise(4 * width, 7)).with("type", text(t));
        let count = if dtype == "i8" { 8 } else { 4 };
        f.dense(name, &[count], part);
    }
}

fn layouts(f: &mut Zt) {
    let a = f.part("f16", &noise(6, 1));
    let b = f.part("u8", &frame(&noise(100, 2), 1)).zstd(100);
    f.tensor("ragged", &[3, 5], "ragged", &[("rows", a.clone()), ("ends", b.clone())])
        .attribute("by", text("a later program"));
    f.tensor("bare", &[7], "virtual", &[]);
    f.tensor("csr_like", &[3], "sparse_bsr", &[("values", a), ("indptr", b)]);
    // Components in addition to those of the layout.
    let data = f.part("u8", &[1, 2]);
    let mask = f.part("bool", &[1, 0]);
    f.tensor("masked", &[2], "dense", &[("mask", mask), ("data", data)]);
}

fn quantized(f: &mut Zt) {
    let minus_1 = || vec![0x20];
    let mut add = |name: &str,
                   shape: [u64; 2],
                   words: (&'static str, usize),
                   groups: usize,
                   more: &[(&'static str, Vec<u8>)]| {
        let parts = [
            ("packed_weight", f.part(words.0, &noise(words.1, groups as u64))),
            ("scales", f.part("f16", &[0, 0x3c].repeat(groups))),
            ("zeros", f.part("f16", &[0, 0x40].repeat(groups))),
        ];
        let tensor = f.tensor(name, &shape, "quantized_group", &parts);
        for (key, value) in more {
            tensor.attribute(key, value.clone());
        }
    };
    let with = |bits: u64, group: Vec<u8>, packing: Option<&str>| {
        let mut all = vec![("bits", uint(bits)), ("group_size", group)];
        all.extend(packing.map(|p| ("packing", text(p))));
        all
    };
    add("q4", [4, 32], ("i32", 64), 8, &with(4, uint(16), Some("8_per_i32")));
    add("q4_bytes", [4, 32], ("u8", 64), 8, &with(4, uint(16), Some("2_per_u8")));
    add("q4_no_packing", [4, 32], ("i32", 64), 8, &with(4, uint(16), None));
    add("q2", [4, 32], ("i32", 32), 8, &with(2, uint(16), Some("16_per_i32")));
    add("q3_straddling", [4, 32], ("i32", 48), 8, &with(3, uint(16), Some("32_per_3_i32")));
    add("q8_signed", [4, 32], ("i8", 128), 8, &with(8, uint(16), Some("1_per_i8")));
    add("q4_rows", [4, 32], ("i32", 64), 4, &with(4, minus_1(), Some("8_per_i32")));
    let gptq = [with(4, uint(8), Some("8_per_i32")), vec![("axis", uint(0))]].concat();
    add("q4_gptq", [16, 4], ("i32", 32), 8, &gptq);
    add("q4_awq", [4, 32], ("i32", 64), 8, &with(4, uint(16), Some("8_per_i32_awq")));
}

fn narrow_indices(f: &mut Zt) {
    for (dtype, width) in dtypes().filter(|(d, _)| d.starts_with(['i', 'u'])) {
        let number = |n: u64| n.to_le_bytes()[..width as usize].to_vec();
        let values = f.part("f32", &f32s(&[1.0, 2.0]));
        let indices = f.part(dtype, &[number(0), number(3)].concat());
        let indptr = f.part(dtype, &[number(0), number(1), number(2)].concat());
        let parts = [("values", values), ("indices", indices), ("indptr", indptr)];
        f.tensor(&format!("csr_{dtype}"), &[2, 4], "sparse_csr", &parts);
    }
}

/// Adds long components with a seek table of each form, and with incorrect ones.
fn seek_tables(f: &mut Zt) {
    const LEN: usize = 5 << 20;
    const LENS: [usize; 3] = [2 << 20, 2 << 20, 1 << 20];
    let frames: Vec<Vec<u8>> =
        LENS.iter().enumerate().map(|(i, &len)| frame_of_run(i as u8 + 1, len)).collect();
    let sizes: Vec<(u64, u64)> =
        frames.iter().zip(LENS).map(|(f, len)| (f.len() as u64, len as u64)).collect();
    let table = zstd::seek_table(&sizes).expect("short frames");
    // With a checksum of each frame, which we do not check.
    let mut checked = 0x184d_2a5eu32.to_le_bytes().to_vec();
    checked.extend((12 * 3 + 9u32).to_le_bytes());
    for (stored, decoded) in &sizes {
        checked.extend((*stored as u32).to_le_bytes());
        checked.extend((*decoded as u32).to_le_bytes());
        checked.extend([0xde, 0xad, 0xbe, 0xef]);
    }
    checked.extend(3u32.to_le_bytes());
    checked.push(0x80);
    checked.extend(0x8f92_eab1u32.to_le_bytes());
    // For other frames: the sizes do not add up, so it is ignored.
    let off = [sizes[0], (sizes[1].0, sizes[1].1 - 1), sizes[2]];
    let off = zstd::seek_table(&off).expect("short frames");
    let mut cut = table.clone();
    cut.drain(8..16);
    let patched = (cut.len() as u32 - 8).to_le_bytes();
    cut[4..8].copy_from_slice(&patched);
    for (name, table) in [("plain", table), ("checksums", checked), ("wrong", off), ("short", cut)]
    {
        let part = f.part("u8", &[frames.concat(), table].concat()).zstd(LEN as u64);
        f.dense(name, &[LEN as u64], part);
    }
}

fn safetensors() -> Vec<Made> {
    let case = |name: &str, header: &str, data: &[u8]| {
        let mut bytes = safetensors_files::file(header.as_bytes(), 0);
        bytes.extend_from_slice(data);
        Made::new(format!("accept/safetensors/made-{name}.safetensors"), bytes)
    };
    // All dtypes, 16 elements each, in an arbitrary order.
    let mut dtypes = String::from("{");
    let mut end = 0;
    for (name, bits) in [
        ("BOOL", 8),
        ("F4", 4),
        ("F6_E2M3", 6),
        ("F6_E3M2", 6),
        ("U8", 8),
        ("I8", 8),
        ("F8_E5M2", 8),
        ("F8_E4M3", 8),
        ("F8_E8M0", 8),
        ("F8_E4M3FNUZ", 8),
        ("F8_E5M2FNUZ", 8),
        ("I16", 16),
        ("U16", 16),
        ("F16", 16),
        ("BF16", 16),
        ("I32", 32),
        ("U32", 32),
        ("F32", 32),
        ("C64", 64),
        ("F64", 64),
        ("I64", 64),
        ("U64", 64),
    ] {
        let start = end;
        end += bits * 16 / 8;
        let comma = if start == 0 { "" } else { "," };
        dtypes += &format!(
            r#"{comma}"t_{name}":{{"dtype":"{name}","shape":[4,4],"data_offsets":[{start},{end}]}}"#
        );
    }
    dtypes += "}";
    let mut data = noise(end, 1);
    data[..16].iter_mut().for_each(|b| *b &= 1);
    let three = r#"{"b":{"shape":[2],"data_offsets":[2,4],"dtype":"U8"},
        "\u0061\ud83e\udde0":{"dtype":"I8","shape":[],"data_offsets":[0,1],"later":[{"x":null}]},
        "":{"dtype":"BOOL","shape":[1,1],"data_offsets":[1,2]},"__metadata__":{}}"#;
    let nothing = r#"{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"c":{"dtype":"U8","shape":[3,0],"data_offsets":[1,1]},"d":{"dtype":"F4","shape":[0],"data_offsets":[1,1]}}"#;
    let metadata = r#"{"__metadata__":{"format":"pt","":"","\u0000":"nul","long":"…"}}"#;
    vec![
        case("empty", "{}", &[]),
        case("padded", "{}      ", &[]),
        case("dtypes", &dtypes, &data),
        case("order", three, &[5, 1, 2, 3]),
        case("nothing", nothing, &[9]),
        case("metadata", metadata, &[]),
    ]
}
