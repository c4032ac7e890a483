//! Packed batches, with all items in one argument: BF.BULKADD and BF.BULKEXISTS.

use std::borrow::Cow;
use std::iter;

use memchr::{memchr, memchr_iter};

use super::adding::{AddRules, Adds, add_items, argument_buffer, check_auto_create};
use super::arguments::Arguments;
use super::effects::{Effects, publish};
use super::error::CommandError;
use super::items::missing;
use super::keyspace::{Host, KeyName, KeyValue, Keyspace, ReadKey, Reply, WriteKey};
use super::number::parse_integer;
use super::options::{CommandOptions, CreationOptions, is_named};
use super::outcomes::ItemOutcomes;
use super::replicated::{ArgumentList, Creation, ReplicatedCommand, number, word};
use super::spare::{Spare, byte_buffer};
use super::timing::{ReplicatedTimes, lookup_generation};
use everbloom_filter::{GROUP_ITEMS, ItemSource};

/// The character of an item that was added or found.
const YES: u8 = b'1';
/// The character of an item that was present already, or was not found.
const NO: u8 = b'0';
/// The character of an item that was refused.
const REFUSED: u8 = b'!';

/// The rules of BF.BULKADD. Its reply has a character for every item.
const RULES: AddRules = AddRules { ends_when_full: false, only_absent: false };

/// BF.BULKADD: `key [NOCREATE] [COUNT] [IFABSENT] [LIFE s | PLIFE ms | LIFEAT s | PLIFEAT ms] LINES data | FIXED bytes data | PREFIXED data`. O(bytes + items * layers *
/// probes).
///
/// # Errors
/// The batch is malformed, or the filter does not exist and cannot be created. Nothing has changed, and nothing was
/// replied.
pub(super) fn add<'a>(
    arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (request, options) = BatchRequest::parse(arguments, keyspace)?;
    let BatchRequest { key, batch, .. } = request;
    let spare = request.spare(keyspace)?;
    let mut open = keyspace.open_to_write(key);
    let slot = open.slot_to_add();
    if matches!(slot, KeyValue::Vacant) {
        if options.no_create {
            return Err(CommandError::NotFound);
        }
        check_auto_create(&slot, keyspace)?;
        // Without items no filter is created.
        if batch.items == 0 {
            request.write(&[], spare, reply);
            return Ok(Effects::default());
        }
        // An everbloom primary replicates the creation of the filter before the batch.
        if keyspace.is_replicated() {
            return Err(CommandError::LostFilter);
        }
    }
    let (outcomes, change) =
        add_items(key.bytes, &batch, &options.creation, RULES, slot, keyspace, keyspace.prefetch())?;
    let effects = publish(&mut open, key, change)?;
    request.write(&outcomes.into_characters(REFUSED), spare, reply);
    Ok(effects)
}

/// BF.BULKEXISTS: `key [COUNT] [WITHIN s | PWITHIN ms] LINES data | FIXED bytes data | PREFIXED data`. O(bytes + items * layers * probes).
///
/// # Errors
/// The command is refused. Nothing was replied.
pub(super) fn exists<'a>(
    arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (request, options) = BatchRequest::parse(arguments, keyspace)?;
    let BatchRequest { key, batch, wants_count } = request;
    let key = keyspace.open_to_read(key);
    let mut items_found = 0u64;
    let count = if wants_count { 0 } else { batch.items };
    let (mut characters, spare) = (byte_buffer(count)?, request.spare(keyspace)?);
    match key.slot().present()? {
        Some(filter) => {
            let now = lookup_generation(filter, options.within, keyspace)?;
            filter.contains_items(&mut batch.groups(), now, keyspace.prefetch(), &mut |found, items| {
                items_found = items_found.saturating_add(found.count_ones().into());
                if !wants_count {
                    characters.extend((0..items).map(|index| NO | u8::from(found >> index & 1 == 1)));
                }
            })
        }
        None => characters.resize(count, NO | u8::from(missing(keyspace)?)),
    }
    if wants_count {
        reply.integer(items_found);
    } else {
        request.write(&characters, spare, reply);
    }
    Ok(Effects::of_checks(batch.items, items_found))
}

