//! The parts of a filter.

use crate::bloom::bits::Layer;
use crate::bloom::hash::Hash;
use crate::bloom::memory::{BlockMover, BlockVisitor, Memory, OutOfMemory};
use crate::bloom::table::Table;

/// The layers and the table of a filter. What most filters have is stored in place.
#[derive(Debug)]
pub enum Body {
    /// One layer.
    Layer(Layer),
    /// A table whose items are hashed by MurmurHash3.
    Table(Table),
    /// Everything else.
    Parts(Parts),
}

/// Any number of layers, and perhaps a table.
#[derive(Debug, Default)]
pub struct Parts {
    /// The layers, oldest first.
    pub(super) layers: Vec<Layer>,
    /// The table. It takes all new items.
    pub(super) table: Option<Box<HashedTable>>,
}

/// A table, and the hash of its items.
#[derive(Debug)]
pub(super) struct HashedTable {
    pub(super) table: Table,
    pub(super) hash: Hash,
}

impl Default for Body {
    fn default() -> Self {
        Self::Parts(Parts::default())
    }
}

impl Body {
    /// Returns the body with these parts.
    pub(super) fn of(mut layers: Vec<Layer>, table: Option<HashedTable>) -> Self {
        if layers.len() == 1
            && table.is_none()
            && let Some(layer) = layers.pop()
        {
            return Self::Layer(layer);
        }
        match table {
            Some(HashedTable { table, hash: Hash::Murmur3 }) if layers.is_empty() => Self::Table(table),
            table => Self::Parts(Parts { layers, table: table.map(Box::new) }),
        }
    }

    /// Returns the layers, oldest first.
    #[inline(always)]
    pub(super) fn layers(&self) -> &[Layer] {
        match self {
            Self::Layer(layer) => std::slice::from_ref(layer),
            Self::Table(_) => &[],
            Self::Parts(parts) => &parts.layers,
        }
    }

    /// Returns the mutable layers, oldest first.
    #[inline(always)]
    pub(super) fn layers_mut(&mut self) -> &mut [Layer] {
        match self {
            Self::Layer(layer) => std::slice::from_mut(layer),
            Self::Table(_) => &mut [],
            Self::Parts(parts) => &mut parts.layers,
        }
    }

    /// Returns the table and the hash of its items.
    #[inline(always)]
    pub(super) fn table(&self) -> Option<(&Table, &Hash)> {
        match self {
            Self::Layer(_) => None,
            Self::Table(table) => Some((table, &Hash::Murmur3)),
            Self::Parts(parts) => parts.table.as_ref().map(|hashed| (&hashed.table, &hashed.hash)),
        }
    }

    /// Returns the mutable table and the hash of its items.
    #[inline(always)]
    pub(super) fn hashed_table_mut(&mut self) -> Option<(&mut Table, &Hash)> {
        match self {
            Self::Layer(_) => None,
            Self::Table(table) => Some((table, &Hash::Murmur3)),
            Self::Parts(parts) => parts.table.as_mut().map(|hashed| (&mut hashed.table, &hashed.hash)),
        }
    }

    /// Returns the mutable table.
    #[inline(always)]
    pub(super) fn table_mut(&mut self) -> Option<&mut Table> {
        self.hashed_table_mut().map(|(table, _)| table)
    }

    /// Takes the parts out; the body has none then.
    pub(super) fn take(&mut self) -> (Vec<Layer>, Option<HashedTable>) {
        match std::mem::take(self) {
            Self::Layer(layer) => (vec![layer], None),
            Self::Table(table) => (Vec::new(), Some(HashedTable { table, hash: Hash::Murmur3 })),
            Self::Parts(Parts { layers, table }) => (layers, table.map(|hashed| *hashed)),
        }
    }

    /// Makes room for more layers. Exactly as many: a growing vector would hold four layers for the two that most
    /// chains have.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    pub(super) fn try_reserve_layers(&mut self, more: usize) -> Result<(), OutOfMemory> {
        let Self::Parts(parts) = self else { return Ok(()) };
        parts.layers.try_reserve_exact(more).map_err(|_| OutOfMemory)
    }

    /// Appends a layer.
    pub(super) fn push_layer(&mut self, layer: Layer) {
        match self {
            Self::Parts(parts) if !parts.layers.is_empty() => parts.layers.push(layer),
            _ => {
                let (mut layers, table) = self.take();
                layers.reserve_exact(1);
                layers.push(layer);
                *self = Self::of(layers, table);
            }
        }
    }

    /// Sets the table.
    pub(super) fn set_table(&mut self, table: HashedTable) {
        let (layers, _) = self.take();
        *self = Self::of(layers, Some(table));
    }

    /// Removes the table.
    #[cold]
    pub(super) fn remove_table(&mut self) {
        let (layers, _) = self.take();
        *self = Self::of(layers, None);
    }

    /// Makes a copy with its own memory.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut layers = Vec::new();
        layers.try_reserve_exact(self.layers().len()).map_err(|_| OutOfMemory)?;
        for layer in self.layers() {
            layers.push(layer.try_clone(memory)?);
        }
        let table = match self.table() {
            Some((table, hash)) => Some(HashedTable { table: table.try_clone()?, hash: *hash }),
            None => None,
        };
        Ok(Self::of(layers, table))
    }

    /// Visits the blocks of the allocator. O(layers, segments).
    pub(super) fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        if let Self::Parts(parts) = self {
            visitor.visit(&parts.layers);
            parts.table.iter().for_each(|table| visitor.visit(std::slice::from_ref(&**table)));
        }
        for layer in self.layers() {
            if let Some(block) = layer.placement().block() {
                visitor.visit(std::slice::from_ref(block));
            }
            visitor.visit(layer.bits().allocation());
        }
        if let Some((table, _)) = self.table() {
            table.visit_blocks(visitor);
        }
    }

    /// Moves the blocks of the allocator, except those of bits and segments.
    pub(super) fn move_structs(&mut self, mover: &impl BlockMover) {
        if let Self::Parts(parts) = self {
            mover.move_vec(&mut parts.layers);
            parts.table.iter_mut().for_each(|table| mover.move_box(table));
        }
        for layer in self.layers_mut() {
            if let Some(block) = layer.placement_mut().block_mut() {
                mover.move_box(block);
            }
        }
        if let Some(table) = self.table_mut() {
            table.move_structs(mover);
        }
    }
}

impl Parts {
    /// Returns whether no part has an item.
    pub(super) fn are_empty(&self) -> bool {
        self.layers.iter().all(Layer::is_empty)
            && self.table.as_ref().is_none_or(|hashed| hashed.table.is_empty())
    }
}
