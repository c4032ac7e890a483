//! Ties the chunks of a dump to their header. Kept in memory only: a filter that was loaded from a snapshot has no marks.

/// Stands for one state of one filter, the state that a header describes; no two have the same. Never 0.
pub type StateMark = u64;

/// Which header made a filter, and so which chunks it takes from a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// None, or one from before a restart.
    #[default]
    NoHeader,
    /// A header with this mark.
    Marked(StateMark),
}

/// The last header of a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Its mark, for the chunks that follow it.
    pub(super) mark: StateMark,
    /// Where the dump ends: layers that the filter gains later begin there or behind it.
    pub(super) end: u64,
}

/// The marks of one filter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) origin: Origin,
    /// The last header; nothing when there was none.
    pub(super) last: Option<Header>,
    /// Whether the filter has changed since.
    pub(super) has_changed: bool,
}

impl Marks {
    /// Returns the marks of a filter that a header made.
    pub(super) const fn of_header(origin: Origin) -> Self {
        Self { origin, last: None, has_changed: false }
    }

    /// Takes note of a header that describes the filter as it is now, and whose dump ends at `end`. It has the mark of the header
    /// before where nothing has changed since, else `fresh`, any number that was not given before.
    pub(super) fn mark(&mut self, end: u64, fresh: StateMark) {
        if self.last.is_none() || self.has_changed {
            self.last = Some(Header { mark: fresh.max(1), end });
            self.has_changed = false;
        }
    }
}
