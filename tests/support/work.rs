//! The law of cost: what an operation on filters costs follows from the bytes that it gets, the filters that it names,
//! and its result. It holds for commands and for the callbacks of the server: what a callback costs follows from the
//! bytes that are stored, whatever size a header names.

use everbloom_filter::work::{self, Work};
use everbloom_filter::{BlockMover, Blocks};

/// Slots of 8 bits or more that an operation reads and writes per byte of its arguments, its filters and its result.
pub const SLOTS_PER_BYTE: u64 = 8;
/// Bytes that an operation allocates per such byte.
const ALLOCATED_PER_BYTE: u64 = 4;
/// The slots that every operation may read and write, and the bytes that it may allocate.
const FREE: u64 = 1 << 16;

/// Asserts that the work of an operation is bounded by `bytes`: those that it got, and those of its filters before and
/// after it.
pub fn assert_work(work: Work, bytes: u64, context: &str) {
    let is_bounded = work.slots <= SLOTS_PER_BYTE * bytes + FREE
        && work.bytes <= ALLOCATED_PER_BYTE * bytes + FREE
        && work.segments <= bytes / 16 + FREE / 64;
    assert!(is_bounded, "{work:?} for {bytes} bytes: {context}");
}

/// Runs an operation, and asserts that its work is bounded by the bytes that it gets and those of its result.
pub fn bounded<T>(
    bytes: u64,
    context: &str,
    run: impl FnOnce() -> T,
    result_bytes: impl FnOnce(&T) -> u64,
) -> T {
    _ = work::take();
    let result = run();
    assert_work(work::take(), bytes + result_bytes(&result), context);
    result
}

/// Runs a callback of the server, and asserts that its work is bounded by the bytes of the filter. `written_bytes` returns
/// how many bytes it has written; those are bounded too.
pub fn callback<T>(
    filter_bytes: u64,
    name: &str,
    run: impl FnOnce() -> T,
    written_bytes: impl FnOnce(&T) -> u64,
) -> T {
    let result = bounded(filter_bytes, name, run, |_| 0);
    let written_bytes = written_bytes(&result);
    assert!(written_bytes <= 2 * filter_bytes + FREE, "{name}: {written_bytes} bytes of {filter_bytes}");
    result
}

/// Visits all blocks of a value as active defragmentation does, with a new call at every block, but leaves them in their
/// places. Asserts that it visits what is stored only, and that the effort that the server asks for says how much that is.
pub fn defragment(value: &mut impl Blocks, bytes: u64, context: &str) {
    let blocks = value.block_count();
    let still = Still;
    let name = format!("defragmentation: {context}");
    let run = || {
        value.move_structs(&still);
        (0..blocks).for_each(|number| value.move_block(number, &still));
    };
    callback(bytes, &name, run, |()| 0);
    assert!(blocks as u64 <= 1 + bytes / 32, "{blocks} blocks in {bytes} bytes: {context}");
}

/// Moves nothing.
struct Still;

impl BlockMover for Still {
    fn move_vec<T>(&self, _: &mut Vec<T>) {}

    fn move_box<T>(&self, _: &mut Box<T>) {}
}
