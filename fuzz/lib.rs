//! The fuzz targets, and the code that they share with the tests.

#[path = "src/mod.rs"]
mod fuzz;
#[path = "../tests/support/mod.rs"]
mod support;

pub use fuzz::run;

/// The directory of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
