//! Adding on all cores: items are hashed on several threads, and each thread then adds what falls to its pages.

use std::thread;

use super::{BloomFilter, NO_LIMIT, Processor};
use crate::bloom::partition::Partition;
use crate::bloom::{AddError, Added, Filter, ItemHash};

/// Items that are added in one call where one thread adds all of them.
const GROUP_ITEMS: usize = 1024;

/// What adding many items came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Items that were given.
    pub items: u64,
    /// Those of them that were not there before.
    pub new_items: u64,
    /// Those of them that a full filter of fixed size refused.
    pub refused_items: u64,
}

impl Tally {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            items: self.items.saturating_add(other.items),
            new_items: self.new_items.saturating_add(other.new_items),
            refused_items: self.refused_items.saturating_add(other.refused_items),
        }
    }
}

impl BloomFilter {
    /// Adds items in several parts, each of which a thread of its own takes. A filter of everbloom's own format
    /// that has one layer, 2 MiB or larger, is filled by all threads at once; any other by one after another.
    ///
    /// The filter is the same as if one thread had [added](Self::add) all parts in their order, for an item of such a
    /// filter lies in one page and the items of a page are added in their order; only in the call in which the filter becomes full
    /// may others come first.
    ///
    /// O(items * layers * probes / threads); takes 16 bytes of memory per item meanwhile.
    ///
    /// ```
    /// use everbloom::{BloomFilter, Options};
    ///
    /// let mut filter = BloomFilter::new(Options { capacity_items: 3_000_000, ..Options::default() })?;
    /// let tally = filter.add_parts(vec![[&b"alice"[..], b"bob"], [b"alice", b"carol"]])?;
    /// assert_eq!((tally.items, tally.new_items, filter.items()), (4, 3, 3));
    /// assert!(filter.contains(b"carol"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AddError::CannotGrow`] where the filter is full and cannot grow; some of the items are then in it. What
    /// a filter of fixed size refuses is no error but counted.
    pub fn add_parts<'i, P>(&mut self, parts: Vec<P>) -> Result<Tally, AddError>
    where
        P: IntoIterator<Item = &'i [u8]> + Send,
    {
        if parts.len() > 1
            && let Some(partition) = self.0.partition(parts.len())
        {
            return add_on_threads(&mut self.0, partition, parts);
        }
        add_in_turn(&mut self.0, parts.into_iter().flatten())
    }
}

fn add_in_turn<'i>(filter: &mut Filter, items: impl Iterator<Item = &'i [u8]>) -> Result<Tally, AddError> {
    let mut tally = Tally::default();
    let mut items = items.peekable();
    let mut group = Vec::with_capacity(GROUP_ITEMS);
    while items.peek().is_some() {
        group.clear();
        group.extend(items.by_ref().take(GROUP_ITEMS));
        let mut trouble = None;
        filter.add_many(&group, &NO_LIMIT, Processor, |outcome| {
            trouble = count(&mut tally, outcome).err();
            trouble.is_none()
        });
        if let Some(error) = trouble {
            return Err(error);
        }
    }
    Ok(tally)
}

fn count(tally: &mut Tally, outcome: Result<Added, AddError>) -> Result<(), AddError> {
    tally.items += 1;
    match outcome {
        Ok(Added::New) => tally.new_items += 1,
        Ok(Added::Again | Added::Present) => {}
        Err(AddError::Full | AddError::NotEncodable(_)) => tally.refused_items += 1,
        Err(error @ AddError::CannotGrow(_)) => return Err(error),
    }
    Ok(())
}

fn add_on_threads<'i, P>(filter: &mut Filter, partition: Partition, parts: Vec<P>) -> Result<Tally, AddError>
where
    P: IntoIterator<Item = &'i [u8]> + Send,
{
    let hashing = &*filter;
    // Of each part of the items, those by the part of the pages that has them.
    let hashed: Vec<Vec<Vec<ItemHash>>> = on_threads(parts, |items| {
        let mut by_pages = vec![Vec::new(); partition.parts()];
        for hash in items.into_iter().filter_map(|item| hashing.item_hash(item)) {
            if let Some(hashes) = by_pages.get_mut(partition.part_of(hash)) {
                hashes.push(hash);
            }
        }
        by_pages
    });
    let items = hashed.iter().flatten().fold(0u64, |sum, items| sum.saturating_add(items.len() as u64));
    if items > filter.room_items() {
        let mut tally = Tally::default();
        for item in hashed.iter().flatten().flatten() {
            count(&mut tally, filter.add_item_hash(*item, &NO_LIMIT, Processor))?;
        }
        return Ok(tally);
    }
    let added = filter.add_in_parts(partition, |pages| {
        let numbered = pages.iter_mut().enumerate().collect();
        on_threads(numbered, |(number, pages)| {
            for items in hashed.iter().filter_map(|by_pages| by_pages.get(number)) {
                pages.add_many(items, Processor);
            }
        });
    });
    Ok(Tally { items, new_items: added.items, refused_items: 0 })
}

/// Does the work for each input on a thread of its own, the last on this one.
fn on_threads<I: Send, O: Send>(mut inputs: Vec<I>, work: impl Fn(I) -> O + Sync) -> Vec<O> {
    let last = inputs.pop();
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = inputs.into_iter().map(|input| scope.spawn(move || work(input))).collect();
        let last = last.map(work);
        let mut outputs: Vec<O> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        outputs.extend(last);
        outputs
    })
}
