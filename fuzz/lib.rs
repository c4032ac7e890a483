//! The fuzz targets, and the parts that they share with the tests.

#[path = "src/lib.rs"]
mod fuzz;
#[path = "../tests/support"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support {
    pub mod make;
    pub mod server;
}

pub use fuzz::*;