/// The arguments of BF.BULKADD and BF.BULKEXISTS.
#[derive(Clone, Copy)]
struct BatchRequest<'a> {
    key: KeyName<'a>,
    batch: Batch<'a>,
    /// COUNT: the reply is the number of items whose character is [`YES`], instead of a character for each item.
    wants_count: bool,
}

impl<'a> BatchRequest<'a> {
    /// Reads the arguments. Returns them, and the options before the packing.
    fn parse(mut arguments: Arguments<'a>, host: &dyn Host) -> Result<(Self, CommandOptions), CommandError> {
        let key = arguments.key()?;
        let (mut options, mut wants_count) = (CommandOptions::default(), false);
        loop {
            let word = arguments.required()?;
            if is_named("COUNT", word) {
                wants_count = true;
            } else if !options.read_option(word, &mut arguments, host)? {
                let batch = Batch::parse(word, arguments)?;
                return Ok((Self { key, batch, wants_count }, options));
            }
        }
    }

    /// Returns memory for the server's copy of the reply.
    fn spare(&self, host: &dyn Host) -> Result<Spare, CommandError> {
        if self.wants_count { Ok(Spare::default()) } else { Spare::for_reply(self.batch.items, host) }
    }

    /// Replies the characters, or with COUNT the number of [`YES`] in them.
    fn write(&self, characters: &[u8], spare: Spare, reply: &mut impl Reply) {
        spare.free();
        if self.wants_count {
            reply.integer(memchr_iter(YES, characters).count() as u64);
        } else {
            reply.bulk(characters);
        }
    }
}

/// The packings of a batch.
#[derive(Clone, Copy, Debug)]
enum Packing {
    /// Each item ends with a newline. The last newline may be missing.
    Lines,
    /// All items have the same length, at least one byte.
    Fixed { item_bytes: usize },
    /// Each item follows its length, four bytes, little-endian.
    Prefixed,
}

impl Packing {
    /// Returns the first item of `data`, which is not empty, and the data after it; `None` if the data ends in the
    /// middle of the item.
    #[inline(always)]
    fn split(self, data: &[u8]) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Lines => match memchr(b'\n', data) {
                Some(end) => Some((data.get(..end)?, data.get(end.checked_add(1)?..)?)),
                None => Some((data, &[])),
            },
            Self::Fixed { item_bytes } => data.split_at_checked(item_bytes),
            Self::Prefixed => {
                let (length, rest) = data.split_first_chunk()?;
                rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
            }
        }
    }

    /// Returns the number of items in `data`; `None` if it ends in the middle of one. O(bytes).
    fn count(self, data: &[u8]) -> Option<usize> {
        match self {
            Self::Lines => {
                let has_open_line = data.last().is_some_and(|last| *last != b'\n');
                Some(memchr_iter(b'\n', data).count().saturating_add(has_open_line.into()))
            }
            Self::Fixed { item_bytes } => {
                data.len().is_multiple_of(item_bytes).then(|| data.len().checked_div(item_bytes)).flatten()
            }
            Self::Prefixed => {
                let (mut items, mut rest) = (0usize, data);
                while !rest.is_empty() {
                    rest = self.split(rest)?.1;
                    items = items.saturating_add(1);
                }
                Some(items)
            }
        }
    }

    /// Appends an item to `data`.
    fn pack(self, item: &[u8], data: &mut Vec<u8>) {
        if let Self::Prefixed = self {
            // The length fits, because it was read from four bytes.
            data.extend_from_slice(&u32::try_from(item.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        data.extend_from_slice(item);
        if let Self::Lines = self {
            data.push(b'\n');
        }
    }
}

/// A well-formed packed batch.
#[derive(Clone, Copy, Debug)]
struct Batch<'a> {
    packing: Packing,
    data: &'a [u8],
    /// The number of items.
    items: usize,
}

impl<'a> Batch<'a> {
    /// Reads `word` and all arguments after it as a batch, and counts its items. O(bytes).
    fn parse(word: &[u8], mut arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let packing = if is_named("LINES", word) {
            Packing::Lines
        } else if is_named("FIXED", word) {
            let length = parse_integer(arguments.required()?).and_then(|length| usize::try_from(length).ok());
            let item_bytes = length.filter(|length| *length > 0).ok_or(CommandError::BatchItemBytes)?;
            Packing::Fixed { item_bytes }
        } else if is_named("PREFIXED", word) {
            Packing::Prefixed
        } else {
            return Err(CommandError::BatchPacking);
        };
        let data = arguments.required()?;
        if arguments.optional().is_some() {
            return Err(CommandError::BatchArguments);
        }
        let items = packing.count(data).ok_or(CommandError::BatchTorn)?;
        Ok(Self { packing, data, items })
    }

    fn groups(&self) -> BatchGroups<'a> {
        BatchGroups { packing: self.packing, rest: self.data, places: [&[]; GROUP_ITEMS] }
    }

    fn added(&self, outcomes: &ItemOutcomes) -> impl Iterator<Item = &'a [u8]> {
        let Self { packing, data: mut rest, .. } = *self;
        outcomes.added(iter::from_fn(move || {
            let (item, others) = packing.split(Some(rest).filter(|rest| !rest.is_empty())?)?;
            rest = others;
            Some(item)
        }))
    }

    /// Returns the command that adds the items in `data`, in the packing of this batch, to the filter under `key`,
    /// which must exist.
    fn command(&self, key: &'a [u8], data: Cow<'a, [u8]>) -> ReplicatedCommand<'a> {
        let mut arguments = vec![Cow::Borrowed(key)];
        match self.packing {
            Packing::Lines => arguments.push(word("LINES")),
            Packing::Fixed { item_bytes } => arguments.extend([word("FIXED"), number(item_bytes)]),
            Packing::Prefixed => arguments.push(word("PREFIXED")),
        }
        arguments.push(data);
        ReplicatedCommand { command: "BF.BULKADD", arguments }
    }
}

