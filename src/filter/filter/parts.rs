//! The parts of a filter, and their blocks of the allocator.

use crate::bits::Layer;
use crate::hash::Hash;
use crate::memory::{Memory, OutOfMemory};
use crate::table::Table;

/// The layers of a filter, oldest first, and its table, which takes all new items. A single layer or a table alone, as
/// in most filters, is stored in place.
#[derive(Debug)]
pub(super) enum Parts {
    /// One layer.
    Layer(Layer),
    /// A table whose items are hashed by MurmurHash3.
    Table(Table),
    /// Any other parts. The table is stored with the hash of its items.
    Many { layers: Vec<Layer>, table: Option<Box<(Table, Hash)>> },
}

impl Default for Parts {
    fn default() -> Self {
        Self::Many { layers: Vec::new(), table: None }
    }
}

impl Parts {
    /// Returns the parts of a filter with these layers and this table.
    pub(super) fn of(mut layers: Vec<Layer>, table: Option<(Table, Hash)>) -> Self {
        if layers.len() == 1
            && table.is_none()
            && let Some(layer) = layers.pop()
        {
            return Self::Layer(layer);
        }
        match table {
            Some((table, Hash::Murmur3)) if layers.is_empty() => Self::Table(table),
            table => Self::Many { layers, table: table.map(Box::new) },
        }
    }

    /// Returns the layers, oldest first.
    #[inline(always)]
    pub(super) fn layers(&self) -> &[Layer] {
        match self {
            Self::Layer(layer) => std::slice::from_ref(layer),
            Self::Table(_) => &[],
            Self::Many { layers, .. } => layers,
        }
    }

    /// Returns the mutable layers, oldest first.
    #[inline(always)]
    pub(super) fn layers_mut(&mut self) -> &mut [Layer] {
        match self {
            Self::Layer(layer) => std::slice::from_mut(layer),
            Self::Table(_) => &mut [],
            Self::Many { layers, .. } => layers,
        }
    }

    #[inline(always)]
    pub(super) fn table(&self) -> Option<(&Table, &Hash)> {
        match self {
            Self::Layer(_) => None,
            Self::Table(table) => Some((table, &Hash::Murmur3)),
            Self::Many { table, .. } => table.as_ref().map(|hashed| (&hashed.0, &hashed.1)),
        }
    }

    /// Returns the mutable table and the hash of its items.
    #[inline(always)]
    pub(super) fn table_mut(&mut self) -> Option<(&mut Table, &Hash)> {
        match self {
            Self::Layer(_) => None,
            Self::Table(table) => Some((table, &Hash::Murmur3)),
            Self::Many { table, .. } => table.as_mut().map(|hashed| (&mut hashed.0, &hashed.1)),
        }
    }

    /// Takes all parts out.
    pub(super) fn take(&mut self) -> (Vec<Layer>, Option<(Table, Hash)>) {
        match std::mem::take(self) {
            Self::Layer(layer) => (vec![layer], None),
            Self::Table(table) => (Vec::new(), Some((table, Hash::Murmur3))),
            Self::Many { layers, table } => (layers, table.map(|hashed| *hashed)),
        }
    }

    /// Appends a layer. Makes room for exactly one more: a growing vector would hold four layers for the two that most
    /// chains have.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    pub(super) fn try_push_layer(&mut self, layer: Layer) -> Result<(), OutOfMemory> {
        match self {
            Self::Many { layers, .. } if !layers.is_empty() => {
                layers.try_reserve_exact(1).map_err(|_| OutOfMemory)?;
                layers.push(layer);
            }
            _ => {
                let (mut layers, table) = self.take();
                layers.reserve_exact(1);
                layers.push(layer);
                *self = Self::of(layers, table);
            }
        }
        Ok(())
    }

    /// Sets or removes the table.
    pub(super) fn set_table(&mut self, table: Option<(Table, Hash)>) {
        let (layers, _) = self.take();
        *self = Self::of(layers, table);
    }

    /// Makes a copy with its own memory.
    pub(super) fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut layers = Vec::new();
        layers.try_reserve_exact(self.layers().len()).map_err(|_| OutOfMemory)?;
        for layer in self.layers() {
            layers.push(layer.try_clone(memory)?);
        }
        let table = match self.table() {
            Some((table, hash)) => Some((table.try_clone()?, *hash)),
            None => None,
        };
        Ok(Self::of(layers, table))
    }
}
