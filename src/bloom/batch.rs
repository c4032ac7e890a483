//! Many items at once: the memory of a group of items is asked for before the first of them is looked at.
//!
//! On a large filter nearly all of an item's cost is waiting for memory, and waits overlap only when they are begun
//! together. Groups of 32 gain most of what there is to gain; larger ones gain little (docs/performance.md).

use smallvec::SmallVec;

use super::chain::{AddError, Added, ByteLimit, Chain};
use super::family::{Family, Placement};
use super::group::{self, GROUP_ITEMS, members, subset};
use super::layer::Layer;
use super::prefetch::{Part, Prefetch};

/// Group below which every layer's memory is asked for at once, since one layer alone would not keep memory busy.
const SMALL_GROUP_ITEMS: usize = 4;
/// Bit arrays up to which memory is not asked for: about what lies in the nearer caches, 1 MiB.
const CACHED_BITS: u64 = 1 << 23;
/// Lines per item from which on an absent item is looked for in two steps: most are found out by the first two lines,
/// so that the others need not be fetched.
const TWO_STEP_LINES: u32 = 4;

type Digests<'i, F> = SmallVec<[<F as Family>::Digest<'i>; GROUP_ITEMS]>;

impl<F: Family> Chain<F> {
    /// Whether one item may be in the filter: [`contains`](Chain::contains), asking for its memory first.
    #[must_use]
    pub fn contains_soon(&self, digest: F::Digest<'_>, prefetch: impl Prefetch) -> bool {
        self.prefetch_one(digest, prefetch);
        self.contains(digest)
    }

    /// Adds one item: [`add`](Chain::add), asking for its memory first.
    ///
    /// # Errors
    /// [`AddError`] when a new item finds no room; the filter is then as it was.
    pub fn add_soon(
        &mut self,
        digest: F::Digest<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        if cfg!(feature = "baseline") && self.contains(digest) {
            return Ok(Added::Present);
        }
        self.prefetch_one(digest, prefetch);
        self.add(digest, limit)
    }

    /// Asks for the memory of one item in every layer that is larger than the caches near the processor; in smaller
    /// ones asking takes as long as looking.
    fn prefetch_one(&self, digest: F::Digest<'_>, prefetch: impl Prefetch) {
        if cfg!(feature = "baseline") {
            return;
        }
        for layer in self.layers().iter().rev().filter(|layer| !is_cached(layer)) {
            prefetch_large(layer, digest, prefetch);
        }
    }

    /// Asks for every item whether it may be in the filter; `answer` takes the answers in the order of the items.
    /// O(items * layers * probes).
    pub fn contains_many(&self, items: &[&[u8]], prefetch: impl Prefetch, mut answer: impl FnMut(bool)) {
        if cfg!(feature = "baseline") {
            return items.iter().for_each(|item| answer(self.contains(self.digest(item))));
        }
        let mut hits_expected = false;
        for group in items.chunks(GROUP_ITEMS) {
            let digests: Digests<'_, F> = group.iter().map(|item| self.digest(item)).collect();
            let found = if digests.len() < SMALL_GROUP_ITEMS {
                self.contains_few(&digests, prefetch)
            } else {
                self.contains_group(&digests, hits_expected, prefetch)
            };
            hits_expected = found.count_ones() as usize * 2 >= digests.len();
            (0..digests.len()).for_each(|index| answer(found >> index & 1 == 1));
        }
    }

    /// Adds the items in turn, with the same outcome as one [`add`](Self::add) after another. `answer` takes the
    /// outcomes and says whether to go on. O(items * layers * probes).
    pub fn add_many(
        &mut self,
        items: &[&[u8]],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        mut answer: impl FnMut(Result<Added, AddError>) -> bool,
    ) {
        if cfg!(feature = "baseline") {
            for item in items {
                let digest = self.digest(item);
                let outcome =
                    if self.contains(digest) { Ok(Added::Present) } else { self.add(digest, limit) };
                if !answer(outcome) {
                    return;
                }
            }
            return;
        }
        for group in items.chunks(GROUP_ITEMS) {
            let digests: Digests<'_, F> = group.iter().map(|item| self.digest(item)).collect();
            // The last layer is about to be written to in full, in the older ones most items are absent.
            self.prefetch_group(&digests, Part::First, prefetch);
            if !digests.into_iter().all(|digest| answer(self.add(digest, limit))) {
                return;
            }
        }
    }

    /// Asks for the memory of a group in every layer: all of it in the last, of the older ones that part.
    fn prefetch_group(&self, digests: &[F::Digest<'_>], of_older: Part, prefetch: impl Prefetch) {
        let layers = self.layers().iter().rev().enumerate();
        for (age, layer) in layers.filter(|(_, layer)| !is_cached(layer)) {
            let part = if age == 0 { Part::All } else { of_older };
            digests.iter().for_each(|digest| layer.prefetch(*digest, part, prefetch));
        }
    }

    /// One bit per item, for a few items: everything is asked for first.
    fn contains_few(&self, digests: &[F::Digest<'_>], prefetch: impl Prefetch) -> u32 {
        self.prefetch_group(digests, Part::All, prefetch);
        subset(digests, group::all(digests.len()), |digest| self.contains(digest))
    }

    /// One bit per item: layer after layer, the newest first, for the items that were not found yet.
    fn contains_group(&self, digests: &[F::Digest<'_>], hits_expected: bool, prefetch: impl Prefetch) -> u32 {
        let all = group::all(digests.len());
        let mut found = 0;
        for layer in self.layers().iter().rev() {
            found |= contains_in_layer(layer, digests, all & !found, hits_expected, prefetch);
            if found == all {
                break;
            }
        }
        found
    }
}

/// One bit per item of `wanted` that the layer contains.
fn contains_in_layer<D: Copy, P: Placement<D>>(
    layer: &Layer<P>,
    digests: &[D],
    wanted: u32,
    hits_expected: bool,
    prefetch: impl Prefetch,
) -> u32 {
    let is_cached = is_cached(layer);
    let ask_ahead = |set, part| {
        if !is_cached {
            members(digests, set).for_each(|(_, digest)| layer.prefetch(digest, part, prefetch));
        }
    };
    if layer.placement().touched_lines() < TWO_STEP_LINES || hits_expected {
        ask_ahead(wanted, Part::All);
        return layer.contained(digests, wanted);
    }
    ask_ahead(wanted, Part::First);
    let candidates = layer.begun(digests, wanted);
    ask_ahead(candidates, Part::Rest);
    layer.contained(digests, candidates)
}

/// Kept out of the way of small filters, whose single commands it would burden with the set-up of its loop.
#[inline(never)]
fn prefetch_large<D: Copy, P: Placement<D>>(layer: &Layer<P>, digest: D, prefetch: impl Prefetch) {
    layer.prefetch(digest, Part::All, prefetch);
}

/// Whether the bits of the layer are near the processor, so that asking for them takes as long as looking at them.
fn is_cached<P: Copy>(layer: &Layer<P>) -> bool {
    layer.bits().len() <= CACHED_BITS
}
