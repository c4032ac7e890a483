//! The callbacks of the server on filters that are larger than what is stored of them, as only a forged header or a load
//! by chunks makes them: they cost what is stored.

use std::cell::Cell;

use everbloom::bloom::table::{DumpedSegment, EntryKind};
use everbloom::bloom::{BlockMover, Filter, UnknownMemory, Validation};
use everbloom::format::filter::{from_header, header};

use crate::fuzzed::fuzz::forge::{self, Filling, TableForm, full_segment};
use crate::support::make::{
    ANY, START_MS, add, contains, counting, keyed, plain, promise, set_time, unreserved, window,
};
use crate::support::saved::{assert_same, assert_survives, digested, loaded, rewritten_commands, saved};
use crate::support::work::{callback, defragment};

/// The logarithm of the number of segments in a forged header. A walk over all of them takes seconds.
const DEPTH: u32 = 22;

/// Returns filters of every kind of table whose headers say that they have 2^[`DEPTH`] segments, none of which is stored.
fn forged() -> impl Iterator<Item = (&'static str, Filter)> {
    let own = promise(0.01, 10, 2);
    let kinds = [
        ("plain", plain(unreserved(0.01, 100, 2))),
        ("keyed", keyed(unreserved(0.01, 100, 2))),
        ("counting", counting(own)),
        ("window", window(own, 14_000)),
    ];
    kinds.into_iter().map(|(name, filter)| {
        let mut header = header(&filter);
        let start = forge::table_start(&header).unwrap();
        header[start + 4] = 6;
        header[start + 16..][..8].copy_from_slice(&(1u64 << DEPTH).to_le_bytes());
        (name, from_header(&forge::header_chunk(&header, 1), &ANY).unwrap())
    })
}

/// Returns a segment of such a filter, with some entries.
fn segment(filter: &Filter, number: usize) -> DumpedSegment {
    let table = filter.table().unwrap();
    let form = TableForm::of_table(table);
    let stamp = if table.kind() == EntryKind::Timed { 20 } else { 0 };
    let (bytes, used) = full_segment(&form, DEPTH, 6, Filling::Lengths, 100, stamp);
    assert!(used > 50);
    let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    DumpedSegment { number, depth: DEPTH, blocks_log: 6, stamp, words }
}

/// Returns the numbers of the blocks that defragmentation visits from a number on.
fn blocks_from(filter: &Filter, first: usize) -> Vec<usize> {
    let next = |block: &usize| filter.next_block(block + 1);
    std::iter::successors(filter.next_block(first), next).collect()
}

#[test]
fn the_callbacks_of_a_forged_header_cost_its_bytes() {
    for (name, mut filter) in forged() {
        assert_eq!(filter.table().unwrap().segment_count(), 1 << DEPTH);
        assert_survives(&filter, name);
        defragment(&mut filter, name);
        assert_eq!((filter.block_count(), filter.next_block(0)), (0, None), "{name}");
    }
}

/// Some segments are stored, whose numbers and positions in a dump are in different orders.
#[test]
fn the_callbacks_visit_the_segments_that_are_stored() {
    for (name, mut filter) in forged() {
        let numbers = [0, 1, 2, 3, 5, 1 << 9, (1 << 9) + 1, 1 << 20, (1 << DEPTH) - 2, (1 << DEPTH) - 1];
        let parts = numbers.iter().rev().map(|number| segment(&filter, *number)).collect();
        filter.add_segments(parts, u64::MAX, &ANY).unwrap();
        assert_same(&loaded(&saved(&filter), ANY).unwrap(), &filter, name);
        assert!(rewritten_commands(&filter).len() > 1, "{name}");
        defragment(&mut filter, name);
        assert_eq!(blocks_from(&filter, 0), numbers, "{name}");
        let table = filter.table().unwrap();
        assert!(table.segments().map(|(number, ..)| number).eq(numbers), "{name}");
        // From any position on, the chunks of a dump have the segments that are left, and none twice.
        let mut positions: Vec<u64> =
            numbers.iter().map(|number| u64::from((*number as u32).reverse_bits())).collect();
        positions.sort_unstable();
        for (index, position) in positions.iter().enumerate() {
            for (from, first) in [(*position, index), (*position + 1, index), (*position + 1023, index)] {
                let segments = table.segments_from(from).unwrap().map(Result::unwrap);
                let ends: Vec<u64> = segments.map(|(_, end)| end).collect();
                let expected: Vec<u64> = positions[first..].iter().map(|position| position + 1024).collect();
                assert_eq!(ends, expected, "{name} from {from}");
            }
            let after = table.segments_from(position + 1024).unwrap().count();
            assert_eq!(after, positions.len() - index - 1, "{name} after {position}");
        }
    }
}

