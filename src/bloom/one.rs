//! Operations on one item: lookup, add, remove.

use super::batch::is_cached;
use super::cells::{CellState, CellType, Found, Purpose};
use super::digest::{HashedItem, MixedItem, Pairs};
use super::filter::{Filter, cell_type};
use super::growth::Growth;
use super::hash::{Digest, ItemHash};
use super::layer::Layer;
use super::limits::NEAR_MAX_WORDS;
use super::outcome::{AddError, Added, ByteLimit};
use super::policy::Policy;
use super::prefetch::{NoPrefetch, Prefetch};
use super::room::Room;
use super::window::Moment;

/// Compiles the same code for each form of a hashed item: hashed once if all layers have the same hash.
macro_rules! with_item {
    ($filter:expr, $item:expr, $hashed:ident => $body:expr) => {{
        let hash = $filter.layers.first().map(Layer::hash).filter(|_| !$filter.policy.has_several_hashes());
        // This is not a closure, which would be a function call.
        let hashed = if let Some(hash) = hash { ItemHash::of(hash, $item) } else { None };
        match hashed {
            Some($hashed) => $body,
            None => {
                let pairs = Pairs::default();
                let $hashed = MixedItem::new($item, &pairs);
                $body
            }
        }
    }};
}

impl Filter {
    /// Returns whether the item may be in the filter: never false for an item that was added. O(layers * probes).
    #[must_use]
    pub fn contains(&self, item: &[u8], prefetch: impl Prefetch) -> bool {
        self.contains_at_moment(item, self.policy.moment(), prefetch)
    }

    /// Returns whether the item may be in the filter at the time `now_ms`, in milliseconds of UNIX time, instead of
    /// the filter's own time. Only sliding windows use it. O(layers * probes).
    #[must_use]
    pub fn contains_at(&self, item: &[u8], now_ms: u64, prefetch: impl Prefetch) -> bool {
        let moment = |mut window: super::window::Window| {
            window.set_now(now_ms);
            window.moment()
        };
        self.contains_at_moment(item, self.window().copied().map_or_else(Moment::default, moment), prefetch)
    }

    #[inline(always)]
    fn contains_at_moment(&self, item: &[u8], at: Moment, prefetch: impl Prefetch) -> bool {
        with_item!(self, item, hashed => match self.layers.as_slice() {
            // A shorter path for most filters.
            [only] if is_cached(only) => hashed.is_in(only, at, NoPrefetch),
            [only] => hashed.is_in(only, at, prefetch),
            layers => self.admit(item).is_ok() && any_contains(layers, hashed, at, prefetch),
        })
    }

    /// Adds an item. A full last layer makes the filter grow. Only the last layer takes new items. An item that an
    /// older layer has is not added again, but counters count it there, and windows refresh it in the layer that
    /// takes new items. O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] if a new item is refused; the filter is then unchanged.
    pub fn add(
        &mut self,
        item: &[u8],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.add_in(item, &mut Room::new(limit), prefetch)
    }

    /// Does [`add`](Self::add) with the room of a command.
    #[inline(always)]
    pub(super) fn add_in(
        &mut self,
        item: &[u8],
        room: &mut Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.admit(item)?;
        with_item!(self, item, hashed => self.add_hashed(hashed, room, prefetch))
    }

    #[inline(always)]
    pub(super) fn add_hashed(
        &mut self,
        item: impl HashedItem,
        room: &mut Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let added = match self.layers.as_mut_slice() {
            // A shorter path for most filters.
            [only] if matches!(only.cells().state(), CellState::Bits) && only.room_items() > 0 => {
                Ok(if is_cached(only) {
                    insert_bits(only, item, NoPrefetch)
                } else {
                    insert_bits(only, item, prefetch)
                })
            }
            layers => {
                let (is_near, cells) = match layers {
                    [only] => (is_cached(only), only.cells().state().cell_type()),
                    _ => {
                        let cells = cell_type(layers);
                        if cells != CellType::Bits {
                            prefetch_one(layers, item, prefetch);
                        }
                        (true, cells)
                    }
                };
                match (cells, item.pair()) {
                    (CellType::Counters, Some(item)) if is_near => self.count(item, room, NoPrefetch),
                    (CellType::Counters, Some(item)) => self.count(item, room, prefetch),
                    (CellType::Columns, Some(item)) if is_near => self.add_in_time(item, room, NoPrefetch),
                    (CellType::Columns, Some(item)) => self.add_in_time(item, room, prefetch),
                    _ => self.add_once(item, room, prefetch),
                }
            }
        };
        if matches!(added, Ok(Added::New | Added::Again)) {
            self.note_change();
        }
        added
    }

    #[inline(always)]
    fn add_once(
        &mut self,
        item: impl HashedItem,
        room: &mut Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let at = Moment::default();
        let Some((last, older)) = self.layers.split_last_mut() else { return Err(AddError::Full) };
        prefetch_in(last, item, Purpose::Add, prefetch);
        if any_contains(older, item, at, prefetch) {
            return Ok(Added::Present);
        }
        if last.room_items() > 0 || self.policy.growth() == Growth::Saturating {
            return Ok(insert_bits(last, item, NoPrefetch));
        }
        if item.is_in(last, at, NoPrefetch) {
            return Ok(Added::Present);
        }
        room.make(self)?;
        self.layers.last_mut().map(|last| insert_bits(last, item, NoPrefetch)).ok_or(AddError::Full)
    }

