//! Most tests of the command, in one test program, which builds faster than one program per file: `cargo test -p
//! holdall-cli --test cli convert::` runs the tests of one file. Tests that must run alone or need slow dependencies
//! are programs of their own.

mod archives;
mod build;
mod cases;
mod convert;
mod coverage;
mod deltas;
mod diff;
mod docs;
mod edit;
mod exit_status;
mod extract;
mod few_threads;
mod inspect_json;
mod inspect_text;
mod kills;
mod layouts;
mod limits;
mod linked_packages;
mod links;
mod locations;
mod many_records;
#[cfg(feature = "stores")]
mod matrix;
mod metatensor;
mod migrate;
mod models;
mod network_kills;
mod owners;
mod packages;
mod planes;
mod quantized;
mod real_model;
mod recipes;
mod records;
mod runners;
mod salvage;
mod scan;
mod schema;
mod schema_infer;
mod serve;
mod serve_many;
mod stores;
mod systems;
mod text;
mod types;
mod verify;
mod view;

// Shared helpers.
mod command;
#[path = "../../holdall/tests/records_files/mod.rs"]
mod records_files;
#[cfg(feature = "stores")]
#[path = "../../holdall/tests/server/s3.rs"]
mod s3;
#[cfg(feature = "http")]
#[path = "../../holdall/tests/server/mod.rs"]
mod server;
#[cfg(unix)]
mod serving;

#[test]
fn every_file_of_tests_is_run() {
    let (own, manifest) = (include_str!("cli.rs"), include_str!("../Cargo.toml"));
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".rs") else { continue };
        let is_run = own.contains(&format!("mod {name};"))
            || manifest.contains(&format!("\nname = \"{name}\"\n"));
        assert!(is_run, "`mod {name};` is missing in cli.rs");
    }
}
