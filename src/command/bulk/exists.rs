//! BF.BULKEXISTS.

use super::answers::{self, NO, Wanted};
use super::batch::Batch;
use crate::command::arguments::Arguments;
use crate::command::effects::Effects;
use crate::command::error::CommandError;
use crate::command::exists::missing;
use crate::command::keyspace::{Keyspace, OpenKey};
use crate::command::reply::Reply;
use crate::command::table::KeyAccess;

/// BF.BULKEXISTS: `key [COUNT] LINES data | FIXED bytes data | PREFIXED data`. O(bytes + items * layers * probes).
///
/// # Errors
/// What the command is refused for; nothing has been replied then.
pub(in crate::command) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let (wanted, batch) = parse(arguments)?;
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let mut items_found = 0u32;
    let room_items = if wanted == Wanted::Characters { batch.item_count() } else { 0 };
    let mut characters = answers::room(room_items)?;
    match key.slot().present()? {
        Some(filter) => {
            filter.contains_items(&mut batch.groups(), keyspace.prefetch(), &mut |found, items| {
                items_found = items_found.saturating_add(found.count_ones());
                if wanted == Wanted::Characters {
                    characters.extend((0..items).map(|index| NO | u8::from(found >> index & 1 == 1)));
                }
            })
        }
        None => characters.resize(room_items, NO | u8::from(missing(keyspace)?)),
    }
    match wanted {
        Wanted::Characters => reply.bulk(&characters),
        Wanted::Count => reply.integer(items_found.into()),
    }
    Ok(Effects::of_checks(batch.item_count(), items_found))
}

fn parse<'a>(mut arguments: Arguments<'a>) -> Result<(Wanted, Batch<'a>), CommandError> {
    let mut wanted = Wanted::Characters;
    loop {
        let word = arguments.required()?;
        if word.eq_ignore_ascii_case(b"COUNT") {
            wanted = Wanted::Count;
        } else {
            return Ok((wanted, Batch::parse(word, &mut arguments)?));
        }
    }
}
