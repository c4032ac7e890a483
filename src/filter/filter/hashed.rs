//! The items of a command, hashed once for all parts of a filter with the same hash.

use smallvec::SmallVec;

use super::repeat::{AddLog, AddPlace};
use crate::bits::Layer;
use crate::bits::engine::{AddRequest, LayerAdds};
use crate::generation::Generation;
use crate::group::{self, GROUP_ITEMS, ItemSet, in_steps, members};
use crate::growth_budget::GrowthBudget;
use crate::hash::scheme_hash::SchemeHash;
use crate::hash::{Digest, Digests, Hash, ItemHash};
use crate::limits::{CACHED_MAX_WORDS, NEAR_MAX_WORDS};
use crate::outcome::Added;
use crate::prefetch::{NoPrefetch, Prefetch, ProbeRange};
use crate::table::{Addition, Table, TableAdds};

/// Largest group for which the memory of all layers is prefetched at once, because one layer alone would not keep
/// memory busy.
const SMALL_GROUP_ITEMS: usize = 3;
/// Lines that are prefetched in one step. Together with the step before, up to twice as many are outstanding.
const STEP_LINES: usize = 16;
/// Least number of lines per item with which an item is tested in ranges: the first two lines rule out most absent
/// items, so their other lines need not be fetched.
const IN_RANGES_LINES: u32 = 4;
/// the ranges of an item's probes that a lookup in the only layer tests in turn, if most items of the group before were
/// found.
pub(super) const RANGES_OF_PRESENT: &[ProbeRange] = &[ProbeRange::All];
/// the ranges of an item's probes that a lookup in the only layer tests in turn, if most items of the group before were
/// absent.
pub(super) const RANGES_IN_ONE: &[ProbeRange] = &[ProbeRange::First, ProbeRange::Rest];
/// the ranges of an item's probes that a lookup in one of several parts of a filter tests in turn: most items are in
/// another part.
pub(super) const RANGES_IN_CHAIN: &[ProbeRange] = &[ProbeRange::First, ProbeRange::Next, ProbeRange::Rest];

/// Items that are looked up in, and added to, one part of a filter after another. There are two forms: one item, and
/// a [group](HashedGroup). They differ in how memory is prefetched and in what is inlined, not in what is done.
pub(super) trait HashedItems {
    /// Returns the number of items, at most [`GROUP_ITEMS`].
    fn len(&self) -> usize;
    fn hashable(&mut self, hash: &Hash) -> ItemSet;
    /// Prefetches the memory of the items in layers, if waiting for one layer after another would take long.
    fn prefetch(&mut self, layers: &[Layer], prefetch: impl Prefetch);
    /// Returns the `wanted` items that one of the layers contains. O(layers * probes).
    fn found_in_layers(&mut self, layers: &[Layer], wanted: ItemSet, prefetch: impl Prefetch) -> ItemSet;
    /// Returns the `wanted` items that a table, whose items have this hash, contains at `now`. O(1).
    fn found_in_table(
        &mut self,
        table: &Table,
        hash: &Hash,
        wanted: ItemSet,
        now: Generation,
        prefetch: impl Prefetch,
    ) -> ItemSet;
    /// Adds items to a layer in order, as long as it takes them. O(probes).
    fn add_to_layer(&mut self, layer: &mut Layer, request: AddRequest, prefetch: impl Prefetch) -> LayerAdds;
    /// Adds the `wanted` items to a table, whose items have this hash, until one is refused. O(1).
    fn add_to_table(
        &mut self,
        table: (&mut Table, &Hash),
        wanted: ItemSet,
        addition: Addition,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
    ) -> TableAdds;
    /// Passes the `stored` items to the log, after the part at `place` has taken them.
    fn log(&self, place: AddPlace, stored: ItemSet, log: &mut dyn AddLog);
}

/// One item of a filter whose parts all have the same hash.
impl HashedItems for ItemHash {
    #[inline(always)]
    fn len(&self) -> usize {
        1
    }

