//! Snapshots and dumps as servers write them, read without one: filters are decoded, everything else is skipped.
//!
//! What a file says of lengths is never believed before the bytes are there, so a hostile file costs no more memory
//! than its own size (what LZF compressed, and filters that are mostly empty, a bounded multiple of it).

mod reader;
mod skip;
mod snapshot;
mod value;

pub(crate) use reader::Reader;
pub(crate) use snapshot::{Entry, read_snapshot};
pub(crate) use value::{MODULE_VALUE, Read, read_module};
