//! The commands on items that are arguments: BF.ADD, BF.MADD, BF.INSERT, BF.EXISTS, BF.MEXISTS and BF.DEL.

use std::borrow::Cow;

use super::adding::{AddRules, SingleAdd, add_items, argument_buffer, check_auto_create};
use super::arguments::Arguments;
use super::effects::{Effects, KeyChange, Replication, publish};
use super::error::CommandError;
use super::keyspace::{Host, KeyValue, Keyspace, ReadKey, Reply, WriteKey};
use super::options::{CommandOptions, CreationOptions};
use super::outcomes::ItemOutcomes;
use super::replicated::ReplicatedCommand;
use super::table::Command;
use super::timing::{ReplicatedTimes, Timing, lookup_generation};
use everbloom_filter::{AddError, Added, Filter, Format, Kind, Log, Prefetch};

/// The rules of BF.ADD, BF.MADD and BF.INSERT.
const RULES: AddRules = AddRules { ends_when_full: true, only_absent: false };

/// BF.ADD: `key item [IFABSENT] [LIFE s | PLIFE ms | LIFEAT s | PLIFEAT ms]`. O(layers * probes).
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
    let (mut options, has_options) = (CommandOptions::default(), !arguments.rest().is_empty());
    if has_options {
        options.read(&mut arguments, None, keyspace)?;
    }
    let mut open = keyspace.open_to_write(key);
    let (outcome, times) = match open.slot() {
        KeyValue::Present(filter) if !has_options => {
            let timing = Timing::of(filter, &options.creation, keyspace)?;
            let outcome = filter.add(item, keyspace, keyspace.prefetch());
            (outcome, timing.replicated(filter))
        }
        KeyValue::Present(filter) => {
            add_by_options(filter, item, &options.creation, keyspace, keyspace.prefetch())?
        }
        _ => {
            let slot = open.slot_to_add();
            let (outcomes, change) =
                add_or_create(key.bytes, &[item], &options.creation, slot, keyspace, keyspace.prefetch())?;
            let effects = publish(&mut open, key, change)?;
            outcomes.write_each(reply);
            return Ok(effects);
        }
    };
    let has_foreign_words = has_options && options.creation.has_foreign_words();
    let added = SingleAdd { key: key.bytes, item, outcome, times, has_foreign_words, is_cuckoo: false };
    added.finish(&mut open, keyspace, reply)
}

