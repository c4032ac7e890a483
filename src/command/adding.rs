//! Adding items, to the filter that is there or to a new one, and saying what is replicated: what BF.ADD, BF.MADD, BF.INSERT and
//! BF.BULKADD have in common.

use std::borrow::Cow;

use super::change::Change;
use super::creation::lines::{number, word};
use super::creation::{Creation, CreationOptions, creation, spec};
use super::effects::{Effects, Line, Replication, count_of};
use super::error::CommandError;
use super::keyspace::Slot;
use super::outcomes::Outcomes;
use super::settings::Host;
use super::window::{self, Timing};
use crate::bloom::{AddError, Filter, Items, Prefetch};

/// The items of a command: an argument each, or packed in one.
pub(super) trait Adds<'a> {
    /// Whether a full filter ends the command at the first item that it refuses, as in RedisBloom.
    const ENDS_WHEN_FULL: bool;
    /// Memory for what is replicated.
    type Room;

    /// Returns the number of items.
    fn count(&self) -> usize;

    /// Returns the items in turn.
    fn items(&self) -> impl Items<'a>;

    /// Returns the memory for what is replicated, had before anything is changed: afterwards the command cannot be refused.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`].
    fn room(&self) -> Result<Self::Room, CommandError>;

    /// Returns the commands that add those of the items that were added, of a moment where one is to be said, to the filter
    /// under `key`, or to the one that `creation` makes there.
    fn lines(
        &self,
        key: &'a [u8],
        creation: Option<Creation>,
        at_ms: Option<u64>,
        outcomes: &Outcomes,
        room: Self::Room,
    ) -> Vec<Line<'a>>;
}

/// Arguments of a replicated command up to which their memory is not asked for.
const FEW_ARGUMENTS: usize = 1024;

/// Returns memory for the arguments of a command with so many items.
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

impl<'a> Adds<'a> for &[&'a [u8]] {
    const ENDS_WHEN_FULL: bool = true;
    type Room = Vec<Cow<'a, [u8]>>;

    fn count(&self) -> usize {
        self.len()
    }

    fn items(&self) -> impl Items<'a> {
        *self
    }

    fn room(&self) -> Result<Self::Room, CommandError> {
        room_for_arguments(self.len())
    }

    fn lines(
        &self,
        key: &'a [u8],
        creation: Option<Creation>,
        at_ms: Option<u64>,
        outcomes: &Outcomes,
        room: Self::Room,
    ) -> Vec<Line<'a>> {
        let added = outcomes.added_arguments(self);
        match (creation, at_ms) {
            (Some(mut creation), at_ms) => {
                creation.words.extend(at_ms.into_iter().flat_map(|at_ms| [word("AT"), number(at_ms)]));
                creation.lines(key, added, room)
            }
            (None, Some(at_ms)) => vec![window::line(key, at_ms, added, room)],
            (None, None) => vec![Line::add(key, added, room)],
        }
    }
}

/// Adds items to the filter in a slot, or to a new one that the options describe. O(items * layers * probes).
///
/// # Errors
/// When there is no filter to add to and none can be made; nothing has changed then.
pub(super) fn add_items<'a, A: Adds<'a>>(
    key: &'a [u8],
    adds: &A,
    options: &CreationOptions,
    slot: Slot<&mut Filter>,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<Change<'a, Outcomes>, CommandError> {
    match slot {
        Slot::WrongType => Err(CommandError::WrongType),
        Slot::Filter(filter) => {
            let room = adds.room()?;
            let timing = Timing::of(filter, options.at_ms, host)?;
            let outcomes = add_to(filter, adds, host, prefetch)?;
            let at_ms = timing.to_say(filter);
            // A refusal is not replicated: a replica that has more room, or less, would do something else.
            let is_as_sent = outcomes.items_refused == 0 && !options.has_foreign_words();
            let says_enough = timing.is_said() || (at_ms.is_none() && options.at_ms.is_none());
            let replication = if outcomes.items_added == 0 {
                Replication::None
            } else if is_as_sent && says_enough {
                Replication::Verbatim
            } else {
                Replication::Rewritten(adds.lines(key, None, at_ms, &outcomes, room))
            };
            let effects = Effects { replication, ..outcomes.effects(adds.count()) };
            Ok(Change { answer: outcomes, publish: None, expires_at_ms: None, effects })
        }
        Slot::Vacant if !options.may_create(host) => Err(CommandError::LostFilter),
        Slot::Vacant => {
            let spec = spec(options, host)?;
            let room = adds.room()?;
            let mut filter = Filter::reserve(spec, host).map_err(CommandError::Reserve)?;
            let creation = creation(&filter);
            let timing = Timing::of_new(&mut filter, options.at_ms, host)?;
            let outcomes = add_to(&mut filter, adds, host, prefetch)?;
            let at_ms = timing.to_say(&mut filter).filter(|_| outcomes.items_added > 0);
            let lines = adds.lines(key, Some(creation), at_ms, &outcomes, room);
            let effects = Effects {
                replication: Replication::Rewritten(lines),
                created: true,
                layers_added: count_of(filter.layer_count().saturating_sub(1)),
                ..outcomes.effects(adds.count())
            };
            let publish = Some(Box::new(filter));
            Ok(Change { answer: outcomes, publish, expires_at_ms: options.expires_at_ms, effects })
        }
    }
}

/// Adds items in turn.
///
/// # Errors
/// When the outcomes have no room, before anything is added; as [`Outcomes::check`].
fn add_to<'a, A: Adds<'a>>(
    filter: &mut Filter,
    adds: &A,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<Outcomes, CommandError> {
    let mut outcomes = Outcomes::with_room_for(adds.count())?;
    filter.add_items(&mut adds.items(), host, prefetch, &mut |run| {
        outcomes.extend(run);
        !A::ENDS_WHEN_FULL || run.refused != Some(AddError::Full)
    });
    outcomes.check(host)?;
    Ok(outcomes)
}

/// Checks that a filter that is not there may be made by a command that says nothing of it: with `bf.auto-create no` only
/// replicated commands make one.
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
