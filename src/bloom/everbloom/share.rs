//! The pages of a layer shared out, so that several threads can add to it at once: an item lies in one page, so
//! whoever has that page adds it without asking anybody.

use super::hash::ItemHash;
use super::page::{InPage, Page};
use super::paged::{Paged, page_index, with_few};
use super::probing::Probing;
use crate::bloom::chain::Chain;
use crate::bloom::family::Family;
use crate::bloom::prefetch::{Part, Prefetch};

/// Items whose memory is asked for before the first of them is added.
const AHEAD_ITEMS: usize = 16;

/// A run of pages of a paged layer, with what was added to them.
#[derive(Debug)]
pub struct PageShare<'l> {
    pages: &'l mut [Page],
    first_page: usize,
    /// Pages of the layer.
    all_pages: usize,
    paged: Paged,
    /// What was added so far.
    pub gained: Gained,
}

/// What adding to a share came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gained {
    /// Items that were not there before.
    pub items: u64,
    /// Bits that were clear before.
    pub bits: u64,
}

/// Which share has an item.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    pages: usize,
    pages_per_share: usize,
}

impl Sharing {
    /// The index of the share that has the item's page. O(1).
    #[must_use]
    pub fn share_of(&self, item: ItemHash) -> usize {
        page_index(item, self.pages) / self.pages_per_share
    }

    /// Number of shares.
    #[must_use]
    pub fn shares(&self) -> usize {
        self.pages.div_ceil(self.pages_per_share)
    }
}

impl PageShare<'_> {
    /// Adds items that are all of this share; others change nothing. O(items * probes).
    pub fn add_many(&mut self, items: &[ItemHash], prefetch: impl Prefetch) {
        // The first items in vain, which costs nothing, then each group while the next one is on its way.
        let mut ahead = items.chunks(AHEAD_ITEMS);
        self.prefetch(ahead.next(), prefetch);
        for group in items.chunks(AHEAD_ITEMS) {
            self.prefetch(ahead.next(), prefetch);
            group.iter().for_each(|item| self.add(*item));
        }
    }

    fn add(&mut self, item: ItemHash) {
        let deal = self.paged.deal();
        let Some(page) = self.index_of(item).and_then(|index| self.pages.get_mut(index)) else { return };
        let new_bits = with_few!(deal, FEW => InPage::of(item).set::<FEW>(page, deal));
        self.gained.items += u64::from(new_bits > 0);
        self.gained.bits += u64::from(new_bits);
    }

    fn prefetch(&self, items: Option<&[ItemHash]>, prefetch: impl Prefetch) {
        let lines = Part::All.of(u32::from(self.paged.lines()));
        for item in items.unwrap_or_default() {
            if let Some(page) = self.index_of(*item).and_then(|index| self.pages.get(index)) {
                InPage::of(*item).prefetch(page, lines.clone(), prefetch);
            }
        }
    }

    /// Index of the item's page in the share; nothing, or one beyond the end, for an item of another share.
    fn index_of(&self, item: ItemHash) -> Option<usize> {
        page_index(item, self.all_pages).checked_sub(self.first_page)
    }
}

impl<F> Chain<F>
where
    F: for<'i> Family<Digest<'i> = ItemHash, Placement = Probing>,
{
    /// How the pages of the filter fall to so many shares, at least one: nothing for a filter that has another
    /// layer than one paged layer, whose items are looked for in several places. O(1).
    #[must_use]
    pub fn sharing(&self, shares: usize) -> Option<Sharing> {
        let [layer] = self.layers() else { return None };
        let pages = layer.bits().pages().len();
        let is_paged = matches!(layer.placement(), Probing::Paged(_)) && pages > 0;
        is_paged.then(|| Sharing { pages, pages_per_share: pages.div_ceil(shares.max(1)) })
    }

    /// New items that the last layer takes before it is full. O(1).
    #[must_use]
    pub fn room_items(&self) -> u64 {
        let last = self.layers().last();
        last.map_or(0, |layer| layer.capacity_items().saturating_sub(layer.counts().items))
    }

    /// Lets `add` set bits in the shares of [`sharing`](Self::sharing), which together must gain no more items
    /// than there is [room](Self::room_items) for.
    pub fn share_out(&mut self, sharing: Sharing, add: impl FnOnce(&mut [PageShare<'_>])) -> Gained {
        let [layer] = self.layers_mut() else { return Gained::default() };
        let Probing::Paged(paged) = layer.placement() else { return Gained::default() };
        let mut gained = Gained::default();
        layer.bits_mut().update_pages(|pages| {
            let all_pages = pages.len();
            let chunks = pages.chunks_mut(sharing.pages_per_share);
            let mut shares: Vec<PageShare<'_>> = (0..)
                .step_by(sharing.pages_per_share)
                .zip(chunks)
                .map(|(first_page, pages)| PageShare {
                    pages,
                    first_page,
                    all_pages,
                    paged,
                    gained: Gained::default(),
                })
                .collect();
            add(&mut shares);
            gained = shares.iter().fold(Gained::default(), |sum, share| Gained {
                items: sum.items.saturating_add(share.gained.items),
                bits: sum.bits.saturating_add(share.gained.bits),
            });
            gained.bits
        });
        let items = layer.counts().items.saturating_add(gained.items);
        layer.set_items(items);
        gained
    }
}
