//! The marks that tie the chunks of a dump to their header. They are in memory only: a filter that was loaded from a
//! snapshot has none.

/// The mark of one state of a filter, which a header describes. No two states have the same mark. Never 0.
pub type StateMark = u64;

/// The header that created a filter. The filter accepts from clients only chunks of this header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// No header, or a header from before a restart.
    #[default]
    NoHeader,
    /// A header with this mark.
    Marked(StateMark),
}

/// The last header of a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Its mark. Its chunks have the same mark.
    pub(super) mark: StateMark,
    /// The end of the dump. Later layers begin there or after it.
    pub(super) end: u64,
}

/// The marks of one filter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) origin: Origin,
    /// The last header, if any.
    pub(super) last: Option<Header>,
    /// Whether the filter has changed since the last header.
    pub(super) has_changed: bool,
}

impl Marks {
    /// Returns the marks of a filter that a header created.
    pub(super) const fn of_header(origin: Origin) -> Self {
        Self { origin, last: None, has_changed: false }
    }

    /// Sets the last header to one that describes the current state and whose dump ends at `end`. If nothing has
    /// changed since the last header, its mark stays; otherwise its mark is `fresh`, a number that was never used.
    pub(super) fn mark(&mut self, end: u64, fresh: StateMark) {
        if self.last.is_none() || self.has_changed {
            self.last = Some(Header { mark: fresh.max(1), end });
            self.has_changed = false;
        }
    }
}
