//! The fuzz targets, with what they share with the tests.

#[path = "src/lib.rs"]
mod fuzz;
#[path = "../tests/support"]
mod support {
    pub mod server;
}

pub use fuzz::*;
