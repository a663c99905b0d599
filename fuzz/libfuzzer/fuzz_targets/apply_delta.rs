// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("apply_delta"),
    |data: &[u8]| holdall_fuzz::run("apply_delta", data)
);
