//! See `everbloom_fuzz::commands`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::commands::run(data));
