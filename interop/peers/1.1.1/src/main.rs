//! The `ztensor` crate 1.1.1.

#[path = "../../listing.rs"]
mod listing;

use listing::{Listing, NAMES, elements, noise};
use std::path::Path;
use ztensor::writer::Compression;
use ztensor::{ChecksumAlgorithm as Checksum, DType, ZTensorReader, ZTensorWriter};

fn main() {
    listing::main(read, write);
}

fn read(file: &str, listing: &mut Listing) {
    let mut reader = ZTensorReader::open(file).expect("it opens");
    for (name, object) in reader.list_objects().clone() {
        for (role, component) in &object.components {
            let bytes = reader.read_component(component).expect("it reads");
            let dtype = component.dtype.as_str();
            listing.component(&name, &object.shape, &object.format, role, dtype, None, &bytes);
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

fn write(folder: &Path) {
    let create = |name: &str| {
        ZTensorWriter::create(folder.join(format!("crate-1.1.1-{name}.zt"))).expect("it is created")
    };

    for (name, compression, checksum) in [
        ("raw", Compression::Raw, Checksum::Sha256),
        ("zstd_1", Compression::Zstd(1), Checksum::Crc32c),
        ("zstd_22", Compression::Zstd(22), Checksum::None),
    ] {
        let mut w = create(name);
        for (i, dtype) in DTYPES.into_iter().enumerate() {
            let bytes = elements(6, dtype.byte_size(), dtype == DType::Bool, i as u64);
            let name = format!("t_{}", dtype.as_str());
            w.add_object_bytes(&name, vec![2, 3], dtype, compression, &bytes, checksum)
                .expect("it is added");
        }
        w.add_csr_object_bytes(
            "csr",
            vec![3, 4],
            DType::F32,
            &elements(3, 4, false, 20),
            &[0, 3, 1],
            &[0, 2, 2, 3],
            compression,
            checksum,
        )
        .expect("it is added");
        w.add_coo_object_bytes(
            "coo",
            vec![2, 2, 2],
            DType::I16,
            &elements(2, 2, false, 21),
            &[0, 1, 1, 0, 1, 1],
            compression,
            checksum,
        )
        .expect("it is added");
        w.set_attributes([("\u{fc}".to_owned(), "\u{5c64}".to_owned())].into());
        w.finalize().expect("it is written");
    }

    let mut w = create("edges");
    let mut add = |name: &str, shape: &[u64], compression: Compression, bytes: &[u8]| {
        w.add_object_bytes(name, shape.to_vec(), DType::U8, compression, bytes, Checksum::Crc32c)
            .expect("it is added");
    };
    add("scalar", &[], Compression::Raw, &[7]);
    add("nothing", &[0], Compression::Raw, &[]);
    add("nothing_compressed", &[3, 0], Compression::Zstd(3), &[]);
    for name in NAMES {
        add(name, &[name.len() as u64], Compression::Raw, name.as_bytes());
    }
    add("zeros", &[200_000], Compression::Zstd(3), &vec![0; 200_000]);
    add("noise", &[1000], Compression::Zstd(3), &noise(1000, 3));
    w.finalize().expect("it is written");
}
