//! The `ztensor` crate 1.0.0.

#[path = "../../listing.rs"]
mod listing;

use listing::{Listing, NAMES, elements, noise};
use std::path::Path;
use ztensor::{ChecksumAlgorithm as Checksum, DType, Encoding, ZTensorReader, ZTensorWriter};

fn main() {
    listing::main(read, write);
}

fn read(file: &str, listing: &mut Listing) {
    let mut reader = ZTensorReader::open(file).expect("it opens");
    for (name, tensor) in reader.list_tensors().clone() {
        for (role, component) in &tensor.components {
            let bytes = reader.read_component(component).expect("it reads");
            let is_index = matches!(role.as_str(), "indices" | "indptr" | "coords");
            let dtype = if is_index { DType::Uint64 } else { tensor.dtype };
            let dtype = dtype.to_string_key();
            listing.component(&name, &tensor.shape, &tensor.format, role, &dtype, None, &bytes);
        }
        if tensor.format == "dense" {
            // Through the way that people use, too.
            reader.read_tensor(&name).expect("it reads as a dense tensor");
        }
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

fn write(folder: &Path) {
    let create = |name: &str| {
        ZTensorWriter::create(folder.join(format!("crate-1.0.0-{name}.zt"))).expect("it is created")
    };

    for (name, encoding, checksum) in
        [("raw", Encoding::Raw, Checksum::None), ("zstd", Encoding::Zstd, Checksum::Crc32c)]
    {
        let mut w = create(name);
        for (i, dtype) in DTYPES.into_iter().enumerate() {
            let width = dtype.byte_size().expect("every dtype has a width");
            let bytes = elements(6, width, dtype == DType::Bool, i as u64);
            let name = format!("t_{}", dtype.to_string_key());
            w.add_tensor(&name, vec![2, 3], dtype, encoding, bytes, checksum).expect("it is added");
        }
        w.add_csr_tensor(
            "csr",
            vec![3, 4],
            DType::Float32,
            elements(3, 4, false, 20),
            vec![0, 3, 1],
            vec![0, 2, 2, 3],
            encoding,
            checksum,
        )
        .expect("it is added");
        w.add_coo_tensor(
            "coo",
            vec![2, 2, 2],
            DType::Int16,
            elements(2, 2, false, 21),
            vec![0, 1, 1, 0, 1, 1],
            encoding,
            checksum,
        )
        .expect("it is added");
        w.finalize().expect("it is written");
    }

    let mut w = create("edges");
    let mut add = |name: &str, shape: &[u64], encoding: Encoding, bytes: Vec<u8>| {
        w.add_tensor(name, shape.to_vec(), DType::Uint8, encoding, bytes, Checksum::Crc32c)
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
