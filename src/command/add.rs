//! Adding items, to the filter that is there or to a new one: BF.ADD, BF.MADD and BF.INSERT.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Slot;
use super::creation::{Creation, CreationOptions};
use super::effects::{Effects, Line, Replication};
use super::error::CommandError;
use super::reply::Reply;
use super::settings::Host;
use crate::bloom::{AddError, Added, Filter, Prefetch};

/// Items to add.
#[derive(Debug)]
pub struct Adds<'a, 'i> {
    /// The key.
    pub key: &'a [u8],
    /// The items, perhaps none for BF.INSERT.
    pub items: &'i [&'a [u8]],
    /// What a filter that is not there yet shall be.
    pub options: CreationOptions,
}

/// What came of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in the filter, newly or already.
    Added(Added),
    /// It found no room.
    Refused(AddError),
}

/// What came of the items, in their order; shorter than they are when the filter filled up.
pub type Answers = SmallVec<[Answer; 16]>;

impl Answer {
    /// Replies 1 or 0, or the error.
    pub fn write(self, reply: &mut impl Reply) {
        match self {
            Self::Added(added) => reply.boolean(added == Added::New),
            Self::Refused(error) => reply.error(&CommandError::Add(error).to_string()),
        }
    }
}

impl<'a> Adds<'a, '_> {
    /// Adds the items. O(items * layers * probes).
    ///
    /// # Errors
    /// When there is no filter to add to and none can be made; nothing has changed then.
    pub fn run(
        self,
        slot: Slot<&mut Filter>,
        host: &dyn Host,
        prefetch: impl Prefetch,
    ) -> Result<(Answers, Effects<'a>), CommandError> {
        match slot {
            Slot::WrongType => Err(CommandError::WrongType),
            Slot::Filter(filter) => {
                let answers = add_items(filter, self.items, host, prefetch);
                let items_added = count_new(&answers);
                // Only what was added goes out: a refusal would reach the replica as a refusal, which a strict one
                // does not survive.
                let replication = if items_added == 0 {
                    Replication::None
                } else if answers.iter().all(|answer| matches!(answer, Answer::Added(_)))
                    && !self.options.has_foreign_words()
                {
                    Replication::Verbatim
                } else {
                    Replication::Rewritten(vec![Line::add(self.key, new_items(self.items, &answers))])
                };
                Ok((answers, Effects { replication, items_added, ..Effects::default() }))
            }
            Slot::Vacant => {
                let blueprint = self.options.blueprint(host)?;
                let mut filter = Filter::reserve(blueprint, host).map_err(CommandError::Reserve)?;
                let creation = Creation::of(&filter);
                let answers = add_items(&mut filter, self.items, host, prefetch);
                let lines = creation.lines(self.key, new_items(self.items, &answers));
                let effects = Effects {
                    publish: Some(Box::new(filter)),
                    replication: Replication::Rewritten(lines),
                    created: true,
                    items_added: count_new(&answers),
                };
                Ok((answers, effects))
            }
        }
    }
}

/// Adds one item to a filter that is there, and replies: what most commands are.
///
/// Nothing is replicated or notified unless the item was new.
pub fn add_one<'a>(
    filter: &mut Filter,
    item: &[u8],
    host: &dyn Host,
    prefetch: impl Prefetch,
    reply: &mut impl Reply,
) -> Effects<'a> {
    match filter.add(item, host, prefetch) {
        Ok(Added::New) => {
            reply.boolean(true);
            Effects { replication: Replication::Verbatim, items_added: 1, ..Effects::default() }
        }
        Ok(Added::Present) => {
            reply.boolean(false);
            Effects::default()
        }
        Err(error) => {
            Answer::Refused(error).write(reply);
            Effects::default()
        }
    }
}

/// Adds the items in turn. A full fixed filter ends the run, a filter that cannot grow for another reason does not;
/// both as in RedisBloom, whose array of answers is then shorter than the items.
fn add_items(filter: &mut Filter, items: &[&[u8]], host: &dyn Host, prefetch: impl Prefetch) -> Answers {
    let mut answers = Answers::with_capacity(items.len());
    filter.add_many(items, host, prefetch, |outcome| {
        answers.push(match outcome {
            Ok(added) => Answer::Added(added),
            Err(error) => Answer::Refused(error),
        });
        outcome != Err(AddError::Full)
    });
    answers
}

fn is_new(answer: &Answer) -> bool {
    *answer == Answer::Added(Added::New)
}

fn count_new(answers: &[Answer]) -> u64 {
    answers.iter().filter(|answer| is_new(answer)).count() as u64
}

/// The items that were added.
fn new_items<'a>(items: &[&'a [u8]], answers: &[Answer]) -> Vec<Cow<'a, [u8]>> {
    let outcomes = items.iter().zip(answers);
    outcomes.filter(|(_, answer)| is_new(answer)).map(|(item, _)| Cow::Borrowed(*item)).collect()
}
