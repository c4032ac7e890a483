//! The command that unites filters: BF.MERGE.

use super::parts::{CHANGES, MANY, V0_2, argument, option};
use super::{ArgumentKind, ArgumentSpec, CommandSpec, Presence, SourceKeys};

pub(super) static MERGE: CommandSpec = CommandSpec {
    name: "bf.merge",
    arguments: 2..=MANY,
    // The server finds the first key by its specification, and asks the module for the others, of which the
    // last may be none.
    flags: "write deny-oom getkeys-api",
    source_keys: SourceKeys::Rest { position: 2, last_word: "FORCE" },
    since: V0_2,
    complexity: "O(n), where n is the number of bytes of all filters",
    summary: "Unites filters: the destination answers yes for whatever any of them does",
    syntax: &[
        argument("dest", ArgumentKind::Key),
        ArgumentSpec {
            name: "source",
            kind: ArgumentKind::SourceKey,
            token: None,
            presence: Presence::Repeated,
            since: None,
        },
        option("force", "FORCE", ArgumentKind::PureToken),
    ],
    ..CHANGES
};
