//! The `ztensor` crate 0.1.0.

#[path = "../../listing.rs"]
mod listing;

use listing::{Listing, NAMES, elements, noise};
use serde_cbor::Value;
use std::collections::BTreeMap;
use std::path::Path;
use ztensor::{
    ChecksumAlgorithm as Checksum, DType, DataEndianness, Encoding, Layout, ZTensorReader,
    ZTensorWriter,
};

fn main() {
    listing::main(read, write);
}

fn read(file: &str, listing: &mut Listing) {
    let mut reader = ZTensorReader::open(file).expect("it opens");
    for tensor in reader.list_tensors().clone() {
        let bytes = reader.read_raw_tensor_data(&tensor).expect("it reads");
        let layout = format!("{:?}", tensor.layout).to_lowercase();
        let dtype = tensor.dtype.to_string_key();
        listing.component(&tensor.name, &tensor.shape, &layout, "data", &dtype, None, &bytes);
    }
}

const DTYPES: [DType; 13] = [
    DType::Float64,
    DType::Float32,
    DType::Float16,
    DType::BFloat16,
    DType::Int64,
    DType::Int32,
    DType::Int16,
    DType::Int8,
    DType::Uint64,
    DType::Uint32,
    DType::Uint16,
    DType::Uint8,
    DType::Bool,
];

fn of(dtype: &DType, count: usize, seed: u64) -> Vec<u8> {
    let width = dtype.byte_size().expect("every dtype has a width");
    elements(count, width, *dtype == DType::Bool, seed)
}

fn write(folder: &Path) {
    let create = |name: &str| {
        ZTensorWriter::create(folder.join(format!("crate-0.1.0-{name}.zt"))).expect("it is created")
    };

    create("empty").finalize().expect("it is written");

    let mut w = create("big_endian");
    for (i, dtype) in DTYPES.into_iter().enumerate() {
        let (bytes, name) = (of(&dtype, 6, i as u64), format!("t_{}", dtype.to_string_key()));
        w.add_tensor(
            &name,
            vec![2, 3],
            dtype,
            Layout::Dense,
            Encoding::Raw,
            bytes,
            Some(DataEndianness::Big),
            Checksum::Crc32c,
            None,
        )
        .expect("it is added");
    }
    // As many bytes as a dense tensor has: two records of two coordinates and a value.
    let record = |row: u64, column: u64, value: f64| {
        [row.to_ne_bytes(), column.to_ne_bytes(), value.to_ne_bytes()].concat()
    };
    let coo = [record(0, 1, 1.5), record(2, 0, -2.0)].concat();
    // Four row pointers, and a column and a value.
    let csr = [0u64, 1, 1, 1, 1].map(u64::to_ne_bytes).concat();
    let csr = [csr, 2.5f64.to_ne_bytes().to_vec()].concat();
    for (name, layout, bytes) in [("coo", Layout::SparseCoo, coo), ("csr", Layout::SparseCsr, csr)]
    {
        for (order, endianness) in
            [("big", DataEndianness::Big), ("little", DataEndianness::Little)]
        {
            w.add_tensor(
                &format!("{name}_{order}"),
                vec![3, 2],
                DType::Float64,
                layout.clone(),
                Encoding::Raw,
                bytes.clone(),
                Some(endianness),
                Checksum::None,
                None,
            )
            .expect("it is added");
        }
    }
    w.finalize().expect("it is written");

    let mut w = create("custom_fields");
    let text = |s: &str| Value::Text(s.into());
    let pairs = [
        ("array", Value::Array(vec![Value::Integer(1), text("two"), Value::Array(vec![])])),
        ("bool", Value::Bool(true)),
        ("bytes", Value::Bytes(vec![0, 255])),
        ("float", Value::Float(0.1)),
        ("half", Value::Float(0.5)),
        ("infinity", Value::Float(f64::NEG_INFINITY)),
        ("integer", Value::Integer(-1)),
        ("integer_least", Value::Integer(i64::MIN.into())),
        ("integer_most", Value::Integer(u64::MAX.into())),
        ("map", Value::Map([(Value::Integer(1), text("one"))].into())),
        ("nan", Value::Float(f64::NAN)),
        ("null", Value::Null),
        ("text", text("\u{fc} \0")),
    ];
    let custom: BTreeMap<String, Value> = pairs.map(|(k, v)| (k.to_owned(), v)).into();
    let bytes = of(&DType::Int16, 4, 1);
    w.add_tensor(
        "w",
        vec![4],
        DType::Int16,
        Layout::Dense,
        Encoding::Zstd,
        bytes,
        None,
        Checksum::Crc32c,
        Some(custom),
    )
    .expect("it is added");
    w.finalize().expect("it is written");

    let mut w = create("edges");
    let mut add = |name: &str, shape: &[u64], encoding: Encoding, bytes: Vec<u8>| {
        w.add_tensor(
            name,
            shape.to_vec(),
            DType::Uint8,
            Layout::Dense,
            encoding,
            bytes,
            None,
            Checksum::Crc32c,
            None,
        )
        .expect("it is added");
    };
    add("scalar", &[], Encoding::Raw, vec![7]);
    add("nothing", &[0], Encoding::Raw, vec![]);
    add("nothing_compressed", &[3, 0], Encoding::Zstd, vec![]);
    for name in NAMES {
        add(name, &[name.len() as u64], Encoding::Raw, name.as_bytes().to_vec());
    }
    add("zeros", &[200_000], Encoding::Zstd, vec![0; 200_000]);
    add("noise", &[1000], Encoding::Zstd, noise(1000, 3));
    w.finalize().expect("it is written");
}
