//! Commands that may change a filter.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Slot;
use super::arguments::Arguments;
use super::dump::LoadChunk;
use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::number::{parse_double, parse_integer};
use super::reply::Reply;
use super::settings::{Host, Settings};
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::bloom::{AddError, Added, Chain, ChainParameters, Growth, Prefetch};

/// A command that may change a filter.
#[derive(Debug)]
pub enum Change<'a> {
    /// BF.RESERVE.
    Reserve(Reserve<'a>),
    /// BF.ADD.
    Add {
        /// The key.
        key: &'a [u8],
        /// The item to add.
        item: &'a [u8],
    },
    /// BF.MADD.
    AddMany {
        /// The key.
        key: &'a [u8],
        /// The items to add, at least one.
        items: &'a [&'a [u8]],
    },
    /// BF.INSERT.
    Insert(Insert<'a>),
    /// BF.LOADCHUNK.
    LoadChunk(LoadChunk<'a>),
}

impl<'a> Change<'a> {
    /// Carries the change out on the filter that is there, or makes the filter that is to be there, and replies.
    /// O(items * layers * probes), for a chunk O(bytes).
    ///
    /// # Errors
    /// What the command is refused for; nothing has been changed or replied then.
    pub fn run(
        self,
        slot: Slot<&mut Chain>,
        host: &dyn Host,
        prefetch: impl Prefetch,
        reply: &mut impl Reply,
    ) -> Result<Effects<'a>, CommandError> {
        match self {
            Self::Reserve(reserve) => {
                let effects = reserve.run(&slot, host)?;
                reply.simple("OK");
                Ok(effects)
            }
            Self::Add { key, item } => {
                let adds = Adds { key, items: &[item], parameters: || host.settings().chain_parameters() };
                let (answers, effects) = adds.run(slot, host, prefetch)?;
                answers.iter().for_each(|answer| answer.write(reply));
                Ok(effects)
            }
            Self::AddMany { key, items } => {
                let adds = Adds { key, items, parameters: || host.settings().chain_parameters() };
                reply_array(adds.run(slot, host, prefetch)?, reply)
            }
            Self::Insert(Insert { no_create: true, .. }) if matches!(slot, Slot::Vacant) => {
                Err(CommandError::NotFound)
            }
            Self::Insert(Insert { key, items, parameters, .. }) => {
                reply_array(Adds { key, items, parameters: || parameters }.run(slot, host, prefetch)?, reply)
            }
            Self::LoadChunk(load) => {
                let effects = load.run(slot, host)?;
                reply.simple("OK");
                Ok(effects)
            }
        }
    }
}

fn reply_array<'a>(
    (answers, effects): (Answers, Effects<'a>),
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    reply.array(answers.len());
    answers.iter().for_each(|answer| answer.write(reply));
    Ok(effects)
}

/// BF.RESERVE with its arguments understood.
#[derive(Debug)]
pub struct Reserve<'a> {
    key: &'a [u8],
    parameters: ChainParameters,
}

impl<'a> Reserve<'a> {
    /// Reads `error_rate capacity [EXPANSION n] [NONSCALING]`.
    ///
    /// # Errors
    /// The first rule that is broken, in RedisBloom's order.
    pub fn parse(key: &'a [u8], mut arguments: Arguments<'a>, host: &dyn Host) -> Result<Self, CommandError> {
        let error_rate = parse_double(arguments.required()?).ok_or(CommandError::ReserveErrorRate)?;
        if !is_error_rate(error_rate) {
            return Err(CommandError::ReserveErrorRateRange);
        }
        let capacity = parse_integer(arguments.required()?).ok_or(CommandError::ReserveCapacity)?;
        let capacity_items =
            in_range(capacity, 1, CAPACITY_MAX_ITEMS).ok_or(CommandError::ReserveCapacityRange)?;
        let growth = Self::parse_growth(arguments, host)?;
        Ok(Self { key, parameters: ChainParameters { error_rate, capacity_items, growth } })
    }

