//! Filters of our own in the words of commands.

use super::facts::{Facts, LayerProfile, Profile, Reservation};
use super::reserving::reservation_of;
use crate::bloom::everbloom::sizing::full_rate;
use crate::bloom::{Everbloom, Family, Filter, Format, Layer, LayerCounts, LayerShape, Layout};
use crate::command::creation::CreationOptions;
use crate::command::creation::lines::{Creation, growth_words, number, word};
use crate::command::error::CommandError;
use crate::command::settings::Host;
use crate::command::text::six_digits;
use crate::command::words::Word;

/// Of a filter that these parameters made.
pub(super) fn facts(filter: &Filter, parameters: Everbloom) -> Facts {
    Facts {
        size_bytes: filter.size_bytes(),
        error_rate: Some(parameters.error_rate),
        tightening_ratio: None,
        estimated_items: None,
        window_ms: None,
    }
}

/// Of a filter that these parameters made.
pub(super) fn profile(parameters: Everbloom, layers: &[Layer]) -> Profile {
    let Everbloom { error_rate, growth, .. } = parameters;
    // What layers were sized for that came by a merge is not written down.
    let is_known = !parameters.are_layers_united(layers);
    let layers = layers.iter().enumerate().map(|(index, layer)| LayerProfile {
        error_rate: is_known.then(|| growth.layer_error_rate(error_rate, index)),
        placement: placement_name(layer.shape().layout),
    });
    Profile { error_rate: Some(error_rate), layers: layers.collect(), ..Profile::default() }
}

/// Of a layer of our own, in whichever filter it is.
pub(super) fn layer_profile(layout: Layout, error_rate: f64) -> LayerProfile {
    LayerProfile { placement: placement_name(layout), error_rate: Some(error_rate) }
}

const fn placement_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Scattered => "scattered",
        Layout::Paged { .. } => "paged",
    }
}

/// In place of a filter that these parameters made.
pub(super) fn reservation(parameters: Everbloom, capacity_items: u64, options: &str) -> Option<Reservation> {
    let parameters = Everbloom { capacity_items, ..parameters };
    reservation_of(&parameters, parameters.error_rate, capacity_items, options)
}

pub(super) fn blueprint(options: &CreationOptions, host: &dyn Host) -> Result<Everbloom, CommandError> {
    let parameters = parameters(options, host);
    if let Some(target_items) = options.scale_to_items {
        let outcome = parameters.validate_scale_to(target_items, host.max_filter_bytes());
        outcome.map_err(CommandError::ScaleTo)?;
    }
    Ok(parameters)
}

pub(super) fn parameters(options: &CreationOptions, host: &dyn Host) -> Everbloom {
    let settings = host.settings();
    Everbloom {
        error_rate: options.error_rate.unwrap_or(settings.error_rate),
        capacity_items: options.capacity_items.unwrap_or(settings.initial_size_items),
        growth: options.growth(host),
    }
}

pub(super) fn creation(parameters: &Everbloom) -> Creation {
    let Everbloom { error_rate, capacity_items, growth } = *parameters;
    let mut words = vec![word("CAPACITY"), number(capacity_items), word("ERROR"), number(error_rate)];
    words.extend(growth_words(growth));
    words.extend([word("FORMAT"), word(Format::Everbloom.word())]);
    Creation { command: "BF.INSERT", words, takes_items: true }
}

/// Returns the lines of a filter that these parameters made. What layers were sized for that came by a merge is not written
/// down: of those it is the rate that they have when they are full.
pub(super) fn debug_lines(parameters: Everbloom, layers: &[Layer]) -> Vec<String> {
    let is_united = parameters.are_layers_united(layers);
    let line = |(index, layer): (usize, &Layer)| {
        let rate = if is_united {
            full_rate(&layer.shape())
        } else {
            parameters.growth.layer_error_rate(parameters.error_rate, index)
        };
        debug_line(layer.shape(), layer.shape().size_bytes(), layer.counts(), rate)
    };
    layers.iter().enumerate().map(line).collect()
}

/// The line of one layer whose storage has so many bytes.
pub(super) fn debug_line(shape: LayerShape, size_bytes: u64, counts: LayerCounts, error_rate: f64) -> String {
    let layout = placement_name(shape.layout);
    let lines = match shape.layout {
        Layout::Scattered => shape.probes,
        Layout::Paged { lines } => u32::from(lines),
    };
    format!(
        "bytes:{size_bytes} bits:{} hashes:{} layout:{layout} lines:{lines} capacity:{} size:{} set:{} ratio:{}",
        shape.size_bits,
        shape.probes,
        shape.capacity_items,
        counts.items,
        counts.set_bits,
        six_digits(error_rate),
    )
}
