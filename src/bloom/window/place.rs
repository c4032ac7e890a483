//! Selects the layer of a sliding-window filter that takes the items of a generation, and the next layer.
//!
//! One layer of columns, the *base*, takes the items of an even pace. Items beyond a generation's share go to *burst
//! layers*: plain bits that belong to one generation and expire with it. If most generations have bursts, a larger
//! base follows. If no generation needs it any more, a smaller base follows. All of this depends only on the state
//! and on the generation, so replicas do the same.

use super::rate::column_items;
use super::{
    COLUMN_LEAST_SHARE, COLUMNS_LEN, ColumnRate, Generation, LIVE_GENERATIONS, RESERVE, WINDOW_GENERATIONS,
    is_live,
};
use crate::bloom::cells::{CellType, History};
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::policy::Promise;
use crate::bloom::sizing::{Shape, most_arrivals};

/// The part of its share of the error rate that a future generation is expected to need. The rest is for
/// fluctuations: one generation may use up to twice its share, with about 1.1 times its items.
const EXPECTED_SHARE: f64 = 13.0 / 14.0;
/// The capacity of the first burst layer of a generation, as a part of the capacity of the base.
const FIRST_BURST: u64 = 12;
/// Smallest capacity of a burst layer.
const BURST_LEAST_ITEMS: u64 = 64;
/// The capacity of each further burst layer of a generation, as a part of the sum of those before it: 2/5.
const NEXT_BURST: (u64, u64) = (2, 5);
/// The share of the remaining error rate for bursts that a burst layer takes.
const BURST_SHARE: f64 = 0.2;
/// The same share for a layer that is sized by earlier bursts: it is probably the only one of its generation.
const EXPECTED_BURST_SHARE: f64 = 0.5;
/// Number of live generations with bursts at which a larger base follows. Daily bursts in a window of a week have
/// eight.
const BURST_GENERATIONS_MAX: usize = 8;

/// The properties of a layer that placing items depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed<'l> {
    pub(super) cells: CellType,
    pub(super) capacity_items: u64,
    pub(super) history: &'l History,
    pub(super) rate: &'l ColumnRate,
}

/// A layer of a filter, or a computed one.
pub(super) trait AsTimed {
    /// Returns these properties; `None` for layers that no sliding window has.
    fn as_timed(&self) -> Option<Timed<'_>>;
}

/// The layer that takes the items of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The generation.
    pub(super) generation: Generation,
    /// The index of the layer.
    pub(super) layer: usize,
    /// The largest number of items of the generation in this layer.
    pub(super) items: u64,
}

/// The properties of a sliding-window filter that placing items depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placing<'f, L> {
    pub(super) promise: &'f Promise,
    pub(super) layers: &'f [L],
    /// The newest generation with an item.
    pub(super) newest: Generation,
}

impl<'f, L: AsTimed> Placing<'f, L> {
    /// Returns the layer that takes the next item of a generation; `None` if a new layer is needed. O(layers).
    pub(super) fn place(&self, generation: Generation) -> Option<Place> {
        let (base_index, base) = self.base()?;
        if self.smaller_capacity(&base, generation).is_some() {
            return None;
        }
        let items = self.quota((base_index, &base), generation);
        if base.history.items_of(generation) < items {
            return Some(Place { generation, layer: base_index, items });
        }
        let mut bursts = self.numbered().rev().filter(|(_, layer)| layer.is_burst_of(generation));
        let (layer, burst) =
            bursts.find(|(_, burst)| burst.history.items_of(generation) < burst.capacity_items)?;
        Some(Place { generation, layer, items: burst.capacity_items })
    }

    /// Returns the shape of the new layer for an item of a generation. O(layers).
    ///
    /// # Errors
    /// [`AddError`] if the filter cannot grow.
    pub(super) fn next_shape(&self, generation: Generation) -> Result<Shape, AddError> {
        let Some((_, base)) = self.base() else { return Ok(self.columns(self.promise.capacity_items)) };
        if self.promise.growth.is_fixed_size() {
            return Err(AddError::Full);
        }
        let capacity_items =
            self.smaller_capacity(&base, generation).or_else(|| self.larger_capacity(&base, generation));
        if let Some(capacity_items) = capacity_items {
            return Ok(self.columns(capacity_items));
        }
        let (capacity_items, error_rate) = self.burst(&base, generation);
        if capacity_items > CAPACITY_MAX_ITEMS {
            return Err(AddError::CannotGrow(ReserveError::TooLong));
        }
        Ok(Shape::sized(CellType::Burst, capacity_items, error_rate))
    }

