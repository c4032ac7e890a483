//! The CF.* commands, which clients know from RedisBloom's cuckoo filters. Here their keys are counting filters, so BF.*
//! works on the same keys. A key of another kind of filter is of the wrong type.
//!
//! Replies and errors are those of RedisBloom 8.10. What it shows of a cuckoo filter's structure is shown for a filter of
//! the same capacity.

use super::adding::{AddRules, add_items, check_auto_create};
use super::arguments::Arguments;
use super::chunks::{add_chunk, chunk_at, empty_filter, write_chunk};
use super::effects::{Effects, KeyChange, Replication, publish};
use super::error::{CommandError, CuckooError, quotable};
use super::items::delete;
use super::keyspace::{Host, KeyValue, Keyspace, OpenKey, Reply};
use super::number::parse_integer;
use super::options::{CommandOptions, CreationOptions, is_named};
use super::reserve::creation;
use super::table::{Command, KeyAccess};
use crate::bloom::limits::{CUCKOO_CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::bloom::{Filter, Kind};
use crate::format::filter::is_header;

/// RedisBloom's default of BUCKETSIZE, in slots. Counting filters have no such buckets.
const BUCKET_SIZE_SLOTS: u64 = 2;
/// Largest BUCKETSIZE.
const BUCKET_SIZE_MAX_SLOTS: u32 = u8::MAX as u32;
/// RedisBloom's default of MAXITERATIONS. Counting filters move no items.
const MAX_ITERATIONS: u64 = 20;
/// Largest MAXITERATIONS.
const MAX_ITERATIONS_MAX: u32 = u16::MAX as u32;
/// The expansion of a filter that is created without one, as in RedisBloom. Counting filters only report it.
const EXPANSION: u32 = 1;

/// Returns a value whose filter does not count as one of the wrong type.
#[inline(always)]
fn counting(slot: KeyValue<&mut Filter>) -> KeyValue<&mut Filter> {
    match slot {
        KeyValue::Present(filter) if filter.kind() != Kind::Counting => KeyValue::WrongType,
        slot => slot,
    }
}

/// Returns the options with which the filter is created if the slot is vacant. An existing filter ignores them.
fn creation_options(slot: &KeyValue<&mut Filter>, given: CreationOptions) -> CreationOptions {
    match slot {
        KeyValue::Vacant => CreationOptions { is_counting: true, expansion: Some(EXPANSION), ..given },
        KeyValue::Present(_) | KeyValue::WrongType => CreationOptions::default(),
    }
}

/// CF.RESERVE: `key capacity [BUCKETSIZE b] [MAXITERATIONS m] [EXPANSION e] [ERROR rate] [KEYED] [EX s | PX ms | EXAT s |
/// PXAT ms]`. O(1).
///
/// # Errors
/// The first bad argument, in RedisBloom's order. If all are good: the key exists, or the filter cannot be created.
pub(super) fn reserve<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let options = parse_reserve(arguments, keyspace)?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    open.slot().vacant(CommandError::ItemExists)?;
    let effects = publish(&mut open, key, creation(key, &options, keyspace)?)?;
    reply.simple("OK");
    Ok(effects)
}

