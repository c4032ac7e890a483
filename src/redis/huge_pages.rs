//! Pages of 2 MiB for large bit arrays, if the operator wants them (`bf.huge-pages`).
//!
//! A probe of a large array then misses the address cache far less often, and a fork has a fraction of the page
//! tables to copy. The price: memory is taken 2 MiB at a time, so that a filter that was reserved too large is resident
//! after a few thousand adds. What was measured is in docs/performance.md.

use super::config;

/// Whether large pages are wanted where nothing is configured. Linux from 5.8 on copies 4 KiB of a large page that is
/// written to while a child saves; older kernels copied all of it, which is why large pages have a bad name with
/// Redis: `no` is the right setting there.
pub(super) const DEFAULT: bool = true;

/// Bytes of a large page.
const PAGE_BYTES: usize = 2 << 20;
/// Arrays from which on a large page is worth its name: some of it must lie inside, wherever the array begins.
const ARRAY_MIN_BYTES: usize = 2 * PAGE_BYTES;

/// What to ask of the kernel for a block of memory.
#[derive(Clone, Copy)]
pub(super) enum Advice {
    /// Large pages where there are any.
    Large,
    /// Small pages again, for whoever gets the memory next.
    Small,
}

/// Gives the advice for the whole large pages inside a block, if large pages are wanted and the block is large. A hint:
/// a kernel without large pages, or told not to use them, leaves all as it was.
///
/// # Safety
/// `block` must be the start of a living allocation of `size_bytes`.
pub(super) unsafe fn advise(block: *mut u8, size_bytes: usize, advice: Advice) {
    if size_bytes < ARRAY_MIN_BYTES || block.is_null() || !config::huge_pages_wanted() {
        return;
    }
    let before = block.align_offset(PAGE_BYTES);
    let whole_pages_bytes = size_bytes.saturating_sub(before) / PAGE_BYTES * PAGE_BYTES;
    if whole_pages_bytes == 0 {
        return;
    }
    let advice = match advice {
        Advice::Large => libc::MADV_HUGEPAGE,
        Advice::Small => libc::MADV_NOHUGEPAGE,
    };
    // SAFETY: `before` is less than `size_bytes`, so the result lies in the block.
    let first_page = unsafe { block.add(before) };
    // SAFETY: the pages lie wholly in the caller's allocation, and neither advice changes what they hold.
    unsafe { libc::madvise(first_page.cast(), whole_pages_bytes, advice) };
}
