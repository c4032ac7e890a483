//! The probes of an item in a few distinct lines of one page: layers of 2 MiB and more. Which lines and bits
//! those are says the module `page`.
//!
//! Part of the format, as docs/formats.md says it in words.

use super::hash::{ItemHash, multiply_high};
use super::page::{Deal, InPage, Page};
use crate::bloom::bits::Bits;
use crate::bloom::group::{ItemSet, subset};
use crate::bloom::placement::{Placement, Probes};
use crate::bloom::prefetch::{Part, Prefetch};

/// The same code for every number of probes that all lines have at least, as the constant `FEW`: it then has
/// no loop over the probes of a line, which would take as long as the probes. A line has seven at most.
macro_rules! with_few {
    ($deal:expr, $few:ident => $body:expr) => {{
        macro_rules! constant {
            ($number:literal) => {{
                const $few: u32 = $number;
                $body
            }};
        }
        match $deal.few {
            0 => constant!(0),
            1 => constant!(1),
            2 => constant!(2),
            3 => constant!(3),
            4 => constant!(4),
            5 => constant!(5),
            6 => constant!(6),
            _ => constant!(7),
        }
    }};
}

pub(in crate::bloom) use with_few;

/// In a few distinct lines of one page: the probes of every item are dealt out to them evenly.
///
/// Three bytes, for every layer has them; the division that they come from is made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paged {
    lines: u8,
    few: u8,
    lines_with_more: u8,
}

impl Paged {
    /// A placement of so many probes in so many lines, of which there must be one.
    #[must_use]
    pub const fn new(probes: u8, lines: u8) -> Self {
        let lines = if lines == 0 { 1 } else { lines };
        Self { lines, few: probes / lines, lines_with_more: probes % lines }
    }

    /// Lines per item.
    #[must_use]
    pub const fn lines(self) -> u8 {
        self.lines
    }

    pub(in crate::bloom) fn deal(self) -> Deal {
        Deal { lines: self.lines.into(), few: self.few.into(), lines_with_more: self.lines_with_more.into() }
    }
}

impl Probes for Paged {
    type Storage = Bits;

    fn probes(&self) -> u32 {
        let Deal { lines, few, lines_with_more } = self.deal();
        lines * few + lines_with_more
    }

    fn touched_lines(&self) -> u32 {
        self.lines.into()
    }
}

impl Placement<ItemHash> for Paged {
    /// Ends at the first line that says no.
    #[inline(always)]
    fn contains(&self, bits: &Bits, item: ItemHash) -> bool {
        let deal = self.deal();
        page_of(bits, item).is_some_and(
            |page| with_few!(deal, FEW => InPage::of(item).is_set_line_by_line::<FEW>(page, deal)),
        )
    }

    #[inline(always)]
    fn contains_each(&self, bits: &Bits, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        contains_each(bits, self.deal(), items, wanted)
    }

    #[inline(always)]
    fn first_probes_set(&self, bits: &Bits, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        contains_each(bits, self.deal().first(), items, wanted)
    }

    #[inline(always)]
    fn insert(&self, bits: &mut Bits, item: ItemHash) -> u32 {
        let deal = self.deal();
        bits.update_pages(|pages| {
            let page = pages.get_mut(page_index(item, pages.len()));
            page.map_or(0, |page| with_few!(deal, FEW => InPage::of(item).set::<FEW>(page, deal)))
        })
    }

    #[inline(always)]
    fn prefetch(&self, bits: &Bits, item: ItemHash, part: Part, prefetch: impl Prefetch) {
        if let Some(page) = page_of(bits, item) {
            InPage::of(item).prefetch(page, part.of(self.touched_lines()), prefetch);
        }
    }
}

/// One bit for each of the `wanted` items: whether its probes are set in all lines of the deal.
fn contains_each(bits: &Bits, deal: Deal, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
    with_few!(deal, FEW => subset(items, wanted, |item| {
        page_of(bits, item).is_some_and(|page| InPage::of(item).is_set::<FEW>(page, deal))
    }))
}

/// The page of an item. Every item has one in a valid array.
fn page_of(bits: &Bits, item: ItemHash) -> Option<&Page> {
    let pages = bits.pages();
    pages.get(page_index(item, pages.len()))
}

/// The index of an item's page among so many.
pub(in crate::bloom) fn page_index(item: ItemHash, pages: usize) -> usize {
    // Below the number of pages.
    usize::try_from(multiply_high(item.h1, pages as u64)).unwrap_or(usize::MAX)
}
