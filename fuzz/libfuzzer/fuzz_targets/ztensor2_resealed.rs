// Written by `cargo xtask gen`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: holdall_fuzz::prepare("ztensor2_resealed"),
    |data: &[u8]| holdall_fuzz::run("ztensor2_resealed", data)
);
