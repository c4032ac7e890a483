//! What a command asks of the host after it has acted: always last, never on an error.

use std::borrow::Cow;

/// A command that is sent to replicas and to the append-only file.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Name of the command.
    pub command: &'static str,
    /// Its arguments, the key first.
    pub arguments: Vec<Cow<'a, [u8]>>,
}

impl<'a> Line<'a> {
    /// The command that adds `items` to the filter under `key`. `room` is empty; its memory is used.
    #[must_use]
    pub fn add(
        key: &'a [u8],
        items: impl Iterator<Item = Cow<'a, [u8]>>,
        mut room: Vec<Cow<'a, [u8]>>,
    ) -> Self {
        room.push(Cow::Borrowed(key));
        room.extend(items);
        Self { command: "BF.MADD", arguments: room }
    }

    /// The command that deletes `items` from the filter under `key`. `room` is empty; its memory is used.
    #[must_use]
    pub fn delete(
        key: &'a [u8],
        items: impl Iterator<Item = Cow<'a, [u8]>>,
        room: Vec<Cow<'a, [u8]>>,
    ) -> Self {
        Self { command: "BF.DEL", ..Self::add(key, items, room) }
    }
}

/// What replicas and the append-only file are to do to come to the same filter.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Replication<'a> {
    /// Nothing changed: nothing is sent, no key is signalled.
    #[default]
    None,
    /// The command as the client sent it.
    Verbatim,
    /// Other commands, which spell out what happened.
    Rewritten(Vec<Line<'a>>),
}

/// What the host carries out after a command, in the order of the fields. The key is the command's first.
#[derive(Debug, Default)]
pub struct Effects<'a> {
    /// What is replicated. The key counts as modified exactly when this is not [`Replication::None`].
    pub replication: Replication<'a>,
    /// Whether to notify `bloom.reserve`: a filter was created.
    pub created: bool,
    /// Whether to notify `bloom.clear`: the filter was emptied.
    pub cleared: bool,
    /// Whether to notify `expire`: the filter was given a time to live.
    pub expires: bool,
    /// Whether to notify `bloom.merge`: other filters were merged into the filter.
    pub merged: bool,
    /// Items added; if any, `bloom.add` is notified.
    pub items_added: u64,
    /// Items deleted; if any, `bloom.del` is notified.
    pub items_deleted: u64,
    /// Layers that the filter has grown by; if any, `bloom.grow` is notified, and the log may be told
    /// ([`growth_line`](super::growth_line)).
    pub layers_added: u32,
    /// Items that were to be added and were there already, or seemed to be; for the statistics, as what
    /// follows.
    pub items_known: u32,
    /// Items that were to be added and found no room, or are none of the filter's.
    pub items_refused: u32,
    /// Items asked for that may be there.
    pub items_found: u32,
    /// Items asked for that are not.
    pub items_missed: u32,
}

impl Effects<'_> {
    /// Of a command that asked for so many items and found so many of them.
    #[must_use]
    #[inline(always)]
    pub fn of_checks(items: usize, items_found: u32) -> Self {
        Self { items_found, items_missed: count_of(items).saturating_sub(items_found), ..Self::default() }
    }
}

/// A number of arguments: a server takes no more than fit.
pub(super) fn count_of(arguments: usize) -> u32 {
    u32::try_from(arguments).unwrap_or(u32::MAX)
}
