//! everbloom's own encoding of its own filters: a header, and behind it what all kinds with a header of ours
//! have in common.

pub mod header;

/// Name of the data type, which clients' filters that were taken over have too.
pub const TYPE_NAME: &str = "everbloom";
/// Version under which the data type is registered, the only one there has been.
pub const ENCODING_VERSION: i32 = 1;
