//! The options of the commands that create filters: one grammar for all.
//!
//! The table of commands lists the options of each command. This file reads their values into a struct. `creation`,
//! `import` and `cuckoo` interpret the values together.

use std::num::{NonZeroU8, NonZeroU16};

use super::arguments::Arguments;
use super::error::{CommandError, CuckooError, ImportError, quotable};
use super::keyspace::Host;
use super::number::{is_ratio, parse_double, parse_integer};
use super::suggestion::nearest;
use super::table::{ArgumentKind, ArgumentSpec, Command, OptionWord};
use super::words::Word;
use everbloom_filter::Format;
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::filter::policy::BitOrder;
use everbloom_filter::generation::Steps;
use everbloom_filter::hash::scheme::Scheme;
use everbloom_filter::hash::siphash::{KEY_BYTES, SEED_BYTES};
use everbloom_filter::limits::{
    CAPACITY_MAX_ITEMS, CUCKOO_CAPACITY_MAX_ITEMS, EXPANSION_MAX, WINDOW_MAX_MS, WINDOW_MIN_MS,
};

/// The options of a command. Each value is in its own range. Whether they can be combined is checked elsewhere. A
/// repeated option replaces the one before it.
#[derive(Debug, Default)]
pub struct CommandOptions {
    /// The options of a new filter.
    pub(super) creation: CreationOptions,
    /// The options of a client's string.
    pub(super) import: ImportOptions,
    /// The options of CF.RESERVE that it checks in another order than they are given.
    pub(super) cuckoo: CuckooOptions,
    /// EXPANSION of BF.RESERVE, which checks its range last.
    pub(super) expansion: Option<i64>,
    /// WITHIN or PWITHIN.
    pub(super) within: Option<Duration>,
    /// NOCREATE: it is an error if the filter does not exist.
    pub(super) no_create: bool,
    /// IFNOTEXISTS: it is no error if the filter exists.
    pub(super) if_not_exists: bool,
    /// REPLACE.
    pub(super) is_replacing: bool,
}

/// The value of an option that is a duration, or the end of one.
#[derive(Clone, Copy, Debug)]
pub struct Duration {
    /// The option.
    pub(super) word: OptionWord,
    /// Milliseconds: of LIFEAT and PLIFEAT of UNIX time.
    pub(super) ms: u64,
}

/// The options of a new filter. Those for items also apply to an existing one.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreationOptions {
    /// The promised error rate, strictly between 0 and 1.
    pub error_rate: Option<f64>,
    /// The capacity, at least 1.
    pub capacity_items: Option<u64>,
    /// Expansion; 0 for a fixed filter.
    pub expansion: Option<u32>,
    /// NONSCALING.
    pub is_fixed: bool,
    /// Whether the expansion holds with `bf.expansion-factor 0` too: a filter of CF.*.
    pub has_own_expansion: bool,
    /// SATURATE.
    pub is_saturating: bool,
    /// KEYED.
    pub is_keyed: bool,
    /// KEY.
    pub key: Option<[u8; KEY_BYTES]>,
    /// FORMAT.
    pub format: Option<Format>,
    /// COUNTING.
    pub is_counting: bool,
    /// BUCKETSIZE of a counting filter, which CF.INFO shows.
    pub bucket_size: Option<NonZeroU8>,
    /// MAXITERATIONS of a counting filter, which CF.INFO shows.
    pub max_iterations: Option<NonZeroU16>,
    /// WINDOW or PWINDOW, in milliseconds.
    pub window_ms: Option<u64>,
    /// NOREFRESH.
    pub no_refresh: bool,
    /// STEPS.
    pub steps: Option<Steps>,
    /// AT: the time of the items, in milliseconds of UNIX time.
    pub at_ms: Option<u64>,
    /// IFABSENT: an item that is present is left as it is.
    pub if_absent: bool,
    /// LIFE, PLIFE, LIFEAT or PLIFEAT.
    pub life: Option<Duration>,
    /// SEED.
    pub seed: Option<[u8; SEED_BYTES]>,
    /// TIGHTENING, strictly between 0 and 1.
    pub tightening_ratio: Option<f64>,
    /// EX, PX, EXAT or PXAT: when the key expires, in milliseconds of UNIX time.
    pub expires_at_ms: Option<u64>,
    /// UNRESERVED: nobody chose the capacity.
    pub is_unreserved: bool,
    /// VALIDATESCALETO, in items.
    pub scale_to_items: Option<u64>,
}

