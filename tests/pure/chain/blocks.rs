//! The blocks of memory of a filter, which a server measures and moves.

use std::cell::Cell;

use everbloom::bloom::bits::HEAD_BYTES;
use everbloom::bloom::redisbloom::Options;
use everbloom::bloom::{
    BlockMover, BlockVisitor, Blueprint, Chain, Counting, Everbloom, Filter, Growth, NoPrefetch, RedisBloom,
    Storage, ValkeyBloom, valkeybloom,
};

use super::ANY;

/// Counts what it is shown, and moves every vector.
#[derive(Default)]
struct Blocks {
    vectors: Cell<usize>,
    boxes: Cell<usize>,
    bytes: usize,
}

impl BlockMover for Blocks {
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

impl BlockVisitor for Blocks {
    fn visit<T>(&mut self, block: &[T]) {
        self.bytes += size_of_val(block);
    }
}

#[test]
fn an_emptied_layer_takes_the_memory_that_the_layer_took() {
    let parameters = Everbloom { error_rate: 0.01, capacity_items: 10, growth: Growth::default() };
    let chain = Chain::reserve(parameters, &ANY).unwrap();
    let layer = &chain.layers()[0];
    let words = layer.storage().words().len();
    assert_eq!(layer.storage().allocation().len(), words);
    assert_eq!(layer.try_emptied().unwrap().storage().allocation().len(), words);
}

#[test]
fn every_block_of_a_filter_of_any_kind_is_shown_and_moved() {
    let growth = Growth::default();
    let own = Everbloom { error_rate: 0.01, capacity_items: 10, growth };
    let valkey = ValkeyBloom {
        error_rate: 0.01,
        tightening_ratio: 0.5,
        capacity_items: 10,
        growth,
        seed: valkeybloom::Seed::FIXED,
    };
    for (blueprint, boxes, head_bytes) in [
        (Blueprint::Everbloom(own), 0, 0),
        (Blueprint::RedisBloom(RedisBloom::new(0.01, 10, Options::SCALING, 2)), 0, 0),
        (Blueprint::ValkeyBloom(valkey), 1, HEAD_BYTES as u64),
        (Blueprint::Counting(Counting(own)), 1, 0),
    ] {
        let mut filter = Filter::reserve(blueprint, &ANY).unwrap();
        let items: Vec<[u8; 4]> = (0..100u32).map(u32::to_le_bytes).collect();
        for item in &items {
            filter.add(item, &ANY, NoPrefetch).unwrap();
        }
        filter.mark_state(7);
        let layers = filter.layer_count();
        assert!(layers > 2, "{blueprint:?}");

        let mut blocks = Blocks::default();
        filter.visit_blocks(&mut blocks);
        let arrays_bytes: u64 = filter.storages().map(|array| size_of_val(array.words()) as u64).sum();
        let structs_bytes = filter.size_bytes()
            - filter.storages().map(Storage::size_bytes).sum::<u64>()
            - size_of::<Filter>() as u64;
        assert_eq!(blocks.bytes as u64, structs_bytes + arrays_bytes + layers as u64 * head_bytes);

        let before: Vec<Vec<u8>> = filter.storages().map(|array| array.bytes().to_vec()).collect();
        filter.move_structs(&blocks);
        // The layers; the marks, and the struct where it is boxed.
        assert_eq!((blocks.vectors.get(), blocks.boxes.get()), (1, 1 + boxes));
        (0..=layers).for_each(|layer| filter.move_storage(layer, &blocks));
        assert_eq!(blocks.vectors.get(), 1 + layers);
        assert!(filter.storages().map(|array| array.bytes()).eq(before.iter().map(Vec::as_slice)));
        assert!(items.iter().all(|item| filter.contains(item, NoPrefetch)));
    }
}
