//! The hashes of the items of a command, computed once for all layers with the same hash.

use std::cell::Cell;

use smallvec::SmallVec;

use super::cells::Purpose;
use super::engine::{FoundEach, Taken, Taking};
use super::group::{self, GROUP_ITEMS, ItemSet};
use super::hash::scheme::SchemeHash;
use super::hash::{Digest, Hash, ItemHash, murmur3};
use super::layer::Layer;
use super::prefetch::{Part, Prefetch};
use super::probe::Probe;
use super::window::Moment;

/// One item, hashed for the layers of a filter.
pub(super) trait HashedItem: Copy {
    /// Returns whether the item is in a layer. Prefetches its memory first. O(probes).
    fn is_in(self, layer: &Layer, at: Moment, prefetch: impl Prefetch) -> bool;
    /// Returns whether the item may be in a layer, from the first of its probes. O(1).
    fn may_be_in(self, layer: &Layer, at: Moment) -> bool;
    /// Returns whether an item that may be in a layer is in it, from its other probes. O(probes).
    fn rest_is_in(self, layer: &Layer, at: Moment) -> bool;
    /// Prefetches the memory of the first of the item's probes in a layer. O(1).
    fn prefetch_first_in(self, layer: &Layer, prefetch: impl Prefetch);
    /// Returns the two words of hash for cells other than bits; `None` if the hash has none.
    fn pair(self) -> Option<ItemHash>;
    /// Adds the item to a layer. Prefetches its memory first. Returns whether the item was new in it. O(probes).
    fn insert_into(self, layer: &mut Layer, at: Moment, prefetch: impl Prefetch) -> bool;
    /// Prefetches the memory of the item in a layer. O(probes).
    fn prefetch_in(self, layer: &Layer, purpose: Purpose, prefetch: impl Prefetch);
}

/// An item of a filter whose layers all have the same hash.
impl<D: Probe> HashedItem for D {
    #[inline(always)]
    fn is_in(self, layer: &Layer, at: Moment, prefetch: impl Prefetch) -> bool {
        layer.contains(self, at, prefetch)
    }

    #[inline(always)]
    fn may_be_in(self, layer: &Layer, at: Moment) -> bool {
        layer.may_contain(self, at)
    }

    #[inline(always)]
    fn rest_is_in(self, layer: &Layer, at: Moment) -> bool {
        layer.contains_rest(self, at)
    }

    #[inline(always)]
    fn prefetch_first_in(self, layer: &Layer, prefetch: impl Prefetch) {
        layer.prefetch_first(self, prefetch);
    }

    #[inline(always)]
    fn pair(self) -> Option<ItemHash> {
        Digest::pair(self)
    }

    #[inline(always)]
    fn insert_into(self, layer: &mut Layer, at: Moment, prefetch: impl Prefetch) -> bool {
        layer.insert(self, at, prefetch)
    }

    #[inline(always)]
    fn prefetch_in(self, layer: &Layer, purpose: Purpose, prefetch: impl Prefetch) {
        D::prefetch(layer, &[self], 1, Part::All, purpose, prefetch);
    }
}

/// An item of a filter whose layers have several hashes. It is hashed again for a layer with another hash than the
/// layers before.
#[derive(Clone, Copy, Debug)]
pub(super) struct MixedItem<'i> {
    item: &'i [u8],
    pairs: &'i Pairs,
}

/// The cached words of hash of a [`MixedItem`].
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// From MurmurHash3, which most layers of such filters use.
    murmur3: Cell<Option<ItemHash>>,
    /// From the most recent other hash.
    latest: Cell<Option<(Hash, ItemHash)>>,
}

impl<'i> MixedItem<'i> {
    /// Returns an item that is not hashed yet: `pairs` is empty.
    #[inline(always)]
    pub(super) fn new(item: &'i [u8], pairs: &'i Pairs) -> Self {
        Self { item, pairs }
    }

