//! Measures what a copy that follows a filter costs: adds items to a filter at an even pace, and prints the traffic to
//! the copy, its largest lag, and the share of the server's time that it takes. A thread looks up items that are older
//! than the lag meanwhile, all of which must be in the copy.
//!
//! cargo run --release -p everbloom --features near --example near_traffic -- URL KEY ITEMS PER_SECOND SECONDS

use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
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
    // The items below this number are older than the lag.
    let (settled, is_done) = (AtomicU64::new(items), AtomicBool::new(false));
    let (traffic, lookups) = std::thread::scope(|scope| {
        let lookups = scope.spawn(|| look_up(&copy, &settled, &is_done));
        let traffic = follow(&copy, &mut server, key, items, (per_second, seconds), &settled);
        is_done.store(true, Relaxed);
        (traffic, lookups.join())
    });
    let Traffic { took, worst_lag, next } = traffic?;
    let [lookups, missed] = lookups.map_err(|_| "the thread of the lookups has failed")?;
    let follow_micros = micros(&mut server, "bf.follow")?;
    std::thread::sleep(Duration::from_secs(1));
    let missing = (items..next).filter(|item| copy.contains(item.to_string().as_bytes()) != Ok(true)).count();
    let stats = copy.stats();
    writeln!(
        std::io::stdout(),
        "{} adds per second; {} bytes of records per second; lag at most {} ms; BF.FOLLOW took {:.3} % of a core; \
         {missing} items missing; {} loads\n{lookups} lookups of items older than the lag; {missed} missed",
        (next - items) as u128 * 1000 / took.as_millis(),
        u128::from(stats.record_bytes) * 1000 / took.as_millis(),
        worst_lag.as_millis(),
        follow_micros as f64 / took.as_micros() as f64 * 100.0,
        stats.loads,
    )?;
    Ok(())
}

/// What was seen while items were added.
struct Traffic {
    took: Duration,
    worst_lag: Duration,
    /// The number of the next item.
    next: u64,
}

/// Adds items after the first `items` at an even pace, and says in `settled` which are older than the lag of the copy.
fn follow(
    copy: &NearFilter,
    server: &mut Connection,
    key: &str,
    items: u64,
    (per_second, seconds): (u64, u64),
    settled: &AtomicU64,
) -> Result<Traffic, Box<dyn Error>> {
    let (start, mut worst_lag, mut next) = (Instant::now(), Duration::ZERO, items);
    let mut added = VecDeque::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        let due = items + u64::try_from(start.elapsed().as_millis())? * per_second / 1000;
        for item in next..due {
            cmd("BF.ADD").arg(key).arg(item.to_string()).exec(server)?;
        }
        next = due.max(next);
        added.push_back((Instant::now(), next));
        let lag = copy.lag().unwrap_or(Duration::MAX);
        worst_lag = worst_lag.max(lag);
        while let Some((_, items)) =
            added.front().copied().filter(|(at, _): &(Instant, u64)| at.elapsed() > lag)
        {
            settled.store(items, Relaxed);
            added.pop_front();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Traffic { took: start.elapsed(), worst_lag, next })
}

/// Looks up items that are older than the lag until it is told to stop. Returns how many it looked up and missed.
fn look_up(copy: &NearFilter, settled: &AtomicU64, is_done: &AtomicBool) -> [u64; 2] {
    let ([mut lookups, mut missed], mut random) = ([0, 0], 1u64);
    while !is_done.load(Relaxed) {
        let items = settled.load(Relaxed);
        for _ in 0..1000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Half of the lookups are of the newest items.
            let from = if random >> 63 == 0 { 0 } else { items.saturating_sub(100_000) };
            let item = from + (random >> 20) % (items - from);
            lookups += 1;
            missed += u64::from(copy.contains(item.to_string().as_bytes()) != Ok(true));
        }
    }
    [lookups, missed]
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
