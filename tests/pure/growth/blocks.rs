//! The memory blocks of a filter, which a server measures and moves.

use std::cell::Cell;

use everbloom_filter::cuckoo::array::{BucketArray, CuckooRelease};
use everbloom_filter::cuckoo::filter::{CuckooFilter, CuckooParameters};
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::{BlockMover, BlockVisitor, Blocks, Filter, Hash, Table, Validation};

use crate::support::make::{
    START_MS, add, contains, counting, keyed, keyed_window, plain, promise, redisbloom, set_time, unreserved,
    valkey, window,
};
use crate::support::saved::digested;

/// Adds up the bytes of the blocks that it visits. Moves every vector, and counts vectors and boxes.
#[derive(Default)]
struct CountedBlocks {
    vectors: Cell<usize>,
    boxes: Cell<usize>,
    bytes: usize,
}

impl BlockMover for CountedBlocks {
    fn move_vec<T>(&self, values: &mut Vec<T>) {
        let mut moved = Vec::with_capacity(values.len());
        moved.append(values);
        *values = moved;
        self.vectors.set(self.vectors.get() + 1);
    }

    fn move_box<T>(&self, _: &mut Box<T>) {
        self.boxes.set(self.boxes.get() + 1);
    }
}

impl BlockVisitor for CountedBlocks {
    fn visit<T>(&mut self, block: &[T]) {
        self.bytes += size_of_val(block);
    }
}

#[test]
fn the_blocks_of_a_cuckoo_filter_are_its_slots_and_the_list_of_its_arrays() {
    let parameters = CuckooParameters { buckets: 8, bucket_size: 2, max_iterations: 20, expansion: 1 };
    let arrays = [1, 2].map(|slot| BucketArray::of_bytes(8, 2, &[slot; 16]).unwrap());
    let filter = CuckooFilter::from_parts(parameters, CuckooRelease::Current, 32, 0, arrays.into());
    let (mut filter, mut blocks) = (filter.unwrap(), CountedBlocks::default());
    filter.visit_blocks(&mut blocks);
    assert_eq!(blocks.bytes, 2 * (16 + size_of::<BucketArray>()));
    filter.move_structs(&blocks);
    assert_eq!((blocks.vectors.get(), filter.block_count()), (1, 2));
    (0..3).for_each(|number| filter.move_block(number, &blocks));
    assert_eq!(blocks.vectors.get(), 3);
    assert!(filter.arrays().iter().map(|array| array.bytes()[0]).eq([1, 2]));
}

#[test]
fn an_emptied_filter_takes_as_much_memory_as_before() {
    let filter = plain(promise(0.01, 10, 2));
    let allocation = |filter: &Filter| filter.layers()[0].bits().allocated_words();
    assert_eq!(allocation(&filter), filter.layers()[0].bits().size_words());
    assert_eq!(allocation(&filter.try_emptied(&u64::MAX).unwrap()), allocation(&filter));
}

/// Bits in two blocks, and the block with the two pointers to them.
#[test]
fn both_blocks_of_a_layer_are_visited_and_moved() {
    let mut filter = plain(promise(0.01, 3_000_000, 0));
    add(&mut filter, b"item").unwrap();
    let bits = filter.layers()[0].bits();
    let [first, rest] = bits.pieces().map(size_of_val);
    assert!(first == 3 << 20 && rest > 0 && (first + rest) as u64 == bits.size_bytes());
    let mut blocks = CountedBlocks::default();
    filter.visit_blocks(&mut blocks);
    assert_eq!(blocks.bytes, first + rest + 4 * size_of::<usize>());
    let before = digested(&filter);
    filter.move_structs(&blocks);
    assert_eq!((blocks.boxes.get(), blocks.vectors.get(), filter.block_count()), (1, 0, 1));
    filter.move_block(0, &blocks);
    assert_eq!((blocks.boxes.get(), blocks.vectors.get()), (1, 2));
    assert_eq!(filter.internal_validate(Validation::Contents), Ok(()));
    assert!(digested(&filter) == before && contains(&filter, b"item"));
}

/// Returns a small filter of each kind, with its name and the number of boxes of its policy.
fn kinds() -> Vec<(&'static str, Filter, usize)> {
    let own = promise(0.01, 10, 2);
    vec![
        ("outgrown", plain(own), 0),
        ("outgrown and keyed", keyed(own), 0),
        ("unreserved", plain(unreserved(0.01, 100, 2)), 0),
        ("unreserved and keyed", keyed(unreserved(0.01, 100, 2)), 0),
        ("redisbloom", redisbloom(0.01, 10, RedisBloomOptions::SCALING, 2), 1),
        ("valkey-bloom", valkey(own), 1),
        ("counting", counting(own), 1),
        ("window", window(own, 14_000), 1),
        ("keyed window", keyed_window(own, 14_000), 1),
    ]
}

#[test]
fn every_block_of_every_kind_is_visited_and_moved() {
    for (name, mut filter, policy_boxes) in kinds() {
        // Tables of one segment, then of several.
        let mut added = 0u32;
        for items in [100u32, 30_000] {
            if filter.table().is_none() && added > 0 {
                break;
            }
            for item in added..items {
                set_time(&mut filter, START_MS + u64::from(item % 1000));
                add(&mut filter, &item.to_le_bytes()).unwrap();
            }
            added = items;
            filter.set_origin(7);
            let layers = filter.layer_count();
            let segments = filter.table().map_or(0, Table::segment_count);
            assert_eq!(segments > 1, items > 100 && segments > 0, "{name}");
            // A filter that is only a table with MurmurHash3 has it in place. Any other filter here has a list of
            // layers, and a box if it has a table. The directory of several segments is a box, a list of pieces,
            // and a piece.
            let is_in_place = (layers, segments > 0, filter.hash()) == (0, true, Hash::Murmur3);
            let lists = usize::from(!is_in_place);
            let tables = usize::from(segments > 0 && !is_in_place);
            let pieces = usize::from(segments > 1);
            let layer_boxes = if filter.hash() == Hash::Murmur3 { 0 } else { layers };

            // The size of the filter includes its struct, which is not a block. The block of the origin is not visited.
            let mut blocks = CountedBlocks::default();
            filter.visit_blocks(&mut blocks);
            let needed_bytes = filter.size_bytes() - size_of::<Filter>() as u64;
            // The blocks of policies and keys are small and not counted in the size.
            let uncounted = blocks.bytes as u64 - needed_bytes;
            assert!(
                blocks.bytes as u64 >= needed_bytes && uncounted < 64 + 160 * (1 + layer_boxes as u64),
                "{name}: {uncounted}"
            );

            let before = (digested(&filter), filter.footprint());
            let blocks = CountedBlocks::default();
            filter.move_structs(&blocks);
            let histories = usize::from(filter.window().is_some());
            let boxes = 1 + policy_boxes + layer_boxes + tables + histories + pieces;
            assert_eq!((blocks.vectors.get(), blocks.boxes.get()), (lists + 2 * pieces, boxes), "{name}");
            let blocks = CountedBlocks::default();
            // The last one does not exist.
            (0..=layers + segments).for_each(|number| filter.move_block(number, &blocks));
            assert_eq!(
                (blocks.vectors.get(), filter.block_count()),
                (layers + segments, layers + segments),
                "{name}"
            );
            assert_eq!((digested(&filter), filter.footprint()), before, "{name}");
            assert_eq!(filter.internal_validate(Validation::Contents), Ok(()), "{name}");
            assert!((0..items).all(|item| contains(&filter, &item.to_le_bytes())), "{name}");
        }
    }
}