/// Reads the arguments of CF.RESERVE after the key.
fn parse_reserve(mut arguments: Arguments<'_>, host: &dyn Host) -> Result<CreationOptions, CommandError> {
    let capacity = arguments.required()?;
    let words = arguments.rest();
    // All options but KEYED have a value. RedisBloom counts the arguments first.
    let flags = words.iter().filter(|word| is_named("KEYED", word)).count();
    if !words.len().wrapping_sub(flags).is_multiple_of(2) {
        return Err(arguments.wrong_arity());
    }
    let capacity = parse_integer(capacity).ok_or(CuckooError::BadCapacity)?;
    let (mut given, mut unknown) = (CommandOptions::default(), None);
    while let Some(word) = arguments.optional() {
        if !given.read_option(word, &mut arguments, host)? {
            unknown.get_or_insert(word);
        }
    }
    let CommandOptions { creation, cuckoo, .. } = given;
    checked("MAXITERATIONS", cuckoo.max_iterations, 1, MAX_ITERATIONS_MAX)?;
    let bucket_size = checked("BUCKETSIZE", cuckoo.bucket_size, 1, BUCKET_SIZE_MAX_SLOTS)?;
    let expansion = checked("EXPANSION", cuckoo.expansion, 0, EXPANSION_MAX)?;
    let least_items = bucket_size.map_or(BUCKET_SIZE_SLOTS, u64::from).saturating_mul(2);
    let capacity_items = u64::try_from(capacity).ok();
    let capacity_items =
        capacity_items.filter(|items| (least_items..=CUCKOO_CAPACITY_MAX_ITEMS).contains(items));
    let capacity_items = capacity_items.ok_or(CuckooError::ReserveCapacityRange)?;
    if let Some(word) = unknown {
        return Err(CommandError::UnknownArgument(quotable(word)));
    }
    // As in BF.RESERVE, a factor does not override `bf.expansion-factor 0`.
    if host.settings().expansion_factor == 0 && expansion.is_some_and(|expansion| expansion > 0) {
        return Err(CommandError::ReserveFixedExpansion);
    }
    let expansion = Some(expansion.map_or(EXPANSION, rounded_expansion));
    Ok(CreationOptions { capacity_items: Some(capacity_items), expansion, is_counting: true, ..creation })
}

/// Checks the value of an option of CF.RESERVE. Returns it, if it was given.
fn checked(
    option: &'static str,
    value: Option<Option<i64>>,
    min: u32,
    max: u32,
) -> Result<Option<u32>, CuckooError> {
    let Some(value) = value else { return Ok(None) };
    let value = u32::try_from(value.ok_or(CuckooError::BadValue(option))?).ok();
    let value = value.filter(|value| (min..=max).contains(value));
    value.map(Some).ok_or(CuckooError::Range { option, min, max })
}

/// Returns an expansion as RedisBloom stores it: rounded up to a power of two; 0 for a fixed filter.
fn rounded_expansion(expansion: u32) -> u32 {
    if expansion == 0 { 0 } else { expansion.checked_next_power_of_two().unwrap_or(EXPANSION_MAX) }
}

/// Returns the rules by which a command adds items.
fn rules(command: Command) -> AddRules {
    let only_absent = matches!(command, Command::CfAddNx | Command::CfInsertNx);
    AddRules { ends_when_full: false, only_absent }
}

/// CF.ADD and CF.ADDNX: `key item`. O(1).
///
/// # Errors
/// The filter does not exist and cannot be created. Nothing has changed, and nothing was replied.
pub(super) fn add<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let rules = rules(arguments.command());
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let slot = counting(open.slot());
    check_auto_create(&slot, keyspace)?;
    let options = creation_options(&slot, CreationOptions::default());
    let items: &[&'a [u8]] = &[item];
    let (outcomes, change) =
        add_items(key.bytes, &items, &options, rules, slot, keyspace, keyspace.prefetch())?;
    let effects = publish(&mut open, key, change)?;
    match outcomes.only() {
        Ok(is_added) => reply.boolean(is_added),
        Err(error) => reply.error(&CuckooError::Add(error).to_string()),
    }
    Ok(effects)
}

