//! Dumps in chunks: which header and chunks belong together. This is in memory only: a filter that was loaded from a
//! snapshot knows no dump.

/// The number that the header and all chunks of a dump share. Each dump draws a random one.
pub type DumpId = u64;

/// A dump that a header has begun and that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dump {
    /// Its id.
    pub id: DumpId,
    /// Its end, in bytes of all layers. Later layers begin there or after it.
    pub end: u64,
}

/// The dumps of one filter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dumps {
    /// The dump whose header created the filter, if any. From clients the filter accepts only chunks of this dump.
    pub(super) origin: Option<DumpId>,
    /// The last dump of the filter, if any.
    pub(super) last: Option<Dump>,
    /// Whether the filter has changed since the last dump began.
    pub(super) has_changed: bool,
}

impl Dumps {
    /// Returns the dumps of a filter that a header created.
    pub(super) const fn of_header(id: DumpId) -> Self {
        Self { origin: Some(id), last: None, has_changed: false }
    }

    /// Begins a dump that ends at `end`. If nothing has changed since the last dump began, that one continues.
    /// Otherwise it has ended, and the new one has the id `fresh`, a random number.
    pub(super) const fn begin(&mut self, end: u64, fresh: DumpId) {
        if self.last.is_none() || self.has_changed {
            self.last = Some(Dump { id: fresh, end });
            self.has_changed = false;
        }
    }
}
