//! A packed batch: its grammar, and the check that comes before all else.

use std::borrow::Cow;

use super::packing::{Groups, Packing, Unpacking};
use crate::command::arguments::Arguments;
use crate::command::effects::Line;
use crate::command::error::CommandError;
use crate::command::number::parse_integer;

/// The items of a command, packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    /// How they are packed.
    packing: Packing,
    /// The words that say so, which follow the key in a command.
    words: Words<'a>,
    /// All of them.
    data: &'a [u8],
    /// How many there are.
    items: usize,
}

/// The words of a packing.
#[derive(Clone, Copy, Debug)]
enum Words<'a> {
    One(&'static [u8]),
    Two(&'static [u8], &'a [u8]),
}

impl<'a> Batch<'a> {
    /// Reads `word` and all that follows it as a batch, and counts its items. O(bytes).
    ///
    /// # Errors
    /// A word that is no packing, a length that is none, and data that ends within an item.
    pub(super) fn parse(word: &[u8], arguments: &mut Arguments<'a>) -> Result<Self, CommandError> {
        let (packing, words) = if word.eq_ignore_ascii_case(b"LINES") {
            (Packing::Lines, Words::One(b"LINES"))
        } else if word.eq_ignore_ascii_case(b"FIXED") {
            let bytes = arguments.required()?;
            let length = parse_integer(bytes).and_then(|length| usize::try_from(length).ok());
            let item_bytes = length.filter(|length| *length > 0).ok_or(CommandError::BatchItemBytes)?;
            (Packing::Fixed { item_bytes }, Words::Two(b"FIXED", bytes))
        } else if word.eq_ignore_ascii_case(b"PREFIXED") {
            (Packing::Prefixed, Words::One(b"PREFIXED"))
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

    /// Bytes of the packed items.
    pub(super) fn size_bytes(&self) -> usize {
        self.data.len()
    }

    /// The items in turn.
    pub(super) fn unpack(&self) -> Unpacking<'a> {
        Unpacking::new(self.packing, self.data)
    }

    /// The items in turn, a group at a time.
    pub(super) fn groups(&self) -> Groups<'a> {
        Groups::new(self.unpack())
    }

    /// Packs one more item behind others, as this batch is packed.
    pub(super) fn pack(&self, item: &[u8], data: &mut Vec<u8>) {
        if self.packing == Packing::Prefixed {
            // An item comes from a batch, where its length had room.
            data.extend_from_slice(&u32::try_from(item.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        data.extend_from_slice(item);
        if self.packing == Packing::Lines {
            data.push(b'\n');
        }
    }

    /// The command that adds all items to the filter under `key`, which must exist.
    pub(super) fn line(&self, key: &'a [u8]) -> Line<'a> {
        self.line_of(key, Cow::Borrowed(self.data))
    }

    /// The command that adds those of the items that `data` has.
    pub(super) fn line_of(&self, key: &'a [u8], data: Cow<'a, [u8]>) -> Line<'a> {
        let words = match self.words {
            Words::One(word) => [Some(word), None],
            Words::Two(first, second) => [Some(first), Some(second)],
        };
        let words = words.into_iter().flatten().map(Cow::Borrowed);
        let head = std::iter::once(Cow::Borrowed(key)).chain(words);
        Line { command: "BF.BULKADD", arguments: head.chain([data]).collect() }
    }
}
