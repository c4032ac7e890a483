//! Which keys a command has opened: a filter that two open keys led to could be changed through both.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use super::args::Argv;

/// No key was opened.
const NONE: usize = usize::MAX;

/// The keys that the running command has opened. None of them is opened twice.
pub(super) struct Claims<'a> {
    /// The place of the first among the arguments: of the only one, in most commands.
    first: Cell<usize>,
    /// The names of the others; nothing where there are none.
    others: RefCell<ManuallyDrop<Option<Box<Names<'a>>>>>,
}

#[derive(Default)]
struct Names<'a>(BTreeSet<&'a [u8]>);

impl<'a> Claims<'a> {
    /// Returns those of a command that has opened none.
    pub(super) const fn none() -> Self {
        Self { first: Cell::new(NONE), others: RefCell::new(ManuallyDrop::new(None)) }
    }

    /// Notes that the key which the argument at `position` names is opened. Returns nothing where a key of that name was.
    #[inline(always)]
    pub(super) fn claim(&self, argv: Argv<'a>, position: usize) -> Option<Claim<'_>> {
        if self.first.get() == NONE {
            self.first.set(position);
            return Some(Claim(PhantomData));
        }
        self.claim_beside(argv, position)
    }

    /// Notes that a key is opened where none was.
    pub(super) fn claim_only(&self) -> Option<Claim<'_>> {
        let is_alone = self.first.replace(0) == NONE;
        is_alone.then_some(Claim(PhantomData))
    }

    /// Notes that a key is opened after others.
    #[cold]
    fn claim_beside(&self, argv: Argv<'a>, position: usize) -> Option<Claim<'_>> {
        let name = argv.bytes(position)?;
        let is_new = argv.bytes(self.first.get()) != Some(name)
            && self.others.borrow_mut().get_or_insert_default().0.insert(name);
        is_new.then_some(Claim(PhantomData))
    }

    #[cold]
    fn free_others(&mut self) {
        drop(self.others.get_mut().take());
    }
}

/// By hand, for the compiler would call a function to find that there is nothing to free.
impl Drop for Claims<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.others.get_mut().is_some() {
            self.free_others();
        }
    }
}

/// Says that no other key of the same name is opened.
pub(super) struct Claim<'k>(PhantomData<&'k Cell<usize>>);
