//! Splits the pages of a layer into parts, so that several threads can add at once. All probes of an item are in one
//! page, so only the thread that owns the page adds the item.

use super::engine::{Engine, prefetch_spots};
use super::layout::{Line, Paged, Probing, Spot, page_index, with_per_line};
use super::{Layer, Layout, PAGE_WORDS};
use crate::bloom::hash::ItemHash;
use crate::bloom::prefetch::Prefetch;

/// Items that are prefetched together.
const AHEAD_ITEMS: usize = 16;

/// How the pages of a layer are split.
#[derive(Clone, Copy, Debug)]
pub struct Partition {
    pages: usize,
    pages_per_part: usize,
}

impl Partition {
    /// Returns the index of the part that has the item's page. O(1).
    #[must_use]
    pub fn part_of(&self, item: ItemHash) -> usize {
        page_index(item, self.pages) / self.pages_per_part
    }

    /// Returns the number of parts.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.pages.div_ceil(self.pages_per_part)
    }
}

/// Consecutive pages of a paged layer.
#[derive(Debug)]
pub struct PagePart<'l> {
    words: &'l mut [u64],
    first_page: usize,
    /// Pages of the layer.
    all_pages: usize,
    layout: Paged,
    /// The counts of what was added so far.
    pub added: PartAdded,
}

/// The counts of the adds to a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartAdded {
    /// Items that were not in the part before.
    pub items: u64,
    /// Bits that were clear before.
    pub bits: u64,
}

impl PagePart<'_> {
    /// Adds the items of this part. Items of other parts change nothing. O(items * probes).
    pub fn add_many(&mut self, items: &[ItemHash], prefetch: impl Prefetch) {
        with_per_line!(self.layout, layout => self.add_each(layout, items, prefetch));
    }

    fn add_each<const PER_LINE: u32>(
        &mut self,
        layout: Paged<PER_LINE>,
        items: &[ItemHash],
        prefetch: impl Prefetch,
    ) {
        // Each group is prefetched while the one before it is added.
        let mut ahead = items.chunks(AHEAD_ITEMS);
        self.prefetch(layout, ahead.next(), prefetch);
        for group in items.chunks(AHEAD_ITEMS) {
            self.prefetch(layout, ahead.next(), prefetch);
            for item in group {
                let page =
                    self.page_of(*item).and_then(|page| Line::<PER_LINE>::region_mut(self.words, page));
                let Some(page) = page else { continue };
                let new_bits = layout.insert_in(page, 0, *item);
                self.added.items += u64::from(new_bits > 0);
                self.added.bits += u64::from(new_bits);
            }
        }
    }

    fn prefetch<const PER_LINE: u32>(
        &self,
        layout: Paged<PER_LINE>,
        items: Option<&[ItemHash]>,
        prefetch: impl Prefetch,
    ) {
        for item in items.unwrap_or_default() {
            let page = self.page_of(*item);
            if let Some(page) = page.and_then(|page| Line::<PER_LINE>::region(self.words, page)) {
                prefetch_spots(page, layout.spots(*item, 0), prefetch);
            }
        }
    }

    /// Returns the index of the item's page in the part. For an item of another part, returns `None` or an index past
    /// the end.
    fn page_of(&self, item: ItemHash) -> Option<usize> {
        page_index(item, self.all_pages).checked_sub(self.first_page)
    }
}

impl Layer {
    /// Returns a partition of the pages into at most `parts` parts; `None` unless the layer is paged. O(1).
    #[must_use]
    pub fn partition(&self, parts: usize) -> Option<Partition> {
        let is_paged = matches!(self.layout(), Layout::Paged(_));
        let pages = self.shape().filter(|_| is_paged).map(|shape| shape.regions())?;
        let pages = usize::try_from(pages).ok().filter(|pages| *pages > 0)?;
        Some(Partition { pages, pages_per_part: pages.div_ceil(parts.max(1)) })
    }

    /// Calls `add` with the parts of a [`partition`](Self::partition). It must add no more new items than the layer has
    /// [room](Self::room_items). Returns the counts of all parts.
    pub fn add_in_parts(&mut self, partition: Partition, add: impl FnOnce(&mut [PagePart<'_>])) -> PartAdded {
        let all_pages = partition.pages;
        let Layout::Paged(layout) = self.layout() else { return PartAdded::default() };
        let chunks = self.bits_mut().words_mut().chunks_mut(partition.pages_per_part * PAGE_WORDS);
        let pages = (0..).step_by(partition.pages_per_part).zip(chunks);
        let mut parts: Vec<PagePart<'_>> = pages
            .map(|(first_page, words)| PagePart {
                words,
                first_page,
                all_pages,
                layout,
                added: PartAdded::default(),
            })
            .collect();
        add(&mut parts);
        let added = parts.iter().fold(PartAdded::default(), |sum, part| PartAdded {
            items: sum.items.saturating_add(part.added.items),
            bits: sum.bits.saturating_add(part.added.bits),
        });
        self.bits_mut().count_set(added.bits);
        self.count_items(added.items);
        added
    }
}
