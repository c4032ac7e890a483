//! Filters that clients keep in strings, compared with recordings of the clients' own code.
//!
//! tests/fixtures/README.md lists the origins of the recordings.

mod bitmaps;
mod guava;
mod positions;
mod vectors;
mod weaknesses;
