//! Packed batches, with all items in one argument: BF.BULKADD and BF.BULKEXISTS.

mod batch;
mod newlines;

use std::borrow::Cow;

use self::batch::Batch;
use super::adding::{Adds, add_items, check_auto_create};
use super::arguments::Arguments;
use super::effects::{Effects, publish};
use super::error::CommandError;
use super::exists::missing;
use super::keyspace::{Host, KeyValue, Keyspace, OpenKey};
use super::memory::{Spare, byte_buffer};
use super::options::CreationOptions;
use super::outcomes::Outcomes;
use super::replicated::{Creation, ReplicatedCommand};
use super::reply::Reply;
use super::table::{Command, KeyAccess};
use crate::bloom::ItemSource;

/// BF.BULKADD: `key [NOCREATE] [COUNT] LINES data | FIXED bytes data | PREFIXED data`. O(bytes + items * layers *
/// probes).
///
/// # Errors
/// The batch is malformed, or the filter does not exist and cannot be created. Nothing has changed, and nothing was
/// replied.
pub(super) fn add<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let Bulk { batch, requested, no_create } = Bulk::parse(arguments)?;
    let spare = requested.spare(&batch, keyspace)?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let slot = open.slot();
    if matches!(slot, KeyValue::Vacant) {
        if no_create {
            return Err(CommandError::NotFound);
        }
        check_auto_create(&slot, keyspace)?;
        // Without items no filter is created.
        if batch.item_count() == 0 {
            requested.write(&[], spare, reply);
            return Ok(Effects::default());
        }
        // An everbloom primary replicates the creation of the filter before the batch.
        if keyspace.is_replicated() {
            return Err(CommandError::LostFilter);
        }
    }
    let options = CreationOptions::default();
    let change = add_items(key.bytes, &batch, &options, slot, keyspace, keyspace.prefetch())?;
    let (outcomes, effects) = publish(&mut open, key, change)?;
    requested.write(&outcomes.into_characters(REFUSED), spare, reply);
    Ok(effects)
}

/// The arguments of BF.BULKADD and BF.BULKEXISTS after the key.
struct Bulk<'a> {
    batch: Batch<'a>,
    requested: Requested,
    /// NOCREATE of BF.BULKADD: it is an error if the filter does not exist.
    no_create: bool,
}

impl<'a> Bulk<'a> {
    fn parse(mut arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let (mut requested, mut no_create) = (Requested::Characters, false);
        loop {
            let word = arguments.required()?;
            if word.eq_ignore_ascii_case(b"COUNT") {
                requested = Requested::Count;
            } else if word.eq_ignore_ascii_case(b"NOCREATE") && arguments.command() == Command::BulkAdd {
                no_create = true;
            } else {
                return Ok(Self { batch: Batch::parse(word, &mut arguments)?, requested, no_create });
            }
        }
    }
}

impl<'a> Adds<'a> for Batch<'a> {
    /// Items after a refused one are still processed: a full filter refuses new items, but an item that it has gets
    /// the outcome 0.
    const ENDS_WHEN_FULL: bool = false;
    /// Memory for the items that are replicated if some are refused, and for the server's copy of them.
    type Buffer = (Vec<u8>, Spare);

    fn count(&self) -> usize {
        self.item_count()
    }

    fn items(&self) -> impl ItemSource<'a> {
        self.groups()
    }

    fn buffer(&self) -> Result<Self::Buffer, CommandError> {
        // The last line may have no newline, so one more byte is needed.
        let bytes = self.data().len().saturating_add(1);
        Ok((byte_buffer(bytes)?, Spare::for_copy(bytes)?))
    }

    /// If the items have a time, the first added item is replicated separately with the time, and the batch without
    /// it.
    fn replicated(
        &self,
        key: &'a [u8],
        creation: Option<Creation>,
        at_ms: Option<u64>,
        outcomes: &Outcomes,
        (mut buffer, spare): Self::Buffer,
    ) -> Vec<ReplicatedCommand<'a>> {
        spare.free();
        let mut commands =
            creation.map_or_else(Vec::new, |creation| creation.commands(key, std::iter::empty(), Vec::new()));
        if let Some(at_ms) = at_ms {
            let first = outcomes.added(self.unpack()).map(Cow::Borrowed).take(1);
            commands.push(ReplicatedCommand::add_at(key, at_ms, first, Vec::new()));
        }
        if outcomes.items_refused > 0 && outcomes.items_added > 0 {
            outcomes.added(self.unpack()).for_each(|item| self.pack(item, &mut buffer));
            commands.push(self.command(key, Cow::Owned(buffer)));
        } else if outcomes.items_added > 0 {
            commands.push(self.command(key, Cow::Borrowed(self.data())));
        }
        commands
    }
}

/// BF.BULKEXISTS: `key [COUNT] LINES data | FIXED bytes data | PREFIXED data`. O(bytes + items * layers * probes).
///
/// # Errors
/// The command is refused. Nothing was replied.
pub(super) fn exists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let Bulk { batch, requested, .. } = Bulk::parse(arguments)?;
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let mut items_found = 0u32;
    let count = if requested == Requested::Characters { batch.item_count() } else { 0 };
    let (mut characters, spare) = (byte_buffer(count)?, requested.spare(&batch, keyspace)?);
    match key.slot().present()? {
        Some(filter) => {
            filter.contains_items(&mut batch.groups(), keyspace.prefetch(), &mut |found, items| {
                items_found = items_found.saturating_add(found.count_ones());
                if requested == Requested::Characters {
                    characters.extend((0..items).map(|index| NO | u8::from(found >> index & 1 == 1)));
                }
            })
        }
        None => characters.resize(count, NO | u8::from(missing(keyspace)?)),
    }
    match requested {
        Requested::Characters => requested.write(&characters, spare, reply),
        Requested::Count => reply.integer(items_found.into()),
    }
    Ok(Effects::of_checks(batch.item_count(), items_found))
}

/// The character of an item that was added or found.
const YES: u8 = b'1';
/// The character of an item that was present already, or was not found.
const NO: u8 = b'0';
/// The character of an item that was refused.
const REFUSED: u8 = b'!';

/// The form of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requested {
    /// A character for each item.
    Characters,
    /// The number of characters that are [`YES`].
    Count,
}

impl Requested {
    /// Returns memory for the server's copy of the reply.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`].
    fn spare(self, batch: &Batch<'_>, host: &dyn Host) -> Result<Spare, CommandError> {
        match self {
            Self::Characters => Spare::for_reply(batch.item_count(), host),
            Self::Count => Ok(Spare::default()),
        }
    }

    /// Replies the characters, or their count.
    fn write(self, characters: &[u8], spare: Spare, reply: &mut impl Reply) {
        spare.free();
        match self {
            Self::Characters => reply.bulk(characters),
            Self::Count => reply.integer(memchr::memchr_iter(YES, characters).count() as u64),
        }
    }
}
