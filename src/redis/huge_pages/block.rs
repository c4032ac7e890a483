//! Large pages and what the system can be told of them.

use std::ops::Range;

use crate::redis::config;

/// Bytes of a large page.
pub(super) const BLOCK_BYTES: usize = 2 << 20;
/// Arrays from which on a large page is worth its name: some of it must lie inside, wherever the array
/// begins.
pub(super) const ARRAY_MIN_BYTES: usize = 2 * BLOCK_BYTES;

/// What the system can be told of whole large pages. Nothing else may be added that changes what memory holds, or what may
/// be done with it.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Advice {
    /// To use large pages by and by.
    Wanted = libc::MADV_HUGEPAGE,
    /// Not to.
    Unwanted = libc::MADV_NOHUGEPAGE,
    /// To join the small pages now; Linux 6.1 and later (`MADV_COLLAPSE` in
    /// include/uapi/asm-generic/mman-common.h).
    Join = 25,
}

/// Addresses of whole large pages.
pub(super) type Blocks = Range<usize>;

/// Whether the operator and the system let memory have large pages at all.
pub(super) fn is_possible() -> bool {
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    config::huge_pages_wanted()
        && std::fs::read_to_string(SETTING).is_ok_and(|text| !text.contains("[never]"))
}

/// The whole large pages that lie in an array.
pub(super) fn whole_blocks(words: &[u64]) -> Blocks {
    let start = words.as_ptr().addr();
    let first = start.next_multiple_of(BLOCK_BYTES);
    let end = start.saturating_add(size_of_val(words)) / BLOCK_BYTES * BLOCK_BYTES;
    first..end.max(first)
}

/// Gives the system an advice for the whole large pages of an array. A hint: a system that knows no large
/// pages leaves all as it was.
pub(super) fn advise(words: &[u64], advice: Advice) {
    tell(&whole_blocks(words), advice);
}

/// Joins the small pages of a range. Answers whether the system did.
pub(super) fn join(blocks: &Blocks) -> bool {
    tell(blocks, Advice::Join)
}

fn tell(blocks: &Blocks, advice: Advice) -> bool {
    if blocks.is_empty() {
        return true;
    }
    let start = std::ptr::with_exposed_provenance_mut(blocks.start);
    // SAFETY: no advice there is changes what memory holds or what may be done with it, whoever it belongs to by
    // then; the system refuses addresses without memory.
    unsafe { libc::madvise(start, blocks.len(), advice as i32) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_lie_inside_an_array() {
        let words = vec![0u64; (BLOCK_BYTES * 5 + 4096) / 8];
        for from in [0, 1, 511, 512, BLOCK_BYTES / 8 - 1] {
            let words = &words[from..];
            let blocks = whole_blocks(words);
            let start = words.as_ptr().addr();
            assert!(blocks.start >= start && blocks.end <= start + size_of_val(words));
            assert!(blocks.start.is_multiple_of(BLOCK_BYTES) && blocks.end.is_multiple_of(BLOCK_BYTES));
            assert!(
                blocks.start - start < BLOCK_BYTES && start + size_of_val(words) - blocks.end < BLOCK_BYTES
            );
        }
        assert!(whole_blocks(&words[..100]).is_empty() && whole_blocks(&[]).is_empty());
    }
}
