//! The commands that replicas and the append-only file get if the client's command would not make the same change
//! there.

use std::borrow::Cow;

use super::timing::ReplicatedTimes;
use super::words::Word;
use everbloom_filter::filter::policy::{RedisBloom, ValkeyBloom};
use everbloom_filter::generation::Steps;
use everbloom_filter::limits::CAPACITY_DEFAULT_ITEMS;
use everbloom_filter::{Filter, Format, Growth, Hash, Promise};
use everbloom_format::filter::header;

/// The word before the time of a replicated BF.MERGE.
pub(super) const MERGED_AT: &str = "AT";

/// The arguments of a command, borrowed if possible.
pub(super) type ArgumentList<'a> = Vec<Cow<'a, [u8]>>;

/// A command for replicas and the append-only file.
#[derive(Debug, PartialEq, Eq)]
pub struct ReplicatedCommand<'a> {
    /// Name of the command.
    pub command: &'static str,
    /// Its arguments, the key first.
    pub arguments: Vec<Cow<'a, [u8]>>,
}

/// The parameter `buffer` is always empty. Its memory is used for the arguments.
impl<'a> ReplicatedCommand<'a> {
    /// Returns a command with the arguments `head` and then `items`. For BF.MADD and BF.DEL, `head` is the key.
    pub(super) fn of_items(
        command: &'static str,
        head: impl IntoIterator<Item = Cow<'a, [u8]>>,
        items: impl Iterator<Item = Cow<'a, [u8]>>,
        mut buffer: ArgumentList<'a>,
    ) -> Self {
        buffer.extend(head);
        buffer.extend(items);
        Self { command, arguments: buffer }
    }

    /// Returns the command that adds `items` with these times to the filter under `key`, and does not create one.
    pub(super) fn add_at(
        key: &'a [u8],
        times: ReplicatedTimes,
        items: impl Iterator<Item = Cow<'a, [u8]>>,
        buffer: ArgumentList<'a>,
    ) -> Self {
        let head = [Cow::Borrowed(key), word("NOCREATE")].into_iter().chain(time_words(times));
        let head = head.chain([word("ITEMS")]);
        Self::of_items("BF.INSERT", head, items, buffer)
    }

    /// Returns the command that merges the sources in `words` at the time `at_ms`.
    pub(super) fn merge_at(key: &'a [u8], words: &[&'a [u8]], at_ms: u64, buffer: ArgumentList<'a>) -> Self {
        let words = words.iter().copied().map(Cow::Borrowed).chain([word(MERGED_AT), number(at_ms)]);
        Self::of_items("BF.MERGE", [Cow::Borrowed(key)], words, buffer)
    }

    /// Returns the command that makes `key` expire at `at_ms`. It is PEXPIREAT, which every server has and which
    /// creates no key.
    pub(super) fn expire(key: &'a [u8], at_ms: u64) -> Self {
        Self { command: "PEXPIREAT", arguments: vec![Cow::Borrowed(key), number(at_ms)] }
    }
}

/// The creation of a filter with every parameter explicit, so that a server with other settings creates the same
/// filter.
#[derive(Debug)]
pub(super) struct Creation {
    /// The command that creates the filter.
    command: &'static str,
    /// The arguments after the key.
    words: ArgumentList<'static>,
    /// Whether the command that creates the filter can also add items.
    takes_items: bool,
}

impl Creation {
    /// Returns the creation of an empty filter that [`spec`](super::creation::spec) describes, as a command of the
    /// module of its format.
    pub(super) fn of(filter: &Filter) -> Self {
        let policy = filter.policy();
        match (policy.redisbloom(), policy.valkeybloom()) {
            (Some(policy), _) => Self::of_redisbloom(policy, filter),
            (_, Some(policy)) => Self::of_valkeybloom(policy, filter),
            (None, None) => Self::of_everbloom(filter),
        }
    }