/// The options that describe a client's string.
#[derive(Debug, Default)]
pub struct ImportOptions {
    /// Whether SCHEME was given.
    pub(super) has_scheme: bool,
    /// SCHEME; `None` for Guava's strings, which contain their scheme.
    pub(super) scheme: Option<Scheme>,
    /// BITS.
    pub(super) size_bits: Option<u64>,
    /// HASHES.
    pub(super) probes: Option<u32>,
    /// SHIFT.
    pub(super) shift: Option<u8>,
    /// ORDER.
    pub(super) order: Option<BitOrder>,
    /// ENCODING.
    pub(super) encoding: Option<ItemEncoding>,
}

/// The options of CF.RESERVE, as integers; `Some(None)` for a value that is no integer. A repeated option is ignored, as in
/// RedisBloom.
#[derive(Debug, Default)]
pub(super) struct CuckooOptions {
    /// BUCKETSIZE.
    pub(super) bucket_size: Option<Option<i64>>,
    /// MAXITERATIONS.
    pub(super) max_iterations: Option<Option<i64>>,
    /// EXPANSION.
    pub(super) expansion: Option<Option<i64>>,
}

/// The value of SCHEME, and the word before the bytes, for a string that Guava's `writeTo` wrote.
pub(super) const GUAVA: &[u8] = b"guava";

/// An option whose value is the next argument.
struct OptionValue<'v, 'a> {
    option: OptionWord,
    arguments: &'v mut Arguments<'a>,
}

impl CommandOptions {
    /// Reads options up to the word `end`, or to the last argument. Returns whether `end` was found.
    pub(super) fn read(
        &mut self,
        arguments: &mut Arguments<'_>,
        end: Option<&str>,
        host: &dyn Host,
    ) -> Result<bool, CommandError> {
        while let Some(word) = arguments.optional() {
            if end.is_some_and(|end| is_named(end, word)) {
                return Ok(true);
            }
            if !self.read_option(word, arguments, host)? {
                self.read_unknown(word, arguments.command(), host)?;
            }
        }
        Ok(false)
    }

    /// Reads the option that `word` names, and its value from the next arguments. Returns false if there is no such option.
    pub(super) fn read_option(
        &mut self,
        word: &[u8],
        arguments: &mut Arguments<'_>,
        host: &dyn Host,
    ) -> Result<bool, CommandError> {
        let option = find(arguments.command().spec().syntax, word);
        option.map_or(Ok(false), |option| {
            self.read_one(&mut OptionValue { option, arguments }, host).map(|()| true)
        })
    }

    /// Reads a word that is no option. Clients of RedisBloom send two such words that it accepts. They are accepted if
    /// RedisBloom's format is set, or RedisBloom may have replicated them.
    fn read_unknown(&mut self, word: &[u8], command: Command, host: &dyn Host) -> Result<(), CommandError> {
        let accepts = host.settings().format == Format::RedisBloom || host.is_replicated();
        match command {
            // RedisBloom ignores an expansion without its word.
            Command::Reserve if parse_integer(word).is_some() => {
                if accepts {
                    Ok(())
                } else {
                    Err(CommandError::BareNumber(quotable(word), OptionWord::Expansion.text()))
                }
            }
            // RedisBloom compares only some letters of an option of BF.INSERT. It ignores the word in BF.RESERVE.
            Command::Insert if accepts && is_named("NOSCALING", word) => {
                self.creation.is_fixed = true;
                Ok(())
            }
            Command::Insert if is_named("NOSCALING", word) => Err(unknown_option(word, command)),
            Command::Insert | Command::CfInsert | Command::CfInsertNx => {
                Err(CommandError::InsertUnknownArgument)
            }
            Command::Add | Command::Exists => Err(CommandError::WrongArity(command.spec().name)),
            _ => Err(unknown_option(word, command)),
        }
    }

