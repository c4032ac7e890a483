//! The fuzz targets, with what they share with the tests.

#[path = "src/lib.rs"]
mod fuzz;
#[path = "../tests/support/mod.rs"]
pub mod support;

pub use fuzz::*;
