//! `everbloom load`: loads the items of a file into a filter on a server.

use clap::value_parser;
use everbloom::{BloomFilter, Tally};
use redis::Value;
use serde_json::json;

use super::build::{self, THREADS_MAX};
use super::chunks::chunks;
use super::draft::{Draft, publish_all};
use super::existing;
use super::failure::Failure;
use super::input::{self, BATCH_BYTES, Times};
use super::options;
use super::output::{Output, bytes, counted, per_second, shown};
use super::partitions::{self, Spreader, build_partitions};
use super::sending::{Counts, Sender};
use super::server::{self, CallError, Credentials, RoutedError, Router, Site, integer};

/// Load the items of a file into a filter on a server
///
/// The tool fills a new filter under a temporary key and renames it to KEY at the end. If the load is interrupted or
/// fails, KEY is unchanged. The temporary key is removed, or expires within ten minutes if the tool is killed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// Address of the server: redis://[user[:password]@]host[:port][/db], rediss://..., unix://path or host:port
    #[arg(value_name = "ADDRESS")]
    url: String,
    /// Key of the filter
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    input: input::Arguments,
    /// Column or field with the time of each item. Needs --csv or --jsonl, and --window or --add
    ///
    /// The window of an item begins at its time. Times are seconds since 1970, milliseconds since 1970 (numbers from
    /// 100000000000 on), or RFC 3339 (2026-11-23T10:00:00Z). Items that have expired by the server's clock are skipped
    /// and counted. A time more than a fourteenth of the window ahead of the clock is an error.
    #[arg(long, value_name = "COLUMN", requires_all = ["columns", "windowed"], conflicts_with = "offline")]
    time: Option<String>,
    #[command(flatten)]
    options: options::Arguments,
    #[command(flatten)]
    server_options: options::ServerArguments,
    #[command(flatten)]
    existing: existing::Arguments,
    /// Add to the existing filter. If the load is interrupted, the filter has some of the items
    #[arg(
        long,
        conflicts_with_all = [
            "error", "capacity", "expansion", "nonscaling", "keyed", "counting", "window", "ex", "offline", "replace",
        ],
        group = "windowed"
    )]
    add: bool,
    /// Build the filter on this machine, on all cores, and send it in chunks
    #[arg(long, conflicts_with_all = ["keyed", "counting", "window"], help_heading = "Filter")]
    offline: bool,
    /// Number of threads of --offline. Without it, one thread for each core
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = value_parser!(u16).range(1..=THREADS_MAX),
        requires = "offline",
        help_heading = "Filter"
    )]
    threads: Option<u16>,
    /// Distribute the items over this number of filters KEY:{0}, KEY:{1}, ... The number can never change
    #[arg(long, value_name = "NUMBER", value_parser = partitions::count, help_heading = "Filter")]
    partitions: Option<u32>,
    #[command(flatten)]
    connection: server::Arguments,
}

const EXAMPLE: &str = "\
Examples:
  everbloom load redis://127.0.0.1:6379 visited urls.txt --error 0.001
  zcat logs.gz | cut -f1 | everbloom load redis://127.0.0.1 seen - --capacity 10M
  everbloom load rediss://cache.example:6380 users users.csv --csv id --replace
  everbloom load redis://127.0.0.1 ids ids.txt.zst --offline
  everbloom load redis://127.0.0.1 seen log.csv --csv url --window 7d --time date
  everbloom load redis://127.0.0.1:7000 seen urls.txt --partitions 24 -c

The user and the password can be in EVERBLOOM_USERNAME and EVERBLOOM_PASSWORD instead of the address.
Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 done, but items were refused; 130 interrupted.";