    #[inline(always)]
    fn hashable(&mut self, _: &Hash) -> ItemSet {
        1
    }

    #[inline(always)]
    fn prefetch(&mut self, layers: &[Layer], prefetch: impl Prefetch) {
        prefetch_first(layers, *self, prefetch);
    }

    #[inline(always)]
    fn found_in_layers(&mut self, layers: &[Layer], wanted: ItemSet, _: impl Prefetch) -> ItemSet {
        if wanted == 0 { 0 } else { any_contains(layers, *self).into() }
    }

    #[inline(always)]
    fn found_in_table(
        &mut self,
        table: &Table,
        _: &Hash,
        _: ItemSet,
        now: Generation,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        table.contains(*self, now, prefetch).into()
    }

    #[inline(always)]
    fn add_to_layer(&mut self, layer: &mut Layer, request: AddRequest, prefetch: impl Prefetch) -> LayerAdds {
        if request.room_items > 0 {
            return LayerAdds {
                new: layer.insert(Digest::Pair(*self), prefetch).into(),
                ..LayerAdds::default()
            };
        }
        let is_present = layer.contains(Digest::Pair(*self), prefetch);
        LayerAdds { first_refused: (!is_present).then_some(0), ..LayerAdds::default() }
    }

    #[inline(always)]
    fn add_to_table(
        &mut self,
        (table, _): (&mut Table, &Hash),
        _: ItemSet,
        addition: Addition,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
    ) -> TableAdds {
        let added = table.add(Addition { hash: *self, ..addition }, room, prefetch);
        TableAdds {
            new: (added == Ok(Added::New)).into(),
            again: (added == Ok(Added::Again)).into(),
            refused: added.err().map(|error| (0, error)),
        }
    }

    #[cold]
    fn log(&self, place: AddPlace, _: ItemSet, log: &mut dyn AddLog) {
        log.stored(place, &mut std::iter::once(*self));
    }
}

/// Memory for the digests of a group, which the next group reuses.
#[derive(Debug, Default)]
pub(super) struct GroupHashes {
    pairs: SmallVec<[ItemHash; GROUP_ITEMS]>,
    schemes: Vec<SchemeHash>,
}

/// The items of a group. They are hashed for one part of a filter after another, and hashed again only if a part has
/// another hash than the part before it.
#[derive(Debug)]
pub(super) struct HashedGroup<'g, 'i> {
    items: &'g [&'i [u8]],
    digests: &'g mut GroupHashes,
    /// The hash of the current digests; `None` before the first.
    hash: Option<Hash>,
    /// Whether all parts have the same hash.
    has_one_hash: bool,
    /// Items that `hash` could hash.
    hashed: ItemSet,
    /// The ranges of the probes that are tested in turn.
    ranges: &'static [ProbeRange],
}

