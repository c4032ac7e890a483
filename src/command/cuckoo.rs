//! The CF.* commands, which clients know from RedisBloom's cuckoo filters. They work on counting filters, with which BF.*
//! works too, and on cuckoo filters of RedisBloom. The lookups work on every filter of the type everbloom. A Bloom filter
//! of another module's type is of the wrong type, as in RedisBloom.
//!
//! Replies and errors are those of RedisBloom 8.10. What it shows of a cuckoo filter's structure is shown for a counting
//! filter that was created with the same options. With `bf.format redisbloom` new filters are cuckoo filters.

use std::borrow::Cow;
use std::num::{NonZeroU8, NonZeroU16};
use std::ops::{Deref, RangeInclusive};

use super::adding::{AddRules, SingleAdd, add_items, argument_buffer, check_auto_create};
use super::arguments::Arguments;
use super::chunks::{add_chunk, chunk_at, filter_of_header, write_chunk};
use super::effects::{Effects, KeyChange, Replication, count_of, publish};
use super::error::{CommandError, CuckooError};
use super::keyspace::{
    CuckooSettings, Found, Host, KeyName, KeyValue, Keyspace, ReadKey, Reply, Value, ValueMut, ValueRef,
    WriteKey,
};
use super::number::parse_integer;
use super::options::{CommandOptions, CreationOptions, find, is_named, unknown_option};
use super::outcomes::ItemOutcomes;
use super::replicated::{ReplicatedCommand, number, word};
use super::reserve::creation;
use super::spare::Spare;
use super::table::{Command, OptionWord};
use everbloom_filter::cuckoo::array::CuckooRelease;
use everbloom_filter::cuckoo::filter::{Arrays, CuckooFilter, CuckooParameters};
use everbloom_filter::limits::{
    CUCKOO_BUCKET_MAX_SLOTS, CUCKOO_CAPACITY_MAX_ITEMS, CUCKOO_ITERATIONS_MAX, EXPANSION_MAX,
};
use everbloom_filter::{Filter, Format, Kind, OutOfMemory};
use everbloom_format::DecodeError;
use everbloom_format::redisbloom::cuckoo as format;
use everbloom_format::value::is_header;

/// What counting filters show of parameters that were not given.
const SHOWN: CuckooSettings = CuckooSettings::DEFAULT;

/// Returns the value of a key, with which commands of CF.* may work. A Bloom filter of another module's type is of the wrong
/// type.
#[inline(always)]
fn own<F: Deref<Target = Filter>, C>(value: KeyValue<Found<F, C>>) -> KeyValue<Found<F, C>> {
    value.and_then(|value| match value {
        Found::Filter(filter) if filter.format() != Format::Everbloom => KeyValue::WrongType,
        value => KeyValue::Present(value),
    })
}

/// Returns the value of a key, if it counts.
#[inline(always)]
fn counted<F: Deref<Target = Filter>, C>(
    value: KeyValue<Found<F, C>>,
    command: Command,
) -> Result<KeyValue<Found<F, C>>, CommandError> {
    match own(value) {
        KeyValue::Present(Found::Filter(filter)) if filter.kind() != Kind::Counting => {
            Err(CommandError::NotCounting(command.spec().name.to_ascii_uppercase()))
        }
        value => Ok(value),
    }
}

/// Returns the value of a key; `None` if it is of another type.
#[inline(always)]
fn found<V>(value: KeyValue<V>) -> Result<Option<V>, CommandError> {
    if let KeyValue::WrongType = value { Ok(None) } else { value.present() }
}

