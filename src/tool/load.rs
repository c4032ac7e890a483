//! `everbloom load`: loads the items of a file into a filter on a server.

use std::collections::BTreeMap;

use everbloom::Steps;
use redis::{Value, from_redis_value};
use serde_json::json;

use super::draft::{Draft, ReplaceArguments, publish_all};
use super::failure::Failure;
use super::input::{InputArguments, Times};
use super::options::{self, FilterArguments};
use super::output::{Printer, bytes, counted, per_second, shown};
use super::partitions::{self, Spreader};
use super::sending::{LoadCounts, Sender};
use super::server::{CallError, ConnectionArguments, Router, Site, integer};

/// Load the items of a file into a filter on a server
///
/// The tool fills a new filter under a temporary key and renames it to KEY at the end. If the load is interrupted or
/// fails, KEY is unchanged. The temporary key is removed, or expires within ten minutes if the tool is killed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct LoadArguments {
    /// Address of the server: redis://[user[:password]@]host[:port][/db], rediss://..., unix://path or host:port
    #[arg(value_name = "ADDRESS")]
    url: String,
    /// Key of the filter
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    input: InputArguments,
    /// Column with the time of each item. Needs --csv, and --window or --add
    ///
    /// The window of an item begins at its time. Times are seconds since 1970, milliseconds since 1970 (numbers from
    /// 100000000000 on), or RFC 3339 (2026-11-23T10:00:00Z). Items that have expired by the server's clock are skipped
    /// and counted. A time more than a step of the window ahead of the clock is an error.
    #[arg(long, value_name = "COLUMN", requires_all = ["csv", "windowed"])]
    time: Option<String>,
    /// Column with the life of each item in seconds after its time, at most the window. Needs --time
    #[arg(long, value_name = "COLUMN", requires = "time")]
    life: Option<String>,
    #[command(flatten)]
    replacing: ReplaceArguments,
    /// Add to the existing filter. If the load is interrupted, the filter has some of the items
    #[arg(
        long,
        conflicts_with_all = [
            "error", "capacity", "expansion", "nonscaling", "keyed", "counting", "window", "steps", "ex", "replace",
        ],
        group = "windowed"
    )]
    add: bool,
    #[command(flatten)]
    options: FilterArguments,
    /// Distribute the items over this number of filters KEY:{NUMBER}. The number of filters can never change
    #[arg(long, value_name = "NUMBER", value_parser = partitions::count, help_heading = "Filter")]
    partitions: Option<u32>,
    #[command(flatten)]
    connection: ConnectionArguments,
}

const EXAMPLE: &str = "\
Examples:
  everbloom load redis://127.0.0.1:6379 visited urls.txt --error 0.001
  zcat logs.gz | cut -f1 | everbloom load redis://127.0.0.1 seen - --capacity 10M
  everbloom load rediss://cache.example:6380 users users.csv --csv id --replace
  everbloom load redis://127.0.0.1 ids ids.txt.zst
  everbloom load redis://127.0.0.1 seen log.csv --csv url --window 7d --time date
  everbloom load redis://127.0.0.1 revoked tokens.csv --csv id --window 1d --time issued --life seconds
  everbloom load redis://127.0.0.1:7000 seen urls.txt --partitions 24 -c

The user and the password can be in EVERBLOOM_USERNAME and EVERBLOOM_PASSWORD instead of the address.
Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 done, but items were refused, the result was not printed, or the connection broke at the end; 130 interrupted.";

/// The options that the error about an existing key names.
const CHOICES: &str = "--replace or --add";