/// Adds an item to a filter by the options for items. Returns the outcome, and the times of the item if replicas need them.
#[inline(never)]
fn add_by_options(
    filter: &mut Filter,
    item: &[u8],
    options: &CreationOptions,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<(Result<Added, AddError>, Option<ReplicatedTimes>), CommandError> {
    let timing = Timing::of(filter, options, host)?;
    let outcome = filter.add_absent(item, options.if_absent, host, prefetch);
    if timing.end_ms.is_some() && matches!(outcome, Ok(Added::New | Added::Again)) {
        filter.count_life_adds(1);
    }
    Ok((outcome, timing.replicated(filter)))
}

/// Adds items to the filter in a slot, or to a new filter with the settings, with the options for items. It is not inlined, because nearly all
/// commands with one item add to an existing filter.
#[inline(never)]
fn add_or_create<'a>(
    key: &'a [u8],
    items: &[&'a [u8]],
    options: &CreationOptions,
    slot: KeyValue<(&mut Filter, Log<'_>)>,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<(ItemOutcomes, KeyChange<'a>), CommandError> {
    check_auto_create(&slot, host)?;
    add_items(key, &items, options, RULES, slot, host, prefetch)
}

/// BF.MADD: `key item [item ...]`. O(items * layers * probes).
pub(super) fn madd<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let mut open = keyspace.open_to_write(key);
    let options = CreationOptions::default();
    let (outcomes, change) =
        add_or_create(key.bytes, items, &options, open.slot_to_add(), keyspace, keyspace.prefetch())?;
    let effects = publish(&mut open, key, change)?;
    outcomes.write(reply);
    Ok(effects)
}

/// BF.INSERT: `key [CAPACITY c] [ERROR e] [EXPANSION x] [NOCREATE] [NONSCALING] [SATURATE] [KEYED] [KEY k] [FORMAT f]
/// [COUNTING] [WINDOW s | PWINDOW ms] [NOREFRESH] [AT ms] [IFABSENT] [LIFE s | PLIFE ms | LIFEAT s | PLIFEAT ms] [SEED s] [TIGHTENING t] [VALIDATESCALETO n] [EX s | PX ms |
/// EXAT s | PXAT ms] ITEMS item [item ...]`. O(items * layers * probes).
/// A repeated option replaces the one before it, and NONSCALING overrides EXPANSION, as in RedisBloom. Without ITEMS,
/// as valkey-bloom replicates it, the command only creates a filter. A client may omit ITEMS only with valkey-bloom's
/// format, because RedisBloom refuses such a command.
///
/// # Errors
/// The first bad option from left to right. If all are good: an option differs from the existing filter, the options
/// cannot be combined in a new one, or the filter does not exist and cannot be created.
pub(super) fn insert<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let (items, options) = parse_insert(arguments, keyspace)?;
    let mut open = keyspace.open_to_write(key);
    let slot = open.slot_to_add();
    match &slot {
        KeyValue::Present((filter, _)) => options.creation.check_existing(filter, keyspace)?,
        _ => options.creation.validate(keyspace)?,
    }
    if options.no_create && matches!(slot, KeyValue::Vacant) {
        return Err(CommandError::NotFound);
    }
    let (outcomes, change) =
        add_items(key.bytes, &items, &options.creation, RULES, slot, keyspace, keyspace.prefetch())?;
    let effects = publish(&mut open, key, change)?;
    outcomes.write(reply);
    Ok(effects)
}

/// Reads the arguments of BF.INSERT after the key. Returns the items and the options. Without items, the command only
/// creates a filter.
fn parse_insert<'a>(
    mut arguments: Arguments<'a>,
    host: &dyn Host,
) -> Result<(&'a [&'a [u8]], CommandOptions), CommandError> {
    let mut options = CommandOptions::default();
    let has_items = options.read(&mut arguments, Some("ITEMS"), host)?;
    let creation = &options.creation;
    // The range of CAPACITY depends on the format.
    if creation.capacity_items.is_some_and(|items| items > creation.capacity_max_items(host)) {
        return Err(CommandError::InsertCapacity);
    }
    creation.validate_scale_to(host)?;
    let is_valkeybloom = creation.resolved_format(&host.settings()) == Format::ValkeyBloom;
    let may_be_empty = is_valkeybloom || host.is_replicated();
    let items = if has_items || !may_be_empty { arguments.items()? } else { &[] };
    Ok((items, options))
}

/// BF.EXISTS: `key item [WITHIN s | PWITHIN ms]`. O(layers * probes).
///
/// # Errors
/// The command is refused. Nothing was replied.
#[inline(always)]
pub(super) fn exists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut within = None;
    if !arguments.rest().is_empty() {
        let mut options = CommandOptions::default();
        options.read(&mut arguments, None, keyspace)?;
        within = options.within;
    }
    let key = keyspace.open_to_read(key);
    let found = match key.slot().present()? {
        Some(filter) => {
            filter.contains_in(item, lookup_generation(filter, within, keyspace)?, keyspace.prefetch())
        }
        None => missing(keyspace)?,
    };
    reply.boolean(found);
    Ok(Effects::of_checks(1, u32::from(found)))
}

