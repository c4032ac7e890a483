//! `everbloom build`: makes a filter from a file, on all cores and without a server.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::value_parser;
use everbloom::{BloomFilter, Tally};
use serde_json::json;

use super::chunks::{Writing, chunks};
use super::existing;
use super::failure::{Failure, check_interruption};
use super::input;
use super::options;
use super::output::{Output, bytes, counted, per_second};
use super::packing::Batch;

/// Bytes of items that a thread adds at a time: large enough that the threads seldom wait for each other.
pub(crate) const PART_BYTES: usize = 2 << 20;

/// Build a filter from the items of a file, without a server
///
/// The tool writes the filter to a file. `everbloom restore` sends this file to a server that runs everbloom.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: input::Arguments,
    /// File to which the filter is written
    #[arg(long, short, value_name = "OUTPUT")]
    output: PathBuf,
    #[command(flatten)]
    options: options::Arguments,
    /// Number of threads. Without it, one thread for each core
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..=THREADS_MAX))]
    threads: Option<u16>,
}

/// The largest number of threads.
pub(crate) const THREADS_MAX: i64 = 256;

const EXAMPLE: &str = "\
Examples:
  everbloom build urls.txt.zst --error 0.001 -o visited.bloom
  everbloom restore redis://127.0.0.1:6379 visited visited.bloom

Exit codes: 0 done; 1 failed, no file was written; 2 wrong arguments; 3 done, but items were refused; 130 interrupted, \
no file was written.";

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    arguments.options.check_capacity(&arguments.input)?;
    let capacity_items = arguments.options.capacity_of(&arguments.input, None, output)?;
    let (mut filter, tally, seconds) =
        build(&arguments.input, &arguments.options, capacity_items, arguments.threads, output)?;
    existing::Arguments::default().check_items(tally.items, arguments.options.capacity.is_some())?;
    let file_bytes = write(&mut filter, &arguments.output, output)?;
    let Tally { items, new_items, refused_items } = tally;
    let present = items - new_items - refused_items;
    let rate = per_second(items, seconds);
    let path = arguments.output.display().to_string();
    let text = format!(
        "{path}: {}, {new_items} new, {present} present, {refused_items} refused; a filter of {}; added in {seconds:.1} s, {rate} items/s",
        counted(items, "item"),
        bytes(filter.size_bytes())
    );
    let json = json!({
        "file": path, "items": items, "new": new_items, "present": present, "refused": refused_items,
        "bytes": filter.size_bytes(), "file_bytes": file_bytes, "seconds": seconds, "items_per_second": rate,
    });
    output.result(&text, &json)?;
    if refused_items > 0 {
        return Err(Failure::refused(refused_items));
    }
    Ok(())
}

/// Returns the number of threads: as chosen, or one per core.
pub(crate) fn threads_of(chosen: Option<u16>) -> usize {
    chosen.map_or_else(|| available_parallelism().map_or(1, Into::into), Into::into)
}

/// Returns an empty filter.
pub(crate) fn empty(options: &options::Arguments, capacity_items: u64) -> Result<BloomFilter, Failure> {
    BloomFilter::new(options.library(capacity_items)).map_err(Failure::usage)
}

/// Builds a filter of the items. Returns the filter, the counts, and the seconds that it took.
pub(crate) fn build(
    input: &input::Arguments,
    options: &options::Arguments,
    capacity_items: u64,
    threads: Option<u16>,
    output: &Output,
) -> Result<(BloomFilter, Tally, f64), Failure> {
    let threads = threads_of(threads);
    let mut filter = empty(options, capacity_items)?;
    let batches = input.batches(PART_BYTES, None)?;
    let progress = output.progress("building", batches.total_bytes);
    let mut tally = Tally::default();
    let mut parts: Vec<Batch> = Vec::with_capacity(threads);
    let mut source = &batches;
    loop {
        parts.clear();
        for batch in source.by_ref().take(threads) {
            parts.push(batch?);
        }
        if parts.is_empty() {
            let seconds = progress.finish();
            batches.note_line_ends(output);
            return Ok((filter, tally, seconds));
        }
        let added = filter.add_parts(parts.iter().collect());
        tally = tally.plus(added.map_err(Failure::new)?);
        progress.set(
            batches.done_bytes(),
            format!("{} items, {} items/s", tally.items, per_second(tally.items, progress.seconds())),
        );
    }
}

fn write(filter: &mut BloomFilter, path: &Path, output: &Output) -> Result<u64, Failure> {
    let progress = output.progress("writing", Some(filter.size_bytes()));
    let mut writing = Writing::create(path)?;
    for chunk in chunks(filter) {
        check_interruption()?;
        let (iterator, data) = chunk?;
        writing.chunk(iterator, &data)?;
        progress.set(writing.bytes(), bytes(writing.bytes()));
    }
    progress.finish();
    writing.finish()
}
