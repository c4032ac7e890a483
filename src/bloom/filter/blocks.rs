//! The blocks of the allocator that a filter owns: they are measured, and moved by defragmentation.

use super::Filter;
use super::parts::Parts;
use crate::bloom::memory::{BlockMover, BlockVisitor};
use crate::bloom::table::Table;

/// The blocks of the allocator, which can be measured or moved.
impl Filter {
    /// Visits the blocks that the struct owns, except that of the dumps: first the block of the policy, then those of
    /// the layers and of the table. O(layers + segments).
    pub fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        self.policy.visit_block(visitor);
        if let Parts::Many { layers, table } = &self.parts {
            visitor.visit(layers);
            table.iter().for_each(|table| visitor.visit(std::slice::from_ref(&**table)));
        }
        for layer in self.layers() {
            if let Some(block) = layer.placement().block() {
                visitor.visit(std::slice::from_ref(block));
            }
            visitor.visit(layer.bits().allocation());
        }
        if let Some(table) = self.table() {
            table.visit_blocks(visitor);
        }
    }

    /// Moves the blocks that the struct owns, except those of bits and of segments.
    pub fn move_structs(&mut self, mover: &impl BlockMover) {
        self.policy.move_block(mover);
        if let Parts::Many { layers, table } = &mut self.parts {
            mover.move_vec(layers);
            table.iter_mut().for_each(|table| mover.move_box(table));
        }
        for layer in self.layers_mut() {
            if let Some(block) = layer.placement_mut().block_mut() {
                mover.move_box(block);
            }
        }
        if let Some(table) = self.table_mut() {
            table.move_structs(mover);
        }
        self.dumps.iter_mut().for_each(|dumps| mover.move_box(dumps));
    }

    /// Returns the number of layers and stored segments. Segments without memory that are stored between others count
    /// too. O(1).
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.layer_count().saturating_add(self.table().map_or(0, Table::stored_segments))
    }

    /// Returns the number of the first block of bits or of a segment from number `from` on; `None` if there is none. Layers
    /// have the first numbers, the oldest 0, and then each segment has its own, whether it is stored or not. So a number
    /// stays right when other segments come and go. O(log segments) and the stored segments that are passed.
    #[must_use]
    pub fn next_block(&self, from: usize) -> Option<usize> {
        let layers = self.layer_count();
        if from < layers {
            return Some(from);
        }
        Some(self.table()?.next_segment(from.saturating_sub(layers))?.saturating_add(layers))
    }

    /// Moves the block of this number: bits, or a segment. Other numbers than those of [`next_block`](Self::next_block) move
    /// nothing.
    pub fn move_block(&mut self, number: usize, mover: &impl BlockMover) {
        let layers = self.layer_count();
        if let Some(layer) = self.layers_mut().get_mut(number) {
            layer.bits_mut().relocate(|words| {
                // A boxed slice is a vector without spare capacity: the conversion moves nothing.
                let mut words = words.into_vec();
                mover.move_vec(&mut words);
                words.into_boxed_slice()
            });
        } else if let Some(table) = self.table_mut() {
            table.move_segment(number.saturating_sub(layers), mover);
        }
    }
}