    /// Reads the value of an option, if it has one, and sets its field.
    fn read_one(&mut self, value: &mut OptionValue<'_, '_>, host: &dyn Host) -> Result<(), CommandError> {
        let Self { creation, import, cuckoo, .. } = self;
        match value.option {
            OptionWord::Capacity if value.arguments.command().spec().is_of_cuckoo() => {
                creation.capacity_items = Some(value.cuckoo_capacity(host)?);
            }
            OptionWord::BucketSize if value.arguments.command() == Command::CfReserve => {
                value.first_integer(&mut cuckoo.bucket_size)?;
            }
            OptionWord::MaxIterations if value.arguments.command() == Command::CfReserve => {
                value.first_integer(&mut cuckoo.max_iterations)?;
            }
            OptionWord::BucketSize => creation.bucket_size = NonZeroU8::new(value.number(1, u8::MAX)?),
            OptionWord::MaxIterations => {
                creation.max_iterations = NonZeroU16::new(value.number(1, u16::MAX)?)
            }
            OptionWord::Expansion if value.arguments.command() == Command::CfReserve => {
                value.first_integer(&mut cuckoo.expansion)?;
            }
            OptionWord::Capacity => creation.capacity_items = Some(value.number(1, CAPACITY_MAX_ITEMS)?),
            OptionWord::Error => creation.error_rate = Some(value.ratio()?),
            OptionWord::Expansion if value.arguments.command() == Command::Reserve => {
                self.expansion = Some(parse_integer(value.bytes()?).ok_or(CommandError::ReserveExpansion)?);
            }
            OptionWord::Expansion => creation.expansion = Some(value.number(0, EXPANSION_MAX)?),
            OptionWord::NonScaling => creation.is_fixed = true,
            OptionWord::Saturate => creation.is_saturating = true,
            OptionWord::Keyed => creation.is_keyed = true,
            OptionWord::Key => creation.key = Some(value.array(CommandError::BadKey)?),
            OptionWord::Format => creation.format = Some(value.word()?),
            OptionWord::Counting => creation.is_counting = true,
            OptionWord::Window => {
                creation.window_ms = Some(value.window_ms(1000, CommandError::WindowSeconds)?)
            }
            OptionWord::PWindow => {
                creation.window_ms = Some(value.window_ms(1, CommandError::WindowMilliseconds)?)
            }
            OptionWord::NoRefresh => creation.no_refresh = true,
            OptionWord::Steps => {
                let steps = value.unsigned()?.and_then(Steps::of_count);
                creation.steps = Some(steps.ok_or(CommandError::BadSteps)?);
            }
            OptionWord::At => creation.at_ms = Some(value.unsigned()?.ok_or(CommandError::BadAt)?),
            OptionWord::IfAbsent if creation.if_absent => return Err(value.repeated()),
            OptionWord::IfAbsent => creation.if_absent = true,
            OptionWord::Life | OptionWord::LifeAt => value.duration(1000, &mut creation.life)?,
            OptionWord::PLife | OptionWord::PLifeAt => value.duration(1, &mut creation.life)?,
            OptionWord::Within => value.duration(1000, &mut self.within)?,
            OptionWord::PWithin => value.duration(1, &mut self.within)?,
            OptionWord::Seed => creation.seed = Some(value.array(CommandError::BadSeed)?),
            OptionWord::Tightening => creation.tightening_ratio = Some(value.tightening_ratio()?),
            OptionWord::Unreserved => creation.is_unreserved = true,
            OptionWord::ValidateScaleTo => creation.scale_to_items = Some(value.number(1, u64::MAX)?),
            OptionWord::Ex | OptionWord::Px | OptionWord::ExAt | OptionWord::PxAt
                if creation.expires_at_ms.is_some() =>
            {
                return Err(value.repeated());
            }
            OptionWord::Ex => creation.expires_at_ms = Some(value.expiry_ms(1000, host.now_ms())?),
            OptionWord::Px => creation.expires_at_ms = Some(value.expiry_ms(1, host.now_ms())?),
            OptionWord::ExAt => creation.expires_at_ms = Some(value.expiry_ms(1000, 0)?),
            OptionWord::PxAt => creation.expires_at_ms = Some(value.expiry_ms(1, 0)?),
            OptionWord::NoCreate => self.no_create = true,
            OptionWord::IfNotExists => self.if_not_exists = true,
            OptionWord::Scheme => (import.has_scheme, import.scheme) = (true, value.scheme()?),
            OptionWord::Bits => import.size_bits = Some(value.number(1, i64::MAX.cast_unsigned())?),
            OptionWord::Hashes => import.probes = Some(value.number(1, u32::MAX)?),
            OptionWord::Shift => import.shift = Some(value.number(0, u8::MAX)?),
            OptionWord::Order => import.order = Some(value.word()?),
            OptionWord::Encoding => import.encoding = Some(value.word()?),
            OptionWord::Replace => self.is_replacing = true,
        }
        Ok(())
    }
}

