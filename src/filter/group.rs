//! Sets of the items of a group: each item is a bit of a word.

/// A set of items of one group. The lowest bit is the first item.
pub type ItemSet = u64;

/// Largest number of items of a group.
pub const GROUP_ITEMS: usize = ItemSet::BITS as usize;

/// Returns the items whose bit is set in `set`, with their index. Goes from one set bit to the next: whether an item
/// is in a set is hard to predict, so a branch per item would be mispredicted.
pub(super) fn members<D: Copy>(digests: &[D], mut set: ItemSet) -> impl Iterator<Item = (u32, D)> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros();
        let digest = digests.get(index as usize)?;
        set &= set.wrapping_sub(1);
        Some((index, *digest))
    })
}

/// Returns the items of `wanted` for which `is_member` holds.
#[inline(always)]
pub(super) fn subset<D: Copy>(digests: &[D], wanted: ItemSet, is_member: impl Fn(D) -> bool) -> ItemSet {
    members(digests, wanted).fold(0, |set, (index, digest)| set | ItemSet::from(is_member(digest)) << index)
}

/// Returns the same set as [`subset`], but tests all items if at least half of them are wanted.
pub(super) fn dense_subset<D: Copy>(
    digests: &[D],
    wanted: ItemSet,
    is_member: impl Fn(D) -> bool,
) -> ItemSet {
    if wanted.count_ones() as usize * 2 < digests.len() {
        return subset(digests, wanted, is_member);
    }
    let all = digests.iter().rev().fold(0, |set, digest| set << 1 | ItemSet::from(is_member(*digest)));
    all & wanted
}

/// Returns the set of the first `items` items.
pub(super) fn all(items: usize) -> ItemSet {
    let absent = GROUP_ITEMS.saturating_sub(items);
    u32::try_from(absent).ok().and_then(|absent| ItemSet::MAX.checked_shr(absent)).unwrap_or(0)
}

/// Returns the set of the items from `index` on.
pub(super) fn from(index: usize) -> ItemSet {
    !all(index)
}

/// Returns the index of the first item of a set, or an index beyond all items if the set is empty.
pub(super) fn first_of(set: ItemSet) -> usize {
    set.trailing_zeros() as usize
}

/// Removes the first `items` items from the set and returns them.
pub(super) fn take_first(set: &mut ItemSet, items: usize) -> ItemSet {
    let before = *set;
    for _ in 0..items {
        *set &= set.wrapping_sub(1);
    }
    before & !*set
}

/// Processes the `wanted` items in steps until `act` returns false. `ask` prefetches a step before `act` processes the
/// step before it.
#[inline(always)]
pub(super) fn in_steps<T>(
    target: &mut T,
    wanted: ItemSet,
    items_per_step: usize,
    ask: impl Fn(&mut T, ItemSet),
    mut act: impl FnMut(&mut T, ItemSet) -> bool,
) {
    let (mut rest, mut asked) = (wanted, 0);
    loop {
        let step = take_first(&mut rest, items_per_step);
        ask(target, step);
        if asked != 0 && !act(target, asked) {
            return;
        }
        if step == 0 {
            return;
        }
        asked = step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_a_set_are_returned_in_order() {
        let mut set = 0b1011_0100 | 1 << (GROUP_ITEMS - 1);
        assert_eq!((take_first(&mut set, 3), set), (0b11_0100, 1 << 7 | 1 << (GROUP_ITEMS - 1)));
        assert_eq!((take_first(&mut set, 9), set), (1 << 7 | 1 << (GROUP_ITEMS - 1), 0));
        assert_eq!((take_first(&mut set, 9), set), (0, 0));
    }

    #[test]
    fn a_group_of_any_size_has_a_bit_for_each_item() {
        for items in 0..=GROUP_ITEMS {
            assert_eq!(all(items).count_ones() as usize, items);
            assert_eq!(all(items).trailing_ones() as usize, items);
        }
    }
}
