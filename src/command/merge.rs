//! BF.MERGE.

use std::collections::BTreeSet;

use super::arguments::Arguments;
use super::effects::{Effects, Replication};
use super::error::{CommandError, quotable};
use super::keyspace::{KeyName, KeyValue, Keyspace, OpenKey, Reply, Value};
use super::table::KeyAccess;
use crate::bloom::filter::merge::MergeError;
use crate::bloom::{Filter, OutOfMemory, ReserveError, try_collect};

/// The option that allows a merge to exceed the promised error rate. It must be the last argument.
pub(super) const FORCE: &str = "FORCE";

/// BF.MERGE: `dest source [source ...] [FORCE]`. Afterwards the filter at `dest` contains every item of every source.
/// It is created if it does not exist. O(bytes of all filters).
///
/// The command is replicated unchanged, because the result depends on the filters only, and replicas have the same
/// filters.
///
/// # Errors
/// The merge is refused. Nothing has changed.
pub(super) fn merge<'a>(
    arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let request = MergeRequest::parse(arguments)?;
    for source in &request.sources {
        keyspace.may_read(*source, request.dest)?;
    }
    let effects = request.run(keyspace).map_err(|error| {
        let is_migrating = |source: &KeyName<'_>| keyspace.may_be_migrating(source.bytes, request.dest);
        let is_missing = matches!(error, CommandError::SourceNotFound(_));
        let is_elsewhere = is_missing && request.sources.iter().any(is_migrating);
        if is_elsewhere { CommandError::SourceMoving } else { error }
    })?;
    reply.simple("OK");
    Ok(effects)
}

/// The arguments of BF.MERGE.
struct MergeRequest<'a> {
    dest: KeyName<'a>,
    /// The sources without the destination, each once.
    sources: Vec<KeyName<'a>>,
    /// Whether the destination is also named as a source. Then it must exist.
    names_dest: bool,
    is_forced: bool,
}

impl<'a> MergeRequest<'a> {
    /// Reads the arguments. FORCE is the option only if it is the last argument and follows a source. Elsewhere it is a
    /// key.
    fn parse(mut arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let dest = arguments.key()?;
        let words = arguments.items()?;
        let (words, is_forced) = match words {
            [sources @ .., last] if !sources.is_empty() && last.eq_ignore_ascii_case(FORCE.as_bytes()) => {
                (sources, true)
            }
            _ => (words, false),
        };
        let mut seen = BTreeSet::new();
        let names = words.iter().zip(dest.position.saturating_add(1)..);
        let names = names
            .filter(|(bytes, _)| **bytes != dest.bytes && seen.insert(**bytes))
            .map(|(bytes, position)| KeyName { bytes, position });
        let sources = try_collect(names).map_err(|OutOfMemory| CommandError::OutOfMemory)?;
        Ok(Self { dest, sources, names_dest: words.contains(&dest.bytes), is_forced })
    }

    /// Merges the sources into the destination, or creates it.
    fn run(&self, keyspace: &impl Keyspace) -> Result<Effects<'a>, CommandError> {
        // All keys are opened before the first value is looked up. Opening a key may make it expire, and other modules,
        // which are notified of that, may write to any key.
        let mut open = keyspace.open(self.dest, KeyAccess::ReadWrite);
        let open_source = |source: &KeyName<'a>| keyspace.open(*source, KeyAccess::ReadOnly);
        let keys = try_collect(self.sources.iter().map(open_source));
        let mut keys = keys.map_err(|OutOfMemory| CommandError::OutOfMemory)?;
        match open.slot() {
            KeyValue::Vacant if !self.names_dest => {}
            value => {
                required(self.dest, value)?;
            }
        }
        let sources = self.sources.iter().zip(&mut keys);
        let sources = sources.map(|(name, key)| required(*name, key.slot()).map(|filter| &*filter));
        let sources: Vec<&Filter> = sources.collect::<Result<_, _>>()?;
        if !keyspace.is_replicated() && sources.iter().any(|source| source.is_ahead_of(keyspace.now_ms())) {
            return Err(CommandError::ItemsAhead);
        }
        // The primary has checked the error rate already.
        let is_forced = self.is_forced || keyspace.is_replicated();
        let memory = keyspace.memory();
        let created = match open.slot().present()? {
            Some(into) => {
                let (items_before, capacity_before_items) = (into.items(), into.counted_capacity_items());
                if !into.merge(&sources, is_forced, keyspace, memory).map_err(refusal)? {
                    return Ok(Effects::default());
                }
                open.altered(items_before, capacity_before_items);
                false
            }
            None => {
                let merged = Filter::merged_of(&sources, is_forced, keyspace, memory).map_err(refusal)?;
                open.publish(Value::Filter(Box::new(merged)))?;
                true
            }
        };
        Ok(Effects { replication: Replication::Verbatim, created, merged: true, ..Effects::default() })
    }
}

/// Returns the filter of a source, or of a destination that is named as a source.
///
/// # Errors
/// There is no filter. The error names the key.
fn required<'f>(name: KeyName<'_>, value: KeyValue<&'f mut Filter>) -> Result<&'f mut Filter, CommandError> {
    match value {
        KeyValue::Present(filter) => Ok(filter),
        KeyValue::Vacant => Err(CommandError::SourceNotFound(quotable(name.bytes))),
        KeyValue::WrongType => Err(CommandError::MergeWrongType(quotable(name.bytes))),
    }
}

/// Returns the command's error for a merge that is refused.
fn refusal(error: MergeError) -> CommandError {
    match error {
        MergeError::Reserve(error @ (ReserveError::TooLarge { .. } | ReserveError::OutOfMemory)) => {
            CommandError::Reserve(error)
        }
        error => CommandError::Merge(error),
    }
}
