//! Adds items to an existing or a new filter, and determines what is replicated: the common part of BF.ADD, BF.MADD,
//! BF.INSERT and BF.BULKADD.

use std::borrow::Cow;

use super::creation::spec;
use super::effects::{Effects, KeyChange, Replication, count_of};
use super::error::{CommandError, CuckooError};
use super::keyspace::{Host, KeyValue, Reply, Value, WriteKey};
use super::options::CreationOptions;
use super::outcomes::{ItemOutcomes, check_loss};
use super::replicated::{ArgumentList, Creation, ReplicatedCommand};
use super::timing::{ReplicatedTimes, Timing};
use everbloom_filter::{AddError, Added, Filter, ItemSource, Log, Prefetch};

/// The items of a command. Each is an argument, or all are packed in one argument.
pub(super) trait Adds<'a> {
    /// Memory for the replicated commands.
    type Buffer;

    fn count(&self) -> usize;

    fn items(&self) -> impl ItemSource<'a>;

    /// Returns an empty buffer for the commands that replicate a command with these options. It is allocated before the
    /// filter changes, because the command cannot be refused afterwards.
    fn buffer(&self, options: &CreationOptions) -> Result<Self::Buffer, CommandError>;

    /// Returns the commands that replicate the added items, with their times if replicas need them. They add to the
    /// existing filter under `key`, or create it first with `creation`.
    fn replicated(
        &self,
        key: &'a [u8],
        creation: Option<Creation>,
        times: Option<ReplicatedTimes>,
        outcomes: &ItemOutcomes,
        buffer: Self::Buffer,
    ) -> Vec<ReplicatedCommand<'a>>;
}

/// The rules by which a command adds its items.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddRules {
    /// Whether the command ends at the first item that a full filter refuses, as RedisBloom's BF.MADD and BF.INSERT do.
    pub(super) ends_when_full: bool,
    /// Whether an item that is present is not counted again.
    pub(super) only_absent: bool,
}

/// Memory is preallocated only for commands with more arguments than this.
const FEW_ARGUMENTS: usize = 1024;

/// Returns an empty buffer for the arguments of a replicated command with `items` items.
pub(super) fn argument_buffer<'a>(items: usize) -> Result<ArgumentList<'a>, CommandError> {
    let mut buffer = Vec::new();
    if items > FEW_ARGUMENTS {
        let arguments = items.saturating_add(FEW_ARGUMENTS);
        buffer.try_reserve_exact(arguments).map_err(|_| CommandError::OutOfMemory)?;
    }
    Ok(buffer)
}

impl<'a> Adds<'a> for &[&'a [u8]] {
    type Buffer = ArgumentList<'a>;

    fn count(&self) -> usize {
        self.len()
    }

    fn items(&self) -> impl ItemSource<'a> {
        *self
    }

    fn buffer(&self, _: &CreationOptions) -> Result<Self::Buffer, CommandError> {
        argument_buffer(self.len())
    }

    fn replicated(
        &self,
        key: &'a [u8],
        creation: Option<Creation>,
        times: Option<ReplicatedTimes>,
        outcomes: &ItemOutcomes,
        buffer: Self::Buffer,
    ) -> Vec<ReplicatedCommand<'a>> {
        let added = outcomes.added(self.iter().copied());
        match creation {
            Some(mut creation) => {
                times.into_iter().for_each(|times| creation.at(times));
                creation.commands(key, added.map(Cow::Borrowed), buffer)
            }
            None => vec![added_again(key, times, added, buffer)],
        }
    }
}

