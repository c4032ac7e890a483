//! BF.RESERVE.

use super::arguments::Arguments;
use super::change::{Change, publish};
use super::creation::{CreationOptions, creation, spec};
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey, Slot};
use super::number::{in_range, is_ratio, parse_double, parse_integer};
use super::options::Options;
use super::reply::Reply;
use super::settings::Host;
use super::table::KeyAccess;
use crate::bloom::limits::EXPANSION_MAX;
use crate::bloom::{Filter, Format};

/// BF.RESERVE: `key error_rate capacity [EXPANSION n] [NONSCALING] [SATURATE] [KEYED] [FORMAT format]
/// [COUNTING] [WINDOW s | PWINDOW ms] [NOREFRESH] [EX s | PX ms | EXAT s | PXAT ms] [IFNOTEXISTS]`. O(1).
///
/// # Errors
/// The first rule of the grammar that is broken, in RedisBloom's order; then a key that is taken, and a
/// filter that cannot be made.
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let Reserve { options, if_not_exists } = Reserve::parse(arguments, keyspace)?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    match open.slot() {
        Slot::Vacant => {}
        Slot::WrongType => return Err(CommandError::WrongType),
        Slot::Filter(_) if if_not_exists => {
            reply.integer(0);
            return Ok(Effects::default());
        }
        Slot::Filter(_) => return Err(CommandError::ItemExists),
    }
    let filter = Filter::reserve(spec(&options, keyspace)?, keyspace).map_err(CommandError::Reserve)?;
    let lines = creation(&filter).lines(key.bytes, std::iter::empty(), Vec::new());
    let change = Change::made(Box::new(filter), lines).expiring(options.expires_at_ms);
    let ((), effects) = publish(&mut open, key, change)?;
    if if_not_exists {
        reply.integer(1)
    } else {
        reply.simple("OK")
    }
    Ok(effects)
}

/// BF.RESERVE with its arguments understood.
struct Reserve {
    options: CreationOptions,
    /// Whether a filter that is there is no error.
    if_not_exists: bool,
}

impl Reserve {
    /// Reads the arguments behind the key. RedisBloom checks the numbers before the options, and the range of EXPANSION last.
    fn parse(mut arguments: Arguments<'_>, host: &dyn Host) -> Result<Self, CommandError> {
        let error_rate = parse_double(arguments.required()?).ok_or(CommandError::ReserveErrorRate)?;
        if !is_ratio(error_rate) {
            return Err(CommandError::ReserveErrorRateRange);
        }
        let capacity = parse_integer(arguments.required()?).ok_or(CommandError::ReserveCapacity)?;
        let mut given = Options::default();
        let are_good = given.read(&mut arguments, None, host);
        // The format decides the range. Options that are bad say nothing of it.
        let mut options = if are_good.is_ok() { given.creation } else { CreationOptions::default() };
        // A replicated creation of another format is a BF.INSERT; every creation of RedisBloom is a BF.RESERVE.
        if host.must_obey() && !options.is_counting && options.window_ms.is_none() {
            options.format = options.format.or(Some(Format::RedisBloom));
        }
        let max_items = options.capacity_max_items(host);
        let capacity_items = in_range(capacity, max_items);
        options.error_rate = Some(error_rate);
        options.capacity_items =
            Some(capacity_items.ok_or(CommandError::ReserveCapacityRange { max_items })?);
        are_good?;
        options.expansion = expansion(&given, host)?;
        options.validate(host)?;
        Ok(Self { options, if_not_exists: given.if_not_exists })
    }
}

/// Returns the growth factor; 0 goes with everything.
fn expansion(given: &Options, host: &dyn Host) -> Result<Option<u32>, CommandError> {
    let factor = match given.expansion {
        None => return Ok(None),
        Some(0) => return Ok(Some(0)),
        Some(factor) => factor,
    };
    // As in RedisBloom a factor does not override the configured `fixed`; that of a replicated creation does.
    if given.creation.is_fixed || (host.settings().expansion_factor == 0 && !host.must_obey()) {
        return Err(CommandError::ReserveFixedExpansion);
    }
    let factor = u32::try_from(factor).ok().filter(|factor| *factor <= EXPANSION_MAX);
    factor.map(Some).ok_or(CommandError::ReserveExpansionRange)
}
