//! Many items at once: the memory of a group of items is asked for before the first of them is looked at.
//!
//! On a large filter nearly all of an item's cost is waiting for memory, and waits overlap only when they are
//! begun together. But a processor keeps track of a few dozen lines only: of what it is asked for beyond them
//! some wait, and some forget it. So a group asks in steps, each while the one before is looked at
//! (docs/decisions/0006).

use smallvec::SmallVec;

use super::chain::Chain;
use super::family::Family;
use super::group::{self, GROUP_ITEMS, ItemSet, subset};
use super::items::Items;
use super::layer::Layer;
use super::limits::CACHED_MAX_BYTES;
use super::outcome::{AddError, Added, ByteLimit};
use super::placement::{Placement, Probes};
use super::prefetch::{Part, Prefetch};
use super::run::Run;
use super::storage::Storage;

/// Group below which every layer's memory is asked for at once, since one layer alone would not keep memory
/// busy.
const SMALL_GROUP_ITEMS: usize = 4;
/// Lines that are asked for in one step; with those of the step before, up to twice as many are on their way.
const STEP_LINES: usize = 16;
/// Lines per item from which on an absent item is looked for in two steps: most are found out by the first
/// two lines, so that the others need not be fetched.
const TWO_STEP_LINES: u32 = 4;

type Digests<'i, F> = SmallVec<[<F as Family>::Digest<'i>; GROUP_ITEMS]>;

impl<F: Family> Chain<F> {
    /// Whether one item may be in the filter: [`contains`](Chain::contains), asking for its memory first.
    #[must_use]
    pub fn contains_prefetched(&self, digest: F::Digest<'_>, prefetch: impl Prefetch) -> bool {
        self.prefetch_one(digest, prefetch);
        self.contains(digest)
    }

    /// Adds one item: [`add`](Chain::add), asking for its memory first.
    ///
    /// # Errors
    /// [`AddError`] when a new item finds no room; the filter is then as it was.
    pub fn add_prefetched(
        &mut self,
        digest: F::Digest<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.prefetch_one(digest, prefetch);
        self.add(digest, limit)
    }

    /// Asks for the memory of one item in every layer that is larger than the caches near the processor; in
    /// smaller ones asking takes as long as looking.
    fn prefetch_one(&self, digest: F::Digest<'_>, prefetch: impl Prefetch) {
        for layer in self.layers().iter().rev().filter(|layer| !is_cached(layer)) {
            prefetch_large(layer, digest, prefetch);
        }
    }

    /// Asks for every item whether it may be in the filter; `answer` takes the items of a group that are found,
    /// and how many were asked for, in the order of the items. O(items * layers * probes).
    pub fn contains_items(
        &self,
        items: &mut dyn Items<'_>,
        prefetch: impl Prefetch,
        answer: &mut dyn FnMut(ItemSet, usize),
    ) {
        let (mut hits_expected, mut digests) = (false, Digests::<F>::new());
        loop {
            // Kept for the next group: a new one would be moved here, with room for all of a group.
            digests.clear();
            digests.extend(items.next_few().iter().map(|item| self.digest(item)));
            let found = match digests.len() {
                0 => return,
                1..SMALL_GROUP_ITEMS => self.contains_few(&digests, prefetch),
                _ => self.contains_group(&digests, hits_expected, prefetch),
            };
            hits_expected = found.count_ones() as usize * 2 >= digests.len();
            answer(found, digests.len());
        }
    }

    /// Adds the items in turn, with the same outcome as one [`add`](Self::add) after another. `answer` takes
    /// what came of them, a run at a time, and says whether to go on. O(items * layers * probes).
    pub fn add_items(
        &mut self,
        items: &mut dyn Items<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        answer: &mut dyn FnMut(Run) -> bool,
    ) {
        let mut digests = Digests::<F>::new();
        loop {
            digests.clear();
            digests.extend(items.next_few().iter().map(|item| self.digest(item)));
            if digests.is_empty() || !self.add_group(&digests, limit, prefetch, answer) {
                return;
            }
        }
    }

