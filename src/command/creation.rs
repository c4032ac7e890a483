//! What a filter that is to be made shall be: the options of BF.RESERVE and BF.INSERT, and how they are replicated.

use std::borrow::Cow;

use super::effects::Line;
use super::error::CommandError;
use super::settings::{Host, Settings};
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::redisbloom::{self, RedisBloom};
use crate::bloom::valkeybloom::{SEED_BYTES, Seed, TIGHTENING_RATIO_DEFAULT, ValkeyBloom, validate_scale_to};
use crate::bloom::{Blueprint, Everbloom, Filter, Format, Growth, ScaleError};
use crate::format::filter::header;

/// The options of a filter that is to be made, as far as they were given; checked one by one, not yet together.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreationOptions {
    /// Promised rate; strictly between 0 and 1.
    pub error_rate: Option<f64>,
    /// Items of the first layer, at least 1.
    pub capacity_items: Option<u64>,
    /// Growth factor; 0 for a fixed filter.
    pub expansion: Option<u32>,
    /// NONSCALING.
    pub is_fixed: bool,
    /// FORMAT.
    pub format: Option<Format>,
    /// SEED.
    pub seed: Option<[u8; SEED_BYTES]>,
    /// TIGHTENING; strictly between 0 and 1.
    pub tightening_ratio: Option<f64>,
    /// VALIDATESCALETO, in items.
    pub scale_to_items: Option<u64>,
}

impl CreationOptions {
    /// The largest capacity that the options' format lets a client ask for. A primary may ask for more: RedisBloom before
    /// 8 had no such limit.
    #[must_use]
    pub fn capacity_max_items(&self, host: &dyn Host) -> u64 {
        match self.resolved_format(&host.settings()) {
            Format::RedisBloom if !host.must_obey() => redisbloom::COMMAND_CAPACITY_MAX_ITEMS,
            Format::Everbloom | Format::RedisBloom | Format::ValkeyBloom => CAPACITY_MAX_ITEMS,
        }
    }

    /// Whether the options were given with words that RedisBloom does not know, or only here. A replica may run the other
    /// module while its owner moves over.
    #[must_use]
    pub fn has_foreign_words(&self) -> bool {
        self.is_spelt_out() || self.scale_to_items.is_some()
    }

    /// The format asked for. A seed asks for valkey-bloom's, which alone has one: its primaries send it.
    #[must_use]
    pub fn resolved_format(&self, settings: &Settings) -> Format {
        let by_seed = self.seed.map(|_| Format::ValkeyBloom);
        self.format.or(by_seed).unwrap_or(settings.format)
    }

    /// Whether the options say enough for a filter that a primary, a log or a giver of slots adds to and that is not here.
    ///
    /// An everbloom server spells out what it creates, so what adds without doing so meant a filter that got lost here.
    /// RedisBloom's does not; whoever follows one has its format in `bf.format`.
    #[must_use]
    pub fn may_create(&self, host: &dyn Host) -> bool {
        self.is_spelt_out() || host.settings().format != Format::Everbloom || !host.must_obey()
    }

    /// Whether the options name a format, as creations by everbloom and valkey-bloom do that are replicated.
    fn is_spelt_out(&self) -> bool {
        self.format.is_some() || self.is_keyed()
    }

    fn is_keyed(&self) -> bool {
        self.seed.is_some() || self.tightening_ratio.is_some()
    }

    /// What the options say of each other, which holds whether the filter is there or not.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn validate(&self, host: &dyn Host) -> Result<(), CommandError> {
        let format = self.resolved_format(&host.settings());
        if self.is_keyed() && format != Format::ValkeyBloom {
            return Err(CommandError::NeedsValkeyBloom);
        }
        if self.scale_to_items.is_none() {
            return Ok(());
        }
        if format == Format::RedisBloom {
            return Err(CommandError::CannotValidateScaleTo);
        }
        if self.growth(host) == Growth::Fixed {
            return Err(CommandError::ScaleTo(ScaleError::Fixed));
        }
        Ok(())
    }

    /// The growth that the options and the configuration stand for. As in RedisBloom a factor does not override the
    /// configured `fixed`, but that of a primary which spells its filters out does, and so it does in valkey-bloom.
    fn growth(&self, host: &dyn Host) -> Growth {
        let settings = host.settings();
        let is_overridden = || self.is_spelt_out() && host.must_obey();
        match self.expansion {
            _ if self.is_fixed => Growth::Fixed,
            Some(expansion)
                if settings.expansion_factor != 0
                    || self.resolved_format(&settings) == Format::ValkeyBloom
                    || is_overridden() =>
            {
                Growth::from_expansion(expansion)
            }
            Some(_) => Growth::Fixed,
            None => Growth::from_expansion(settings.expansion_factor),
        }
    }

    /// The filter that the options and, where they are silent, the configuration stand for.
    ///
    /// # Errors
    /// Options that do not go together, and a filter that cannot grow as far as VALIDATESCALETO asks.
    pub fn blueprint(&self, host: &dyn Host) -> Result<Blueprint, CommandError> {
        self.validate(host)?;
        let settings = host.settings();
        let error_rate = self.error_rate.unwrap_or(settings.error_rate);
        let capacity_items = self.capacity_items.unwrap_or(settings.initial_size_items);
        let growth = self.growth(host);
        match self.resolved_format(&settings) {
            Format::Everbloom => {
                let parameters = Everbloom { error_rate, capacity_items, growth };
                if let Some(target_items) = self.scale_to_items {
                    parameters
                        .validate_scale_to(target_items, host.max_filter_bytes())
                        .map_err(CommandError::ScaleTo)?;
                }
                Ok(Blueprint::Everbloom(parameters))
            }
            Format::RedisBloom => {
                let options = match growth {
                    Growth::Fixed => redisbloom::Options::FIXED,
                    Growth::Scaling { .. } => redisbloom::Options::SCALING,
                };
                let error_rate = error_rate.min(redisbloom::COMMAND_ERROR_RATE_MAX);
                let written_growth = self.written_growth(host);
                Ok(Blueprint::RedisBloom(RedisBloom::new(
                    error_rate,
                    capacity_items,
                    options,
                    written_growth,
                )))
            }
            Format::ValkeyBloom => {
                let seed = self.seed.map_or_else(|| Seed::new(host.random_seed()), Seed::new);
                let tightening_ratio = self.tightening_ratio.unwrap_or(TIGHTENING_RATIO_DEFAULT);
                let parameters = ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth, seed };
                if let Some(target_items) = self.scale_to_items {
                    validate_scale_to(&parameters, target_items, host.max_filter_bytes())
                        .map_err(CommandError::ScaleTo)?;
                }
                Ok(Blueprint::ValkeyBloom(parameters))
            }
        }
    }

    /// The growth factor that RedisBloom writes down of a filter, also of a fixed one, which never uses it: the one asked
    /// for, or the configured one. A primary has [`redisbloom::RESERVED_GROWTH`] where it sends none.
    fn written_growth(&self, host: &dyn Host) -> u32 {
        match self.expansion {
            Some(expansion) => expansion,
            None if self.is_spelt_out() && host.must_obey() => redisbloom::RESERVED_GROWTH,
            None => host.settings().expansion_factor,
        }
    }
}

