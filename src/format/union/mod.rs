//! Filters of several kinds that were united: a header under everbloom's data type, and behind it what all kinds with a
//! header of ours have in common.

pub mod header;
mod layer;
