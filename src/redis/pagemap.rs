//! Finds the pages of this process's memory that were written to (`/proc/self/pagemap`; see the kernel's
//! Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::bloom::Memory;

/// Bytes of a page. On a system with larger pages all memory counts as written.
const PAGE_BYTES: usize = 4096;
/// Number of entries that are read at once: those of 2 MiB.
const READ_ENTRIES: usize = 512;

/// The page is in memory.
const PRESENT: u64 = 1 << 63;
/// The page is in swap, or is being migrated.
const SWAPPED: u64 = 1 << 62;

/// The memory of this process.
#[derive(Clone, Copy)]
pub(super) struct ProcessMemory;

impl Memory for ProcessMemory {
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        let Some(pagemap) = Pagemap::open() else { return visit(0..words.len()) };
        let mut done = 0;
        let start = words.as_ptr().addr();
        let outcome =
            pagemap.each_page(start..start.saturating_add(size_of_val(words)), &mut |page, entry| {
                let words = (page.start.saturating_sub(start)) / 8..page.end.saturating_sub(start) / 8;
                done = words.end;
                if entry & (PRESENT | SWAPPED) != 0 {
                    visit(words);
                }
            });
        if outcome.is_none() {
            visit(done..words.len());
        }
    }
}

/// The system's table of the pages of one process.
struct Pagemap(File);

impl Pagemap {
    /// Opens the table of the current process. It is not kept open, because a child process has another table.
    /// Returns `None` if the system has no table, denies access to it, or has larger pages.
    fn open() -> Option<Self> {
        // SAFETY: no precondition.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if usize::try_from(page_bytes) != Ok(PAGE_BYTES) {
            return None;
        }
        File::open("/proc/self/pagemap").ok().map(Self)
    }

    /// Calls `visit` for each page that has some of the addresses, with these addresses and the page's entry. Returns
    /// `None` if the table cannot be read to the end.
    fn each_page(&self, addresses: Range<usize>, visit: &mut dyn FnMut(Range<usize>, u64)) -> Option<()> {
        let mut at = addresses.start;
        let mut entries = [0u8; READ_ENTRIES * 8];
        while at < addresses.end {
            let first_page = at / PAGE_BYTES;
            let pages = addresses.end.div_ceil(PAGE_BYTES).saturating_sub(first_page);
            let wanted = READ_ENTRIES.min(pages).saturating_mul(8);
            let offset = first_page.checked_mul(8)? as u64;
            let read = self.0.read_at(entries.get_mut(..wanted)?, offset).ok()?;
            let (read, _) = entries.get(..read)?.as_chunks::<8>();
            if read.is_empty() {
                return None;
            }
            for (page, entry) in (first_page..).zip(read) {
                let end = page.checked_add(1)?.checked_mul(PAGE_BYTES)?.min(addresses.end);
                visit(at..end, u64::from_le_bytes(*entry));
                at = end;
            }
        }
        Some(())
    }
}
