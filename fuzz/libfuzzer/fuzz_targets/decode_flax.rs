#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| holdall_fuzz::decode_flax::run(data));