/// The most items in a BF.INSERT that replicates a part of a batch. The list of its arguments in the server is then smaller
/// than a block that is refused if memory is short.
const INSERTED_MAX_ITEMS: usize = 1 << 16;

/// Memory for what replicates a batch, and for the server's copy of it.
struct BatchBuffer<'a> {
    /// The arguments of each BF.INSERT of items with a life of their own.
    arguments: Vec<ArgumentList<'a>>,
    /// The items of a BF.BULKADD if some are refused, or were left as they are.
    data: Vec<u8>,
    spare: Spare,
    /// Whether items that are present are left as they are.
    if_absent: bool,
}

/// The items of a batch, a group at a time.
struct BatchGroups<'a> {
    packing: Packing,
    rest: &'a [u8],
    places: [&'a [u8]; GROUP_ITEMS],
}

impl<'a> ItemSource<'a> for BatchGroups<'a> {
    fn next_few(&mut self) -> &[&'a [u8]] {
        let mut count = if let Packing::Lines = self.packing { self.take_lines() } else { 0 };
        for place in self.places.iter_mut().skip(count) {
            if self.rest.is_empty() {
                break;
            }
            let Some((item, rest)) = self.packing.split(self.rest) else { break };
            (*place, self.rest) = (item, rest);
            count = count.saturating_add(1);
        }
        self.places.get(..count).unwrap_or_default()
    }
}

impl BatchGroups<'_> {
    /// Takes lines until the places are filled, or fewer than 64 bytes are left. Returns the number of lines. It
    /// searches blocks of bytes for newlines, because most lines are short, and starting a search for each takes longer
    /// than the search.
    fn take_lines(&mut self) -> usize {
        let (data, mut start, mut row_start) = (self.rest, 0usize, 0usize);
        let mut places = self.places.iter_mut();
        'fill: for block in data.as_chunks::<64>().0 {
            // Compilers vectorize this. Each byte becomes 1 for a newline or 0.
            let found = block.map(|byte| u8::from(byte == b'\n'));
            for row in found.as_chunks().0 {
                let mut ends = u64::from_le_bytes(*row);
                while ends != 0 {
                    let end = row_start.wrapping_add(ends.trailing_zeros() as usize / 8);
                    let Some(line) = data.get(start..end) else { break 'fill };
                    let Some(place) = places.next() else { break 'fill };
                    *place = line;
                    start = end.wrapping_add(1);
                    ends &= ends.wrapping_sub(1);
                }
                row_start = row_start.wrapping_add(8);
            }
        }
        self.rest = data.get(start..).unwrap_or_default();
        GROUP_ITEMS.saturating_sub(places.len())
    }
}