/// BF.TTL and BF.PTTL: `key item`. Replies an upper bound of the time until an item expires, in seconds or milliseconds:
/// -1 if it never expires, -2 if it or the filter is absent. O(layers * probes).
///
/// # Errors
/// The command is refused. Nothing was replied.
pub(super) fn ttl<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let unit_ms = if arguments.command() == Command::Ttl { 1000 } else { 1 };
    let (key, item) = (arguments.key()?, arguments.required()?);
    let key = keyspace.open_to_read(key);
    let end_ms = match key.slot().present()? {
        Some(filter) => {
            filter.item_end(item, filter.generation_at(|| keyspace.now_ms()), keyspace.prefetch())
        }
        None => {
            missing(keyspace)?;
            None
        }
    };
    match end_ms {
        None => reply.signed(-2),
        Some(u64::MAX) => reply.signed(-1),
        Some(end_ms) => reply.integer(end_ms.saturating_sub(keyspace.now_ms()).div_ceil(unit_ms)),
    }
    Ok(Effects::default())
}

/// BF.MEXISTS: `key item [item ...]`. O(items * layers * probes).
///
/// # Errors
/// The command is refused. Nothing was replied.
#[inline(always)]
pub(super) fn mexists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let key = keyspace.open_to_read(key);
    let mut items_found = 0;
    match key.slot().present()? {
        Some(filter) => {
            reply.array(items.len());
            let now = filter.generation_at(|| keyspace.now_ms());
            items_found = filter.contains_many(items, now, keyspace.prefetch(), |found| reply.boolean(found));
        }
        None => {
            let found = missing(keyspace)?;
            reply.array(items.len());
            items.iter().for_each(|_| reply.boolean(found));
        }
    }
    Ok(Effects::of_checks(items.len(), items_found))
}

/// Returns the result for an item if the filter does not exist.
#[cold]
pub(super) fn missing(host: &dyn Host) -> Result<bool, CommandError> {
    if host.settings().missing_filter_is_error { Err(CommandError::NotFound) } else { Ok(false) }
}

/// BF.DEL: `key item [item ...]`. Deletes one occurrence of each item from a counting filter, and replies whether
/// there was one. O(items).
///
/// Deleting can need memory. If there is none, the item and all later ones stay in the filter, and each has an error as
/// its reply.
///
/// # Errors
/// The filter does not exist or does not count. Nothing was replied.
pub(super) fn del<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let mut open = keyspace.open_to_write(key);
    // The buffer is allocated before the filter changes, because the command cannot be refused afterwards.
    let buffer = argument_buffer(items.len())?;
    let filter = open.slot().required()?;
    let results = delete(filter, items, keyspace.prefetch())?;
    let items_kept = items.len().saturating_sub(results.len());
    if items_kept > 0 && keyspace.must_succeed() {
        return Err(CommandError::OutOfMemory);
    }
    reply.array(items.len());
    results.iter().for_each(|is_deleted| reply.boolean(*is_deleted));
    if items_kept > 0 {
        let no_memory = CommandError::OutOfMemory.to_string();
        (0..items_kept).for_each(|_| reply.error(&no_memory));
    }
    let items_deleted = results.iter().map(|is_deleted| u64::from(*is_deleted)).sum();
    if items_deleted == 0 {
        return Ok(Effects::default());
    }
    open.changed(0, None);
    let replication = if items_deleted == items.len() as u64 {
        Replication::Verbatim
    } else {
        let deleted = items.iter().zip(&results).filter(|(_, is_deleted)| **is_deleted);
        let deleted = deleted.map(|(item, _)| Cow::Borrowed(*item));
        let key = [Cow::Borrowed(key.bytes)];
        Replication::Rewritten(vec![ReplicatedCommand::of_items("BF.DEL", key, deleted, buffer)])
    };
    Ok(Effects { replication, items_deleted, ..Effects::default() })
}

/// Deletes the items in order, until there is no memory. Returns for each processed item whether it was present.
fn delete(filter: &mut Filter, items: &[&[u8]], prefetch: impl Prefetch) -> Result<Vec<bool>, CommandError> {
    if filter.kind() != Kind::Counting {
        return Err(CommandError::NotCounting("BF.DEL".to_owned()));
    }
    let mut results = Vec::new();
    results.try_reserve_exact(items.len()).map_err(|_| CommandError::OutOfMemory)?;
    filter.remove_many(items, prefetch, |result| {
        results.extend(result);
        result.is_ok()
    });
    Ok(results)
}
