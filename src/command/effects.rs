//! What a change asks of the host after it has acted: always last, never on an error.

use std::borrow::Cow;

use crate::bloom::Chain;

/// What replicas and the append-only file are to do to come to the same filter.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Replication<'a> {
    /// Nothing changed: nothing is sent, no key is signalled.
    #[default]
    None,
    /// The command as the client sent it.
    Verbatim,
    /// Another command that spells out what happened.
    Rewritten {
        /// Name of the command.
        command: &'static str,
        /// Its arguments, the key first.
        arguments: Vec<Cow<'a, [u8]>>,
    },
}

/// What the host carries out after a change, in the order of the fields.
#[derive(Debug, Default)]
pub struct Effects<'a> {
    /// A complete filter to put under the key, in place of what is there.
    pub publish: Option<Chain>,
    /// What is replicated. The key counts as modified exactly when this is not [`Replication::None`].
    pub replication: Replication<'a>,
    /// Whether to notify `bloom.reserve`: a filter was created.
    pub created: bool,
    /// Items added; if any, `bloom.add` is notified.
    pub items_added: u64,
}