/// How the making of a filter is spelt out for replicas and the append-only file, so that one with another
/// configuration makes the same filter.
#[derive(Debug)]
pub struct Creation {
    command: &'static str,
    /// What follows the key.
    words: Vec<Cow<'static, [u8]>>,
    /// Whether the command adds the items too.
    takes_items: bool,
}

impl Creation {
    /// Of a filter that was just made by the blueprint and is still empty.
    #[must_use]
    pub fn of(blueprint: &Blueprint, filter: &Filter) -> Self {
        match blueprint {
            Blueprint::Everbloom(parameters) => {
                let Everbloom { error_rate, capacity_items, growth } = *parameters;
                let mut words = vec![word("CAPACITY"), text(capacity_items), word("ERROR"), text(error_rate)];
                words.extend(growth_words(growth));
                words.extend([word("FORMAT"), word(Format::Everbloom.name())]);
                Self { command: "BF.INSERT", words, takes_items: true }
            }
            Blueprint::RedisBloom(parameters) => Self::of_redisbloom(parameters, filter),
            Blueprint::ValkeyBloom(parameters) => {
                // In valkey-bloom's own words, which it understands.
                let ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth, seed } = *parameters;
                let mut words = vec![word("CAPACITY"), text(capacity_items), word("ERROR"), text(error_rate)];
                words.extend([word("TIGHTENING"), text(tightening_ratio)]);
                words.extend([word("SEED"), Cow::Owned(seed.bytes().to_vec())]);
                words.extend(growth_words(growth));
                Self { command: "BF.INSERT", words, takes_items: true }
            }
        }
    }

    /// In words that RedisBloom understands: BF.RESERVE, or where it makes another filter a header. RedisBloom before
    /// 2.2.19, 2.4.8 and 2.6.11 does not clear the array that a header makes.
    fn of_redisbloom(parameters: &RedisBloom, filter: &Filter) -> Self {
        let Some((error_rate, capacity_items)) = parameters.reserve_parameters() else {
            let words = vec![word("1"), Cow::Owned(header(filter))];
            return Self { command: "BF.LOADCHUNK", words, takes_items: false };
        };
        let mut words = vec![text(error_rate), text(capacity_items)];
        words.extend(growth_words(filter.growth()));
        Self { command: "BF.RESERVE", words, takes_items: false }
    }

    /// The commands that make the filter under `key` and add `items` to it. `room` is empty; its memory is used.
    #[must_use]
    pub fn lines<'a>(
        self,
        key: &'a [u8],
        items: impl Iterator<Item = Cow<'a, [u8]>>,
        mut room: Vec<Cow<'a, [u8]>>,
    ) -> Vec<Line<'a>> {
        let head = std::iter::once(Cow::Borrowed(key)).chain(self.words);
        let mut items = items.peekable();
        if !self.takes_items {
            let mut lines = vec![Line { command: self.command, arguments: head.collect() }];
            if items.peek().is_some() {
                lines.push(Line::add(key, items, room));
            }
            return lines;
        }
        room.extend(head);
        // Without items BF.INSERT only makes the filter.
        if items.peek().is_some() {
            room.push(word("ITEMS"));
            room.extend(items);
        }
        vec![Line { command: self.command, arguments: room }]
    }
}

/// The words that spell a growth out.
pub(super) fn growth_words(growth: Growth) -> impl Iterator<Item = Cow<'static, [u8]>> {
    let (name, factor) = match growth {
        Growth::Fixed => ("NONSCALING", None),
        Growth::Scaling { expansion } => ("EXPANSION", Some(text(expansion))),
    };
    std::iter::once(word(name)).chain(factor)
}

pub(super) fn word(text: &'static str) -> Cow<'static, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

/// A number as an argument; for a float the shortest text that reads back as the same bits.
pub(super) fn text(number: impl std::fmt::Display) -> Cow<'static, [u8]> {
    Cow::Owned(number.to_string().into_bytes())
}
