//! The blocks of memory that a filter has, to be measured or moved: structs, layers, cells.

use super::cells::CellState;
use super::filter::Filter;
use super::layer::Layer;
use super::policy::Policy;

/// Is shown blocks of the allocator. Each is shown as a whole, from its first byte on, while it lives; [`Filter::visit_blocks`]
/// promises that to visitors that ask the allocator about it, which would read beyond anything else.
pub trait BlockVisitor {
    /// Takes one block, by what is in it; empty where there is none.
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

impl Filter {
    /// Shows the blocks behind the struct, except for that of the marks: those of the policy and of the layers, then the cells of
    /// each, the oldest first. O(layers).
    pub fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        match &self.policy {
            Policy::Promise(_) => {}
            Policy::United(policy) => visit_box(&**policy, visitor),
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

    /// Moves the blocks behind the struct, except for those of the cells.
    pub fn move_structs(&mut self, mover: &impl BlockMover) {
        match &mut self.policy {
            Policy::Promise(_) => {}
            Policy::United(policy) => mover.move_box(policy),
            Policy::Window(policy) => mover.move_box(policy),
            Policy::RedisBloom(policy) => mover.move_box(policy),
            Policy::ValkeyBloom(policy) => mover.move_box(policy),
            Policy::Imported(policy) => mover.move_box(policy),
        }
        if self.layers.spilled() {
            // A vector that fills its block is turned into a small vector and back without a copy.
            let mut layers = std::mem::take(&mut self.layers).into_vec();
            mover.move_vec(&mut layers);
            self.layers = layers.into();
        }
        self.layers.iter_mut().for_each(|layer| layer.move_structs(mover));
        self.marks.iter_mut().for_each(|marks| mover.move_box(marks));
    }

    /// Moves the cells of one layer, 0 being the oldest.
    pub fn move_cells(&mut self, layer: usize, mover: &impl BlockMover) {
        if let Some(layer) = self.layers.get_mut(layer) {
            layer.cells_mut().relocate(|words| {
                // A slice in a box is a vector that fills its block: turning one into the other moves nothing.
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
        match self.cells().state() {
            CellState::Bits => {}
            CellState::Counters(state) => visit_box(&**state, visitor),
            CellState::Columns(state) => visit_box(&**state, visitor),
        }
        visitor.visit(self.cells().allocation());
    }

    fn move_structs(&mut self, mover: &impl BlockMover) {
        if let Some(block) = self.placement_mut().block_mut() {
            mover.move_box(block);
        }
        match self.cells_mut().state_mut() {
            CellState::Bits => {}
            CellState::Counters(state) => mover.move_box(state),
            CellState::Columns(state) => mover.move_box(state),
        }
    }
}

fn visit_box<T>(block: &T, visitor: &mut impl BlockVisitor) {
    visitor.visit(std::slice::from_ref(block));
}