/// The options to which an error about an existing key refers.
const CHOICES: &str = "--replace or --add";

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let site = Site::new(&arguments.url, &arguments.connection, Credentials::Main)?;
    let keys = arguments.keys()?;
    if !arguments.add {
        arguments.options.check_capacity(&arguments.input)?;
    }
    // Checks the server before it counts the items.
    let mut router = Router::new(&site)?;
    // Only everbloom accepts the chunks of --offline, and only everbloom has BF.STATS.
    let command = if arguments.offline { "BF.STATS" } else { "BF.RESERVE" };
    keys.iter().try_for_each(|key| router.connection_for(key)?.require(command))?;
    arguments.check_partitions(&mut router)?;
    let times = arguments.times(&mut router, &keys)?;
    let times = times.as_ref();
    if arguments.add {
        let sent = send(&arguments, output, &mut router, (keys.clone(), times), &mut [])?;
        return report(&arguments, output, &mut router, &keys, sent, "");
    }
    let drafts = keys.iter().map(|key| Draft::new(&mut router, key, arguments.existing, CHOICES));
    let mut drafts: Vec<Draft> = drafts.collect::<Result<_, Failure>>()?;
    let mut capacity_items = arguments.options.capacity_of(&arguments.input, times, output)?;
    if let Some(count) = arguments.partitions {
        capacity_items = partitions::capacity_items(capacity_items, count);
    }
    let expiry_ms = arguments.server_options.ex;
    if arguments.offline {
        let (mut filters, tally, seconds) = arguments.build(capacity_items, output)?;
        arguments.check_items(tally.items)?;
        // Opens new connections, since the server may have closed the idle ones.
        router.refresh()?;
        let all_bytes = filters.iter().map(BloomFilter::size_bytes).sum();
        let progress = output.progress("sending", Some(all_bytes));
        let mut before = 0;
        for (number, filter) in filters.iter_mut().enumerate() {
            let due = drafts.iter_mut().filter(|draft| draft.is_to_be_kept());
            due.into_iter().try_for_each(|draft| draft.keep(&mut router))?;
            let Some(draft) = drafts.get_mut(number) else { break };
            draft.fill(&mut router, chunks(filter), |sent| {
                progress.set(before + sent, bytes(before + sent))
            })?;
            before += filter.size_bytes();
        }
        let seconds = seconds + progress.finish();
        publish_all(drafts, &mut router, expiry_ms)?;
        let counts = Counts {
            items: tally.items,
            new: tally.new_items,
            present: tally.items - tally.new_items - tally.refused_items,
            refused: tally.refused_items,
            expired: 0,
        };
        return report(&arguments, output, &mut router, &keys, (counts, seconds), "built here, ");
    }
    router.refresh()?;
    let words = arguments.options.words(&arguments.server_options, capacity_items);
    for draft in &mut drafts {
        let name = draft.name().to_owned();
        let mut reserve: Vec<&[u8]> = vec![b"BF.RESERVE", &name];
        reserve.extend(words.iter().map(|word| word.as_bytes()));
        draft.create(&mut router, reserve)?;
    }
    let names = drafts.iter().map(|draft| draft.name().to_owned()).collect();
    let sent = send(&arguments, output, &mut router, (names, times), &mut drafts)?;
    arguments.check_items(sent.0.items)?;
    publish_all(drafts, &mut router, expiry_ms)?;
    report(&arguments, output, &mut router, &keys, sent, "")
}

impl Arguments {
    /// Returns the keys of the filter: one, or those of its partitions.
    fn keys(&self) -> Result<Vec<Vec<u8>>, Failure> {
        match self.partitions {
            Some(count) => partitions::keys(&self.key, count),
            None => Ok(vec![self.key.as_bytes().to_owned()]),
        }
    }

    /// Returns an error if there are no items and this may be a mistake.
    fn check_items(&self, items: u64) -> Result<(), Failure> {
        self.existing.check_items(items, self.options.capacity.is_some())
    }

    /// Returns an error if the filter has another number of partitions on the server, or lacks one to add to: lookups
    /// would not find their items.
    fn check_partitions(&self, router: &mut Router) -> Result<(), Failure> {
        let Some(count) = self.partitions else { return Ok(()) };
        let mut has = |number: u32| -> Result<bool, Failure> {
            let key = partitions::key(&self.key, number);
            Ok(router.call(key.as_bytes(), &[b"EXISTS", key.as_bytes()])? != Value::Int(0))
        };
        // A filter that is created or replaced may have fewer partitions before.
        let first = if self.add { 0 } else { count };
        let mut found = first;
        while has(found)? {
            found += 1;
        }
        for number in found..count {
            if has(number)? {
                let key = partitions::key(&self.key, found);
                return Err(Failure::of(
                    key,
                    "the partition is missing: load the filter again with --replace",
                ));
            }
        }
        // The first command finds that there is no filter.
        if found == count || found == 0 {
            return Ok(());
        }
        Err(Failure::of(
            &self.key,
            format!(
                "the filter has {found} partitions, and their number can never change: use the same --partitions"
            ),
        ))
    }

    /// Returns the times of the items, compared with the server's clock and with the window of the filters.
    fn times(&self, router: &mut Router, keys: &[Vec<u8>]) -> Result<Option<Times>, Failure> {
        let (Some(column), Some(first)) = (&self.time, keys.first()) else { return Ok(None) };
        let mut window_ms = self.server_options.window;
        for key in keys.iter().filter(|_| self.add) {
            let found = match router.call(key, &[b"BF.INFO", key, b"WINDOW"]) {
                Ok(reply) => integer(&reply),
                Err(RoutedError::Call(CallError::Refused(_))) => None,
                Err(error) => return Err(error.into()),
            };
            let found = found.ok_or_else(|| {
                Failure::of(shown(key), "the key is not a sliding-window filter, which --time needs")
            })?;
            if *window_ms.get_or_insert(found) != found {
                return Err(Failure::of(
                    shown(key),
                    "the partitions have different windows: load them again with --replace --window",
                ));
            }
        }
        let Value::Array(now) = router.call(first, &[b"TIME"])? else {
            return Err(CallError::unexpected_reply("TIME").into());
        };
        let [seconds, microseconds] =
            [now.first(), now.get(1)].map(|part| part.and_then(integer).unwrap_or_default());
        let now_ms = seconds.saturating_mul(1000).saturating_add(microseconds / 1000);
        Ok(Some(Times::new(column, window_ms.unwrap_or_default(), now_ms)))
    }

