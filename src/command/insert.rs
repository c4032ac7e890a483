//! BF.INSERT.

use super::adding::Adds;
use super::arguments::Arguments;
use super::change::publish;
use super::creation::CreationOptions;
use super::effects::Effects;
use super::error::CommandError;
use super::expiry;
use super::keyspace::{Keyspace, OpenKey, Slot};
use super::number::{in_range, is_ratio, parse_double, parse_integer};
use super::reply::Reply;
use super::settings::Host;
use super::table::KeyAccess;
use super::window;
use super::words::Word;
use crate::bloom::Format;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};

/// BF.INSERT: `key [CAPACITY c] [ERROR e] [EXPANSION x] [NOCREATE] [NONSCALING] [SATURATE] [KEYED]
/// [KEY k] [FORMAT f] [COUNTING] [WINDOW s | PWINDOW ms] [NOREFRESH] [AT ms] [SEED s] [TIGHTENING t] [VALIDATESCALETO n] [EX s | PX ms | EXAT s | PXAT
/// ms] ITEMS item [item ...]`. O(items * layers * probes).
///
/// The last of a repeated option counts, and NONSCALING beats EXPANSION, as in RedisBloom. Without ITEMS, as
/// valkey-bloom sends it, only a filter is made; a client has to ask for valkey-bloom's format to do so,
/// because RedisBloom refuses it.
///
/// # Errors
/// The first rule that is broken, from left to right; then what the options say of each other; then that
/// there is no filter to add to and none can be made.
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let Insert { items, options, no_create } = Insert::parse(arguments, keyspace)?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let change = match open.slot() {
        Slot::Vacant if no_create => return Err(CommandError::NotFound),
        slot => Adds { key: key.bytes, items, options }.run(slot, keyspace, keyspace.prefetch())?,
    };
    let (answers, effects) = publish(&mut open, key, change)?;
    answers.write(reply);
    Ok(effects)
}

/// BF.INSERT with its arguments understood.
#[derive(Debug)]
struct Insert<'a> {
    /// The items; none to make an empty filter.
    items: &'a [&'a [u8]],
    /// What a filter that is not there yet shall be.
    options: CreationOptions,
    /// Whether a filter that is not there is an error.
    no_create: bool,
}

impl<'a> Insert<'a> {
    fn parse(mut arguments: Arguments<'a>, host: &dyn Host) -> Result<Self, CommandError> {
        let mut insert = Self { items: &[], options: CreationOptions::default(), no_create: false };
        let mut capacity = None;
        let mut has_items = false;
        while let Some(word) = arguments.optional() {
            if word.eq_ignore_ascii_case(b"ITEMS") {
                has_items = true;
                break;
            }
            if word.eq_ignore_ascii_case(b"CAPACITY") {
                let items = parse_integer(arguments.required()?).ok_or(CommandError::InsertCapacity)?;
                // The format may narrow the range; it may yet come.
                capacity = Some(in_range(items, CAPACITY_MAX_ITEMS).ok_or(CommandError::InsertCapacity)?);
            } else {
                insert.option(word, &mut arguments, host)?;
            }
        }
        if let Some(capacity) = capacity {
            if capacity > insert.options.capacity_max_items(host) {
                return Err(CommandError::InsertCapacity);
            }
            insert.options.capacity_items = Some(capacity);
        }
        insert.options.validate(host)?;
        let may_be_empty =
            insert.options.resolved_format(&host.settings()) == Format::ValkeyBloom || host.must_obey();
        if has_items || !may_be_empty {
            insert.items = arguments.items()?;
        }
        Ok(insert)
    }

    /// Reads one option other than CAPACITY.
    fn option(
        &mut self,
        word: &[u8],
        arguments: &mut Arguments<'a>,
        host: &dyn Host,
    ) -> Result<(), CommandError> {
        let options = &mut self.options;
        if word.eq_ignore_ascii_case(b"ERROR") {
            let rate = parse_double(arguments.required()?).filter(|rate| is_ratio(*rate));
            options.error_rate = Some(rate.ok_or(CommandError::InsertErrorRate)?);
        } else if word.eq_ignore_ascii_case(b"EXPANSION") {
            let factor = parse_integer(arguments.required()?).and_then(|factor| u32::try_from(factor).ok());
            let factor =
                factor.filter(|factor| *factor <= EXPANSION_MAX).ok_or(CommandError::InsertExpansion)?;
            options.expansion = Some(factor);
        } else if word.eq_ignore_ascii_case(b"NOCREATE") {
            self.no_create = true;
        } else if word.eq_ignore_ascii_case(b"NONSCALING") {
            options.is_fixed = true;
        } else if word.eq_ignore_ascii_case(b"SATURATE") {
            options.is_saturating = true;
        } else if word.eq_ignore_ascii_case(b"COUNTING") {
            options.is_counting = true;
        } else if word.eq_ignore_ascii_case(b"KEYED") {
            options.is_keyed = true;
        } else if word.eq_ignore_ascii_case(b"KEY") {
            let key = arguments.required()?.try_into();
            options.key = Some(key.map_err(|_| CommandError::BadKey)?);
        } else if word.eq_ignore_ascii_case(b"FORMAT") {
            let format = Format::named(arguments.required()?);
            options.format = Some(format.ok_or(CommandError::UnknownFormat)?);
        } else if word.eq_ignore_ascii_case(b"SEED") {
            let seed = arguments.required()?.try_into();
            options.seed = Some(seed.map_err(|_| CommandError::BadSeed)?);
        } else if word.eq_ignore_ascii_case(b"TIGHTENING") {
            let ratio = parse_double(arguments.required()?).ok_or(CommandError::BadTightening)?;
            if !is_ratio(ratio) {
                return Err(CommandError::TighteningRange);
            }
            options.tightening_ratio = Some(ratio);
        } else if word.eq_ignore_ascii_case(b"NOREFRESH") {
            options.no_refresh = true;
        } else if word.eq_ignore_ascii_case(b"AT") {
            options.at_ms = Some(window::moment(arguments.required()?)?);
        } else if let Some(window_ms) = window::option(word, arguments)? {
            options.window_ms = Some(window_ms);
        } else if word.eq_ignore_ascii_case(b"VALIDATESCALETO") {
            let items = parse_integer(arguments.required()?).and_then(|items| in_range(items, u64::MAX));
            options.scale_to_items = Some(items.ok_or(CommandError::InsertCapacity)?);
        } else {
            let expires_at_ms = expiry::option(word, options.expires_at_ms, arguments, host)?;
            if expires_at_ms.is_none() {
                return Err(CommandError::InsertUnknownArgument);
            }
            options.expires_at_ms = expires_at_ms;
        }
        Ok(())
    }
}