pub(crate) fn run(arguments: LoadArguments, printer: &Printer) -> Result<(), Failure> {
    let site = Site::new(&arguments.url, &arguments.connection, "EVERBLOOM")?;
    let keys = arguments.keys()?;
    let capacity = arguments.options.capacity;
    if !arguments.add && capacity.is_none() && arguments.input.is_read_once() {
        return Err(Failure::usage(
            "the items of standard input or of a pipe cannot be counted first: give their number with --capacity",
        ));
    }
    if let Some(all_items) = capacity {
        options::check_capacity(arguments.capacity_items(all_items))?;
    }
    // The server is checked before the items are counted, because counting can take minutes.
    let mut router = Router::new(&site)?;
    // RedisBloom ignores options of BF.RESERVE that it does not know, and has no BF.STATS.
    let known = if arguments.options.need_everbloom() { "BF.STATS" } else { "BF.RESERVE" };
    keys.iter().try_for_each(|key| router.require(key, known))?;
    arguments.check_partitions(&mut router)?;
    let times = arguments.times(&mut router, &keys)?;
    let times = times.as_ref();
    if arguments.add {
        let sent = send(&arguments, printer, &mut router, (&keys, times), &mut [])?;
        return report(&arguments, printer, &mut router, &keys, sent);
    }
    let drafts = keys.iter().map(|key| Draft::new(&mut router, key, arguments.replacing, CHOICES));
    let mut drafts: Vec<Draft> = drafts.collect::<Result<_, Failure>>()?;
    let counted_items = || arguments.input.count(times, printer).map(|items| items.max(1));
    let all_items = capacity.map_or_else(counted_items, Ok)?;
    let capacity_items = arguments.capacity_items(all_items);
    // Opens new connections, since the server may have closed the idle ones.
    router.refresh()?;
    let words = arguments.options.words(capacity_items);
    for draft in &mut drafts {
        let name = draft.name.clone();
        let mut reserve: Vec<&[u8]> = vec![b"BF.RESERVE", &name];
        reserve.extend(words.iter().map(|word| word.as_bytes()));
        draft.create(&mut router, reserve)?;
    }
    let names: Vec<Vec<u8>> = drafts.iter().map(|draft| draft.name.clone()).collect();
    let sent = send(&arguments, printer, &mut router, (&names, times), &mut drafts)?;
    arguments.replacing.check_items(sent.items, capacity.is_some())?;
    publish_all(drafts, &mut router, arguments.options.ex)?;
    report(&arguments, printer, &mut router, &keys, sent)
}

impl LoadArguments {
    /// Returns the keys of the filter: one, or those of its partitions.
    fn keys(&self) -> Result<Vec<Vec<u8>>, Failure> {
        match self.partitions {
            Some(count) => partitions::keys(&self.key, count),
            None => Ok(vec![self.key.as_bytes().to_owned()]),
        }
    }

    /// Returns the capacity of each filter.
    fn capacity_items(&self, all_items: u64) -> u64 {
        self.partitions.map_or(all_items, |count| partitions::capacity_items(all_items, count))
    }

    /// Returns an error if the filter has another number of partitions on the server, or if --add finds a partition
    /// missing. Lookups with the new number would miss items.
    fn check_partitions(&self, router: &mut Router) -> Result<(), Failure> {
        let Some(count) = self.partitions else { return Ok(()) };
        let mut known = BTreeMap::new();
        let mut has = |number: u32| -> Result<bool, Failure> {
            if let Some(is_there) = known.get(&number) {
                return Ok(*is_there);
            }
            let key = partitions::key(&self.key, number);
            let is_there = router.call(key.as_bytes(), &[b"EXISTS", key.as_bytes()])? != Value::Int(0);
            known.insert(number, is_there);
            Ok(is_there)
        };
        let found = partitions::existing(&mut has)?;
        if found == count {
            return Ok(());
        }
        let (mut there, mut missing) = (0, None);
        for number in partitions::numbers(count) {
            if has(number)? {
                there += 1;
            } else {
                missing = missing.or(Some(number));
            }
        }
        // If the keys of more than `found` partitions exist, they are `count` partitions of which some are missing.
        // Without --add, the load creates these.
        match missing {
            Some(number) if there > found && self.add => Err(Failure::of(
                partitions::key(&self.key, number),
                "the partition is missing: load the filter again with --replace",
            )),
            // If --add finds no partition, the first command fails with a better text.
            Some(_) if there > found || there == 0 => Ok(()),
            _ => Err(Failure::new(format!(
                "{}: the filter has {found} partitions, and their number can never change: use the same --partitions",
                self.key
            ))),
        }
    }