    fn parse_growth(mut arguments: Arguments<'a>, host: &dyn Host) -> Result<Growth, CommandError> {
        let mut fixed = false;
        let mut expansion = None;
        while let Some(word) = arguments.optional() {
            if word.eq_ignore_ascii_case(b"NONSCALING") {
                fixed = true;
            } else if word.eq_ignore_ascii_case(b"EXPANSION") {
                let value = arguments.optional().ok_or(CommandError::ReserveNoExpansion)?;
                expansion = Some(parse_integer(value).ok_or(CommandError::ReserveExpansion)?);
            } else {
                return Err(CommandError::ReserveUnknownArgument(String::from_utf8_lossy(word).into_owned()));
            }
        }
        let default = Growth::from_expansion(host.settings().expansion_factor);
        match expansion {
            Some(0) => Ok(Growth::Fixed),
            // As in RedisBloom a factor does not override the configured `fixed`; but a primary with another
            // configuration, which spells its factor out, is obeyed.
            Some(_) if fixed || (default == Growth::Fixed && !host.must_obey()) => {
                Err(CommandError::ReserveFixedExpansion)
            }
            Some(factor) => match u32::try_from(factor) {
                Ok(factor) if factor <= EXPANSION_MAX => Ok(Growth::from_expansion(factor)),
                _ => Err(CommandError::ReserveExpansionRange),
            },
            None if fixed => Ok(Growth::Fixed),
            None => Ok(default),
        }
    }

    fn run(self, slot: &Slot<&mut Chain>, host: &dyn Host) -> Result<Effects<'a>, CommandError> {
        match slot {
            Slot::WrongType => return Err(CommandError::WrongType),
            Slot::Filter(_) => return Err(CommandError::ItemExists),
            Slot::Vacant => {}
        }
        let chain = Chain::reserve(self.parameters, host).map_err(CommandError::Reserve)?;
        let ChainParameters { error_rate, capacity_items, growth } = self.parameters;
        let mut arguments = vec![Cow::Borrowed(self.key), text(error_rate), text(capacity_items)];
        arguments.extend(growth_words(growth));
        Ok(Effects {
            publish: Some(chain),
            replication: Replication::Rewritten { command: "BF.RESERVE", arguments },
            created: true,
            items_added: 0,
        })
    }
}

/// BF.INSERT with its arguments understood.
#[derive(Debug)]
pub struct Insert<'a> {
    key: &'a [u8],
    items: &'a [&'a [u8]],
    parameters: ChainParameters,
    no_create: bool,
}

impl<'a> Insert<'a> {
    /// Reads `[CAPACITY c] [ERROR e] [EXPANSION x] [NOCREATE] [NONSCALING] ITEMS item [item ...]`. The last of a
    /// repeated option counts, and NONSCALING beats EXPANSION, as in RedisBloom.
    ///
    /// # Errors
    /// The first rule that is broken, from left to right.
    pub fn parse(
        key: &'a [u8],
        mut arguments: Arguments<'a>,
        settings: &Settings,
    ) -> Result<Self, CommandError> {
        let mut parameters = settings.chain_parameters();
        let mut fixed = false;
        let mut no_create = false;
        loop {
            let word = arguments.required()?;
            if word.eq_ignore_ascii_case(b"ITEMS") {
                break;
            } else if word.eq_ignore_ascii_case(b"CAPACITY") {
                parameters.capacity_items = parse_integer(arguments.required()?)
                    .and_then(|capacity| in_range(capacity, 1, CAPACITY_MAX_ITEMS))
                    .ok_or(CommandError::InsertCapacity)?;
            } else if word.eq_ignore_ascii_case(b"ERROR") {
                parameters.error_rate = parse_double(arguments.required()?)
                    .filter(|rate| is_error_rate(*rate))
                    .ok_or(CommandError::InsertErrorRate)?;
            } else if word.eq_ignore_ascii_case(b"EXPANSION") {
                parameters.growth = parse_integer(arguments.required()?)
                    .and_then(|factor| u32::try_from(factor).ok())
                    .filter(|factor| *factor <= EXPANSION_MAX)
                    .map(Growth::from_expansion)
                    .ok_or(CommandError::InsertExpansion)?;
            } else if word.eq_ignore_ascii_case(b"NOCREATE") {
                no_create = true;
            } else if word.eq_ignore_ascii_case(b"NONSCALING") {
                fixed = true;
            } else {
                return Err(CommandError::InsertUnknownArgument);
            }
        }
        if fixed {
            parameters.growth = Growth::Fixed;
        }
        Ok(Self { key, items: arguments.items()?, parameters, no_create })
    }
}

