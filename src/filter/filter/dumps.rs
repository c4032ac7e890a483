//! Dumps in chunks: which header and which chunks belong together, and the position of each part in a dump. This state
//! is not saved: a filter that was loaded from a snapshot knows no dump.

use super::Filter;
use super::dump_state::{LoadOrigin, changing_dump_id, is_of_still_filter};
use crate::table::POSITIONS;

pub use super::dump_state::{ChunkChecksum, Dump, DumpId, still_dump_id};

/// What reading commands remember about a filter. It is beside the filter, since they must not change the filter itself,
/// and it is not saved.
#[derive(Debug, Default)]
pub struct Remembered {
    /// The last dump, if any.
    last: Option<Dump>,
    /// Whether the filter has changed since the last dump began.
    has_changed: bool,
}

impl Remembered {
    /// Begins a dump of the current state of the filter. If nothing has changed since the last dump began, the last dump
    /// continues. Otherwise it ends, and a new dump begins with the id `fresh`, a random number. O(layers).
    pub fn begin_dump(&mut self, filter: &Filter, fresh: DumpId) {
        if self.last.is_none() || self.has_changed {
            *self = Self { last: Some(filter.dump_as(changing_dump_id(fresh))), has_changed: false };
        }
    }

    /// Returns the last dump that began and has not ended.
    #[must_use]
    pub const fn dump(&self) -> Option<Dump> {
        self.last
    }

    /// Records that the filter has changed.
    pub const fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Records that other filters were merged into the filter, whose [end](Filter::dump_end) was `end` before. If parts have
    /// moved or have come, the last dump ends. O(layers).
    pub fn note_merge(&mut self, filter: &Filter, end: u64) {
        self.has_changed = true;
        self.last = self.last.filter(|_| filter.dump_end() == end);
    }
}

impl Filter {
    /// Returns a dump of the current state with an id, a random number. O(layers).
    #[must_use]
    pub fn dump_as(&self, id: DumpId) -> Dump {
        Dump { id, end: self.dump_end(), has_table: self.table().is_some() }
    }

    /// Returns the dump whose header created the filter and whose chunks the filter accepts.
    #[must_use]
    pub fn origin(&self) -> Option<DumpId> {
        self.origin.as_ref().map(|origin| origin.id)
    }

    /// Sets the dump whose header created the filter.
    pub fn set_origin(&mut self, id: DumpId) {
        self.origin = Some(Box::new(LoadOrigin { id, last_chunk: None }));
    }

    /// Returns whether the chunk with this checksum has completed the load of the filter.
    #[must_use]
    pub fn is_last_chunk(&self, checksum: ChunkChecksum) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.last_chunk == Some(checksum))
    }

    /// Ends a load of chunks into the filter. Its parts are no longer those of the header.
    pub(super) fn end_load(&mut self) {
        self.origin = None;
    }

    /// Returns the bytes of all layers, which is where the positions of the table begin in a dump. O(layers).
    #[must_use]
    pub fn layers_end(&self) -> u64 {
        self.layers().iter().fold(0, |end, layer| end.saturating_add(layer.bits().size_bytes()))
    }

    /// Returns the end of a dump: the bytes of all layers, and [`POSITIONS`] of the table. O(layers).
    #[must_use]
    pub fn dump_end(&self) -> u64 {
        self.layers_end().saturating_add(if self.table().is_some() { POSITIONS } else { 0 })
    }

    /// Sets the bits of layer `number`, 0 being the oldest, that are set in `bytes`: the bytes of the layer from
    /// `offset` on. Counts the items that the header of the dump lacks, as far as the bits show them. Returns whether one of
    /// the bits was clear; `None`, and sets nothing, if some of them are outside the layer. O(bytes).
    #[must_use]
    pub fn add_bytes(&mut self, number: usize, offset: usize, bytes: &[u8]) -> Option<bool> {
        let is_still = self.origin().is_some_and(is_of_still_filter);
        self.add_dumped_bytes(number, offset, bytes, is_still)
    }

    /// Does [`add_bytes`](Self::add_bytes). If the dumped filter `is_still`, its header counts all items.
    pub(super) fn add_dumped_bytes(
        &mut self,
        number: usize,
        offset: usize,
        bytes: &[u8],
        is_still: bool,
    ) -> Option<bool> {
        let layer = self.layers_mut().get_mut(number)?;
        let before = layer.bits().set_bits();
        if !layer.bits_mut().add_bytes(offset, bytes) {
            return None;
        }
        let has_changed = layer.bits().set_bits() != before;
        if has_changed && !is_still {
            layer.count_loaded();
        }
        Some(has_changed)
    }
}
