//! Which keys a command has open: a filter that two open keys led to could be changed through both.

use std::cell::Cell;

use super::args::Argv;

/// No key is open.
const CLOSED: usize = usize::MAX;

/// The places of the open keys among the arguments of the running command: two at most.
pub(super) struct Claims {
    first: Cell<usize>,
    second: Cell<usize>,
}

impl Claims {
    /// No key is open.
    pub(super) fn none() -> Self {
        Self { first: Cell::new(CLOSED), second: Cell::new(CLOSED) }
    }

    /// Says that the key which the argument at `position` names is open; refused where a key of that name
    /// is open already.
    #[inline(always)]
    pub(super) fn claim(&self, argv: Argv<'_>, position: usize) -> Option<Claim<'_>> {
        let is_alone = self.first.get() == CLOSED && self.second.get() == CLOSED;
        let place = if is_alone { &self.first } else { self.place_beside(argv, position)? };
        place.set(position);
        Some(Claim(place))
    }

    /// Says that a key is open where none is.
    pub(super) fn claim_only(&self) -> Option<Claim<'_>> {
        let is_alone = self.first.get() == CLOSED && self.second.get() == CLOSED;
        is_alone.then(|| {
            self.first.set(0);
            Claim(&self.first)
        })
    }

    /// A place beside the key that is open.
    #[cold]
    fn place_beside(&self, argv: Argv<'_>, position: usize) -> Option<&Cell<usize>> {
        let (place, other) = match (self.first.get(), self.second.get()) {
            (CLOSED, other) => (&self.first, other),
            (other, CLOSED) => (&self.second, other),
            _ => return None,
        };
        (argv.bytes(other) != argv.bytes(position)).then_some(place)
    }
}

/// Says that a key is open, as long as it lives.
pub(super) struct Claim<'k>(&'k Cell<usize>);

impl Drop for Claim<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.set(CLOSED);
    }
}