/// Moves nothing, and counts vectors.
#[derive(Default)]
struct Moves(Cell<usize>);

impl BlockMover for Moves {
    fn move_vec<T>(&self, _: &mut Vec<T>) {
        self.0.set(self.0.get() + 1);
    }

    fn move_box<T>(&self, _: &mut Box<T>) {}
}

/// Between two calls of the server, segments are loaded, and tables grow and shrink. The walk goes on after the last block,
/// passes over none that is there all the time, and ends.
#[test]
fn a_walk_goes_on_when_segments_come_and_go() {
    let (_, mut filter) = forged().next().unwrap();
    let load = |filter: &mut Filter, numbers: &[usize]| {
        let parts = numbers.iter().map(|number| segment(filter, *number)).collect();
        filter.add_segments(parts, u64::MAX, &ANY).unwrap();
    };
    load(&mut filter, &[10, 20, 30]);
    let first = filter.next_block(0).unwrap();
    load(&mut filter, &[5, 15, 25]);
    assert_eq!((first, blocks_from(&filter, first + 1)), (10, vec![15, 20, 25, 30]));

    let mut filter = counting(promise(0.01, 10, 2));
    let name = |item: u32| item.to_le_bytes();
    let mut most = 0;
    for (from, to) in [(0, 40_000), (40_000, 90_000)] {
        (from..to).for_each(|item| _ = add(&mut filter, &name(item)).unwrap());
        most = filter.block_count();
        let (mut next, mut visited, mut moves) = (filter.next_block(0), Vec::new(), Moves::default());
        while let Some(block) = next {
            filter.move_block(block, &moves);
            visited.push(block);
            // A few items between two steps, so that segments are split.
            (0..200).for_each(|item| {
                let item = to + 100_000 + 200 * block as u32 + item;
                add(&mut filter, &name(item)).unwrap();
            });
            next = filter.next_block(block + 1);
        }
        assert!(visited.len() >= most && visited.len() <= filter.block_count(), "{}", visited.len());
        assert!(visited.iter().copied().eq(0..visited.len()));
        assert_eq!(moves.0.get_mut(), &visited.len());
    }
    // The table is much smaller at the next step.
    let cursor = filter.block_count() - 1;
    let bytes = filter.size_bytes();
    filter = callback(bytes, "emptied", || filter.try_emptied(&ANY).unwrap(), |_| 0);
    assert_eq!((most > 4, filter.next_block(cursor)), (true, None));
    filter.move_block(cursor, &Moves::default());
}

/// A digest reads the bits that may be set. It is the same for the same bits, and another for others.
#[test]
fn the_digest_of_bits_says_where_they_are() {
    let mut filter = plain(promise(0.01, 5_000_000, 2));
    set_time(&mut filter, START_MS);
    let empty = digested(&filter);
    assert!(filter.size_bytes() > 4 << 20 && empty.len() < 1000, "{}", empty.len());
    let size_bytes = filter.layers()[0].bits().size_bytes() as usize;
    let with_byte = |offset: usize| {
        let mut filter = filter.try_clone(UnknownMemory).unwrap();
        assert!(filter.add_bytes(0, offset, &[1]));
        assert_eq!(filter.internal_validate(Validation::Contents), Ok(()));
        digested(&filter)
    };
    let digests = [0, 1, 1 << 20, (1 << 20) + 1, 2 << 20, size_bytes - 1].map(with_byte);
    for (index, digest) in digests.iter().enumerate() {
        assert_ne!(*digest, empty);
        assert!(digests[..index].iter().all(|other| other != digest), "{index}");
    }
    add(&mut filter, b"item").unwrap();
    assert!(contains(&filter, b"item") && digested(&filter) == digested(&filter));
}
