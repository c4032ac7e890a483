//! BF.BULKADD.

use std::borrow::Cow;

use super::answers::{self, NO, REFUSED, Wanted, YES};
use super::batch::Batch;
use crate::bloom::{AddError, Added, Filter, Prefetch};
use crate::command::adding::{check_auto_create, check_loss};
use crate::command::arguments::Arguments;
use crate::command::change::{Change, publish};
use crate::command::creation::{CreationOptions, creation, spec};
use crate::command::effects::{Effects, Replication, count_of};
use crate::command::error::CommandError;
use crate::command::keyspace::{Keyspace, OpenKey, Slot};
use crate::command::reply::Reply;
use crate::command::settings::Host;
use crate::command::table::{Command, KeyAccess};
use crate::command::window::{self, Timing};

/// BF.BULKADD: `key [NOCREATE] [COUNT] LINES data | FIXED bytes data | PREFIXED data`. O(bytes + items * layers *
/// probes).
///
/// # Errors
/// That the batch is torn, that there is no filter to add to and none can be made; nothing has changed or been replied
/// then.
pub(in crate::command) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let BulkAdd { batch, wanted, no_create } = BulkAdd::parse(arguments)?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let slot = open.slot();
    if no_create && matches!(slot, Slot::Vacant) {
        return Err(CommandError::NotFound);
    }
    check_auto_create(&slot, keyspace)?;
    let change = add(key.bytes, &batch, slot, keyspace, keyspace.prefetch())?;
    let (characters, effects) = publish(&mut open, key, change)?;
    answers::write(&characters, wanted, reply);
    Ok(effects)
}

/// BF.BULKADD with its arguments understood.
struct BulkAdd<'a> {
    batch: Batch<'a>,
    wanted: Wanted,
    /// Whether a filter that is not there is an error.
    no_create: bool,
}

impl<'a> BulkAdd<'a> {
    fn parse(mut arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let (mut wanted, mut no_create) = (Wanted::Characters, false);
        loop {
            let word = arguments.required()?;
            if word.eq_ignore_ascii_case(b"COUNT") {
                wanted = Wanted::Count;
            } else if word.eq_ignore_ascii_case(b"NOCREATE") {
                no_create = true;
            } else {
                return Ok(Self { batch: Batch::parse(word, &mut arguments)?, wanted, no_create });
            }
        }
    }
}

/// Adds the items to the filter that is there or to a new one.
fn add<'a>(
    key: &'a [u8],
    batch: &Batch<'a>,
    slot: Slot<&mut Filter>,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<Change<'a, Vec<u8>>, CommandError> {
    match slot {
        Slot::WrongType => Err(CommandError::WrongType),
        Slot::Filter(filter) => {
            let timing = Timing::of(filter, None, host)?;
            let Outcome { characters, effects, added, first } = add_items(filter, batch, host, prefetch)?;
            let at_ms = timing.to_say(filter).filter(|_| effects.items_added > 0);
            let replication = match added {
                _ if effects.items_added == 0 => Replication::None,
                // The first item that was added says the moment for all.
                data if at_ms.is_some() => {
                    let first =
                        first.and_then(|index| batch.unpack().nth(index)).map(Cow::Borrowed).into_iter();
                    let moment = window::line(key, at_ms.unwrap_or(0), first, Vec::new());
                    let rest =
                        data.map_or_else(|| batch.line(key), |data| batch.line_of(key, Cow::Owned(data)));
                    Replication::Rewritten(vec![moment, rest])
                }
                Some(data) => Replication::Rewritten(vec![batch.line_of(key, Cow::Owned(data))]),
                None => Replication::Verbatim,
            };
            let effects = Effects { replication, ..effects };
            Ok(Change { answer: characters, publish: None, expires_at_ms: None, effects })
        }
        // Nothing is made of nothing.
        Slot::Vacant if batch.items() == 0 => {
            let effects = Effects::default();
            Ok(Change { answer: Vec::new(), publish: None, expires_at_ms: None, effects })
        }
        // Only an everbloom server sends a batch, and it spells out before what it created.
        Slot::Vacant if host.must_obey() => Err(CommandError::LostFilter),
        Slot::Vacant => {
            let spec = spec(&CreationOptions::default(), host)?;
            let mut filter = Filter::reserve(spec, host).map_err(CommandError::Reserve)?;
            let creation = creation(&filter);
            let Outcome { characters, effects, added, .. } = add_items(&mut filter, batch, host, prefetch)?;
            let mut lines = creation.lines(key, std::iter::empty(), Vec::new());
            if effects.items_added > 0 {
                lines.push(match added {
                    Some(data) => batch.line_of(key, Cow::Owned(data)),
                    None => batch.line(key),
                });
            }
            let replication = Replication::Rewritten(lines);
            let layers_added = count_of(filter.layer_count().saturating_sub(1));
            let effects = Effects { replication, created: true, layers_added, ..effects };
            let publish = Some(Box::new(filter));
            Ok(Change { answer: characters, publish, expires_at_ms: None, effects })
        }
    }
}

