//! The blocks of the allocator that a filter owns: they are measured, and moved by defragmentation.

use super::Filter;
use super::parts::Parts;
use crate::bloom::memory::{BlockMover, BlockVisitor};

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

    /// Moves the bits of layer `number`, 0 being the oldest.
    pub fn move_bits(&mut self, number: usize, mover: &impl BlockMover) {
        if let Some(layer) = self.layers_mut().get_mut(number) {
            layer.bits_mut().relocate(|words| {
                // A boxed slice is a vector without spare capacity: the conversion moves nothing.
                let mut words = words.into_vec();
                mover.move_vec(&mut words);
                words.into_boxed_slice()
            });
        }
    }

    /// Moves the block of segment `number` of the table.
    pub fn move_segment(&mut self, number: usize, mover: &impl BlockMover) {
        if let Some(table) = self.table_mut() {
            table.move_segment(number, mover);
        }
    }
}
