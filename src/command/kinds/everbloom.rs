//! Filters of our own in the words of commands.

use super::facts::Facts;
use crate::bloom::{Everbloom, Filter, Format, Layer, LayerCounts, LayerShape, Layout};
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

/// Of a filter that these parameters made.
pub(super) fn debug_lines(parameters: Everbloom, layers: &[Layer]) -> Vec<String> {
    let line = |(index, layer): (usize, &Layer)| {
        let rate = parameters.growth.layer_error_rate(parameters.error_rate, index);
        debug_line(layer.shape(), layer.shape().size_bytes(), layer.counts(), rate)
    };
    layers.iter().enumerate().map(line).collect()
}

/// The line of one layer whose storage has so many bytes.
pub(super) fn debug_line(shape: LayerShape, size_bytes: u64, counts: LayerCounts, error_rate: f64) -> String {
    let (layout, lines) = match shape.layout {
        Layout::Scattered => ("scattered", shape.probes),
        Layout::Paged { lines } => ("paged", u32::from(lines)),
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
