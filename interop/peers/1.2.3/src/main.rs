//! The `ztensor` crate 1.2.3.

#[path = "../../listing.rs"]
mod listing;

use ciborium::Value;
use listing::{Listing, NAMES, elements, noise};
use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::path::Path;
use ztensor::{Checksum, Compression, DType, Format, Reader, Writer};

fn main() {
    listing::main(read, write);
}

fn read(file: &str, listing: &mut Listing) {
    let reader = Reader::open_any_path(file).expect("it opens");
    for (name, object) in reader.tensors() {
        for (role, component) in &object.components {
            let bytes = reader.read_component(component).expect("it reads");
            let (layout, dtype) = (object.format.as_str(), component.dtype.as_str());
            let logical = component.r#type.as_deref();
            listing.component(name, &object.shape, layout, role, dtype, logical, &bytes);
        }
        let is_plain = object.components.get("data").is_some_and(|c| c.r#type.is_none());
        if object.format == Format::Dense && is_plain {
            // Through the way that people use, too.
            reader.read(name, true).expect("it reads as a dense tensor");
        }
    }
}

const DTYPES: [DType; 13] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool,
];

type Attributes = BTreeMap<String, Value>;

fn attributes() -> Attributes {
    let text = |s: &str| Value::Text(s.into());
    let int = |n: i64| Value::Integer(n.into());
    let pairs = [
        ("array", Value::Array(vec![int(1), text("two"), Value::Array(vec![])])),
        ("bool", Value::Bool(true)),
        ("bytes", Value::Bytes(vec![0, 255])),
        ("float", Value::Float(0.1)),
        ("half", Value::Float(0.5)),
        ("infinity", Value::Float(f64::INFINITY)),
        ("integer", int(-1)),
        ("integer_most", Value::Integer(u64::MAX.into())),
        ("map", Value::Map(vec![(int(1), text("one")), (text("two"), int(2))])),
        ("nan", Value::Float(f64::NAN)),
        ("null", Value::Null),
        ("tag", Value::Tag(0, Box::new(text("2024-02-29T12:00:00Z")))),
        ("text", text("\u{fc} \0")),
    ];
    pairs.map(|(k, v)| (k.to_owned(), v)).into()
}

