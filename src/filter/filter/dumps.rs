//! Dumps in chunks: which header and which chunks belong together, and the position of each part in a dump. This state
//! is not saved: a filter that was loaded from a snapshot knows no dump.

use super::Filter;
use super::dump_state::Dumps;
use crate::table::POSITIONS;

pub use super::dump_state::{ChunkChecksum, Dump, DumpId};

impl Filter {
    /// Begins a dump of the current state. If nothing has changed since the last dump began, the last dump continues.
    /// Otherwise it ends, and a new dump begins with the id `fresh`, a random number. O(layers).
    pub fn begin_dump(&mut self, fresh: DumpId) {
        let (end, has_table) = (self.dump_end(), self.table().is_some());
        let dumps = self.dumps.get_or_insert_default();
        if dumps.last.is_none() || dumps.has_changed {
            dumps.last = Some(Dump { id: fresh, end, has_table });
            dumps.has_changed = false;
        }
    }

    /// Returns the last dump that began and has not ended.
    #[must_use]
    pub fn dump(&self) -> Option<Dump> {
        self.dumps.as_ref().and_then(|dumps| dumps.last)
    }

    /// Returns the dump whose header created the filter and whose chunks the filter accepts.
    #[must_use]
    pub fn origin(&self) -> Option<DumpId> {
        self.dumps.as_ref().and_then(|dumps| dumps.origin)
    }

    /// Sets the dump whose header created the filter.
    pub fn set_origin(&mut self, id: DumpId) {
        self.dumps = Some(Box::new(Dumps { origin: Some(id), ..Dumps::default() }));
    }

    /// Returns whether the chunk with this checksum has completed the load of the filter.
    #[must_use]
    pub fn is_last_chunk(&self, checksum: ChunkChecksum) -> bool {
        self.dumps.as_ref().is_some_and(|dumps| dumps.last_chunk == Some(checksum))
    }

    /// Records that the filter has changed since the last dump began.
    #[inline(always)]
    pub(super) fn note_change(&mut self) {
        if let Some(dumps) = &mut self.dumps {
            dumps.has_changed = true;
        }
    }

    /// Ends the last dump of the filter, and a load of chunks into it. Its parts are no longer those of the headers.
    pub(super) fn end_dumps(&mut self) {
        self.dumps = None;
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
    /// `offset` on. Returns false, and sets nothing, if some of them are outside the layer. O(bytes).
    #[must_use]
    pub fn add_bytes(&mut self, number: usize, offset: usize, bytes: &[u8]) -> bool {
        self.note_change();
        let layer = self.layers_mut().get_mut(number);
        layer.is_some_and(|layer| layer.bits_mut().add_bytes(offset, bytes))
    }
}
