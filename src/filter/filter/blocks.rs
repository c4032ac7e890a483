//! The blocks of the allocator that a filter owns: they are measured, and moved by defragmentation.

use super::Filter;
use super::parts::Parts;
use crate::Table;
use crate::memory::{BlockMover, BlockVisitor, Blocks};

impl Blocks for Filter {
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        self.policy.visit_block(visitor);
        if let Parts::Many { layers, table } = &self.parts {
            visitor.visit(layers);
            table.iter().for_each(|table| visitor.visit(std::slice::from_ref(&**table)));
        }
        for layer in self.layers() {
            if let Some(block) = layer.placement().block() {
                visitor.visit(std::slice::from_ref(block));
            }
            layer.bits().visit_blocks(visitor);
        }
        if let Some(table) = self.table() {
            table.visit_blocks(visitor);
        }
        // The origin is not a part of the filter.
    }

    fn move_structs(&mut self, mover: &impl BlockMover) {
        self.policy.move_block(mover);
        if let Parts::Many { layers, table } = &mut self.parts {
            mover.move_vec(layers);
            table.iter_mut().for_each(|table| mover.move_box(table));
        }
        for layer in self.layers_mut() {
            if let Some(block) = layer.placement_mut().block_mut() {
                mover.move_box(block);
            }
            layer.bits_mut().move_struct(mover);
        }
        if let Some(table) = self.table_mut() {
            table.move_structs(mover);
        }
        self.origin.iter_mut().for_each(|origin| mover.move_box(origin));
    }

    fn block_count(&self) -> usize {
        self.layer_count().saturating_add(self.table().map_or(0, Table::segment_count))
    }

    fn move_block(&mut self, number: usize, mover: &impl BlockMover) {
        let segment = number.checked_sub(self.layer_count());
        if let Some(layer) = self.layers_mut().get_mut(number) {
            layer.bits_mut().move_words(mover);
        } else if let (Some(segment), Some(table)) = (segment, self.table_mut()) {
            table.move_segment(segment, mover);
        }
    }
}
