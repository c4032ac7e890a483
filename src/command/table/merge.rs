//! The command that unites filters: BF.MERGE.

use super::parts::{CHANGES, MANY, V0_2, argument, optional_word};
use super::{ArgumentKind, ArgumentSpec, CommandSpec, Presence};

pub(super) static MERGE: CommandSpec = CommandSpec {
    name: "bf.merge",
    arguments: 2..=MANY,
    since: V0_2,
    complexity: "O(n), where n is the number of bytes of all filters",
    summary: "Unites filters: the destination answers yes for whatever any of them does",
    syntax: &[
        argument("dest", ArgumentKind::Key),
        ArgumentSpec { presence: Presence::Repeated, ..argument("source", ArgumentKind::String) },
        optional_word("force", "FORCE"),
    ],
    ..CHANGES
};
