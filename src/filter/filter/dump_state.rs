//! What is known about the dumps of a filter.

/// The number that the header and all chunks of a dump share. Each dump draws a random one. Its highest bit shows whether the
/// filter could change during the dump.
pub type DumpId = u64;

/// The bit of the ids of dumps during which the filter cannot change: those in a rewritten append-only file.
const STILL: DumpId = 1 << 63;

/// Returns the id of a dump during which the filter cannot change, from a number.
#[must_use]
pub const fn still_dump_id(number: u64) -> DumpId {
    number | STILL
}

/// Returns the id of a dump during which the filter may change, from a random number.
pub(super) const fn changing_dump_id(random: u64) -> DumpId {
    random & !STILL
}

/// Returns whether the filter cannot have changed during a dump. A client can give this id to any chunks.
pub(super) const fn is_of_still_filter(id: DumpId) -> bool {
    id & STILL != 0
}

/// A dump that a header has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dump {
    /// Its id.
    pub id: DumpId,
    /// Its end, in positions. Parts that the filter got since the dump began are at this position
    /// or after it.
    pub end: u64,
    /// Whether the filter had a table when the dump began.
    pub has_table: bool,
}

/// The checksum of a chunk.
pub type ChunkChecksum = [u8; 16];

/// The dump from whose chunks a filter was loaded.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadOrigin {
    /// The dump whose header created the filter. From clients the filter accepts only chunks of this dump.
    pub(super) id: DumpId,
    /// The chunk that completed the load of a filter with a table.
    pub(super) last_chunk: Option<ChunkChecksum>,
}
