//! Dumps in chunks: which header and which chunks belong together, and the position of each part in a dump. This state
//! is not saved: a filter that was loaded from a snapshot knows no dump.

use super::Filter;
use super::dump_state::Dumps;
use crate::bloom::growth_budget::GrowthBudget;
use crate::bloom::outcome::ByteLimit;
use crate::bloom::table::{DumpedSegment, LoadError, POSITIONS, Table};

pub use super::dump_state::{Dump, DumpId};

impl Filter {
    /// Begins a dump of the current state. If nothing has changed since the last dump began, the last dump continues.
    /// Otherwise it ends, and a new dump begins with the id `fresh`, a random number. O(layers).
    pub fn begin_dump(&mut self, fresh: DumpId) {
        let end = self.dump_end();
        let dumps = self.dumps.get_or_insert_default();
        if dumps.last.is_none() || dumps.has_changed {
            dumps.last = Some(Dump { id: fresh, end });
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

    /// Begins the load of dump `id`, whose header created the filter. The dumped table, if any, had `used_slots` slots
    /// in use. If the dumped table was being loaded itself, so is this one, and its load is the same.
    pub fn begin_loading(&mut self, id: DumpId, used_slots: u64) {
        self.dumps = Some(Box::new(Dumps { origin: Some(id), ..Dumps::default() }));
        if let Some(table) = self.table_mut().filter(|table| used_slots > 0 && !table.is_loading()) {
            table.begin_loading(used_slots);
        }
    }

    /// Returns whether the filter must be [admitted](Self::admit) if it is from a client. O(1).
    #[must_use]
    pub fn needs_admission(&self, now_ms: u64) -> bool {
        self.is_ahead_of(now_ms) || self.table().is_some_and(Table::is_sparse)
    }

    /// Checks that a client may bring the filter at the time `now_ms`, in milliseconds of UNIX time: its items are not
    /// too far [ahead](Self::is_ahead_of), and its table is not far too large for them. A table that is gets smaller.
    /// O(slots) then.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn admit(&mut self, now_ms: u64) -> Result<(), LoadError> {
        if self.is_ahead_of(now_ms) {
            return Err(LoadError::Ahead);
        }
        let newest = self.newest_generation();
        let Some(table) = self.table_mut() else { return Ok(()) };
        // A table that is still being loaded gets smaller before items are added to it.
        let is_admitted = table.is_loading() || table.condense(newest)?;
        if is_admitted { Ok(()) } else { Err(LoadError::Invalid("segments")) }
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

    /// Adds the entries of segments of another table with the same parameters: see [`Table::add_segments`]. An entry may
    /// be at most a window newer than `now_ms`, the time of the caller in milliseconds of UNIX time. With the last segments
    /// of the dump, the load ends.
    ///
    /// # Errors
    /// [`LoadError`]. Nothing has changed.
    pub fn add_segments(
        &mut self,
        segments: Vec<DumpedSegment>,
        are_last: bool,
        now_ms: u64,
        limit: &dyn ByteLimit,
    ) -> Result<(), LoadError> {
        let room = GrowthBudget::new(limit);
        room.set_other_bytes(self.bytes_besides_table());
        let latest = self.latest_generation(now_ms);
        let table = self.table_mut().ok_or(LoadError::Invalid("table"))?;
        if are_last {
            table.add_last_segments(segments, latest, &room)?;
        } else {
            table.add_segments(segments, latest, &room)?;
        }
        self.note_change();
        Ok(())
    }
}
