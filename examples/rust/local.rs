//! Looks up the items of standard input, one per line, in a local copy of a filter. Prints the items that were never
//! added, and the time of a lookup in the copy and on the server.
//!
//! cargo run --release -p everbloom --example local -- redis://127.0.0.1:6379 visited <items

mod local_filter;

use std::error::Error;
use std::io::{BufRead, BufWriter, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use local_filter::{LocalFilter, keep};
use redis::{Client, cmd};

/// Items that are also looked up on the server, for comparison.
const ROUND_TRIPS: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (url, key) = arguments.next().zip(arguments.next()).ok_or("usage: local URL KEY <ITEMS")?;
    let client = Client::open(url)?;
    let mut server = client.get_connection()?;
    let filter = Arc::new(LocalFilter::new(&key, Duration::from_secs(10)));
    let start = Instant::now();
    filter.refresh(&mut server)?;
    let loading = start.elapsed();
    keep(&filter, client, Duration::from_secs(1));

    let items = std::io::stdin().lock().split(b'\n').collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let there = items.iter().map(|item| filter.contains(item, &mut server)).collect::<Result<Vec<_>, _>>()?;
    let here = start.elapsed();
    let asked = items.len().min(ROUND_TRIPS);
    let start = Instant::now();
    for item in items.iter().take(asked) {
        cmd("BF.EXISTS").arg(&key).arg(item).exec(&mut server)?;
    }
    let by_server = start.elapsed();

    let mut absent = BufWriter::new(std::io::stdout().lock());
    for (item, _) in items.iter().zip(&there).filter(|(_, is_there)| !**is_there) {
        absent.write_all(item)?;
        absent.write_all(b"\n")?;
    }
    absent.flush()?;
    let each = |time: Duration, count: usize| time.as_nanos() / count.max(1) as u128;
    writeln!(
        std::io::stderr(),
        "loaded in {} ms; {} ns per check of {} items here, {} ns of {asked} by the server",
        loading.as_millis(),
        each(here, items.len()),
        items.len(),
        each(by_server, asked),
    )?;
    Ok(())
}
