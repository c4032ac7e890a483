//! See `everbloom_fuzz::chunks`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::chunks::run(data));
