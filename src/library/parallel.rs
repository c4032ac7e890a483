//! Adding on all cores: several threads hash the items, and then each thread adds the items of its pages.

use std::thread;

use super::{BloomFilter, NO_LIMIT, Processor};
use crate::bloom::bits::Partition;
use crate::bloom::{AddError, Added, Filter, ItemHash};

/// Items that are added in one call if a single thread adds all of them.
const GROUP_ITEMS: usize = 1024;

/// The result of adding many items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of items.
    pub items: u64,
    /// Items that were new.
    pub new_items: u64,
    /// Items that a full fixed filter refused.
    pub refused_items: u64,
}

impl Tally {
    /// Returns the sums of both tallies.
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
    /// Adds items in several parts, each on a thread of its own. All threads fill a filter of everbloom's own format
    /// with one layer of at least 2 MiB at the same time; one thread fills any other.
    ///
    /// The filter is the same as if one thread had [added](Self::add) all parts in their order: an item of such a
    /// filter lies in one page, and the items of a page are added in their order. Only in the call that fills the
    /// filter may the order differ.
    ///
    /// O(items * layers * probes / threads); takes 16 bytes of memory per item during the call.
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
    /// [`AddError::CannotGrow`] if the filter is full and cannot grow; some of the items are then in it. The items that
    /// a filter of fixed size refuses are counted and no error.
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
        let mut failure = None;
        filter.add_many(&group, &NO_LIMIT, Processor, |outcome| {
            failure = count(&mut tally, outcome).err();
            failure.is_none()
        });
        if let Some(error) = failure {
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
        Err(AddError::Full | AddError::TooOften | AddError::NotEncodable(_)) => tally.refused_items += 1,
        Err(error @ AddError::CannotGrow(_)) => return Err(error),
    }
    Ok(())
}

fn add_on_threads<'i, P>(filter: &mut Filter, partition: Partition, parts: Vec<P>) -> Result<Tally, AddError>
where
    P: IntoIterator<Item = &'i [u8]> + Send,
{
    let hashing = &*filter;
    // For each part: its items by the thread that owns their pages.
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

/// Runs `work` for each input on a separate thread, and for the last input on this one.
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
