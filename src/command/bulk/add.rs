//! BF.BULKADD.

use std::borrow::Cow;

use super::answers::{self, REFUSED, Wanted};
use super::batch::Batch;
use crate::bloom::Items;
use crate::command::adding::{Adds, add_items, check_auto_create};
use crate::command::arguments::Arguments;
use crate::command::change::publish;
use crate::command::creation::{Creation, CreationOptions};
use crate::command::effects::{Effects, Line};
use crate::command::error::CommandError;
use crate::command::keyspace::{Keyspace, OpenKey, Slot};
use crate::command::outcomes::Outcomes;
use crate::command::reply::Reply;
use crate::command::table::KeyAccess;
use crate::command::window;

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
    if matches!(slot, Slot::Vacant) {
        if no_create {
            return Err(CommandError::NotFound);
        }
        check_auto_create(&slot, keyspace)?;
        // Without items no filter is made.
        if batch.item_count() == 0 {
            answers::write(&[], wanted, reply);
            return Ok(Effects::default());
        }
        // Only an everbloom server sends a batch, and the creation of the filter before it.
        if keyspace.must_obey() {
            return Err(CommandError::LostFilter);
        }
    }
    let options = CreationOptions::default();
    let change = add_items(key.bytes, &batch, &options, slot, keyspace, keyspace.prefetch())?;
    let (outcomes, effects) = publish(&mut open, key, change)?;
    answers::write(&outcomes.into_characters(REFUSED), wanted, reply);
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

impl<'a> Adds<'a> for Batch<'a> {
    /// Every item is added that can be: one that is there already is there although the filter is full.
    const ENDS_WHEN_FULL: bool = false;
    type Room = Vec<u8>;

    fn count(&self) -> usize {
        self.item_count()
    }

    fn items(&self) -> impl Items<'a> {
        self.groups()
    }

    fn room(&self) -> Result<Self::Room, CommandError> {
        // With a newline that the last line may have lacked.
        answers::room(self.size_bytes().saturating_add(1))
    }

    /// The first item that was added says the moment for all.
    fn lines(
        &self,
        key: &'a [u8],
        creation: Option<Creation>,
        at_ms: Option<u64>,
        outcomes: &Outcomes,
        mut room: Self::Room,
    ) -> Vec<Line<'a>> {
        let mut lines =
            creation.map_or_else(Vec::new, |creation| creation.lines(key, std::iter::empty(), Vec::new()));
        if let Some(at_ms) = at_ms {
            let first = outcomes.added(self.unpack()).map(Cow::Borrowed).take(1);
            lines.push(window::line(key, at_ms, first, Vec::new()));
        }
        if outcomes.items_refused > 0 && outcomes.items_added > 0 {
            outcomes.added(self.unpack()).for_each(|item| self.pack(item, &mut room));
            lines.push(self.line_of(key, Cow::Owned(room)));
        } else if outcomes.items_added > 0 {
            lines.push(self.line(key));
        }
        lines
    }
}
