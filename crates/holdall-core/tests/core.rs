//! The tests of this crate as one program, which builds faster than one program per file:
//! `cargo test -p holdall-core --test core cbor::` runs the tests of one file.

mod cast;
mod cbor;
mod codecs;
mod index_dense;
mod index_names;
mod json;
mod layout_dense;
mod layout_float;
mod layout_quantized;
mod layout_sparse;
mod layout_tiles;
mod limits;
mod npy;
mod read;
mod zip;
mod zip_write;
mod zstd;

// Shared modules.
mod zip_files;

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