    /// Returns the reader of the --time column, with the server's clock and the window of the filters; `None` without
    /// --time.
    fn times(&self, router: &mut Router, keys: &[Vec<u8>]) -> Result<Option<Times>, Failure> {
        let (Some(column), Some(first)) = (&self.time, keys.first()) else { return Ok(None) };
        let mut window_ms = self.options.window;
        let mut steps = self.options.steps.unwrap_or_default();
        for key in keys.iter().filter(|_| self.add) {
            let mut ask = |field: &[u8]| match router.call(key, &[b"BF.INFO", key, field]) {
                Ok(reply) => Ok(integer(&reply)),
                Err(CallError::Refused(_)) => Ok(None),
                Err(error) => Err(error),
            };
            let found = ask(b"WINDOW")?;
            // Servers without this field have windows of 14 steps.
            steps = ask(b"STEPS")?.and_then(Steps::of_count).unwrap_or_default();
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
        let parsed: Result<(u64, u64), _> = from_redis_value(router.call(first, &[b"TIME"])?);
        let (seconds, microseconds) = parsed.map_err(|_| CallError::unexpected_reply("TIME"))?;
        let now_ms = seconds.saturating_mul(1000).saturating_add(microseconds / 1000);
        Ok(Some(Times::new((column, self.life.as_deref()), (window_ms.unwrap_or_default(), steps), now_ms)))
    }
}

/// Adds all items, with their times, to the filters under `keys`. These are the temporary keys of `drafts`, or existing
/// Sets the expiry of the temporary keys again, if it is time for that.
fn keep(drafts: &mut [Draft], sender: &mut Sender<'_>) -> Result<(), Failure> {
    if drafts.iter().any(Draft::is_to_be_kept) {
        let router = sender.settle()?;
        drafts.iter_mut().try_for_each(|draft| draft.keep(router))?;
    }
    Ok(())
}

/// filters if there are no drafts.
fn send(
    arguments: &LoadArguments,
    printer: &Printer,
    router: &mut Router,
    (keys, times): (&[Vec<u8>], Option<&Times>),
    drafts: &mut [Draft],
) -> Result<LoadCounts, Failure> {
    let batches = arguments.input.batches(times)?;
    let mut sender = Sender::new(router, keys)?;
    if !sender.is_packed && times.is_none() {
        printer.note(
            "the server does not have BF.BULKADD, or the user may not use it: loading with BF.INSERT, which is slower",
        );
    }
    let progress = printer.progress("loading", batches.total_bytes);
    let show = |items| {
        let message = format!("{items} items, {} items/s", per_second(items, progress.seconds()));
        progress.set(batches.done_bytes(), message);
    };
    let mut spreader = Spreader::new(keys);
    let mut add_all = || -> Result<(), Failure> {
        // The input may come more slowly than the temporary keys expire.
        while let Some(batch) = batches.wait_for(|| keep(drafts, &mut sender)) {
            match keys {
                [key] => sender.add(key, batch?)?,
                _ => spreader.spread(&batch?, |key, batch| sender.add(key, batch))?,
            }
            show(sender.counts.items);
        }
        spreader.flush(|key, batch| sender.add(key, batch))?;
        sender.settle()?;
        show(sender.counts.items);
        Ok(())
    };
    if let Err(failure) = add_all() {
        return Err(if arguments.add { sender.with_count(failure) } else { failure });
    }
    sender.counts.expired += batches.expired();
    sender.counts.seconds = progress.finish();
    batches.note_removals(printer);
    Ok(sender.counts)
}

fn report(
    arguments: &LoadArguments,
    printer: &Printer,
    router: &mut Router,
    keys: &[Vec<u8>],
    counts: LoadCounts,
) -> Result<(), Failure> {
    let mut fact =
        |key: &[u8], name: &[u8]| router.call(key, &[b"BF.INFO", key, name]).ok().as_ref().and_then(integer);
    let size_bytes = keys.iter().map(|key| fact(key, b"SIZE")).sum::<Option<u64>>();
    let LoadCounts { items, new, present, refused, expired, seconds } = counts;
    let rate = per_second(items, seconds);
    let filter =
        arguments.partitions.map_or_else(|| "a filter".to_owned(), |count| counted(count.into(), "filter"));
    let mut size = size_bytes.map_or_else(|| filter.clone(), |size| format!("{filter} of {}", bytes(size)));
    let mut json = json!({
        "key": arguments.key, "items": items, "new": new, "present": present, "refused": refused,
        "bytes": size_bytes, "seconds": seconds, "items_per_second": rate,
    });
    let mut add = |fields: serde_json::Value| {
        if let (Some(all), serde_json::Value::Object(fields)) = (json.as_object_mut(), fields) {
            all.extend(fields);
        }
    };
    if let Some(count) = arguments.partitions {
        // Shows the partition with the most items.
        let fullest =
            keys.iter().filter_map(|key| Some((fact(key, b"ITEMS")?, fact(key, b"CAPACITY")?))).max();
        if let Some((items, capacity)) = fullest {
            size.push_str(&format!(", the fullest with {items} of {capacity} items"));
        }
        let (items, capacity) = fullest.unzip();
        add(json!({"partitions": count, "fullest_items": items, "fullest_capacity": capacity}));
    }
    let mut skipped = String::new();
    if arguments.time.is_some() {
        skipped = format!(", {expired} expired");
        add(json!({"expired": expired}));
    }
    let text = format!(
        "{}: {}, {new} new, {present} present, {refused} refused{skipped}; {size}; added in {seconds:.1} s, {rate} items/s",
        arguments.key,
        counted(items, "item"),
    );
    let printed = printer.result(&text, &json);
    printed
        .map_err(|failure| Failure::partly(format!("the items were loaded, but not reported: {failure}")))?;
    if refused == 0 {
        return Ok(());
    }
    Err(Failure::partly(format!(
        "the filter is full and refused {refused} items: load them into a larger filter"
    )))
}
