//! Filters that count in the words of commands.

use super::everbloom::{self, debug_line, layer_profile};
use super::facts::{Facts, Profile, Reservation};
use super::reserving::reservation_of;
use crate::bloom::counting::{COUNTER_BITS, CountedProbing};
use crate::bloom::{Chain, Counting, Everbloom, Filter, Layer, Storage};
use crate::command::creation::CreationOptions;
use crate::command::creation::lines::{Creation, word};
use crate::command::error::CommandError;
use crate::command::settings::Host;

pub(super) fn facts(filter: &Filter, chain: &Chain<Counting>) -> Facts {
    Facts {
        size_bytes: filter.size_bytes(),
        error_rate: Some(chain.family().0.error_rate),
        tightening_ratio: None,
        estimated_items: None,
        window_ms: None,
    }
}

pub(super) fn profile(chain: &Chain<Counting>) -> Profile {
    let Everbloom { error_rate, growth, .. } = chain.family().0;
    let layers = chain.layers().iter().enumerate();
    let layers = layers.map(|(index, layer)| {
        layer_profile(layer.shape().layout, growth.layer_error_rate(error_rate, index))
    });
    Profile { error_rate: Some(error_rate), layers: layers.collect(), ..Profile::default() }
}

pub(super) fn reservation(chain: &Chain<Counting>, capacity_items: u64) -> Option<Reservation> {
    let parameters = Everbloom { capacity_items, ..chain.family().0 };
    reservation_of(&Counting(parameters), parameters.error_rate, capacity_items, " COUNTING")
}

pub(super) fn blueprint(options: &CreationOptions, host: &dyn Host) -> Result<Counting, CommandError> {
    let counting = Counting(everbloom::parameters(options, host));
    if let Some(target_items) = options.scale_to_items {
        let outcome = counting.validate_scale_to(target_items, host.max_filter_bytes());
        outcome.map_err(CommandError::ScaleTo)?;
    }
    Ok(counting)
}

pub(super) fn creation(Counting(parameters): &Counting) -> Creation {
    let mut creation = everbloom::creation(parameters);
    creation.words.push(word("COUNTING"));
    creation
}

/// As those of a filter of our own; `bits` are positions, each with a counter.
pub(super) fn debug_lines(chain: &Chain<Counting>) -> Vec<String> {
    let parameters = chain.family().0;
    let line = |(index, layer): (usize, &Layer<CountedProbing>)| {
        let rate = parameters.growth.layer_error_rate(parameters.error_rate, index);
        let size_bytes = Storage::size_bytes(layer.storage());
        let line = debug_line(layer.shape(), size_bytes, layer.counts(), rate);
        format!("{line} counters:{COUNTER_BITS}")
    };
    chain.layers().iter().enumerate().map(line).collect()
}
