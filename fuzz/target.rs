//! The program of every target. It runs the target whose name is that of the program.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everbloom_fuzz::run(env!("CARGO_BIN_NAME"), data));