impl ValueRef<'_> {
    /// Calls `reply` with whether each item may be in the filter. Returns how many may be.
    #[inline(always)]
    fn contains_many(self, items: &[&[u8]], host: &impl Keyspace, mut reply: impl FnMut(bool)) -> u32 {
        let prefetch = host.prefetch();
        match self {
            Self::Filter(filter) => {
                filter.contains_many(items, filter.generation_at(|| host.now_ms()), prefetch, reply)
            }
            Self::Cuckoo(filter) => {
                let mut items_found = 0u32;
                CuckooFilter::for_each_hash(filter, items, Arrays::All, prefetch, |filter, hash| {
                    let found = filter.contains_hash(hash);
                    items_found = items_found.saturating_add(found.into());
                    reply(found);
                });
                items_found
            }
        }
    }

    /// Returns the number of occurrences of an item; for a filter that does not count, 1 if the item may be in it.
    fn occurrences(self, item: &[u8], host: &impl Keyspace) -> u64 {
        match self {
            Self::Filter(filter) if filter.kind() == Kind::Counting => filter.occurrences(item),
            Self::Cuckoo(filter) => filter.count(item, host.prefetch()),
            Self::Filter(_) => self.contains(item, host).into(),
        }
    }

    /// Returns whether the item may be in the filter.
    #[inline(always)]
    fn contains(self, item: &[u8], host: &impl Keyspace) -> bool {
        match self {
            Self::Filter(filter) => {
                filter.contains_in(item, filter.generation_at(|| host.now_ms()), host.prefetch())
            }
            Self::Cuckoo(filter) => filter.contains(item, host.prefetch()),
        }
    }

    /// Returns what CF.INFO and CF.DEBUG show: the name in CF.INFO and the value.
    fn numbers(&self) -> [(&'static str, u64); 8] {
        let [size, buckets, filters, items, deletes, bucket_size, expansion, iterations] = match self {
            Self::Filter(filter) => {
                let counting = filter.policy().counting();
                let bucket_size = counting.and_then(|counting| counting.bucket_size);
                let bucket_size = bucket_size.map_or(SHOWN.bucket_size_slots, NonZeroU8::get);
                let max_iterations = counting.and_then(|counting| counting.max_iterations);
                let buckets = filter.capacity_items() / u64::from(bucket_size);
                [
                    filter.size_bytes(),
                    buckets.checked_next_power_of_two().unwrap_or(buckets),
                    1,
                    filter.items(),
                    counting.map_or(0, |counting| counting.deletions),
                    bucket_size.into(),
                    rounded_expansion(filter.growth().expansion()).into(),
                    max_iterations.map_or(SHOWN.max_iterations, NonZeroU16::get).into(),
                ]
            }
            Self::Cuckoo(filter) => {
                let parameters = filter.parameters();
                [
                    filter.reported_size_bytes(),
                    parameters.buckets,
                    filter.arrays().len() as u64,
                    filter.items(),
                    filter.deletes(),
                    parameters.bucket_size.into(),
                    parameters.expansion.into(),
                    parameters.max_iterations.into(),
                ]
            }
        };
        [
            ("Size", size),
            ("Number of buckets", buckets),
            ("Number of filters", filters),
            ("Number of items inserted", items),
            ("Number of items deleted", deletes),
            ("Bucket size", bucket_size),
            ("Expansion rate", expansion),
            ("Max iterations", iterations),
        ]
    }
}

/// Returns whether a new filter is a cuckoo filter of RedisBloom.
fn makes_cuckoo(host: &dyn Host) -> bool {
    host.settings().format == Format::RedisBloom
}

/// Returns the options with which a counting filter is created.
fn counting_options(given: CreationOptions) -> CreationOptions {
    let expansion = Some(SHOWN.expansion_factor);
    CreationOptions { is_counting: true, expansion, has_own_expansion: true, ..given }
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
    let (options, capacity_items, settings) = parse_reserve(arguments, keyspace)?;
    let mut open = keyspace.open_to_write(key);
    open.value().vacant(CommandError::ItemExists)?;
    // An everbloom primary replicates the creation of a counting filter as BF.INSERT.
    let change = if makes_cuckoo(keyspace) || keyspace.is_replicated() {
        let (filter, commands) = new_cuckoo(key, &options, capacity_items, &settings, keyspace)?;
        KeyChange::created(Value::Cuckoo(filter), commands, None)
    } else {
        creation(key, &options, keyspace)?
    };
    let effects = publish(&mut open, key, change)?;
    reply.simple("OK");
    Ok(effects)
}

