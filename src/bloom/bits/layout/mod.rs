//! The layouts of layers: where the probes of an item are. Every layout is part of the format: add, never edit.
//!
//! The engine reads a *line* at once: the probes of an item that are in one line of 64 bytes. In most layouts that is
//! one probe, at any position of the layer. In a paged layout a line has several probes, and all lines of an item are
//! in one *page*.

pub mod modulo;
mod paged;
mod prime;
mod scheme;

pub use modulo::{LayerParameters, Modulo};
pub(in crate::bloom) use paged::with_per_line;
pub use paged::{LINE_BITS, LINE_PROBES_MAX, LINES_MAX, PAGE_BITS, PAGE_LINES, PAGE_WORDS, Paged};
pub use prime::{Modulus, Prime};
pub use scheme::SchemeLayout;

use crate::bloom::hash::murmur3::{GOLDEN, multiply_high};
use crate::bloom::hash::{Hash, ItemHash};

/// The layout of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout<M = Modulo, P = Prime, S = SchemeLayout> {
    /// Positions anywhere: everbloom's own layers below 2 MiB.
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
pub(in crate::bloom) type LayoutRef<'l> = Layout<&'l Modulo, &'l Prime, &'l SchemeLayout>;

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
    pub(in crate::bloom) fn probing(&self) -> LayoutRef<'_> {
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
    pub(in crate::bloom) fn block(&self) -> Option<&(Hash, Layout)> {
        if let Pair::Other(pair) = &self.0 { Some(pair) } else { None }
    }

    /// Returns the mutable box, for relocation; `None` if the pair is stored in place.
    pub(in crate::bloom) fn block_mut(&mut self) -> Option<&mut Box<(Hash, Layout)>> {
        if let Pair::Other(pair) = &mut self.0 { Some(pair) } else { None }
    }
}

impl PartialEq for Placement {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash() && self.layout() == other.layout()
    }
}

/// A layout as the engine uses it: computes the lines of an item from the digest of its hash.
pub trait Probing<D>: Copy {
    /// The probes of an item in one line.
    type Line: Line;

    /// Lines that an insert reads before its first branch. They suffice to recognize most new items: in a full layer,
    /// at least one of three positions is clear in seven of eight cases.
    const LINES_BEFORE_BRANCH: usize = 3;

    /// Lines of each layer that a lookup in several layers reads before it branches. In a full layer, three positions
    /// of an absent item are all set in one of eight cases.
    const CHAIN_LINES: u32 = 3;

    /// Returns the words with all probes of the item: its page, or all words of the layer.
    #[inline(always)]
    fn page(self, _digest: D, words: &[u64]) -> &[u64] {
        words
    }

    /// Returns the mutable words with all probes of the item.
    #[inline(always)]
    fn page_mut(self, _digest: D, words: &mut [u64]) -> &mut [u64] {
        words
    }

    /// Returns the first `count` lines of the item in a layer of `positions` positions, in order. `count` is at most
    /// [`line_count`](Self::line_count).
    fn first_lines(self, digest: D, positions: u64, count: u32) -> impl Iterator<Item = Self::Line> + Clone;

    /// Returns the number of lines of an item.
    fn line_count(self) -> u32;

    /// Returns the lines of the item in a layer of `positions` positions, in order.
    #[inline(always)]
    fn lines_of(self, digest: D, positions: u64) -> impl Iterator<Item = Self::Line> + Clone {
        self.first_lines(digest, positions, self.line_count())
    }
}

/// The probes of an item in one line, which are read at once.
pub trait Line: Copy {
    /// Returns in the lowest bit whether all probes of the line are set. The other bits have no meaning.
    fn look(self, page: &[u64]) -> u64;

    /// Sets the probes of the line. Returns how many of them were clear.
    fn set(self, page: &mut [u64]) -> u32;

    /// Returns a word in the memory of the line, to prefetch it.
    fn word(self, page: &[u64]) -> Option<&u64>;
}

/// The only probe of an item in its line, at any position of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub u64);

impl Position {
    /// Returns the index of the word with the bit. A position beyond the address space gives an index beyond every
    /// array.
    #[inline(always)]
    fn index(self) -> usize {
        usize::try_from(self.0 / 64).unwrap_or(usize::MAX)
    }
}

impl Line for Position {
    #[inline(always)]
    fn look(self, words: &[u64]) -> u64 {
        if let Some(word) = words.get(self.index()) { word >> (self.0 % 64) } else { 0 }
    }

    #[inline(always)]
    fn set(self, words: &mut [u64]) -> u32 {
        if let Some(word) = words.get_mut(self.index()) { set_bit(word, self.0 % 64) } else { 0 }
    }

    #[inline(always)]
    fn word(self, words: &[u64]) -> Option<&u64> {
        words.get(self.index())
    }
}

/// Sets a bit. Returns 1 if it was clear, else 0.
#[inline(always)]
fn set_bit(word: &mut u64, bit: u64) -> u32 {
    let is_clear = (!*word >> bit & 1) as u32;
    *word |= 1 << bit;
    is_clear
}

/// The first positions of an item, which `next` computes one after another.
#[derive(Clone)]
struct Positions<F> {
    left: u32,
    next: F,
}

// This is a named type so that the compiler inlines a step of the loop.
impl<F: FnMut() -> u64> Iterator for Positions<F> {
    type Item = Position;

    #[inline(always)]
    fn next(&mut self) -> Option<Position> {
        self.left = self.left.checked_sub(1)?;
        Some(Position((self.next)()))
    }
}

/// The layout of everbloom's own layers below 2 MiB; docs/formats.md specifies it. Position i of an item is the high
/// half of `x * G^i * positions`, with `x = h1 ^ rotl(h2, 29) ^ G`.
///
/// The positions are a chain of multiplications. Double hashing has only about positions^2 different probe sets, and so
/// exceeds the promised error rate on small filters (Dillinger and Manolios, "Bloom Filters in Probabilistic
/// Verification", 2004).
///
/// `PROBES` is the number of probes if it is a constant, which saves an eighth of the instructions; otherwise 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scattered<const PROBES: u32 = 0> {
    probes: u8,
}

impl Scattered {
    /// Returns the layout of `probes` probes per item.
    #[must_use]
    pub const fn new(probes: u8) -> Self {
        Self { probes }
    }

    /// Returns the same layout with its number of probes as the constant `PROBES`.
    #[inline(always)]
    pub(in crate::bloom) const fn with<const PROBES: u32>(self) -> Scattered<PROBES> {
        Scattered { probes: self.probes }
    }
}

impl<const PROBES: u32> Scattered<PROBES> {
    /// Returns the number of probes per item.
    #[must_use]
    #[inline(always)]
    pub const fn probes(self) -> u32 {
        if PROBES > 0 { PROBES } else { self.probes as u32 }
    }
}

impl<const PROBES: u32> Probing<ItemHash> for Scattered<PROBES> {
    type Line = Position;

    /// Each position is uniform over all positions, whose number need not be a power of two.
    #[inline(always)]
    fn first_lines(
        self,
        item: ItemHash,
        positions: u64,
        left: u32,
    ) -> impl Iterator<Item = Position> + Clone {
        // The hash of the empty item is 0, which multiplication does not mix. Without the last term its positions would
        // all be 0, and it would be a false positive in about half of all full filters.
        let mut word = item.h1 ^ item.h2.rotate_left(29) ^ GOLDEN;
        let next = move || {
            let position = multiply_high(word, positions);
            word = word.wrapping_mul(GOLDEN);
            position
        };
        Positions { left, next }
    }

    #[inline(always)]
    fn line_count(self) -> u32 {
        self.probes()
    }
}
