#![no_main]

libfuzzer_sys::fuzz_target!(
    // Panics of the decoders are caught, so they must not end the process before.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| holdall_fuzz::columns::run(data)
);
