// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("decode_delta"),
    |data: &[u8]| holdall_fuzz::run("decode_delta", data)
);
