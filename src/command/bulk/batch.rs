//! A packed batch: its packing, the check of the whole batch, and its items in order.

use std::borrow::Cow;

use memchr::memchr_iter;

use super::newlines::Lines;
use crate::bloom::{GROUP_ITEMS, ItemSource};
use crate::command::arguments::Arguments;
use crate::command::error::CommandError;
use crate::command::number::parse_integer;
use crate::command::replicated::ReplicatedCommand;

/// A well-formed packed batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    /// How the items are packed.
    packing: Packing,
    /// The word of the packing, and its argument.
    words: [Option<&'a [u8]>; 2],
    /// The packed items.
    data: &'a [u8],
    /// The number of items.
    items: usize,
}

impl<'a> Batch<'a> {
    /// Reads `word` and all arguments after it as a batch, and counts its items. O(bytes).
    ///
    /// # Errors
    /// An unknown packing, a bad length, or data that ends in the middle of an item.
    pub(super) fn parse(word: &[u8], arguments: &mut Arguments<'a>) -> Result<Self, CommandError> {
        let (packing, words) = if word.eq_ignore_ascii_case(b"LINES") {
            (Packing::Lines, [Some(&b"LINES"[..]), None])
        } else if word.eq_ignore_ascii_case(b"FIXED") {
            let bytes = arguments.required()?;
            let length = parse_integer(bytes).and_then(|length| usize::try_from(length).ok());
            let item_bytes = length.filter(|length| *length > 0).ok_or(CommandError::BatchItemBytes)?;
            (Packing::Fixed { item_bytes }, [Some(&b"FIXED"[..]), Some(bytes)])
        } else if word.eq_ignore_ascii_case(b"PREFIXED") {
            (Packing::Prefixed, [Some(&b"PREFIXED"[..]), None])
        } else {
            return Err(CommandError::BatchPacking);
        };
        let data = arguments.required()?;
        if arguments.optional().is_some() {
            return Err(CommandError::Syntax);
        }
        let items = packing.items(data).ok_or(CommandError::BatchTorn)?;
        Ok(Self { packing, words, data, items })
    }

    /// Returns the number of items.
    pub(super) fn item_count(&self) -> usize {
        self.items
    }

    /// Returns the packed items.
    pub(super) fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the items in order.
    pub(super) fn unpack(&self) -> Unpacking<'a> {
        Unpacking::new(self.packing, self.data)
    }

    /// Returns the items in order, a group at a time.
    pub(super) fn groups(&self) -> Groups<'a> {
        Groups { rest: self.unpack(), places: [&[]; GROUP_ITEMS] }
    }

    /// Appends an item of this batch to `data`, in the same packing.
    pub(super) fn pack(&self, item: &[u8], data: &mut Vec<u8>) {
        if self.packing == Packing::Prefixed {
            // The length fits, because it was read from four bytes.
            data.extend_from_slice(&u32::try_from(item.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        data.extend_from_slice(item);
        if self.packing == Packing::Lines {
            data.push(b'\n');
        }
    }

    /// Returns the command that adds the items in `data`, in the packing of this batch, to the filter under `key`,
    /// which must exist.
    pub(super) fn command(&self, key: &'a [u8], data: Cow<'a, [u8]>) -> ReplicatedCommand<'a> {
        let words = self.words.into_iter().flatten().map(Cow::Borrowed);
        let head = std::iter::once(Cow::Borrowed(key)).chain(words);
        ReplicatedCommand { command: "BF.BULKADD", arguments: head.chain([data]).collect() }
    }
}

/// The packings of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Each item ends with a newline. The last one may be missing.
    Lines,
    /// All items have the same length.
    Fixed {
        /// Bytes of an item, at least one.
        item_bytes: usize,
    },
    /// Each item follows its length, four bytes, little-endian.
    Prefixed,
}

impl Packing {
    /// Returns the number of items in `data`; `None` if it ends in the middle of one. O(bytes).
    pub(super) fn items(self, data: &[u8]) -> Option<usize> {
        match self {
            Self::Lines => {
                let has_open_line = data.last().is_some_and(|last| *last != b'\n');
                Some(memchr_iter(b'\n', data).count().saturating_add(has_open_line.into()))
            }
            Self::Fixed { item_bytes } => {
                data.len().is_multiple_of(item_bytes).then(|| data.len().checked_div(item_bytes)).flatten()
            }
            Self::Prefixed => {
                let (mut items, mut rest) = (0usize, data);
                while !rest.is_empty() {
                    rest = split_prefixed(rest)?.1;
                    items = items.saturating_add(1);
                }
                Some(items)
            }
        }
    }
}

/// The remaining items of a well-formed batch.
#[derive(Clone, Debug)]
pub(super) enum Unpacking<'a> {
    Lines(Lines<'a>),
    Fixed { item_bytes: usize, rest: &'a [u8] },
    Prefixed { rest: &'a [u8] },
}

impl<'a> Unpacking<'a> {
    /// Returns the items of `data`, which must be well-formed.
    fn new(packing: Packing, data: &'a [u8]) -> Self {
        match packing {
            Packing::Lines => Self::Lines(Lines::new(data)),
            Packing::Fixed { item_bytes } => Self::Fixed { item_bytes, rest: data },
            Packing::Prefixed => Self::Prefixed { rest: data },
        }
    }

    /// Writes the next items to the front of `places`. Returns their number, which is smaller than that of `places`
    /// only at the end.
    #[inline(always)]
    fn next_few(&mut self, places: &mut [&'a [u8]]) -> usize {
        match self {
            Self::Lines(lines) => lines.next_few(places),
            Self::Fixed { item_bytes, rest } => fill(places, rest, |rest| rest.split_at_checked(*item_bytes)),
            Self::Prefixed { rest } => fill(places, rest, split_prefixed),
        }
    }
}

/// The items of a batch, a group at a time.
#[derive(Clone, Debug)]
pub(super) struct Groups<'a> {
    rest: Unpacking<'a>,
    places: [&'a [u8]; GROUP_ITEMS],
}

impl<'a> ItemSource<'a> for Groups<'a> {
    fn next_few(&mut self) -> &[&'a [u8]] {
        let count = self.rest.next_few(&mut self.places);
        self.places.get(..count).unwrap_or_default()
    }
}

/// Takes items from `rest` until all places are filled or nothing is left. Returns the number of items.
#[inline(always)]
fn fill<'a>(
    places: &mut [&'a [u8]],
    rest: &mut &'a [u8],
    split: impl Fn(&'a [u8]) -> Option<(&'a [u8], &'a [u8])>,
) -> usize {
    let mut found = 0;
    for place in places {
        if rest.is_empty() {
            break;
        }
        let Some((item, others)) = split(rest) else { break };
        (*place, *rest) = (item, others);
        found += 1;
    }
    found
}

impl<'a> Iterator for Unpacking<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut one: [&[u8]; 1] = [&[]];
        let found = self.next_few(&mut one);
        one.first().copied().filter(|_| found == 1)
    }
}

/// Returns the first item of data with length prefixes, and the data after it; `None` if the data ends in the middle
/// of it.
#[inline(always)]
fn split_prefixed(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}