/// What came of a batch.
struct Outcome<'a> {
    /// A character per item.
    characters: Vec<u8>,
    /// How many were added, known and refused.
    effects: Effects<'a>,
    /// The items that were added, packed, where others were refused: a refusal would be another on a replica that has
    /// more room, or less.
    added: Option<Vec<u8>>,
    /// The index of the first item that was added.
    first: Option<usize>,
}

/// Adds all items in turn, whatever comes of those before: one that is there already is no less there because the filter
/// is full.
///
/// # Errors
/// When the answers, or what is replicated where an item is refused, have no room, before anything is added; as
/// [`check_loss`].
fn add_items<'a>(
    filter: &mut Filter,
    batch: &Batch<'_>,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<Outcome<'a>, CommandError> {
    /// Of an item that was there and was counted once more, until all is added.
    const AGAIN: u8 = b'+';
    let mut characters = answers::room(batch.items())?;
    // With a newline that the last line may have lacked. Nobody could refuse later.
    let mut room = answers::room(batch.size_bytes().saturating_add(1))?;
    let (mut items_added, mut items_refused) = (0u64, 0u32);
    let (mut has_again, mut loss) = (false, None::<AddError>);
    filter.add_items(&mut batch.groups(), host, prefetch, &mut |run| {
        items_added += run.items_added();
        if run.again == 0 {
            characters.extend((0..run.items).map(|index| NO | u8::from(run.new >> index & 1 == 1)));
        } else {
            has_again = true;
            characters.extend(run.outcomes().flatten().map(|added| match added {
                Added::New => YES,
                Added::Again => AGAIN,
                Added::Present => NO,
            }));
        }
        if let Some(error) = run.refused {
            items_refused = items_refused.saturating_add(1);
            if loss.is_none() && CommandError::Add(error).is_loss(Command::BulkAdd) {
                loss = Some(error);
            }
            characters.push(REFUSED);
        }
        true
    });
    if let Some(error) = loss {
        check_loss(error, host)?;
    }
    let added = (items_refused > 0).then(|| {
        let outcomes = batch.unpack().zip(&characters);
        let added = outcomes.filter(|(_, character)| matches!(**character, YES | AGAIN));
        added.for_each(|(item, _)| batch.pack(item, &mut room));
        room
    });
    let first = characters.iter().position(|character| matches!(*character, YES | AGAIN));
    if has_again {
        characters.iter_mut().filter(|character| **character == AGAIN).for_each(|again| *again = NO);
    }
    let taken = count_of(usize::try_from(items_added).unwrap_or(usize::MAX)).saturating_add(items_refused);
    let items_known = count_of(batch.items()).saturating_sub(taken);
    let effects = Effects { items_added, items_known, items_refused, ..Effects::default() };
    Ok(Outcome { characters, effects, added, first })
}