/// CF.INSERT and CF.INSERTNX: `key [CAPACITY c] [NOCREATE] [ERROR rate] [KEYED] [EX s | PX ms | EXAT s | PXAT ms] ITEMS item
/// [item ...]`. A repeated option replaces the one before it. O(items).
///
/// # Errors
/// The first bad option from left to right. If all are good: the filter does not exist and cannot be created.
pub(super) fn insert<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let rules = rules(arguments.command());
    let key = arguments.key()?;
    let mut given = CommandOptions::default();
    given.read(&mut arguments, Some("ITEMS"), keyspace)?;
    let items = arguments.items()?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let slot = counting(open.slot());
    if given.no_create && matches!(slot, KeyValue::Vacant) {
        return Err(CommandError::NotFound);
    }
    let options = creation_options(&slot, given.creation);
    let (outcomes, change) =
        add_items(key.bytes, &items, &options, rules, slot, keyspace, keyspace.prefetch())?;
    let effects = publish(&mut open, key, change)?;
    outcomes.write_occurrences(rules.only_absent, reply);
    Ok(effects)
}

/// CF.EXISTS: `key item`. O(1).
///
/// # Errors
/// The number of arguments is wrong.
pub(super) fn exists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let found = match counting(key.slot()) {
        KeyValue::Present(filter) => filter.contains(item, keyspace.prefetch()),
        KeyValue::Vacant | KeyValue::WrongType => false,
    };
    reply.boolean(found);
    Ok(Effects::of_checks(1, u32::from(found)))
}

/// CF.MEXISTS: `key item [item ...]`. O(items).
///
/// # Errors
/// The number of arguments is wrong.
pub(super) fn mexists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    reply.array(items.len());
    let items_found = match counting(key.slot()) {
        KeyValue::Present(filter) => {
            filter.contains_many(items, keyspace.prefetch(), |found| reply.boolean(found))
        }
        KeyValue::Vacant | KeyValue::WrongType => {
            items.iter().for_each(|_| reply.boolean(false));
            0
        }
    };
    Ok(Effects::of_checks(items.len(), items_found))
}

/// CF.COUNT: `key item`. O(1).
///
/// # Errors
/// The number of arguments is wrong.
pub(super) fn count<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let occurrences = match counting(key.slot()) {
        KeyValue::Present(filter) => filter.occurrences(item),
        KeyValue::Vacant | KeyValue::WrongType => 0,
    };
    reply.integer(occurrences);
    Ok(Effects::of_checks(1, u32::from(occurrences > 0)))
}

/// CF.DEL: `key item`. Deletes one occurrence, and replies whether there was one. O(1).
///
/// # Errors
/// There is no counting filter, or no memory for the deletion. Nothing has changed, and nothing was replied.
pub(super) fn del<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let KeyValue::Present(filter) = counting(open.slot()) else { return Err(CuckooError::NotFound.into()) };
    let results = delete(filter, &[item], keyspace.prefetch())?;
    let is_deleted = *results.first().ok_or(CommandError::OutOfMemory)?;
    reply.boolean(is_deleted);
    if !is_deleted {
        return Ok(Effects::default());
    }
    open.changed(0);
    Ok(Effects { replication: Replication::Verbatim, items_deleted: 1, ..Effects::default() })
}

/// What CF.INFO and CF.DEBUG show of a filter: the name in CF.INFO and the value.
fn numbers(filter: &Filter) -> [(&'static str, u64); 8] {
    let buckets = filter.capacity_items() / BUCKET_SIZE_SLOTS;
    [
        ("Size", filter.size_bytes()),
        ("Number of buckets", buckets.checked_next_power_of_two().unwrap_or(buckets)),
        ("Number of filters", 1),
        ("Number of items inserted", filter.items()),
        ("Number of items deleted", 0),
        ("Bucket size", BUCKET_SIZE_SLOTS),
        ("Expansion rate", rounded_expansion(filter.growth().expansion()).into()),
        ("Max iterations", MAX_ITERATIONS),
    ]
}

/// CF.INFO: `key`. O(1).
///
/// # Errors
/// [`CommandError::WrongType`] and [`CommandError::NotFound`].
pub(super) fn info<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open(arguments.key()?, KeyAccess::ReadOnly);
    let numbers = numbers(counting(key.slot()).required()?);
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.simple(name);
        reply.integer(number);
    }
    Ok(Effects::default())
}

