//! The outcomes of adding the items of a command. An outcome takes one byte, because a command may have millions of
//! items.

use std::mem::discriminant;

use smallvec::SmallVec;

use super::effects::{Effects, count_of};
use super::error::CommandError;
use super::keyspace::{Host, Protocol, Reply};
use everbloom_filter::{AddError, AddOutcomes, ItemSet, ReserveError};

/// The code of an item that was new.
const NEW: u8 = b'1';
/// The code of an item that was, or seemed to be, in the filter.
const PRESENT: u8 = b'0';
/// The code of an item that was, or seemed to be, in the filter, and was counted or refreshed.
const AGAIN: u8 = b'+';
/// The code of an item that was refused with the first of `ItemOutcomes::errors`. An item that was refused with error
/// `n`, from 0, has the code `REFUSED + n`.
const REFUSED: u8 = b'A';

/// The outcomes of items, in order. There are fewer outcomes than items if a full filter ended the command.
#[derive(Debug, Default)]
pub(super) struct ItemOutcomes {
    codes: SmallVec<[u8; 128]>,
    pub(super) items_added: u64,
    pub(super) items_refused: u32,
    /// The errors with which items were refused. All errors of one kind are equal in a command, because a filter has
    /// one encoding and the limit is asked once.
    errors: Vec<AddError>,
}

impl ItemOutcomes {
    /// Returns an empty list with memory for the outcomes of `items` items.
    pub(super) fn with_capacity(items: usize) -> Result<Self, CommandError> {
        let mut outcomes = Self::default();
        outcomes.codes.try_reserve_exact(items).map_err(|_| CommandError::OutOfMemory)?;
        Ok(outcomes)
    }

    /// Appends the outcomes of consecutive items.
    #[inline(always)]
    pub(super) fn extend(&mut self, run: AddOutcomes) {
        let AddOutcomes { start, end, new, again, refused, error } = run;
        self.items_added += u64::from((new | again).count_ones());
        if again | refused == 0 {
            self.codes.extend((start..end).map(|index| PRESENT | u8::from(new >> index & 1 == 1)));
            return;
        }
        self.items_refused = self.items_refused.saturating_add(refused.count_ones());
        let code_of_refused =
            if refused == 0 { REFUSED } else { self.code_of(error.unwrap_or(AddError::Full)) };
        self.codes.extend((start..end).map(|index| {
            let is_in = |set: ItemSet| set >> index & 1 == 1;
            if is_in(new) {
                NEW
            } else if is_in(again) {
                AGAIN
            } else if is_in(refused) {
                code_of_refused
            } else {
                PRESENT
            }
        }));
    }

    /// Appends the outcome of one item: whether it was added.
    pub(super) fn push(&mut self, outcome: Result<bool, AddError>) {
        let code = match outcome {
            Ok(true) => {
                self.items_added = self.items_added.saturating_add(1);
                NEW
            }
            Ok(false) => PRESENT,
            Err(error) => {
                self.items_refused = self.items_refused.saturating_add(1);
                self.code_of(error)
            }
        };
        self.codes.push(code);
    }

    /// Returns the code of an error. Adds the error to the list if no error of its kind is there.
    fn code_of(&mut self, error: AddError) -> u8 {
        let mut known = self.errors.iter();
        let place =
            known.position(|known| discriminant(known) == discriminant(&error)).unwrap_or_else(|| {
                self.errors.push(error);
                self.errors.len().saturating_sub(1)
            });
        REFUSED.saturating_add(u8::try_from(place).unwrap_or(u8::MAX))
    }

    /// Checks that no item was refused for lack of memory in a command that must succeed.
    pub(super) fn check(&self, host: &dyn Host) -> Result<(), CommandError> {
        self.errors.iter().try_for_each(|error| check_loss(*error, host))
    }

    /// Replies an array of the outcomes.
    pub(super) fn write(&self, reply: &mut impl Reply) {
        reply.array(self.codes.len());
        self.write_each(reply);
    }

    /// Replies each outcome: 1, 0 or an error. The text of each error is made once, because a command may have millions
    /// of refused items.
    pub(super) fn write_each(&self, reply: &mut impl Reply) {
        let texts: Vec<_> = self.errors.iter().map(|error| CommandError::Add(*error).to_string()).collect();
        for code in &self.codes {
            match texts.get(usize::from(code.wrapping_sub(REFUSED))) {
                Some(text) => reply.error(text),
                None => reply.boolean(*code == NEW),
            }
        }
    }

    /// Replies an array of the outcomes as CF.INSERT does: whether each item was added, with -1 for a refused item in RESP2.
    /// If only absent items were added, replies integers in both protocols, as CF.INSERTNX does.
    pub(super) fn write_occurrences(&self, only_absent: bool, reply: &mut impl Reply) {
        let has_integers = only_absent || reply.protocol() == Protocol::Resp2;
        reply.array(self.codes.len());
        for code in &self.codes {
            match *code {
                PRESENT | NEW | AGAIN if only_absent => reply.integer((*code != PRESENT).into()),
                PRESENT | NEW | AGAIN => reply.boolean(*code != PRESENT),
                _ if has_integers => reply.signed(-1),
                _ => reply.boolean(false),
            }
        }
    }

    /// Returns the outcome of a command with one item: whether it was added.
    pub(super) fn only(&self) -> Result<bool, AddError> {
        match self.errors.first() {
            Some(error) => Err(*error),
            None => Ok(self.items_added > 0),
        }
    }

    /// Returns a character for each outcome: `1` for a new item, `0` for a present one, or `refused`.
    pub(super) fn into_characters(mut self, refused: u8) -> SmallVec<[u8; 128]> {
        for code in &mut self.codes {
            *code = match *code {
                NEW => NEW,
                PRESENT | AGAIN => PRESENT,
                _ => refused,
            };
        }
        self.codes
    }

    pub(super) fn added<'a>(&self, items: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
        items.zip(&self.codes).filter(|(_, code)| matches!(**code, NEW | AGAIN)).map(|(item, _)| item)
    }

    /// Returns the effects of a command with `items` items. Items after the one that ended the command count as
    /// refused.
    pub(super) fn effects<'a>(&self, items: usize) -> Effects<'a> {
        let replied = count_of(self.codes.len());
        let added_or_refused = count_of(usize::try_from(self.items_added).unwrap_or(usize::MAX))
            .saturating_add(self.items_refused);
        let not_replied = count_of(items).saturating_sub(replied);
        let has_no_room = |error: &AddError| matches!(error, AddError::Full | AddError::CannotGrow(_));
        Effects {
            items_added: self.items_added,
            items_known: replied.saturating_sub(added_or_refused),
            items_refused: self.items_refused.saturating_add(not_replied),
            refused: self.errors.iter().copied().find(has_no_room),
            ..Effects::default()
        }
    }
}

/// Checks that the refusal of an item with `error` does not lose an item in a command that must succeed.
pub(super) fn check_loss(error: AddError, host: &dyn Host) -> Result<(), CommandError> {
    if loses_item(error) && host.must_succeed() { Err(CommandError::Add(error)) } else { Ok(()) }
}

/// Returns whether an item was refused for lack of memory. A primary with more memory has added it.
pub(super) const fn loses_item(error: AddError) -> bool {
    matches!(error, AddError::CannotGrow(ReserveError::OutOfMemory | ReserveError::TooLarge { .. }))
}
