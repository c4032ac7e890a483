//! Adding items, to the filter that is there or to a new one: what BF.ADD, BF.MADD and BF.INSERT have in
//! common.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::change::Change;
use super::creation::lines::{number, word};
use super::creation::{CreationOptions, creation, spec};
use super::effects::{Effects, Line, Replication, count_of};
use super::error::CommandError;
use super::keyspace::Slot;
use super::reply::Reply;
use super::settings::Host;
use super::table::Command;
use super::window::{self, Timing};
use crate::bloom::hash::scheme::ItemEncoding;
use crate::bloom::{AddError, Added, Filter, Prefetch, ReserveError, Run};

/// Items to add.
#[derive(Debug)]
pub(super) struct Adds<'a, 'i> {
    /// The key.
    pub(super) key: &'a [u8],
    /// The items, perhaps none for BF.INSERT.
    pub(super) items: &'i [&'a [u8]],
    /// What a filter that is not there yet shall be.
    pub(super) options: CreationOptions,
}

/// What came of the items, in their order; fewer than they are when the filter filled up.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// A byte each, for there may be thousands of them.
    outcomes: SmallVec<[Outcome; 128]>,
    items_added: u64,
    items_refused: u32,
    /// The first refusal that must not be.
    loss: Option<AddError>,
}

/// What came of one item; a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    New,
    Again,
    Present,
    Full,
    CannotGrow,
    NotEncodable(ItemEncoding),
}

impl Outcome {
    /// As the filter told it, but for the reason why it cannot grow, which no reply says.
    fn told(self) -> Result<Added, AddError> {
        match self {
            Self::New => Ok(Added::New),
            Self::Again => Ok(Added::Again),
            Self::Present => Ok(Added::Present),
            Self::Full => Err(AddError::Full),
            Self::CannotGrow => Err(AddError::CannotGrow(ReserveError::TooLong)),
            Self::NotEncodable(encoding) => Err(AddError::NotEncodable(encoding)),
        }
    }
}

/// Replies 1 or 0, or the error, of an item.
#[inline(always)]
pub(super) fn write_outcome(outcome: Result<Added, AddError>, reply: &mut impl Reply) {
    match outcome {
        Ok(added) => reply.boolean(added == Added::New),
        Err(error) => reply.error(&CommandError::Add(error).to_string()),
    }
}

impl Answers {
    /// # Errors
    /// [`CommandError::OutOfMemory`] when there is no room for the answers.
    fn with_room_for(items: usize) -> Result<Self, CommandError> {
        let mut answers = Self::default();
        answers.outcomes.try_reserve_exact(items).map_err(|_| CommandError::OutOfMemory)?;
        Ok(answers)
    }

    fn extend(&mut self, run: Run) {
        self.items_added += run.items_added();
        let Run { items, new, again, refused } = run;
        self.outcomes.extend((0..items).map(|index| {
            if new >> index & 1 == 1 {
                Outcome::New
            } else if again >> index & 1 == 1 {
                Outcome::Again
            } else {
                Outcome::Present
            }
        }));
        if let Some(error) = refused {
            let outcome = self.refuse(error);
            self.outcomes.push(outcome);
        }
    }

    #[cold]
    fn refuse(&mut self, error: AddError) -> Outcome {
        self.items_refused += 1;
        if self.loss.is_none() && CommandError::Add(error).is_loss(Command::MAdd) {
            self.loss = Some(error);
        }
        match error {
            AddError::Full => Outcome::Full,
            AddError::CannotGrow(_) => Outcome::CannotGrow,
            AddError::NotEncodable(encoding) => Outcome::NotEncodable(encoding),
        }
    }

    /// The counts of so many items. Those after the one at which the filter was full are refused without an
    /// answer.
    fn effects<'a>(&self, items: usize) -> Effects<'a> {
        let answered = count_of(self.outcomes.len());
        let taken_or_refused = count_of(usize::try_from(self.items_added).unwrap_or(usize::MAX))
            .saturating_add(self.items_refused);
        let unanswered = count_of(items).saturating_sub(answered);
        Effects {
            items_added: self.items_added,
            items_known: answered.saturating_sub(taken_or_refused),
            items_refused: self.items_refused.saturating_add(unanswered),
            ..Effects::default()
        }
    }

    /// Replies an array of them.
    pub(super) fn write(&self, reply: &mut impl Reply) {
        reply.array(self.outcomes.len());
        self.outcomes.iter().for_each(|outcome| write_outcome(outcome.told(), reply));
    }

    /// What came of the first item.
    pub(super) fn first(&self) -> Result<Added, AddError> {
        self.outcomes.first().map_or(Err(AddError::Full), |outcome| outcome.told())
    }

    /// Those of the items that were added.
    fn added<'a>(&self, items: &[&'a [u8]]) -> impl Iterator<Item = Cow<'a, [u8]>> {
        let outcomes = items.iter().zip(&self.outcomes);
        outcomes
            .filter(|(_, outcome)| matches!(outcome, Outcome::New | Outcome::Again))
            .map(|(item, _)| Cow::Borrowed(*item))
    }
}

