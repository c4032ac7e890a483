//! Collecting the entries of a segment, block by block, and writing the segment.

use super::rewriter::Rewriter;
use crate::generation::Steps;
use crate::table::entry::EntryKind;
use crate::table::segment::{RewriteError, Segment};
use crate::table::size::SegmentShape;
use crate::table::source::{Address, EntrySource, Placed, Target};

impl Rewriter {
    /// Collects the entries of a segment, and returns the number of slots that they take. O(slots that are read).
    pub(crate) fn collect(
        &mut self,
        target: Target,
        sources: &[EntrySource<'_>],
    ) -> Result<usize, RewriteError> {
        self.gather_all(target, sources)?;
        if self.is_overfull(target) { Err(RewriteError::TooFull) } else { Ok(self.list.len()) }
    }

    /// Does [`collect`](Self::collect), but makes buckets saturated until the entries fit, unless they are counted.
    pub(crate) fn collect_saturating(
        &mut self,
        target: Target,
        sources: &[EntrySource<'_>],
    ) -> Result<usize, RewriteError> {
        let before = self.sums;
        self.gather_all(target, sources)?;
        if self.is_overfull(target) && self.list.has_copies() {
            self.sums = before;
            let copies_blocks = std::mem::take(&mut self.copies_blocks);
            self.gather_all(target, sources)?;
            self.copies_blocks = copies_blocks;
        }
        while self.is_overfull(target) {
            self.saturate_fullest_block(target.address_bits())?;
        }
        Ok(self.list.len())
    }

    /// Returns whether the collected entries take more slots than a segment has.
    fn is_overfull(&self, target: Target) -> bool {
        self.list.len() > SegmentShape::most_slots(target.blocks_log)
    }

    /// Does [`collect`](Self::collect), but the entries may take more slots than a segment has.
    pub(crate) fn gather_all(
        &mut self,
        target: Target,
        sources: &[EntrySource<'_>],
    ) -> Result<usize, RewriteError> {
        self.list.clear();
        let base = self.base(target, sources);
        // Timed entries of older segments may have expired.
        let whole = base.filter(|(_, base)| !self.kind.is_timed() || base.stamp == self.now);
        if let ([source], Some((_, segment)), None, Some(steps)) = (sources, base, whole, self.kind.steps()) {
            self.sift_blocks(steps, target, *source, segment)?;
        } else if let ([source], None) = (sources, base)
            && let Some(parent) = source.parent_segment(target)
        {
            self.divide_blocks(target, *source, parent)?;
        } else {
            self.spread_all(target, sources)?;
            for block in 0..1usize << target.blocks_log {
                self.write_block(target.address_of(block), block, sources, whole)?;
            }
        }
        Ok(self.list.len())
    }

    /// Returns the index of the source from which blocks can be copied, and its segment.
    fn base<'s>(&self, target: Target, sources: &[EntrySource<'s>]) -> Option<(usize, &'s Segment)> {
        let width = self.schedule.slot_width(self.kind, target.address_bits());
        let same =
            |(index, source): (usize, &EntrySource<'s>)| Some((index, source.same_segment(target, width)?));
        let largest = sources.iter().enumerate().filter_map(same).max_by_key(|(_, segment)| segment.used());
        largest.filter(|_| self.copies_blocks)
    }

    /// Writes one block to the list.
    fn write_block(
        &mut self,
        address: Address,
        block: usize,
        sources: &[EntrySource<'_>],
        base: Option<(usize, &Segment)>,
    ) -> Result<(), RewriteError> {
        self.gathered.clear();
        let mut is_settled = true;
        for (index, source) in sources.iter().enumerate() {
            if base.is_none_or(|(base, _)| base != index) {
                is_settled &= self.gather(address, block, index, *source)?;
            }
        }
        if let Some((index, segment)) = base {
            if self.gathered.is_empty() {
                let slots = segment.length(block);
                self.sums.has_others |= index > 0 && slots > 0;
                self.sums.read_entries += slots as u64;
                return Ok(self.list.copy_block(slots)?);
            }
            if let Some(source) = sources.get(index) {
                is_settled &= self.gather(address, block, index, *source)?;
            }
        }
        self.sums.read_entries += self.gathered.len() as u64;
        if is_settled {
            self.push_all(address.bits)?;
        } else {
            self.settle(address.bits)?;
        }
        Ok(self.list.end_block()?)
    }

    /// Writes the blocks of a segment of timed entries without those that have expired. This is the rule of
    /// [`write_block`](Self::write_block), in less time.
    fn sift_blocks(
        &mut self,
        steps: Steps,
        target: Target,
        source: EntrySource<'_>,
        segment: &Segment,
    ) -> Result<(), RewriteError> {
        self.spread.iter_mut().for_each(|spread| spread.is_used = false);
        for block in 0..segment.blocks() {
            let before = self.sums;
            self.list.try_reserve(segment.length(block))?;
            if !self.sift(steps, segment, block, target.address_bits())? {
                self.sums = before;
                self.list.clear_block();
                self.write_block(target.address_of(block), block, &[source], None)?;
            }
        }
        Ok(())
    }

    /// Writes the blocks of a segment whose only source has blocks with one address bit less. Each of those is read once
    /// for both blocks that it becomes. This is the rule of [`write_block`](Self::write_block), in less time if all entries
    /// of a block are settled.
    fn divide_blocks(
        &mut self,
        target: Target,
        source: EntrySource<'_>,
        parent: Placed<'_>,
    ) -> Result<(), RewriteError> {
        let Placed { segment, depth, .. } = parent;
        let lower_blocks = (1usize << target.blocks_log) / 2;
        self.list.try_reserve(segment.used())?;
        self.upper.clear();
        self.upper.try_reserve(segment.used())?;
        self.spread.iter_mut().for_each(|spread| spread.is_used = false);
        for block in 0..lower_blocks {
            let address = target.address_of(block);
            let from = (address.value >> depth) as usize & segment.block_mask();
            let (before, slots) = (self.sums, segment.length(from));
            // The blocks before may have taken more slots than they had.
            self.list.try_reserve(slots)?;
            self.upper.try_reserve(slots)?;
            if !self.divide(segment, from, address.bits) {
                self.sums = before;
                self.list.clear_block();
                self.upper.clear_block();
                if self.kind == EntryKind::Counted {
                    self.divide_counted(segment, from, address.bits)?;
                } else {
                    let upper = block + lower_blocks;
                    self.write_block(address, block, &[source], None)?;
                    std::mem::swap(&mut self.list, &mut self.upper);
                    let written = self.write_block(target.address_of(upper), upper, &[source], None);
                    std::mem::swap(&mut self.list, &mut self.upper);
                    written?;
                    continue;
                }
            }
            self.list.end_block()?;
            self.upper.end_block()?;
        }
        self.list.append(&self.upper)
    }

    /// Returns the segment of the `used` slots that were collected last, from the same sources, in the smallest shape. Fails
    /// if counted entries take too many slots for any shape. O(slots).
    pub(crate) fn write_smallest(
        &self,
        target: Target,
        sources: &[EntrySource<'_>],
        used: usize,
    ) -> Result<Segment, RewriteError> {
        let width = self.schedule.slot_width(self.kind, target.address_bits());
        self.write(target, sources, SegmentShape::for_slots(target.blocks_log, width, used))
    }

    /// Returns the segment of the entries that were collected last, from the same sources, in a shape with enough slots.
    /// Fails as [`write_smallest`](Self::write_smallest). O(slots).
    pub(crate) fn write(
        &self,
        target: Target,
        sources: &[EntrySource<'_>],
        shape: Option<SegmentShape>,
    ) -> Result<Segment, RewriteError> {
        let shape = shape.ok_or(RewriteError::TooFull)?;
        if self.list.len() == 0 {
            return Ok(Segment::blank(shape.blocks_log));
        }
        let base = self.base(target, sources).map(|(_, segment)| segment);
        self.list.write(shape, if self.kind.is_timed() { self.now } else { 0 }, base)
    }
}

#[cfg(test)]
mod tests {
    //! Every rewrite and every edit of every small segment, compared with a list of what its entries match.

    use std::collections::BTreeMap;

    use super::super::entries::{Rule, Run};
    use super::*;
    use crate::generation::{Generation, Steps};
    use crate::growth_budget::GrowthBudget;
    use crate::hash::ItemHash;
    use crate::outcome::Added;
    use crate::prefetch::NoPrefetch;
    use crate::table::Addition;
    use crate::table::directory::Directory;
    use crate::table::edit::LOST_BITS_MAX;
    use crate::table::entry::{Entry, RUN_MAX, remainder_bits, visit_entries};
    use crate::table::schedule::Schedule;
    use crate::table::segment::SlotList;
    use crate::table::state::Table;
    use crate::table::totals::{EntrySums, MatchAllCounts, TableCounts, Tally};
    use crate::words::low_bits;

    const SCHEDULE: Schedule = Schedule::FromOneBlock { base: 12, longer_from: 0 };
    const NOW: Generation = 200;
    const TIMED: [EntryKind; 2] = [EntryKind::Timed(Steps::Fourteen), EntryKind::Timed(Steps::Fine)];
    const KINDS: [EntryKind; 4] = [EntryKind::Plain, EntryKind::Counted, TIMED[0], TIMED[1]];
    /// The items of a bucket that are distinguished: those with different lowest bits of the hash.
    const KEYS: u64 = 16;

    /// An entry with its block and its bucket.
    type PlacedEntry = (usize, u8, Entry);

    /// Returns the entries that are combined: saturated, void, and with remainders of one and two bits.
    fn choices(kind: EntryKind, blocks: usize, buckets: u8) -> Vec<PlacedEntry> {
        let numbers: &[u64] = match kind {
            EntryKind::Plain => &[1],
            EntryKind::Counted => &[1, 2],
            // One has expired.
            EntryKind::Timed(Steps::Fourteen) => &[NOW - 15, NOW - 3],
            EntryKind::Timed(Steps::Fine) => &[NOW - 121, NOW - 3],
        };
        let mut choices = Vec::new();
        for (block, bucket) in (0..blocks).flat_map(|block| (0..buckets).map(move |bucket| (block, bucket))) {
            for (value, copies) in (0..8).map(|value| (value, 0)).chain([(1, 1)]) {
                let is_possible = if kind == EntryKind::Counted { value > 0 } else { copies == 0 };
                let entry = |number: &u64| (block, bucket, Entry { value, copies, number: *number });
                choices.extend(numbers.iter().filter(|_| is_possible).map(entry));
            }
        }
        choices
    }

    /// Of the largest choices, the quick form of a test takes every eighth, and the full form, as in `make exhaust`, each.
    fn stride() -> usize {
        if std::env::var("EVERBLOOM_TESTS").is_ok_and(|value| value == "full") { 1 } else { 8 }
    }

    /// Calls `check` with all sets of up to `most` entries that a segment can have; of those with four entries, with one
    /// per [`stride`]. Returns their number.
    fn for_each_set(
        kind: EntryKind,
        choices: &[PlacedEntry],
        most: usize,
        set: &mut Vec<PlacedEntry>,
        check: &mut impl FnMut(&[PlacedEntry]),
    ) -> u64 {
        check(set);
        let mut count = 1;
        let choices = if set.len() < most { choices } else { &[] };
        let stride = if set.len() < 3 { 1 } else { stride() };
        for (index, choice) in choices.iter().enumerate().skip(choices.len() % stride).step_by(stride) {
            let is_refused = |other: &PlacedEntry| {
                let is_same = (choice.0, choice.1) == (other.0, other.1);
                let is_alone = kind == EntryKind::Plain && (choice.2.value <= 1 || other.2.value <= 1);
                is_same && (is_alone || choice.2.value == other.2.value && choice.2.copies == other.2.copies)
            };
            if !set.iter().any(is_refused) {
                set.push(*choice);
                count += for_each_set(kind, &choices[index + 1..], most, set, check);
                set.pop();
            }
        }
        count
    }

    fn sets(kind: EntryKind, choices: &[PlacedEntry], most: usize) -> Vec<Vec<PlacedEntry>> {
        let mut sets = Vec::new();
        for_each_set(kind, choices, most, &mut Vec::new(), &mut |set| sets.push(set.to_vec()));
        sets
    }

    fn segment_of(kind: EntryKind, blocks_log: u32, entries: &[PlacedEntry]) -> Segment {
        stamped(kind, blocks_log, entries, if kind.is_timed() { NOW - 2 } else { 0 })
    }

    fn stamped(kind: EntryKind, blocks_log: u32, entries: &[PlacedEntry], stamp: Generation) -> Segment {
        let (mut list, width) = (SlotList::new(), SCHEDULE.slot_width(kind, blocks_log));
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|(block, bucket, _)| (*block, *bucket));
        for block in 0..1 << blocks_log {
            for (_, bucket, entry) in sorted.iter().filter(|one| one.0 == block) {
                let entry_bits = width - kind.generation_bits();
                list.try_reserve(kind.slots_max()).unwrap();
                entry.write(kind, entry_bits, |slot| list.push(*bucket, slot));
            }
            list.end_block().unwrap();
        }
        let shape = SegmentShape::for_slots(blocks_log, width, list.len()).unwrap();
        list.write(shape, stamp, None).unwrap()
    }

    fn entries_of(kind: EntryKind, segment: &Segment) -> Vec<PlacedEntry> {
        let mut entries = Vec::new();
        for block in 0..segment.blocks() {
            visit_entries(kind, segment, block, |bucket, entry| entries.push((block, bucket, entry)));
        }
        entries.sort_unstable();
        entries
    }

    /// Rewrites one-segment tables to a table of one segment. The sources are read as tables and as segments, which must
    /// give entries that match the same items, and the right sums.
    fn rewritten(kind: EntryKind, rule: Rule, sources: &[&Segment], blocks_log: u32) -> Vec<PlacedEntry> {
        let target = Target { number: 0, depth: 0, blocks_log };
        let directories = sources.iter().map(|segment| Directory::One(segment.try_clone().unwrap()));
        let directories: Vec<_> = directories.collect();
        let placed = sources.iter().map(|segment| [Placed { segment, number: 0, depth: 0 }]);
        let placed: Vec<_> = placed.collect();
        let tables: Vec<_> = directories.iter().map(EntrySource::Table).collect();
        let segments: Vec<_> = placed.iter().map(|placed| EntrySource::of_segments(placed)).collect();
        let [of_tables, of_segments] = [tables, segments].map(|sources| {
            let mut rewriter = Rewriter::new(kind, SCHEDULE, rule, if kind.is_timed() { NOW } else { 0 });
            let used = rewriter.collect(target, &sources).unwrap();
            let shape = SegmentShape::for_slots(blocks_log, SCHEDULE.slot_width(kind, blocks_log), used);
            let segment = rewriter.write(target, &sources, shape).unwrap();
            let before = sources_sums(kind, &directories);
            let after = EntrySums::of_segment(kind, blocks_log, &segment);
            assert_eq!(before.plus(rewriter.sums().change()), after, "{kind:?}, {rule:?}");
            entries_of(kind, &segment)
        });
        if kind == EntryKind::Counted {
            assert_eq!(of_tables, of_segments, "{rule:?}");
        } else {
            // A block that is copied keeps entries that a shorter one covers.
            let matched = [&of_tables, &of_segments].map(|entries| matched(kind, blocks_log, entries));
            assert_eq!(matched[0], matched[1], "{kind:?}, {rule:?}");
        }
        of_tables
    }

    fn sources_sums(kind: EntryKind, directories: &[Directory]) -> EntrySums {
        let sums = directories.iter().map(|directory| directory.get(0));
        sums.map(|segment| EntrySums::of_segment(kind, segment.blocks_log(), segment))
            .fold(EntrySums::default(), EntrySums::plus)
    }

    /// Returns the newest live number of the entries of each bucket that match each key, in blocks of 2^`blocks_log`.
    fn matched(kind: EntryKind, blocks_log: u32, entries: &[PlacedEntry]) -> BTreeMap<(u8, u64), u64> {
        let mut matched = BTreeMap::new();
        for (block, bucket, entry) in entries {
            let is_live = !kind.has_expired(entry.number, NOW);
            for key in (0..KEYS).filter(|key| is_live && *key & low_bits(blocks_log) == *block as u64) {
                if (key >> blocks_log ^ entry.value) & low_bits(remainder_bits(entry.value)) == 0 {
                    let number = matched.entry((*bucket, key)).or_insert(0);
                    *number = entry.number.max(*number);
                }
            }
        }
        matched
    }

    /// Returns what counted entries are in the halves of their bucket: each void entry is copied to both.
    fn halved(entries: &[PlacedEntry]) -> Vec<PlacedEntry> {
        let mut halved = Vec::new();
        for (_, bucket, entry) in entries {
            for block in 0..2u64 {
                if entry.value == 1 {
                    halved.push((block as usize, *bucket, Entry { copies: entry.copies + 1, ..*entry }));
                } else if entry.value & 1 == block {
                    halved.push((block as usize, *bucket, Entry { value: entry.value >> 1, ..*entry }));
                }
            }
        }
        halved.sort_unstable();
        halved
    }

    /// Returns what counted entries of two halves are in one bucket. Of the copies of a void entry the smaller count is
    /// left, and nothing if one is missing.
    fn joined(entries: &[PlacedEntry]) -> Vec<PlacedEntry> {
        let mut joined = Vec::new();
        for (block, bucket, entry) in entries {
            if entry.copies == 0 {
                let bits = remainder_bits(entry.value);
                let value = 2 << bits | (entry.value & low_bits(bits)) << 1 | *block as u64;
                joined.push((0, *bucket, Entry { value, ..*entry }));
            } else if *block == 0 {
                let is_copy = |other: &&PlacedEntry| {
                    (other.0, other.1, other.2.copies) == (1, *bucket, entry.copies) && other.2.value == 1
                };
                let other = entries.iter().find(is_copy).map(|other| other.2.number);
                let number = other.map(|other| other.min(entry.number));
                joined.extend(
                    number.map(|number| (0, *bucket, Entry { value: 1, copies: entry.copies - 1, number })),
                );
            }
        }
        joined.sort_unstable();
        joined
    }

    /// Returns counted entries of several tables, of which equal ones are counted together.
    fn summed(entries: &[PlacedEntry]) -> Vec<PlacedEntry> {
        let mut sums = BTreeMap::new();
        for (block, bucket, entry) in entries {
            *sums.entry((*block, *bucket, entry.value, entry.copies)).or_insert(0) += entry.number;
        }
        let entry =
            |((block, bucket, value, copies), number)| (block, bucket, Entry { value, copies, number });
        sums.into_iter().map(entry).collect()
    }

    #[test]
    fn every_small_segment_is_split_and_compacted() {
        for kind in KINDS {
            let mut check = |set: &[PlacedEntry]| {
                let segment = segment_of(kind, 0, set);
                let split = rewritten(kind, Rule::Keep, &[&segment], 1);
                let compacted = rewritten(kind, Rule::Keep, &[&segment], 0);
                if kind == EntryKind::Counted {
                    assert_eq!(split, halved(set), "{set:?}");
                    let mut sorted = set.to_vec();
                    sorted.sort_unstable();
                    assert_eq!(compacted, sorted);
                    // A join makes the same entries again.
                    let again = rewritten(kind, Rule::Keep, &[&segment_of(kind, 1, &split)], 0);
                    assert_eq!(again, sorted, "{set:?}");
                } else {
                    let expected = matched(kind, 0, set);
                    assert_eq!(matched(kind, 1, &split), expected, "{kind:?}, {set:?}");
                    assert_eq!(matched(kind, 0, &compacted), expected, "{kind:?}, {set:?}");
                    let has_expired = |one: &PlacedEntry| kind.has_expired(one.2.number, NOW);
                    assert!(!split.iter().chain(&compacted).any(has_expired), "{kind:?}, {set:?}");
                }
            };
            let count = for_each_set(kind, &choices(kind, 1, 3), 4, &mut Vec::new(), &mut check);
            assert!(count > 1_500, "{count}");
        }
    }

    /// The copies of counted void entries take more slots than the entries, and blocks without void entries follow.
    #[test]
    fn memory_is_reserved_for_blocks_after_void_entries() {
        let kind = EntryKind::Counted;
        let void = (0..10).map(|bucket| (0, bucket, Entry { value: 1, copies: 0, number: 1 }));
        let blocks = (1..4).flat_map(|block| (0..40).map(move |bucket| (block, bucket)));
        let longer = blocks.map(|(block, bucket)| (block, bucket, Entry { value: 4, copies: 0, number: 1 }));
        let set: Vec<_> = void.chain(longer).collect();
        let split = rewritten(kind, Rule::Keep, &[&segment_of(kind, 2, &set)], 3);
        assert_eq!(split.len(), 2 * 10 + 3 * 40);
    }

    fn table_of(kind: EntryKind, segment: Segment) -> Table {
        let mut table = Table::of_counts(kind, TableCounts::initial(SCHEDULE));
        let mut tally = Tally::default();
        tally.count(kind, &segment, NOW);
        let sums = EntrySums::of_segment(kind, segment.blocks_log(), &segment);
        let is_empty = segment.is_empty();
        table.directory =
            Directory::One(if is_empty { Segment::blank(segment.blocks_log()) } else { segment });
        table.add_sums(EntrySums { match_all_counts: MatchAllCounts::default(), ..sums });
        table.counts.advance(if kind.is_timed() { NOW } else { 0 });
        table.counts.recount(&tally);
        table
    }

    fn assert_sums(table: &Table) {
        let segment = table.directory.get(0);
        assert_eq!(table.sums(), EntrySums::of_segment(table.kind(), segment.blocks_log(), segment));
        assert_eq!(table.used_slots(), segment.counted_slots() as u64);
    }

    fn hash_of(bucket: u8, key: u64) -> ItemHash {
        ItemHash { h1: key, h2: u64::from(bucket) << 58 }
    }

    /// Returns the index of the longest entry that matches an item. Of void entries it is the one with fewest copies.
    fn longest(entries: &[PlacedEntry], bucket: u8, key: u64) -> Option<usize> {
        let matches = |(_, entry): &(usize, &PlacedEntry)| {
            let bits = remainder_bits(entry.2.value);
            entry.1 == bucket && (entry.2.value ^ key) & low_bits(bits) == 0
        };
        let matching = entries.iter().enumerate().filter(matches);
        let length =
            |(_, one): &(usize, &PlacedEntry)| (remainder_bits(one.2.value), std::cmp::Reverse(one.2.copies));
        matching.max_by_key(length).map(|(index, _)| index)
    }

    #[test]
    fn every_item_is_added_to_every_small_segment() {
        for kind in KINDS {
            for set in sets(kind, &choices(kind, 1, 2), 3) {
                let segment = segment_of(kind, 0, &set);
                for (bucket, key) in (0..2).flat_map(|bucket| (0..4).map(move |key| (bucket, key))) {
                    let mut table = table_of(kind, segment.try_clone().unwrap());
                    let (before, items) = (matched(kind, 0, &set), table.items(NOW));
                    let known = before.contains_key(&(bucket, key));
                    let added = table.add_at(hash_of(bucket, key), NOW);
                    assert_sums(&table);
                    let after = entries_of(kind, table.directory.get(0));
                    let mut expected = before;
                    match kind {
                        EntryKind::Plain => {
                            assert_eq!(added, if known { Added::Present } else { Added::New });
                            expected.insert((bucket, key), 1);
                            assert_eq!(matched(kind, 0, &after), expected, "{set:?}, {bucket}, {key}");
                        }
                        EntryKind::Timed(_) => {
                            assert_eq!(added, if known { Added::Again } else { Added::New });
                            expected.insert((bucket, key), NOW);
                            assert_eq!(matched(kind, 0, &after), expected, "{set:?}, {bucket}, {key}");
                            // An entry of the item itself gets the new generation.
                            assert_eq!(table.add_at(hash_of(bucket, key), NOW + 1), Added::Again);
                            let again = entries_of(kind, table.directory.get(0));
                            assert!(again.len() <= after.len(), "{set:?}, {bucket}, {key}");
                        }
                        EntryKind::Counted => {
                            assert_eq!(added, if known { Added::Again } else { Added::New });
                            let mut expected = set.clone();
                            let least = SCHEDULE.remainder_bits(EntryKind::Counted, 0) - LOST_BITS_MAX;
                            let counts = |index: &usize| remainder_bits(set[*index].2.value) >= least;
                            match longest(&set, bucket, key).filter(counts) {
                                Some(index) => expected[index].2.number += 1,
                                None => expected.push((
                                    0,
                                    bucket,
                                    Entry {
                                        value: 1 << SCHEDULE.remainder_bits(EntryKind::Counted, 0) | key,
                                        copies: 0,
                                        number: 1,
                                    },
                                )),
                            }
                            expected.sort_unstable();
                            assert_eq!(after, expected, "{set:?}, {bucket}, {key}");
                            assert_eq!(table.items(0), items + 1);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_item_is_removed_from_every_small_segment() {
        let kind = EntryKind::Counted;
        for set in sets(kind, &choices(kind, 1, 2), 3) {
            for (bucket, key) in (0..2).flat_map(|bucket| (0..4).map(move |key| (bucket, key))) {
                let mut table = table_of(kind, segment_of(kind, 0, &set));
                let items = table.items(0);
                let mut replies = Vec::new();
                table.remove_each(&[hash_of(bucket, key)], NoPrefetch, |reply| {
                    replies.push(reply);
                    true
                });
                let mut expected = set.clone();
                let found = longest(&set, bucket, key);
                if let Some(index) = found {
                    expected[index].2.number -= 1;
                    // The last item takes all that is left with it.
                    expected.retain(|one| one.2.number > 0 && items > 1);
                }
                expected.sort_unstable();
                assert_eq!(replies, [Ok(found.is_some())], "{set:?}, {bucket}, {key}");
                assert_eq!(entries_of(kind, table.directory.get(0)), expected, "{set:?}, {bucket}, {key}");
                assert_eq!(table.items(0), items.saturating_sub(found.is_some().into()));
                assert_sums(&table);
            }
        }
    }

    /// Segments that are full, or whose runs are in few blocks, are compacted with every residue of the stamp.
    #[test]
    fn full_segments_are_compacted() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let coarse = (300..316).flat_map(|stamp| [1, 2, 7, 14, 15, 16, 40].map(|later| (stamp, later)));
        let fine = (300..556)
            .step_by(15)
            .flat_map(|stamp| [1, 8, 119, 120, 121, 136, 400].map(|later| (stamp, later)));
        let coarse = coarse.map(|(stamp, later)| (Steps::Fourteen, stamp, later));
        let times = coarse.chain(fine.map(|(stamp, later)| (Steps::Fine, stamp, later)));
        for ((steps, stamp, later), blocks_log) in
            times.flat_map(|time| [0, 1, 3, 6].map(|blocks_log| (time, blocks_log)))
        {
            let kind = EntryKind::Timed(steps);
            let (now, blocks, target) =
                (stamp + later, 1u64 << blocks_log, Target { number: 0, depth: 0, blocks_log });
            let longest = 1 << SCHEDULE.remainder_bits(kind, blocks_log);
            let clustered = if random(2) == 0 { blocks } else { blocks.div_ceil(4) };
            let mut entries = Vec::new();
            for _ in 0..SegmentShape::most_slots(blocks_log) {
                let number = stamp + steps.ahead() + 1 - steps.codes() + random(steps.codes());
                let entry = Entry { value: longest + random(longest), copies: 0, number };
                entries.push((random(clustered) as usize, random(64) as u8, entry));
            }
            let segment = stamped(kind, blocks_log, &entries, stamp);
            let directory = Directory::One(segment.try_clone().unwrap());
            let source = [EntrySource::Table(&directory)];
            let mut rewriter = Rewriter::new(kind, SCHEDULE, Rule::Keep, now);
            let used = rewriter.collect(target, &source).unwrap();
            let shape = SegmentShape::for_slots(blocks_log, segment.width(), used);
            let compacted = rewriter.write(target, &source, shape).unwrap();
            let after = EntrySums::of_segment(kind, blocks_log, &compacted);
            assert_eq!(sources_sums(kind, &[directory]).plus(rewriter.sums().change()), after);
            let is_live = |one: &PlacedEntry| !kind.has_expired(one.2.number, now);
            let expected: Vec<_> = entries_of(kind, &segment).into_iter().filter(is_live).collect();
            assert_eq!(entries_of(kind, &compacted), expected, "{steps:?}, {blocks_log}, {stamp}, {later}");
            assert_eq!((used, compacted.counted_slots()), (expected.len(), expected.len()));
        }
    }

    /// An add with a life of its own is of an older generation than the add itself. Every later lookup finds what is live
    /// then: also a lookup of what was added lately, which is one at a later time.
    #[test]
    fn every_item_gets_every_life_in_every_small_segment() {
        for kind in TIMED {
            let steps = kind.steps().unwrap();
            for set in sets(kind, &choices(kind, 1, 1), 2) {
                let segment = segment_of(kind, 0, &set);
                for (key, back) in (0..4).flat_map(|key| [0, 1, 3, 4, steps.count()].map(|back| (key, back)))
                {
                    let mut table = table_of(kind, segment.try_clone().unwrap());
                    let (mut expected, now) = (matched(kind, 0, &set), NOW + 1);
                    let addition = Addition {
                        hash: hash_of(0, key),
                        generation: now - back,
                        now,
                        only_absent: false,
                        most_items: u64::MAX,
                    };
                    let room = GrowthBudget::new(&u64::MAX);
                    let added = table.add(addition, &room, NoPrefetch).unwrap();
                    assert_sums(&table);
                    let newest = if added == Added::Present { NOW } else { now };
                    assert_eq!(table.newest(), newest, "{set:?}, {key}, {back}");
                    let number = expected.entry((0, key)).or_insert(0);
                    *number = (now - back).max(*number);
                    let after = entries_of(kind, table.directory.get(0));
                    for key in 0..4 {
                        let of_key = expected.get(&(0, key)).copied();
                        assert_eq!(
                            matched(kind, 0, &after).get(&(0, key)).copied(),
                            of_key,
                            "{set:?}, {key}, {back}"
                        );
                        for later in [0, 1, steps.count() - 4, steps.count() - 1, steps.count(), steps.live()]
                        {
                            let is_live = of_key.is_some_and(|number| steps.is_live(number, now + later));
                            assert_eq!(table.contains(hash_of(0, key), now + later, NoPrefetch), is_live);
                        }
                        let newest = table.newest_of(hash_of(0, key));
                        assert_eq!(newest.filter(|newest| steps.is_live(*newest, NOW)), of_key);
                    }
                }
            }
        }
    }

    #[test]
    fn every_two_small_segments_are_joined_and_united() {
        for kind in KINDS {
            for set in sets(kind, &choices(kind, 2, 1), 4) {
                let united = rewritten(kind, Rule::Keep, &[&segment_of(kind, 1, &set)], 0);
                if kind == EntryKind::Counted {
                    assert_eq!(united, joined(&set), "{set:?}");
                } else {
                    assert_eq!(matched(kind, 0, &united), matched(kind, 1, &set), "{kind:?}, {set:?}");
                }
            }
            // The second table has one block, or two.
            let one_block = sets(kind, &choices(kind, 1, 2), 2);
            for (blocks_log, others) in [(0, one_block.clone()), (1, sets(kind, &choices(kind, 2, 1), 2))] {
                for (number, set) in one_block.iter().enumerate() {
                    let segment = segment_of(kind, 0, set);
                    for other in others.iter().skip(number % stride()).step_by(stride()) {
                        let sources = [&segment, &segment_of(kind, blocks_log, other)];
                        let united = rewritten(kind, Rule::Sum, &sources, blocks_log);
                        if kind == EntryKind::Counted {
                            let set = if blocks_log == 0 { set.clone() } else { halved(set) };
                            assert_eq!(united, summed(&[set, other.clone()].concat()), "{other:?}");
                        } else {
                            let mut expected = matched(kind, 0, set);
                            for (key, number) in matched(kind, blocks_log, other) {
                                let known = expected.entry(key).or_insert(0);
                                *known = number.max(*known);
                            }
                            assert_eq!(
                                matched(kind, blocks_log, &united),
                                expected,
                                "{kind:?}, {set:?}, {other:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// A bucket that adds fill is rewritten without memory of the heap.
    #[test]
    fn the_entries_of_a_bucket_are_not_on_the_heap() {
        assert!(Run::new().inline_size() > RUN_MAX);
    }
}
