//! The tests of this crate as one program, which takes less time to build than one each: `cargo test -p holdall-core --test core
//! carton_compare::` runs those of one file.

mod carton_compare;
mod carton_rules;
mod carton_signature;
mod cast;
mod cbor;
mod documents;
mod faults;
mod foreign;
mod gguf;
mod gguf_quantise;
mod index_dense;
mod index_names;
mod json;
mod layout_dense;
mod layout_float;
mod layout_golden;
mod layout_quantized;
mod layout_sparse;
mod layout_tiles;
mod limits;
mod metatensor;
mod metatensor_rules;
mod metatensor_vectors;
mod npy;
mod read;
mod safetensors;
mod safetensors_rules;
mod unchecked;
mod zip;
mod zip_write;
mod zstd;
mod ztensor_encode;
mod ztensor_golden;
mod ztensor_quirks;
mod ztensor_rules;

// What they share.
mod carton_files;
mod gguf_files;
mod metatensor_files;
#[path = "gguf_files/reference.rs"]
mod reference;
mod safetensors_files;
mod ztensor_files;

#[test]
fn every_file_of_tests_is_run() {
    let (own, manifest) = (include_str!("core.rs"), include_str!("../Cargo.toml"));
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".rs") else { continue };
        let is_run = own.contains(&format!("mod {name};"))
            || manifest.contains(&format!("\nname = \"{name}\"\n"));
        assert!(is_run, "`mod {name};` is missing in core.rs");
    }
}
