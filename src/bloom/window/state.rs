//! The state of a sliding window: the items of its layers by generation, the quota of a column, and the expired layers.

use super::{ADDRESS_MAX, COLUMN_LEAST_SHARE, ColumnQuota, Generation, Window, is_live};
use crate::bloom::cells::History;
use crate::bloom::filter::Filter;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::limits::{WINDOW_MAX_MS, WINDOW_MIN_MS};
use crate::bloom::policy::Policy;
use crate::bloom::sizing::{self, Shape};

impl Window {
    /// Returns the number of items that the newest layer can still take in the current generation; at least one if
    /// `is_forced`. O(1), but O(layers) for the first item of a generation.
    #[inline(always)]
    pub(in crate::bloom) fn room_items(&mut self, layers: &[Layer], is_forced: bool) -> u64 {
        let generation = self.moment.added;
        if self.quota.generation != generation || is_forced {
            self.quota = self.find_quota(layers, generation);
        }
        let items = layers.last().map_or(0, |last| history(last).items_of(generation));
        self.quota.items.saturating_sub(items).max(is_forced.into())
    }

    /// Returns the most items of the newest layer in the column of a generation with which the error rates of all
    /// columns that are live then are at most the promise together. O(layers).
    #[cold]
    #[inline(never)]
    fn find_quota(&self, layers: &[Layer], generation: Generation) -> ColumnQuota {
        let now = self.newest.max(generation);
        let Some((last, older)) = layers.split_last() else { return ColumnQuota::default() };
        let older_layers = older.iter().filter(|layer| is_live(history(layer).newest, now)).count();
        let others = older.iter().map(|layer| live_rate(layer, now, 0)).sum::<f64>();
        let rest = self.rate_up_to(older_layers) - others - live_rate(last, now, generation);
        let rate = rest.max(self.promise.error_rate * COLUMN_LEAST_SHARE);
        ColumnQuota { generation, items: column_rate(last).map_or(0, |curve| curve.items(rate)) }
    }

    /// Returns whether the next new item fits without another layer. O(layers).
    #[must_use]
    pub fn has_room(&self, layers: &[Layer]) -> bool {
        let generation = self.moment.added;
        let quota = self.find_quota(layers, generation);
        layers.last().is_some_and(|last| history(last).items_of(generation) < quota.items)
    }

    /// Counts items that were added to the newest layer in the current generation.
    pub(in crate::bloom) fn count(&mut self, last: &mut Layer, items: u64) {
        let (generation, positions) = (self.moment.added, last.positions());
        if let Some(state) = last.cells_mut().columns_mut() {
            state.history.count(generation, items, positions);
        }
        self.newest = self.newest.max(generation);
    }

    /// Returns whether items that are added at the current moment have expired already.
    #[inline(always)]
    pub(in crate::bloom) const fn is_past(&self) -> bool {
        !is_live(self.moment.added, self.moment.now)
    }
}

impl Filter {
    /// Sets the time of a sliding-window filter before a command: to milliseconds of UNIX time, or, for replayed
    /// items, to the newest generation. Other filters are unchanged.
    #[inline(always)]
    pub fn set_time(&mut self, now_ms: impl FnOnce() -> u64, is_replayed: impl FnOnce() -> bool) {
        if let Some(window) = self.window_mut() {
            window.set_now(now_ms());
            // Within the newest generation both are the same, and the call takes longer than an add.
            if window.is_newer() && is_replayed() {
                window.set_to_newest(0);
            }
        }
    }

    /// Removes the layers all of whose columns had expired when the newest item was added, never the newest layer.
    /// Returns a filter of them, to be freed; mostly nothing. O(layers).
    #[must_use]
    #[inline(always)]
    pub fn take_expired(&mut self) -> Option<Self> {
        let newest = self.window()?.newest;
        let older = self.layers.len().saturating_sub(1);
        let is_expired = |layer: &Layer| !is_live(history(layer).newest, newest);
        if self.layers.iter().take(older).any(is_expired) { self.split_expired() } else { None }
    }

    #[cold]
    fn split_expired(&mut self) -> Option<Self> {
        let window = self.window()?;
        let (newest, emptied) = (window.newest, window.emptied());
        let older = self.layers.len().saturating_sub(1);
        let (mut expired, mut live) = (Vec::new(), Vec::new());
        for (index, layer) in std::mem::take(&mut self.layers).into_iter().enumerate() {
            let is_expired = index < older && !is_live(history(&layer).newest, newest);
            if is_expired { expired.push(layer) } else { live.push(layer) }
        }
        self.layers = if live.len() > 1 { live.into() } else { live.into_iter().collect() };
        self.note_change();
        Some(Self { layers: expired.into(), policy: Policy::Window(Box::new(emptied)), marks: None })
    }
}

