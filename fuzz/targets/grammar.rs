//! See `everbloom_fuzz::grammar`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::grammar::run(data));
