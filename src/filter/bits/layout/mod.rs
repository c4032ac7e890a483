//! The layouts of layers: where the probes of an item are. Every layout is part of the format: add, never edit.
//!
//! The engine reads a *line* at once: the probes of an item that are in one line of 64 bytes. In most layouts that is
//! one probe, at any position of the layer. In a paged layout a line has several probes, and all lines of an item are
//! in one *page*.

pub mod modulo;
mod paged;
mod prime;
pub mod probing;
mod scattered;
mod scheme;

pub use modulo::{LayerParameters, Modulo};
pub(crate) use paged::with_per_line;
pub use paged::{LINE_BITS, LINE_PROBES_MAX, LINES_MAX, PAGE_BITS, PAGE_LINES, PAGE_WORDS, Paged};
pub use prime::Prime;
pub use probing::{Line, Probing, Words, WordsMut};
pub use scattered::Scattered;
pub use scheme::SchemeLayout;

use crate::hash::Hash;

/// The layout of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout<M = Modulo, P = Prime, S = SchemeLayout> {
    /// Positions anywhere: everbloom's own small layers.
    Scattered(Scattered),
    /// A few lines of one page: everbloom's own larger layers.
    Paged(Paged),
    /// RedisBloom's layout.
    Modulo(M),
    /// valkey-bloom's layout.
    Prime(P),
    /// The layout of a client's scheme.
    Scheme(S),
}

/// A [`Layout`] that refers to the layouts of other modules and clients: copying one of them takes as long as a probe.
pub(crate) type LayoutRef<'l> = Layout<&'l Modulo, &'l Prime, &'l SchemeLayout>;

impl Layout {
    /// Returns the number of probes per item.
    #[must_use]
    #[inline(always)]
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
    #[inline(always)]
    pub fn lines(&self) -> u32 {
        match self {
            Self::Paged(layout) => layout.lines().into(),
            _ => self.probes(),
        }
    }
}

/// The hash and the layout of a layer.
///
/// MurmurHash3 with one of everbloom's own layouts, the pair of most layers, is stored in place. Any other pair is in a
/// box, so that layers stay small.
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

    #[inline(always)]
    pub(crate) fn probing(&self) -> LayoutRef<'_> {
        let layout = match &self.0 {
            Pair::Scattered(layout) => return Layout::Scattered(*layout),
            Pair::Paged(layout) => return Layout::Paged(*layout),
            Pair::Other(pair) => &pair.1,
        };
        match layout {
            Layout::Scattered(layout) => Layout::Scattered(*layout),
            Layout::Paged(layout) => Layout::Paged(*layout),
            Layout::Modulo(layout) => Layout::Modulo(layout),
            Layout::Prime(layout) => Layout::Prime(layout),
            Layout::Scheme(layout) => Layout::Scheme(layout),
        }
    }

    /// Returns the content of the box, a block of the allocator; `None` if the pair is stored in place.
    pub(crate) fn block(&self) -> Option<&(Hash, Layout)> {
        if let Pair::Other(pair) = &self.0 { Some(pair) } else { None }
    }

    /// Returns the mutable box, for relocation; `None` if the pair is stored in place.
    pub(crate) fn block_mut(&mut self) -> Option<&mut Box<(Hash, Layout)>> {
        if let Pair::Other(pair) = &mut self.0 { Some(pair) } else { None }
    }
}

impl PartialEq for Placement {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash() && self.layout() == other.layout()
    }
}
