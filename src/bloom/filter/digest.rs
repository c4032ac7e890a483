//! The hashes of the items of a command, computed once for all parts of a filter with the same hash.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::bloom::bits::Layer;
use crate::bloom::bits::engine::{AddOutcome, AddRequest};
use crate::bloom::bits::probe::Probe;
use crate::bloom::group::{self, GROUP_ITEMS, ItemSet};
use crate::bloom::hash::scheme::SchemeHash;
use crate::bloom::hash::{Digest, Hash, ItemHash, murmur3};
use crate::bloom::prefetch::{Part, Prefetch};

/// One item, hashed for the parts of a filter.
pub(super) trait HashedItem: Copy {
    /// Returns whether the item is in a layer. Prefetches its memory first. O(probes).
    fn is_in(self, layer: &Layer, prefetch: impl Prefetch) -> bool;
    /// Returns whether the item may be in a layer, from the first of its probes. O(1).
    fn may_be_in(self, layer: &Layer) -> bool;
    /// Returns whether an item that may be in a layer is in it, from its other probes. O(probes).
    fn rest_is_in(self, layer: &Layer) -> bool;
    /// Prefetches the memory of the first of the item's probes in a layer. O(1).
    fn prefetch_first_in(self, layer: &Layer, prefetch: impl Prefetch);
    /// Adds the item to a layer. Prefetches its memory first. Returns whether the item was new in it. O(probes).
    fn insert_into(self, layer: &mut Layer, prefetch: impl Prefetch) -> bool;
    /// Returns the two words of hash for a table; `None` if the hash has none.
    fn pair_for(self, hash: &Hash) -> Option<ItemHash>;
}

/// An item of a filter whose parts all have the same hash.
impl<D: Probe> HashedItem for D {
    #[inline(always)]
    fn is_in(self, layer: &Layer, prefetch: impl Prefetch) -> bool {
        layer.contains(self, prefetch)
    }

    #[inline(always)]
    fn may_be_in(self, layer: &Layer) -> bool {
        layer.may_contain(self)
    }

    #[inline(always)]
    fn rest_is_in(self, layer: &Layer) -> bool {
        layer.contains_rest(self)
    }

    #[inline(always)]
    fn prefetch_first_in(self, layer: &Layer, prefetch: impl Prefetch) {
        layer.prefetch_first(self, prefetch);
    }

    #[inline(always)]
    fn insert_into(self, layer: &mut Layer, prefetch: impl Prefetch) -> bool {
        layer.insert(self, prefetch)
    }

    #[inline(always)]
    fn pair_for(self, _: &Hash) -> Option<ItemHash> {
        Digest::pair(self)
    }
}

/// An item of a filter whose parts have several hashes. It is hashed again for a part with another hash than those
/// before.
#[derive(Clone, Copy, Debug)]
pub(super) struct MixedItem<'i> {
    item: &'i [u8],
    pairs: &'i Pairs,
}

/// The cached words of hash of a [`MixedItem`].
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// From MurmurHash3, which most parts of such filters use.
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
    fn is_in(self, layer: &Layer, prefetch: impl Prefetch) -> bool {
        with_digest!(self, layer, digest => digest.is_in(layer, prefetch), false)
    }

    #[inline(never)]
    fn may_be_in(self, layer: &Layer) -> bool {
        with_digest!(self, layer, digest => digest.may_be_in(layer), false)
    }

    #[inline(never)]
    fn rest_is_in(self, layer: &Layer) -> bool {
        with_digest!(self, layer, digest => digest.rest_is_in(layer), false)
    }

    #[inline(never)]
    fn prefetch_first_in(self, layer: &Layer, prefetch: impl Prefetch) {
        with_digest!(self, layer, digest => digest.prefetch_first_in(layer, prefetch), ());
    }

    #[inline(never)]
    fn insert_into(self, layer: &mut Layer, prefetch: impl Prefetch) -> bool {
        with_digest!(self, layer, digest => digest.insert_into(layer, prefetch), false)
    }

    #[inline(always)]
    fn pair_for(self, hash: &Hash) -> Option<ItemHash> {
        self.pair_by(hash)
    }
}

/// Memory for the digests of a group, which the next group reuses.
#[derive(Debug, Default)]
pub(super) struct Digests {
    pairs: SmallVec<[ItemHash; GROUP_ITEMS]>,
    schemes: Vec<SchemeHash>,
}

/// The items of a group, hashed for one part of a filter after another, and again only if a part has another hash than
/// the one before.
#[derive(Debug)]
pub(super) struct Group<'g, 'i> {
    items: &'g [&'i [u8]],
    digests: &'g mut Digests,
    /// The hash of the current digests; `None` before the first.
    hash: Option<Hash>,
    /// Whether all parts have the same hash.
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

    /// Returns the item with this index.
    pub(super) fn item(&self, index: usize) -> &'i [u8] {
        self.items.get(index).copied().unwrap_or_default()
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

    /// Returns the two words of hash of each item; none for a client's hash.
    #[inline(always)]
    pub(super) fn pairs(&mut self, hash: &Hash) -> &[ItemHash] {
        self.hash_by(hash);
        &self.digests.pairs
    }

    /// Returns the `wanted` items of which the given part of the probes is set in a layer.
    #[inline(always)]
    pub(super) fn contains_each(&mut self, layer: &Layer, wanted: ItemSet, part: Part) -> ItemSet {
        with_digests!(self, layer, digests => Probe::contains_each(layer, digests, wanted & self.hashed, part))
    }

    /// Does [`contains_each`](Self::contains_each) in steps. Each is prefetched while the one before it is looked up.
    #[inline(always)]
    pub(super) fn contains_in_steps(
        &mut self,
        layer: &Layer,
        wanted: ItemSet,
        part: Part,
        items_per_step: usize,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        with_digests!(self, layer, digests => {
            Probe::contains_in_steps(layer, digests, wanted & self.hashed, part, items_per_step, prefetch)
        })
    }

    /// Adds the wanted items to a layer until it is full.
    #[inline(always)]
    pub(super) fn insert_each(&mut self, layer: &mut Layer, request: AddRequest) -> AddOutcome {
        with_digests!(self, layer, digests => {
            layer.insert_each(digests, AddRequest { wanted: request.wanted & self.hashed, ..request })
        })
    }

    /// Prefetches the memory of a part of the probes of the `wanted` items in a layer.
    #[inline(always)]
    pub(super) fn prefetch(&mut self, layer: &Layer, wanted: ItemSet, part: Part, prefetch: impl Prefetch) {
        with_digests!(self, layer, digests => {
            Probe::prefetch(layer, digests, wanted & self.hashed, part, prefetch);
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
