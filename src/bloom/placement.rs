//! How a layer places the probes of an item.

use std::fmt::Debug;

use super::bits::Bits;
use super::group::{ItemSet, subset};
use super::prefetch::{Part, Prefetch};

/// How a layer places the probes of an item in its bits.
pub trait Placement<Digest>: Copy + Debug {
    /// Whether all of the item's probes are set. O(probes); waits for no more memory than it needs.
    fn contains(&self, bits: &Bits, digest: Digest) -> bool;

    /// One bit for each of the `wanted` items of a group: whether all of its probes are set. For memory that is near
    /// or has been asked for: looks at more and branches less than `contains`. O(items * probes).
    fn contained(&self, bits: &Bits, digests: &[Digest], wanted: ItemSet) -> ItemSet;

    /// As `contained`, for the probes of [`Part::First`], which tell most absent items. O(items).
    fn begun(&self, bits: &Bits, digests: &[Digest], wanted: ItemSet) -> ItemSet;

    /// Sets the item's probes; answers how many bits were clear before. O(probes).
    fn insert(&self, bits: &mut Bits, digest: Digest) -> u32;

    /// Asks for the memory that the probes of the item, or a part of them, lie in. O(probes).
    fn prefetch(&self, bits: &Bits, digest: Digest, part: Part, prefetch: impl Prefetch);

    /// Bits that an item sets in an empty array, at most.
    fn probes(&self) -> u32;

    /// Lines of memory that an item touches.
    fn touched_lines(&self) -> u32;

    /// Where counting ends if the capacity does not end it before. Every item that is counted sets a bit that was clear, so
    /// more items than bits are met only when bits are taken back: by a decoder, after items were added to what it had read.
    fn most_items(&self, _bits: &Bits) -> u64 {
        u64::MAX
    }
}

/// A placement of single positions, anywhere in the array.
pub trait Positions<Digest>: Copy + Debug {
    /// The positions of an item, in order.
    fn positions(&self, digest: Digest) -> impl Iterator<Item = u64> + Clone;

    /// Their number.
    fn probes(&self) -> u32;
}

/// Most probes that are all looked at. Of more, absent items take a quarter less time when the first that is clear ends it,
/// and an item in a layer of a thousand probes a small part of it.
const AT_HAND_PROBES: u32 = 16;

impl<Digest: Copy, P: Positions<Digest>> Placement<Digest> for P {
    fn contains(&self, bits: &Bits, digest: Digest) -> bool {
        bits.reader().all_set(self.positions(digest))
    }

    fn contained(&self, bits: &Bits, digests: &[Digest], wanted: ItemSet) -> ItemSet {
        let reader = bits.reader();
        if Positions::probes(self) > AT_HAND_PROBES {
            return subset(digests, wanted, |digest| reader.all_set(self.positions(digest)));
        }
        subset(digests, wanted, |digest| reader.all_set_at_hand(self.positions(digest)))
    }

    fn begun(&self, bits: &Bits, digests: &[Digest], wanted: ItemSet) -> ItemSet {
        let reader = bits.reader();
        subset(digests, wanted, |digest| {
            reader.all_set_at_hand(self.positions(digest).take(Part::FIRST as usize))
        })
    }

    fn insert(&self, bits: &mut Bits, digest: Digest) -> u32 {
        bits.set_all(self.positions(digest))
    }

    fn prefetch(&self, bits: &Bits, digest: Digest, part: Part, prefetch: impl Prefetch) {
        bits.prefetch_each(self.positions(digest), part.of(Positions::probes(self)), prefetch);
    }

    fn probes(&self) -> u32 {
        Positions::probes(self)
    }

    fn touched_lines(&self) -> u32 {
        Positions::probes(self)
    }

    /// Of other modules' layers, whose capacity may be any number: decoders refuse counts above this.
    fn most_items(&self, bits: &Bits) -> u64 {
        bits.len()
    }
}

/// A layer that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerPlan<P> {
    /// How it places probes.
    pub placement: P,
    /// Bits of its array.
    pub size_bits: u64,
    /// Items it takes before it is full.
    pub capacity_items: u64,
    /// Whether its array has room for a head: [`Bits`].
    pub has_head: bool,
}