impl CuckooSettings {
    /// Returns the parameters of a new cuckoo filter of a capacity.
    fn parameters(&self, capacity_items: u64) -> CuckooParameters {
        let expansion = u16::try_from(self.expansion_factor).unwrap_or(u16::MAX);
        CuckooParameters::reserved(capacity_items, self.bucket_size_slots, self.max_iterations, expansion)
    }
}

/// Creates a cuckoo filter. Returns it with the commands that create it on replicas, with every parameter.
fn new_cuckoo<'a>(
    key: KeyName<'a>,
    options: &CreationOptions,
    capacity_items: u64,
    settings: &CuckooSettings,
    host: &dyn Host,
) -> Result<(Box<CuckooFilter>, Vec<ReplicatedCommand<'a>>), CommandError> {
    let own = [
        (options.error_rate.is_some(), "ERROR"),
        (options.is_keyed, "KEYED"),
        (options.expires_at_ms.is_some(), "EX"),
    ];
    if let Some((_, word)) = own.iter().find(|(is_given, _)| *is_given) {
        return Err(CuckooError::NeedsEverbloom(word).into());
    }
    let parameters = settings.parameters(capacity_items);
    let filter = CuckooFilter::reserve(parameters, host).map_err(CommandError::Reserve)?;
    let CuckooParameters { bucket_size, max_iterations, expansion, .. } = parameters;
    let arguments = vec![
        Cow::Borrowed(key.bytes),
        number(capacity_items),
        word("BUCKETSIZE"),
        number(bucket_size),
        word("MAXITERATIONS"),
        number(max_iterations),
        word("EXPANSION"),
        number(expansion),
    ];
    Ok((Box::new(filter), vec![ReplicatedCommand { command: "CF.RESERVE", arguments }]))
}

/// Reads the arguments of CF.RESERVE after the key. Returns the options of a counting filter, the capacity, and the
/// settings with the options of a cuckoo filter in their place.
fn parse_reserve(
    mut arguments: Arguments<'_>,
    host: &dyn Host,
) -> Result<(CreationOptions, u64, CuckooSettings), CommandError> {
    let capacity = arguments.required()?;
    let words = arguments.rest();
    // All options but KEYED have a value. RedisBloom counts the arguments first.
    let flags = words.iter().filter(|word| is_named("KEYED", word)).count();
    if !words.len().wrapping_sub(flags).is_multiple_of(2) {
        return Err(odd_words(capacity, words, &arguments));
    }
    let capacity = parse_integer(capacity).ok_or(CuckooError::BadCapacity)?;
    let (mut given, mut unknown) = (CommandOptions::default(), None);
    while let Some(word) = arguments.optional() {
        if !given.read_option(word, &mut arguments, host)? {
            unknown.get_or_insert(word);
        }
    }
    let CommandOptions { creation, cuckoo, .. } = given;
    let max_iterations = checked("MAXITERATIONS", cuckoo.max_iterations, 1..=CUCKOO_ITERATIONS_MAX)?;
    let bucket_size = checked("BUCKETSIZE", cuckoo.bucket_size, 1..=CUCKOO_BUCKET_MAX_SLOTS)?;
    let expansion = checked("EXPANSION", cuckoo.expansion, 0..=EXPANSION_MAX)?.map(rounded_expansion);
    let least_items =
        bucket_size.map_or_else(|| host.cuckoo_capacity_min_items(), |slots| 2 * u64::from(slots));
    let capacity_items = u64::try_from(capacity).ok();
    let capacity_items =
        capacity_items.filter(|items| (least_items..=CUCKOO_CAPACITY_MAX_ITEMS).contains(items));
    let capacity_items = capacity_items.ok_or(CuckooError::ReserveCapacityRange)?;
    if let Some(word) = unknown {
        return Err(unknown_option(word, Command::CfReserve));
    }
    let creation = CreationOptions {
        capacity_items: Some(capacity_items),
        expansion: Some(expansion.unwrap_or(SHOWN.expansion_factor)),
        has_own_expansion: true,
        is_counting: true,
        bucket_size: bucket_size.and_then(NonZeroU8::new),
        max_iterations: max_iterations.and_then(NonZeroU16::new),
        ..creation
    };
    let settings = host.settings().cuckoo;
    let settings = CuckooSettings {
        bucket_size_slots: bucket_size.unwrap_or(settings.bucket_size_slots),
        max_iterations: max_iterations.unwrap_or(settings.max_iterations),
        expansion_factor: expansion.unwrap_or(settings.expansion_factor),
        ..settings
    };
    Ok((creation, capacity_items, settings))
}

