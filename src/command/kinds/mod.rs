//! What differs between kinds of filters in the language: the ONE match over them of this room.

mod client;
mod counting;
mod everbloom;
mod facts;
mod keyed;
mod redisbloom;
mod reserving;
mod union;
mod valkeybloom;
mod window;

pub(super) use facts::{Facts, Profile, Reservation};

use super::creation::{Creation, CreationOptions};
use super::error::CommandError;
use super::settings::Host;
use crate::bloom::{Blueprint, Filter, Format, Keyed};

/// What BF.INFO tells of a filter beside what every filter has. O(layers).
pub(super) fn facts(filter: &Filter) -> Facts {
    match filter {
        Filter::Everbloom(chain) => everbloom::facts(filter, chain.parameters()),
        Filter::Keyed(chain) => everbloom::facts(filter, chain.family().parameters),
        Filter::RedisBloom(chain) => redisbloom::facts(chain),
        Filter::ValkeyBloom(chain) => valkeybloom::facts(chain),
        Filter::Client(chain) => client::facts(filter, chain),
        Filter::Union(chain) => union::facts(filter, chain),
        Filter::Counting(chain) => counting::facts(filter, chain),
        Filter::Window(chain) => window::facts(filter, chain),
    }
}

/// What BF.STATS tells of a filter beside what can be read off every filter. O(layers).
pub(super) fn profile(filter: &Filter) -> Profile {
    match filter {
        Filter::Everbloom(chain) => everbloom::profile(chain.parameters(), chain.layers()),
        Filter::Keyed(chain) => keyed::profile(chain),
        Filter::RedisBloom(chain) => redisbloom::profile(chain),
        Filter::ValkeyBloom(chain) => valkeybloom::profile(chain),
        Filter::Client(chain) => client::profile(chain),
        Filter::Union(chain) => union::profile(chain),
        Filter::Counting(chain) => counting::profile(chain),
        Filter::Window(chain) => window::profile(chain),
    }
}

/// Returns the most that the error rate of a filter comes to over its whole life, where that has a bound. O(layers).
pub(super) fn error_rate_max(filter: &Filter) -> Option<f64> {
    match filter {
        Filter::Everbloom(chain) => chain.error_rate_max(),
        Filter::Keyed(chain) => chain.error_rate_max(),
        Filter::Union(chain) => chain.error_rate_max(),
        // Nothing is merged into these.
        Filter::Counting(_) | Filter::Window(_) => facts(filter).error_rate,
        Filter::RedisBloom(_) | Filter::ValkeyBloom(_) | Filter::Client(_) => None,
    }
}

/// What a filter like this one would take that was reserved for so many items. Nothing where no BF.RESERVE
/// makes such a filter. O(1).
pub(super) fn reservation(filter: &Filter, capacity_items: u64) -> Option<Reservation> {
    match filter {
        Filter::Everbloom(chain) => everbloom::reservation(chain.parameters(), capacity_items, ""),
        Filter::Keyed(chain) => keyed::reservation(chain, capacity_items),
        Filter::RedisBloom(chain) => redisbloom::reservation(chain, capacity_items),
        Filter::ValkeyBloom(chain) => valkeybloom::reservation(chain, capacity_items),
        Filter::Counting(chain) => counting::reservation(chain, capacity_items),
        Filter::Client(_) | Filter::Union(_) | Filter::Window(_) => None,
    }
}

/// Items that the filter could grow to in valkey-bloom: for a filter of its kind that can grow. O(layers
/// there may be).
pub(super) fn max_scaled_capacity_items(filter: &Filter) -> Option<u64> {
    match filter {
        Filter::ValkeyBloom(chain) => valkeybloom::max_scaled_capacity_items(chain),
        Filter::Everbloom(_)
        | Filter::RedisBloom(_)
        | Filter::Client(_)
        | Filter::Union(_)
        | Filter::Counting(_)
        | Filter::Keyed(_)
        | Filter::Window(_) => None,
    }
}

/// The lines of BF.DEBUG about the layers. RedisBloom's for filters of its kind; of the others ours to
/// define, and the words that RedisBloom also has keep its meaning.
pub(super) fn debug_lines(filter: &Filter) -> Vec<String> {
    match filter {
        Filter::Everbloom(chain) => everbloom::debug_lines(chain.parameters(), chain.layers()),
        Filter::Keyed(chain) => everbloom::debug_lines(chain.family().parameters, chain.layers()),
        Filter::RedisBloom(chain) => redisbloom::debug_lines(chain),
        Filter::ValkeyBloom(chain) => valkeybloom::debug_lines(chain),
        Filter::Client(chain) => client::debug_lines(chain),
        Filter::Union(chain) => union::debug_lines(chain),
        Filter::Counting(chain) => counting::debug_lines(chain),
        Filter::Window(chain) => window::debug_lines(chain),
    }
}

/// The filter that the options and, where they are silent, the configuration stand for.
///
/// # Errors
/// Options that do not go together, and a filter that cannot grow as far as VALIDATESCALETO asks.
pub(super) fn blueprint(options: &CreationOptions, host: &dyn Host) -> Result<Blueprint, CommandError> {
    options.validate(host)?;
    match options.resolved_format(&host.settings()) {
        Format::Everbloom if options.is_counting => {
            counting::blueprint(options, host).map(Blueprint::Counting)
        }
        Format::Everbloom => {
            if let Some(window_ms) = options.window_ms {
                return Ok(Blueprint::Window(window::blueprint(options, window_ms, host)));
            }
            let parameters = everbloom::blueprint(options, host)?;
            Ok(match options.hash_key(host) {
                Some(key) => Blueprint::Keyed(Keyed { parameters, key }),
                None => Blueprint::Everbloom(parameters),
            })
        }
        Format::RedisBloom => Ok(Blueprint::RedisBloom(redisbloom::blueprint(options, host))),
        Format::ValkeyBloom => valkeybloom::blueprint(options, host).map(Blueprint::ValkeyBloom),
    }
}

/// How the making of a filter is spelt out that was just made by the blueprint and is still empty.
pub(super) fn creation(blueprint: &Blueprint, filter: &Filter) -> Creation {
    match blueprint {
        Blueprint::Everbloom(parameters) => everbloom::creation(parameters),
        Blueprint::Counting(counting) => counting::creation(counting),
        Blueprint::RedisBloom(parameters) => redisbloom::creation(parameters, filter),
        Blueprint::ValkeyBloom(parameters) => valkeybloom::creation(parameters),
        Blueprint::Keyed(family) => keyed::creation(family),
        Blueprint::Window(window) => window::creation(window),
    }
}
