//! Packed batches: many items in one string, for BF.BULKADD.

use memchr::{memchr_iter, memmem};

/// The packing of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Each item ends with a newline; the last one may lack it.
    Lines,
    /// Each item follows its length, a 32-bit little-endian number.
    Prefixed,
}

impl Packing {
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
pub(crate) struct Moment {
    /// The generation of the window that the filter adds them to.
    pub(crate) generation: u64,
    /// A time in this generation, in milliseconds of UNIX time.
    pub(crate) at_ms: u64,
}

/// A packed batch.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) packing: Packing,
    pub(crate) data: Vec<u8>,
    /// The number of items.
    pub(crate) items: u64,
    /// The time of the items; without it they are added with the current time.
    pub(crate) moment: Option<Moment>,
}

impl Batch {
    /// Returns a batch of complete lines.
    pub(crate) fn of_lines(data: Vec<u8>) -> Self {
        let newlines = memchr_iter(b'\n', &data).count() as u64;
        let items = newlines + u64::from(data.last().is_some_and(|last| *last != b'\n'));
        Self { packing: Packing::Lines, data, items, moment: None }
    }

    pub(crate) fn prefixed(capacity_bytes: usize) -> Self {
        let data = Vec::with_capacity(capacity_bytes);
        Self { packing: Packing::Prefixed, data, items: 0, moment: None }
    }

    /// Returns the batch with a time.
    pub(crate) fn at(self, moment: Option<Moment>) -> Self {
        Self { moment, ..self }
    }

    /// Appends an item to a prefixed batch. Returns false if it is too long for a 32-bit length.
    pub(crate) fn push(&mut self, item: &[u8]) -> bool {
        let Ok(length) = u32::try_from(item.len()) else { return false };
        self.data.extend_from_slice(&length.to_le_bytes());
        self.data.extend_from_slice(item);
        self.items += 1;
        true
    }

    /// Returns the items in order.
    pub(crate) fn iter(&self) -> Items<'_> {
        Items { packing: self.packing, rest: &self.data }
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
pub(crate) struct Items<'b> {
    packing: Packing,
    rest: &'b [u8],
}

impl<'b> Iterator for Items<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        match self.packing {
            Packing::Lines => {
                let end = memchr::memchr(b'\n', self.rest).unwrap_or(self.rest.len());
                let (item, rest) = self.rest.split_at_checked(end)?;
                self.rest = rest.get(1..).unwrap_or_default();
                Some(item)
            }
            Packing::Prefixed => {
                let (length, rest) = self.rest.split_first_chunk::<4>()?;
                let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
                let (item, rest) = rest.split_at_checked(length)?;
                self.rest = rest;
                Some(item)
            }
        }
    }
}

impl<'b> IntoIterator for &'b Batch {
    type Item = &'b [u8];
    type IntoIter = Items<'b>;

    fn into_iter(self) -> Items<'b> {
        self.iter()
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