/// Returns the items of a layer by generation.
#[inline(always)]
pub(in crate::bloom) fn history(layer: &Layer) -> &History {
    const NONE: &History = &History::NONE;
    layer.cells().columns().map_or(NONE, |state| &state.history)
}

fn column_rate(layer: &Layer) -> Option<&ColumnRate> {
    layer.cells().columns().map(|state| &state.rate)
}

/// Returns the items of a layer that are live at `now`, each counted in every generation that it was added in.
#[must_use]
pub fn live_items(layer: &Layer, now: Generation) -> u64 {
    history(layer).live(now).fold(0, |sum, (_, items)| sum.saturating_add(items))
}

/// Returns the sum of the error rates of a layer's live columns but that of generation `except`.
#[must_use]
pub fn live_rate(layer: &Layer, now: Generation, except: Generation) -> f64 {
    let Some(curve) = column_rate(layer) else { return 0.0 };
    let history = history(layer);
    let columns = history.live(now).filter(|(generation, _)| *generation != except);
    columns.map(|(_, items)| curve.rate(items as f64)).sum()
}

impl Window {
    /// Sets the newest generation to that of the layers, and the time to it at least, after the layers were decoded
    /// or merged. O(layers).
    pub(in crate::bloom) fn find_newest(&mut self, layers: &[Layer]) {
        self.quota = ColumnQuota::default();
        self.newest = layers.iter().map(|layer| history(layer).newest).max().unwrap_or(0);
        // The time is never before it.
        self.set_now(self.now_ms());
    }

    /// Checks the parameters and the layers. O(layers).
    ///
    /// # Errors
    /// What breaks a rule.
    pub(in crate::bloom) fn validate(&self, layers: &[Layer]) -> Result<(), &'static str> {
        if !(WINDOW_MIN_MS..=WINDOW_MAX_MS).contains(&self.span.ms()) {
            return Err("window");
        }
        // Each generation has its share of the error rate, whichever layers there are.
        if matches!(self.promise.growth, Growth::Saturating | Growth::Unreserved { .. }) {
            return Err("growth");
        }
        let mut end = 0;
        for layer in layers {
            history(layer).validate(layer.positions())?;
            let range = layer.dump_range(end);
            if range.start < end || range.start > ADDRESS_MAX {
                return Err("address");
            }
            end = range.end;
        }
        if layers.iter().map(|layer| history(layer).newest).max() != Some(self.newest) {
            return Err("newest generation");
        }
        // The quota is computed once per generation, and follows from the layers.
        let is_known = self.quota == ColumnQuota::default()
            || self.quota == self.find_quota(layers, self.quota.generation);
        if is_known { Ok(()) } else { Err("items of a column") }
    }
}

/// The error rate of one column by its items: that of a layer without pages, times a factor for its pages, exact at
/// the items that the layer was sized for. With more items it is an upper bound; with fewer the rate is close to 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnRate {
    scale: f64,
    probes: f64,
    per_item: f64,
}

impl ColumnRate {
    /// Returns the curve of the columns of a layer of this shape, which must be valid. O(1), some microseconds.
    #[must_use]
    pub fn of(shape: &Shape) -> Self {
        let share = sizing::column_items(shape.capacity_items);
        let (probes, positions) = (f64::from(shape.probes), shape.positions as f64);
        let rate = sizing::rate_of(shape, share);
        let mut curve = Self { scale: 1.0, probes, per_item: probes / positions };
        let ideal = curve.rate(share);
        if ideal > 0.0 {
            curve.scale = (rate / ideal).clamp(1.0, SCALE_MAX);
        }
        curve
    }

    /// Returns the error rate of a column with `items` items. O(1).
    #[must_use]
    pub fn rate(&self, items: f64) -> f64 {
        let fill = -libm::expm1(-items * self.per_item);
        (self.scale * libm::pow(fill, self.probes)).min(1.0)
    }

    /// Returns the items with which a column has error rate `rate`. O(1).
    #[must_use]
    pub fn items(&self, rate: f64) -> u64 {
        if rate <= 0.0 {
            return 0;
        }
        let fill = libm::pow(rate / self.scale, 1.0 / self.probes);
        if fill >= 1.0 { u64::MAX } else { sizing::truncate(-libm::log1p(-fill) / self.per_item) }
    }
}

/// An upper bound of the factor for pages.
const SCALE_MAX: f64 = 1e6;
