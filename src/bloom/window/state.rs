//! The state of a sliding window: the items of its layers by generation, the layer that takes new items, and the
//! expired layers.

use super::place::{AsTimed, Place, Timed};
use super::{ADDRESS_MAX, Generation, Window, is_live};
use crate::bloom::cells::{CellType, History};
use crate::bloom::filter::Filter;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::limits::{WINDOW_MAX_MS, WINDOW_MIN_MS};
use crate::bloom::policy::Policy;
use crate::bloom::sizing;

impl Window {
    /// Returns the index of the layer that takes the next items of the current generation, and how many more it
    /// takes: 0 if a new layer is needed first, at least 1 if `is_forced`. O(1), but O(layers) for the first item of
    /// a generation and when a layer becomes full.
    #[inline(always)]
    pub(in crate::bloom) fn room(&mut self, layers: &[Layer], is_forced: bool) -> (usize, u64) {
        let Place { generation, layer, items } = self.place;
        let taken = layers.get(layer).map_or(u64::MAX, |layer| history(layer).items_of(self.moment.added));
        if generation == self.moment.added && taken < items {
            return (layer, items - taken);
        }
        self.find_room(layers, is_forced)
    }

    #[cold]
    #[inline(never)]
    fn find_room(&mut self, layers: &[Layer], is_forced: bool) -> (usize, u64) {
        let generation = self.moment.added;
        let none = Place { generation, layer: self.base_index(layers), items: 0 };
        self.place = self.placing(layers).place(generation).unwrap_or(none);
        let Place { layer, items, .. } = self.place;
        let taken = layers.get(layer).map_or(0, |layer| history(layer).items_of(generation));
        (layer, items.saturating_sub(taken).max(is_forced.into()))
    }

    /// Returns the index of the base, the last layer of columns. O(layers).
    pub(in crate::bloom) fn base_index(&self, layers: &[Layer]) -> usize {
        self.placing(layers).base().map_or(0, |(index, _)| index)
    }

    /// Returns whether the next new item fits without another layer. O(layers).
    #[must_use]
    pub fn has_room(&self, layers: &[Layer]) -> bool {
        self.placing(layers).place(self.moment.added).is_some()
    }

    /// Counts items that were added to a layer in the current generation.
    pub(in crate::bloom) fn count(&mut self, layer: &mut Layer, items: u64) {
        let (generation, positions) = (self.moment.added, layer.positions());
        if let Some(state) = layer.cells_mut().timed_mut() {
            state.history.count(generation, items, positions);
        }
        self.newest = self.newest.max(generation);
    }

    /// Returns whether items that are added at the current time have expired already.
    #[inline(always)]
    pub(in crate::bloom) const fn is_past(&self) -> bool {
        !is_live(self.moment.added, self.moment.now)
    }
}

impl Filter {
    /// Sets the time of a sliding-window filter before a command: to milliseconds of UNIX time, or to the newest
    /// generation for replayed items. Other filters are unchanged.
    #[inline(always)]
    pub fn set_time(&mut self, now_ms: impl FnOnce() -> u64, is_replayed: impl FnOnce() -> bool) {
        if let Some(window) = self.window_mut() {
            window.set_now(now_ms());
            // Within the newest generation both give the same, and the call takes longer than an add.
            if window.is_newer() && is_replayed() {
                window.set_to_newest(0);
            }
        }
    }

    /// Removes the layers whose items had all expired when the newest item was added, but never the base. Returns a
    /// filter with these layers, to be freed; mostly `None`. O(layers).
    #[must_use]
    #[inline(always)]
    pub fn take_expired(&mut self) -> Option<Self> {
        let newest = self.window()?.newest;
        let is_expired = |layer: &Layer| !is_live(history(layer).newest, newest);
        if self.layers.len() > 1 && self.layers.iter().any(is_expired) { self.split_expired() } else { None }
    }

    #[cold]
    fn split_expired(&mut self) -> Option<Self> {
        let window = self.window()?;
        let (newest, emptied) = (window.newest, window.emptied());
        let base = window.base_index(&self.layers);
        // The live layers come first, in their order.
        let mut live = 0usize;
        for index in 0..self.layers.len() {
            let is_expired = |layer: &Layer| index != base && !is_live(history(layer).newest, newest);
            if !self.layers.get(index).is_some_and(is_expired) {
                self.layers.swap(live, index);
                live = live.saturating_add(1);
            }
        }
        let expired: Vec<Layer> = self.layers.drain(live..).collect();
        // A single layer moves into the struct.
        self.layers.shrink_to_fit();
        if expired.is_empty() {
            return None;
        }
        if let Some(window) = self.window_mut() {
            window.place = Place::default();
        }
        self.note_change();
        Some(Self { layers: expired.into(), policy: Policy::Window(Box::new(emptied)), dumps: None })
    }
}

