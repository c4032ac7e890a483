//! What an array knows of itself beside its bits, in one word.

/// Words in front of an array that has a head.
const HEAD_WORDS: usize = 6;
/// Bytes that fit in front of an array that has a head.
pub const HEAD_BYTES: usize = HEAD_WORDS * 8;

/// The number of set bits, and in the lowest bit whether there is a head: a word of its own would make every
/// filter larger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count(u64);

impl Count {
    /// Bits of a head.
    pub(super) const HEAD_BITS: u64 = HEAD_BYTES as u64 * 8;

    pub(super) fn of(set_bits: u64, has_head: bool) -> Self {
        Self(set_bits << 1 | u64::from(has_head))
    }

    pub(super) fn set_bits(self) -> u64 {
        self.0 >> 1
    }

    pub(super) fn has_head(self) -> bool {
        self.0 & 1 == 1
    }

    /// Words in front of the bits.
    pub(super) fn head_words(self) -> usize {
        if self.has_head() { HEAD_WORDS } else { 0 }
    }

    pub(super) fn add(&mut self, new_bits: u64) {
        self.0 += new_bits << 1;
    }

    /// The words behind the head. A branch that is always taken the same way costs less than an offset of
    /// zero would.
    #[inline(always)]
    pub(super) fn behind_head(self, words: &[u64]) -> &[u64] {
        if self.has_head() { words.get(HEAD_WORDS..).unwrap_or(&[]) } else { words }
    }

    /// As [`behind_head`](Self::behind_head), to be changed.
    #[inline(always)]
    pub(super) fn behind_head_mut(self, words: &mut [u64]) -> &mut [u64] {
        if self.has_head() { words.get_mut(HEAD_WORDS..).unwrap_or(&mut []) } else { words }
    }
}