/// Returns the error of CF.RESERVE with an option that has no value, or with a word that is no option: a capacity, after an
/// error rate as in BF.RESERVE.
fn odd_words(capacity: &[u8], words: &[&[u8]], arguments: &Arguments<'_>) -> CommandError {
    let command = arguments.command();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match find(command.spec().syntax, word) {
            Some(OptionWord::Keyed) => {}
            Some(_) => drop(rest.next()),
            None if parse_integer(capacity).is_none() => return CuckooError::BadCapacity.into(),
            None => return unknown_option(word, command),
        }
    }
    arguments.wrong_arity()
}

/// Checks the value of an option of CF.RESERVE. Returns it, if it was given.
fn checked<N: TryFrom<i64> + PartialOrd + Into<u32>>(
    option: &'static str,
    value: Option<Option<i64>>,
    range: RangeInclusive<N>,
) -> Result<Option<N>, CuckooError> {
    let Some(value) = value else { return Ok(None) };
    let value = N::try_from(value.ok_or(CuckooError::BadValue(option))?).ok();
    if let Some(value) = value
        && range.contains(&value)
    {
        return Ok(Some(value));
    }
    let (min, max) = range.into_inner();
    Err(CuckooError::Range { option, min: min.into(), max: max.into() })
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
    let command = arguments.command();
    let rules = rules(command);
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open_to_write(key);
    let outcome = match counted(open.value(), command)? {
        // As BF.ADD, without the lists of a command of many items.
        KeyValue::Present(Found::Filter(filter)) => {
            filter.add_beside_layer(item, rules.only_absent, keyspace, keyspace.prefetch())
        }
        value => {
            check_auto_create(&value, keyspace)?;
            let (outcomes, change) =
                add_occurrences(key, &[item], CreationOptions::default(), rules, value, keyspace)?;
            let effects = publish(&mut open, key, change)?;
            match outcomes.only() {
                Ok(is_added) => reply.boolean(is_added),
                Err(error) => reply.error(&CuckooError::Add(error).to_string()),
            }
            return Ok(effects);
        }
    };
    let (key, times, has_foreign_words) = (key.bytes, None, false);
    let added = SingleAdd { key, item, outcome, times, has_foreign_words, is_cuckoo: true };
    added.finish(&mut open, keyspace, reply)
}

