//! What the engine asks of a layout: the lines of an item.

/// The words of a layer, in one block of memory or in two of whole pages.
#[derive(Clone, Copy, Debug)]
pub struct Words<'w> {
    /// The words of the first block.
    pub first: &'w [u64],
    /// The words of the second block, if there is one. Only paged layers have two.
    pub rest: &'w [u64],
}

impl Words<'_> {
    /// Returns the number of bits of a layer in one block.
    #[inline(always)]
    pub(crate) const fn positions(self) -> u64 {
        (self.first.len() as u64).wrapping_mul(64)
    }
}

/// The mutable words of a layer.
#[derive(Debug)]
pub struct WordsMut<'w> {
    /// The words of the first block.
    pub first: &'w mut [u64],
    /// The words of the second block, if there is one.
    pub rest: &'w mut [u64],
}

impl WordsMut<'_> {
    /// Returns the words to be read.
    #[inline(always)]
    pub(crate) const fn as_words(&self) -> Words<'_> {
        Words { first: self.first, rest: self.rest }
    }

    /// Returns the words for a shorter time.
    #[inline(always)]
    pub(crate) const fn reborrow(&mut self) -> WordsMut<'_> {
        WordsMut { first: self.first, rest: self.rest }
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
    fn page<'w>(self, _digest: D, words: Words<'w>) -> &'w [u64] {
        words.first
    }

    /// Returns the mutable words with all probes of the item.
    #[inline(always)]
    fn page_mut<'w>(self, _digest: D, words: WordsMut<'w>) -> &'w mut [u64] {
        words.first
    }

    /// Returns the first `count` lines of the item in a layer of `positions` positions, in order. `count` is at most
    /// [`line_count`](Self::line_count). A layout with pages ignores `positions`.
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
pub(super) fn set_bit(word: &mut u64, bit: u64) -> u32 {
    let is_clear = (!*word >> bit & 1) as u32;
    *word |= 1 << bit;
    is_clear
}

/// The first positions of an item, which `next` computes one after another.
#[derive(Clone)]
pub(super) struct Positions<F> {
    pub(super) left: u32,
    pub(super) next: F,
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
