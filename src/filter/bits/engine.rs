//! The probing engine: looks up and adds items in the bits of one layer. It is compiled for every layout. A *line* of
//! an item counts as set if all probes of the item in it are set.

use super::layout::{Line, Probing, Words, WordsMut};
use crate::group::{ItemSet, dense_subset, members, subset};
use crate::prefetch::{NoPrefetch, Prefetch, ProbeRange};

/// Items to add to a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddRequest {
    /// The items.
    pub(crate) wanted: ItemSet,
    /// The number of new items that the layer still takes.
    pub(crate) room_items: u64,
}

/// The result of adding items to a layer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LayerAdds {
    /// Items that were not there before.
    pub(crate) new: ItemSet,
    /// The index of the first item that the layer refused because it is full. The items after it were not tested.
    pub(crate) first_refused: Option<u32>,
    /// Bits that were clear before.
    pub(crate) new_bits: u64,
}

/// The operations of the engine, compiled for each layout.
pub(super) trait Engine<D: Copy>: Probing<D> {
    /// Returns whether the item is present. Prefetches the memory of all its lines. Then tests them in order and stops
    /// at the first one that is not set, so that it waits for no more memory than necessary.
    #[inline(always)]
    fn contains(self, words: Words<'_>, item: D, prefetch: impl Prefetch) -> bool {
        let page = self.page(item, words);
        self.prefetch_item(page, words.positions(), item, prefetch);
        are_set_in_turn(page, self.lines_of(item, words.positions()))
    }

    /// Returns whether the first [`CHAIN_LINES`](Probing::CHAIN_LINES) of the item's lines are set. Reads them
    /// without a branch.
    #[inline(always)]
    fn may_contain(self, words: Words<'_>, item: D) -> bool {
        self.has_few(words, item, 0, Self::CHAIN_LINES)
    }

    /// Returns whether an item for which [`may_contain`](Self::may_contain) holds is present. Stops at the first line
    /// that is not set.
    #[inline(always)]
    fn contains_rest(self, words: Words<'_>, item: D) -> bool {
        let page = self.page(item, words);
        let mut lines = self.lines_of(item, words.positions());
        skip(&mut lines, Self::CHAIN_LINES);
        are_set_in_turn(page, lines)
    }

    /// Prefetches the memory of the lines that [`may_contain`](Self::may_contain) reads.
    #[inline(always)]
    fn prefetch_first(self, words: Words<'_>, item: D, prefetch: impl Prefetch) {
        let page = self.page(item, words);
        let count = Self::CHAIN_LINES.min(self.line_count());
        prefetch_lines(page, self.first_lines(item, words.positions(), count), prefetch);
    }

    /// Returns those of the `wanted` items whose lines in `range` are all set. This is for memory that is cached or
    /// prefetched: it reads more and branches less than [`contains`](Self::contains), unless an item has very many
    /// lines.
    #[inline(always)]
    fn contains_each(self, words: Words<'_>, items: &[D], wanted: ItemSet, range: ProbeRange) -> ItemSet {
        match range {
            ProbeRange::First => {
                dense_subset(items, wanted, |item| self.has_few(words, item, 0, ProbeRange::FIRST))
            }
            ProbeRange::Next => {
                subset(items, wanted, |item| self.has_few(words, item, ProbeRange::FIRST, ProbeRange::NEXT))
            }
            ProbeRange::Rest | ProbeRange::All if self.line_count() > BRANCHLESS_LINES_MAX => {
                subset(items, wanted, |item| self.contains(words, item, NoPrefetch))
            }
            ProbeRange::Rest => subset(items, wanted, |item| {
                self.has_range(words, item, ProbeRange::FIRST, self.line_count())
            }),
            ProbeRange::All => {
                subset(items, wanted, |item| self.has_range(words, item, 0, self.line_count()))
            }
        }
    }

    /// Does [`has_range`](Self::has_range), with `end` limited to the number of lines of an item. `start` and `end` are
    /// constants, so the compiler needs no loop if an item has that many lines.
    #[inline(always)]
    fn has_few(self, words: Words<'_>, item: D, start: u32, end: u32) -> bool {
        let lines = self.line_count();
        if lines >= end {
            self.has_range(words, item, start, end)
        } else {
            self.has_range(words, item, start, lines)
        }
    }

    /// Returns whether the item's lines from `start` to before `end` are set. Reads all of them.
    #[inline(always)]
    fn has_range(self, words: Words<'_>, item: D, start: u32, end: u32) -> bool {
        let page = self.page(item, words);
        let mut lines = self.first_lines(item, words.positions(), end);
        skip(&mut lines, start);
        are_set(page, lines)
    }

