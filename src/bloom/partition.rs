//! Splits the pages of a layer into parts, so that several threads can add at once. All probes of an item are in one
//! page, so only the thread that owns the page adds the item.

use super::cells::{Bits, CellState, Purpose};
use super::engine::{Engine, Inserted, ViewMut, prefetch_spots};
use super::filter::Filter;
use super::hash::{Digest, ItemHash};
use super::layout::{Line, Paged, Probing, Spot, page_index, with_per_line};
use super::outcome::{AddError, Added, ByteLimit};
use super::placement::Layout;
use super::prefetch::Prefetch;
use super::room::Room;
use super::window::Moment;

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

/// Consecutive pages of a paged layer of bits.
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
                let Some(page) = self.page_of(*item) else { continue };
                let mut view = ViewMut { words: &mut *self.words, stamps: &mut [] };
                let Inserted { new_cells, .. } =
                    layout.insert_in::<Bits>(&mut view, page, 0, *item, Moment::default());
                self.added.items += u64::from(new_cells > 0);
                self.added.bits += u64::from(new_cells);
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
            if let Some(page) = page.and_then(|page| Line::<PER_LINE>::region::<Bits>(self.words, page)) {
                prefetch_spots::<Bits, _>(page, layout.spots(*item, 0), Purpose::Add, prefetch);
            }
        }
    }

    /// Returns the index of the item's page in the part. For an item of another part, returns `None` or an index past
    /// the end.
    fn page_of(&self, item: ItemHash) -> Option<usize> {
        page_index(item, self.all_pages).checked_sub(self.first_page)
    }
}

impl Filter {
    /// Returns a partition of the pages into at most `parts` parts; `None` unless the filter has a single, paged
    /// layer of bits. O(1).
    #[must_use]
    pub fn partition(&self, parts: usize) -> Option<Partition> {
        let [layer] = self.layers() else { return None };
        let is_paged = matches!((layer.cells().state(), layer.layout()), (CellState::Bits, Layout::Paged(_)));
        let pages = layer.shape().filter(|_| is_paged).map(|shape| shape.regions())?;
        let pages = usize::try_from(pages).ok().filter(|pages| *pages > 0)?;
        Some(Partition { pages, pages_per_part: pages.div_ceil(parts.max(1)) })
    }

    /// Returns the hash of an item in such a filter. O(length).
    #[must_use]
    pub fn item_hash(&self, item: &[u8]) -> Option<ItemHash> {
        ItemHash::of(self.layers.first()?.hash(), item)
    }

    /// Adds an item by its [hash](Self::item_hash). O(layers * probes).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_item_hash(
        &mut self,
        item: ItemHash,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.add_hashed(item, &mut Room::new(limit), prefetch)
    }

    /// Calls `add` with the parts of a [`partition`](Self::partition). It must add no more new items than
    /// [`room_items`](Self::room_items). Returns the counts of all parts.
    pub fn add_in_parts(&mut self, partition: Partition, add: impl FnOnce(&mut [PagePart<'_>])) -> PartAdded {
        let all_pages = partition.pages;
        let Some(layer) = self.layers.first_mut() else { return PartAdded::default() };
        let Layout::Paged(layout) = layer.layout() else { return PartAdded::default() };
        let words = layer.cells_mut().words_mut();
        let chunks = words.chunks_mut(partition.pages_per_part * super::cells::PAGE_WORDS);
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
        layer.cells_mut().count_set(added.bits);
        layer.count_items(added.items);
        self.note_change();
        added
    }
}
