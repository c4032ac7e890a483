//! The large blocks of filters that were allocated as zeros, and how much of them was never written to. Such memory is
//! reserved: the system provides a page of it when the page is first written to.

use std::collections::BTreeMap;
use std::ops::Range;

/// The smallest block that is counted. The servers' allocators write zeros to smaller ones at once.
pub const BLOCK_MIN_BYTES: usize = 16 << 10;

/// The blocks by their addresses, with a running total.
///
/// Nothing tells when a page is written to. So the total is an upper bound, until [`measure`](Self::measure) looks again.
/// A block without reserved memory is no longer counted, because none comes back.
#[derive(Debug, Default)]
pub struct ReservedBlocks {
    blocks: BTreeMap<usize, Block>,
    /// The sum of the bytes of all blocks that were reserved when they were last measured.
    total_bytes: u64,
}

#[derive(Debug)]
struct Block {
    size_bytes: usize,
    /// The bytes that were reserved when the block was last measured.
    reserved_bytes: usize,
}

impl ReservedBlocks {
    /// Returns no blocks.
    pub const fn new() -> Self {
        Self { blocks: BTreeMap::new(), total_bytes: 0 }
    }

    /// Returns an upper bound of the reserved bytes. O(1).
    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Counts a new block, all of which is reserved. O(log blocks).
    pub fn add(&mut self, address: usize, size_bytes: usize) {
        self.remove(address);
        self.blocks.insert(address, Block { size_bytes, reserved_bytes: size_bytes });
        self.total_bytes = self.total_bytes.saturating_add(size_bytes as u64);
    }

    /// Counts a block no longer, because it is freed or all of it is written to. Does nothing for other blocks. O(log
    /// blocks).
    pub fn remove(&mut self, address: usize) {
        if let Some(block) = self.blocks.remove(&address) {
            self.total_bytes = self.total_bytes.saturating_sub(block.reserved_bytes as u64);
        }
    }

    /// Measures blocks until at most `wanted_bytes` are reserved, or all blocks are measured. `reserved` returns the
    /// reserved bytes of a block. O(blocks and their pages).
    pub fn measure(&mut self, wanted_bytes: u64, mut reserved: impl FnMut(Range<usize>) -> usize) {
        let Self { blocks, total_bytes } = self;
        blocks.retain(|address, block| {
            if *total_bytes <= wanted_bytes {
                return true;
            }
            let before_bytes = block.reserved_bytes;
            let measured_bytes = reserved(*address..address.saturating_add(block.size_bytes));
            // While a child saves, pages that it shares look reserved again.
            block.reserved_bytes = measured_bytes.min(before_bytes);
            *total_bytes =
                total_bytes.saturating_sub(before_bytes as u64).saturating_add(block.reserved_bytes as u64);
            block.reserved_bytes > 0
        });
    }
}
