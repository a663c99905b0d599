// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("views_quantized"),
    |data: &[u8]| holdall_fuzz::run("views_quantized", data)
);
