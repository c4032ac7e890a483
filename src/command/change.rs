//! What changing a filter came to, and putting it under the key.

use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::keyspace::OpenKey;
use crate::bloom::Filter;

/// What acting on a key came to.
#[derive(Debug)]
pub(super) struct Change<'a, T> {
    /// What is to be replied.
    pub(super) answer: T,
    /// A complete filter to put under the key, in place of what is there.
    pub(super) publish: Option<Box<Filter>>,
    /// What is left to do for the host.
    pub(super) effects: Effects<'a>,
}

impl Change<'_, ()> {
    /// A filter that was made elsewhere comes as the client sent it.
    pub(super) fn received(filter: Option<Box<Filter>>) -> Self {
        let effects =
            Effects { replication: Replication::Verbatim, created: filter.is_some(), ..Effects::default() };
        Self { answer: (), publish: filter, effects }
    }
}

/// Puts the new filter under its key, or says there what has changed, if that is what acting on the key came to. An error
/// leaves the key as it was.
///
/// # Errors
/// [`CommandError::Internal`].
#[inline(always)]
pub(super) fn publish<'a, T>(
    key: &mut impl OpenKey,
    change: Change<'a, T>,
) -> Result<(T, Effects<'a>), CommandError> {
    let Change { answer, publish, effects } = change;
    match publish {
        Some(filter) => key.publish(filter)?,
        None if effects.replication == Replication::None => {}
        None => key.changed(effects.items_added),
    }
    Ok((answer, effects))
}
