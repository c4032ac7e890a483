//! The outcomes of adding the items of a command. An outcome is one byte, because a command may have millions of
//! items.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::effects::{Effects, count_of};
use super::error::CommandError;
use super::keyspace::Host;
use super::reply::Reply;
use crate::bloom::hash::scheme::ItemEncoding;
use crate::bloom::{AddError, AddOutcomes, Added, ItemSet, ReserveError};

/// The item was new.
pub(super) const NEW: u8 = b'1';
/// The item was, or seemed to be, in the filter.
pub(super) const PRESENT: u8 = b'0';
/// The item was, or seemed to be, in the filter, and was counted or refreshed.
const AGAIN: u8 = b'+';
/// The item was refused: the filter has no room for it, or its encoding cannot express it.
const NO_ROOM: u8 = b'f';
const NOT_ENCODABLE: u8 = b'e';
/// The item was refused: it was added as often as can be counted.
const TOO_OFTEN: u8 = b'o';

/// The outcomes of items, in order. There are fewer outcomes than items if a full filter ended the command.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    codes: SmallVec<[u8; 128]>,
    pub(super) items_added: u64,
    pub(super) items_refused: u32,
    has_again: bool,
    /// The encoding that refused an item. A filter has one encoding.
    encoding: Option<ItemEncoding>,
    /// Why the filter has no room. It is the same for all items of a command.
    no_room: Option<AddError>,
}

impl Outcomes {
    /// Returns an empty list with memory for the outcomes of `items` items.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`].
    pub(super) fn with_capacity(items: usize) -> Result<Self, CommandError> {
        let mut outcomes = Self::default();
        outcomes.codes.try_reserve_exact(items).map_err(|_| CommandError::OutOfMemory)?;
        Ok(outcomes)
    }

    /// Appends the outcomes of a run.
    #[inline(always)]
    pub(super) fn extend(&mut self, run: AddOutcomes) {
        self.items_added += run.items_added();
        let AddOutcomes { items, new, again, refused, error } = run;
        if again | refused == 0 {
            self.codes.extend((0..items).map(|index| PRESENT | u8::from(new >> index & 1 == 1)));
            return;
        }
        let code_of_refused = self.refuse(refused, error);
        self.has_again |= again != 0;
        self.codes.extend((0..items).map(|index| {
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

    /// Notes why items were refused. Returns the code for them.
    fn refuse(&mut self, refused: ItemSet, error: Option<AddError>) -> u8 {
        self.items_refused = self.items_refused.saturating_add(refused.count_ones());
        match error {
            Some(AddError::NotEncodable(encoding)) => {
                self.encoding = Some(encoding);
                NOT_ENCODABLE
            }
            Some(AddError::TooOften) => TOO_OFTEN,
            error => {
                self.no_room = self.no_room.or(error);
                NO_ROOM
            }
        }
    }

    /// Checks that no item which must be added was refused because of out of memory.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn check(&self, host: &dyn Host) -> Result<(), CommandError> {
        self.no_room.map_or(Ok(()), |error| check_loss(error, host))
    }

    /// Returns the outcome of the first item.
    pub(super) fn first(&self) -> Result<Added, AddError> {
        let refused = self.no_room.or(self.encoding.map(AddError::NotEncodable)).unwrap_or(AddError::Full);
        match self.codes.first() {
            Some(&NEW) => Ok(Added::New),
            Some(&AGAIN) => Ok(Added::Again),
            Some(&PRESENT) => Ok(Added::Present),
            Some(&TOO_OFTEN) => Err(AddError::TooOften),
            _ => Err(refused),
        }
    }

    /// Replies an array of the outcomes. Each error is written out once, because a command may have millions of refused
    /// items.
    pub(super) fn write(&self, reply: &mut impl Reply) {
        let text = |error: Option<AddError>| {
            let error = error.filter(|_| self.items_refused > 0);
            error.map_or_else(String::new, |error| CommandError::Add(error).to_string())
        };
        let (no_room, too_often) = (text(self.no_room), text(Some(AddError::TooOften)));
        let not_encodable = text(self.encoding.map(AddError::NotEncodable));
        reply.array(self.codes.len());
        for code in &self.codes {
            match *code {
                NO_ROOM => reply.error(&no_room),
                NOT_ENCODABLE => reply.error(&not_encodable),
                TOO_OFTEN => reply.error(&too_often),
                code => reply.boolean(code == NEW),
            }
        }
    }

    /// Returns a character for each outcome: [`NEW`], [`PRESENT`], or `refused`.
    pub(super) fn into_characters(mut self, refused: u8) -> SmallVec<[u8; 128]> {
        if self.has_again || self.items_refused > 0 {
            for code in &mut self.codes {
                *code = match *code {
                    NEW => NEW,
                    PRESENT | AGAIN => PRESENT,
                    _ => refused,
                };
            }
        }
        self.codes
    }

    /// Returns the items that were added.
    pub(super) fn added<'a>(&self, items: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
        items.zip(&self.codes).filter(|(_, code)| matches!(**code, NEW | AGAIN)).map(|(item, _)| item)
    }

    /// Returns the items that were added, as arguments of a command.
    pub(super) fn added_arguments<'a>(&self, items: &[&'a [u8]]) -> impl Iterator<Item = Cow<'a, [u8]>> {
        self.added(items.iter().copied()).map(Cow::Borrowed)
    }

    /// Returns the effects on `items` items. Items after the one that ended the command count as refused.
    pub(super) fn effects<'a>(&self, items: usize) -> Effects<'a> {
        let replied = count_of(self.codes.len());
        let added_or_refused = count_of(usize::try_from(self.items_added).unwrap_or(usize::MAX))
            .saturating_add(self.items_refused);
        let not_replied = count_of(items).saturating_sub(replied);
        Effects {
            items_added: self.items_added,
            items_known: replied.saturating_sub(added_or_refused),
            items_refused: self.items_refused.saturating_add(not_replied),
            refused: self.no_room,
            ..Effects::default()
        }
    }
}

/// Replies an outcome: 1, 0 or the error.
#[inline(always)]
pub(super) fn write_outcome(outcome: Result<Added, AddError>, reply: &mut impl Reply) {
    match outcome {
        Ok(added) => reply.boolean(added == Added::New),
        Err(error) => reply.error(&CommandError::Add(error).to_string()),
    }
}

/// Returns an error if the refusal `error` loses an item that the command must add.
///
/// # Errors
/// The refusal.
pub(super) fn check_loss(error: AddError, host: &dyn Host) -> Result<(), CommandError> {
    if loses_item(error) && host.must_succeed() { Err(CommandError::Add(error)) } else { Ok(()) }
}

/// Returns whether an item was refused because there was no memory for it, on a server whose primary had enough.
pub(super) const fn loses_item(error: AddError) -> bool {
    matches!(error, AddError::CannotGrow(ReserveError::OutOfMemory | ReserveError::TooLarge { .. }))
}
