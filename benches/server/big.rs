//! Measures time and memory of a large filter in a server: reserving, first adds, saving, loading, copying, rewriting
//! the append-only file, and deleting.

use std::time::{Duration, Instant};

use super::client::{Client, pipeline};
use super::failure::Failure;
use super::filters;
use super::items::ABSENT;
use super::plan::{Plan, Programs};
use super::process::{Launch, Server, memory_bytes, reset_peak};
use super::progress::Progress;
use super::series::{Scope, Series, Size};
use super::text::two_digits;

/// One measured value, a row of the table.
pub(crate) struct Fact {
    /// What was measured.
    pub(crate) what: &'static str,
    /// Its value with its unit.
    pub(crate) value: String,
    /// The value in the unit of the limit, the limit and its unit, if there is a limit.
    pub(crate) limit: Option<(f64, f64, &'static str)>,
}

fn fact(what: &'static str, value: String) -> Fact {
    Fact { what, value, limit: None }
}

/// Measures one filter of that size in its own server.
pub(crate) fn measure(
    plan: &Plan,
    programs: &Programs,
    progress: &mut Progress,
) -> Result<Vec<Fact>, Failure> {
    let size = Size { known: 0, ..plan.big };
    let series = Series::new("everbloom", 0, &[], Scope::All);
    // Not pinned: a child process that saves must have its own processor.
    let launch = Launch::new(&programs.server, &[&programs.module])?;
    let server = launch.start()?;
    let mut facts = Vec::new();
    progress.step("large filter: reserve, first adds");
    reserve_and_add(&server, &size, plan, &mut facts)?;
    progress.step("large filter: fill");
    server.client()?.say("FLUSHALL")?;
    filters::make(&server, &series, &size)?;
    let key = size.key(&series);
    let filter_bytes = server.client()?.number(&format!("MEMORY USAGE {key}"))?;
    progress.step("large filter: BGSAVE");
    let saved = background(&server, "BGSAVE", "rdb_bgsave_in_progress", filter_bytes)?;
    facts.push(fact("BGSAVE", format!("{} s", two_digits(saved.seconds))));
    facts.push(saved.peak("BGSAVE: peak memory of server and child"));
    progress.step("large filter: BGREWRITEAOF");
    let mut client = server.client()?;
    client.say("CONFIG SET aof-use-rdb-preamble no")?;
    let rewritten = background(&server, "BGREWRITEAOF", "aof_rewrite_in_progress", filter_bytes)?;
    facts.push(fact(
        "AOF rewrite without a snapshot as preamble",
        format!("{} s", two_digits(rewritten.seconds)),
    ));
    facts.push(rewritten.peak("AOF rewrite: peak memory of server and child"));
    progress.step("large filter: COPY, UNLINK");
    reset_peak(server.process())?;
    let mut copy_ms = Vec::new();
    for _ in 0..COPIES {
        client.say("DEL copy")?;
        copy_ms.push(main_thread_ms(&mut client, "copy", &format!("COPY {key} copy"))?);
    }
    let fastest_ms = copy_ms.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest_ms = copy_ms.iter().copied().fold(0.0, f64::max);
    facts.push(fact(
        "COPY, main thread",
        format!("{} to {} ms", two_digits(fastest_ms), two_digits(slowest_ms)),
    ));
    let peak = memory_bytes(server.process(), "VmHWM").ok_or("no VmHWM")?;
    facts.push(fact("COPY: peak memory of the server", ratio(peak, 2 * filter_bytes)));
    let unlink_ms = main_thread_ms(&mut client, "unlink", "UNLINK copy")?;
    facts.push(Fact {
        what: "UNLINK, main thread",
        value: format!("{} ms", two_digits(unlink_ms)),
        limit: Some((unlink_ms, 1.0, "ms")),
    });
    progress.step("large filter: load");
    drop(server);
    let server = launch.start()?;
    let found = server.client()?.number(&format!("EXISTS {key}"))?;
    if found != 1 {
        return Err("the filter was not loaded".into());
    }
    let peak = memory_bytes(server.process(), "VmHWM").ok_or("no VmHWM")?;
    facts.push(fact(
        "load of the snapshot, from start to first reply",
        format!("{} s", two_digits(server.start_time.as_secs_f64())),
    ));
    let share = peak as f64 / filter_bytes as f64;
    facts.push(Fact {
        what: "load: peak memory of the server",
        value: ratio(peak, filter_bytes),
        limit: Some((share, PEAK_MAX, "times")),
    });
    Ok(facts)
}

/// Number of copies; each is deleted before the next.
const COPIES: usize = 4;

/// Goal for the peak memory of saving and loading, as a multiple of the filter's memory.
const PEAK_MAX: f64 = 1.1;

fn ratio(bytes: u64, filter_bytes: u64) -> String {
    format!("{:.3} times", bytes as f64 / filter_bytes as f64)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn reserve_and_add(server: &Server, size: &Size, plan: &Plan, facts: &mut Vec<Fact>) -> Result<(), Failure> {
    let mut client = server.client()?;
    let resident = || memory_bytes(server.process(), "VmRSS").unwrap_or(0);
    let before = resident();
    let mut reserve_ms = f64::INFINITY;
    let mut worst_ms: f64 = 0.0;
    for attempt in 0..plan.rounds {
        let line =
            format!("BF.RESERVE reserve:{attempt} {} {} NONSCALING", size.error_rate, size.capacity_items());
        let milliseconds = main_thread_ms(&mut client, "bf.reserve", &line)?;
        reserve_ms = reserve_ms.min(milliseconds);
        worst_ms = worst_ms.max(milliseconds);
        if attempt > 0 {
            client.say(&format!("UNLINK reserve:{attempt}"))?;
        }
    }
    let value = format!("{} to {} ms", two_digits(reserve_ms), two_digits(worst_ms));
    facts.push(Fact { what: "BF.RESERVE, main thread", value, limit: Some((worst_ms, 1.0, "ms")) });
    let grown = mib(resident().saturating_sub(before));
    facts.push(fact("BF.RESERVE: memory taken", format!("{} MiB", two_digits(grown))));
    client.call(&["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 99.9"])?;
    client.say("CONFIG RESETSTAT")?;
    let before = resident();
    let adds = plan.first_adds;
    pipeline(server.socket(), &filters::requests("BF.ADD", "reserve:0", 1, ABSENT..ABSENT + adds))?;
    let usec = client.info("commandstats")?.part("cmdstat_bf.add", "usec")?;
    let grown = mib(resident().saturating_sub(before));
    let latencies = client.info("latencystats")?;
    let latency = |percentile: &str| {
        let found = latencies.part("latency_percentiles_usec_bf.add", percentile);
        two_digits(found.unwrap_or(f64::NAN))
    };
    let [median, most, nearly_all] = ["p50", "p99", "p99.9"].map(latency);
    let mean = two_digits(usec / adds as f64);
    let value = format!("mean {mean} us, median {median}, 99 % below {most}, 99.9 % below {nearly_all}");
    facts.push(fact("first BF.ADDs of an empty filter", value));
    facts.push(fact(
        "first BF.ADDs: memory taken per item",
        format!("{} KiB", two_digits(grown * 1024.0 / adds as f64)),
    ));
    Ok(())
}

/// Returns the milliseconds for which one command occupies the main thread.
pub(crate) fn main_thread_ms(client: &mut Client, command: &str, line: &str) -> Result<f64, Failure> {
    client.say("CONFIG RESETSTAT")?;
    client.say(line)?;
    Ok(client.info("commandstats")?.part(&format!("cmdstat_{command}"), "usec")? / 1000.0)
}

/// Time and memory of a child process of the server.
struct Background {
    seconds: f64,
    /// Highest sum of the server's resident memory and its child's private memory, divided by the filter's memory.
    peak: f64,
}

impl Background {
    fn peak(&self, what: &'static str) -> Fact {
        let value = format!("{:.3} times", self.peak);
        Fact { what, value, limit: Some((self.peak, PEAK_MAX, "times")) }
    }
}

/// Makes the server fork a child, and measures the memory of both until the child ends.
fn background(
    server: &Server,
    command: &str,
    in_progress: &str,
    filter_bytes: u64,
) -> Result<Background, Failure> {
    const LONGEST: Duration = Duration::from_secs(120);
    let mut client = server.client()?;
    let started = Instant::now();
    client.say(command)?;
    let mut peak = 0;
    // Waits for the end of the child process itself, since the server checks for it only at intervals.
    let mut seconds = 0.0;
    loop {
        let child = server.forked();
        let own = child.and_then(|child| {
            Some(memory_bytes(child, "Private_Dirty")? + memory_bytes(child, "Private_Clean")?)
        });
        if let (Some(own), Some(resident)) = (own, memory_bytes(server.process(), "VmRSS")) {
            peak = peak.max(own + resident);
            seconds = started.elapsed().as_secs_f64();
        }
        if child.is_none() && client.info("persistence")?.number(in_progress)? == 0 {
            break;
        }
        if started.elapsed() > LONGEST {
            return Err(format!("{command} does not end").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let persistence = client.info("persistence")?;
    for status in ["rdb_last_bgsave_status", "aof_last_bgrewrite_status"] {
        if persistence.field(status)? != "ok" {
            return Err(format!("{command}: {status} is not ok").into());
        }
    }
    Ok(Background { seconds, peak: peak as f64 / filter_bytes as f64 })
}
