// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("decode_pytorch"),
    |data: &[u8]| holdall_fuzz::run("decode_pytorch", data)
);
