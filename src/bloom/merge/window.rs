//! The plan of a merge of sliding windows: merges the generations of both that were live when the newest item was
//! added.

use super::{MergeError, MergePlan, Union};
use crate::bloom::cells::{History, TimedState};
use crate::bloom::extent::Extent;
use crate::bloom::filter::Filter;
use crate::bloom::layer::Layer;
use crate::bloom::memory::Memory;
use crate::bloom::outcome::{ByteLimit, ReserveError};
use crate::bloom::window::{
    ADDRESS_MAX, ColumnRate, Generation, Window, column_items, history as history_of, is_live,
};

/// Returns the plan for all layers of the sources, with copies of those that are appended. O(layers^2, and the bytes
/// that are compared or copied).
///
/// # Errors
/// [`MergeError`].
pub(super) fn plan<'s>(
    filter: &Filter,
    sources: &[&'s Filter],
    is_forced: bool,
    limit: &dyn ByteLimit,
    memory: impl Memory,
) -> Result<MergePlan<'s>, MergeError> {
    let windows = std::iter::once(filter).chain(sources.iter().copied()).filter_map(Filter::window);
    let newest = windows.map(Window::newest).max().unwrap_or(0);
    let own = filter.layers();
    let mut plan = MergePlan::default();
    let mut extent = Extent::of(own);
    let mut columns: Vec<Columns<'_>> = own.iter().filter_map(Columns::of).collect();
    for (number, from) in sources.iter().flat_map(|source| source.layers().iter().enumerate()) {
        if !is_live(history_of(from).newest, newest) || from.counts().set_cells == 0 {
            continue;
        }
        let covers = |layer: &Layer| layer.has_shape_of(from) && layer.cells().covers(from.cells());
        if own.iter().chain(&plan.added).any(covers) {
            continue;
        }
        let layers = || own.iter().chain(&plan.added).zip(&columns);
        let fits = |(layer, columns): (&Layer, &Columns<'_>)| layer.has_shape_of(from) && columns.fits(from);
        let of_same_number = layers().nth(number).is_some_and(fits).then_some(number);
        match of_same_number.or_else(|| layers().position(fits)) {
            Some(index) => {
                match index.checked_sub(own.len()) {
                    None => plan.unions.push(Union { from, layer: index }),
                    Some(index) => {
                        plan.added.get_mut(index).into_iter().for_each(|layer| layer.unite(from, memory));
                    }
                }
                columns.get_mut(index).into_iter().for_each(|columns| columns.unite(from));
            }
            None => {
                extent = extent.with_layer(from);
                extent.check(limit)?;
                plan.added.push(from.try_clone(memory)?);
                columns.extend(Columns::of(from));
            }
        }
    }
    let end = own.last().map_or(0, |last| last.dump_range(0).end);
    let added_bytes = plan.added.iter().map(|layer| layer.cells().size_bytes());
    if added_bytes.fold(end, u64::saturating_add) > ADDRESS_MAX {
        return Err(MergeError::Reserve(ReserveError::TooLong));
    }
    let rate: f64 = columns.iter().map(|columns| columns.rate(newest)).sum();
    let promised = filter.promise().error_rate;
    if plan.has_changes() && rate > promised && !is_forced {
        return Err(MergeError::ErrorRate { rate, promised, needed: rate });
    }
    Ok(plan)
}

/// The items of a layer by generation, and the error rate of its columns.
struct Columns<'f> {
    curve: &'f ColumnRate,
    history: History,
    positions: u64,
    /// The items of a generation that the layer is sized for.
    most_items: f64,
}

impl<'f> Columns<'f> {
    fn of(layer: &'f Layer) -> Option<Self> {
        let TimedState { rate: curve, history, .. } = layer.cells().timed()?;
        let most_items = column_items(layer.cells().state().cell_type(), layer.capacity_items());
        Some(Self { curve, history: *history, positions: layer.positions(), most_items })
    }

    /// Returns whether the items of another layer still fit, so that each generation keeps its error rate.
    fn fits(&self, from: &Layer) -> bool {
        let mut history = self.history;
        history.unite(history_of(from), u64::MAX);
        history.items.iter().all(|items| *items as f64 <= self.most_items)
    }

    fn unite(&mut self, from: &Layer) {
        self.history.unite(history_of(from), self.positions);
    }

    fn rate(&self, now: Generation) -> f64 {
        self.history.live(now).map(|(_, items)| self.curve.rate(items as f64)).sum()
    }
}