/// Adds items to the value of a key, or to a new filter with the given options. O(items).
///
/// # Errors
/// The command is refused. Nothing has changed.
#[inline(always)]
fn add_occurrences<'a>(
    key: KeyName<'a>,
    items: &[&'a [u8]],
    given: CreationOptions,
    rules: AddRules,
    value: KeyValue<ValueMut<'_>>,
    host: &impl Keyspace,
) -> Result<(ItemOutcomes, KeyChange<'a>), CommandError> {
    let (options, slot) = match value.present()? {
        Some(Found::Cuckoo(filter)) => {
            let has_foreign_words = given.error_rate.is_some() || given.has_foreign_words();
            return add_to_cuckoo(key, items, rules, filter, CuckooSource::Sent { has_foreign_words }, host);
        }
        None if makes_cuckoo(host) => {
            let settings = host.settings().cuckoo;
            let default_items = settings.initial_size_items.max(host.cuckoo_capacity_min_items());
            let capacity_items = given.capacity_items.unwrap_or(default_items);
            let (mut filter, creation) = new_cuckoo(key, &given, capacity_items, &settings, host)?;
            let (outcomes, change) =
                add_to_cuckoo(key, items, rules, &mut filter, CuckooSource::New(creation), host)?;
            return Ok((outcomes, KeyChange { publish: Some(Value::Cuckoo(filter)), ..change }));
        }
        // An existing filter ignores the options. Copies do not follow a counting filter.
        Some(Found::Filter(filter)) => (given, KeyValue::Present((filter, None))),
        None => (counting_options(given), KeyValue::Vacant),
    };
    add_items(key.bytes, &items, &options, rules, slot, host, host.prefetch())
}

/// How replicas get a cuckoo filter to which items are added.
enum CuckooSource<'a> {
    /// The filter exists. The command may be replicated as it was sent, unless it has options that RedisBloom lacks.
    Sent { has_foreign_words: bool },
    /// The filter is new, and these commands create it.
    New(Vec<ReplicatedCommand<'a>>),
}

/// Adds items to a cuckoo filter.
///
/// # Errors
/// The filter has as many arrays as it may have, or there is no memory for the outcomes. Nothing has changed.
fn add_to_cuckoo<'a>(
    key: KeyName<'a>,
    items: &[&'a [u8]],
    rules: AddRules,
    filter: &mut CuckooFilter,
    source: CuckooSource<'a>,
    host: &impl Keyspace,
) -> Result<(ItemOutcomes, KeyChange<'a>), CommandError> {
    if filter.release() == CuckooRelease::Old {
        return Err(CuckooError::OldRelease.into());
    }
    // Replicas and loads have what their source has.
    if filter.arrays().len() >= host.settings().cuckoo.max_expansions && !host.is_replicated() {
        return Err(CuckooError::MaximumExpansions.into());
    }
    let buffer = argument_buffer(items.len())?;
    let mut outcomes = ItemOutcomes::with_capacity(items.len())?;
    let arrays = filter.arrays().len();
    let read = if rules.only_absent { Arrays::All } else { Arrays::Newest };
    CuckooFilter::for_each_hash(&mut *filter, items, read, host.prefetch(), |filter, hash| {
        let is_present = rules.only_absent && filter.contains_hash(hash);
        outcomes.push(if is_present { Ok(false) } else { filter.add(hash, host).map(|()| true) });
    });
    outcomes.check(host)?;
    let is_verbatim = matches!(source, CuckooSource::Sent { has_foreign_words: false });
    let replication = if is_verbatim && outcomes.items_added == items.len() as u64 {
        Replication::Verbatim
    } else {
        let mut commands = if let CuckooSource::New(commands) = source { commands } else { Vec::new() };
        if outcomes.items_added > 0 {
            let head = [Cow::Borrowed(key.bytes), word("NOCREATE"), word("ITEMS")];
            let added = outcomes.added(items.iter().copied()).map(Cow::Borrowed);
            commands.push(ReplicatedCommand::of_items("CF.INSERT", head, added, buffer));
        }
        if commands.is_empty() { Replication::None } else { Replication::Rewritten(commands) }
    };
    let layers_added = count_of(filter.arrays().len().saturating_sub(arrays));
    let effects = Effects { replication, layers_added, ..outcomes.effects(items.len()) };
    Ok((outcomes, KeyChange { publish: None, expires_at_ms: None, effects }))
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
    let command = arguments.command();
    let rules = rules(command);
    let key = arguments.key()?;
    let mut given = CommandOptions::default();
    given.read(&mut arguments, Some("ITEMS"), keyspace)?;
    let items = arguments.items()?;
    let mut open = keyspace.open_to_write(key);
    let value = counted(open.value(), command)?;
    if given.no_create && matches!(value, KeyValue::Vacant) {
        return Err(CommandError::NotFound);
    }
    let (outcomes, change) = add_occurrences(key, items, given.creation, rules, value, keyspace)?;
    let effects = publish(&mut open, key, change)?;
    outcomes.write_occurrences(rules.only_absent, reply);
    Ok(effects)
}

