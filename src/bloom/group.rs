//! Sets of items of one group: an item is a bit of a word.

/// Items whose memory is asked for together; as many as the word has bits.
pub(super) const GROUP_ITEMS: usize = 32;

/// The items whose bit is set in `set`, with their index. Steps from one set bit to the next: whether an item is in a set
/// is hard to foresee, and a branch on it would be mispredicted.
pub(super) fn members<D: Copy>(digests: &[D], mut set: u32) -> impl Iterator<Item = (u32, D)> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros();
        let digest = digests.get(index as usize)?;
        set &= set.wrapping_sub(1);
        Some((index, *digest))
    })
}

/// One bit per item of `wanted` for which `is_member` holds.
pub(super) fn subset<D: Copy>(digests: &[D], wanted: u32, is_member: impl Fn(D) -> bool) -> u32 {
    members(digests, wanted).fold(0, |set, (index, digest)| set | u32::from(is_member(digest)) << index)
}

/// The set of all of them.
pub(super) fn all(items: usize) -> u32 {
    let absent = GROUP_ITEMS.saturating_sub(items);
    u32::try_from(absent).ok().and_then(|absent| u32::MAX.checked_shr(absent)).unwrap_or(0)
}
