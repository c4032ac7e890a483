//! The changes of a command, and what the host does afterwards: replication, events, statistics.

use super::error::CommandError;
use super::keyspace::{KeyName, Value, WriteKey};
use super::replicated::ReplicatedCommand;
use everbloom_filter::AddError;

/// What is replicated, to replicas and to the append-only file.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Replication<'a> {
    /// Nothing: the filter has not changed, and the key is not signalled as modified.
    #[default]
    None,
    /// The client's command, unchanged.
    Verbatim,
    /// Other commands that contain exactly what has changed.
    Rewritten(Vec<ReplicatedCommand<'a>>),
}

/// What the host does after a command that was not refused, in the order of the fields. The key is the first one of
/// the command.
#[derive(Debug, Default)]
pub struct Effects<'a> {
    /// What is replicated. The key counts as modified exactly when this is not [`Replication::None`].
    pub replication: Replication<'a>,
    /// Whether to notify `bloom.reserve`: a filter was created.
    pub created: bool,
    /// Whether to notify `bloom.clear`: the filter was emptied.
    pub cleared: bool,
    /// Whether to notify `expire`: the filter was given a time to live.
    pub expires: bool,
    /// Whether to notify `bloom.merge`: other filters were merged into the filter.
    pub merged: bool,
    /// The number of items added. If any, `bloom.add` is notified.
    pub items_added: u64,
    /// The number of items added that have a life of their own. For the statistics.
    pub items_with_life: u64,
    /// The number of items deleted. If any, `bloom.del` is notified.
    pub items_deleted: u64,
    /// The number of layers and tables that the filter has gained. If any, `bloom.grow` is notified, and the log may
    /// get a [`growth_line`](super::growth_line).
    pub layers_added: u32,
    /// The number of items that were not added because they were, or seemed to be, in the filter. For the statistics.
    pub items_known: u32,
    /// The number of items that the filter refused. For the statistics.
    pub items_refused: u32,
    /// Why the filter refused items. If it has no room for new items, [`Refusals`](super::Refusals) makes a line for
    /// the log.
    pub refused: Option<AddError>,
    /// The number of items checked that may be in the filter. For the statistics.
    pub items_found: u32,
    /// The number of items checked that are not in the filter. For the statistics.
    pub items_missed: u32,
}

impl Effects<'_> {
    /// Returns the effects of a command that checked `items` items and found `items_found` of them.
    #[must_use]
    #[inline(always)]
    pub fn of_checks(items: usize, items_found: impl Into<u64>) -> Self {
        // A packed batch of more items is larger than a server accepts by default.
        let items_found = u32::try_from(items_found.into()).unwrap_or(u32::MAX);
        Self { items_found, items_missed: count_of(items).saturating_sub(items_found), ..Self::default() }
    }
}

/// Returns a number of arguments as a `u32`. Servers limit it to less than 2^31.
pub(super) fn count_of(arguments: usize) -> u32 {
    u32::try_from(arguments).unwrap_or(u32::MAX)
}

/// The change of a key by a command, before a new filter is published.
#[derive(Debug)]
pub(super) struct KeyChange<'a> {
    /// A complete value to put under the key, in place of the key's value.
    pub(super) publish: Option<Value>,
    /// When the key of the published filter expires, in milliseconds of UNIX time.
    pub(super) expires_at_ms: Option<u64>,
    /// What the host does.
    pub(super) effects: Effects<'a>,
}

impl<'a> KeyChange<'a> {
    /// Returns the change that creates a filter, replicated as `commands`.
    pub(super) fn created(
        value: Value,
        commands: Vec<ReplicatedCommand<'a>>,
        expires_at_ms: Option<u64>,
    ) -> Self {
        let effects = Effects { replication: Replication::Rewritten(commands), ..Effects::default() };
        Self { publish: Some(value), expires_at_ms, effects }
    }

    /// Returns the change by a BF.LOADCHUNK or BF.LOAD. `value` is the new filter; `None` if a chunk was added to an
    /// existing one, which may not have changed.
    pub(super) fn received(value: Option<Value>, has_changed: bool) -> Self {
        let replication = if has_changed { Replication::Verbatim } else { Replication::None };
        let effects = Effects { replication, ..Effects::default() };
        Self { publish: value, expires_at_ms: None, effects }
    }
}

/// Publishes a change: puts the new filter under its key, or updates the statistics of the existing one. Returns the
/// effects. An error leaves the key unchanged.
#[inline(always)]
pub(super) fn publish<'a>(
    key: &mut impl WriteKey,
    name: KeyName<'a>,
    change: KeyChange<'a>,
) -> Result<Effects<'a>, CommandError> {
    let KeyChange { publish, expires_at_ms, mut effects } = change;
    match publish {
        Some(value) => {
            key.publish(value)?;
            effects.created = true;
            if let Some(at_ms) = expires_at_ms {
                key.expire_at(at_ms);
                effects.expires = true;
                if let Replication::Rewritten(commands) = &mut effects.replication {
                    commands.push(ReplicatedCommand::expire(name.bytes, at_ms));
                }
            }
        }
        None if effects.replication == Replication::None => {}
        None => effects.layers_added = key.changed(effects.items_added, None).max(effects.layers_added),
    }
    Ok(effects)
}
