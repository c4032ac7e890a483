//! BF.MERGE.

use std::collections::BTreeSet;

use super::adding::argument_buffer;
use super::arguments::Arguments;
use super::effects::{Effects, Replication};
use super::error::{CommandError, quotable};
use super::keyspace::{KeyName, KeyValue, Keyspace, MergedInto, ReadKey, Reply, Value, WriteKey};
use super::number::parse_integer;
use super::replicated::{ArgumentList, MERGED_AT, ReplicatedCommand};
use super::timing::MergeTiming;
use everbloom_filter::filter::merge::MergeError;
use everbloom_filter::{Filter, OutOfMemory, ReserveError, try_collect};

/// The option that allows a merge to exceed the promised error rate. It must be the last argument.
pub(super) const FORCE: &str = "FORCE";

/// BF.MERGE: `dest source [source ...] [FORCE]`. Afterwards the filter at `dest` contains every item of every source.
/// It is created if it does not exist. O(bytes of all filters).
///
/// The command is replicated unchanged if the result depends on the filters only, because replicas have the same filters.
/// It is replicated with the time if a source has items of a later time, which count as of the time of the merge.
///
/// # Errors
/// The merge is refused. Nothing has changed.
pub(super) fn merge<'a>(
    arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let request = MergeRequest::parse(arguments, keyspace.is_replicated())?;
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
    /// The arguments after the destination.
    words: &'a [&'a [u8]],
    /// The time of a replicated merge, in milliseconds of UNIX time.
    at_ms: Option<u64>,
}

/// Returns the arguments before the time at the end of a replicated merge, and the time.
fn split_time<'a, 'w>(words: &'w [&'a [u8]]) -> Option<(&'w [&'a [u8]], u64)> {
    match words {
        [sources @ .., word, at] if !sources.is_empty() && *word == MERGED_AT.as_bytes() => {
            Some((sources, u64::try_from(parse_integer(at)?).ok()?))
        }
        _ => None,
    }
}

impl<'a> MergeRequest<'a> {
    /// Reads the arguments. FORCE is the option only if it is the last argument and follows a source. Elsewhere it is a
    /// key. A replicated merge can have a time at the end. A client's merge has none: there these words are keys.
    fn parse(mut arguments: Arguments<'a>, is_replicated: bool) -> Result<Self, CommandError> {
        let dest = arguments.key()?;
        let all_words = arguments.items()?;
        let timed = split_time(all_words).filter(|_| is_replicated);
        let (words, at_ms) = timed.map_or((all_words, None), |(words, at_ms)| (words, Some(at_ms)));
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
        let names_dest = words.contains(&dest.bytes);
        Ok(Self { dest, sources, names_dest, is_forced, words: all_words, at_ms })
    }

    /// Returns what is replicated. `buffer` is memory for the arguments.
    fn replication(&self, at_ms: Option<u64>, buffer: ArgumentList<'a>) -> Replication<'a> {
        match at_ms {
            None => Replication::Verbatim,
            Some(at_ms) => {
                let command = ReplicatedCommand::merge_at(self.dest.bytes, self.words, at_ms, buffer);
                Replication::Rewritten(vec![command])
            }
        }
    }

    /// Merges the sources into the destination, or creates it.
    fn run(&self, keyspace: &impl Keyspace) -> Result<Effects<'a>, CommandError> {
        // All keys are opened before the first value is looked up. Opening a key may make it expire, and other modules,
        // which are notified of that, may write to any key.
        let mut open = keyspace.open_to_write(self.dest);
        let open_source = |source: &KeyName<'a>| keyspace.open_to_read(*source);
        let keys = try_collect(self.sources.iter().map(open_source));
        let keys = keys.map_err(|OutOfMemory| CommandError::OutOfMemory)?;
        match open.slot() {
            KeyValue::Vacant if !self.names_dest => {}
            value => {
                required(self.dest, value)?;
            }
        }
        let mut named: Vec<(KeyName<'_>, &Filter)> = Vec::new();
        named.try_reserve_exact(keys.len()).map_err(|_| CommandError::OutOfMemory)?;
        for (name, key) in self.sources.iter().zip(&keys) {
            named.push((*name, required(*name, key.slot())?));
        }
        let sources = try_collect(named.iter().map(|(_, source)| *source));
        let sources = sources.map_err(|OutOfMemory| CommandError::OutOfMemory)?;
        let into = open.slot().present()?;
        let timing = MergeTiming::of(into.as_deref(), &named, self.at_ms, keyspace)?;
        let latest = timing.latest;
        // A replica would read the last keys of a client's merge as a time if they look like one and no time follows. It writes
        // a replicated merge, which has its time, to its own append-only file as it came.
        let needs_time =
            !keyspace.is_replicated() && (timing.is_source_ahead || split_time(self.words).is_some());
        let buffer = argument_buffer(self.words.len())?;
        // The primary has checked the error rate already.
        let is_forced = self.is_forced || keyspace.is_replicated();
        let memory = keyspace.memory();
        let created = match into {
            Some(into) => {
                let before = MergedInto::of(into);
                if !into.merge(&sources, latest, is_forced, keyspace, memory).map_err(refusal)? {
                    return Ok(Effects::default());
                }
                open.altered(before);
                false
            }
            None => {
                let merged = Filter::merged_of(&sources, latest, is_forced, keyspace, memory);
                let merged =
                    merged.map_err(|error| other_window(&named).unwrap_or_else(|| refusal(error)))?;
                open.publish(Value::Filter(Box::new(merged)))?;
                true
            }
        };
        let replication = self.replication(needs_time.then_some(timing.now_ms), buffer);
        Ok(Effects { replication, created, merged: true, ..Effects::default() })
    }
}

/// Returns the filter of a source, or of a destination that is named as a source.
fn required<F>(name: KeyName<'_>, value: KeyValue<F>) -> Result<F, CommandError> {
    match value {
        KeyValue::Vacant => Err(CommandError::SourceNotFound(quotable(name.bytes))),
        KeyValue::WrongType => Err(CommandError::MergeWrongType(quotable(name.bytes))),
        value => value.required(),
    }
}

/// Returns the command's error if sources of a new filter have different windows.
fn other_window(named: &[(KeyName<'_>, &Filter)]) -> Option<CommandError> {
    let mut spans = named.iter().filter_map(|(name, filter)| Some((name, filter.window()?.span)));
    let (first, span) = spans.next()?;
    let (other, _) = spans.find(|(_, other)| *other != span)?;
    let [first, other] = [first, other].map(|name| quotable(name.bytes));
    Some(CommandError::OtherWindow { first, other })
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
