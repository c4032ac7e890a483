//! BF.RESERVE.

use super::arguments::Arguments;
use super::change::{Change, publish};
use super::creation::{CreationOptions, creation, spec};
use super::effects::Effects;
use super::error::{CommandError, quotable};
use super::expiry;
use super::keyspace::{Keyspace, OpenKey, Slot};
use super::number::{in_range, is_ratio, parse_double, parse_integer};
use super::reply::Reply;
use super::settings::Host;
use super::table::KeyAccess;
use super::window;
use super::words::Word;
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
    /// Whether a filter that is there is an answer and no error.
    if_not_exists: bool,
}

impl Reserve {
    fn parse(mut arguments: Arguments<'_>, host: &dyn Host) -> Result<Self, CommandError> {
        let error_rate = parse_double(arguments.required()?).ok_or(CommandError::ReserveErrorRate)?;
        if !is_ratio(error_rate) {
            return Err(CommandError::ReserveErrorRateRange);
        }
        let capacity = parse_integer(arguments.required()?).ok_or(CommandError::ReserveCapacity)?;
        let mut options = CreationOptions { error_rate: Some(error_rate), ..CreationOptions::default() };
        // The format decides the range, which is judged before the option words.
        let words = Words::parse(arguments, host);
        // A primary that spells its filters out uses this command for RedisBloom's only, and RedisBloom for
        // all of its.
        let obeyed_format = host.must_obey().then_some(Format::RedisBloom);
        options.is_counting = words.as_ref().is_ok_and(|words| words.is_counting);
        options.format = words.as_ref().ok().and_then(|words| words.format);
        options.window_ms = words.as_ref().ok().and_then(|words| words.window_ms);
        if !options.is_counting && options.window_ms.is_none() {
            options.format = options.format.or(obeyed_format);
        }
        let max_items = options.capacity_max_items(host);
        let capacity_items = in_range(capacity, max_items);
        options.capacity_items =
            Some(capacity_items.ok_or(CommandError::ReserveCapacityRange { max_items })?);
        let words = words?;
        options.expansion = words.expansion(host)?;
        options.is_fixed = words.is_fixed;
        options.is_saturating = words.is_saturating;
        options.is_keyed = words.is_keyed;
        options.no_refresh = words.no_refresh;
        options.expires_at_ms = words.expires_at_ms;
        options.validate(host)?;
        Ok(Self { options, if_not_exists: words.if_not_exists })
    }
}

/// The option words of BF.RESERVE. What they say of each other is judged after the numbers before them.
#[derive(Default)]
struct Words {
    is_fixed: bool,
    is_saturating: bool,
    is_keyed: bool,
    expansion: Option<i64>,
    format: Option<Format>,
    is_counting: bool,
    window_ms: Option<u64>,
    no_refresh: bool,
    expires_at_ms: Option<u64>,
    if_not_exists: bool,
}

impl Words {
    fn parse(mut arguments: Arguments<'_>, host: &dyn Host) -> Result<Self, CommandError> {
        let mut words = Self::default();
        while let Some(word) = arguments.optional() {
            if word.eq_ignore_ascii_case(b"NONSCALING") {
                words.is_fixed = true;
            } else if word.eq_ignore_ascii_case(b"SATURATE") {
                words.is_saturating = true;
            } else if word.eq_ignore_ascii_case(b"KEYED") {
                words.is_keyed = true;
            } else if word.eq_ignore_ascii_case(b"EXPANSION") {
                let value = arguments.optional().ok_or(CommandError::ReserveNoExpansion)?;
                words.expansion = Some(parse_integer(value).ok_or(CommandError::ReserveExpansion)?);
            } else if word.eq_ignore_ascii_case(b"COUNTING") {
                words.is_counting = true;
            } else if word.eq_ignore_ascii_case(b"FORMAT") {
                let format = arguments.optional().and_then(Format::named);
                words.format = Some(format.ok_or(CommandError::UnknownFormat)?);
            } else if word.eq_ignore_ascii_case(b"IFNOTEXISTS") {
                words.if_not_exists = true;
            } else if word.eq_ignore_ascii_case(b"NOREFRESH") {
                words.no_refresh = true;
            } else if let Some(window_ms) = window::option(word, &mut arguments)? {
                words.window_ms = Some(window_ms);
            } else {
                let expires_at_ms = expiry::option(word, words.expires_at_ms, &mut arguments, host)?;
                if expires_at_ms.is_none() {
                    return Err(CommandError::ReserveUnknownArgument(quotable(word)));
                }
                words.expires_at_ms = expires_at_ms;
            }
        }
        Ok(words)
    }

    /// The growth factor; 0 goes with everything.
    fn expansion(&self, host: &dyn Host) -> Result<Option<u32>, CommandError> {
        let factor = match self.expansion {
            None => return Ok(None),
            Some(0) => return Ok(Some(0)),
            Some(factor) => factor,
        };
        // As in RedisBloom a factor does not override the configured `fixed`; but a primary with another
        // configuration, which spells its factor out, is obeyed.
        if self.is_fixed || (host.settings().expansion_factor == 0 && !host.must_obey()) {
            return Err(CommandError::ReserveFixedExpansion);
        }
        let factor = u32::try_from(factor).ok().filter(|factor| *factor <= EXPANSION_MAX);
        factor.map(Some).ok_or(CommandError::ReserveExpansionRange)
    }
}