    /// Returns the base, which is the last layer of columns, and its index.
    pub(super) fn base(&self) -> Option<(usize, Timed<'f>)> {
        self.numbered().rev().find(|(_, layer)| !layer.is_burst())
    }

    fn columns(&self, capacity_items: u64) -> Shape {
        Shape::sized(CellType::Columns, capacity_items, columns_rate(self.promise))
    }

    /// Returns the layers with their indices.
    fn numbered(&self) -> impl DoubleEndedIterator<Item = (usize, Timed<'f>)> {
        let layers = self.layers.iter().enumerate();
        layers.filter_map(|(index, layer)| Some((index, layer.as_timed()?)))
    }

    fn timed(&self) -> impl Iterator<Item = Timed<'f>> {
        self.numbered().map(|(_, layer)| layer)
    }

    /// Returns the largest number of items of a generation in the base. With it, the error rates of all live columns
    /// stay within their part of the promise together. In a filter that grows this also holds later, as long as the
    /// generation is live and later ones need their share. O(layers).
    fn quota(&self, (base_index, base): (usize, &Timed<'_>), generation: Generation) -> u64 {
        let now = self.newest.max(generation);
        // The rates of the columns, by the age of their generation.
        let (mut columns, mut bursts) = ([0.0; COLUMNS_LEN], 0.0);
        for (index, layer) in self.numbered() {
            if layer.is_burst() {
                bursts += layer.full_rate(now);
                continue;
            }
            for (number, items) in layer.history.live(now) {
                let age = usize::try_from(now.saturating_sub(number)).unwrap_or(usize::MAX);
                if let Some(rate) = columns.get_mut(age)
                    && (index, number) != (base_index, generation)
                {
                    *rate += layer.rate.rate(items as f64);
                }
            }
        }
        let error_rate = self.promise.error_rate;
        // Bursts can exceed their part only after a merge.
        let most = columns_rate(self.promise).min(error_rate - bursts);
        let share = columns_rate(self.promise) / LIVE_GENERATIONS as f64 * EXPECTED_SHARE;
        let is_fixed = self.promise.growth.is_fixed_size();
        let latest = if is_fixed { 0 } else { (LIVE_GENERATIONS - 1).saturating_sub(now - generation) };
        let rest = (0..=latest).map(|later| {
            let still_live = columns.iter().take(usize::try_from(LIVE_GENERATIONS - later).unwrap_or(0));
            most - still_live.sum::<f64>() - later as f64 * share
        });
        let rest = rest.fold(f64::INFINITY, f64::min).max(error_rate * COLUMN_LEAST_SHARE);
        let items = base.rate.items(rest);
        // Items beyond random arrivals are a burst.
        if is_fixed { items } else { items.min(most_arrivals(base.capacity_items)) }
    }

    /// Returns the capacity and the error rate of the next burst layer of a generation. O(layers).
    fn burst(&self, base: &Timed<'_>, generation: Generation) -> (u64, f64) {
        let now = self.newest.max(generation);
        let (mut own_items, mut spent) = (0u64, 0.0);
        for layer in self.timed().filter(Timed::is_burst) {
            spent += layer.full_rate(now);
            if layer.is_burst_of(generation) {
                own_items = own_items.saturating_add(layer.capacity_items);
            }
        }
        let least = (base.capacity_items / FIRST_BURST).max(BURST_LEAST_ITEMS);
        let error_rate = self.promise.error_rate;
        let left = (error_rate * RESERVE - spent).max(error_rate * COLUMN_LEAST_SHARE);
        if own_items > 0 {
            let (part, parts) = NEXT_BURST;
            return (least.max(own_items / parts * part), left * BURST_SHARE);
        }
        match self.expected_burst(generation) {
            0 => (least, left * BURST_SHARE),
            expected if expected < least => (expected.max(BURST_LEAST_ITEMS), left * BURST_SHARE),
            expected => (expected, left * EXPECTED_BURST_SHARE),
        }
    }

    /// Returns the expected number of items in the burst layers of a generation: as many as one window before, or as
    /// the smaller of the two latest bursts. O(layers * generations).
    fn expected_burst(&self, generation: Generation) -> u64 {
        let now = self.newest.max(generation);
        let items_of = |generation| {
            let bursts = self.timed().filter(|layer| layer.is_burst_of(generation));
            bursts.fold(0u64, |sum, layer| sum.saturating_add(layer.history.items_of(generation)))
        };
        let mut latest =
            live_generations(now).filter(|live| *live != generation).map(items_of).filter(|items| *items > 0);
        let recent = latest.next().zip(latest.next()).map_or(0, |(newer, older)| newer.min(older));
        let window_before = generation.checked_sub(WINDOW_GENERATIONS).filter(|before| is_live(*before, now));
        let items = recent.max(window_before.map_or(0, items_of));
        // The sizes of bursts vary a little.
        items.saturating_add(items / 32)
    }

    /// Returns the capacity of a larger base if eight other live generations have had bursts since the base took its
    /// first live item. O(layers * generations).
    fn larger_capacity(&self, base: &Timed<'_>, generation: Generation) -> Option<u64> {
        let now = self.newest.max(generation);
        // Bursts before the base was created do not show that it is too small.
        let since =
            base.history.live(now).filter(|(_, items)| *items > 0).map(|(generation, _)| generation).min()?;
        let has_burst = |generation: &Generation| self.timed().any(|layer| layer.is_burst_of(*generation));
        let others = live_generations(now).filter(|live| *live >= since && *live != generation);
        if others.filter(has_burst).count() < BURST_GENERATIONS_MAX {
            return None;
        }
        let mut items: Vec<u64> = live_generations(now).map(|generation| self.items_of(generation)).collect();
        items.sort_unstable_by(|one, other| other.cmp(one));
        let needed = items.get(BURST_GENERATIONS_MAX.saturating_sub(1)).copied().unwrap_or(0);
        self.capacities(base.capacity_items).skip(1).find(|capacity| holds(*capacity, needed))
    }

    /// Returns the capacity of a smaller base if it suffices for every live generation and a new generation begins.
    /// It is at least the reserved capacity. O(layers * generations).
    fn smaller_capacity(&self, base: &Timed<'_>, generation: Generation) -> Option<u64> {
        let is_grown = base.capacity_items > self.promise.capacity_items && generation > self.newest;
        if !is_grown || self.promise.growth.is_fixed_size() {
            return None;
        }
        let needed = live_generations(generation).map(|generation| self.items_of(generation)).max()?;
        let smaller = self.capacities(self.promise.capacity_items);
        smaller
            .take_while(|capacity| *capacity < base.capacity_items)
            .find(|capacity| holds(*capacity, needed))
    }

    /// Returns the items of a generation in all layers. O(layers).
    fn items_of(&self, generation: Generation) -> u64 {
        self.timed().fold(0, |sum, layer| sum.saturating_add(layer.history.items_of(generation)))
    }

    /// Returns the possible capacities of a base, from `from` on.
    fn capacities(&self, from: u64) -> impl Iterator<Item = u64> {
        // With an expansion of 1 a base would never become larger.
        let factor = u64::from(self.promise.growth.expansion().max(2));
        std::iter::successors(Some(from), move |capacity| {
            capacity.checked_mul(factor).filter(|capacity| *capacity <= CAPACITY_MAX_ITEMS)
        })
    }
}

