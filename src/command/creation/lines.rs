//! How the making of a filter is replicated.

use std::borrow::Cow;

use crate::bloom::Growth;
use crate::command::effects::Line;

/// How the making of a filter is spelt out for replicas and the append-only file, so that one with another
/// configuration makes the same filter.
#[derive(Debug)]
pub struct Creation {
    /// The command that makes the filter.
    pub command: &'static str,
    /// What follows the key.
    pub words: Vec<Cow<'static, [u8]>>,
    /// Whether the command adds the items too.
    pub takes_items: bool,
}

impl Creation {
    /// The commands that make the filter under `key` and add `items` to it. `room` is empty; its memory is
    /// used.
    #[must_use]
    pub fn lines<'a>(
        self,
        key: &'a [u8],
        items: impl Iterator<Item = Cow<'a, [u8]>>,
        mut room: Vec<Cow<'a, [u8]>>,
    ) -> Vec<Line<'a>> {
        let head = std::iter::once(Cow::Borrowed(key)).chain(self.words);
        let mut items = items.peekable();
        if !self.takes_items {
            let mut lines = vec![Line { command: self.command, arguments: head.collect() }];
            if items.peek().is_some() {
                lines.push(Line::add(key, items, room));
            }
            return lines;
        }
        room.extend(head);
        // Without items BF.INSERT only makes the filter.
        if items.peek().is_some() {
            room.push(word("ITEMS"));
            room.extend(items);
        }
        vec![Line { command: self.command, arguments: room }]
    }
}

/// The words that spell a growth out.
pub(in crate::command) fn growth_words(growth: Growth) -> impl Iterator<Item = Cow<'static, [u8]>> {
    let (name, more) = match growth {
        Growth::Fixed => ("NONSCALING", None),
        Growth::Saturating => ("NONSCALING", Some(word("SATURATE"))),
        Growth::Scaling { expansion } => ("EXPANSION", Some(number(expansion))),
    };
    std::iter::once(word(name)).chain(more)
}

pub(in crate::command) fn word(text: &'static str) -> Cow<'static, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

/// A number as an argument; for a float the shortest text that reads back as the same bits.
pub(in crate::command) fn number(number: impl std::fmt::Display) -> Cow<'static, [u8]> {
    Cow::Owned(number.to_string().into_bytes())
}
