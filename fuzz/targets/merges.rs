//! See `everbloom_fuzz::merges`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::merges::run(data));
