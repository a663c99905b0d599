//! All tests of this crate in one program, which builds faster than one program each. `cargo test -p holdall-schema
//! --test schema access::` runs those of one file.

mod access;
mod chain;
mod check;
mod code;
mod compile;
mod evolve;
mod evolve_properties;
mod forms;
mod lenience;
mod numbers;
mod properties;
mod vectors;
mod vocabulary;

// Shared code.
mod generators;

#[test]
fn every_file_of_tests_is_run() {
    let (own, manifest) = (include_str!("schema.rs"), include_str!("../Cargo.toml"));
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".rs") else { continue };
        let is_run = own.contains(&format!("mod {name};"))
            || manifest.contains(&format!("\nname = \"{name}\"\n"));
        assert!(is_run, "`mod {name};` is missing in schema.rs");
    }
}
