//! The hash of an item.

/// Two words of 64 bits, from which every layer with the same hash derives an item's probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemHash {
    /// First word.
    pub h1: u64,
    /// Second word.
    pub h2: u64,
}