/// CF.EXISTS: `key item`. O(1).
pub(super) fn exists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let key = keyspace.open_to_read(key);
    let is_found = found(own(key.value()))?.is_some_and(|filter| filter.contains(item, keyspace));
    reply.boolean(is_found);
    Ok(Effects::of_checks(1, u32::from(is_found)))
}

/// CF.MEXISTS: `key item [item ...]`. O(items).
pub(super) fn mexists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let key = keyspace.open_to_read(key);
    let filter = found(own(key.value()))?;
    reply.array(items.len());
    let items_found = match filter {
        Some(filter) => filter.contains_many(items, keyspace, |found| reply.boolean(found)),
        None => {
            items.iter().for_each(|_| reply.boolean(false));
            0
        }
    };
    Ok(Effects::of_checks(items.len(), items_found))
}

/// CF.COUNT: `key item`. O(1).
pub(super) fn count<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let key = keyspace.open_to_read(key);
    let occurrences = found(own(key.value()))?.map_or(0, |filter| filter.occurrences(item, keyspace));
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
    let command = arguments.command();
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open_to_write(key);
    let is_deleted = match found(counted(open.value(), command)?)?.ok_or(CuckooError::NotFound)? {
        Found::Filter(filter) => {
            filter.remove(item, keyspace.prefetch()).map_err(|OutOfMemory| CommandError::OutOfMemory)?
        }
        Found::Cuckoo(filter) => filter.delete(item),
    };
    reply.boolean(is_deleted);
    if !is_deleted {
        return Ok(Effects::default());
    }
    open.changed(0, None);
    Ok(Effects { replication: Replication::Verbatim, items_deleted: 1, ..Effects::default() })
}

/// CF.INFO: `key`. O(1).
pub(super) fn info<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let command = arguments.command();
    let key = keyspace.open_to_read(arguments.key()?);
    let numbers = counted(key.value(), command)?.required()?.numbers();
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.simple(name);
        reply.integer(number);
    }
    Ok(Effects::default())
}

/// CF.DEBUG: `key`. O(1).
pub(super) fn debug<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let command = arguments.command();
    let key = keyspace.open_to_read(arguments.key()?);
    let numbers = counted(key.value(), command)?.required()?.numbers().map(|(_, number)| number);
    let [_, buckets, filters, items, deletes, bucket_size, expansion, iterations] = numbers;
    let line = format!(
        "bktsize:{bucket_size} buckets:{buckets} items:{items} deletes:{deletes} filters:{filters} \
         max_iterations:{iterations} expansion:{expansion}"
    );
    reply.bulk(line.as_bytes());
    Ok(Effects::default())
}

/// CF.COMPACT: `key`. Moves the items of a cuckoo filter to fewer arrays. A counting filter frees the memory of deleted
/// items at once. O(bytes) for a cuckoo filter.
pub(super) fn compact<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let command = arguments.command();
    let mut key = keyspace.open_to_write(arguments.key()?);
    let has_changed = match found(counted(key.value(), command)?)?.ok_or(CuckooError::NothingToCompact)? {
        Found::Filter(_) => false,
        Found::Cuckoo(filter) => filter.compact(true),
    };
    reply.simple("OK");
    if !has_changed {
        return Ok(Effects::default());
    }
    key.changed(0, None);
    Ok(Effects { replication: Replication::Verbatim, ..Effects::default() })
}