impl<'g, 'i> HashedGroup<'g, 'i> {
    /// Returns the group of these items, at most [`GROUP_ITEMS`]. The given ranges of their probes are tested in turn.
    #[inline(always)]
    pub(super) fn new(
        items: &'g [&'i [u8]],
        digests: &'g mut GroupHashes,
        has_one_hash: bool,
        ranges: &'static [ProbeRange],
    ) -> Self {
        Self { items, digests, hash: None, has_one_hash, hashed: 0, ranges }
    }

    #[inline(always)]
    fn hash_by(&mut self, hash: &Hash) {
        let is_hashed = self.hash.as_ref().is_some_and(|hashed| self.has_one_hash || hashed == hash);
        if !is_hashed {
            self.rehash(hash);
        }
    }

    #[inline(never)]
    fn rehash(&mut self, hash: &Hash) {
        let GroupHashes { pairs, schemes } = &mut *self.digests;
        self.hashed = match hash {
            Hash::Client(scheme, encoding) => {
                schemes.clear();
                let mut hashed = 0;
                schemes.extend((0u32..).zip(self.items).map(|(index, item)| {
                    let digest = SchemeHash::of_item(*scheme, *encoding, item);
                    hashed |= ItemSet::from(digest.is_some()).wrapping_shl(index);
                    digest.unwrap_or_default()
                }));
                hashed
            }
            hash => {
                pairs.clear();
                hash.pair_each(self.items, |pair| pairs.push(pair));
                group::all(self.items.len())
            }
        };
        self.hash = Some(*hash);
    }

    /// Returns the two words of hash of each item. `hash` must not be a client's.
    #[inline(always)]
    pub(super) fn pairs(&mut self, hash: &Hash) -> &[ItemHash] {
        self.hash_by(hash);
        &self.digests.pairs
    }

    #[inline(always)]
    fn digests(&mut self, layer: &Layer) -> Digests<'_> {
        self.hash_by(layer.hash());
        match layer.hash() {
            Hash::Client(..) => Digest::Scheme(&self.digests.schemes),
            _ => Digest::Pair(&self.digests.pairs),
        }
    }

    /// Returns those of the `wanted` items whose probes in `range` are all set in a layer.
    #[inline(always)]
    pub(super) fn contains_each(&mut self, layer: &Layer, wanted: ItemSet, range: ProbeRange) -> ItemSet {
        let wanted = wanted & self.hashable(layer.hash());
        layer.contains_each(self.digests(layer), wanted, range)
    }

    /// Does [`contains_each`](Self::contains_each) in steps. Each is prefetched while the one before it is looked up.
    #[inline(always)]
    pub(super) fn contains_in_steps(
        &mut self,
        layer: &Layer,
        wanted: ItemSet,
        range: ProbeRange,
        items_per_step: usize,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        let wanted = wanted & self.hashable(layer.hash());
        layer.contains_in_steps(self.digests(layer), wanted, range, items_per_step, prefetch)
    }

    /// Adds the wanted items to a layer, up to the first one that the full layer refuses.
    #[inline(always)]
    fn insert_each(&mut self, layer: &mut Layer, request: AddRequest) -> LayerAdds {
        let wanted = request.wanted & self.hashable(layer.hash());
        layer.insert_each(self.digests(layer), AddRequest { wanted, ..request })
    }

    /// Prefetches the memory of all probes of the `wanted` items in a layer.
    #[inline(always)]
    fn prefetch_each(&mut self, layer: &Layer, wanted: ItemSet, prefetch: impl Prefetch) {
        let wanted = wanted & self.hashable(layer.hash());
        layer.prefetch_each(self.digests(layer), wanted, ProbeRange::All, prefetch);
    }
}

impl HashedItems for HashedGroup<'_, '_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.items.len()
    }

    #[inline(always)]
    fn hashable(&mut self, hash: &Hash) -> ItemSet {
        self.hash_by(hash);
        self.hashed
    }

    #[inline(always)]
    fn prefetch(&mut self, layers: &[Layer], prefetch: impl Prefetch) {
        if self.len() <= SMALL_GROUP_ITEMS {
            for layer in layers.iter().rev().filter(|layer| !is_cached(layer)) {
                self.prefetch_each(layer, group::all(self.len()), prefetch);
            }
        }
    }

    #[inline(always)]
    fn found_in_layers(&mut self, layers: &[Layer], wanted: ItemSet, prefetch: impl Prefetch) -> ItemSet {
        let mut found = 0;
        for layer in layers.iter().rev() {
            if found == wanted {
                break;
            }
            found |= contained_in(layer, self, wanted & !found, self.ranges, prefetch);
        }
        found
    }

    #[inline(always)]
    fn found_in_table(
        &mut self,
        table: &Table,
        hash: &Hash,
        wanted: ItemSet,
        now: Generation,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        table.contains_each(self.pairs(hash), wanted, now, prefetch)
    }

    #[inline(always)]
    fn add_to_layer(&mut self, layer: &mut Layer, request: AddRequest, prefetch: impl Prefetch) -> LayerAdds {
        if is_cached(layer) {
            return self.insert_each(layer, request);
        }
        let (mut outcome, mut room_items) = (LayerAdds::default(), request.room_items);
        let items_per_step = items_per_step(layer, ProbeRange::All);
        in_steps(
            &mut (self, layer),
            request.wanted,
            items_per_step,
            |(group, layer), step| group.prefetch_each(layer, step, prefetch),
            |(group, layer), wanted| {
                let added = group.insert_each(layer, AddRequest { wanted, room_items });
                outcome.new |= added.new;
                outcome.first_refused = added.first_refused;
                room_items = room_items.saturating_sub(added.new.count_ones().into());
                added.first_refused.is_none()
            },
        );
        outcome
    }

    #[inline(always)]
    fn add_to_table(
        &mut self,
        (table, hash): (&mut Table, &Hash),
        wanted: ItemSet,
        addition: Addition,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
    ) -> TableAdds {
        table.add_each(self.pairs(hash), wanted, addition, room, prefetch)
    }

    #[cold]
    fn log(&self, place: AddPlace, stored: ItemSet, log: &mut dyn AddLog) {
        // The digests are still those of the part that has taken the items.
        match self.hash {
            Some(Hash::Client(..)) | None => log.changed(),
            Some(_) => log.stored(place, &mut members(&self.digests.pairs, stored).map(|(_, hash)| hash)),
        }
    }
}

