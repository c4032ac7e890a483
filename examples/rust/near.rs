//! Looks up the items of standard input, one per line, in a copy of a filter that follows the server. Prints the items
//! that were never added, and the time of a lookup in the copy and on the server.
//!
//! cargo run --release -p everbloom --features near --example near -- redis://127.0.0.1:6379 visited <items

use std::error::Error;
use std::io::{BufRead, BufWriter, Write};
use std::time::{Duration, Instant};

use everbloom::{NearFilter, NearOptions};
use redis::{Client, cmd};

/// Items that are also looked up on the server, for comparison.
const ROUND_TRIPS: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (url, key) = arguments.next().zip(arguments.next()).ok_or("usage: near URL KEY <ITEMS")?;
    let mut server = Client::open(url.as_str())?.get_connection()?;
    let start = Instant::now();
    let filter = NearFilter::open(&url, key.as_str(), NearOptions::default())?;
    if !filter.wait(Duration::from_secs(60)) {
        return Err(filter.stats().last_error.into());
    }
    let loading = start.elapsed();

    let items = std::io::stdin().lock().split(b'\n').collect::<Result<Vec<_>, _>>()?;
    let slices: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    let start = Instant::now();
    let there = items.iter().map(|item| filter.contains(item)).collect::<Result<Vec<_>, _>>()?;
    let one_here = start.elapsed();
    let start = Instant::now();
    for slices in slices.chunks(100) {
        filter.contains_many(slices)?;
    }
    let many_here = start.elapsed();
    let asked = items.len().min(ROUND_TRIPS);
    let start = Instant::now();
    for item in items.iter().take(asked) {
        cmd("BF.EXISTS").arg(&key).arg(item).exec(&mut server)?;
    }
    let one_there = start.elapsed();
    let start = Instant::now();
    for slices in slices.chunks(100) {
        cmd("BF.MEXISTS").arg(&key).arg(slices).exec(&mut server)?;
    }
    let many_there = start.elapsed();

    let mut absent = BufWriter::new(std::io::stdout().lock());
    for (item, _) in items.iter().zip(&there).filter(|(_, is_there)| !**is_there) {
        absent.write_all(item)?;
        absent.write_all(b"\n")?;
    }
    absent.flush()?;
    let each = |time: Duration, count: usize| time.as_nanos() / count.max(1) as u128;
    let mut log = std::io::stderr();
    writeln!(log, "loaded in {} ms; {} items", loading.as_millis(), items.len())?;
    writeln!(
        log,
        "one by one: {} ns here, {} ns by BF.EXISTS",
        each(one_here, items.len()),
        each(one_there, asked)
    )?;
    writeln!(
        log,
        "by 100: {} ns here, {} ns by BF.MEXISTS",
        each(many_here, items.len()),
        each(many_there, items.len())
    )?;
    Ok(())
}
