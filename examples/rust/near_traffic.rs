//! Measures what a copy that follows a filter costs: adds items to a filter at an even pace, and prints the traffic to
//! the copy, its largest lag, and the share of the server's time that it takes.
//!
//! cargo run --release -p everbloom --features near --example near_traffic -- URL KEY ITEMS PER_SECOND SECONDS

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use everbloom::{NearFilter, NearOptions};
use redis::{Client, Connection, RedisResult, cmd};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, key, items, per_second, seconds] = arguments.as_slice() else {
        return Err("usage: near_traffic URL KEY ITEMS PER_SECOND SECONDS".into());
    };
    let (items, per_second, seconds): (u64, u64, u64) =
        (items.parse()?, per_second.parse()?, seconds.parse()?);
    let mut server = Client::open(url.as_str())?.get_connection()?;
    cmd("BF.RESERVE").arg(key).arg(0.01).arg(items).exec(&mut server)?;
    for first in (0..items).step_by(10_000) {
        add(&mut server, key, first..first + 10_000)?;
    }
    let copy = NearFilter::open(url, key.as_str(), NearOptions::default())?;
    if !copy.wait(Duration::from_secs(60)) {
        return Err(copy.stats().last_error.into());
    }

    cmd("CONFIG").arg("RESETSTAT").exec(&mut server)?;
    let (start, mut worst_lag, mut next) = (Instant::now(), Duration::ZERO, items);
    while start.elapsed() < Duration::from_secs(seconds) {
        let due = items + u64::try_from(start.elapsed().as_millis())? * per_second / 1000;
        for item in next..due {
            cmd("BF.ADD").arg(key).arg(item.to_string()).exec(&mut server)?;
        }
        next = due.max(next);
        worst_lag = worst_lag.max(copy.lag().unwrap_or(Duration::MAX));
        std::thread::sleep(Duration::from_millis(1));
    }
    let took = start.elapsed();
    let follow_micros = micros(&mut server, "bf.follow")?;
    std::thread::sleep(Duration::from_secs(1));
    let missing = (items..next).filter(|item| copy.contains(item.to_string().as_bytes()) != Ok(true)).count();
    let stats = copy.stats();
    writeln!(
        std::io::stdout(),
        "{} adds per second; {} bytes of records per second; lag at most {} ms; BF.FOLLOW took {:.3} % of a core; \
         {missing} items missing; {} loads",
        (next - items) as u128 * 1000 / took.as_millis(),
        u128::from(stats.record_bytes) * 1000 / took.as_millis(),
        worst_lag.as_millis(),
        follow_micros as f64 / took.as_micros() as f64 * 100.0,
        stats.loads,
    )?;
    Ok(())
}

fn add(server: &mut Connection, key: &str, items: std::ops::Range<u64>) -> RedisResult<()> {
    cmd("BF.MADD").arg(key).arg(items.map(|item| item.to_string()).collect::<Vec<_>>()).exec(server)
}

/// Returns how long all calls of a command took since the last CONFIG RESETSTAT.
fn micros(server: &mut Connection, command: &str) -> Result<u64, Box<dyn Error>> {
    let text: String = cmd("INFO").arg("commandstats").query(server)?;
    let line = text.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    let field = line.and_then(|line| line.split(',').find_map(|field| field.strip_prefix("usec=")));
    Ok(field.ok_or("no such command was called")?.parse()?)
}