/// Items to add, to the filter that is there or to a new one.
struct Adds<'a, 'i, P> {
    key: &'a [u8],
    items: &'i [&'a [u8]],
    parameters: P,
}

/// What came of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Added(Added),
    Refused(AddError),
}

type Answers = SmallVec<[Answer; 16]>;

impl Answer {
    fn write(self, reply: &mut impl Reply) {
        match self {
            Self::Added(added) => reply.boolean(added == Added::New),
            Self::Refused(error) => reply.error(&CommandError::Add(error).to_string()),
        }
    }
}

impl<'a, P: FnOnce() -> ChainParameters> Adds<'a, '_, P> {
    fn run(
        self,
        slot: Slot<&mut Chain>,
        host: &dyn Host,
        prefetch: impl Prefetch,
    ) -> Result<(Answers, Effects<'a>), CommandError> {
        match slot {
            Slot::WrongType => Err(CommandError::WrongType),
            Slot::Filter(chain) => {
                let answers = add_items(chain, self.items, host, prefetch);
                let items_added = count_new(&answers);
                // Only what was added goes out: a refusal would reach the replica as a refusal, which a strict one
                // does not survive.
                let replication = if items_added == 0 {
                    Replication::None
                } else if answers.iter().all(|answer| matches!(answer, Answer::Added(_))) {
                    Replication::Verbatim
                } else {
                    let arguments = std::iter::once(Cow::Borrowed(self.key))
                        .chain(new_items(self.items, &answers))
                        .collect();
                    Replication::Rewritten { command: "BF.MADD", arguments }
                };
                Ok((answers, Effects { replication, items_added, ..Effects::default() }))
            }
            Slot::Vacant => {
                let parameters = (self.parameters)();
                let mut chain = Chain::reserve(parameters, host).map_err(CommandError::Reserve)?;
                let answers = add_items(&mut chain, self.items, host, prefetch);
                let mut arguments = vec![
                    Cow::Borrowed(self.key),
                    Cow::Borrowed(b"CAPACITY".as_slice()),
                    text(parameters.capacity_items),
                    Cow::Borrowed(b"ERROR"),
                    text(parameters.error_rate),
                ];
                arguments.extend(growth_words(parameters.growth));
                arguments.push(Cow::Borrowed(b"ITEMS"));
                arguments.extend(new_items(self.items, &answers));
                let effects = Effects {
                    publish: Some(chain),
                    replication: Replication::Rewritten { command: "BF.INSERT", arguments },
                    created: true,
                    items_added: count_new(&answers),
                };
                Ok((answers, effects))
            }
        }
    }
}

/// Adds the items in turn. A full fixed filter ends the run, a filter that cannot grow for another reason does not;
/// both as in RedisBloom, whose array of answers is then shorter than the items.
fn add_items(chain: &mut Chain, items: &[&[u8]], host: &dyn Host, prefetch: impl Prefetch) -> Answers {
    let mut answers = Answers::with_capacity(items.len());
    chain.add_many(items, host, prefetch, |outcome| {
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
fn new_items<'a>(items: &[&'a [u8]], answers: &[Answer]) -> impl Iterator<Item = Cow<'a, [u8]>> {
    items.iter().zip(answers).filter(|(_, answer)| is_new(answer)).map(|(item, _)| Cow::Borrowed(*item))
}

/// The words that spell a growth out.
fn growth_words<'a>(growth: Growth) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let (word, factor) = match growth {
        Growth::Fixed => ("NONSCALING", None),
        Growth::Scaling { expansion } => ("EXPANSION", Some(text(expansion))),
    };
    std::iter::once(Cow::Borrowed(word.as_bytes())).chain(factor)
}

/// A number as an argument; for a float the shortest text that reads back as the same bits.
fn text<'a>(number: impl std::fmt::Display) -> Cow<'a, [u8]> {
    Cow::Owned(number.to_string().into_bytes())
}

fn is_error_rate(rate: f64) -> bool {
    rate > 0.0 && rate < 1.0
}

fn in_range(value: i64, min: u64, max: u64) -> Option<u64> {
    u64::try_from(value).ok().filter(|value| (min..=max).contains(value))
}
