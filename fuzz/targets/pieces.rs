//! See `everbloom_fuzz::pieces`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::pieces::run(data));