    /// Returns the two words of a hash, if it has them. O(length) the first time.
    #[inline(always)]
    fn pair_by(self, hash: &Hash) -> Option<ItemHash> {
        let Pairs { murmur3, latest } = self.pairs;
        if matches!(hash, Hash::Murmur3) {
            let pair = murmur3.get().unwrap_or_else(|| murmur3::hash128(self.item));
            murmur3.set(Some(pair));
            return Some(pair);
        }
        if let Some((_, pair)) = latest.get().filter(|(latest, _)| latest == hash) {
            return Some(pair);
        }
        let pair = ItemHash::of(hash, self.item)?;
        latest.set(Some((*hash, pair)));
        Some(pair)
    }
}

/// Compiles the same code for each digest by which a layer hashes an item; gives `$none` if the item cannot be
/// hashed.
macro_rules! with_digest {
    ($item:expr, $layer:expr, $digest:ident => $body:expr, $none:expr) => {
        match $layer.hash() {
            hash @ Hash::Client(..) => match SchemeHash::of(hash, $item.item) {
                Some($digest) => $body,
                None => $none,
            },
            hash => match $item.pair_by(hash) {
                Some($digest) => $body,
                None => $none,
            },
        }
    };
}

impl HashedItem for MixedItem<'_> {
    #[inline(never)]
    fn is_in(self, layer: &Layer, at: Moment, prefetch: impl Prefetch) -> bool {
        with_digest!(self, layer, digest => digest.is_in(layer, at, prefetch), false)
    }

    #[inline(never)]
    fn may_be_in(self, layer: &Layer, at: Moment) -> bool {
        with_digest!(self, layer, digest => digest.may_be_in(layer, at), false)
    }

    #[inline(never)]
    fn rest_is_in(self, layer: &Layer, at: Moment) -> bool {
        with_digest!(self, layer, digest => digest.rest_is_in(layer, at), false)
    }

    #[inline(never)]
    fn prefetch_first_in(self, layer: &Layer, prefetch: impl Prefetch) {
        with_digest!(self, layer, digest => digest.prefetch_first_in(layer, prefetch), ());
    }

    fn pair(self) -> Option<ItemHash> {
        None
    }

    #[inline(never)]
    fn insert_into(self, layer: &mut Layer, at: Moment, prefetch: impl Prefetch) -> bool {
        with_digest!(self, layer, digest => digest.insert_into(layer, at, prefetch), false)
    }

    #[inline(never)]
    fn prefetch_in(self, layer: &Layer, purpose: Purpose, prefetch: impl Prefetch) {
        with_digest!(self, layer, digest => digest.prefetch_in(layer, purpose, prefetch), ());
    }
}

/// Memory for the digests of a group, which the next group reuses.
#[derive(Debug, Default)]
pub(super) struct Digests {
    pairs: SmallVec<[ItemHash; GROUP_ITEMS]>,
    schemes: Vec<SchemeHash>,
}

/// The items of a group, hashed for one layer after another, and again only if a layer has another hash than the one
/// before.
#[derive(Debug)]
pub(super) struct Group<'g, 'i> {
    items: &'g [&'i [u8]],
    digests: &'g mut Digests,
    /// The hash of the current digests; `None` before the first.
    hash: Option<Hash>,
    /// Whether all layers have the same hash.
    has_one_hash: bool,
    /// Items that can be hashed.
    hashed: ItemSet,
}

/// Compiles the same code for each digest by which a layer hashes a group.
macro_rules! with_digests {
    ($group:expr, $layer:expr, $digests:ident => $body:expr) => {{
        $group.hash_by($layer.hash());
        match $layer.hash() {
            Hash::Client(..) => {
                let $digests: &[SchemeHash] = &$group.digests.schemes;
                $body
            }
            _ => {
                let $digests: &[ItemHash] = &$group.digests.pairs;
                $body
            }
        }
    }};
}

