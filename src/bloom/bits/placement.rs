//! The hash and the layout of a layer's items.

use super::layout::{Modulo, Paged, Prime, Scattered, SchemeLayout};
use crate::bloom::hash::Hash;

/// The positions of an item's probes in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// Positions anywhere: everbloom's own layers below 2 MiB.
    Scattered(Scattered),
    /// A few lines of one page: everbloom's own larger layers.
    Paged(Paged),
    /// RedisBloom's.
    Modulo(Modulo),
    /// valkey-bloom's.
    Prime(Prime),
    /// A client's.
    Scheme(SchemeLayout),
}

/// A [`Layout`] by reference: copying those of other modules takes as long as a probe.
#[derive(Clone, Copy, Debug)]
pub(in crate::bloom) enum LayoutRef<'p> {
    Scattered(Scattered),
    Paged(Paged),
    Modulo(&'p Modulo),
    Prime(&'p Prime),
    Scheme(&'p SchemeLayout),
}

impl Layout {
    /// Returns the number of probes per item.
    #[must_use]
    pub fn probes(&self) -> u32 {
        match self {
            Self::Scattered(layout) => layout.probes(),
            Self::Paged(layout) => layout.probes(),
            Self::Modulo(layout) => layout.probes(),
            Self::Prime(layout) => layout.probes(),
            Self::Scheme(layout) => layout.parameters().probes,
        }
    }

    /// Returns the largest number of lines of 64 bytes that the probes of an item touch.
    #[must_use]
    pub fn lines(&self) -> u32 {
        match self {
            Self::Paged(layout) => layout.lines().into(),
            _ => self.probes(),
        }
    }
}

/// The hash and the layout of a layer.
///
/// Those of most layers, everbloom's own hash and layouts, are stored in place. Any other pair is in a box, so that
/// layers stay small.
#[derive(Clone, Debug)]
pub struct Placement(Pair);

#[derive(Clone, Debug)]
enum Pair {
    Scattered(Scattered),
    Paged(Paged),
    Other(Box<(Hash, Layout)>),
}

impl Placement {
    /// Returns the placement of a hash and a layout.
    #[must_use]
    pub fn new(hash: Hash, layout: Layout) -> Self {
        Self(match (hash, layout) {
            (Hash::Murmur3, Layout::Scattered(layout)) => Pair::Scattered(layout),
            (Hash::Murmur3, Layout::Paged(layout)) => Pair::Paged(layout),
            pair => Pair::Other(Box::new(pair)),
        })
    }

    /// Returns the hash.
    #[must_use]
    #[inline(always)]
    pub fn hash(&self) -> &Hash {
        match &self.0 {
            Pair::Scattered(_) | Pair::Paged(_) => &Hash::Murmur3,
            Pair::Other(pair) => &pair.0,
        }
    }

    /// Returns the layout.
    #[must_use]
    #[inline(always)]
    pub fn layout(&self) -> Layout {
        match &self.0 {
            Pair::Scattered(layout) => Layout::Scattered(*layout),
            Pair::Paged(layout) => Layout::Paged(*layout),
            Pair::Other(pair) => pair.1,
        }
    }

    /// Returns the layout for probing.
    #[inline(always)]
    pub(in crate::bloom) fn probing(&self) -> LayoutRef<'_> {
        match &self.0 {
            Pair::Scattered(layout) => LayoutRef::Scattered(*layout),
            Pair::Paged(layout) => LayoutRef::Paged(*layout),
            Pair::Other(pair) => match &pair.1 {
                Layout::Scattered(layout) => LayoutRef::Scattered(*layout),
                Layout::Paged(layout) => LayoutRef::Paged(*layout),
                Layout::Modulo(layout) => LayoutRef::Modulo(layout),
                Layout::Prime(layout) => LayoutRef::Prime(layout),
                Layout::Scheme(layout) => LayoutRef::Scheme(layout),
            },
        }
    }

    /// Returns the block of the allocator, if any.
    pub(in crate::bloom) fn block(&self) -> Option<&(Hash, Layout)> {
        match &self.0 {
            Pair::Other(pair) => Some(pair),
            Pair::Scattered(_) | Pair::Paged(_) => None,
        }
    }

    /// Returns the mutable box, if any, for relocation.
    pub(in crate::bloom) fn block_mut(&mut self) -> Option<&mut Box<(Hash, Layout)>> {
        match &mut self.0 {
            Pair::Other(pair) => Some(pair),
            Pair::Scattered(_) | Pair::Paged(_) => None,
        }
    }
}

impl PartialEq for Placement {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash() && self.layout() == other.layout()
    }
}
