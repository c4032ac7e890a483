//! What changing a filter came to, and putting it under the key.

use super::effects::{Effects, Line, Replication};
use super::error::CommandError;
use super::expiry;
use super::keyspace::{Name, OpenKey};
use crate::bloom::Filter;

/// What acting on a key came to.
#[derive(Debug)]
pub(super) struct Change<'a, T> {
    /// What is to be replied.
    pub(super) answer: T,
    /// A complete filter to put under the key, in place of what is there.
    pub(super) publish: Option<Box<Filter>>,
    /// When that filter is to expire, in milliseconds of UNIX time.
    pub(super) expires_at_ms: Option<u64>,
    /// What is left to do for the host.
    pub(super) effects: Effects<'a>,
}

impl<'a> Change<'a, ()> {
    /// A filter that was made, and the commands that make it elsewhere.
    pub(super) fn made(filter: Box<Filter>, lines: Vec<Line<'a>>) -> Self {
        let effects =
            Effects { replication: Replication::Rewritten(lines), created: true, ..Effects::default() };
        Self { answer: (), publish: Some(filter), expires_at_ms: None, effects }
    }

    /// A filter, or a part of one, that came as it was made elsewhere.
    pub(super) fn received(filter: Option<Box<Filter>>) -> Self {
        let effects =
            Effects { replication: Replication::Verbatim, created: filter.is_some(), ..Effects::default() };
        Self { answer: (), publish: filter, expires_at_ms: None, effects }
    }
}

impl<T> Change<'_, T> {
    /// The change with a moment at which the new filter expires.
    pub(super) fn expiring(self, at_ms: Option<u64>) -> Self {
        Self { expires_at_ms: at_ms, ..self }
    }
}

/// Puts the new filter under its key, or says there what has changed, if that is what acting on the key
/// came to. An error leaves the key as it was.
///
/// # Errors
/// [`CommandError::Internal`].
#[inline(always)]
pub(super) fn publish<'a, T>(
    key: &mut impl OpenKey,
    name: Name<'a>,
    change: Change<'a, T>,
) -> Result<(T, Effects<'a>), CommandError> {
    let Change { answer, publish, expires_at_ms, mut effects } = change;
    match publish {
        Some(filter) => {
            key.publish(filter)?;
            if let Some(at_ms) = expires_at_ms {
                key.expire_at(at_ms);
                effects.expires = true;
                if let Replication::Rewritten(lines) = &mut effects.replication {
                    lines.push(expiry::line(name.bytes, at_ms));
                }
            }
        }
        None if effects.replication == Replication::None => {}
        None => effects.layers_added = key.changed(effects.items_added),
    }
    Ok((answer, effects))
}
