//! Looks up and adds one item.

use super::Filter;
use super::body::Body;
use super::digest::{HashedItem, MixedItem, Pairs};
use super::lookup::is_cached;
use super::policy::Growth;
use crate::bloom::bits::Layer;
use crate::bloom::generation::Generation;
use crate::bloom::hash::{Digest, ItemHash, murmur3};
use crate::bloom::limits::NEAR_MAX_WORDS;
use crate::bloom::outcome::{AddError, Added, ByteLimit};
use crate::bloom::prefetch::{NoPrefetch, Prefetch};
use crate::bloom::room::Room;
use crate::bloom::table::Addition;

/// Compiles the same code for each form of a hashed item: hashed once if all parts have the same hash.
macro_rules! with_item {
    ($filter:expr, $item:expr, $hashed:ident => $body:expr) => {{
        // This is not a closure, which would be a function call.
        let hashed =
            if $filter.policy.has_several_hashes() { None } else { ItemHash::of(&$filter.hash(), $item) };
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
    #[inline(always)]
    pub fn contains(&self, item: &[u8], prefetch: impl Prefetch) -> bool {
        self.contains_in(item, self.now(), prefetch)
    }

    /// Returns whether the item may be in the filter at the time `now_ms`, in milliseconds of UNIX time, instead of the
    /// filter's own time. Only sliding windows use it. O(layers * probes).
    #[must_use]
    pub fn contains_at(&self, item: &[u8], now_ms: u64, prefetch: impl Prefetch) -> bool {
        let now = self.window().map_or(0, |window| {
            let mut window = *window;
            window.set_now(now_ms, self.newest_generation());
            window.moment().now
        });
        self.contains_in(item, now, prefetch)
    }

    #[inline(always)]
    fn contains_in(&self, item: &[u8], now: Generation, prefetch: impl Prefetch) -> bool {
        if let Body::Layer(only) = &self.body
            && let Some(hash) = ItemHash::of(only.hash(), item)
        {
            return if is_cached(only) { hash.is_in(only, NoPrefetch) } else { hash.is_in(only, prefetch) };
        }
        match &self.body {
            Body::Table(table) => table.contains(murmur3::hash128(item), now, prefetch),
            _ => self.parts_contain(item, now, prefetch),
        }
    }

    /// Not inlined: its registers would cost instructions in filters of one part.
    #[inline(never)]
    fn parts_contain(&self, item: &[u8], now: Generation, prefetch: impl Prefetch) -> bool {
        self.admit(item).is_ok()
            && with_item!(self, item, hashed => {
                prefetch_in(self.layers(), hashed, prefetch);
                let of_table = self.body.table().and_then(|(table, hash)| Some((table, hashed.pair_for(hash)?)));
                // It has the newest items.
                of_table.is_some_and(|(table, hash)| table.contains(hash, now, prefetch))
                    || any_contains(self.layers(), hashed)
            })
    }

    /// Adds an item. An item that a full layer has is not added again; counting filters and windows have no layers.
    /// O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] if the item is refused; the filter is then unchanged.
    #[inline(always)]
    pub fn add(
        &mut self,
        item: &[u8],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let room = Room::new(limit);
        // A shorter path for most filters.
        if let Body::Layer(only) = &mut self.body
            && only.room_items() > 0
            && let Some(hash) = ItemHash::of(only.hash(), item)
        {
            let added = if is_cached(only) {
                insert_bits(only, hash, NoPrefetch)
            } else {
                insert_bits(only, hash, prefetch)
            };
            if added == Added::New {
                self.note_change();
            }
            return Ok(added);
        }
        match &self.body {
            Body::Table(_) => self.add_to_table(murmur3::hash128(item), &room, prefetch),
            _ => self.add_in(item, &room, prefetch),
        }
    }

    /// Does [`add`](Self::add) with the room of a command.
    #[inline(never)]
    pub(super) fn add_in(
        &mut self,
        item: &[u8],
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.admit(item)?;
        with_item!(self, item, hashed => self.add_hashed(hashed, room, prefetch))
    }

    /// Adds a hashed item: to the table, if there is one, otherwise to the last layer. A full layer makes the filter
    /// grow.
    #[inline(always)]
    pub(super) fn add_hashed(
        &mut self,
        item: impl HashedItem,
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let full = self.full_layers();
        prefetch_in(full, item, prefetch);
        if any_contains(full, item) {
            return Ok(Added::Present);
        }
        let had_table = self.table().is_some();
        loop {
            if self.table().is_some() {
                let added = self.add_to_table(item, room, prefetch);
                if added.is_err() && !had_table {
                    // A refused item leaves no table behind.
                    self.body.remove_table();
                }
                return added;
            }
            let saturates = self.growth() == Growth::Saturating;
            let Some(last) = self.layers_mut().last_mut() else { return Err(AddError::Full) };
            if last.room_items() > 0 || saturates {
                let added = insert_bits(last, item, prefetch);
                if added == Added::New {
                    self.note_change();
                }
                return Ok(added);
            }
            if item.is_in(last, prefetch) {
                return Ok(Added::Present);
            }
            self.grow(room)?;
        }
    }

    /// Adds a hashed item to the table.
    #[inline(always)]
    fn add_to_table(
        &mut self,
        item: impl HashedItem,
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let Some(addition) = self.addition(room) else { return Ok(Added::Present) };
        let Some((table, hash)) = self.body.hashed_table_mut() else { return Err(AddError::Full) };
        let hash = item.pair_for(hash).unwrap_or_default();
        let added = table.add(Addition { hash, ..addition }, room, prefetch)?;
        if added != Added::Present {
            self.note_change();
        }
        Ok(added)
    }

    /// Returns what the adds of a command to the table have in common; `None` if items of its time have expired
    /// already.
    #[inline(always)]
    pub(super) fn addition(&self, room: &Room<'_>) -> Option<Addition> {
        room.set_other_bytes(self.bytes_besides_table());
        let most_items = match self.policy.promise() {
            Some(promise) if promise.growth.is_fixed_size() => promise.capacity_items,
            _ => u64::MAX,
        };
        let moment = self.policy.moment();
        let keeps_generation = self.window().is_some_and(|window| window.no_refresh);
        let hash = ItemHash::default();
        let addition =
            Addition { hash, generation: moment.added, now: moment.now, keeps_generation, most_items };
        (!self.is_past()).then_some(addition)
    }

    /// Returns the layers that take no more items.
    #[inline(always)]
    pub(super) fn full_layers(&self) -> &[Layer] {
        match self.layers() {
            layers if self.table().is_some() => layers,
            [full @ .., _] => full,
            [] => &[],
        }
    }
}

/// Adds an item to a layer of bits in one pass: an item that is present changes no bit.
#[inline(always)]
fn insert_bits(layer: &mut Layer, item: impl HashedItem, prefetch: impl Prefetch) -> Added {
    let is_new = item.insert_into(layer, prefetch);
    layer.count_items(is_new.into());
    if is_new { Added::New } else { Added::Present }
}

/// Prefetches the memory of the first probes of an item in every larger layer.
#[inline(always)]
fn prefetch_in(layers: &[Layer], item: impl HashedItem, prefetch: impl Prefetch) {
    for layer in layers.iter().rev().take(STEP_LAYERS) {
        if layer.bits().allocation().len() > NEAR_MAX_WORDS {
            item.prefetch_first_in(layer, prefetch);
        }
    }
}

/// Returns whether one of the layers may contain the item. O(layers * probes).
///
/// The newest two layers have most of the items, so they are searched first, one after the other. Of the older layers
/// the first probes are read without a branch, so that the processor overlaps the reads, and the other probes only in
/// the layers in which the first ones are set.
#[inline(always)]
fn any_contains(layers: &[Layer], item: impl HashedItem) -> bool {
    let (older, newest) = layers.split_at(layers.len().saturating_sub(NEWEST_LAYERS));
    if newest.iter().rev().any(|layer| item.is_in(layer, NoPrefetch)) {
        return true;
    }
    for step in older.rchunks(STEP_LAYERS) {
        let mut left = 0u32;
        for layer in step {
            left = left << 1 | u32::from(item.may_be_in(layer));
        }
        for layer in step.iter().rev() {
            if left & 1 == 1 && item.rest_is_in(layer) {
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
