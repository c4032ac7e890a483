//! BF.BULKEXISTS.

use super::answers::{self, NO, Wanted, YES};
use super::batch::Batch;
use crate::bloom::{Filter, ItemSet, Prefetch};
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
    match (key.slot().present()?, wanted) {
        (Some(filter), Wanted::Count) => {
            let count = |found: ItemSet, _| items_found = items_found.saturating_add(found.count_ones());
            filter.contains_stream(&mut batch.unpack(), keyspace.prefetch(), count);
            reply.integer(items_found.into());
        }
        (Some(filter), Wanted::Characters) => {
            let mut characters = answers::room(batch.items())?;
            items_found = contains(filter, &batch, keyspace.prefetch(), &mut characters);
            reply.bulk(&characters);
        }
        (None, _) => {
            let character = if missing(keyspace)? { YES } else { NO };
            let mut characters = answers::room(batch.items())?;
            characters.resize(batch.items(), character);
            answers::write(&characters, wanted, reply);
        }
    }
    Ok(Effects::of_checks(batch.items(), items_found))
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

/// Appends a character per item; answers how many were found.
fn contains(filter: &Filter, batch: &Batch<'_>, prefetch: impl Prefetch, characters: &mut Vec<u8>) -> u32 {
    let mut items_found = 0u32;
    filter.contains_stream(&mut batch.unpack(), prefetch, |found, items| {
        items_found = items_found.saturating_add(found.count_ones());
        characters.extend((0..items).map(|index| NO | u8::from(found >> index & 1 == 1)));
    });
    items_found
}
