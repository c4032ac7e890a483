//! What becomes of layers of columns: generations of both are united, as far as they are live when the newest item was added.

use super::{LastLayer, MergeError, Merged, Order};
use crate::bloom::cells::{ColumnsState, History};
use crate::bloom::extent::Extent;
use crate::bloom::filter::Filter;
use crate::bloom::layer::Layer;
use crate::bloom::memory::Memory;
use crate::bloom::outcome::{ByteLimit, ReserveError};
use crate::bloom::window::{ADDRESS_MAX, ColumnRate, Generation, Window, history, is_live};

/// Decides what becomes of each layer of the sources, and makes copies of those that are to be appended. O(layers^2, and the bytes
/// that must be compared or copied).
///
/// # Errors
/// [`MergeError`].
pub(super) fn plan<'s>(
    filter: &Filter,
    sources: &[&'s Filter],
    is_forced: bool,
    limit: &dyn ByteLimit,
    memory: impl Memory,
) -> Result<Merged<'s>, MergeError> {
    let newest = |filter: &Filter| filter.window().map_or(0, Window::newest);
    let newest = sources.iter().map(|source| newest(source)).fold(newest(filter), u64::max);
    let mut merged = Merged { last: LastLayer::Stays, ..Merged::default() };
    let mut extent = Extent::of(filter.layers());
    let mut histories: Vec<Columns<'_>> = filter.layers().iter().filter_map(Columns::of).collect();
    let live = |layer: &&Layer| is_live(history(layer).newest, newest) && layer.counts().set_cells > 0;
    for source in sources {
        for (number, from) in source.layers().iter().enumerate().filter(|(_, layer)| live(layer)) {
            let of_same_number = filter.layers().get(number).filter(|layer| layer.has_shape_of(from));
            let alike = || filter.layers().iter().position(|layer| layer.has_shape_of(from));
            if let Some(layer) = of_same_number.map(|_| number).or_else(alike) {
                let is_covered =
                    filter.layers().get(layer).is_some_and(|layer| layer.cells().covers(from.cells()));
                if !is_covered {
                    merged.orders.push(Order { from, layer });
                    histories.get_mut(layer).into_iter().for_each(|columns| columns.unite(from));
                }
                continue;
            }
            let added = merged.added.iter().position(|layer| layer.has_shape_of(from));
            if let Some((number, layer)) =
                added.and_then(|number| Some((number, merged.added.get_mut(number)?)))
            {
                layer.unite(from, memory);
                let columns = histories.get_mut(filter.layer_count().saturating_add(number));
                columns.into_iter().for_each(|columns| columns.unite(from));
                continue;
            }
            extent = extent.and_layer(from.cells().size_bytes(), from.layout().probes());
            extent.check(limit)?;
            merged.added.push(from.try_clone(memory)?);
            histories.extend(Columns::of(from));
        }
    }
    let end = filter.layers().last().map_or(0, |last| last.dump_range(0).end);
    let added_bytes = merged.added.iter().map(|layer| layer.cells().size_bytes());
    if added_bytes.fold(end, u64::saturating_add) > ADDRESS_MAX {
        return Err(MergeError::Reserve(ReserveError::TooLong));
    }
    let has_changed = !merged.added.is_empty() || !merged.orders.is_empty();
    let rate: f64 = histories.iter().map(|columns| columns.rate(newest)).sum();
    let promised = filter.promise().error_rate;
    if has_changed && rate > promised && !is_forced {
        return Err(MergeError::ErrorRate { rate, promised, needed: rate });
    }
    Ok(merged)
}

/// Returns the sum of the error rates of all columns that are live. O(layers).
pub(super) fn live_rate_of(filter: &Filter, now: Generation) -> f64 {
    filter.layers().iter().filter_map(Columns::of).map(|columns| columns.rate(now)).sum()
}

/// The items of a layer by generation, and what they make of its error rate.
struct Columns<'f> {
    curve: &'f ColumnRate,
    history: History,
    positions: u64,
}

impl<'f> Columns<'f> {
    fn of(layer: &'f Layer) -> Option<Self> {
        let ColumnsState { rate: curve, history, .. } = layer.cells().columns()?;
        Some(Self { curve, history: *history, positions: layer.positions() })
    }

    fn unite(&mut self, from: &Layer) {
        self.history.unite(history(from), self.positions);
    }

    fn rate(&self, now: Generation) -> f64 {
        self.history.live(now).map(|(_, items)| self.curve.rate(items as f64)).sum()
    }
}
