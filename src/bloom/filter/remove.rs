//! Deleting items from a counting filter.

use super::Filter;
use super::hashed::{GroupHashes, HashedGroup, PARTS_IN_CHAIN};
use crate::bloom::group::GROUP_ITEMS;
use crate::bloom::hash::{Digest, ItemHash};
use crate::bloom::memory::OutOfMemory;
use crate::bloom::prefetch::Prefetch;
use crate::bloom::table::EntryKind;

impl Filter {
    /// Deletes one occurrence of an item. Returns whether there was one. For an item that was not added this is true
    /// with the error rate of the filter, and then other items may be lost. Always false if items are not counted.
    /// O(1).
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    pub fn remove(&mut self, item: &[u8], prefetch: impl Prefetch) -> Result<bool, OutOfMemory> {
        let Some((table, hash)) = self.parts.table_mut() else { return Ok(false) };
        let Some(hash) = ItemHash::of(hash, item).filter(|_| table.kind() == EntryKind::Counted) else {
            return Ok(false);
        };
        let mut removed = Ok(false);
        table.remove_each(&[hash], prefetch, |result| {
            removed = result;
            true
        });
        if removed == Ok(true) {
            self.note_change();
        }
        removed
    }

    /// Does [`remove`](Self::remove) for each item, and passes the results to `reply` in order, until it returns false.
    /// O(items).
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