    fn build(&self, capacity_items: u64, output: &Output) -> Result<(Vec<BloomFilter>, Tally, f64), Failure> {
        let (input, options) = (&self.input, &self.options);
        match self.partitions {
            Some(count) => build_partitions(input, options, (capacity_items, count), self.threads, output),
            None => build::build(input, options, capacity_items, self.threads, output)
                .map(|(filter, tally, seconds)| (vec![filter], tally, seconds)),
        }
    }
}

/// Adds all items, with their times, to the filters with these keys: temporary keys of drafts, or existing filters.
fn send(
    arguments: &Arguments,
    output: &Output,
    router: &mut Router,
    (names, times): (Vec<Vec<u8>>, Option<&Times>),
    drafts: &mut [Draft],
) -> Result<(Counts, f64), Failure> {
    let batches = arguments.input.batches(BATCH_BYTES, times)?;
    let mut sender = Sender::new(router, names)?;
    if !sender.is_packed() && times.is_none() {
        output.note(
            "the server does not have BF.BULKADD, or the user may not use it: loading with BF.INSERT, slower",
        );
    }
    let progress = output.progress("loading", batches.total_bytes);
    let show = |items| {
        let message = format!("{items} items, {} items/s", per_second(items, progress.seconds()));
        progress.set(batches.done_bytes(), message);
    };
    let mut spreader = arguments.partitions.map(|count| Spreader::new(count, BATCH_BYTES));
    for batch in &batches {
        match &mut spreader {
            Some(spreader) => spreader.spread(&batch?, |number, batch| sender.add(number, batch))?,
            None => sender.add(0, batch?)?,
        }
        show(sender.counts.items);
        if drafts.iter().any(Draft::is_to_be_kept) {
            let router = sender.settle()?;
            drafts.iter_mut().try_for_each(|draft| draft.keep(router))?;
        }
    }
    if let Some(spreader) = &mut spreader {
        spreader.flush(|number, batch| sender.add(number, batch))?;
    }
    sender.settle()?;
    show(sender.counts.items);
    sender.counts.expired += batches.expired();
    let seconds = progress.finish();
    batches.note_line_ends(output);
    Ok((sender.counts, seconds))
}

fn report(
    arguments: &Arguments,
    output: &Output,
    router: &mut Router,
    keys: &[Vec<u8>],
    (counts, seconds): (Counts, f64),
    how: &str,
) -> Result<(), Failure> {
    let mut fact =
        |key: &[u8], name: &[u8]| router.call(key, &[b"BF.INFO", key, name]).ok().as_ref().and_then(integer);
    let size_bytes = keys.iter().map(|key| fact(key, b"SIZE")).sum::<Option<u64>>();
    let rate = per_second(counts.items, seconds);
    let Counts { items, new, present, refused, expired } = counts;
    let filter =
        arguments.partitions.map_or_else(|| "a filter".to_owned(), |count| counted(count.into(), "filter"));
    let mut size = size_bytes.map_or_else(|| filter.clone(), |size| format!("{filter} of {}", bytes(size)));
    let mut json = json!({
        "key": arguments.key, "items": items, "new": new, "present": present, "refused": refused,
        "bytes": size_bytes, "seconds": seconds, "items_per_second": rate,
    });
    if let Some(count) = arguments.partitions {
        // Shows the partition with the most items.
        let fullest =
            keys.iter().filter_map(|key| Some((fact(key, b"ITEMS")?, fact(key, b"CAPACITY")?))).max();
        if let Some((items, capacity)) = fullest {
            size.push_str(&format!(", the fullest with {items} of {capacity} items"));
        }
        insert(&mut json, "partitions", count.into());
        insert(&mut json, "fullest_items", fullest.map(|(items, _)| items).into());
        insert(&mut json, "fullest_capacity", fullest.map(|(_, capacity)| capacity).into());
    }
    let mut skipped = String::new();
    if arguments.time.is_some() {
        skipped = format!(", {expired} expired");
        insert(&mut json, "expired", expired.into());
    }
    let text = format!(
        "{}: {}, {new} new, {present} present, {refused} refused{skipped}; {how}{size}; added in {seconds:.1} s, {rate} items/s",
        arguments.key,
        counted(items, "item"),
    );
    output.result(&text, &json)?;
    if refused > 0 {
        return Err(Failure::refused(refused));
    }
    Ok(())
}

/// Adds a field to an object.
fn insert(object: &mut serde_json::Value, name: &str, value: serde_json::Value) {
    if let serde_json::Value::Object(fields) = object {
        fields.insert(name.to_owned(), value);
    }
}
