//! Partitions: one filter for users, which is several filters on all nodes of a cluster. The hash of an item chooses
//! its partition, and the number in the key of a partition chooses its slot. docs/clusters.md has both rules, which
//! every client follows.

use std::collections::BTreeSet;
use std::mem;

use super::failure::Failure;
use super::options::items;
use super::packing::{BATCH_BYTES, BatchTime, ItemBatch};
use super::server::{SLOTS, slot_of};

/// The largest number of partitions. It is the largest number of nodes that Redis recommends, rounded up.
const PARTITIONS_MAX: u32 = 1024;

/// Returns the key of the partition with this number.
pub(crate) fn key(name: &str, number: u32) -> String {
    format!("{name}:{{{number}}}")
}

/// Returns the index of each of `count` partitions and the number in its key, in the order of the numbers. The number
/// of partition i is the smallest whose slot is in the i-th of `count` equal ranges of the slots.
///
/// The numbers 0, 1, 2, ... would leave nodes without a partition: CRC-16 is linear, so their slots are not spread like
/// random ones.
fn numbered(count: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut found = BTreeSet::new();
    let index =
        move |number: u32| u32::from(slot_of(number.to_string().as_bytes())) * count / u32::from(SLOTS);
    let first = move |number| Some((index(number), number)).filter(|(index, _)| found.insert(*index));
    (0..).filter_map(first).take(count as usize)
}

/// Returns the numbers in the keys of `count` partitions, in the order of the partitions.
pub(crate) fn numbers(count: u32) -> Vec<u32> {
    let mut numbered: Vec<_> = numbered(count).collect();
    numbered.sort_unstable();
    numbered.into_iter().map(|(_, number)| number).collect()
}

/// Returns true if these are the numbers of at least two partitions and none is missing.
pub(crate) fn are_all(numbers: &BTreeSet<u32>) -> bool {
    let count = u32::try_from(numbers.len()).ok().filter(|count| (2..=PARTITIONS_MAX).contains(count));
    count.is_some_and(|count| numbered(count).all(|(_, number)| numbers.contains(&number)))
}

/// Returns the number of partitions of an existing filter: the largest number for which `has` is true for all numbers
/// of the keys. Returns 0 if there is none.
pub(crate) fn existing(mut has: impl FnMut(u32) -> Result<bool, Failure>) -> Result<u32, Failure> {
    for count in (1..=PARTITIONS_MAX).rev() {
        let mut is_there = true;
        for (_, number) in numbered(count) {
            is_there = has(number)?;
            if !is_there {
                break;
            }
        }
        if is_there {
            return Ok(count);
        }
    }
    Ok(0)
}

/// Returns the keys of all partitions in order.
///
/// # Errors
/// The name contains a brace. The slot would then depend on the name and not on the number of the partition.
pub(crate) fn keys(name: &str, count: u32) -> Result<Vec<Vec<u8>>, Failure> {
    if name.contains('{') {
        return Err(Failure::usage(
            "the key contains a brace, so all partitions would be in one slot: use a key without {",
        ));
    }
    Ok(numbers(count).into_iter().map(|number| key(name, number).into_bytes()).collect())
}

/// Returns the name and the number of a partition from its key; `None` if the key is not that of a partition.
pub(crate) fn of_key(key: &str) -> Option<(&str, u32)> {
    let (name, number) = key.strip_suffix('}')?.rsplit_once(":{")?;
    let parsed: u32 = number.parse().ok()?;
    // `07` and `+7` parse as numbers, but the key of a partition never contains them.
    (parsed.to_string() == number && !name.contains('{')).then_some((name, parsed))
}

/// Returns the partition of an item.
#[inline]
fn partition_of(item: &[u8], count: usize) -> usize {
    crc32fast::hash(item) as usize % count.max(1)
}

/// Returns the capacity of each partition, at least 1. It is the share of the items plus four standard deviations,
/// `share + 4 sqrt(share)`, rounded up, so that no partition grows.
pub(crate) fn capacity_items(all_items: u64, count: u32) -> u64 {
    let (items, count) = (u128::from(all_items), u128::from(count.max(1)));
    // 4 sqrt(items / count) is sqrt(16 items count) / count.
    let square = 16 * items * count;
    let root = square.isqrt();
    let root = if root * root == square { root } else { root + 1 };
    u64::try_from((items + root).div_ceil(count)).unwrap_or(u64::MAX).max(1)
}

