// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("tensorflow_with_data"),
    |data: &[u8]| holdall_fuzz::run("tensorflow_with_data", data)
);