/// CF.SCANDUMP: `key iterator`. As BF.SCANDUMP, but the dump ends with a null, and an empty filter has no chunks.
/// O(bytes of the chunk).
pub(super) fn scan_dump<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let command = arguments.command();
    let (key, iterator) = (arguments.key()?, arguments.required()?);
    let iterator = parse_integer(iterator).and_then(|iterator| u64::try_from(iterator).ok());
    let iterator = iterator.ok_or(CuckooError::Position)?;
    let mut key = keyspace.open_to_read(key);
    let chunk = match counted(key.value(), command)?.required()? {
        Found::Filter(filter) if filter.items() > 0 => chunk_at(&mut key, iterator, keyspace)?,
        Found::Cuckoo(filter) if filter.release() == CuckooRelease::Old => {
            return Err(CuckooError::OldRelease.into());
        }
        Found::Cuckoo(filter) if filter.items() > 0 && !filter.has_header() => {
            return Err(CuckooError::NoHeader.into());
        }
        Found::Cuckoo(filter) if filter.items() > 0 => format::chunk(filter, iterator),
        Found::Filter(_) | Found::Cuckoo(_) => None,
    };
    if let Some(chunk) = &chunk {
        Spare::for_copy(chunk.data.len())?.free();
    }
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

/// CF.LOADCHUNK: `key iterator data`. As BF.LOADCHUNK, for counting filters; or the header or a chunk of a cuckoo filter.
/// O(bytes).
///
/// # Errors
/// The chunk is refused. The key is unchanged.
pub(super) fn load_chunk<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let command = arguments.command();
    let (key, iterator, data) = (arguments.key()?, arguments.required()?, arguments.required()?);
    let iterator = parse_integer(iterator).filter(|iterator| *iterator != 0).ok_or(CuckooError::Position)?;
    // A negative iterator becomes 0, which no chunk has.
    let iterator = u64::try_from(iterator).unwrap_or(0);
    let mut open = keyspace.open_to_write(key);
    let change = match counted(open.value(), command)? {
        KeyValue::Vacant if iterator == format::HEADER_ITERATOR => {
            let filter = format::from_header(data, keyspace).map_err(|error| match error {
                DecodeError::Truncated => CuckooError::Header,
                _ => CuckooError::Create,
            })?;
            KeyChange::received(Some(Value::Cuckoo(Box::new(filter))), true)
        }
        KeyValue::Vacant if is_header(iterator, data) => {
            KeyChange::received(Some(created(data, keyspace)?), true)
        }
        KeyValue::Present(_) if is_header(iterator, data) => return Err(CommandError::ItemExists),
        KeyValue::Present(Found::Cuckoo(filter)) => {
            let has_changed = format::load_chunk(filter, iterator, data).map_err(|_| CuckooError::Chunk)?;
            KeyChange::received(None, has_changed)
        }
        KeyValue::WrongType => return Err(CommandError::WrongType),
        KeyValue::InUse => return Err(CommandError::InUse),
        KeyValue::Vacant | KeyValue::Loading | KeyValue::Present(Found::Filter(_)) => {
            let has_changed =
                add_chunk(&mut open, iterator, data, keyspace).map_err(|error| match error {
                    CommandError::BadData => CuckooError::Chunk.into(),
                    error => error,
                })?;
            KeyChange::received(None, has_changed)
        }
    };
    let effects = publish(&mut open, key, change)?;
    reply.simple("OK");
    Ok(effects)
}

/// Returns the counting filter that a header describes.
fn created(data: &[u8], host: &dyn Host) -> Result<Value, CommandError> {
    let value = filter_of_header(data, host).map_err(|error| match error {
        CommandError::BadData => CuckooError::Header.into(),
        CommandError::Reserve(_) => CuckooError::Create.into(),
        error => error,
    })?;
    match &value {
        Value::Loading(loading) if loading.filter().kind() == Kind::Counting => Ok(value),
        _ => Err(CuckooError::Header.into()),
    }
}
