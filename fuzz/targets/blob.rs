//! See `everbloom_fuzz::blob`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::blob::run(data));
