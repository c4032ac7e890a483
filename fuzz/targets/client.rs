//! See `everbloom_fuzz::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::client::run(data));
