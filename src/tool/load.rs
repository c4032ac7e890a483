//! `everbloom load`: items from a file into a filter on a server.

use serde_json::json;

use super::build;
use super::draft::{Draft, Existing};
use super::failure::Failure;
use super::input::{self, BATCH_BYTES};
use super::options;
use super::output::{Output, Unit, bytes, per_second, shown};
use super::sending::{Counts, Sender};
use super::server::{self, Connection, Credentials, Site, integer};

/// Load the items of a file into a filter on a server
///
/// The filter is made beside the key and takes its place when it is whole: whatever ends the load half-way leaves
/// the key as it was. What was made is removed, or expires within ten minutes where the tool itself was killed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// redis://[user[:password]@]host[:port][/db], rediss:// or unix://
    #[arg(value_name = "URL")]
    url: String,
    /// Key of the filter
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    input: input::Arguments,
    #[command(flatten)]
    options: options::Arguments,
    #[command(flatten)]
    server_options: options::ServerArguments,
    /// Put the new filter in the place of the key that is there
    #[arg(long, conflicts_with = "add", help_heading = "Filter")]
    replace: bool,
    /// Add to the filter that is there, which an interruption leaves with some of the items
    #[arg(
        long,
        conflicts_with_all = ["error", "capacity", "expansion", "nonscaling", "keyed", "counting", "window", "ex", "offline"],
        help_heading = "Filter"
    )]
    add: bool,
    /// Build the filter here, on all cores, and send it in pieces
    #[arg(long, conflicts_with_all = ["keyed", "counting", "window"], help_heading = "Filter")]
    offline: bool,
    /// Threads of --offline; as many as there are cores without it
    #[arg(long, value_name = "NUMBER", requires = "offline", help_heading = "Filter")]
    threads: Option<usize>,
    #[command(flatten)]
    connection: server::Arguments,
}

const EXAMPLE: &str = "\
Examples:
  everbloom load redis://127.0.0.1:6379 visited urls.txt --error 0.001
  zcat logs.gz | cut -f1 | everbloom load redis://127.0.0.1 seen - --capacity 1e7
  everbloom load rediss://cache.example:6380 users users.csv --csv id --replace
  everbloom load redis://127.0.0.1 ids ids.txt.zst --offline

The password may stand in EVERBLOOM_PASSWORD, the user in EVERBLOOM_USERNAME, in place of the address.
Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 done, but items were refused; 130 interrupted.";

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let site = Site::new(&arguments.url, &arguments.connection, Credentials::Main)?;
    // Before anything is counted: a wrong address or an existing key shows at once.
    let mut connection = site.connect_for(arguments.key.as_bytes())?;
    if arguments.add {
        let (counts, seconds) = send(&arguments, output, &mut connection, None)?;
        return report(&arguments, output, &mut connection, counts, seconds, "");
    }
    let existing = if arguments.replace { Existing::Replace } else { Existing::Refuse };
    let mut draft = Draft::new(&site, &mut connection, arguments.key.as_bytes(), existing)?;
    let capacity_items = arguments.options.capacity_of(&arguments.input, output)?;
    if arguments.offline {
        let (mut filter, tally, seconds) =
            build::build(&arguments.input, &arguments.options, capacity_items, arguments.threads, output)?;
        // The connection may have been idle for as long as the server lets it.
        let mut connection = site.connect_for(arguments.key.as_bytes())?;
        let progress = output.progress("sending", Some(filter.size_bytes()), Unit::Bytes);
        let pieces = filter.pieces().map(build::piece);
        draft.fill(&mut connection, pieces, |sent| progress.set(sent, bytes(sent)))?;
        let seconds = seconds + progress.seconds();
        drop(progress);
        publish(draft, &mut connection, arguments.server_options.ex)?;
        let counts = Counts {
            items: tally.items,
            new: tally.new_items,
            present: tally.items - tally.new_items - tally.refused_items,
            refused: tally.refused_items,
        };
        return report(&arguments, output, &mut connection, counts, seconds, "built here, ");
    }
    let words = arguments.options.words(&arguments.server_options, capacity_items)?;
    let name = draft.name().to_owned();
    let mut reserve: Vec<&[u8]> = vec![b"BF.RESERVE", &name];
    reserve.extend(words.iter().map(|word| word.as_bytes()));
    draft.create(&mut connection, reserve)?;
    let (counts, seconds) = send(&arguments, output, &mut connection, Some(&mut draft))?;
    publish(draft, &mut connection, arguments.server_options.ex)?;
    report(&arguments, output, &mut connection, counts, seconds, "")
}

fn publish(draft: Draft, connection: &mut Connection, ex: Option<u64>) -> Result<(), Failure> {
    draft.publish(connection, ex.map(|seconds| seconds.saturating_mul(1000)))
}

/// Adds everything to the draft, or to the filter that is there.
fn send(
    arguments: &Arguments,
    output: &Output,
    connection: &mut Connection,
    mut draft: Option<&mut Draft>,
) -> Result<(Counts, f64), Failure> {
    let name = draft.as_ref().map_or(arguments.key.as_bytes(), |draft| draft.name()).to_owned();
    let batches = arguments.input.batches(BATCH_BYTES)?;
    let progress = output.progress("loading", batches.total_bytes, Unit::Bytes);
    let mut sender = Sender::new(connection, &name)?;
    if !sender.is_packed() {
        output.note("the server does not know BF.BULKADD: sending items one by one in BF.INSERT");
    }
    for batch in &batches {
        sender.add(&batch?)?;
        let Counts { items, .. } = sender.counts;
        progress.set(
            batches.done_bytes(),
            format!("{items} items, {} items/s", per_second(items, progress.seconds())),
        );
        if let Some(draft) = &mut draft
            && draft.is_to_be_kept()
        {
            draft.keep(sender.settle()?)?;
        }
    }
    sender.settle()?;
    Ok((sender.counts, progress.seconds()))
}

fn report(
    arguments: &Arguments,
    output: &Output,
    connection: &mut Connection,
    counts: Counts,
    seconds: f64,
    how: &str,
) -> Result<(), Failure> {
    let key = arguments.key.as_bytes();
    let size_bytes = connection.call(&[b"BF.INFO", key, b"SIZE"]).ok().as_ref().and_then(integer);
    let rate = per_second(counts.items, seconds);
    let Counts { items, new, present, refused } = counts;
    let size =
        size_bytes.map_or_else(|| "a filter".to_owned(), |size| format!("a filter of {}", bytes(size)));
    let text = format!(
        "{}: {items} items, {new} new, {present} present, {refused} refused; {how}{size}; {seconds:.1} s, {rate} items/s",
        shown(key)
    );
    let json = json!({
        "key": arguments.key, "items": items, "new": new, "present": present, "refused": refused,
        "bytes": size_bytes, "seconds": seconds, "items_per_second": rate,
    });
    output.result(&text, &json)?;
    if refused > 0 {
        return Err(Failure::partly(format!("{refused} items were refused: the filter is full")));
    }
    Ok(())
}
