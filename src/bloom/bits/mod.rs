//! The bit array of one layer: what it is, how probes look at it, and how bytes get into it.

mod array;
mod count;
mod load;
mod probe;
mod storage;
mod unite;

pub use array::Bits;
pub use count::HEAD_BYTES;
pub use load::{PAGE_BYTES, PAGE_WORDS, is_clear};
pub use probe::Reader;
