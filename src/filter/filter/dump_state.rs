//! What a filter knows about its dumps.

/// The number that the header and all chunks of a dump share. Each dump draws a random one.
pub type DumpId = u64;

/// A dump that a header has begun and that has not ended.
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

/// The dumps of one filter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dumps {
    /// The dump whose header created the filter, if any. From clients the filter accepts only chunks of this dump.
    pub(super) origin: Option<DumpId>,
    /// The chunk that completed the load of a filter with a table, if the filter was loaded.
    pub(super) last_chunk: Option<ChunkChecksum>,
    /// The last dump of the filter, if any.
    pub(super) last: Option<Dump>,
    /// Whether the filter has changed since the last dump began.
    pub(super) has_changed: bool,
}
