//! How items are packed, and cutting a batch into its items, a few at a time.

use memchr::memchr_iter;

use super::newlines::Lines;
use crate::bloom::{GROUP_ITEMS, Items};

/// How items lie one behind the other in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Each ends with a newline, which the last may lack.
    Lines,
    /// All have the same length.
    Fixed {
        /// Bytes of an item, at least one.
        item_bytes: usize,
    },
    /// Each stands behind its length, four bytes, the lowest first.
    Prefixed,
}

impl Packing {
    /// How many items `data` holds; nothing where it ends within one. O(bytes).
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

/// What is left of a batch, which is whole.
#[derive(Clone, Debug)]
pub(super) enum Unpacking<'a> {
    Lines(Lines<'a>),
    Fixed { item_bytes: usize, rest: &'a [u8] },
    Prefixed { rest: &'a [u8] },
}

impl<'a> Unpacking<'a> {
    /// The items of `data`, which was found to be whole.
    pub(super) fn new(packing: Packing, data: &'a [u8]) -> Self {
        match packing {
            Packing::Lines => Self::Lines(Lines::new(data)),
            Packing::Fixed { item_bytes } => Self::Fixed { item_bytes, rest: data },
            Packing::Prefixed => Self::Prefixed { rest: data },
        }
    }
}

impl<'a> Unpacking<'a> {
    /// Writes where the next items are to the front of `room`; answers how many. Fewer than there is room for
    /// only where no more follow.
    #[inline(always)]
    fn next_few(&mut self, room: &mut [&'a [u8]]) -> usize {
        match self {
            Self::Lines(lines) => lines.next_few(room),
            Self::Fixed { item_bytes, rest } => fill(room, rest, |rest| rest.split_at_checked(*item_bytes)),
            Self::Prefixed { rest } => fill(room, rest, split_prefixed),
        }
    }
}

/// The items of a batch, a group at a time.
#[derive(Clone, Debug)]
pub(super) struct Groups<'a> {
    rest: Unpacking<'a>,
    room: [&'a [u8]; GROUP_ITEMS],
}

impl<'a> Groups<'a> {
    /// All that `rest` has.
    pub(super) fn new(rest: Unpacking<'a>) -> Self {
        Self { rest, room: [&[]; GROUP_ITEMS] }
    }
}

impl<'a> Items<'a> for Groups<'a> {
    fn next_few(&mut self) -> &[&'a [u8]] {
        let count = self.rest.next_few(&mut self.room);
        self.room.get(..count).unwrap_or_default()
    }
}

/// Cuts items off `rest` until the room is full or nothing is left.
#[inline(always)]
fn fill<'a>(
    room: &mut [&'a [u8]],
    rest: &mut &'a [u8],
    split: impl Fn(&'a [u8]) -> Option<(&'a [u8], &'a [u8])>,
) -> usize {
    let mut found = 0;
    for place in room {
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

/// The item that data packed with lengths begins with, and what follows it; nothing where it is torn.
#[inline(always)]
fn split_prefixed(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}