    /// Returns a BF.INSERT. CAPACITY is left out if UNRESERVED implies it. A keyed filter is created with its key,
    /// because a replica must compute the same hashes.
    fn of_everbloom(filter: &Filter) -> Self {
        let Promise { error_rate, capacity_items, growth } = filter.promise();
        let mut words = ArgumentList::new();
        if !growth.is_unreserved() || capacity_items != CAPACITY_DEFAULT_ITEMS {
            words.extend([word("CAPACITY"), number(capacity_items)]);
        }
        words.extend([word("ERROR"), number(error_rate)]);
        words.extend(growth_words(growth));
        words.extend([word("FORMAT"), word(Format::Everbloom.word())]);
        if let Some(counting) = filter.policy().counting() {
            words.push(word("COUNTING"));
            words.extend(counting.bucket_size.iter().flat_map(|slots| [word("BUCKETSIZE"), number(slots)]));
            let iterations = counting.max_iterations.iter();
            words.extend(iterations.flat_map(|iterations| [word("MAXITERATIONS"), number(iterations)]));
        }
        if let Hash::Keyed(key) = filter.hash() {
            words.extend([word("KEY"), Cow::Owned(key.bytes().to_vec())]);
        }
        if let Some(window) = filter.window() {
            words.extend([word("PWINDOW"), number(window.span.ms())]);
            words.extend(window.no_refresh.then(|| word("NOREFRESH")));
            let steps = Some(window.span.steps()).filter(|steps| *steps != Steps::default());
            words.extend(steps.into_iter().flat_map(|steps| [word("STEPS"), number(steps.count())]));
        }
        Self { command: "BF.INSERT", words, takes_items: true }
    }

    fn of_valkeybloom(policy: &ValkeyBloom, filter: &Filter) -> Self {
        let ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth } = *policy;
        let mut words = vec![word("CAPACITY"), number(capacity_items), word("ERROR"), number(error_rate)];
        words.extend([word("TIGHTENING"), number(tightening_ratio)]);
        if let Hash::ValkeyBloom(seed) = filter.hash() {
            words.extend([word("SEED"), Cow::Owned(seed.bytes().to_vec())]);
        }
        words.extend(growth_words(growth));
        Self { command: "BF.INSERT", words, takes_items: true }
    }

    /// Returns a BF.RESERVE, or a BF.LOADCHUNK of a header if no BF.RESERVE creates the filter. BF.RESERVE is better,
    /// because RedisBloom before 2.2.19, 2.4.8 and 2.6.11 does not clear the array that it allocates for a header.
    fn of_redisbloom(policy: &RedisBloom, filter: &Filter) -> Self {
        let Some((error_rate, capacity_items)) = policy.reserve_parameters() else {
            let words = vec![word("1"), Cow::Owned(header(filter))];
            return Self { command: "BF.LOADCHUNK", words, takes_items: false };
        };
        let mut words = vec![number(error_rate), number(capacity_items)];
        words.extend(growth_words(filter.growth()));
        Self { command: "BF.RESERVE", words, takes_items: false }
    }

    /// Adds the times of the items to the arguments.
    pub(super) fn at(&mut self, times: ReplicatedTimes) {
        self.words.extend(time_words(times));
    }

    /// Returns the commands that create the filter under `key` and add `items` to it. `buffer` is empty; its memory
    /// is reused.
    pub(super) fn commands<'a>(
        self,
        key: &'a [u8],
        items: impl Iterator<Item = Cow<'a, [u8]>>,
        buffer: ArgumentList<'a>,
    ) -> Vec<ReplicatedCommand<'a>> {
        let Self { command, words, takes_items } = self;
        let head = std::iter::once(Cow::Borrowed(key)).chain(words);
        let mut items = items.peekable();
        let has_items = items.peek().is_some();
        if takes_items {
            // Without ITEMS, BF.INSERT only creates the filter.
            let head = head.chain(has_items.then(|| word("ITEMS")));
            return vec![ReplicatedCommand::of_items(command, head, items, buffer)];
        }
        let mut commands = vec![ReplicatedCommand { command, arguments: head.collect() }];
        let key = [Cow::Borrowed(key)];
        commands.extend(has_items.then(|| ReplicatedCommand::of_items("BF.MADD", key, items, buffer)));
        commands
    }
}

/// Returns the options for the times of items.
fn time_words<'a>(times: ReplicatedTimes) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let end = times.end_ms.into_iter().flat_map(|end_ms| [word("PLIFEAT"), number(end_ms)]);
    [word("AT"), number(times.at_ms)].into_iter().chain(end)
}

/// Returns the options that describe a growth.
pub(super) fn growth_words<'a>(growth: Growth) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let (name, value, more) = match growth {
        Growth::Fixed => ("NONSCALING", None, None),
        Growth::Saturating => ("NONSCALING", None, Some("SATURATE")),
        Growth::Scaling { expansion } => ("EXPANSION", Some(number(expansion)), None),
        Growth::Unreserved { expansion } => ("EXPANSION", Some(number(expansion)), Some("UNRESERVED")),
    };
    std::iter::once(word(name)).chain(value).chain(more.map(word))
}

pub(super) fn word(text: &'static str) -> Cow<'static, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

/// Returns a number as an argument. A float becomes the shortest text that parses to the same bits.
pub(super) fn number(number: impl std::fmt::Display) -> Cow<'static, [u8]> {
    Cow::Owned(number.to_string().into_bytes())
}
