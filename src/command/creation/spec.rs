//! The filter that options stand for, and how its making is replicated.

use std::borrow::Cow;

use super::lines::{Creation, growth_words, number, word};
use super::options::CreationOptions;
use crate::bloom::cells::CellType;
use crate::bloom::extent::validate_scale_to;
use crate::bloom::hash::siphash::Seed;
use crate::bloom::policy::redisbloom::{self, Options};
use crate::bloom::policy::valkeybloom::TIGHTENING_RATIO_DEFAULT;
use crate::bloom::policy::{RedisBloom, ValkeyBloom};
use crate::bloom::window::Span;
use crate::bloom::{Filter, Format, Growth, Hash, Layer, Policy, Promise, Spec, Window};
use crate::command::error::CommandError;
use crate::command::settings::Host;
use crate::command::words::Word;
use crate::format::filter::header;

/// Returns what the options and, where they are silent, the configuration stand for.
///
/// # Errors
/// Options that do not go together, and a filter that cannot grow as far as VALIDATESCALETO asks.
pub(in crate::command) fn spec(options: &CreationOptions, host: &dyn Host) -> Result<Spec, CommandError> {
    options.validate(host)?;
    let spec = match options.resolved_format(&host.settings()) {
        Format::Everbloom => own_spec(options, host),
        Format::RedisBloom => redisbloom_spec(options, host),
        Format::ValkeyBloom => valkeybloom_spec(options, host),
    };
    if let Some(target_items) = options.scale_to_items {
        let outcome =
            validate_scale_to(&spec.policy, spec.hash, spec.cells, target_items, host.max_filter_bytes());
        outcome.map_err(CommandError::ScaleTo)?;
    }
    Ok(spec)
}

fn own_spec(options: &CreationOptions, host: &dyn Host) -> Spec {
    let settings = host.settings();
    let promise = Promise {
        error_rate: options.error_rate.unwrap_or(settings.error_rate),
        capacity_items: options.capacity_items.unwrap_or(settings.initial_size_items),
        growth: options.growth(host),
    };
    let hash = options.hash_key(host).map_or(Hash::Murmur3, Hash::Keyed);
    match options.window_ms {
        Some(window_ms) => {
            let window = Window::new(promise, Span::new(window_ms), options.no_refresh);
            Spec { policy: Policy::Window(Box::new(window)), hash, cells: CellType::Columns }
        }
        None => {
            let cells = if options.is_counting { CellType::Counters } else { CellType::Bits };
            Spec { policy: Policy::Promise(promise), hash, cells }
        }
    }
}

fn redisbloom_spec(options: &CreationOptions, host: &dyn Host) -> Spec {
    let settings = host.settings();
    let rules = if options.growth(host).is_fixed_size() { Options::FIXED } else { Options::SCALING };
    let error_rate = options.error_rate.unwrap_or(settings.error_rate);
    let policy = RedisBloom::new(
        error_rate.min(redisbloom::COMMAND_ERROR_RATE_MAX),
        options.capacity_items.unwrap_or(settings.initial_size_items),
        rules,
        written_growth(options, host),
    );
    let hash = Hash::RedisBloom(policy.hash());
    Spec { policy: Policy::RedisBloom(Box::new(policy)), hash, cells: CellType::Bits }
}

/// Returns the growth factor that RedisBloom writes of a filter, also of a fixed one, which never uses it: the one asked for, or
/// the configured one. A primary has [`redisbloom::RESERVED_GROWTH`] where it sends none.
fn written_growth(options: &CreationOptions, host: &dyn Host) -> u32 {
    match options.expansion {
        Some(expansion) => expansion,
        None if options.is_explicit() && host.must_obey() => redisbloom::RESERVED_GROWTH,
        None => host.settings().expansion_factor,
    }
}

fn valkeybloom_spec(options: &CreationOptions, host: &dyn Host) -> Spec {
    let settings = host.settings();
    let policy = ValkeyBloom {
        error_rate: options.error_rate.unwrap_or(settings.error_rate),
        tightening_ratio: options.tightening_ratio.unwrap_or(TIGHTENING_RATIO_DEFAULT),
        capacity_items: options.capacity_items.unwrap_or(settings.initial_size_items),
        growth: options.growth(host),
    };
    let hash = Hash::ValkeyBloom(options.seed.map_or_else(|| Seed::new(host.random_seed()), Seed::new));
    Spec { policy: Policy::ValkeyBloom(Box::new(policy)), hash, cells: CellType::Bits }
}

/// Returns how the making of a filter is replicated that was just made by a [`spec`] and is still empty: in words that the module
/// whose format it has understands.
pub(in crate::command) fn creation(filter: &Filter) -> Creation {
    let growth = filter.growth();
    match filter.policy() {
        Policy::RedisBloom(policy) => redisbloom_creation(policy, growth, filter),
        Policy::ValkeyBloom(policy) => {
            let ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth } = **policy;
            let mut words = vec![word("CAPACITY"), number(capacity_items), word("ERROR"), number(error_rate)];
            words.extend([word("TIGHTENING"), number(tightening_ratio)]);
            if let Some(Hash::ValkeyBloom(seed)) = filter.layers().first().map(Layer::hash) {
                words.extend([word("SEED"), Cow::Owned(seed.bytes().to_vec())]);
            }
            words.extend(growth_words(growth));
            Creation { command: "BF.INSERT", words, takes_items: true }
        }
        Policy::Promise(_) | Policy::United(_) | Policy::Window(_) | Policy::Imported(_) => {
            own_creation(filter)
        }
    }
}

/// With the key, where there is one: a replica has to hash alike.
fn own_creation(filter: &Filter) -> Creation {
    let Promise { error_rate, capacity_items, growth } = filter.promise();
    let mut words = vec![word("CAPACITY"), number(capacity_items), word("ERROR"), number(error_rate)];
    words.extend(growth_words(growth));
    words.extend([word("FORMAT"), word(Format::Everbloom.word())]);
    if filter.cell_type() == CellType::Counters {
        words.push(word("COUNTING"));
    }
    if let Some(Hash::Keyed(key)) = filter.layers().first().map(Layer::hash) {
        words.extend([word("KEY"), Cow::Owned(key.bytes().to_vec())]);
    }
    if let Some(window) = filter.window() {
        words.extend([word("PWINDOW"), number(window.span.ms())]);
        words.extend(window.no_refresh.then(|| word("NOREFRESH")));
    }
    Creation { command: "BF.INSERT", words, takes_items: true }
}

/// BF.RESERVE, or where it makes another filter a header. RedisBloom before 2.2.19, 2.4.8 and 2.6.11 does not clear the array
/// that a header makes.
fn redisbloom_creation(policy: &RedisBloom, growth: Growth, filter: &Filter) -> Creation {
    let Some((error_rate, capacity_items)) = policy.reserve_parameters() else {
        let words = vec![word("1"), Cow::Owned(header(filter))];
        return Creation { command: "BF.LOADCHUNK", words, takes_items: false };
    };
    let mut words = vec![number(error_rate), number(capacity_items)];
    words.extend(growth_words(growth));
    Creation { command: "BF.RESERVE", words, takes_items: false }
}
