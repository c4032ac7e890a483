//! See `everbloom_fuzz::table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::table::run(data));
