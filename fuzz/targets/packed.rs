//! See `everbloom_fuzz::packed`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::packed::run(data));
