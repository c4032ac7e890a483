//! Packed batches: many items in one string, for BF.BULKADD.

use std::cmp::max_by_key;
use std::iter;

use memchr::{memchr, memchr_iter, memmem};

use super::failure::Failure;

/// Approximate bytes of a batch: large enough that the round trip does not matter, small enough that other clients of
/// the server wait a few dozen milliseconds at most.
pub(crate) const BATCH_BYTES: usize = 512 << 10;

/// The packing of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchPacking {
    /// Each item ends with a newline. The last newline may be missing.
    Lines,
    /// Each item follows its length, a 32-bit little-endian number.
    Prefixed,
}

impl BatchPacking {
    /// Returns the word for the packing in BF.BULKADD.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lines => "LINES",
            Self::Prefixed => "PREFIXED",
        }
    }
}

/// The time of the items of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchTime {
    /// The generation in which the filter adds the items, a step of the window, and the generation in which the life of
    /// the items ends; 0 if they have no life of their own.
    pub(crate) generations: (u64, u64),
    /// A time in the first generation, in milliseconds of UNIX time.
    pub(crate) at_ms: u64,
    /// The life from that time on to a time in the second generation, if the items have a life of their own.
    pub(crate) life_ms: Option<u64>,
}

impl BatchTime {
    /// Returns the one of two times of the same generations whose life ends last. With it, a server refuses items of
    /// both as expired only if all of them are.
    pub(crate) fn last_to_end(self, other: Self) -> Self {
        max_by_key(self, other, |time| time.life_ms.map(|life_ms| time.at_ms.saturating_add(life_ms)))
    }
}

/// A packed batch.
#[derive(Clone, Debug)]
pub(crate) struct ItemBatch {
    pub(crate) packing: BatchPacking,
    pub(crate) data: Vec<u8>,
    /// The number of items.
    pub(crate) items: u64,
    /// The time of the items: that of the item whose life ends last. Items without a time are added with the current
    /// time of the server.
    pub(crate) time: Option<BatchTime>,
}

impl ItemBatch {
    /// Returns a batch of complete lines.
    pub(crate) fn of_lines(data: Vec<u8>) -> Self {
        let newlines = memchr_iter(b'\n', &data).count() as u64;
        let items = newlines + u64::from(data.last().is_some_and(|last| *last != b'\n'));
        Self { packing: BatchPacking::Lines, data, items, time: None }
    }

    /// Returns an empty batch of length-prefixed items.
    pub(crate) fn prefixed(capacity_bytes: usize, time: Option<BatchTime>) -> Self {
        let data = Vec::with_capacity(capacity_bytes);
        Self { packing: BatchPacking::Prefixed, data, items: 0, time }
    }

    /// Appends an item to a prefixed batch.
    pub(crate) fn push(&mut self, item: &[u8]) -> Result<(), Failure> {
        let length = u32::try_from(item.len())
            .map_err(|_| Failure::new("an item is longer than 4 GiB, which no server accepts"))?;
        self.data.extend_from_slice(&length.to_le_bytes());
        self.data.extend_from_slice(item);
        self.items += 1;
        Ok(())
    }

    /// Returns the items in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.data.as_slice();
        iter::from_fn(move || {
            let data = Some(rest).filter(|rest| !rest.is_empty())?;
            let item;
            (item, rest) = match self.packing {
                BatchPacking::Lines => match memchr(b'\n', data) {
                    Some(end) => (data.get(..end)?, data.get(end + 1..)?),
                    None => (data, &[][..]),
                },
                BatchPacking::Prefixed => {
                    let (length, data) = data.split_first_chunk()?;
                    data.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?
                }
            };
            Some(item)
        })
    }
}

/// Removes the `\r` before each newline. Returns whether there was one.
pub(crate) fn remove_cr(data: &mut Vec<u8>) -> bool {
    let mut ends = memmem::find_iter(data, b"\r\n").peekable();
    if ends.peek().is_none() {
        return false;
    }
    let mut kept = Vec::with_capacity(data.len());
    let mut start = 0;
    for end in ends.chain([data.len()]) {
        kept.extend_from_slice(data.get(start..end).unwrap_or_default());
        start = end + 1;
    }
    *data = kept;
    true
}

#[cfg(test)]
mod tests {
    use super::remove_cr;

    #[test]
    fn only_a_cr_before_a_newline_is_removed() {
        for (text, expected) in [
            (&b"a\r\nb\r\n"[..], &b"a\nb\n"[..]),
            (b"\r\n", b"\n"),
            (b"a\nb\r\r\nc\rd\n\r", b"a\nb\r\nc\rd\n\r"),
            (b"a\nb\r", b"a\nb\r"),
            (b"", b""),
        ] {
            let mut data = text.to_vec();
            assert_eq!(remove_cr(&mut data), text != expected);
            assert_eq!(data, expected, "{}", text.escape_ascii());
        }
    }
}
