//! The tests of this crate as one program, which takes less time to build than one each: `cargo test -p holdall-formats
//! --test formats gguf::` runs those of one file.

mod carton_rules;
mod documents;
mod faults;
mod foreign;
mod gguf;
mod gguf_quantise;
mod layout_golden;
mod metatensor;
mod metatensor_rules;
mod metatensor_vectors;
mod safetensors;
mod safetensors_rules;
mod types;
mod unchecked;
mod ztensor_encode;
mod ztensor_golden;
mod ztensor_quirks;
mod ztensor_rules;
mod ztensor_spellings;

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
    let (own, manifest) = (include_str!("formats.rs"), include_str!("../Cargo.toml"));
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".rs") else { continue };
        let is_run = own.contains(&format!("mod {name};"))
            || manifest.contains(&format!("\nname = \"{name}\"\n"));
        assert!(is_run, "`mod {name};` is missing in formats.rs");
    }
}
