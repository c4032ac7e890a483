//! BF.ADD and BF.MADD.

use std::borrow::Cow;

use super::adding::{add_items, check_auto_create};
use super::arguments::Arguments;
use super::change::{Change, publish};
use super::creation::CreationOptions;
use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::keyspace::{Keyspace, Name, OpenKey, Slot};
use super::outcomes::{check_loss, write_outcome};
use super::reply::Reply;
use super::settings::Host;
use super::table::KeyAccess;
use super::window::{self, Timing};
use crate::bloom::{AddError, Added, Filter, Prefetch};

/// BF.ADD: `key item`. O(layers * probes).
///
/// Nothing is replicated or notified unless the item was new or was counted once more.
///
/// # Errors
/// When there is no filter to add to and none can be made; nothing has changed or been replied then.
#[inline(always)]
pub(super) fn run_one<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let (outcome, at_ms) = match open.slot() {
        Slot::Filter(filter) => {
            let timing = Timing::of(filter, None, keyspace)?;
            let outcome = filter.add(item, keyspace, keyspace.prefetch());
            (outcome, timing.to_say(filter))
        }
        slot => {
            let change = add_to_new(key.bytes, item, slot, keyspace, keyspace.prefetch())?;
            let (outcome, effects) = publish(&mut open, key, change)?;
            write_outcome(outcome, reply);
            return Ok(effects);
        }
    };
    match outcome {
        Ok(Added::New) => {
            let layers_added = open.changed(1);
            reply.boolean(true);
            Ok(Effects {
                replication: replication(key, item, at_ms),
                items_added: 1,
                layers_added,
                ..Effects::default()
            })
        }
        Ok(Added::Again) => {
            open.changed(1);
            reply.boolean(false);
            Ok(Effects { replication: replication(key, item, at_ms), items_added: 1, ..Effects::default() })
        }
        Ok(Added::Present) => {
            reply.boolean(false);
            Ok(Effects { items_known: 1, ..Effects::default() })
        }
        Err(error) => {
            check_loss(error, keyspace)?;
            write_outcome(outcome, reply);
            Ok(Effects { items_refused: 1, ..Effects::default() })
        }
    }
}

/// As it was sent, or with the moment that the item is of where that is to be said.
#[inline(always)]
fn replication<'a>(key: Name<'a>, item: &'a [u8], at_ms: Option<u64>) -> Replication<'a> {
    match at_ms {
        None => Replication::Verbatim,
        Some(at_ms) => {
            let items = std::iter::once(Cow::Borrowed(item));
            Replication::Rewritten(vec![window::line(key.bytes, at_ms, items, Vec::new())])
        }
    }
}

/// Kept out of the way of what most commands are, an item for a filter that is there.
#[inline(never)]
fn add_to_new<'a>(
    key: &'a [u8],
    item: &'a [u8],
    slot: Slot<&mut Filter>,
    host: &dyn Host,
    prefetch: impl Prefetch,
) -> Result<Change<'a, Result<Added, AddError>>, CommandError> {
    check_auto_create(&slot, host)?;
    let change = add_items(key, &&[item][..], &CreationOptions::default(), slot, host, prefetch)?;
    let Change { answer, publish, expires_at_ms, effects } = change;
    Ok(Change { answer: answer.first(), publish, expires_at_ms, effects })
}

/// BF.MADD: `key item [item ...]`. O(items * layers * probes).
///
/// # Errors
/// As [`run_one`].
pub(super) fn run_many<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let slot = open.slot();
    check_auto_create(&slot, keyspace)?;
    let options = CreationOptions::default();
    let change = add_items(key.bytes, &items, &options, slot, keyspace, keyspace.prefetch())?;
    let (answers, effects) = publish(&mut open, key, change)?;
    answers.write(reply);
    Ok(effects)
}
