//! Filters that forget in the words of commands.

use super::everbloom::{self, layer_profile};
use super::facts::{Facts, Profile};
use crate::bloom::window::{Span, WindowProbing, WindowShape};
use crate::bloom::{Chain, Filter, Layer, Layout, Storage, Window};
use crate::command::creation::CreationOptions;
use crate::command::creation::lines::{Creation, number, word};
use crate::command::settings::Host;
use crate::command::text::six_digits;

pub(super) fn facts(filter: &Filter, chain: &Chain<Window>) -> Facts {
    Facts {
        size_bytes: filter.size_bytes(),
        error_rate: Some(chain.family().parameters.error_rate),
        tightening_ratio: None,
        estimated_items: None,
        window_ms: Some(chain.family().span.ms()),
    }
}

pub(super) fn profile(chain: &Chain<Window>) -> Profile {
    let error_rate = chain.family().parameters.error_rate;
    let layers = chain.layers().iter().map(|layer| layer_profile(layer.shape().layout, error_rate));
    Profile { error_rate: Some(error_rate), layers: layers.collect(), ..Profile::default() }
}

pub(super) fn blueprint(options: &CreationOptions, window_ms: u64, host: &dyn Host) -> Window {
    Window::new(everbloom::parameters(options, host), Span::new(window_ms), options.keeps_first)
}

pub(super) fn creation(window: &Window) -> Creation {
    let mut creation = everbloom::creation(&window.parameters);
    creation.words.extend([word("PWINDOW"), number(window.span.ms())]);
    if window.keeps_first {
        creation.words.push(word("NOREFRESH"));
    }
    creation
}

/// As those of a filter of our own, with `positions` of sixteen bits in place of bits; `size` are the items that are
/// remembered, `live` the generations in which they were added, and `ratio` is the rate that all columns together may have.
pub(super) fn debug_lines(chain: &Chain<Window>) -> Vec<String> {
    let now = chain.family().told().now;
    let line = |layer: &Layer<WindowProbing>| {
        let WindowShape { layout, probes, positions, capacity_items } = layer.shape();
        let (layout, lines) = match layout {
            Layout::Scattered => ("scattered", probes),
            Layout::Paged { lines } => ("paged", u32::from(lines)),
        };
        let live = layer.storage().history().live(now).filter(|(_, items)| *items > 0);
        let (generations, items) = live.fold((0, 0), |(count, sum): (u32, u64), (_, items)| {
            (count.saturating_add(1), sum.saturating_add(items))
        });
        format!(
            "bytes:{} positions:{positions} hashes:{probes} layout:{layout} lines:{lines} capacity:{capacity_items} \
             size:{items} live:{generations} set:{} ratio:{} window:{}",
            layer.storage().size_bytes(),
            layer.storage().set_bits(),
            six_digits(chain.family().parameters.error_rate),
            chain.family().span.ms(),
        )
    };
    chain.layers().iter().map(line).collect()
}
