//! By what the pieces of a dump are known to belong together. Kept in memory only: a filter that was loaded
//! from a snapshot has none.

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

/// The marks of one filter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) origin: Origin,
    /// The mark of the last header, and the number that tells what state the filter was in then.
    state: Option<(StateMark, u64)>,
}

impl Marks {
    /// Those of a filter that a header made. Its mark stands for the filter in `state`, in which it is when
    /// all chunks are in; none where the header does not tell.
    pub(super) fn of_header(origin: Origin, state: Option<u64>) -> Self {
        let state = match origin {
            Origin::Marked(mark) => state.map(|state| (mark, state)),
            Origin::NoHeader | Origin::Unmarked => None,
        };
        Self { origin, state }
    }

    /// The mark for a header that describes the filter as it is now: the last one where nothing has changed
    /// since, else `fresh`, any number that was not given before.
    pub(super) fn mark(&mut self, state: u64, fresh: u64) -> StateMark {
        match self.state {
            Some((mark, marked)) if marked == state => mark,
            _ => {
                let mark = fresh.max(1);
                self.state = Some((mark, state));
                mark
            }
        }
    }

    /// The mark of the last header, for the chunks that follow it; 0 when there was none.
    pub(super) fn last(&self) -> u64 {
        self.state.map_or(0, |(mark, _)| mark)
    }
}
