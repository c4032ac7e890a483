//! What a filter that is to be made shall be: the options of BF.RESERVE and BF.INSERT, and how they are replicated.

use std::borrow::Cow;

use super::effects::Line;
use super::error::CommandError;
use super::settings::{Host, Settings};
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_DEFAULT};
use crate::bloom::redisbloom::{self, RedisBloom};
use crate::bloom::valkeybloom::{SEED_BYTES, Seed, TIGHTENING_RATIO_DEFAULT, ValkeyBloom, validate_scale_to};
use crate::bloom::{Blueprint, ChainParameters, Filter, Format, Growth};
use crate::format::filter::header;

/// The options of a filter that is to be made, as far as they were given; checked one by one, not yet together.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreationOptions {
    /// Promised rate; strictly between 0 and 1.
    pub error_rate: Option<f64>,
    /// Items of the first layer, at least 1.
    pub capacity_items: Option<u64>,
    /// Growth factor, not 0.
    pub expansion: Option<u32>,
    /// NONSCALING, or an expansion of 0.
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
    /// The largest capacity that the options' format lets a client ask for.
    #[must_use]
    pub fn capacity_max_items(&self, settings: &Settings) -> u64 {
        match self.resolved_format(settings) {
            Format::RedisBloom => redisbloom::COMMAND_CAPACITY_MAX_ITEMS,
            Format::Everbloom | Format::ValkeyBloom => CAPACITY_MAX_ITEMS,
        }
    }

    /// Whether the options were given with words that RedisBloom does not know, or only here. A replica may run the other
    /// module while its owner moves over.
    #[must_use]
    pub fn has_foreign_words(&self) -> bool {
        let is_keyed = self.seed.is_some() || self.tightening_ratio.is_some();
        self.format.is_some() || is_keyed || self.scale_to_items.is_some()
    }

    /// The format asked for. A seed asks for valkey-bloom's, which alone has one: its primaries send it.
    #[must_use]
    pub fn resolved_format(&self, settings: &Settings) -> Format {
        let by_seed = self.seed.map(|_| Format::ValkeyBloom);
        self.format.or(by_seed).unwrap_or(settings.format)
    }

    /// The filter that the options and, where they are silent, the configuration stand for.
    ///
    /// # Errors
    /// Options that do not go together, and a filter that cannot grow as far as VALIDATESCALETO asks.
    pub fn blueprint(&self, host: &dyn Host) -> Result<Blueprint, CommandError> {
        let settings = host.settings();
        let error_rate = self.error_rate.unwrap_or(settings.error_rate);
        let capacity_items = self.capacity_items.unwrap_or(settings.initial_size_items);
        let growth = match self.expansion {
            _ if self.is_fixed => Growth::Fixed,
            Some(expansion) => Growth::from_expansion(expansion),
            None => Growth::from_expansion(settings.expansion_factor),
        };
        let format = self.resolved_format(&settings);
        let is_keyed = self.seed.is_some() || self.tightening_ratio.is_some();
        if is_keyed && format != Format::ValkeyBloom {
            return Err(CommandError::NeedsValkeyBloom);
        }
        match format {
            Format::Everbloom => {
                let parameters = ChainParameters { error_rate, capacity_items, growth };
                if let Some(target_items) = self.scale_to_items {
                    parameters
                        .validate_scale_to(target_items, host.max_filter_bytes())
                        .map_err(CommandError::ScaleTo)?;
                }
                Ok(Blueprint::Everbloom(parameters))
            }
            Format::RedisBloom if self.scale_to_items.is_some() => Err(CommandError::CannotValidateScaleTo),
            Format::RedisBloom => {
                // A fixed filter has a factor too: written down, never used.
                let expansion = self.expansion.unwrap_or(settings.expansion_factor);
                let expansion = if expansion == 0 { EXPANSION_DEFAULT } else { expansion };
                let options = match growth {
                    Growth::Fixed => redisbloom::Options::FIXED,
                    Growth::Scaling { .. } => redisbloom::Options::SCALING,
                };
                let error_rate = error_rate.min(redisbloom::COMMAND_ERROR_RATE_MAX);
                Ok(Blueprint::RedisBloom(RedisBloom::new(error_rate, capacity_items, options, expansion)))
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
}

/// How the making of a filter is spelt out for replicas and the append-only file, so that one with another
/// configuration makes the same filter.
#[derive(Debug)]
pub enum Creation {
    /// By a command that takes parameters and, last, items.
    ByParameters(Vec<Cow<'static, [u8]>>),
    /// By a header, as RedisBloom itself would understand it, and items after it.
    ByHeader(Vec<u8>),
}

impl Creation {
    /// Of a filter that has just been reserved and is still empty.
    #[must_use]
    pub fn of(filter: &Filter) -> Self {
        match filter {
            Filter::Everbloom(chain) => {
                let ChainParameters { error_rate, capacity_items, growth } = chain.parameters();
                let mut words = vec![word("CAPACITY"), text(capacity_items), word("ERROR"), text(error_rate)];
                words.extend(growth_words(growth));
                words.extend([word("FORMAT"), word(Format::Everbloom.name())]);
                Self::ByParameters(words)
            }
            // A client's filter comes by BF.IMPORT, which spells itself out; its header would do too.
            Filter::RedisBloom(_) | Filter::Imported(_) => Self::ByHeader(header(filter)),
            Filter::ValkeyBloom(chain) => {
                // In valkey-bloom's own words, which it understands.
                let ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth, seed } =
                    *chain.family();
                let mut words = vec![word("CAPACITY"), text(capacity_items), word("ERROR"), text(error_rate)];
                words.extend([word("TIGHTENING"), text(tightening_ratio)]);
                words.extend([word("SEED"), Cow::Owned(seed.bytes().to_vec())]);
                words.extend(growth_words(growth));
                Self::ByParameters(words)
            }
        }
    }

    /// The commands that make the filter under `key` and add `items` to it.
    #[must_use]
    pub fn lines<'a>(self, key: &'a [u8], items: Vec<Cow<'a, [u8]>>) -> Vec<Line<'a>> {
        match self {
            Self::ByParameters(words) => {
                let mut arguments = vec![Cow::Borrowed(key)];
                arguments.extend(words);
                // Without items BF.INSERT only makes the filter.
                if !items.is_empty() {
                    arguments.push(word("ITEMS"));
                    arguments.extend(items);
                }
                vec![Line { command: "BF.INSERT", arguments }]
            }
            Self::ByHeader(header) => {
                let arguments = vec![Cow::Borrowed(key), word("1"), Cow::Owned(header)];
                let mut lines = vec![Line { command: "BF.LOADCHUNK", arguments }];
                if !items.is_empty() {
                    lines.push(Line::add(key, items));
                }
                lines
            }
        }
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