/// The layers of a sliding-window filter by their purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowLayers {
    /// The items per window for which the base is sized.
    pub base_capacity_items: u64,
    /// The items of a generation that the base takes. More items are a burst.
    pub generation_items: u64,
    /// Bytes of the live burst layers.
    pub burst_bytes: u64,
    /// Bytes of layers whose items have all expired. The next add frees them.
    pub expired_bytes: u64,
}

impl Filter {
    /// Returns the layers of a sliding-window filter by their purpose, at its current time; `None` for other filters.
    /// O(layers).
    #[must_use]
    pub fn window_layers(&self) -> Option<WindowLayers> {
        let window = self.window()?;
        let (now, base_index) = (window.moment().now, window.base_index(&self.layers));
        let base_capacity_items = self.layers.get(base_index)?.capacity_items();
        let generation_items = sizing::truncate(sizing::column_items(base_capacity_items));
        let mut found = WindowLayers { base_capacity_items, generation_items, ..WindowLayers::default() };
        for (_, layer) in self.layers.iter().enumerate().filter(|(index, _)| *index != base_index) {
            let bytes = layer.cells().size_bytes();
            if !is_live(history(layer).newest, now) {
                found.expired_bytes = found.expired_bytes.saturating_add(bytes);
            } else if layer.is_burst() {
                found.burst_bytes = found.burst_bytes.saturating_add(bytes);
            }
        }
        Some(found)
    }
}

impl AsTimed for Layer {
    fn as_timed(&self) -> Option<Timed<'_>> {
        let (cells, state) = (self.cells().state().cell_type(), self.cells().timed()?);
        let (capacity_items, history, rate) = (self.capacity_items(), &state.history, &state.rate);
        Some(Timed { cells, capacity_items, history, rate })
    }
}

/// Returns the items of a layer by generation.
#[inline(always)]
pub(in crate::bloom) fn history(layer: &Layer) -> &History {
    const NONE: &History = &History::NONE;
    layer.cells().timed().map_or(NONE, |state| &state.history)
}

/// Returns the live items of a layer at `now`, each counted in every generation in which it was added.
#[must_use]
pub fn live_items(layer: &Layer, now: Generation) -> u64 {
    history(layer).live(now).fold(0, |sum, (_, items)| sum.saturating_add(items))
}

/// Returns the sum of the error rates of a layer's live generations.
#[must_use]
pub fn live_rate(layer: &Layer, now: Generation) -> f64 {
    layer.as_timed().map_or(0.0, |timed| timed.live_rate(now))
}

impl Window {
    /// Sets the newest generation to that of the layers, and the time to at least that, after the layers were decoded
    /// or merged. O(layers).
    pub(in crate::bloom) fn find_newest(&mut self, layers: &[Layer]) {
        self.place = Place::default();
        self.newest = layers.iter().map(|layer| history(layer).newest).max().unwrap_or(0);
        // This keeps the time from being before it.
        self.set_now(self.now_ms());
    }

    /// Checks the parameters and the layers. O(layers).
    ///
    /// # Errors
    /// The rule that is broken.
    pub(in crate::bloom) fn validate(&self, layers: &[Layer]) -> Result<(), &'static str> {
        if !(WINDOW_MIN_MS..=WINDOW_MAX_MS).contains(&self.span.ms()) {
            return Err("window");
        }
        // Each generation has its share of the error rate, independently of the layers.
        if matches!(self.promise.growth, Growth::Saturating | Growth::Unreserved { .. }) {
            return Err("growth");
        }
        let mut end = 0;
        if self.placing(layers).base().is_none() {
            return Err("layers");
        }
        for layer in layers {
            history(layer).validate(layer.positions())?;
            let (newest, all) = (history(layer).newest, history(layer).all_items());
            let is_burst = layer.cells().state().cell_type() == CellType::Burst;
            if is_burst && (newest == 0 || history(layer).items_of(newest) != all) {
                return Err("items");
            }
            let range = layer.dump_range(end);
            if range.start < end || range.start > ADDRESS_MAX {
                return Err("address");
            }
            end = range.end;
        }
        if end > self.end {
            return Err("address");
        }
        if layers.iter().map(|layer| history(layer).newest).max() != Some(self.newest) {
            return Err("newest generation");
        }
        // The layer is determined once per generation, from the layers.
        let is_full = |place: Place| {
            let layer = layers.get(place.layer);
            layer.is_none_or(|layer| history(layer).items_of(place.generation) >= place.items)
        };
        let is_known =
            is_full(self.place) || self.placing(layers).place(self.place.generation) == Some(self.place);
        if is_known { Ok(()) } else { Err("items of a column") }
    }
}
