//! How a layer places the probes of an item.

use std::fmt::Debug;

use super::bits::Bits;
use super::estimate::{self, fill};
use super::group::{ItemSet, members, subset};
use super::prefetch::{Part, Prefetch};
use super::storage::Storage;

/// What is known of a placement whatever the item: what it probes, and how often.
pub trait Probes: Copy + Debug {
    /// What it probes.
    type Storage: Storage;

    /// Probes per item: the cells that an item changes in an empty storage, at most.
    fn probes(&self) -> u32;

    /// Lines of memory that an item touches.
    fn touched_lines(&self) -> u32 {
        self.probes()
    }

    /// Lines of memory that are asked for ahead of an item that is to be added.
    fn lines_to_add(&self) -> u32 {
        self.touched_lines()
    }

    /// Returns whether a layer that was sized for `capacity_items` and counts `items` takes no further new item. O(1).
    fn is_full(&self, _storage: &Self::Storage, items: u64, capacity_items: u64) -> bool {
        items >= capacity_items
    }

    /// Returns where the layer begins in dumps, in bytes, where it stays there although layers before it go; `None` where it
    /// follows the layers before it.
    fn address(&self) -> Option<u64> {
        None
    }

    /// Where counting ends if the capacity does not end it before. Every item that is counted sets a bit that
    /// was clear, so more items than bits are met only when bits are taken back: by a decoder, after items
    /// were added to what it had read.
    fn most_items(&self, _storage: &Self::Storage) -> u64 {
        u64::MAX
    }

    /// Cells that its probes can reach.
    fn cells(&self, storage: &Self::Storage) -> u64 {
        storage.size_bits()
    }

    /// Distinct items that the storage has met, estimated from its set cells. O(1).
    fn estimated_items(&self, storage: &Self::Storage) -> f64 {
        estimate::items_met(storage.set_bits(), self.cells(storage), self.probes())
    }

    /// Returns the expected share of absent items that are taken for present when so many of the cells are set. O(1).
    fn error_rate_of(&self, set_cells: u64, cells: u64) -> f64 {
        estimate::error_rate_now(fill(set_cells, cells), self.probes())
    }

    /// Returns the expected share of absent items that are taken for present now. O(1).
    fn error_rate_now(&self, storage: &Self::Storage) -> f64 {
        self.error_rate_of(storage.set_bits(), self.cells(storage))
    }
}

/// How a layer places the probes of an item in its storage.
pub trait Placement<Digest>: Probes {
    /// Whether all of the item's probes are set. O(probes); waits for no more memory than it needs.
    fn contains(&self, storage: &Self::Storage, digest: Digest) -> bool;

    /// One bit for each of the `wanted` items of a group: whether all of its probes are set. For memory that
    /// is near or has been asked for: looks at more and branches less than `contains`. O(items * probes).
    fn contains_each(&self, storage: &Self::Storage, digests: &[Digest], wanted: ItemSet) -> ItemSet;

    /// As `contains_each`, for the probes of [`Part::First`] alone, which tell most absent items. O(items).
    fn first_probes_set(&self, storage: &Self::Storage, digests: &[Digest], wanted: ItemSet) -> ItemSet;

    /// Sets the item's probes; answers how many were clear before. O(probes).
    fn insert(&self, storage: &mut Self::Storage, digest: Digest) -> u32;

    /// As `insert` of one item after another, a group at most; answers those that had a clear probe. O(items * probes).
    #[inline(always)]
    fn insert_each(&self, storage: &mut Self::Storage, digests: &[Digest]) -> ItemSet
    where
        Digest: Copy,
    {
        let is_new = |digest: &Digest| ItemSet::from(self.insert(storage, *digest) != 0);
        let news = digests.iter().map(is_new).zip(0u32..);
        news.fold(0, |set, (is_new, index)| set | is_new.wrapping_shl(index))
    }

    /// Asks for the memory that the probes of the item, or a part of them, lie in. O(probes).
    fn prefetch(&self, storage: &Self::Storage, digest: Digest, part: Part, prefetch: impl Prefetch);

    /// As `prefetch` of all probes, for an item that is about to be added. O(probes).
    #[inline(always)]
    fn prefetch_to_add(&self, storage: &Self::Storage, digest: Digest, prefetch: impl Prefetch) {
        self.prefetch(storage, digest, Part::All, prefetch);
    }

    /// As `prefetch`, for each of the `wanted` items of a group. O(items * probes).
    #[inline(always)]
    fn prefetch_each(
        &self,
        storage: &Self::Storage,
        digests: &[Digest],
        wanted: ItemSet,
        part: Part,
        prefetch: impl Prefetch,
    ) where
        Digest: Copy,
    {
        members(digests, wanted).for_each(|(_, digest)| self.prefetch(storage, digest, part, prefetch));
    }
}

/// A placement of single bits, anywhere in an array of bits.
pub trait Positions<Digest>: Probes<Storage = Bits> {
    /// The positions of an item, in order; as many as [`Probes::probes`].
    fn positions(&self, digest: Digest) -> impl Iterator<Item = u64> + Clone;
}

/// Most probes that are all looked at. Of more, absent items take a quarter less time when the first that is
/// clear ends it, and an item in a layer of a thousand probes a small part of it.
const AT_HAND_PROBES: u32 = 16;

impl<Digest: Copy, P: Positions<Digest>> Placement<Digest> for P {
    fn contains(&self, bits: &Bits, digest: Digest) -> bool {
        bits.reader().all_set(self.positions(digest))
    }

    fn contains_each(&self, bits: &Bits, digests: &[Digest], wanted: ItemSet) -> ItemSet {
        let reader = bits.reader();
        if self.probes() > AT_HAND_PROBES {
            return subset(digests, wanted, |digest| reader.all_set(self.positions(digest)));
        }
        subset(digests, wanted, |digest| reader.all_set_at_hand(self.positions(digest)))
    }

    fn first_probes_set(&self, bits: &Bits, digests: &[Digest], wanted: ItemSet) -> ItemSet {
        let reader = bits.reader();
        subset(digests, wanted, |digest| {
            reader.all_set_at_hand(self.positions(digest).take(Part::FIRST as usize))
        })
    }

    fn insert(&self, bits: &mut Bits, digest: Digest) -> u32 {
        bits.set_all(self.positions(digest))
    }

    fn prefetch(&self, bits: &Bits, digest: Digest, part: Part, prefetch: impl Prefetch) {
        bits.prefetch_each(self.positions(digest), part.of(self.probes()), prefetch);
    }
}

/// A layer that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerPlan<P> {
    /// How it places probes.
    pub placement: P,
    /// Bits of its storage.
    pub size_bits: u64,
    /// Items it takes before it is full.
    pub capacity_items: u64,
    /// Whether its storage has room for a head: [`Bits`].
    pub has_head: bool,
}
