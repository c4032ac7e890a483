//! The work on filters, which tests and fuzz targets count: what a command costs must follow from the bytes that it gets
//! and the filters that it names. Other builds count nothing.

/// The work on the segments of tables, on the bits of layers and on the buckets of cuckoo filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Slots, and words of bits, that were read or written; and one more per block, bucket, array of words, and layer that
    /// is asked for items.
    pub slots: u64,
    /// Segments that were made.
    pub segments: u64,
    /// Bytes that were allocated for segments and directories.
    pub bytes: u64,
}

#[cfg(feature = "inspection")]
std::thread_local! {
    static DONE: std::cell::Cell<Work> = const { std::cell::Cell::new(Work { slots: 0, segments: 0, bytes: 0 }) };
}

/// Returns the work of this thread since the last call, or since its start.
#[cfg(feature = "inspection")]
#[must_use]
pub fn take() -> Work {
    DONE.take()
}

/// Counts a block, a bucket or an array, and its slots or words that are read or written.
#[inline(always)]
pub fn count_slots(slots: impl FnOnce() -> usize) {
    count(|work| work.slots = work.slots.saturating_add(slots() as u64).saturating_add(1));
}

/// Counts a segment that is made, and its bytes.
#[inline(always)]
pub(super) fn count_segment(bytes: u64) {
    count(|work| work.segments = work.segments.saturating_add(1));
    count_bytes(bytes);
}

/// Counts bytes that are allocated.
#[inline(always)]
pub(super) fn count_bytes(bytes: u64) {
    count(|work| work.bytes = work.bytes.saturating_add(bytes));
}

#[inline(always)]
fn count(add: impl FnOnce(&mut Work)) {
    #[cfg(feature = "inspection")]
    DONE.with(|done| {
        let mut work = done.get();
        add(&mut work);
        done.set(work);
    });
    #[cfg(not(feature = "inspection"))]
    let _ = add;
}
