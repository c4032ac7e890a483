//! Which keys a command has opened.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::args::Argv;

/// The value of [`Claims::first`] as long as no key was opened.
const NONE: usize = usize::MAX;

/// The keys that the running command has opened, and whether it may have changed one. No key is opened twice, because
/// its filter could then be changed through two keys.
pub(super) struct Claims<'a> {
    /// The position of the first key among the arguments. Most commands have one key.
    first: Cell<usize>,
    /// The names of the other keys, if any.
    #[expect(clippy::box_collection, reason = "a null pointer is dropped without a call")]
    others: RefCell<Option<Box<BTreeSet<&'a [u8]>>>>,
    /// Whether a filter was open for writing, or was published.
    may_have_changed: Cell<bool>,
}

impl<'a> Claims<'a> {
    /// Returns the claims of a command that has opened no key.
    pub(super) const fn none() -> Self {
        Self { first: Cell::new(NONE), others: RefCell::new(None), may_have_changed: Cell::new(false) }
    }

    /// Returns whether the command may have changed a key.
    pub(super) const fn may_have_changed(&self) -> bool {
        self.may_have_changed.get()
    }

    /// Claims the key that the argument at `position` names, before it is opened. Returns `None` if a key with that name
    /// is claimed already.
    #[inline(always)]
    pub(super) fn claim(&self, argv: Argv<'a>, position: usize) -> Option<&Cell<bool>> {
        if self.first.get() == NONE {
            self.first.set(position);
            return Some(&self.may_have_changed);
        }
        self.claim_beside(argv, position)
    }

    /// Claims a key after the first one.
    #[cold]
    fn claim_beside(&self, argv: Argv<'a>, position: usize) -> Option<&Cell<bool>> {
        let name = argv.bytes(position)?;
        let is_new = argv.bytes(self.first.get()) != Some(name)
            && self.others.borrow_mut().get_or_insert_default().insert(name);
        is_new.then_some(&self.may_have_changed)
    }
}
