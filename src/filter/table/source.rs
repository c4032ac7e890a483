//! Where a rewrite reads, and what it writes: segments with their places, addresses of blocks, and the segment to write.

use super::directory::Directory;
use super::segment::Segment;
use super::size::TableSize;
use crate::memory::OutOfMemory;
use crate::words::low_bits;

/// A segment with entries, with its place in its table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'s> {
    pub(super) segment: &'s Segment,
    pub(super) number: usize,
    /// How many low bits of the hash choose the segment.
    pub(super) depth: u32,
}

/// Where a rewrite reads entries.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntrySource<'s> {
    /// The segments of a table. The new segments have at least as long addresses as to choose one of them.
    Table(&'s Directory),
    /// Segments in the order of their first [positions](Placed::position). None has items of another. No block has more
    /// address bits than the number.
    Segments(&'s [Placed<'s>], u32),
}

/// Some low bits of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) value: u64,
    pub(super) bits: u32,
}

impl<'s> Placed<'s> {
    /// Returns the segments of a table that have entries, in the order of their positions. O(segments log segments).
    pub(super) fn all(directory: &'s Directory) -> Result<Vec<Self>, OutOfMemory> {
        let (size, mut placed) = (directory.size(), Vec::new());
        for (number, segment) in directory.segments().filter(|(_, segment)| !segment.is_empty()) {
            placed.try_reserve(1).map_err(|_| OutOfMemory)?;
            placed.push(Self { segment, number, depth: size.depth_of(number) });
        }
        placed.sort_unstable_by_key(Self::position);
        Ok(placed)
    }

    /// Returns the first position of the segment: the number of a segment in reverse order of bits. The items of a
    /// segment have consecutive positions.
    pub(super) const fn position(&self) -> u64 {
        (self.number as u64).reverse_bits()
    }

    /// Returns the last position of the segment.
    pub(super) fn last_position(&self) -> u64 {
        self.position() | u64::MAX >> self.depth
    }

    /// Calls `visit` with each block that has entries for an address, and with the address of that block.
    #[inline(always)]
    fn blocks_at(
        self,
        address: Address,
        visit: &mut impl FnMut(&Segment, usize, Address) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let Self { segment, number, depth } = self;
        let bits = depth + segment.blocks_log();
        if segment.is_empty() || (number as u64 ^ address.value) & low_bits(depth.min(address.bits)) != 0 {
            return Ok(());
        }
        // The bits of the block's address that the given address does not have.
        let low = (address.value | number as u64) & low_bits(bits);
        let known = address.bits.max(depth);
        // An address with more bits than the block's has one block.
        for high in 0..1u64 << bits.saturating_sub(known) {
            let value = low | high << known;
            visit(segment, (value >> depth) as usize & segment.block_mask(), Address { value, bits })?;
        }
        Ok(())
    }
}

impl<'s> EntrySource<'s> {
    /// Returns segments as a source. O(segments).
    pub(super) fn of_segments(placed: &'s [Placed<'s>]) -> Self {
        let bits = placed.iter().map(|placed| placed.depth + placed.segment.blocks_log());
        Self::Segments(placed, bits.fold(0, u32::max))
    }

    /// Returns the segment of a table that has the items of segment `number` of a larger table.
    fn segment_for(directory: &'s Directory, number: usize) -> Placed<'s> {
        let depth = directory.size().depth_of(number);
        let number = number & low_bits(depth) as usize;
        Placed { segment: directory.get(number), number, depth }
    }

    /// Returns the most address bits of a block that has items of a segment.
    pub(super) fn address_bits(self, target: Target) -> u32 {
        match self {
            Self::Table(directory) => {
                let Placed { segment, depth, .. } = Self::segment_for(directory, target.number);
                depth + segment.blocks_log()
            }
            Self::Segments(_, bits) => bits,
        }
    }

    /// Returns the segment of a table that has all items of a new segment, if its blocks have one address bit less.
    pub(super) fn parent_segment(self, target: Target) -> Option<Placed<'s>> {
        let Self::Table(directory) = self else { return None };
        let placed = Self::segment_for(directory, target.number);
        let bits = placed.depth + placed.segment.blocks_log();
        (bits + 1 == target.address_bits() && placed.depth <= target.depth).then_some(placed)
    }

    /// Returns the segment that has the same place and shape of slots as a new one, with entries.
    pub(super) fn same_segment(self, target: Target, width: u32) -> Option<&'s Segment> {
        let Self::Table(directory) = self else { return None };
        let Placed { segment, number, depth } = Self::segment_for(directory, target.number);
        let same = Target { number, depth, blocks_log: segment.blocks_log() };
        (same == target && !segment.is_empty() && segment.width() == width).then_some(segment)
    }

    /// Calls `visit` with each block that has entries for an address, and with the address of that block.
    #[inline(always)]
    pub(super) fn blocks_at(
        self,
        address: Address,
        mut visit: impl FnMut(&Segment, usize, Address) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        match self {
            EntrySource::Table(directory) => {
                Self::segment_for(directory, address.value as usize).blocks_at(address, &mut visit)
            }
            EntrySource::Segments(segments, _) => {
                let first = address.value.reverse_bits();
                let start = segments.partition_point(|placed| placed.position() < first);
                let (before, from) = segments.split_at(start);
                // A segment with fewer address bits begins before the position of the address.
                let before = before.last();
                let last = first | u64::MAX >> address.bits;
                let here = from.iter().take_while(|placed| placed.position() <= last);
                before.into_iter().chain(here).try_for_each(|placed| placed.blocks_at(address, &mut visit))
            }
        }
    }
}

/// A segment to write: its number, its depth, and the logarithm of its number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) number: usize,
    pub(super) depth: u32,
    pub(super) blocks_log: u32,
}

impl Target {
    pub(super) fn of(size: TableSize, number: usize) -> Self {
        Self { number, depth: size.depth_of(number), blocks_log: size.blocks_log }
    }

    /// Returns how many bits of the hash choose one of the blocks.
    pub(super) const fn address_bits(self) -> u32 {
        self.depth + self.blocks_log
    }

    pub(super) const fn address_of(self, block: usize) -> Address {
        Address { value: self.number as u64 | (block as u64) << self.depth, bits: self.address_bits() }
    }
}
