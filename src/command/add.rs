//! The commands that add items: BF.ADD, BF.MADD and BF.INSERT.

use std::borrow::Cow;

use super::adding::{add_items, check_auto_create};
use super::arguments::Arguments;
use super::effects::{Change, Effects, Replication, publish};
use super::error::CommandError;
use super::keyspace::{Host, KeyName, KeyValue, Keyspace, OpenKey};
use super::options::{CommandOptions, CreationOptions};
use super::outcomes::{check_loss, write_outcome};
use super::replicated::ReplicatedCommand;
use super::reply::Reply;
use super::table::KeyAccess;
use super::window::Timing;
use crate::bloom::{AddError, Added, Filter, Format, Prefetch};

/// BF.ADD: `key item`. O(layers * probes).
///
/// Nothing is replicated or notified unless the item was new, or was counted or refreshed.
///
/// # Errors
/// The filter does not exist and cannot be created. Nothing has changed, and nothing was replied.
#[inline(always)]
pub(super) fn add<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let (outcome, at_ms) = match open.slot() {
        KeyValue::Present(filter) => {
            let timing = Timing::of(filter, None, keyspace)?;
            let outcome = filter.add(item, keyspace, keyspace.prefetch());
            (outcome, timing.replicated_ms(filter))
        }
        slot => {
            let change = add_to_new(key.bytes, item, slot, keyspace, keyspace.prefetch())?;
            let (outcome, effects) = publish(&mut open, key, change)?;
            write_outcome(outcome, reply);
            return Ok(effects);
        }
    };
    match outcome {
        Ok(Added::Present) => {
            reply.boolean(false);
            Ok(Effects { items_known: 1, ..Effects::default() })
        }
        Ok(added) => {
            let layers_added = open.changed(1);
            reply.boolean(added == Added::New);
            Ok(Effects {
                replication: replication(key, item, at_ms),
                items_added: 1,
                layers_added,
                ..Effects::default()
            })
        }
        Err(error) => {
            check_loss(error, keyspace)?;
            write_outcome(outcome, reply);
            Ok(Effects { items_refused: 1, refused: Some(error), ..Effects::default() })
        }
    }
}

/// Returns what is replicated: the unchanged command, or one with the time of the item if replicas need it.
#[inline(always)]
fn replication<'a>(key: KeyName<'a>, item: &'a [u8], at_ms: Option<u64>) -> Replication<'a> {
    match at_ms {
        None => Replication::Verbatim,
        Some(at_ms) => {
            let items = std::iter::once(Cow::Borrowed(item));
            Replication::Rewritten(vec![ReplicatedCommand::add_at(key.bytes, at_ms, items, Vec::new())])
        }
    }
}

/// Adds an item to a new filter. Not inlined: nearly all commands add to an existing filter.
#[inline(never)]
fn add_to_new<'a>(
    key: &'a [u8],
    item: &'a [u8],
    slot: KeyValue<&mut Filter>,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<Change<'a, Result<Added, AddError>>, CommandError> {
    check_auto_create(&slot, host)?;
    let change = add_items(key, &&[item][..], &CreationOptions::default(), slot, host, prefetch)?;
    let Change { result, publish, expires_at_ms, effects } = change;
    Ok(Change { result: result.first(), publish, expires_at_ms, effects })
}

/// BF.MADD: `key item [item ...]`. O(items * layers * probes).
///
/// # Errors
/// As [`add`].
pub(super) fn madd<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let slot = open.slot();
    check_auto_create(&slot, keyspace)?;
    let options = CreationOptions::default();
    let change = add_items(key.bytes, &items, &options, slot, keyspace, keyspace.prefetch())?;
    let (outcomes, effects) = publish(&mut open, key, change)?;
    outcomes.write(reply);
    Ok(effects)
}

/// BF.INSERT: `key [CAPACITY c] [ERROR e] [EXPANSION x] [NOCREATE] [NONSCALING] [SATURATE] [KEYED] [KEY k] [FORMAT f]
/// [COUNTING] [WINDOW s | PWINDOW ms] [NOREFRESH] [AT ms] [SEED s] [TIGHTENING t] [VALIDATESCALETO n] [EX s | PX ms |
/// EXAT s | PXAT ms] ITEMS item [item ...]`. O(items * layers * probes).
/// A repeated option replaces the one before it, and NONSCALING overrides EXPANSION, as in RedisBloom. Without ITEMS,
/// as valkey-bloom replicates it, the command only creates a filter. A client may omit ITEMS only with valkey-bloom's
/// format, because RedisBloom refuses such a command.
///
/// # Errors
/// The first bad option from left to right; then an option that differs from the existing filter, or options that
/// cannot be combined in a new one; then that the filter does not exist and cannot be created.
pub(super) fn insert<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let (items, options) = parse_insert(arguments, keyspace)?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let slot = open.slot();
    match &slot {
        KeyValue::Present(filter) => options.creation.check_existing(filter, keyspace)?,
        KeyValue::Vacant | KeyValue::WrongType => options.creation.validate(keyspace)?,
    }
    if options.no_create && matches!(slot, KeyValue::Vacant) {
        return Err(CommandError::NotFound);
    }
    let change = add_items(key.bytes, &items, &options.creation, slot, keyspace, keyspace.prefetch())?;
    let (outcomes, effects) = publish(&mut open, key, change)?;
    outcomes.write(reply);
    Ok(effects)
}

/// Reads the arguments of BF.INSERT after the key. Returns the items, none to create an empty filter, and the options.
fn parse_insert<'a>(
    mut arguments: Arguments<'a>,
    host: &dyn Host,
) -> Result<(&'a [&'a [u8]], CommandOptions), CommandError> {
    let mut options = CommandOptions::default();
    let has_items = options.read(&mut arguments, Some("ITEMS"), host)?;
    let creation = &options.creation;
    // The range depends on the format.
    if creation.capacity_items.is_some_and(|items| items > creation.capacity_max_items(host)) {
        return Err(CommandError::InsertCapacity);
    }
    creation.validate_scale_to(host)?;
    let is_valkeybloom = creation.resolved_format(&host.settings()) == Format::ValkeyBloom;
    let may_be_empty = is_valkeybloom || host.is_replicated();
    let items = if has_items || !may_be_empty { arguments.items()? } else { &[] };
    Ok((items, options))
}