impl<'a> Adds<'a> for Batch<'a> {
    type Buffer = BatchBuffer<'a>;

    fn count(&self) -> usize {
        self.items
    }

    fn items(&self) -> impl ItemSource<'a> {
        self.groups()
    }

    fn buffer(&self, options: &CreationOptions) -> Result<Self::Buffer, CommandError> {
        // The last line may have no newline, so one more byte is needed.
        let (bytes, if_absent) = (self.data.len().saturating_add(1), options.if_absent);
        let (arguments, data, spare) = if options.life.is_some() {
            let firsts = (0..self.items).step_by(INSERTED_MAX_ITEMS);
            let lists =
                firsts.map(|first| argument_buffer(INSERTED_MAX_ITEMS.min(self.items.saturating_sub(first))));
            (lists.collect::<Result<_, _>>()?, Vec::new(), Spare::for_copies(bytes, self.items)?)
        } else {
            (Vec::new(), byte_buffer(bytes)?, Spare::for_copy(bytes)?)
        };
        Ok(BatchBuffer { arguments, data, spare, if_absent })
    }

    /// BF.BULKADD has no option for a time. If replicas need the time, the first added item is replicated with it in a
    /// BF.INSERT, and the others in a batch after it. The batch then adds to the newest generation of the filter, which is the
    /// generation of that item. Items with a life of their own are not of that generation, so all of them are in commands
    /// of BF.INSERT.
    fn replicated(
        &self,
        key: &'a [u8],
        creation: Option<Creation>,
        times: Option<ReplicatedTimes>,
        outcomes: &ItemOutcomes,
        BatchBuffer { arguments, mut data, spare, if_absent }: Self::Buffer,
    ) -> Vec<ReplicatedCommand<'a>> {
        spare.free();
        let mut commands =
            creation.map_or_else(Vec::new, |creation| creation.commands(key, iter::empty(), Vec::new()));
        if let Some(times) = times {
            let mut added = self.added(outcomes).peekable();
            if times.end_ms.is_some() {
                for list in arguments {
                    if added.peek().is_some() {
                        let items = added.by_ref().take(INSERTED_MAX_ITEMS).map(Cow::Borrowed);
                        commands.push(ReplicatedCommand::add_at(key, times, items, list));
                    }
                }
            } else {
                let first = added.by_ref().take(1).map(Cow::Borrowed);
                commands.push(ReplicatedCommand::add_at(key, times, first, Vec::new()));
            }
            added.for_each(|item| self.packing.pack(item, &mut data));
            if !data.is_empty() {
                commands.push(self.command(key, Cow::Owned(data)));
            }
        } else if (if_absent || outcomes.items_refused > 0) && outcomes.items_added > 0 {
            self.added(outcomes).for_each(|item| self.packing.pack(item, &mut data));
            commands.push(self.command(key, Cow::Owned(data)));
        } else if outcomes.items_added > 0 {
            commands.push(self.command(key, Cow::Borrowed(self.data)));
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_newlines_at_any_place() {
        for length in 0..300 {
            for step in [1, 2, 3, 7, 8, 9, 31, 64, 65, 130] {
                let other = if length % 2 == 0 { b'x' } else { b'\n' ^ 0x80 };
                let text: Vec<u8> =
                    (0..length).map(|place| if place % step == step - 1 { b'\n' } else { other }).collect();
                let whole = text.strip_suffix(b"\n").unwrap_or(&text);
                let expected: Vec<&[u8]> =
                    whole.split(|byte| *byte == b'\n').take(if text.is_empty() { 0 } else { 300 }).collect();
                let batch = Batch { packing: Packing::Lines, data: &text, items: 0 };
                let (mut groups, mut read) = (batch.groups(), Vec::new());
                loop {
                    let few = groups.next_few();
                    read.extend_from_slice(few);
                    if few.len() < GROUP_ITEMS {
                        break;
                    }
                }
                assert_eq!(read, expected, "{length} bytes, a newline every {step}");
                assert_eq!(Packing::Lines.count(&text), Some(expected.len()));
                assert!(groups.next_few().is_empty());
            }
        }
    }
}