/// Parses a number of partitions.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    let number = items(text).ok().and_then(|number| number.try_into().ok());
    let number = number.filter(|number| *number <= PARTITIONS_MAX);
    number.ok_or_else(|| format!("a number of partitions is between 1 and {PARTITIONS_MAX}"))
}

/// Approximate bytes of the batches of all partitions together.
const KEPT_BYTES: usize = 32 << 20;

/// Distributes items to a batch for each partition.
pub(crate) struct Spreader<'k> {
    /// The keys of the partitions.
    keys: &'k [Vec<u8>],
    batches: Vec<ItemBatch>,
    batch_bytes: usize,
    /// The time of the items in the batches, that of the life that ends last. All of them have the same generations.
    time: Option<BatchTime>,
}

impl<'k> Spreader<'k> {
    /// Returns a spreader whose batches have about [`BATCH_BYTES`], or fewer if there are many partitions.
    pub(crate) fn new(keys: &'k [Vec<u8>]) -> Self {
        let batches = keys.iter().map(|_| ItemBatch::prefixed(0, None)).collect();
        Self { keys, batches, batch_bytes: BATCH_BYTES.min(KEPT_BYTES / keys.len().max(1)), time: None }
    }

    /// Distributes the items of a batch to their partitions. Calls `emit` with the key and the batch of each partition
    /// that has enough bytes. If the items are of another generation than those before, emits all batches first.
    pub(crate) fn spread(
        &mut self,
        batch: &ItemBatch,
        mut emit: impl FnMut(&[u8], ItemBatch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.time.map(|time| time.generations) != batch.time.map(|time| time.generations) {
            self.flush(&mut emit)?;
            self.time = batch.time;
        }
        self.time = self.time.zip(batch.time).map(|(ours, theirs)| ours.last_to_end(theirs));
        for item in batch.iter() {
            let number = partition_of(item, self.keys.len());
            let Some((key, theirs)) = self.keys.get(number).zip(self.batches.get_mut(number)) else {
                continue;
            };
            theirs.push(item)?;
            if theirs.data.len() >= self.batch_bytes {
                let next = ItemBatch::prefixed(theirs.data.len(), None);
                emit(key, ItemBatch { time: self.time, ..mem::replace(theirs, next) })?;
            }
        }
        Ok(())
    }

    /// Calls `emit` with the key and the batch of each partition that has items.
    pub(crate) fn flush(
        &mut self,
        mut emit: impl FnMut(&[u8], ItemBatch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (key, batch) in self.keys.iter().zip(&mut self.batches).filter(|(_, batch)| batch.items > 0) {
            let full = mem::replace(batch, ItemBatch::prefixed(0, None));
            emit(key, ItemBatch { time: self.time, ..full })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_the_partition_of_the_rule() {
        // CRC-32 of zlib: its check value.
        assert_eq!(partition_of(b"123456789", u32::MAX as usize), 0xCBF4_3926);
        assert_eq!(partition_of(b"123456789", 24), 0xCBF4_3926 % 24);
        assert_eq!(partition_of(b"", 24), 0);
        assert_eq!(key("seen", 17), "seen:{17}");
        assert_eq!(of_key("a:b:{17}"), Some(("a:b", 17)));
        for other in [
            "seen",
            "seen:{}",
            "seen:{07}",
            "seen:{+7}",
            "seen:{4294967296}",
            "seen{7}",
            "{a}:{7}",
            "seen:{7}x",
        ] {
            assert_eq!(of_key(other), None, "{other}");
        }
    }

    /// Returns the first slot of each of `nodes` nodes and the number of slots, as `redis-cli --cluster create`
    /// divides the slots.
    fn first_slots(nodes: u16) -> Vec<u16> {
        // As redis-cli shares them out: the nearest slot to each border.
        let (slots, nodes) = (u32::from(SLOTS), u32::from(nodes));
        let first = |node: u32| u16::try_from((2 * slots * node + nodes) / (2 * nodes)).unwrap();
        (0..=nodes).map(first).collect()
    }

    #[test]
    fn partitions_are_spread_evenly_over_nodes() {
        for count in 2..=256u32 {
            let slots: Vec<u16> =
                numbers(count).iter().map(|number| slot_of(number.to_string().as_bytes())).collect();
            assert_eq!(slots.len(), count as usize);
            assert!(slots.is_sorted());
            for nodes in 2..=32u16 {
                let bounds = first_slots(nodes);
                let on_node =
                    |range: &[u16]| slots.iter().filter(|slot| (range[0]..range[1]).contains(slot)).count();
                let spread: Vec<usize> = bounds.windows(2).map(on_node).collect();
                let mean = count.div_ceil(nodes.into()) as usize;
                assert!(spread.iter().all(|parts| *parts <= mean + 1), "{count} on {nodes}: {spread:?}");
                // Every whole n-th that a node serves has a partition.
                let whole = (count / u32::from(nodes)).saturating_sub(1) as usize;
                assert!(spread.iter().all(|parts| *parts >= whole), "{count} on {nodes}: {spread:?}");
            }
        }
        // The examples of docs/clusters.md.
        for (count, nodes, each) in [(24, 2, 12), (24, 3, 8), (24, 4, 6), (24, 6, 4), (24, 8, 3), (64, 16, 4)]
        {
            let slots: Vec<u16> =
                numbers(count).iter().map(|number| slot_of(number.to_string().as_bytes())).collect();
            for range in first_slots(nodes).windows(2) {
                assert_eq!(slots.iter().filter(|slot| (range[0]..range[1]).contains(slot)).count(), each);
            }
        }
    }

    #[test]
    fn the_page_has_the_numbers_of_the_rule() {
        let page = include_str!("../../docs/clusters.md");
        for count in [24, 64] {
            let numbers: Vec<String> = numbers(count).iter().map(u32::to_string).collect();
            let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&format!("| {count} | {} |", numbers.join(", "))), "{count}: {numbers:?}");
        }
        assert_eq!(numbers(1), [0]);
    }

    #[test]
    fn the_number_of_existing_partitions_is_found_with_few_lookups() {
        for count in [0, 1, 2, 12, 24, 25, 64, 100, 256, 1000, PARTITIONS_MAX] {
            let keys: BTreeSet<u32> = numbers(count).into_iter().collect();
            let mut asked = BTreeSet::new();
            let found = existing(|number| {
                asked.insert(number);
                Ok(keys.contains(&number))
            });
            assert!(matches!(found, Ok(found) if found == count), "{count}");
            assert!(asked.len() <= count as usize + 80, "{count}: {}", asked.len());
        }
        assert!(existing(|_| Err(Failure::interrupted())).is_err());
    }

    #[test]
    fn the_capacity_of_a_partition_is_its_share_and_four_deviations() {
        // The first value is the example of docs/clusters.md. The others are whole square roots and the limits.
        assert_eq!(capacity_items(2_000_000, 24), 84_489);
        assert_eq!(capacity_items(100, 1), 140);
        assert_eq!(capacity_items(400, 4), 140);
        assert_eq!(capacity_items(0, 24), 1);
        assert_eq!(capacity_items(1, 24), 1);
        assert_eq!(capacity_items(u64::MAX, 1), u64::MAX);
        for (items, count) in [(1_000_000u64, 24), (7, 3), (12_345_678, 64), (99, 100)] {
            let share = items as f64 / f64::from(count);
            let expected = (share + 4.0 * share.sqrt()).ceil();
            assert_eq!(capacity_items(items, count) as f64, expected, "{items} {count}");
        }
    }

    #[test]
    fn batches_of_partitions_have_the_time_of_the_life_that_ends_last() {
        let batch = |at_ms, life_ms| {
            let time = BatchTime { generations: (7, 8), at_ms, life_ms: Some(life_ms) };
            let mut batch = ItemBatch::prefixed(0, Some(time));
            batch.push(b"item").unwrap();
            batch
        };
        let keys = keys("k", 2).unwrap();
        let mut spreader = Spreader::new(&keys);
        for batch in [batch(1000, 10), batch(900, 200), batch(1050, 40)] {
            spreader.spread(&batch, |_, _| unreachable!("the batch is small")).unwrap();
        }
        let mut emitted = Vec::new();
        let keep = |_: &[u8], batch: ItemBatch| {
            emitted.push((batch.items, batch.time.map(|time| (time.at_ms, time.life_ms))));
            Ok(())
        };
        spreader.flush(keep).unwrap();
        assert_eq!(emitted, [(3, Some((900, Some(200))))]);
    }

    #[test]
    fn numbers_of_partitions_have_a_range() {
        assert_eq!((count("1"), count("1024")), (Ok(1), Ok(1024)));
        assert!(["0", "1025", "-1", "many", ""].iter().all(|text| count(text).is_err()));
        assert!(keys("a{b}", 2).is_err());
    }
}
