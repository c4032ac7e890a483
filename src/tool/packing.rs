//! Packed batches: many items in one string, for BF.BULKADD.

use memchr::{memchr, memchr_iter, memmem};

use super::failure::Failure;

/// Approximate bytes of a batch: large enough that the round trip does not matter, small enough that other clients of
/// the server wait a few dozen milliseconds at most.
pub(crate) const BATCH_BYTES: usize = 512 << 10;

/// The packing of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchPacking {
    /// Each item ends with a newline; the last one may lack it.
    Lines,
    /// Each item follows its length, a 32-bit little-endian number.
    Prefixed,
}

impl BatchPacking {
    /// Returns the word of the command.
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
    /// The generation of the window that the filter adds them to.
    pub(crate) generation: u64,
    /// A time in this generation, in milliseconds of UNIX time.
    pub(crate) at_ms: u64,
}

/// A packed batch.
#[derive(Clone, Debug)]
pub(crate) struct ItemBatch {
    pub(crate) packing: BatchPacking,
    pub(crate) data: Vec<u8>,
    /// The number of items.
    pub(crate) items: u64,
    /// The time of the items; without it they are added with the current time.
    pub(crate) time: Option<BatchTime>,
}

impl ItemBatch {
    /// Returns a batch of complete lines.
    pub(crate) fn of_lines(data: Vec<u8>) -> Self {
        let newlines = memchr_iter(b'\n', &data).count() as u64;
        let items = newlines + u64::from(data.last().is_some_and(|last| *last != b'\n'));
        Self { packing: BatchPacking::Lines, data, items, time: None }
    }

    /// Returns an empty batch.
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
    pub(crate) fn iter(&self) -> BatchItems<'_> {
        BatchItems { packing: self.packing, rest: &self.data }
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

/// The items of a batch.
pub(crate) struct BatchItems<'b> {
    packing: BatchPacking,
    rest: &'b [u8],
}

impl<'b> Iterator for BatchItems<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        match self.packing {
            BatchPacking::Lines => {
                let end = memchr(b'\n', self.rest).unwrap_or(self.rest.len());
                let (item, rest) = self.rest.split_at_checked(end)?;
                self.rest = rest.get(1..).unwrap_or_default();
                Some(item)
            }
            BatchPacking::Prefixed => {
                let (length, rest) = self.rest.split_first_chunk::<4>()?;
                let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
                let (item, rest) = rest.split_at_checked(length)?;
                self.rest = rest;
                Some(item)
            }
        }
    }
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
