//! Most tests of this crate in one program, which builds faster than one program per file: `cargo test -p
//! holdall --test library views::` runs those of one file. Separate programs are those that measure memory or
//! time, start themselves, also run in other builds, or need slow dependencies.

mod aio;
mod append;
mod archives;
mod arrays;
mod arrow;
mod blobs;
mod build;
mod cache;
mod cannot_hold;
mod carton;
mod carton_author;
mod carton_interop;
mod carton_pack;
mod carton_page;
mod carton_strict;
mod carton_symlinks;
mod checked;
mod checkpoint;
mod checksums;
mod convert;
mod coverage;
mod deflate;
mod delta;
mod delta_in_place;
mod delta_open;
mod diff;
mod docs;
mod dtype;
mod edit;
mod edit_several;
mod evolution;
mod example_file;
mod faults;
mod fold;
mod folder;
mod forms;
mod gather;
mod gguf_big;
mod hdf5;
mod http;
mod interop;
mod kept;
mod layouts;
mod ledger;
mod locations;
mod matrix;
mod messages;
mod metatensor;
mod migrate;
mod mirrors;
mod nginx;
mod numpy;
mod onnx_graph;
mod onnx_weights;
mod own_memory;
mod plain;
mod planes;
mod promises;
mod pytorch;
mod quantized_described;
mod quantized_parts;
mod quantized_renamed;
mod quantized_weights;
mod query;
mod ranges;
mod recipes;
mod recipes_adapter;
mod recipes_checks;
mod recipes_diff;
mod recipes_options;
mod records;
mod requests;
mod round_trips;
mod rows;
mod salvage;
mod salvage_cut;
mod sample;
mod scan;
mod scan_models;
mod scan_uses;
mod select;
mod serve;
mod shards;
mod shrink;
mod smallest;
mod sources;
mod stats;
mod stores;
mod stream;
mod structs;
mod tensorflow;
mod update_layouts;
mod updates;
mod verify;
mod views;
mod write;
mod ztensor2;

// Shared modules.
#[path = "../../holdall-formats/tests/carton_files/mod.rs"]
mod carton_files;
mod corpus_files;
mod count;
mod described;
#[path = "../../holdall-formats/tests/hdf5_files/mod.rs"]
mod hdf5_files;
mod make;
#[path = "../../holdall-formats/tests/numpy_files/mod.rs"]
mod numpy_files;
#[path = "../../holdall-formats/tests/onnx_files/mod.rs"]
mod onnx_files;
#[path = "../../holdall-formats/tests/pytorch_files/mod.rs"]
mod pytorch_files;
mod records_files;
#[cfg(feature = "stores")]
#[path = "server/s3.rs"]
mod s3;
#[cfg(feature = "quic")]
mod served;
#[cfg(feature = "http")]
mod server;
#[path = "../../holdall-formats/tests/tensorflow_files/mod.rs"]
mod tensorflow_files;
#[path = "../../holdall-formats/tests/ztensor2_files/mod.rs"]
mod ztensor2_files;

#[test]
fn every_file_of_tests_is_run() {
    let (own, manifest) = (include_str!("library.rs"), include_str!("../Cargo.toml"));
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".rs") else { continue };
        let is_run = own.contains(&format!("mod {name};"))
            || manifest.contains(&format!("\nname = \"{name}\"\n"));
        assert!(is_run, "`mod {name};` is missing in library.rs");
    }
}
