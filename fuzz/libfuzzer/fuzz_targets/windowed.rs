// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("windowed"),
    |data: &[u8]| holdall_fuzz::run("windowed", data)
);
