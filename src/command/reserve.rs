//! Empty filters: BF.RESERVE creates one, and BF.CLEAR empties one.

use super::arguments::Arguments;
use super::creation::spec;
use super::effects::{Effects, KeyChange, Replication, publish};
use super::error::CommandError;
use super::keyspace::{Host, KeyName, KeyValue, Keyspace, Reply, Value, WriteKey};
use super::number::{is_ratio, parse_double, parse_integer};
use super::options::{CommandOptions, CreationOptions};
use super::replicated::Creation;
use everbloom_filter::limits::EXPANSION_MAX;
use everbloom_filter::{ByteLimit, Filter, Format, Limit};

/// BF.RESERVE: `key error_rate capacity [EXPANSION n] [NONSCALING] [SATURATE] [KEYED] [FORMAT format]
/// [COUNTING] [WINDOW s | PWINDOW ms] [NOREFRESH] [EX s | PX ms | EXAT s | PXAT ms] [IFNOTEXISTS]`. O(1).
///
/// # Errors
/// The first bad argument, in RedisBloom's order. If all are good: the key exists, an option differs from the existing
/// filter, or the filter cannot be created.
pub(super) fn reserve<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let (options, if_not_exists) = parse(arguments, keyspace)?;
    let mut open = keyspace.open_to_write(key);
    match open.slot() {
        KeyValue::Vacant => {}
        KeyValue::Present(filter) if if_not_exists => {
            options.check_existing(filter, keyspace)?;
            reply.integer(0);
            return Ok(Effects::default());
        }
        value => value.vacant(CommandError::ItemExists)?,
    }
    let effects = publish(&mut open, key, creation(key, &options, keyspace)?)?;
    if if_not_exists {
        reply.integer(1)
    } else {
        reply.simple("OK")
    }
    Ok(effects)
}

/// Returns the change that creates an empty filter with these options.
pub(super) fn creation<'a>(
    key: KeyName<'a>,
    options: &CreationOptions,
    host: &dyn Host,
) -> Result<KeyChange<'a>, CommandError> {
    let filter = Filter::reserve(spec(options, host)?, host).map_err(CommandError::Reserve)?;
    let commands = Creation::of(&filter).commands(key.bytes, std::iter::empty(), Vec::new());
    Ok(KeyChange::created(Value::Filter(Box::new(filter)), commands, options.expires_at_ms))
}

/// Reads the arguments after the key. Returns the options, and whether the filter may exist already.
///
/// RedisBloom checks the numbers before the options, and the range of EXPANSION last.
fn parse(mut arguments: Arguments<'_>, host: &dyn Host) -> Result<(CreationOptions, bool), CommandError> {
    let error_rate = parse_double(arguments.required()?).ok_or(CommandError::ReserveErrorRate)?;
    if !is_ratio(error_rate) {
        return Err(CommandError::ReserveErrorRateRange);
    }
    let capacity = parse_integer(arguments.required()?).ok_or(CommandError::ReserveCapacity)?;
    let mut given = CommandOptions::default();
    let are_good = given.read(&mut arguments, None, host);
    // The range of the capacity depends on the format. If an option is bad, the format of the settings is used.
    let mut options = if are_good.is_ok() { given.creation } else { CreationOptions::default() };
    // RedisBloom replicates every creation as BF.RESERVE. Other creations are replicated as BF.INSERT.
    if host.is_replicated() && !options.is_counting && options.window_ms.is_none() {
        options.format = options.format.or(Some(Format::RedisBloom));
    }
    let max_items = options.capacity_max_items(host);
    let capacity_items = u64::try_from(capacity).ok().filter(|items| (1..=max_items).contains(items));
    options.error_rate = Some(error_rate);
    options.capacity_items = Some(capacity_items.ok_or(CommandError::ReserveCapacityRange { max_items })?);
    are_good?;
    options.expansion = expansion(&given, host)?;
    if !given.if_not_exists {
        options.validate(host)?;
    }
    Ok((options, given.if_not_exists))
}

/// Returns the value of EXPANSION; `None` without it. EXPANSION 0 can be combined with all other options.
fn expansion(given: &CommandOptions, host: &dyn Host) -> Result<Option<u32>, CommandError> {
    let factor = match given.expansion {
        None => return Ok(None),
        Some(0) => return Ok(Some(0)),
        Some(factor) => factor,
    };
    // As in RedisBloom, a factor does not override `bf.expansion-factor 0`, unless the command is replicated.
    if given.creation.is_fixed || (host.settings().expansion_factor == 0 && !host.is_replicated()) {
        return Err(CommandError::ReserveFixedExpansion);
    }
    let factor = u32::try_from(factor).ok().filter(|factor| *factor <= EXPANSION_MAX);
    factor.map(Some).ok_or(CommandError::ReserveExpansionRange)
}

/// BF.CLEAR: `key`. Empties a filter, which keeps its parameters and its time to live. O(1): large memory is freed in
/// the background.
///
/// Nothing is replicated or notified if the filter was empty.
///
/// # Errors
/// There is no filter under the key. The empty filter would be larger than the present one and than the limit. There is
/// no memory for it. The filter is unchanged in all cases.
pub(super) fn clear<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open_to_write(arguments.key()?);
    let filter = key.slot().required()?;
    if filter.is_empty() {
        reply.simple("OK");
        return Ok(Effects::default());
    }
    // The size must be checked, because a filter from a crafted header can have a large first layer. The current size
    // is allowed, because the limit may have been lowered since the filter was created.
    let limit = AtLeast { bytes: filter.size_bytes(), limit: keyspace };
    let emptied = filter.try_emptied(&limit).map_err(CommandError::Reserve)?;
    key.replace(emptied);
    reply.simple("OK");
    Ok(Effects { replication: Replication::Verbatim, cleared: true, ..Effects::default() })
}

/// A limit, or `bytes` if these are more.
struct AtLeast<'l, L> {
    bytes: u64,
    limit: &'l L,
}

impl<L: ByteLimit> AtLeast<'_, L> {
    fn raised(&self, limit: Limit) -> Limit {
        Limit { bytes: limit.bytes.max(self.bytes), ..limit }
    }
}

impl<L: ByteLimit> ByteLimit for AtLeast<'_, L> {
    fn limit(&self) -> Limit {
        self.raised(self.limit.limit())
    }

    fn limit_again(&self, limit: Limit) -> Limit {
        self.raised(self.limit.limit_again(limit))
    }
}
