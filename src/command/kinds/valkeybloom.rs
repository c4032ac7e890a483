//! Filters of valkey-bloom's kind in the words of commands.

use std::borrow::Cow;

use super::facts::{Facts, LayerProfile, Profile, Reservation};
use super::reserving::reservation_of;
use crate::bloom::valkeybloom::{
    Seed, TIGHTENING_RATIO_DEFAULT, layer_error_rate, max_scaled_capacity, size_bytes, validate_scale_to,
};
use crate::bloom::{Chain, Probes, ValkeyBloom};
use crate::command::creation::CreationOptions;
use crate::command::creation::lines::{Creation, growth_words, number, word};
use crate::command::error::CommandError;
use crate::command::settings::Host;

/// valkey-bloom's own default limit of a filter, whatever ours is: its `Max scaled capacity` is compared
/// with what that module answers.
const LIMIT_DEFAULT_BYTES: u64 = 128 << 20;

pub(super) fn facts(chain: &Chain<ValkeyBloom>) -> Facts {
    Facts {
        size_bytes: size_bytes(chain.layers().iter().map(|layer| layer.bits().size_bytes())),
        error_rate: Some(decimal_of(chain.family().error_rate)),
        tightening_ratio: scaling(chain).map(|family| family.tightening_ratio),
        estimated_items: None,
        window_ms: None,
    }
}

pub(super) fn profile(chain: &Chain<ValkeyBloom>) -> Profile {
    let ValkeyBloom { error_rate, tightening_ratio, seed, .. } = *chain.family();
    let layers = (0..chain.layers().len()).map(|index| LayerProfile {
        placement: "double hashing",
        error_rate: layer_error_rate(error_rate, tightening_ratio, index),
    });
    Profile {
        error_rate: Some(decimal_of(error_rate)),
        is_keyed: seed != Seed::FIXED,
        layers: layers.collect(),
        ..Profile::default()
    }
}

pub(super) fn reservation(chain: &Chain<ValkeyBloom>, capacity_items: u64) -> Option<Reservation> {
    let parameters = ValkeyBloom { capacity_items, ..*chain.family() };
    reservation_of(&parameters, decimal_of(parameters.error_rate), capacity_items, " FORMAT valkey-bloom")
}

/// Under [`LIMIT_DEFAULT_BYTES`].
pub(super) fn max_scaled_capacity_items(chain: &Chain<ValkeyBloom>) -> Option<u64> {
    scaling(chain).map(|family| max_scaled_capacity(family, LIMIT_DEFAULT_BYTES))
}

/// The parameters of a filter that can grow: a fixed one has no such facts.
fn scaling(chain: &Chain<ValkeyBloom>) -> Option<&ValkeyBloom> {
    Some(chain.family()).filter(|family| !family.growth.is_fixed_size())
}

/// The rate as it was asked for. valkey-bloom 0.1.0 kept it in single precision, of which a double holds
/// every bit and so more digits than anybody typed: such a number is shown as the decimal that single
/// precision stood for.
#[expect(clippy::cast_possible_truncation, reason = "it is compared with what it was before")]
fn decimal_of(rate: f64) -> f64 {
    let single = rate as f32;
    if f64::from(single) != rate {
        return rate;
    }
    single.to_string().parse().unwrap_or(rate)
}

pub(super) fn blueprint(options: &CreationOptions, host: &dyn Host) -> Result<ValkeyBloom, CommandError> {
    let settings = host.settings();
    let parameters = ValkeyBloom {
        error_rate: options.error_rate.unwrap_or(settings.error_rate),
        tightening_ratio: options.tightening_ratio.unwrap_or(TIGHTENING_RATIO_DEFAULT),
        capacity_items: options.capacity_items.unwrap_or(settings.initial_size_items),
        growth: options.growth(host),
        seed: options.seed.map_or_else(|| Seed::new(host.random_seed()), Seed::new),
    };
    if let Some(target_items) = options.scale_to_items {
        let outcome = validate_scale_to(&parameters, target_items, host.max_filter_bytes());
        outcome.map_err(CommandError::ScaleTo)?;
    }
    Ok(parameters)
}

/// In valkey-bloom's own words, which it understands.
pub(super) fn creation(parameters: &ValkeyBloom) -> Creation {
    let ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth, seed } = *parameters;
    let mut words = vec![word("CAPACITY"), number(capacity_items), word("ERROR"), number(error_rate)];
    words.extend([word("TIGHTENING"), number(tightening_ratio)]);
    words.extend([word("SEED"), Cow::Owned(seed.bytes().to_vec())]);
    words.extend(growth_words(growth));
    Creation { command: "BF.INSERT", words, takes_items: true }
}

pub(super) fn debug_lines(chain: &Chain<ValkeyBloom>) -> Vec<String> {
    let lines = chain.layers().iter().map(|layer| {
        format!(
            "bytes:{} bits:{} hashes:{} capacity:{} size:{} set:{}",
            layer.bits().size_bytes(),
            layer.bits().len(),
            layer.placement().probes(),
            layer.capacity_items(),
            layer.counts().items,
            layer.counts().set_bits,
        )
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_single_precision_are_shown_as_they_were_typed() {
        for rate in [0.001, 0.01, 0.02, 0.03, 0.05, 0.1, 0.000_001, 0.5, 0.25] {
            assert_eq!(decimal_of(rate), rate);
        }
        for (single, rate) in [(0.001f32, 0.001), (0.01, 0.01), (0.000_001, 0.000_001), (0.5, 0.5)] {
            assert_eq!(decimal_of(single.into()), rate);
        }
    }
}
