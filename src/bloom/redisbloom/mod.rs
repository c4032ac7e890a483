//! RedisBloom's filters: its hashes, positions, sizes and growth, bit for bit.
//!
//! A `Chain<RedisBloom>` that is made here holds the same bits as RedisBloom's after the same commands, and
//! one that is read from a RedisBloom server goes on as it would have there, whichever release wrote it.

pub mod family;
pub mod hash;
pub mod options;
pub mod parameters;
pub mod plan;
pub mod probing;
pub mod sizing;

pub use family::{
    COMMAND_CAPACITY_MAX_ITEMS, COMMAND_ERROR_RATE_MAX, RESERVED_GROWTH, RedisBloom, reported_size_bytes,
};
pub use hash::{HashPair, Hashing};
pub use options::Options;
pub use parameters::LayerParameters;
pub use probing::ModuloProbing;
