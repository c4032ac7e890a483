//! The law of cost: what an operation on tables costs follows from the bytes that it gets, the filters that it names,
//! and its result.

use everbloom::bloom::work::{self, Work};

/// Slots of 8 bits or more that an operation reads and writes per byte of its arguments, its filters and its result.
pub(crate) const SLOTS_PER_BYTE: u64 = 8;
/// Bytes that an operation allocates per such byte.
const ALLOCATED_PER_BYTE: u64 = 4;
/// The slots that every operation may read and write, and the bytes that it may allocate.
const FREE: u64 = 1 << 16;

/// Asserts that the work of an operation is bounded by `bytes`: those that it got, and those of its filters before and
/// after it.
pub(crate) fn assert_work(work: Work, bytes: u64, context: &str) {
    let is_bounded = work.slots <= SLOTS_PER_BYTE * bytes + FREE
        && work.bytes <= ALLOCATED_PER_BYTE * bytes + FREE
        && work.segments <= bytes / 16 + FREE / 64;
    assert!(is_bounded, "{work:?} for {bytes} bytes: {context}");
}

/// Runs an operation, and asserts that its work is bounded by the bytes that it gets and those of its result.
pub(crate) fn bounded<T>(
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