/// Adds items to the filter in a slot, or to a new filter with the given options. O(items * layers * probes).
///
/// # Errors
/// The command is refused. Nothing has changed, unless [`ItemOutcomes::check`] fails: then the server exits.
pub(super) fn add_items<'a, A: Adds<'a>>(
    key: &'a [u8],
    adds: &A,
    options: &CreationOptions,
    rules: AddRules,
    slot: KeyValue<(&mut Filter, Log<'_>)>,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<(ItemOutcomes, KeyChange<'a>), CommandError> {
    let rules = AddRules { only_absent: rules.only_absent || options.if_absent, ..rules };
    match slot.present()? {
        Some((filter, log)) => {
            let buffer = adds.buffer(options)?;
            let timing = Timing::of(filter, options, host)?;
            let outcomes = add_to(filter, adds, rules, timing, host, prefetch, log)?;
            let times = timing.replicated(filter);
            // Refused items are not replicated: a replica with another memory limit could accept them.
            let is_complete = outcomes.items_refused == 0 && !options.has_foreign_words();
            let has_time = timing.is_explicit || (times.is_none() && options.at_ms.is_none());
            let replication = if outcomes.items_added == 0 {
                Replication::None
            } else if is_complete && has_time {
                Replication::Verbatim
            } else {
                Replication::Rewritten(adds.replicated(key, None, times, &outcomes, buffer))
            };
            let items_with_life = timing.items_with_life(outcomes.items_added);
            let effects = Effects { replication, items_with_life, ..outcomes.effects(adds.count()) };
            Ok((outcomes, KeyChange { publish: None, expires_at_ms: None, effects }))
        }
        None if !options.may_create(host) => Err(CommandError::LostFilter),
        None => {
            let spec = spec(options, host)?;
            let buffer = adds.buffer(options)?;
            let mut filter = Filter::reserve(spec, host).map_err(CommandError::Reserve)?;
            let creation = Creation::of(&filter);
            let timing = Timing::of_new(&mut filter, options, host)?;
            let outcomes = add_to(&mut filter, adds, rules, timing, host, prefetch, None)?;
            let times = timing.replicated(&filter).filter(|_| outcomes.items_added > 0);
            let commands = adds.replicated(key, Some(creation), times, &outcomes, buffer);
            let effects = Effects {
                replication: Replication::Rewritten(commands),
                items_with_life: timing.items_with_life(outcomes.items_added),
                layers_added: count_of(filter.part_count().saturating_sub(1)),
                ..outcomes.effects(adds.count())
            };
            let publish = Some(Value::Filter(Box::new(filter)));
            Ok((outcomes, KeyChange { publish, expires_at_ms: options.expires_at_ms, effects }))
        }
    }
}

/// Adds items in order. Returns their outcomes.
///
/// # Errors
/// There is no memory for the outcomes, and nothing was added. Or [`ItemOutcomes::check`] fails.
fn add_to<'a, A: Adds<'a>>(
    filter: &mut Filter,
    adds: &A,
    rules: AddRules,
    timing: Timing,
    host: &dyn Host,
    prefetch: impl Prefetch,
    log: Log<'_>,
) -> Result<ItemOutcomes, CommandError> {
    let mut outcomes = ItemOutcomes::with_capacity(adds.count())?;
    filter.add_items(&mut adds.items(), rules.only_absent, host, prefetch, log, &mut |run| {
        outcomes.extend(run);
        !(rules.ends_when_full && run.error == Some(AddError::Full))
    });
    outcomes.check(host)?;
    filter.count_life_adds(timing.items_with_life(outcomes.items_added));
    Ok(outcomes)
}

/// The add of one item to an existing filter, which has taken or refused it.
pub(super) struct SingleAdd<'a> {
    pub(super) key: &'a [u8],
    pub(super) item: &'a [u8],
    pub(super) outcome: Result<Added, AddError>,
    /// The times of the item, if replicas need them.
    pub(super) times: Option<ReplicatedTimes>,
    /// Whether the command has words that are not replicated.
    pub(super) has_foreign_words: bool,
    /// Whether the command is CF.ADD or CF.ADDNX: an item that is added again is replied as added, and errors have texts of
    /// their own.
    pub(super) is_cuckoo: bool,
}

impl<'a> SingleAdd<'a> {
    /// Updates the statistics of the key, and replies.
    ///
    /// # Errors
    /// The item was refused in a command that must succeed. Nothing was replied.
    #[inline(always)]
    pub(super) fn finish(
        self,
        open: &mut impl WriteKey,
        host: &dyn Host,
        reply: &mut impl Reply,
    ) -> Result<Effects<'a>, CommandError> {
        match self.outcome {
            Ok(Added::Present) => {
                reply.boolean(false);
                Ok(Effects { items_known: 1, ..Effects::default() })
            }
            Ok(added) => {
                let layers_added = open.changed(1, Some(self.item));
                reply.boolean(self.is_cuckoo || added == Added::New);
                let (replication, items_with_life) = (self.replication(), self.items_with_life());
                Ok(Effects {
                    replication,
                    items_added: 1,
                    items_with_life,
                    layers_added,
                    ..Effects::default()
                })
            }
            Err(error) => {
                check_loss(error, host)?;
                let text =
                    if self.is_cuckoo { CuckooError::Add(error).into() } else { CommandError::Add(error) };
                reply.error(&text.to_string());
                Ok(Effects { items_refused: 1, refused: Some(error), ..Effects::default() })
            }
        }
    }

    /// Returns how many items with a life of their own were added.
    #[inline(always)]
    fn items_with_life(&self) -> u64 {
        self.times.is_some_and(|times| times.end_ms.is_some()).into()
    }

    /// Returns what is replicated: the unchanged command, or one without the words that are not replicated, and with the times
    /// of the item if replicas need them.
    #[inline(always)]
    fn replication(&self) -> Replication<'a> {
        if self.times.is_none() && !self.has_foreign_words {
            return Replication::Verbatim;
        }
        Replication::Rewritten(vec![added_again(
            self.key,
            self.times,
            std::iter::once(self.item),
            Vec::new(),
        )])
    }
}

/// Returns the command that adds items to an existing filter, with their times if replicas need them.
fn added_again<'a>(
    key: &'a [u8],
    times: Option<ReplicatedTimes>,
    items: impl Iterator<Item = &'a [u8]>,
    buffer: ArgumentList<'a>,
) -> ReplicatedCommand<'a> {
    let items = items.map(Cow::Borrowed);
    match times {
        Some(times) => ReplicatedCommand::add_at(key, times, items, buffer),
        None => ReplicatedCommand::of_items("BF.MADD", [Cow::Borrowed(key)], items, buffer),
    }
}

/// Checks that a command without options may create the filter if the key has no value: with `bf.auto-create no` only
/// replicated commands may.
pub(super) fn check_auto_create<V>(value: &KeyValue<V>, host: &dyn Host) -> Result<(), CommandError> {
    let is_vacant = matches!(value, KeyValue::Vacant);
    if is_vacant && !host.settings().auto_create && !host.is_replicated() {
        return Err(CommandError::NotFound);
    }
    Ok(())
}
