//! BF.RESERVE and BF.INSERT: their grammars, and making an empty filter.

use super::Slot;
use super::arguments::Arguments;
use super::creation::{Creation, CreationOptions};
use super::effects::{Effects, Replication};
use super::error::{CommandError, quotable};
use super::number::{parse_double, parse_integer};
use super::settings::Host;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::bloom::{Filter, Format};

/// BF.RESERVE with its arguments understood.
#[derive(Debug)]
pub struct Reserve<'a> {
    key: &'a [u8],
    options: CreationOptions,
}

impl<'a> Reserve<'a> {
    /// Reads `error_rate capacity [EXPANSION n] [NONSCALING] [FORMAT format]`.
    ///
    /// # Errors
    /// The first rule that is broken, in RedisBloom's order.
    pub fn parse(key: &'a [u8], mut arguments: Arguments<'a>, host: &dyn Host) -> Result<Self, CommandError> {
        let error_rate = parse_double(arguments.required()?).ok_or(CommandError::ReserveErrorRate)?;
        if !is_ratio(error_rate) {
            return Err(CommandError::ReserveErrorRateRange);
        }
        let capacity = parse_integer(arguments.required()?).ok_or(CommandError::ReserveCapacity)?;
        let mut options = CreationOptions { error_rate: Some(error_rate), ..CreationOptions::default() };
        // The format decides the range, which is judged before the option words.
        let words = Words::parse(arguments);
        // A primary that spells its filters out uses this command for RedisBloom's only, and RedisBloom for all of its.
        let obeyed_format = host.must_obey().then_some(Format::RedisBloom);
        options.format = words.as_ref().ok().and_then(|words| words.format).or(obeyed_format);
        let max_items = options.capacity_max_items(host);
        let capacity_items = in_range(capacity, max_items);
        options.capacity_items =
            Some(capacity_items.ok_or(CommandError::ReserveCapacityRange { max_items })?);
        let words = words?;
        options.expansion = words.expansion(host)?;
        options.is_fixed = words.is_fixed;
        Ok(Self { key, options })
    }

    /// Makes the filter. O(1).
    ///
    /// # Errors
    /// When the key is taken or the filter cannot be made.
    pub fn run(self, slot: &Slot<&mut Filter>, host: &dyn Host) -> Result<Effects<'a>, CommandError> {
        match slot {
            Slot::WrongType => return Err(CommandError::WrongType),
            Slot::Filter(_) => return Err(CommandError::ItemExists),
            Slot::Vacant => {}
        }
        let blueprint = self.options.blueprint(host)?;
        let filter = Filter::reserve(blueprint, host).map_err(CommandError::Reserve)?;
        let lines = Creation::of(&blueprint, &filter).lines(self.key, std::iter::empty(), Vec::new());
        Ok(Effects {
            publish: Some(Box::new(filter)),
            replication: Replication::Rewritten(lines),
            created: true,
            items_added: 0,
        })
    }
}

/// The option words of BF.RESERVE. What they say of each other is judged after the numbers before them.
struct Words {
    is_fixed: bool,
    expansion: Option<i64>,
    format: Option<Format>,
}

impl Words {
    fn parse(mut arguments: Arguments<'_>) -> Result<Self, CommandError> {
        let mut words = Self { is_fixed: false, expansion: None, format: None };
        while let Some(word) = arguments.optional() {
            if word.eq_ignore_ascii_case(b"NONSCALING") {
                words.is_fixed = true;
            } else if word.eq_ignore_ascii_case(b"EXPANSION") {
                let value = arguments.optional().ok_or(CommandError::ReserveNoExpansion)?;
                words.expansion = Some(parse_integer(value).ok_or(CommandError::ReserveExpansion)?);
            } else if word.eq_ignore_ascii_case(b"FORMAT") {
                let format = arguments.optional().and_then(Format::from_name);
                words.format = Some(format.ok_or(CommandError::UnknownFormat)?);
            } else {
                return Err(CommandError::ReserveUnknownArgument(quotable(word)));
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

/// BF.INSERT with its arguments understood.
#[derive(Debug)]
pub struct Insert<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The items; none to make an empty filter.
    pub items: &'a [&'a [u8]],
    /// What a filter that is not there yet shall be.
    pub options: CreationOptions,
    /// Whether a filter that is not there is an error.
    pub no_create: bool,
}

impl<'a> Insert<'a> {
    /// Reads `[CAPACITY c] [ERROR e] [EXPANSION x] [NOCREATE] [NONSCALING] [FORMAT f] [SEED s] [TIGHTENING t]
    /// [VALIDATESCALETO n] ITEMS item [item ...]`. The last of a repeated option counts, and NONSCALING beats EXPANSION,
    /// as in RedisBloom. Without ITEMS, as valkey-bloom sends it, only a filter is made; a client has to ask for
    /// valkey-bloom's format to do so, because RedisBloom refuses it.
    ///
    /// # Errors
    /// The first rule that is broken, from left to right; then what the options say of each other.
    pub fn parse(key: &'a [u8], mut arguments: Arguments<'a>, host: &dyn Host) -> Result<Self, CommandError> {
        let mut insert = Self { key, items: &[], options: CreationOptions::default(), no_create: false };
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
                insert.option(word, &mut arguments)?;
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
    fn option(&mut self, word: &[u8], arguments: &mut Arguments<'a>) -> Result<(), CommandError> {
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
        } else if word.eq_ignore_ascii_case(b"FORMAT") {
            let format = Format::from_name(arguments.required()?);
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
        } else if word.eq_ignore_ascii_case(b"VALIDATESCALETO") {
            let items = parse_integer(arguments.required()?).and_then(|items| in_range(items, u64::MAX));
            options.scale_to_items = Some(items.ok_or(CommandError::InsertCapacity)?);
        } else {
            return Err(CommandError::InsertUnknownArgument);
        }
        Ok(())
    }
}

/// Whether a number lies strictly between 0 and 1.
pub(super) fn is_ratio(number: f64) -> bool {
    number > 0.0 && number < 1.0
}

/// A number from 1 to `max`.
fn in_range(value: i64, max: u64) -> Option<u64> {
    u64::try_from(value).ok().filter(|value| (1..=max).contains(value))
}
