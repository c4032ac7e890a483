//! Ties the chunks of a dump to their header. Kept in memory only: a filter that was loaded from a snapshot has no marks.

/// Stands for one state of one filter, the state that a header describes; no two have the same. Never 0.
pub type StateMark = u64;

/// Which header made a filter, and so which chunks it takes from a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// None, or one from before a restart.
    #[default]
    NoHeader,
    /// A header of release 0.1, whose pieces have no mark.
    Unmarked,
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
    /// The number that stands for the state of the filter then; `None` where the filter cannot be in that state again.
    state: Option<u64>,
}

/// The marks of one filter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) origin: Origin,
    /// The last header; `None` when there was none.
    pub(super) last: Option<Header>,
}

impl Marks {
    /// Returns the marks of a filter that a header made. Its mark stands for the filter in `state`, in which it is when
    /// all chunks are in, and whose dump ends at `end`; `None` where the header does not say which state that is.
    pub(super) fn of_header(origin: Origin, state: Option<u64>, end: u64) -> Self {
        let last = match origin {
            Origin::Marked(mark) => state.map(|state| Header { mark, end, state: Some(state) }),
            Origin::NoHeader | Origin::Unmarked => None,
        };
        Self { origin, last }
    }

    /// Takes note of a header that describes the filter as it is now, in `state`. It has the mark of the header before where
    /// nothing has changed since, else `fresh`, any number that was not given before.
    pub(super) fn mark(&mut self, state: u64, end: u64, fresh: u64) {
        if self.last.is_none_or(|header| header.state != Some(state)) {
            self.last = Some(Header { mark: fresh.max(1), end, state: Some(state) });
        }
    }

    /// Says that the filter has lost layers: the numbers of its states begin anew. Dumps and loads go on.
    pub(super) fn lose_layers(&mut self) {
        if let Some(header) = &mut self.last {
            header.state = None;
        }
    }
}
