//! BF.FOLLOW: what was added to a filter since a position, for copies of the filter elsewhere.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, ReadKey, Reply};
use super::number::parse_integer;
use super::options::is_named;
use super::rings::{FollowChanges, FollowPosition, POSITION_END};
use super::spare::Spare;

/// The most records of a reply without COUNT: 1.1 MB.
const DEFAULT_RECORDS: usize = 65_536;

/// BF.FOLLOW: `key [id offset] [COUNT n]`. Replies the position now if none is given. Otherwise replies the position
/// after the records that follow it, and the records; if the position is unknown or too old, the position now and
/// null. Changes only what the server keeps for followers. O(records).
///
/// # Errors
/// The key has no filter, or another type, or an argument is bad. Nothing was replied.
pub(super) fn follow<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, wrong_arity) = (arguments.key()?, arguments.wrong_arity());
    let (position, most_records) = match arguments.rest() {
        [] => (None, DEFAULT_RECORDS),
        [word, count] if is_named("COUNT", word) => (None, count_of(count)?),
        [id, offset] => (Some(position_of(id, offset)?), DEFAULT_RECORDS),
        [id, offset, word, count] if is_named("COUNT", word) => {
            (Some(position_of(id, offset)?), count_of(count)?)
        }
        _ => return Err(wrong_arity),
    };
    let mut key = keyspace.open_to_read(key);
    key.slot().required()?;
    let Some(position) = position else {
        let now = key.position()?;
        reply.array(2);
        reply.integer(now.id);
        reply.integer(now.offset);
        return Ok(Effects::default());
    };
    match key.changes(position, most_records)? {
        FollowChanges::Since(offset, records) => {
            Spare::for_copy(records.len())?.free();
            reply.array(3);
            reply.integer(position.id);
            reply.integer(offset);
            reply.bulk(&records);
        }
        FollowChanges::Lost => {
            let now = key.position()?;
            reply.array(3);
            reply.integer(now.id);
            reply.integer(now.offset);
            reply.null();
        }
    }
    Ok(Effects::default())
}

fn position_of(id: &[u8], offset: &[u8]) -> Result<FollowPosition, CommandError> {
    let number = |text| {
        let number = parse_integer(text).and_then(|number| u64::try_from(number).ok());
        number.filter(|number| *number < POSITION_END).ok_or(CommandError::FollowPosition)
    };
    Ok(FollowPosition { id: number(id)?, offset: number(offset)? })
}

/// Returns the most records that a client wants. No ring has more than `usize::MAX`.
fn count_of(text: &[u8]) -> Result<usize, CommandError> {
    let count = parse_integer(text).and_then(|count| usize::try_from(count).ok());
    count.filter(|count| *count > 0).ok_or(CommandError::FollowCount)
}
