//! The memory blocks of a filter, which a server measures and moves.

use std::cell::Cell;

use everbloom::bloom::cells::HEAD_BYTES;
use everbloom::bloom::hash::siphash::Seed;
use everbloom::bloom::policy::ValkeyBloom;
use everbloom::bloom::policy::redisbloom::Options;
use everbloom::bloom::{BlockMover, BlockVisitor, Filter, Growth, Layer};

use crate::support::make::{
    START_MS, add, cells_of, contains, counting, keyed, plain, promise, redisbloom, set_time, valkeybloom,
    window,
};

/// Counts the blocks that it visits, and moves every vector.
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
fn an_emptied_filter_takes_as_much_memory_as_before() {
    let filter = plain(promise(0.01, 10, 2));
    let allocation = |filter: &Filter| filter.layers()[0].cells().allocation().len();
    assert_eq!(allocation(&filter), filter.layers()[0].cells().words().len());
    assert_eq!(allocation(&filter.try_emptied(&u64::MAX).unwrap()), allocation(&filter));
}

#[test]
fn every_block_of_every_kind_is_visited_and_moved() {
    let own = promise(0.01, 10, 2);
    let growth = Growth::default();
    let valkey = ValkeyBloom { error_rate: 0.01, tightening_ratio: 0.5, capacity_items: 10, growth };
    // Name, filter, boxes of the filter and of each layer, bytes before the cells of each layer.
    for (name, mut filter, boxes, layer_boxes, head_bytes) in [
        ("everbloom", plain(own), 0, 0, 0),
        ("keyed", keyed(own), 0, 1, 0),
        ("redisbloom", redisbloom(0.01, 10, Options::SCALING, 2), 1, 1, 0),
        ("valkey-bloom", valkeybloom(valkey, Seed::FIXED), 1, 1, HEAD_BYTES),
        ("counting", counting(own), 0, 1, 0),
        ("window", window(own, 14_000), 1, 1, 0),
    ] {
        let items: Vec<[u8; 4]> = (0..100u32).map(u32::to_le_bytes).collect();
        for (now_ms, item) in (START_MS..).zip(&items) {
            set_time(&mut filter, now_ms);
            add(&mut filter, item).unwrap();
        }
        filter.begin_dump(7);
        let layers = filter.layer_count();
        assert!(layers > 2, "{name}");

        // The struct itself and the boxes are not part of the size of the filter.
        let mut blocks = Blocks::default();
        filter.visit_blocks(&mut blocks);
        let words = |layer: &Layer| size_of_val(layer.cells().words());
        let cells_bytes: usize = filter.layers().iter().map(|layer| words(layer) + head_bytes).sum();
        let least_bytes = cells_bytes + layers * size_of::<Layer>();
        assert!(blocks.bytes >= least_bytes, "{name}");
        assert_eq!(blocks.bytes == least_bytes, boxes + layer_boxes == 0, "{name}");

        let before: Vec<Vec<u8>> = cells_of(&filter).into_iter().map(<[u8]>::to_vec).collect();
        filter.move_structs(&blocks);
        // The layers, then the dumps.
        assert_eq!(
            (blocks.vectors.get(), blocks.boxes.get()),
            (1, 1 + boxes + layers * layer_boxes),
            "{name}"
        );
        (0..=layers).for_each(|layer| filter.move_cells(layer, &blocks));
        assert_eq!(blocks.vectors.get(), 1 + layers, "{name}");
        assert_eq!(cells_of(&filter), before, "{name}");
        assert!(items.iter().all(|item| contains(&filter, item)), "{name}");
    }
}
