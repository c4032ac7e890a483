//! everbloom's own encoding of a filter.

pub mod header;
mod rdb;

pub use rdb::*;
