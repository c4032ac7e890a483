//! Filters of RedisBloom's kind in the words of commands.

use std::borrow::Cow;

use super::facts::{Facts, LayerProfile, Profile, Reservation};
use super::reserving::reservation_of;
use crate::bloom::redisbloom::{self, LayerParameters};
use crate::bloom::{Chain, Filter, RedisBloom};
use crate::command::creation::CreationOptions;
use crate::command::creation::lines::{Creation, growth_words, number, word};
use crate::command::settings::Host;
use crate::command::text::six_digits;
use crate::format::filter::header;

pub(super) fn facts(chain: &Chain<RedisBloom>) -> Facts {
    Facts {
        size_bytes: redisbloom::reported_size_bytes(chain),
        // Not written down: what it was asked for does not follow from what its layers were sized for.
        error_rate: None,
        tightening_ratio: None,
        estimated_items: None,
        window_ms: None,
    }
}

pub(super) fn profile(chain: &Chain<RedisBloom>) -> Profile {
    let layers = chain.layers().iter().map(|layer| {
        let error_rate = Some(layer.placement().error_rate());
        LayerProfile { placement: "double hashing", error_rate }
    });
    Profile { layers: layers.collect(), ..Profile::default() }
}

/// With the rate that the filter was asked for, where a command made it.
pub(super) fn reservation(chain: &Chain<RedisBloom>, capacity_items: u64) -> Option<Reservation> {
    let (error_rate, _) = chain.family().reserve_parameters()?;
    let capacity_items = capacity_items.min(redisbloom::COMMAND_CAPACITY_MAX_ITEMS);
    let family = RedisBloom::new(
        error_rate,
        capacity_items,
        redisbloom::Options::SCALING,
        redisbloom::RESERVED_GROWTH,
    );
    reservation_of(&family, error_rate, capacity_items, " FORMAT redisbloom")
}

pub(super) fn blueprint(options: &CreationOptions, host: &dyn Host) -> RedisBloom {
    let settings = host.settings();
    let is_fixed = options.growth(host).is_fixed_size();
    let rules = if is_fixed { redisbloom::Options::FIXED } else { redisbloom::Options::SCALING };
    let error_rate = options.error_rate.unwrap_or(settings.error_rate);
    RedisBloom::new(
        error_rate.min(redisbloom::COMMAND_ERROR_RATE_MAX),
        options.capacity_items.unwrap_or(settings.initial_size_items),
        rules,
        written_growth(options, host),
    )
}

/// The growth factor that RedisBloom writes down of a filter, also of a fixed one, which never uses it: the
/// one asked for, or the configured one. A primary has [`redisbloom::RESERVED_GROWTH`] where it sends none.
fn written_growth(options: &CreationOptions, host: &dyn Host) -> u32 {
    match options.expansion {
        Some(expansion) => expansion,
        None if options.is_spelt_out() && host.must_obey() => redisbloom::RESERVED_GROWTH,
        None => host.settings().expansion_factor,
    }
}

/// In words that RedisBloom understands: BF.RESERVE, or where it makes another filter a header. RedisBloom
/// before 2.2.19,
/// 2.4.8 and 2.6.11 does not clear the array that a header makes.
pub(super) fn creation(parameters: &RedisBloom, filter: &Filter) -> Creation {
    let Some((error_rate, capacity_items)) = parameters.reserve_parameters() else {
        let words = vec![word("1"), Cow::Owned(header(filter))];
        return Creation { command: "BF.LOADCHUNK", words, takes_items: false };
    };
    let mut words = vec![number(error_rate), number(capacity_items)];
    words.extend(growth_words(filter.growth()));
    Creation { command: "BF.RESERVE", words, takes_items: false }
}

pub(super) fn debug_lines(chain: &Chain<RedisBloom>) -> Vec<String> {
    let hash_width = if chain.family().options().has_wide_hash() { 64 } else { 32 };
    let lines = chain.layers().iter().map(|layer| {
        let parameters = LayerParameters::of(layer);
        format!(
            "bytes:{} bits:{} hashes:{} hashwidth:{hash_width} capacity:{} size:{} ratio:{}",
            layer.bits().size_bytes(),
            parameters.shown_bits(),
            parameters.probes,
            parameters.capacity_items,
            layer.counts().items,
            six_digits(parameters.error_rate),
        )
    });
    lines.collect()
}