/// Arguments of a replicated command up to which their memory is not worth a question.
const FEW_ARGUMENTS: usize = 1024;

/// Room for the arguments of a command with so many items, had before anything is changed: afterwards
/// nobody could refuse.
///
/// # Errors
/// [`CommandError::OutOfMemory`].
pub(super) fn room_for_arguments<'a>(items: usize) -> Result<Vec<Cow<'a, [u8]>>, CommandError> {
    let mut room = Vec::new();
    if items > FEW_ARGUMENTS {
        room.try_reserve_exact(items.saturating_add(FEW_ARGUMENTS)).map_err(|_| CommandError::OutOfMemory)?;
    }
    Ok(room)
}

impl<'a> Adds<'a, '_> {
    /// Adds the items. O(items * layers * probes).
    ///
    /// # Errors
    /// When there is no filter to add to and none can be made; nothing has changed then.
    pub(super) fn run(
        self,
        slot: Slot<&mut Filter>,
        host: &dyn Host,
        prefetch: impl Prefetch,
    ) -> Result<Change<'a, Answers>, CommandError> {
        match slot {
            Slot::WrongType => Err(CommandError::WrongType),
            Slot::Filter(filter) => {
                let room = room_for_arguments(self.items.len())?;
                let timing = Timing::of(filter, self.options.at_ms, host)?;
                let answers = add_items(filter, self.items, host, prefetch)?;
                let items_added = answers.items_added;
                // Only what was added goes out: a refusal would reach the replica as a refusal, which a
                // strict one does not survive.
                let is_as_sent = answers.items_refused == 0 && !self.options.has_foreign_words();
                let replication = if items_added == 0 {
                    Replication::None
                } else if is_as_sent && timing.is_said() {
                    Replication::Verbatim
                } else if let Some(at_ms) = timing.to_say(filter) {
                    let added = answers.added(self.items);
                    Replication::Rewritten(vec![window::line(self.key, at_ms, added, room)])
                } else if is_as_sent && self.options.at_ms.is_none() {
                    Replication::Verbatim
                } else {
                    Replication::Rewritten(vec![Line::add(self.key, answers.added(self.items), room)])
                };
                let effects = Effects { replication, ..answers.effects(self.items.len()) };
                Ok(Change { answer: answers, publish: None, expires_at_ms: None, effects })
            }
            Slot::Vacant if !self.options.may_create(host) => Err(CommandError::LostFilter),
            Slot::Vacant => {
                let spec = spec(&self.options, host)?;
                let room = room_for_arguments(self.items.len())?;
                let mut filter = Filter::reserve(spec, host).map_err(CommandError::Reserve)?;
                let mut creation = creation(&filter);
                let timing = Timing::of_new(&mut filter, self.options.at_ms, host)?;
                let answers = add_items(&mut filter, self.items, host, prefetch)?;
                if let Some(at_ms) = timing.to_say(&mut filter).filter(|_| answers.items_added > 0) {
                    creation.words.extend([word("AT"), number(at_ms)]);
                }
                let lines = creation.lines(self.key, answers.added(self.items), room);
                let effects = Effects {
                    replication: Replication::Rewritten(lines),
                    created: true,
                    layers_added: count_of(filter.layer_count().saturating_sub(1)),
                    ..answers.effects(self.items.len())
                };
                Ok(Change {
                    answer: answers,
                    publish: Some(Box::new(filter)),
                    expires_at_ms: self.options.expires_at_ms,
                    effects,
                })
            }
        }
    }
}

/// Where the operator wants filters to be reserved, a command without a word about them makes none. Those that a primary
/// or a log makes are made.
///
/// # Errors
/// [`CommandError::NotFound`].
pub(super) fn check_auto_create(slot: &Slot<&mut Filter>, host: &dyn Host) -> Result<(), CommandError> {
    let is_vacant = matches!(slot, Slot::Vacant);
    if is_vacant && !host.settings().auto_create && !host.must_obey() {
        return Err(CommandError::NotFound);
    }
    Ok(())
}

/// An item that is refused for want of memory where it must be added fails the whole command.
pub(super) fn check_loss(error: AddError, host: &dyn Host) -> Result<(), CommandError> {
    let error = CommandError::Add(error);
    if error.is_loss(Command::Add) && host.must_succeed() { Err(error) } else { Ok(()) }
}

/// Adds the items in turn. A full fixed filter ends the run, a filter that cannot grow for another reason
/// does not; both as in RedisBloom, whose array of answers is then shorter than the items.
///
/// # Errors
/// When the answers have no room, before anything is added; as [`check_loss`].
fn add_items(
    filter: &mut Filter,
    items: &[&[u8]],
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<Answers, CommandError> {
    let mut answers = Answers::with_room_for(items.len())?;
    filter.add_items(&mut { items }, host, prefetch, &mut |run| {
        answers.extend(run);
        run.refused != Some(AddError::Full)
    });
    match answers.loss {
        Some(error) => check_loss(error, host).map(|()| answers),
        None => Ok(answers),
    }
}