/// CF.DEBUG: `key`. O(1).
///
/// # Errors
/// [`CommandError::WrongType`] and [`CommandError::NotFound`].
pub(super) fn debug<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open(arguments.key()?, KeyAccess::ReadOnly);
    let numbers = numbers(counting(key.slot()).required()?).map(|(_, number)| number);
    let [_, buckets, filters, items, deletes, bucket_size, expansion, iterations] = numbers;
    let line = format!(
        "bktsize:{bucket_size} buckets:{buckets} items:{items} deletes:{deletes} filters:{filters} \
         max_iterations:{iterations} expansion:{expansion}"
    );
    reply.bulk(line.as_bytes());
    Ok(Effects::default())
}

/// CF.COMPACT: `key`. Does nothing: a counting filter frees the memory of deleted items at once. O(1).
///
/// # Errors
/// There is no counting filter.
pub(super) fn compact<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open(arguments.key()?, KeyAccess::ReadOnly);
    match counting(key.slot()) {
        KeyValue::Present(_) => reply.simple("OK"),
        KeyValue::Vacant | KeyValue::WrongType => return Err(CuckooError::NothingToCompact.into()),
    }
    Ok(Effects::default())
}

/// CF.SCANDUMP: `key iterator`. As BF.SCANDUMP, but the dump ends with a null, and an empty filter has no chunks.
/// O(bytes of the chunk).
///
/// # Errors
/// The iterator is not one of the last dump. Or there is no memory for the chunk.
pub(super) fn scan_dump<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, iterator) = (arguments.key()?, arguments.required()?);
    let iterator = parse_integer(iterator).and_then(|iterator| u64::try_from(iterator).ok());
    let iterator = iterator.ok_or(CuckooError::Position)?;
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let filter = counting(key.slot()).required()?;
    let chunk = if filter.items() == 0 { None } else { chunk_at(filter, iterator, keyspace)? };
    match &chunk {
        Some(chunk) => write_chunk(chunk, reply),
        None => {
            reply.array(2);
            reply.integer(0);
            reply.null();
        }
    }
    Ok(Effects::default())
}

/// CF.LOADCHUNK: `key iterator data`. As BF.LOADCHUNK, for counting filters. O(bytes).
///
/// # Errors
/// The chunk is refused. The key is unchanged.
pub(super) fn load_chunk<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, iterator, data) = (arguments.key()?, arguments.required()?, arguments.required()?);
    let iterator = parse_integer(iterator).filter(|iterator| *iterator != 0).ok_or(CuckooError::Position)?;
    // A negative iterator becomes 0, which no chunk has.
    let iterator = u64::try_from(iterator).unwrap_or(0);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let created = match counting(open.slot()) {
        KeyValue::WrongType => return Err(CommandError::WrongType),
        KeyValue::Vacant if is_header(iterator, data) => Some(created(data, keyspace)?),
        KeyValue::Vacant => return Err(CommandError::NotFound),
        KeyValue::Present(_) if is_header(iterator, data) => return Err(CommandError::ItemExists),
        KeyValue::Present(filter) => {
            add_chunk(filter, iterator, data, keyspace).map_err(|error| match error {
                CommandError::BadData => CuckooError::Chunk.into(),
                error => error,
            })?;
            None
        }
    };
    let effects = publish(&mut open, key, KeyChange::received(created))?;
    reply.simple("OK");
    Ok(effects)
}

/// Returns the empty counting filter that a header describes.
fn created(data: &[u8], host: &dyn Host) -> Result<Box<Filter>, CommandError> {
    let filter = empty_filter(data, host).map_err(|error| match error {
        CommandError::BadData => CuckooError::Header.into(),
        CommandError::Reserve(_) => CuckooError::Create.into(),
        error => error,
    })?;
    if filter.kind() == Kind::Counting { Ok(filter) } else { Err(CuckooError::Header.into()) }
}
