//! The blocks of memory that a filter has, for whoever measures them or moves them: structs, layers,
//! storages.

use super::chain::Chain;
use super::family::Family;
use super::storage::Storage;

/// Is shown blocks of the allocator. Each is shown as a whole, from its first byte on, while it lives; `Filter::visit_blocks`
/// promises that to visitors that ask the allocator of it, which would read beyond anything else.
pub trait BlockVisitor {
    /// One block, by what is in it; empty where there is none.
    fn visit<T>(&mut self, block: &[T]);
}

/// Moves blocks of the allocator to better places, as active defragmentation does. Whatever it is given must
/// hold the same values afterwards.
pub trait BlockMover {
    /// Moves the block of a vector.
    fn move_vec<T>(&self, values: &mut Vec<T>);

    /// Moves the block of a box.
    fn move_box<T>(&self, value: &mut Box<T>);
}

/// What a filter holds a chain in: its own memory, or a box.
pub(super) trait Holder {
    /// Shows the block of the box, if it is one.
    fn visit_holder(&self, visitor: &mut impl BlockVisitor);

    /// Moves that block.
    fn move_holder(&mut self, mover: &impl BlockMover);
}

impl<F: Family> Holder for Chain<F> {
    fn visit_holder(&self, _: &mut impl BlockVisitor) {}

    fn move_holder(&mut self, _: &impl BlockMover) {}
}

impl<T> Holder for Box<T> {
    fn visit_holder(&self, visitor: &mut impl BlockVisitor) {
        visitor.visit(std::slice::from_ref(&**self));
    }

    fn move_holder(&mut self, mover: &impl BlockMover) {
        mover.move_box(self);
    }
}

impl<F: Family> Chain<F> {
    /// Shows the blocks behind the struct, except for that of the marks: the layers, then the storage of
    /// each, the oldest first. O(layers).
    pub fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        visitor.visit(&self.layers);
        self.layers.iter().for_each(|layer| visitor.visit(layer.storage().allocation()));
    }

    /// Moves the blocks behind the struct, except for those of the storages.
    pub fn move_structs(&mut self, mover: &impl BlockMover) {
        mover.move_vec(&mut self.layers);
        self.marks.iter_mut().for_each(|marks| mover.move_box(marks));
    }
}

/// Moves the block of a storage.
pub(super) fn move_storage(storage: &mut dyn Storage, mover: &impl BlockMover) {
    storage.relocate(&mut |words| {
        // A slice in a box is a vector without room to spare: turning one into the other moves nothing.
        let mut words = words.into_vec();
        mover.move_vec(&mut words);
        words.into_boxed_slice()
    });
}