    /// Adds the items of a group; answers whether to go on.
    #[inline(always)]
    fn add_group(
        &mut self,
        digests: &[F::Digest<'_>],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        answer: &mut dyn FnMut(Run) -> bool,
    ) -> bool {
        let in_one_layer = self.has_one_layer_with_room(digests);
        let steps = digests.chunks(self.items_per_step());
        let mut ahead = steps.clone();
        let mut run = Run::default();
        self.prefetch_to_add(ahead.next(), prefetch);
        for step in steps {
            self.prefetch_to_add(ahead.next(), prefetch);
            if let Some(layer) = self.layers.first_mut().filter(|_| in_one_layer) {
                run.append(layer.insert_each(step), step.len());
            } else if !run.extend(step.iter().map(|digest| self.add(*digest, limit)), answer) {
                return false;
            }
        }
        run.items == 0 || answer(run)
    }

    /// Whether all of the items go to the only layer, whatever they are: then nothing is to be asked for each.
    fn has_one_layer_with_room(&self, digests: &[F::Digest<'_>]) -> bool {
        let [only] = self.layers() else { return false };
        let adds_alike = !F::COUNTS_OCCURRENCES && !F::KEEPS_TIME;
        let has_room = only.counts().items.saturating_add(digests.len() as u64) <= only.capacity_items();
        adds_alike && has_room && digests.iter().all(|digest| self.family.admit(*digest).is_ok())
    }

    /// Items whose memory is asked for in one step when they are to be added.
    fn items_per_step(&self) -> usize {
        let lines = |(layer, part): (&Layer<F::Placement>, Part)| match part {
            Part::All => layer.placement().lines_to_add() as usize,
            Part::First | Part::Rest => lines(layer, part),
        };
        items_per_step(self.parts_to_add().map(lines).sum())
    }

    /// Asks for the memory of items that are to be added.
    fn prefetch_to_add(&self, items: Option<&[F::Digest<'_>]>, prefetch: impl Prefetch) {
        let items = items.unwrap_or_default();
        for (layer, part) in self.parts_to_add() {
            if F::COUNTS_OCCURRENCES && part == Part::All {
                items.iter().for_each(|digest| layer.prefetch_to_add(*digest, prefetch));
                continue;
            }
            items.iter().for_each(|digest| layer.prefetch(*digest, part, prefetch));
        }
    }

    /// The layers worth asking for, the newest first, and what of an item's memory is needed there to add it:
    /// the last layer is about to be written to in full, in the older ones most items are absent.
    fn parts_to_add(&self) -> impl Iterator<Item = (&Layer<F::Placement>, Part)> {
        let layers =
            self.layers().iter().rev().zip([Part::All].into_iter().chain(std::iter::repeat(Part::First)));
        layers.filter(|(layer, _)| !is_cached(layer))
    }

    /// One bit per item, for a few items: everything is asked for first.
    fn contains_few(&self, digests: &[F::Digest<'_>], prefetch: impl Prefetch) -> ItemSet {
        digests.iter().for_each(|digest| self.prefetch_one(*digest, prefetch));
        subset(digests, group::all(digests.len()), |digest| self.contains(digest))
    }

    /// One bit per item: layer after layer, the newest first, for the items that were not found yet.
    fn contains_group(
        &self,
        digests: &[F::Digest<'_>],
        hits_expected: bool,
        prefetch: impl Prefetch,
    ) -> ItemSet {
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
#[inline(never)]
fn contains_in_layer<D: Copy, P: Placement<D>>(
    layer: &Layer<P>,
    digests: &[D],
    wanted: ItemSet,
    hits_expected: bool,
    prefetch: impl Prefetch,
) -> ItemSet {
    let look = |set, part| contains_part(layer, digests, set, part, prefetch);
    if layer.placement().touched_lines() < TWO_STEP_LINES || hits_expected {
        return look(wanted, Part::All);
    }
    look(look(wanted, Part::First), Part::Rest)
}

/// One bit per item of `wanted` for which that part of its probes is set; of [`Part::Rest`], where the first
/// are too.
#[inline(always)]
fn contains_part<D: Copy, P: Placement<D>>(
    layer: &Layer<P>,
    digests: &[D],
    wanted: ItemSet,
    part: Part,
    prefetch: impl Prefetch,
) -> ItemSet {
    let look = |set| match part {
        Part::First => layer.first_probes_set(digests, set),
        Part::Rest | Part::All => layer.contains_each(digests, set),
    };
    if is_cached(layer) {
        return look(wanted);
    }
    let items = items_per_step(lines(layer, part));
    let (mut found, mut rest, mut asked) = (0, wanted, 0);
    loop {
        let step = group::take_first(&mut rest, items);
        layer.prefetch_each(digests, step, part, prefetch);
        if asked != 0 {
            found |= look(asked);
        }
        if step == 0 {
            return found;
        }
        asked = step;
    }
}

/// Items of so many lines each that are asked for in one step.
fn items_per_step(lines: usize) -> usize {
    (STEP_LINES / lines.max(1)).max(1)
}

/// Lines of memory in that part of an item's probes.
fn lines<P: Probes>(layer: &Layer<P>, part: Part) -> usize {
    part.of(layer.placement().touched_lines()).len()
}

/// Kept out of the way of small filters, whose single commands it would burden with the set-up of its loop.
#[inline(never)]
fn prefetch_large<D: Copy, P: Placement<D>>(layer: &Layer<P>, digest: D, prefetch: impl Prefetch) {
    layer.prefetch(digest, Part::All, prefetch);
}

/// Whether the layer is near the processor, so that asking for its memory takes as long as looking at it.
fn is_cached<P: Probes>(layer: &Layer<P>) -> bool {
    layer.storage().size_bits() <= CACHED_MAX_BYTES * 8
}