impl<'g, 'i> Group<'g, 'i> {
    /// Returns the group of these items, at most [`GROUP_ITEMS`].
    #[inline(always)]
    pub(super) fn new(items: &'g [&'i [u8]], digests: &'g mut Digests, has_one_hash: bool) -> Self {
        Self { items, digests, hash: None, has_one_hash, hashed: 0 }
    }

    /// Returns the number of items.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the items.
    pub(super) fn items(&self) -> &'g [&'i [u8]] {
        self.items
    }

    /// Returns the set of all items.
    #[inline(always)]
    pub(super) fn all(&self) -> ItemSet {
        group::all(self.len())
    }

    /// Returns the items that the hash of a layer can hash.
    pub(super) fn hashable(&mut self, hash: &Hash) -> ItemSet {
        self.hash_by(hash);
        self.hashed
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
        let Digests { pairs, schemes } = &mut *self.digests;
        self.hashed = match hash {
            Hash::Client(..) => {
                schemes.clear();
                digests::<SchemeHash>(hash, self.items, schemes)
            }
            hash => {
                pairs.clear();
                hash.pair_each(self.items, |pair| pairs.push(pair));
                group::all(self.items.len())
            }
        };
        self.hash = Some(*hash);
    }

    /// Does [`Engine::contains_each`](super::engine::Engine::contains_each) for the items that can be hashed.
    #[inline(always)]
    pub(super) fn contains_each(
        &mut self,
        layer: &Layer,
        wanted: ItemSet,
        part: Part,
        at: Moment,
    ) -> ItemSet {
        with_digests!(self, layer, digests => Probe::contains_each(layer, digests, wanted & self.hashed, part, at))
    }

    /// Does [`Probe::contains_in_steps`] for the items that can be hashed.
    #[inline(always)]
    pub(super) fn contains_in_steps(
        &mut self,
        layer: &Layer,
        wanted: ItemSet,
        part: Part,
        at: Moment,
        items_per_step: usize,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        with_digests!(self, layer, digests => {
            Probe::contains_in_steps(layer, digests, wanted & self.hashed, part, at, items_per_step, prefetch)
        })
    }

    /// Does [`Engine::find_each`](super::engine::Engine::find_each) in a layer of columns.
    pub(super) fn find_each(&mut self, layer: &Layer, wanted: ItemSet, at: Moment) -> FoundEach {
        self.hash_by(layer.hash());
        layer.find_each(&self.digests.pairs, wanted, at)
    }

    /// Does [`Engine::take_each`](super::engine::Engine::take_each) for the items that can be hashed.
    #[inline(always)]
    pub(super) fn take_each(&mut self, layer: &mut Layer, taking: Taking) -> Taken {
        with_digests!(self, layer, digests => {
            layer.take_each(digests, Taking { wanted: taking.wanted & self.hashed, ..taking })
        })
    }

    /// Does [`Engine::prefetch_each`](super::engine::Engine::prefetch_each) for the `wanted` items that can be
    /// hashed.
    #[inline(always)]
    pub(super) fn prefetch(
        &mut self,
        layer: &Layer,
        wanted: ItemSet,
        part: Part,
        purpose: Purpose,
        prefetch: impl Prefetch,
    ) {
        with_digests!(self, layer, digests => {
            Probe::prefetch(layer, digests, wanted & self.hashed, part, purpose, prefetch);
        });
    }
}

/// Hashes items. Returns those that can be hashed; the digests of the others have no meaning. O(bytes).
fn digests<D: Digest + Default>(hash: &Hash, items: &[&[u8]], digests: &mut Vec<D>) -> ItemSet {
    let mut hashed = 0;
    digests.extend((0u32..).zip(items).map(|(index, item)| {
        let digest = D::of(hash, item);
        hashed |= ItemSet::from(digest.is_some()).wrapping_shl(index);
        digest.unwrap_or_default()
    }));
    hashed
}
