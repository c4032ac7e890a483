//! What is replied to a batch: a character per item, or how many are 1.

use crate::command::error::CommandError;
use crate::command::reply::Reply;

/// Of an item that was added or found.
pub(super) const YES: u8 = b'1';
/// Of an item that was there already, or was not found.
pub(super) const NO: u8 = b'0';
/// Of an item that was refused.
pub(super) const REFUSED: u8 = b'!';

/// What a client asked to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A character for each item.
    Characters,
    /// How many of them are [`YES`].
    Count,
}

/// Room for so many characters.
///
/// # Errors
/// [`CommandError::OutOfMemory`].
pub(super) fn room(bytes: usize) -> Result<Vec<u8>, CommandError> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| CommandError::OutOfMemory)?;
    Ok(room)
}

/// Replies what was wanted of these characters.
pub(super) fn write(characters: &[u8], wanted: Wanted, reply: &mut impl Reply) {
    match wanted {
        Wanted::Characters => reply.bulk(characters),
        Wanted::Count => reply.integer(memchr::memchr_iter(YES, characters).count() as u64),
    }
}
