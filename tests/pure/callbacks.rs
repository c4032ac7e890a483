//! The callbacks of the server on filters whose headers name more than is stored of them, as only a forged header makes
//! them: they cost what is stored.

use std::cell::Cell;

use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{BlockMover, Blocks, Filter, UnknownMemory, Validation};
use everbloom_format::chunks::{Trust, first_iterator};
use everbloom_format::filter::header;
use everbloom_format::value::{from_header, load_chunk};

use crate::support::fuzz::forge::{self, Filling, TableForm, full_segment};
use crate::support::make::{
    ANY, START_MS, add, contains, counting, keyed, plain, promise, set_time, unreserved, window,
};
use crate::support::saved::{assert_value_survives, digested, rewritten_commands};
use crate::support::work::{callback, defragment};

/// The logarithm of the number of segments in a forged header. A walk over all of them takes seconds.
const DEPTH: u32 = 22;

/// Returns loads of every kind of table whose headers say that they have 2^[`DEPTH`] segments, none of which has come.
fn forged() -> impl Iterator<Item = (&'static str, FilterValue)> {
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

/// Returns a segment of such a filter, with some entries, as it is in a chunk.
fn segment(value: &FilterValue, number: u32) -> Vec<u8> {
    let table = value.filter().table().unwrap();
    let form = TableForm::of_table(table);
    let stamp = if table.kind().is_timed() { 20 } else { 0 };
    let (bytes, used) = full_segment(&form, DEPTH, 6, Filling::Lengths, 100, stamp);
    assert!(used > 50);
    forge::part(number, DEPTH, 6, stamp, &bytes)
}

/// Checks what the callbacks cost, and that they keep the load.
fn check_callbacks(value: &mut FilterValue, context: &str) {
    assert_value_survives(value, context);
    let size_bytes = value.size_bytes();
    defragment(value, size_bytes, context);
}

#[test]
fn the_callbacks_of_a_forged_header_cost_its_bytes() {
    for (name, mut value) in forged() {
        assert!(matches!(value, FilterValue::Loading(_)), "{name}");
        check_callbacks(&mut value, name);
    }
}

/// Some segments have come, whose numbers and positions in a dump are in different orders.
#[test]
fn the_callbacks_visit_the_segments_that_have_come() {
    for (name, mut value) in forged() {
        let numbers = [0u32, 1, 2, 3, 5, 1 << 9, (1 << 9) + 1, 1 << 20, (1 << DEPTH) - 2, (1 << DEPTH) - 1];
        let layers_end = value.filter().layers_end();
        for number in numbers.iter().rev() {
            let start = layers_end + u64::from(number.reverse_bits());
            let iterator = first_iterator(1) + start + (1 << (32 - DEPTH));
            let payload = [&start.to_le_bytes()[..], &segment(&value, *number)].concat();
            let data = forge::with_trailer(&payload, iterator, 1);
            assert_eq!(load_chunk(&mut value, iterator, &data, Trust::Sender, &ANY), Ok(true), "{name}");
            check_callbacks(&mut value, name);
        }
        assert!(rewritten_commands(&value).len() > 1, "{name}");
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

/// Between two calls of the server, tables grow and shrink. The walk passes over no segment that is there all the time, and
/// ends.
#[test]
fn a_walk_goes_on_when_segments_come_and_go() {
    let mut filter = counting(promise(0.01, 10, 2));
    let name = |item: usize| item.to_le_bytes();
    for (from, to) in [(0, 40_000), (40_000, 90_000)] {
        (from..to).for_each(|item| _ = add(&mut filter, &name(item)).unwrap());
        let (mut next, mut moves) = (0, Moves::default());
        while next < filter.block_count() {
            filter.move_block(next, &moves);
            // A few items between two steps, so that segments are split.
            (0..200).for_each(|item| _ = add(&mut filter, &name(to + 100_000 + 200 * next + item)).unwrap());
            next += 1;
        }
        assert_eq!(*moves.0.get_mut(), filter.block_count());
    }
    // The table is much smaller at the next step.
    let cursor = filter.block_count() - 1;
    let bytes = filter.size_bytes();
    let mut filter: Filter = callback(bytes, "emptied", || filter.try_emptied(&ANY).unwrap(), |_| 0);
    assert!(cursor > filter.block_count());
    let mut moves = Moves::default();
    filter.move_block(cursor, &moves);
    assert_eq!(*moves.0.get_mut(), 0);
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
        assert!(filter.add_bytes(0, offset, &[1]).is_some());
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
