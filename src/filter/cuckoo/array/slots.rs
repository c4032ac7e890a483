//! The slots of an array as bytes: copied, walked through, written and checked, without touching memory that was never written
//! to.

use std::ops::Range;

use super::{BucketArray, SlotsError};
use crate::bits::is_clear;
use crate::bits::occupancy::PAGE_BYTES;
use crate::memory::OutOfMemory;
use crate::work::count_slots;

impl BucketArray {
    /// Returns an array with these slots. Their free pages take no memory. O(bytes).
    ///
    /// # Errors
    /// [`SlotsError`].
    pub fn of_bytes(buckets: u64, bucket_size: u8, bytes: &[u8]) -> Result<Self, SlotsError> {
        if bytes.is_empty() || Self::size_bytes(buckets, bucket_size) != Some(bytes.len() as u64) {
            return Err(SlotsError::Length);
        }
        let mut array = Self::try_new(buckets, bucket_size).map_err(|OutOfMemory| SlotsError::OutOfMemory)?;
        array.write(0, bytes).map(|_| array).ok_or(SlotsError::Length)
    }

    /// Makes a copy with its own memory. Free pages take no memory in the copy. O(bytes that may have a fingerprint).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut copy = Self::try_new(self.buckets, self.bucket_size)?;
        for (start, from) in self.pages() {
            let is_free = from.iter().all(|word| *word == 0);
            if !is_free && let Some(to) = copy.words.get_mut(start..start.saturating_add(from.len())) {
                to.copy_from_slice(from);
                copy.occupancy.note(start);
            }
        }
        copy.fingerprints = self.fingerprints;
        Ok(copy)
    }

    /// Returns the bytes of the pages that may have a fingerprint.
    #[cfg(feature = "inspection")]
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.pages().map(|(_, page)| size_of_val(page) as u64).sum()
    }

    /// Returns the pages that may have a fingerprint, each with the index of its first word. Does not touch other memory.
    fn pages(&self) -> impl Iterator<Item = (usize, &[u64])> {
        let words = if self.fingerprints == 0 { &[][..] } else { &self.words };
        self.occupancy.pages([words, &[]]).inspect(|(_, page)| count_slots(|| page.len()))
    }

    /// Returns the slots in strings of whole pages, without those that are free, at most `most_bytes` of adjacent pages in
    /// each, with the position of its first byte. Does not touch memory that was never written to. O(bytes that may have a
    /// fingerprint).
    pub fn parts(&self, most_bytes: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let bytes = self.bytes();
        let pages = self.pages().map(|(start, _)| start.saturating_mul(8));
        let page = move |start: usize| start..start.saturating_add(PAGE_BYTES).min(bytes.len());
        let is_free = move |page: &Range<usize>| bytes.get(page.clone()).is_none_or(is_clear);
        let mut pages = pages.map(page).filter(move |page| !is_free(page)).peekable();
        std::iter::from_fn(move || {
            let mut part = pages.next()?;
            let is_next = |part: &Range<usize>, next: &Range<usize>| {
                next.start == part.end && next.end.saturating_sub(part.start) <= most_bytes
            };
            while let Some(next) = pages.next_if(|next| is_next(&part, next)) {
                part.end = next.end;
            }
            Some((part.start, bytes.get(part)?))
        })
    }

    /// Returns the words of the next page with a fingerprint, from a word on. Does not read pages that have none.
    pub(in crate::cuckoo) fn next_words(&self, from: usize) -> Option<Range<usize>> {
        self.occupancy.next_words(from, self.words.len())
    }

    /// Returns the eight slots of a word, the first one in the lowest byte.
    #[inline(always)]
    pub(in crate::cuckoo) fn slots_of(&self, word: usize) -> u64 {
        self.words.get(word).copied().map_or(0, u64::from_le)
    }

    /// Writes bytes over the slots from a position on. Does not touch memory that was never written to, for bytes that are
    /// zero. Returns whether a slot has changed; `None`, and changes nothing, if the bytes do not fit. O(bytes).
    #[must_use]
    pub fn write(&mut self, position: u64, bytes: &[u8]) -> Option<bool> {
        let mut start = usize::try_from(position).ok()?;
        if start.checked_add(bytes.len()).is_none_or(|end| end > self.bytes().len()) {
            return None;
        }
        let (mut rest, mut has_changed) = (bytes, false);
        while !rest.is_empty() {
            let in_page = PAGE_BYTES.saturating_sub(start % PAGE_BYTES);
            let (part, after) = rest.split_at(in_page.min(rest.len()));
            has_changed |= self.write_in_page(start, part);
            start = start.saturating_add(part.len());
            rest = after;
        }
        Some(has_changed)
    }

    /// Writes bytes over slots of one page. Returns whether one has changed.
    fn write_in_page(&mut self, start: usize, from: &[u8]) -> bool {
        let range = start..start.saturating_add(from.len());
        let was_free = self.fingerprints == 0 || self.occupancy.is_clear(range.clone());
        let added = count_fingerprints(from);
        if was_free && added == 0 {
            return false;
        }
        let Some(to) = bytemuck::cast_slice_mut(&mut self.words).get_mut(range) else { return false };
        let has_changed = to != from;
        let removed = if was_free { 0 } else { count_fingerprints(to) };
        if added > 0 || removed > 0 {
            to.copy_from_slice(from);
            self.fingerprints = self.fingerprints.wrapping_sub(removed).wrapping_add(added);
            self.occupancy.note(start / 8);
        }
        has_changed
    }

    /// Checks the number of fingerprints, and that they are in pages that may have some. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken.
    #[cfg(feature = "inspection")]
    pub fn internal_validate(&self) -> Result<(), &'static str> {
        let all = count_fingerprints(self.padded_bytes());
        let in_pages =
            self.pages().map(|(_, page)| count_fingerprints(bytemuck::cast_slice(page))).sum::<u64>();
        if all != self.fingerprints {
            Err("fingerprints")
        } else if all != in_pages {
            Err("pages with fingerprints")
        } else if self.allocated_bytes()
            != Self::needed_bytes(self.buckets, self.bucket_size).unwrap_or(u64::MAX)
        {
            Err("needed bytes")
        } else {
            Ok(())
        }
    }
}

/// Returns the number of slots that are not free. O(slots).
fn count_fingerprints(slots: &[u8]) -> u64 {
    count_slots(|| slots.len() / 8);
    slots.iter().filter(|slot| **slot != 0).count() as u64
}
