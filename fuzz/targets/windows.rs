//! See `everbloom_fuzz::windows`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::windows::run(data));