/// Returns the `wanted` items that a layer contains. Tests the ranges of their probes in turn.
fn contained_in(
    layer: &Layer,
    group: &mut HashedGroup<'_, '_>,
    wanted: ItemSet,
    ranges: &[ProbeRange],
    prefetch: impl Prefetch,
) -> ItemSet {
    let is_near = is_cached(layer) || group.len() <= SMALL_GROUP_ITEMS;
    let mut look = |wanted, range| {
        if is_near {
            return group.contains_each(layer, wanted, range);
        }
        group.contains_in_steps(layer, wanted, range, items_per_step(layer, range), prefetch)
    };
    let ranges = if layer.layout().lines() < IN_RANGES_LINES { RANGES_OF_PRESENT } else { ranges };
    ranges.iter().fold(wanted, |left, range| if left == 0 { 0 } else { look(left, *range) })
}

/// Returns how many items are prefetched in one step.
fn items_per_step(layer: &Layer, range: ProbeRange) -> usize {
    let lines = range.of(layer.layout().lines()).len();
    (STEP_LINES / lines.max(1)).max(1)
}

/// Returns whether the layer is small enough for the processor's caches, so that a prefetch would take as long as a
/// read.
#[inline(always)]
pub(super) fn is_cached(layer: &Layer) -> bool {
    layer.bits().allocated_words() <= CACHED_MAX_WORDS
}

/// Prefetches the memory of the first probes of an item in each of the newest [`STEP_LAYERS`] layers, except in small
/// ones: see [`NEAR_MAX_WORDS`].
#[inline(always)]
fn prefetch_first(layers: &[Layer], item: ItemHash, prefetch: impl Prefetch) {
    for layer in layers.iter().rev().take(STEP_LAYERS) {
        if layer.bits().allocated_words() > NEAR_MAX_WORDS {
            layer.prefetch_first(Digest::Pair(item), prefetch);
        }
    }
}

/// Returns whether one of the layers may contain the item. O(layers * probes).
///
/// The newest two layers have most of the items, so they are searched first, one after the other. In the older layers
/// the first probes are read without a branch, so that the processor overlaps the reads. The other probes are read only
/// in layers in which the first ones are set.
#[inline(always)]
fn any_contains(layers: &[Layer], item: ItemHash) -> bool {
    let (older, newest) = layers.split_at(layers.len().saturating_sub(NEWEST_LAYERS));
    if newest.iter().rev().any(|layer| layer.contains(Digest::Pair(item), NoPrefetch)) {
        return true;
    }
    for step in older.rchunks(STEP_LAYERS) {
        let mut left = 0u32;
        for layer in step {
            left = left << 1 | u32::from(layer.may_contain(Digest::Pair(item)));
        }
        for layer in step.iter().rev() {
            if left & 1 == 1 && layer.contains_rest(Digest::Pair(item)) {
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
