//! Adds items as RedisBloom does: one after another, with a check before every add. Replaces src/bloom/add.rs in the
//! baseline.

use super::filter::Filter;
use super::items::Items;
use super::outcome::{Added, ByteLimit};
use super::prefetch::{NoPrefetch, Prefetch};
use super::run::Run;

impl Filter {
    /// Adds the items one by one.
    pub fn add_items(
        &mut self,
        items: &mut dyn Items<'_>,
        limit: &dyn ByteLimit,
        _: impl Prefetch,
        reply: &mut dyn FnMut(Run) -> bool,
    ) {
        loop {
            let group = items.next_few();
            if group.is_empty() {
                return;
            }
            let mut run = Run::default();
            for item in group {
                let is_in = self.contains(item, NoPrefetch);
                let added = if is_in { Ok(Added::Present) } else { self.add(item, limit, NoPrefetch) };
                if !run.push(added, false, reply) {
                    return;
                }
            }
            if run.items > 0 && !reply(run) {
                return;
            }
        }
    }
}