/// Returns the error of an option that a command does not have. It names the option that is most like it. A ratio is
/// probably an error rate.
pub(super) fn unknown_option(word: &[u8], command: Command) -> CommandError {
    if command == Command::CfReserve && parse_double(word).is_some_and(is_ratio) {
        return CommandError::BareNumber(quotable(word), OptionWord::Error.text());
    }
    match nearest(command.spec().syntax, word) {
        Some(option) => CommandError::MisspeltOption(quotable(word), option),
        None => CommandError::UnknownArgument(quotable(word)),
    }
}

/// Returns the option that `word` names, in any case.
pub(super) fn find(syntax: &[ArgumentSpec], word: &[u8]) -> Option<OptionWord> {
    let choices = syntax.iter().flat_map(|argument| match argument.kind {
        ArgumentKind::OneOf(choices) if argument.token.is_none() => choices,
        _ => std::slice::from_ref(argument),
    });
    choices.filter_map(|choice| choice.option).find(|option| is_named(option.text(), word))
}

/// Returns whether a word of the client is this name, in any case.
pub(super) fn is_named(name: &str, word: &[u8]) -> bool {
    name.as_bytes().eq_ignore_ascii_case(word)
}

/// Each method reads the value of the option as one type.
impl<'a> OptionValue<'_, 'a> {
    /// Returns the error for a bad value of this option. RedisBloom has different texts for each command. `allowed`
    /// names the valid values.
    fn bad(&self, allowed: String) -> CommandError {
        match (self.arguments.command(), self.option) {
            (Command::Import, option) => ImportError::BadValue(option.text(), allowed).into(),
            (_, OptionWord::Format) => CommandError::UnknownFormat,
            (_, OptionWord::Error) => CommandError::InsertErrorRate,
            (_, OptionWord::Expansion) => CommandError::InsertExpansion,
            (_, OptionWord::BucketSize | OptionWord::MaxIterations) => {
                CuckooError::BadValue(self.option.text()).into()
            }
            _ => CommandError::InsertCapacity,
        }
    }

    /// Returns the error for an option that is given twice, or together with one that it excludes. One item leaves place for
    /// only a few words.
    fn repeated(&self) -> CommandError {
        match self.arguments.command() {
            Command::Add | Command::Exists => self.arguments.wrong_arity(),
            _ => CommandError::Syntax,
        }
    }

    /// Sets `field` to the value, a number of units of `unit_ms`.
    fn duration(&mut self, unit_ms: u64, field: &mut Option<Duration>) -> Result<(), CommandError> {
        if field.is_some() {
            return Err(self.repeated());
        }
        let word = self.option;
        let units = self.unsigned()?.filter(|units| *units > 0);
        let units = units.ok_or(CommandError::BadDuration(word.text()))?;
        *field = Some(Duration { word, ms: units.saturating_mul(unit_ms) });
        Ok(())
    }

    fn bytes(&mut self) -> Result<&'a [u8], CommandError> {
        let is_reserve = self.arguments.command() == Command::Reserve;
        self.arguments.optional().ok_or_else(|| match self.option {
            OptionWord::Expansion if is_reserve => CommandError::ReserveNoExpansion,
            option if self.arguments.command() == Command::CfReserve => {
                CuckooError::NoValue(option.text()).into()
            }
            _ => self.arguments.wrong_arity(),
        })
    }

    /// Returns the value as an integer; `None` if it is not one, or negative.
    fn unsigned(&mut self) -> Result<Option<u64>, CommandError> {
        Ok(parse_integer(self.bytes()?).and_then(|value| u64::try_from(value).ok()))
    }

    /// Sets `field` to the value, unless it is set; to `Some(None)` if the value is no integer.
    fn first_integer(&mut self, field: &mut Option<Option<i64>>) -> Result<(), CommandError> {
        let value = parse_integer(self.bytes()?);
        field.get_or_insert(value);
        Ok(())
    }

    /// Returns the value of CAPACITY of CF.INSERT.
    fn cuckoo_capacity(&mut self, host: &dyn Host) -> Result<u64, CommandError> {
        let capacity = parse_integer(self.bytes()?).ok_or(CuckooError::BadCapacity)?;
        let capacity_items = u64::try_from(capacity).ok();
        let range = host.cuckoo_capacity_min_items()..=CUCKOO_CAPACITY_MAX_ITEMS;
        let capacity_items = capacity_items.filter(|items| range.contains(items));
        Ok(capacity_items.ok_or(CuckooError::InsertCapacityRange)?)
    }

    /// Returns the value as an array of bytes. `error` is the error for another length.
    fn array<const N: usize>(&mut self, error: CommandError) -> Result<[u8; N], CommandError> {
        self.bytes()?.try_into().map_err(|_| error)
    }

    /// Returns the value as an integer from `min` to `max`.
    fn number<N: TryFrom<u64> + Into<u64>>(&mut self, min: N, max: N) -> Result<N, CommandError> {
        let (min, max) = (min.into(), max.into());
        let value = self.unsigned()?.filter(|value| (min..=max).contains(value));
        let value = value.and_then(|value| N::try_from(value).ok());
        value.ok_or_else(|| self.bad(format!("{min} to {max}")))
    }

    /// Returns the value as a number strictly between 0 and 1.
    fn ratio(&mut self) -> Result<f64, CommandError> {
        let ratio = parse_double(self.bytes()?).filter(|ratio| is_ratio(*ratio));
        ratio.ok_or_else(|| self.bad("a number between 0 and 1".to_owned()))
    }

    /// Returns the value of TIGHTENING, for which valkey-bloom has two errors.
    fn tightening_ratio(&mut self) -> Result<f64, CommandError> {
        let ratio = parse_double(self.bytes()?).ok_or(CommandError::BadTightening)?;
        if is_ratio(ratio) { Ok(ratio) } else { Err(CommandError::TighteningRange) }
    }

    /// Returns the value that a word stands for.
    fn word<W: Word>(&mut self) -> Result<W, CommandError> {
        W::named(self.bytes()?).ok_or_else(|| self.bad(W::listed()))
    }

    /// Returns the length of a window in milliseconds. The value has a unit of `unit_ms`. `error` is the error for a
    /// bad value.
    fn window_ms(&mut self, unit_ms: u64, error: CommandError) -> Result<u64, CommandError> {
        let window_ms = self.unsigned()?.and_then(|number| number.checked_mul(unit_ms));
        window_ms.filter(|window_ms| (WINDOW_MIN_MS..=WINDOW_MAX_MS).contains(window_ms)).ok_or(error)
    }

    /// Returns a time in milliseconds of UNIX time: `start_ms` plus the value, which has a unit of `unit_ms`. The
    /// errors are those of SET.
    fn expiry_ms(&mut self, unit_ms: i64, start_ms: u64) -> Result<u64, CommandError> {
        let number = parse_integer(self.bytes()?).ok_or(CommandError::NotAnInteger)?;
        // The server stores the time as a signed number.
        let at_ms = number
            .checked_mul(unit_ms)
            .filter(|duration_ms| *duration_ms > 0)
            .and_then(|duration_ms| duration_ms.checked_add_unsigned(start_ms))
            .and_then(|at_ms| u64::try_from(at_ms).ok());
        at_ms.ok_or_else(|| CommandError::ExpireTime(self.arguments.command().spec().name))
    }

    /// Returns the value of SCHEME; `None` for Guava's strings, which contain their scheme.
    fn scheme(&mut self) -> Result<Option<Scheme>, CommandError> {
        let name = self.bytes()?;
        if name.eq_ignore_ascii_case(GUAVA) {
            return Ok(None);
        }
        let scheme = Scheme::named(name).ok_or_else(|| ImportError::UnknownScheme(quotable(name)))?;
        Ok(Some(scheme))
    }
}
