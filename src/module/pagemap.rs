//! Finds the pages of this process's memory that were written to (`/proc/self/pagemap`; see the kernel's
//! Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use everbloom_filter::Memory;

/// Bytes of a page. On a system with larger pages all memory counts as written.
const PAGE_BYTES: usize = 4096;
/// The number of entries that are read at once. They describe 2 MiB.
const READ_ENTRIES: usize = 512;

/// The bit of an entry that says that the page is in memory.
const PRESENT: u64 = 1 << 63;
/// The bit of an entry that says that the page is in swap, or is being migrated.
const SWAPPED: u64 = 1 << 62;
/// The bit of an entry that says that the page is in memory, and that only this process has it.
const EXCLUSIVE: u64 = 1 << 56;

/// The memory of this process.
#[derive(Clone, Copy)]
pub(super) struct ProcessMemory;

impl Memory for ProcessMemory {
    fn written_ranges(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        let start = words.as_ptr().addr();
        let index = |address: usize| address.saturating_sub(start) / size_of::<u64>();
        let mut done = 0;
        if let Some(table) = PageTable::open() {
            let end = start.saturating_add(size_of_val(words));
            table.visit(start..end, &mut |part, entry| {
                done = index(part.end);
                if entry & (PRESENT | SWAPPED) != 0 {
                    visit(index(part.start)..done);
                }
            });
        }
        // Memory without an entry counts as written. The system may have no table, deny access to it, or end it early.
        if done < words.len() {
            visit(done..words.len());
        }
    }
}

/// The system's table of the pages of this process. It is not kept open, because a child process has another table.
pub(super) struct PageTable(File);

impl PageTable {
    /// Opens the table; `None` if there is none, or if it is of larger pages.
    pub(super) fn open() -> Option<Self> {
        // SAFETY: no precondition.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let has_small_pages = usize::try_from(page_bytes) == Ok(PAGE_BYTES);
        has_small_pages.then(|| File::open("/proc/self/pagemap").ok().map(Self))?
    }

    /// Returns the bytes of a range of addresses for which the system still has to provide memory when they are written
    /// to. Pages that were only read have the system's page of zeros, and a page that a child of this process shares is
    /// copied. O(pages): 7 ns for a page without memory, 33 ns for another.
    pub(super) fn reserved_bytes(&self, memory: Range<usize>) -> usize {
        let mut reserved_bytes = 0usize;
        self.visit(memory, &mut |part, entry| {
            let is_own = entry & SWAPPED != 0 || entry & (PRESENT | EXCLUSIVE) == PRESENT | EXCLUSIVE;
            if !is_own {
                reserved_bytes = reserved_bytes.saturating_add(part.len());
            }
        });
        reserved_bytes
    }

    /// Calls `visit` for each page in a range of addresses, in order, with the page's part of the range and its entry.
    /// Returns `None` if the table ends early.
    fn visit(&self, memory: Range<usize>, visit: &mut dyn FnMut(Range<usize>, u64)) -> Option<()> {
        let mut entries = [0u8; READ_ENTRIES * 8];
        let Range { start: mut at, end } = memory;
        while at < end {
            let first_page = at / PAGE_BYTES;
            let pages = end.div_ceil(PAGE_BYTES).saturating_sub(first_page).min(READ_ENTRIES);
            let entries = entries.get_mut(..pages.checked_mul(8)?)?;
            let read = self.0.read_at(entries, first_page.checked_mul(8)? as u64).ok()?;
            let (read, _) = entries.get(..read)?.as_chunks::<8>();
            if read.is_empty() {
                return None;
            }
            for (page, entry) in (first_page..).zip(read) {
                let page_end = page.checked_add(1)?.checked_mul(PAGE_BYTES)?.min(end);
                visit(at..page_end, u64::from_le_bytes(*entry));
                at = page_end;
            }
        }
        Some(())
    }
}