    /// Sets the item's lines. Returns how many bits were clear before.
    #[inline(always)]
    fn insert(self, words: WordsMut<'_>, item: D, prefetch: impl Prefetch) -> u32 {
        let positions = words.as_words().positions();
        let page = self.page_mut(item, words);
        self.prefetch_item(page, positions, item, prefetch);
        self.insert_in(page, positions, item)
    }

    /// Does [`insert`](Self::insert) in `page`, the page of the item, in a layer of `positions` positions.
    ///
    /// Stores nothing for an item that is present, because a store makes a line dirty (write-back, copy-on-write while
    /// a child saves). Reads `LINES_BEFORE_BRANCH` lines before the first branch, which is then seldom mispredicted.
    #[inline(always)]
    fn insert_in(self, page: &mut [u64], positions: u64, item: D) -> u32 {
        let lines = self.lines_of(item, positions);
        let (mut seen, mut mask) = (lines.clone(), 1);
        for _ in 0..Self::LINES_BEFORE_BRANCH {
            let Some(line) = seen.next() else { break };
            mask &= line.look(page);
        }
        if mask & 1 == 1 && are_set(page, seen) {
            return 0;
        }
        let mut new_bits = 0u32;
        for line in lines {
            new_bits = new_bits.wrapping_add(line.set(page));
        }
        new_bits
    }

    /// Does [`insert`](Self::insert) for the `wanted` items in order, up to the first one that the full layer refuses.
    #[inline(always)]
    fn insert_each(self, mut words: WordsMut<'_>, items: &[D], request: AddRequest) -> LayerAdds {
        let AddRequest { wanted, room_items } = request;
        let (mut outcome, mut room_items) = (LayerAdds::default(), room_items);
        let all_fit = u64::from(wanted.count_ones()) <= room_items;
        for (index, item) in members(items, wanted) {
            if !all_fit && room_items == 0 {
                if self.has_range(words.as_words(), item, 0, self.line_count()) {
                    continue;
                }
                outcome.first_refused = Some(index);
                break;
            }
            let new_bits = self.insert(words.reborrow(), item, NoPrefetch);
            outcome.new |= ItemSet::from(new_bits != 0).wrapping_shl(index);
            outcome.new_bits = outcome.new_bits.wrapping_add(new_bits.into());
            room_items = room_items.wrapping_sub((new_bits != 0).into());
        }
        outcome
    }

    /// Prefetches the memory of the lines in `range` of each of the `wanted` items.
    #[inline(always)]
    fn prefetch_each(
        self,
        words: Words<'_>,
        items: &[D],
        wanted: ItemSet,
        range: ProbeRange,
        prefetch: impl Prefetch,
    ) {
        for (_, item) in members(items, wanted) {
            let page = self.page(item, words);
            let range = range.of(self.line_count());
            let mut lines = self.first_lines(item, words.positions(), range.end);
            skip(&mut lines, range.start);
            prefetch_lines(page, lines, prefetch);
        }
    }

    /// Prefetches the memory of all lines of an item in `page`, its page, in a layer of `positions` positions.
    #[inline(always)]
    fn prefetch_item(self, page: &[u64], positions: u64, item: D, prefetch: impl Prefetch) {
        if prefetch.is_needed() {
            // Counting takes fewer instructions than testing for the end of the lines.
            let lines = self.lines_of(item, positions).take(self.line_count() as usize);
            prefetch_lines(page, lines, prefetch);
        }
    }
}

impl<D: Copy, L: Probing<D>> Engine<D> for L {}

/// The largest number of lines per item for which a lookup reads all of them. With more lines, a lookup that stops at
/// the first clear line takes a quarter less time for absent items; in a layer of a thousand probes, a small fraction
/// of the time.
const BRANCHLESS_LINES_MAX: u32 = 16;

/// Skips the first `count` lines. This is a manual loop because `Iterator::skip` would test for every line whether it
/// is still to be skipped.
#[inline(always)]
fn skip<L: Line>(lines: &mut impl Iterator<Item = L>, count: u32) {
    for _ in 0..count {
        let _ = lines.next();
    }
}

/// Returns whether all lines are set. Stops at the first that is not.
#[inline(always)]
fn are_set_in_turn<L: Line>(page: &[u64], lines: impl Iterator<Item = L>) -> bool {
    for line in lines {
        if line.look(page) & 1 == 0 {
            return false;
        }
    }
    true
}

/// Returns whether all lines are set. Reads all of them.
#[inline(always)]
fn are_set<L: Line>(page: &[u64], lines: impl Iterator<Item = L>) -> bool {
    let mut mask = 1;
    for line in lines {
        mask &= line.look(page);
    }
    mask & 1 == 1
}

/// Prefetches the memory of lines in a page.
#[inline(always)]
fn prefetch_lines<L: Line>(page: &[u64], lines: impl Iterator<Item = L>, prefetch: impl Prefetch) {
    for line in lines {
        if let Some(word) = line.word(page) {
            prefetch.prefetch(word);
        }
    }
}