impl Timed<'_> {
    /// Returns whether this is a burst layer.
    fn is_burst(&self) -> bool {
        self.cells == CellType::Burst
    }

    fn is_burst_of(&self, generation: Generation) -> bool {
        self.is_burst() && self.history.newest == generation
    }

    /// Returns the sum of the error rates of the live generations. O(generations).
    pub(super) fn live_rate(&self, now: Generation) -> f64 {
        self.history.live(now).map(|(_, items)| self.rate.rate(items as f64)).sum()
    }

    /// Returns the error rate of a full burst layer; 0 after it has expired.
    fn full_rate(&self, now: Generation) -> f64 {
        if is_live(self.history.newest, now) { self.rate.rate(self.capacity_items as f64) } else { 0.0 }
    }
}

/// Returns the part of the error rate for columns. The rest is for bursts; a fixed filter has none.
pub(super) fn columns_rate(promise: &Promise) -> f64 {
    let reserve = if promise.growth.is_fixed_size() { 0.0 } else { RESERVE };
    promise.error_rate * (1.0 - reserve)
}

/// Returns the live generations, the newest first.
fn live_generations(now: Generation) -> impl Iterator<Item = Generation> {
    (0..LIVE_GENERATIONS).map_while(move |age| now.checked_sub(age).filter(|generation| *generation > 0))
}

/// Returns whether a base of this capacity holds this number of items of every generation.
fn holds(capacity_items: u64, items: u64) -> bool {
    column_items(CellType::Columns, capacity_items) >= items as f64
}
