//! What the system knows of this process's memory: which pages were written to (`/proc/self/pagemap`; see the kernel's
//! Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::bloom::Memory;

/// Bytes of a page that this module is made for; a system with larger ones is not asked.
const PAGE_BYTES: usize = 4096;
/// Words of 64 bits in a page.
const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// Entries that are read at once: those of 2 MiB.
const READ_ENTRIES: usize = 512;

/// The page is in memory.
const PRESENT: u64 = 1 << 63;
/// The page is in swap, or on its way to another place.
const SWAPPED: u64 = 1 << 62;
/// No other process has the page. The system's page of zeros, which stands for memory that was only read, has many.
const EXCLUSIVE: u64 = 1 << 56;

/// The memory of this process.
#[derive(Clone, Copy)]
pub(super) struct ProcessMemory;

impl Memory for ProcessMemory {
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        let Some(pagemap) = Pagemap::open() else { return visit(0..words.len()) };
        let mut done = 0;
        let outcome = pagemap.each_page(words, &mut |page, entry| {
            if entry & (PRESENT | SWAPPED) != 0 {
                visit(page.clone());
            }
            done = page.end;
        });
        if outcome.is_none() {
            visit(done..words.len());
        }
    }
}

/// The system's table of the pages of one process.
pub(super) struct Pagemap(File);

impl Pagemap {
    /// The table of the process that this runs in: a child has one of its own, so it is not kept. Nothing where the system
    /// has none, or lets nobody see it, or has other pages.
    pub(super) fn open() -> Option<Self> {
        // SAFETY: no precondition.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if usize::try_from(page_bytes) != Ok(PAGE_BYTES) {
            return None;
        }
        File::open("/proc/self/pagemap").ok().map(Self)
    }

    /// How many of the pages that `words` lies in are written to and this process's alone; nothing if that cannot be read.
    pub(super) fn own_pages(&self, words: &[u64]) -> Option<usize> {
        let mut pages = 0;
        self.each_page(words, &mut |_, entry| {
            pages += usize::from(entry & (PRESENT | EXCLUSIVE) == PRESENT | EXCLUSIVE);
        })?;
        Some(pages)
    }

    /// Shows `visit` each page that `words` lies in, as the words that lie in it, with its entry. Nothing when the table
    /// cannot be read to the end.
    fn each_page(&self, words: &[u64], visit: &mut dyn FnMut(Range<usize>, u64)) -> Option<()> {
        let start = words.as_ptr().addr();
        let first_words = (PAGE_BYTES - start % PAGE_BYTES) / 8 % PAGE_WORDS;
        let mut page = (start / PAGE_BYTES) as u64;
        let mut at = 0;
        let mut entries = [0u8; READ_ENTRIES * 8];
        while at < words.len() {
            let rest = words.len().saturating_sub(at).saturating_add(PAGE_WORDS);
            let wanted = READ_ENTRIES.min(rest / PAGE_WORDS + 1).saturating_mul(8);
            let read = self.0.read_at(entries.get_mut(..wanted)?, page.checked_mul(8)?).ok()?;
            let (read, _) = entries.get(..read)?.as_chunks::<8>();
            if read.is_empty() {
                return None;
            }
            for entry in read {
                let length = if at == 0 && first_words != 0 { first_words } else { PAGE_WORDS };
                let end = at.saturating_add(length).min(words.len());
                visit(at..end, u64::from_le_bytes(*entry));
                at = end;
                page = page.checked_add(1)?;
                if at == words.len() {
                    return Some(());
                }
            }
        }
        Some(())
    }
}
