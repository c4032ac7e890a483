//! Finds the pages of this process's memory that were written to (`/proc/self/pagemap`; see the kernel's
//! Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::bloom::Memory;

/// Bytes of a page. On a system with larger pages all memory counts as written.
const PAGE_BYTES: usize = 4096;
/// The number of entries that are read at once. They describe 2 MiB.
const READ_ENTRIES: usize = 512;

/// The bit of an entry that says that the page is in memory.
const PRESENT: u64 = 1 << 63;
/// The bit of an entry that says that the page is in swap, or is being migrated.
const SWAPPED: u64 = 1 << 62;

/// The memory of this process.
#[derive(Clone, Copy)]
pub(super) struct ProcessMemory;

impl Memory for ProcessMemory {
    fn written_ranges(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        let mut done = 0;
        visit_pages(words, &mut |page, is_written| {
            done = page.end;
            if is_written {
                visit(page);
            }
        });
        // Memory without an entry counts as written. The system may have no table, deny access to it, or end it early.
        if done < words.len() {
            visit(done..words.len());
        }
    }
}

/// Calls `visit` for each page in order, with the range of its words and with whether the page was written to. Returns
/// `None` if the table of pages cannot be read to the end.
fn visit_pages(words: &[u64], visit: &mut dyn FnMut(Range<usize>, bool)) -> Option<()> {
    // SAFETY: no precondition.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if usize::try_from(page_bytes) != Ok(PAGE_BYTES) {
        return None;
    }
    // The table is not kept open, because a child process has another table.
    let table = File::open("/proc/self/pagemap").ok()?;
    let start = words.as_ptr().addr();
    let end = start.checked_add(size_of_val(words))?;
    let mut entries = [0u8; READ_ENTRIES * 8];
    let mut at = start;
    while at < end {
        let first_page = at / PAGE_BYTES;
        let pages = end.div_ceil(PAGE_BYTES).saturating_sub(first_page).min(READ_ENTRIES);
        let entries = entries.get_mut(..pages.checked_mul(8)?)?;
        let read = table.read_at(entries, first_page.checked_mul(8)? as u64).ok()?;
        let (read, _) = entries.get(..read)?.as_chunks::<8>();
        if read.is_empty() {
            return None;
        }
        for (page, entry) in (first_page..).zip(read) {
            let page_end = page.checked_add(1)?.checked_mul(PAGE_BYTES)?.min(end);
            let is_written = u64::from_le_bytes(*entry) & (PRESENT | SWAPPED) != 0;
            visit(at.checked_sub(start)? / 8..page_end.checked_sub(start)? / 8, is_written);
            at = page_end;
        }
    }
    Some(())
}
