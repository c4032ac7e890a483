//! The memory of a filter: its blocks, which can be measured or moved, the parts that were written to, and out of
//! memory.

use std::ops::Range;

use thiserror::Error;

use super::filter::Filter;
use super::layer::Layer;
use super::policy::Policy;

/// An allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("out of memory")]
pub struct OutOfMemory;

/// Information about memory. The server queries the system; tests and the library have none.
pub trait Memory: Copy {
    /// Calls `visit` with the parts of `words`, by index and in order, that may contain anything but zeros. This is a
    /// hint: callers count the set cells of these parts to check it. O(pages).
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>));
}

/// No information: any part may have been written to.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownMemory;

impl Memory for UnknownMemory {
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        visit(0..words.len());
    }
}

/// A visitor of blocks of the allocator. [`Filter::visit_blocks`] guarantees that each is a whole block, from its
/// first byte on, and still allocated. So a visitor may query the allocator for its size, which is unsound for
/// anything else.
pub trait BlockVisitor {
    /// Visits one block, by its content; empty if there is no block.
    fn visit<T>(&mut self, block: &[T]);
}

/// Moves blocks of the allocator, for active defragmentation. The values in a block must not change.
pub trait BlockMover {
    /// Moves the block of a vector.
    fn move_vec<T>(&self, values: &mut Vec<T>);

    /// Moves the block of a box.
    fn move_box<T>(&self, value: &mut Box<T>);
}

impl Filter {
    /// Visits the blocks that the struct owns, except that of the dumps: those of the policy and of the layers, then
    /// the cells of each layer, the oldest first. O(layers).
    pub fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        match &self.policy {
            Policy::Promise(_) => {}
            Policy::Merged(policy) | Policy::United(policy) => visit_box(&**policy, visitor),
            Policy::Window(policy) => visit_box(&**policy, visitor),
            Policy::RedisBloom(policy) => visit_box(&**policy, visitor),
            Policy::ValkeyBloom(policy) => visit_box(&**policy, visitor),
            Policy::Imported(policy) => visit_box(&**policy, visitor),
        }
        if self.layers.spilled() {
            visitor.visit(&self.layers);
        }
        self.layers.iter().for_each(|layer| layer.visit_blocks(visitor));
    }

    /// Moves the blocks that the struct owns, except those of the cells.
    pub fn move_structs(&mut self, mover: &impl BlockMover) {
        match &mut self.policy {
            Policy::Promise(_) => {}
            Policy::Merged(policy) | Policy::United(policy) => mover.move_box(policy),
            Policy::Window(policy) => mover.move_box(policy),
            Policy::RedisBloom(policy) => mover.move_box(policy),
            Policy::ValkeyBloom(policy) => mover.move_box(policy),
            Policy::Imported(policy) => mover.move_box(policy),
        }
        if self.layers.spilled() {
            // A vector without spare capacity becomes a small vector and back without a copy.
            let mut layers = std::mem::take(&mut self.layers).into_vec();
            mover.move_vec(&mut layers);
            self.layers = layers.into();
        }
        self.layers.iter_mut().for_each(|layer| layer.move_structs(mover));
        self.dumps.iter_mut().for_each(|dumps| mover.move_box(dumps));
    }

    /// Moves the cells of layer `layer`, 0 being the oldest.
    pub fn move_cells(&mut self, layer: usize, mover: &impl BlockMover) {
        if let Some(layer) = self.layers.get_mut(layer) {
            layer.cells_mut().relocate(|words| {
                // A boxed slice is a vector without spare capacity: the conversion moves nothing.
                let mut words = words.into_vec();
                mover.move_vec(&mut words);
                words.into_boxed_slice()
            });
        }
    }
}

impl Layer {
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        if let Some(block) = self.placement().block() {
            visitor.visit(std::slice::from_ref(block));
        }
        self.cells().state().visit_block(visitor);
        visitor.visit(self.cells().allocation());
    }

    fn move_structs(&mut self, mover: &impl BlockMover) {
        if let Some(block) = self.placement_mut().block_mut() {
            mover.move_box(block);
        }
        self.cells_mut().state_mut().move_block(mover);
    }
}

fn visit_box<T>(block: &T, visitor: &mut impl BlockVisitor) {
    visitor.visit(std::slice::from_ref(block));
}
