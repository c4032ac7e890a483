//! BF.MERGE.

use std::collections::HashSet;

use super::arguments::Arguments;
use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::keyspace::{Keyspace, Name, OpenKey, Slot};
use super::reply::Reply;
use super::table::KeyAccess;
use crate::bloom::union::{Destination, Merge, MergeError, Merged, Order};
use crate::bloom::{Filter, Format, ReserveError};

/// Ends a command that is to break the promised error rate.
pub(super) const FORCE: &str = "FORCE";

/// BF.MERGE: `dest source [source ...] [FORCE]`. The filter at `dest` answers yes for whatever any source
/// does; it is made if it is not there. O(bytes of all filters).
///
/// Replicated as it was sent: what comes of it depends on nothing but the filters, and a replica has the
/// same.
///
/// # Errors
/// What the merge is refused for; nothing has changed then.
pub(super) fn run<'a>(
    arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let request = Request::parse(arguments)?;
    for source in &request.sources {
        keyspace.may_read(*source, request.dest)?;
    }
    let effects = request.run(keyspace).map_err(|error| {
        let is_migrating = |source: &Name<'_>| keyspace.may_be_migrating(source.bytes, request.dest);
        let is_elsewhere = error == CommandError::NotFound && request.sources.iter().any(is_migrating);
        if is_elsewhere { CommandError::SourceMoving } else { error }
    })?;
    reply.simple("OK");
    Ok(effects)
}

/// BF.MERGE with its arguments understood.
struct Request<'a> {
    dest: Name<'a>,
    /// The sources but for the destination, each once.
    sources: Vec<Name<'a>>,
    /// Whether the destination is among the sources, and so must be there.
    names_dest: bool,
    is_forced: bool,
}

impl<'a> Request<'a> {
    /// The last word is the option if it is that word and a source stands before it; it is a key else.
    fn parse(mut arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let dest = arguments.key()?;
        let words = arguments.items()?;
        let (words, is_forced) = match words {
            [sources @ .., last] if !sources.is_empty() && last.eq_ignore_ascii_case(FORCE.as_bytes()) => {
                (sources, true)
            }
            _ => (words, false),
        };
        let mut seen = HashSet::new();
        let names = words.iter().zip(dest.position.saturating_add(1)..);
        let sources = names
            .filter(|(bytes, _)| **bytes != dest.bytes && seen.insert(**bytes))
            .map(|(bytes, position)| Name { bytes, position })
            .collect();
        Ok(Self { dest, sources, names_dest: words.contains(&dest.bytes), is_forced })
    }

    /// Merges the sources into the destination, or makes it of them.
    fn run(&self, keyspace: &impl Keyspace) -> Result<Effects<'a>, CommandError> {
        let mut open = keyspace.open(self.dest, KeyAccess::ReadWrite);
        // Before anything is copied.
        let is_vacant = match open.slot() {
            Slot::WrongType => return Err(CommandError::WrongType),
            Slot::Vacant if self.names_dest => return Err(CommandError::NotFound),
            Slot::Vacant => true,
            Slot::Filter(_) => false,
        };
        for source in &self.sources {
            keyspace.open(*source, KeyAccess::ReadOnly).slot().required()?;
        }
        if is_vacant {
            let made = self.make(keyspace)?;
            open.publish(made)?;
            let replication = Replication::Verbatim;
            return Ok(Effects { replication, created: true, merged: true, ..Effects::default() });
        }
        let into = mergeable(open.slot())?;
        let (items_before, capacity_before_items) = (into.items(), into.capacity_items());
        // Beside layers of another hash a keyed filter would not be one any more.
        let takes_layers = into.format() == Format::Everbloom && !matches!(into, Filter::Keyed(_));
        if !self.merge(into, &self.sources, takes_layers, keyspace)? {
            return Ok(Effects::default());
        }
        open.altered(items_before, capacity_before_items);
        Ok(Effects { replication: Replication::Verbatim, merged: true, ..Effects::default() })
    }

    /// A filter of all sources: a copy of the first, into which the others are merged.
    fn make(&self, keyspace: &impl Keyspace) -> Result<Box<Filter>, CommandError> {
        let (first, others) = self.sources.split_first().ok_or(CommandError::NotFound)?;
        let mut made = {
            let mut open = keyspace.open(*first, KeyAccess::ReadOnly);
            let first = mergeable(open.slot())?;
            let needed_bytes = first.size_bytes();
            let too_large = |limit_bytes| ReserveError::TooLarge { needed_bytes, limit_bytes };
            keyspace.permits(needed_bytes).map_err(too_large).map_err(CommandError::Reserve)?;
            let copy = first.try_clone(keyspace.memory());
            copy.map_err(|error| CommandError::Reserve(error.into()))?
        };
        self.merge(&mut made, others, true, keyspace)?;
        Ok(Box::new(made))
    }

    /// Merges the sources into a filter; answers whether anything has changed. Decides about all before it
    /// begins.
    fn merge(
        &self,
        into: &mut Filter,
        sources: &[Name<'a>],
        takes_layers: bool,
        keyspace: &impl Keyspace,
    ) -> Result<bool, CommandError> {
        // A primary has decided about the rate.
        let is_forced = self.is_forced || keyspace.must_obey();
        let (promise, is_united) = (into.promise(), into.is_united());
        let destination = Destination { promise, takes_layers, is_united, is_forced };
        let mut orders: Vec<Vec<Order>> = Vec::new();
        let Merged { added, last } = {
            let layers = into.views();
            let mut merge = Merge::new(destination, &layers);
            for source in sources {
                let mut open = keyspace.open(*source, KeyAccess::ReadOnly);
                let source = mergeable(open.slot())?.views();
                let decided = merge.decide(&source, keyspace, keyspace.memory());
                orders.push(decided.map_err(refusal)?);
            }
            merge.finish(keyspace).map_err(refusal)?
        };
        let has_changed = !added.is_empty() || orders.iter().any(|orders| !orders.is_empty());
        let gained = into.gain_layers(added, last).map_err(|error| CommandError::Reserve(error.into()))?;
        // From here on nothing is refused: the sources are as they were when they were decided about.
        for (source, orders) in sources.iter().zip(&orders).filter(|(_, orders)| !orders.is_empty()) {
            let mut open = keyspace.open(*source, KeyAccess::ReadOnly);
            let source = mergeable(open.slot())?.views();
            for Order { source_layer, layer } in orders {
                if let Some(from) = source.get(*source_layer) {
                    into.unite_layer(gained.place_of(*layer), from, keyspace.memory());
                }
            }
        }
        Ok(has_changed)
    }
}

fn refusal(error: MergeError) -> CommandError {
    match error {
        MergeError::Reserve(error @ (ReserveError::TooLarge { .. } | ReserveError::OutOfMemory)) => {
            CommandError::Reserve(error)
        }
        error => CommandError::Merge(error),
    }
}

/// The filter under a key, which must be there and be of a kind that can be merged.
fn mergeable(slot: Slot<&mut Filter>) -> Result<&mut Filter, CommandError> {
    let filter = slot.required()?;
    match filter {
        Filter::Counting(_) => Err(CommandError::CountingMerge),
        Filter::Window(_) => Err(CommandError::WindowMerge),
        filter => Ok(filter),
    }
}
