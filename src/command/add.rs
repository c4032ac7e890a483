//! Adding items, to the filter that is there or to a new one: BF.ADD, BF.MADD and BF.INSERT.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Slot;
use super::creation::{Creation, CreationOptions};
use super::effects::{Effects, Line, Replication};
use super::error::CommandError;
use super::reply::Reply;
use super::settings::Host;
use super::table::Command;
use crate::bloom::client::ItemEncoding;
use crate::bloom::{AddError, Added, Filter, Prefetch, ReserveError};

/// Items to add.
#[derive(Debug)]
pub struct Adds<'a, 'i> {
    /// The key.
    pub key: &'a [u8],
    /// The items, perhaps none for BF.INSERT.
    pub items: &'i [&'a [u8]],
    /// What a filter that is not there yet shall be.
    pub options: CreationOptions,
}

/// What came of the items, in their order; fewer than they are when the filter filled up.
#[derive(Debug, Default)]
pub struct Answers {
    /// A byte each, for there may be thousands of them.
    outcomes: SmallVec<[Outcome; 128]>,
    items_added: u64,
    has_refusals: bool,
    /// The first refusal that must not be.
    loss: Option<AddError>,
}

/// What came of one item; a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    New,
    Present,
    Full,
    CannotGrow,
    NotEncodable(ItemEncoding),
}

impl Answers {
    /// # Errors
    /// [`CommandError::OutOfMemory`] when there is no room for the answers.
    fn with_room_for(items: usize) -> Result<Self, CommandError> {
        let mut answers = Self::default();
        answers.outcomes.try_reserve_exact(items).map_err(|_| CommandError::OutOfMemory)?;
        Ok(answers)
    }

    fn push(&mut self, outcome: Result<Added, AddError>) {
        self.items_added += u64::from(outcome == Ok(Added::New));
        let outcome = match outcome {
            Ok(Added::New) => Outcome::New,
            Ok(Added::Present) => Outcome::Present,
            Err(error) => self.refuse(error),
        };
        self.outcomes.push(outcome);
    }

    #[cold]
    fn refuse(&mut self, error: AddError) -> Outcome {
        self.has_refusals = true;
        if self.loss.is_none() && CommandError::Add(error).is_loss(Command::MAdd) {
            self.loss = Some(error);
        }
        match error {
            AddError::Full => Outcome::Full,
            AddError::CannotGrow(_) => Outcome::CannotGrow,
            AddError::NotEncodable(encoding) => Outcome::NotEncodable(encoding),
        }
    }

    /// Replies 1 or 0, or the error, of every item.
    pub fn write(&self, reply: &mut impl Reply) {
        for outcome in &self.outcomes {
            let error = match *outcome {
                Outcome::New => {
                    reply.boolean(true);
                    continue;
                }
                Outcome::Present => {
                    reply.boolean(false);
                    continue;
                }
                Outcome::Full => AddError::Full,
                // The text does not say why.
                Outcome::CannotGrow => AddError::CannotGrow(ReserveError::TooLong),
                Outcome::NotEncodable(encoding) => AddError::NotEncodable(encoding),
            };
            reply.error(&CommandError::Add(error).to_string());
        }
    }

    /// Number of items that were answered.
    pub(super) fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Those of the items that were added.
    fn added<'a>(&self, items: &[&'a [u8]]) -> impl Iterator<Item = Cow<'a, [u8]>> {
        let outcomes = items.iter().zip(&self.outcomes);
        outcomes.filter(|(_, outcome)| **outcome == Outcome::New).map(|(item, _)| Cow::Borrowed(*item))
    }
}

/// Arguments of a replicated command up to which their memory is not worth a question.
const FEW_ARGUMENTS: usize = 1024;

/// Room for the arguments of a command with so many items, had before anything is changed: afterwards nobody could
/// refuse.
///
/// # Errors
/// [`CommandError::OutOfMemory`].
fn room_for_arguments<'a>(items: usize) -> Result<Vec<Cow<'a, [u8]>>, CommandError> {
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
    pub fn run(
        self,
        slot: Slot<&mut Filter>,
        host: &dyn Host,
        prefetch: impl Prefetch,
    ) -> Result<(Answers, Effects<'a>), CommandError> {
        match slot {
            Slot::WrongType => Err(CommandError::WrongType),
            Slot::Filter(filter) => {
                let room = room_for_arguments(self.items.len())?;
                let answers = add_items(filter, self.items, host, prefetch)?;
                let items_added = answers.items_added;
                // Only what was added goes out: a refusal would reach the replica as a refusal, which a strict one
                // does not survive.
                let replication = if items_added == 0 {
                    Replication::None
                } else if !answers.has_refusals && !self.options.has_foreign_words() {
                    Replication::Verbatim
                } else {
                    Replication::Rewritten(vec![Line::add(self.key, answers.added(self.items), room)])
                };
                Ok((answers, Effects { replication, items_added, ..Effects::default() }))
            }
            Slot::Vacant if !self.options.may_create(host) => Err(CommandError::LostFilter),
            Slot::Vacant => {
                let blueprint = self.options.blueprint(host)?;
                let room = room_for_arguments(self.items.len())?;
                let mut filter = Filter::reserve(blueprint, host).map_err(CommandError::Reserve)?;
                let creation = Creation::of(&blueprint, &filter);
                let answers = add_items(&mut filter, self.items, host, prefetch)?;
                let lines = creation.lines(self.key, answers.added(self.items), room);
                let effects = Effects {
                    publish: Some(Box::new(filter)),
                    replication: Replication::Rewritten(lines),
                    created: true,
                    items_added: answers.items_added,
                };
                Ok((answers, effects))
            }
        }
    }
}

/// Adds one item to a filter that is there, and replies: what most commands are.
///
/// Nothing is replicated or notified unless the item was new.
///
/// # Errors
/// An item of a primary or a log that this server has no memory for; see [`Host::must_succeed`].
pub fn add_one<'a>(
    filter: &mut Filter,
    item: &[u8],
    host: &dyn Host,
    prefetch: impl Prefetch,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    match filter.add(item, host, prefetch) {
        Ok(Added::New) => {
            reply.boolean(true);
            Ok(Effects { replication: Replication::Verbatim, items_added: 1, ..Effects::default() })
        }
        Ok(Added::Present) => {
            reply.boolean(false);
            Ok(Effects::default())
        }
        Err(error) => {
            check_loss(error, host)?;
            reply.error(&CommandError::Add(error).to_string());
            Ok(Effects::default())
        }
    }
}

/// An item that is refused for want of memory where it must be added fails the whole command.
fn check_loss(error: AddError, host: &dyn Host) -> Result<(), CommandError> {
    let error = CommandError::Add(error);
    if error.is_loss(Command::Add) && host.must_succeed() { Err(error) } else { Ok(()) }
}

/// Adds the items in turn. A full fixed filter ends the run, a filter that cannot grow for another reason does not;
/// both as in RedisBloom, whose array of answers is then shorter than the items.
///
/// # Errors
/// When the answers have no room, before anything is added; as [`add_one`].
fn add_items(
    filter: &mut Filter,
    items: &[&[u8]],
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<Answers, CommandError> {
    let mut answers = Answers::with_room_for(items.len())?;
    filter.add_many(items, host, prefetch, |outcome| {
        answers.push(outcome);
        outcome != Err(AddError::Full)
    });
    match answers.loss {
        Some(error) => check_loss(error, host).map(|()| answers),
        None => Ok(answers),
    }
}