    /// Counts an occurrence of an item: in the oldest layer that seems to contain it, otherwise in the last one. Only
    /// in the last layer a counter of 0 is ever incremented, so an older layer does not come to contain the item
    /// later. Therefore, while an item is present, the oldest layer that contains it has all its occurrences, and
    /// deletions take them from there.
    #[inline(always)]
    pub(super) fn count(
        &mut self,
        item: ItemHash,
        room: &mut Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let at = Moment::default();
        let Some((last, older)) = self.layers.split_last_mut() else { return Err(AddError::Full) };
        for layer in older {
            if item.is_in(layer, at, NoPrefetch) {
                count_in(layer, item, NoPrefetch);
                return Ok(Added::Again);
            }
        }
        // Only new items fill a layer.
        if !last.is_full() || self.policy.growth() == Growth::Saturating || item.is_in(last, at, NoPrefetch) {
            return Ok(count_in(last, item, prefetch));
        }
        room.make(self)?;
        self.layers.last_mut().map(|last| count_in(last, item, NoPrefetch)).ok_or(AddError::Full)
    }

    /// Adds an item in the generation of the filter's time. An item that is live is added again, unless the window
    /// runs from the first add. Adding is deterministic: the same items in the same generations, in the same order,
    /// give the same columns. Replicas rely on it.
    #[inline(always)]
    fn add_in_time(
        &mut self,
        item: ItemHash,
        room: &mut Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let Policy::Window(window) = &mut self.policy else { return Err(AddError::Full) };
        let at = window.moment();
        let mut known = Found::default();
        for layer in self.layers.iter().rev() {
            let found = layer.find(item, at, prefetch);
            known.is_live |= found.is_live;
            known.is_current |= found.is_current;
        }
        if known.is_current || window.is_past() || (known.is_live && window.no_refresh) {
            return Ok(Added::Present);
        }
        let mut place = window.room(&self.layers, false);
        if place.1 == 0 {
            room.make(self)?;
            if let Policy::Window(window) = &mut self.policy {
                place = window.room(&self.layers, true);
            }
        }
        let (Policy::Window(window), Some(layer)) = (&mut self.policy, self.layers.get_mut(place.0)) else {
            return Err(AddError::Full);
        };
        let is_new = layer.insert(item, at, NoPrefetch);
        window.count(layer, is_new.into());
        Ok(if known.is_live { Added::Again } else { Added::New })
    }
}

/// Adds an item to a layer of bits in one pass: an item that is present changes no bit.
#[inline(always)]
fn insert_bits(layer: &mut Layer, item: impl HashedItem, prefetch: impl Prefetch) -> Added {
    let is_new = item.insert_into(layer, Moment::default(), prefetch);
    layer.count_items(is_new.into());
    if is_new { Added::New } else { Added::Present }
}

/// Counts an occurrence of an item in a layer of counters.
#[inline(always)]
fn count_in(layer: &mut Layer, item: ItemHash, prefetch: impl Prefetch) -> Added {
    let is_new = layer.insert(item, Moment::default(), prefetch);
    layer.count_occurrences(is_new.into(), 1);
    if is_new { Added::New } else { Added::Again }
}

/// Prefetches the memory of one item in every layer, for an add. The largest layer is the last one, or in windows with
/// bursts the first one, so these two decide whether a prefetch is useful.
#[inline(always)]
fn prefetch_one(layers: &[Layer], item: impl HashedItem, prefetch: impl Prefetch) {
    if !(layers.last().is_none_or(is_cached) && layers.first().is_none_or(is_cached)) {
        layers.iter().rev().for_each(|layer| prefetch_in(layer, item, Purpose::Add, prefetch));
    }
}

/// Prefetches the memory of one item in a layer that is larger than the inner caches. In a smaller layer a prefetch
/// takes as long as a read.
#[inline(always)]
fn prefetch_in(layer: &Layer, item: impl HashedItem, purpose: Purpose, prefetch: impl Prefetch) {
    if !is_cached(layer) {
        item.prefetch_in(layer, purpose, prefetch);
    }
}

/// Returns whether one of the layers may contain the item. O(layers * probes).
///
/// The newest two layers have most of the items, so they are searched first, one after the other. Of the older layers
/// the first probes are read without a branch, so that the processor overlaps the reads, and the other probes only in
/// the layers in which the first ones are set. The memory of the first probes of all larger layers is prefetched at
/// the start.
///
/// Not inlined: its registers would cost instructions in filters of one layer.
#[inline(never)]
fn any_contains(layers: &[Layer], item: impl HashedItem, at: Moment, prefetch: impl Prefetch) -> bool {
    for layer in layers.iter().rev().take(STEP_LAYERS) {
        if layer.cells().allocation().len() > NEAR_MAX_WORDS {
            item.prefetch_first_in(layer, prefetch);
        }
    }
    let (older, newest) = layers.split_at(layers.len().saturating_sub(NEWEST_LAYERS));
    if newest.iter().rev().any(|layer| item.is_in(layer, at, NoPrefetch)) {
        return true;
    }
    for step in older.rchunks(STEP_LAYERS) {
        let mut left = 0u32;
        for layer in step {
            left = left << 1 | u32::from(item.may_be_in(layer, at));
        }
        for layer in step.iter().rev() {
            if left & 1 == 1 && item.rest_is_in(layer, at) {
                return true;
            }
            left >>= 1;
        }
    }
    false
}

/// Layers that are searched one after the other. If each layer is twice as large as the one before, the newest two
/// have half to three quarters of the items.
const NEWEST_LAYERS: usize = 2;

/// Layers whose first probes are read in one step: a word has one bit per layer. Filters whose layers double have
/// fewer layers.
const STEP_LAYERS: usize = 32;