fn write(folder: &Path) {
    let path = |name: &str| folder.join(format!("crate-1.2.3-{name}.zt"));
    let create = |name: &str| Writer::create(path(name)).expect("it is created");

    create("empty").finish().expect("it is written");

    for (name, compression, checksum) in [
        ("raw", Compression::Raw, Checksum::Crc32c),
        ("zstd_-7", Compression::Zstd(-7), Checksum::None),
        ("zstd_3", Compression::Zstd(3), Checksum::Sha256),
        ("zstd_22", Compression::Zstd(22), Checksum::Crc32c),
    ] {
        let mut w = create(name);
        add_plain(&mut w, compression, checksum);
        w.finish().expect("it is written");
    }

    let mut w = create("attributes");
    w.set_attributes(attributes());
    add(
        &mut w,
        "w",
        &[2],
        Format::Dense,
        &[("data", DType::U8, None, &[1, 2])],
        Some(attributes()),
    );
    w.finish().expect("it is written");

    let mut w = create("logical_types");
    for (name, dtype, len) in [
        ("f8_e4m3fn", DType::U8, 6),
        ("f8_e5m2", DType::U8, 6),
        ("f8_e4m3fnuz", DType::U8, 6),
        ("f8_e5m2fnuz", DType::U8, 6),
        ("complex64", DType::F32, 48),
        ("complex128", DType::F64, 96),
        ("i4_unheard_of", DType::U8, 6),
    ] {
        let bytes = noise(len, 1);
        add(&mut w, name, &[2, 3], Format::Dense, &[("data", dtype, Some(name), &bytes)], None);
    }
    w.finish().expect("it is written");

    let mut w = create("layouts");
    let a = noise(12, 1);
    let b = noise(64, 2);
    let parts: &[Part<'_>] = &[("rows", DType::F16, None, &a), ("ends", DType::U8, None, &b)];
    add(&mut w, "ragged", &[3], Format::Other("ragged".into()), parts, None);
    let int = |n: i64| Value::Integer(n.into());
    let of_q: Attributes = [
        ("bits".to_owned(), int(4)),
        ("group_size".to_owned(), int(16)),
        ("packing".to_owned(), Value::Text("8_per_i32".into())),
    ]
    .into();
    let halves = [0u8, 0x3c].repeat(8);
    let parts: &[Part<'_>] = &[
        ("packed_weight", DType::I32, None, &b),
        ("scales", DType::F16, None, &halves),
        ("zeros", DType::F16, None, &halves),
    ];
    add(&mut w, "q4", &[4, 32], Format::QuantizedGroup, parts, Some(of_q));
    w.finish().expect("it is written");

    let mut w = create("narrow_indices");
    let indices: Vec<u8> = [0i32, 3, 1].iter().flat_map(|i| i.to_le_bytes()).collect();
    let indptr: Vec<u8> = [0i32, 2, 2, 3].iter().flat_map(|i| i.to_le_bytes()).collect();
    let values = noise(12, 4);
    let parts: &[Part<'_>] = &[
        ("values", DType::F32, None, &values),
        ("indices", DType::I32, None, &indices),
        ("indptr", DType::I32, None, &indptr),
    ];
    add(&mut w, "csr", &[3, 4], Format::SparseCsr, parts, None);
    w.finish().expect("it is written");

    let mut w = create("edges");
    let mut one = |name: &str, shape: &[u64], compression: Compression, bytes: &[u8]| {
        w.add_bytes(name, shape.to_vec(), DType::U8, compression, bytes, Checksum::Crc32c)
            .expect("it is added");
    };
    one("scalar", &[], Compression::Raw, &[7]);
    one("nothing", &[0], Compression::Raw, &[]);
    one("nothing_compressed", &[3, 0], Compression::Zstd(3), &[]);
    for name in NAMES {
        one(name, &[name.len() as u64], Compression::Raw, name.as_bytes());
    }
    one("zeros", &[200_000], Compression::Zstd(3), &vec![0; 200_000]);
    one("noise", &[1000], Compression::Zstd(3), &noise(1000, 3));
    w.finish().expect("it is written");

    let mut w = create("appended");
    add_plain(&mut w, Compression::Raw, Checksum::Crc32c);
    w.finish().expect("it is written");
    for (name, compression) in [("one", Compression::Raw), ("two", Compression::Zstd(3))] {
        let mut w = Writer::append(path("appended")).expect("it can be appended to");
        w.add_bytes(name, vec![100], DType::U8, compression, &noise(100, 7), Checksum::Sha256)
            .expect("it is added");
        w.finish().expect("it is written");
    }

    std::fs::copy(path("appended"), path("replaced")).expect("a copy");
    ztensor::replace_tensor(path("replaced"), "t_i64", &noise(48, 8)).expect("it is replaced");
    ztensor::remove_tensors(path("appended"), path("removed"), &["t_f64", "one"])
        .expect("they are removed");
}

fn add_plain<W: Write + Seek>(w: &mut Writer<W>, compression: Compression, checksum: Checksum) {
    for (i, dtype) in DTYPES.into_iter().enumerate() {
        let bytes = elements(6, dtype.byte_size(), dtype == DType::Bool, i as u64);
        let name = format!("t_{}", dtype.as_str());
        w.add_bytes(&name, vec![2, 3], dtype, compression, &bytes, checksum).expect("it is added");
    }
    let values = elements(3, 4, false, 20);
    let (indices, indptr) = ([0, 3, 1], [0, 2, 2, 3]);
    w.add_csr_bytes(
        "csr",
        vec![3, 4],
        DType::F32,
        &values,
        &indices,
        &indptr,
        compression,
        checksum,
    )
    .expect("it is added");
    let values = elements(2, 2, false, 21);
    let coords = [0, 1, 1, 0, 1, 1];
    w.add_coo_bytes("coo", vec![2, 2, 2], DType::I16, &values, &coords, compression, checksum)
        .expect("it is added");
}

type Part<'a> = (&'a str, DType, Option<&'a str>, &'a [u8]);

fn add<W: Write + Seek>(
    w: &mut Writer<W>,
    name: &str,
    shape: &[u64],
    format: Format,
    parts: &[Part<'_>],
    attributes: Option<Attributes>,
) {
    let (compression, checksum) = (Compression::Raw, Checksum::Crc32c);
    w.add_object(name, shape.to_vec(), format, parts, attributes, compression, checksum)
        .expect("it is added");
}
