//! Filters that clients keep in strings, held to recordings of the clients' own code.
//!
//! tests/fixtures/vectors/README.md says where the recordings come from.

mod bitmaps;

mod guava;
mod long;
mod positions;
mod properties;
mod vectors;
mod weaknesses;
