// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("schema_evolution"),
    |data: &[u8]| holdall_fuzz::run("schema_evolution", data)
);
