//! What is known about the dumps of a filter.

/// The number that the header and all chunks of a dump share. Each dump draws a random one.
pub type DumpId = u64;

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
