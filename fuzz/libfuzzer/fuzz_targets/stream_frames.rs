// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("stream_frames"),
    |data: &[u8]| holdall_fuzz::run("stream_frames", data)
);
