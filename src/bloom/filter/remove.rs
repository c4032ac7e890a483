//! Deleting items from a counting filter.

use super::Filter;
use super::hashed::{GroupHashes, HashedGroup, PARTS_IN_CHAIN};
use crate::bloom::group::GROUP_ITEMS;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::prefetch::Prefetch;
use crate::bloom::table::EntryKind;

impl Filter {
    /// Deletes one occurrence of each item. Passes to `reply` in order whether there was one, until it returns false.
    /// For an item that was not added this is true with the error rate of the filter, and then other items may be
    /// lost. Always false if items are not counted. O(items).
    ///
    /// The result of an item is [`OutOfMemory`] if memory for it cannot be allocated; its deletion has changed nothing.
    pub fn remove_many(
        &mut self,
        items: &[&[u8]],
        prefetch: impl Prefetch,
        mut reply: impl FnMut(Result<bool, OutOfMemory>) -> bool,
    ) {
        let mut digests = GroupHashes::default();
        for items in items.chunks(GROUP_ITEMS) {
            let mut group = HashedGroup::new(items, &mut digests, true, PARTS_IN_CHAIN);
            let (mut is_changed, mut goes_on) = (false, true);
            let mut note = |removed| {
                is_changed |= removed == Ok(true);
                goes_on = reply(removed);
                goes_on
            };
            match self.parts.table_mut() {
                Some((table, hash)) if table.kind() == EntryKind::Counted => {
                    table.remove_each(group.pairs(hash), prefetch, note);
                }
                _ => {
                    items.iter().all(|_| note(Ok(false)));
                }
            }
            if is_changed {
                self.note_change();
            }
            if !goes_on {
                return;
            }
        }
    }
}
