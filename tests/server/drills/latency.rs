//! The time of a light command while the server runs heavy operations on large filters. Strings of the same size show
//! the server's own share. All replies are checked; the times are only shown in the table.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::{Drill, Over, quantile};
use crate::harness::{Client, Server, Site, Test, tests, wait_until};

pub(super) const TESTS: &[Test] = tests![light_commands_reply_correctly_under_heavy_load];

/// Size of the large filters and strings in a test. A soak on a machine with enough memory has larger ones.
const TEST_BYTES: u64 = 16 << 20;
const SOAK_BYTES: u64 = 1 << 30;
/// Memory that must be available for filters of [`SOAK_BYTES`].
const SOAK_AVAILABLE_BYTES: u64 = 8 << 30;
/// Items per BF.MADD.
const BATCH: usize = 100;
/// Items of the light load.
const KNOWN: usize = 1000;

fn light_commands_reply_correctly_under_heavy_load(site: &Site) {
    let mut drill = Drill::new("latency", site, 1);
    let server = site.start();
    let phase = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let size_bytes =
        if drill.is_soak() && available_bytes() > SOAK_AVAILABLE_BYTES { SOAK_BYTES } else { TEST_BYTES };
    let (samples, phases) = thread::scope(|scope| {
        let load = scope.spawn(|| carry_on(&server, &phase, &is_over));
        let over = Over(&is_over);
        let rest = Duration::from_millis(if drill.is_soak() { 1000 } else { 20 });
        let mut stage = Stage {
            server: &server,
            client: server.client(),
            size_bytes,
            rest,
            phase: &phase,
            phases: Vec::new(),
            items: 0,
        };
        while drill.goes_on() {
            stage.filters();
            stage.strings();
        }
        let phases = stage.phases;
        drop(over);
        (load.join().expect("the light load"), phases)
    });
    for (number, Phase { name, longest_us, ran_us }) in phases.iter().enumerate() {
        let mut took: Vec<u64> =
            samples.iter().filter(|(phase, _)| *phase == number + 1).map(|(_, took)| *took).collect();
        let figures = [
            ("light commands", took.len() as u64),
            ("us p50", quantile(&mut took, 500)),
            ("us p99.9", quantile(&mut took, 999)),
            ("us max", quantile(&mut took, 1000)),
            ("us the longest heavy one", *longest_us),
            ("us the server ran for one at most", *ran_us),
        ];
        drill.write_row(&format!("latency {number:02} {name}"), &figures);
    }
    drill.count("MB each filter", size_bytes / 1_000_000);
    drill.count("light commands", samples.len() as u64);
}

fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Returns the time that the server's main thread has run so far, in microseconds; 0 if the system does not show it.
fn ran_us(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", server.pid())).unwrap_or_default();
    let ran_ns: Option<u64> = text.split(' ').next().and_then(|word| word.parse().ok());
    ran_ns.unwrap_or(0) / 1000
}

/// Sends light commands until the flag is set. Returns the phase of each reply, and its time in microseconds.
fn carry_on(server: &Server, phase: &AtomicUsize, is_over: &AtomicBool) -> Vec<(usize, u64)> {
    let mut client = server.client();
    client.say("BF.RESERVE small 0.001 100000");
    (0..KNOWN).for_each(|item| drop(client.say(&format!("BF.ADD small known-{item}"))));
    client.say("SET plain value");
    let mut samples = Vec::new();
    for number in 0usize.. {
        if is_over.load(Relaxed) {
            break;
        }
        let line = match number % 3 {
            0 => format!("BF.EXISTS small known-{}", number % KNOWN),
            1 => format!("BF.ADD small light-{}", number % 50_000),
            _ => "GET plain".to_owned(),
        };
        let begin = Instant::now();
        let reply = client.say(&line);
        let took_us = u64::try_from(begin.elapsed().as_micros()).expect("a time");
        // The heavy operation that delayed this command has just ended, but its phase continues for a while.
        samples.push((phase.load(Relaxed), took_us));
        match number % 3 {
            0 => assert_eq!(reply, "1", "{line}"),
            1 => assert!(["0", "1"].contains(&reply.as_str()), "{line}: {reply}"),
            _ => assert_eq!(reply, "\"value\""),
        }
        // A steady load, less than the server's maximum.
        thread::sleep(Duration::from_micros(100));
    }
    samples
}

/// The results for one heavy operation.
struct Phase {
    name: &'static str,
    /// The time of its longest command, in microseconds.
    longest_us: u64,
    /// The longest time that the server's main thread ran during a command, in microseconds. It is shorter than the
    /// time of that command if the machine is busy.
    ran_us: u64,
}

/// Runs the heavy operations.
struct Stage<'a> {
    server: &'a Server,
    client: Client,
    size_bytes: u64,
    /// The time that a phase continues after its last command, for work in the background.
    rest: Duration,
    /// The current phase, from 1 on.
    phase: &'a AtomicUsize,
    /// The results of all phases.
    phases: Vec<Phase>,
    /// Items added so far.
    items: usize,
}

impl Stage<'_> {
    /// Runs a phase of some commands. Later rounds add to the results of the first one.
    fn during(&mut self, name: &'static str, commands: impl FnOnce(&mut Self)) {
        let known = self.phases.iter().position(|phase| phase.name == name);
        let number = known.unwrap_or_else(|| {
            self.phases.push(Phase { name, longest_us: 0, ran_us: 0 });
            self.phases.len() - 1
        });
        self.phase.store(number + 1, Relaxed);
        commands(self);
        thread::sleep(self.rest);
        self.phase.store(0, Relaxed);
    }

    /// Runs a command of the current phase.
    fn heavy<A: AsRef<[u8]>>(&mut self, words: &[A]) -> redis::Value {
        let (begin, ran) = (Instant::now(), ran_us(self.server));
        let reply = self.client.call(words);
        let took_us = u64::try_from(begin.elapsed().as_micros()).expect("a time");
        let ran_us = ran_us(self.server) - ran;
        if let Some(phase) = self.phases.get_mut(self.phase.load(Relaxed).wrapping_sub(1)) {
            phase.longest_us = phase.longest_us.max(took_us);
            phase.ran_us = phase.ran_us.max(ran_us);
        }
        reply
    }

    fn heavily(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let reply = crate::harness::show(&self.heavy(&words));
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        reply
    }

    /// Adds new items. Returns the number of the first one.
    fn add(&mut self, key: &str, count: usize) -> usize {
        let first = self.items;
        while self.items < first + count {
            let items = (self.items..self.items + BATCH).map(|item| format!("item-{item}"));
            let words: Vec<String> =
                ["BF.MADD".to_owned(), key.to_owned()].into_iter().chain(items).collect();
            let redis::Value::Array(replies) = self.heavy(&words) else { panic!("BF.MADD {key}") };
            assert_eq!(replies.len(), BATCH);
            self.items += BATCH;
        }
        first
    }

    fn fill(&mut self, key: &str, count: usize) {
        self.add(key, count);
    }

    fn assert_has(&mut self, key: &str, first: usize, count: usize) {
        for from in (first..first + count).step_by(BATCH) {
            let items = (from..from + BATCH).map(|item| format!("item-{item}"));
            let words: Vec<String> =
                ["BF.MEXISTS".to_owned(), key.to_owned()].into_iter().chain(items).collect();
            let replies = self.client.array(&words);
            assert!(replies.iter().all(|reply| *reply == redis::Value::Int(1)), "{key} lost an item");
        }
    }

    /// Returns the arguments that create a filter of `size_bytes` bytes. The capacity is computed from a small filter.
    fn creation(&mut self, options: &str) -> String {
        let probe = 1_000_000u64;
        self.client.say(&format!("BF.RESERVE probe 0.01 {probe} {options}"));
        let bytes = self.client.int("MEMORY USAGE probe").cast_unsigned();
        self.client.say("DEL probe");
        format!("0.01 {} {options}", self.size_bytes / 1000 * probe / (bytes / 1000))
    }

    fn save(&mut self) {
        self.heavily("BGSAVE");
        let client = &mut self.client;
        wait_until("saved", || client.info_number("rdb_bgsave_in_progress") == 0);
        assert_eq!(client.info("rdb_last_bgsave_status").as_deref(), Some("ok"));
    }

    fn filters(&mut self) {
        let scaling = self.creation("NONSCALING");
        // Every page of 4 KiB gets some items.
        let filling = usize::try_from(self.size_bytes / 4096 * 4).expect("a number").next_multiple_of(BATCH);
        self.during("at rest, before", |stage| thread::sleep(stage.rest));
        self.during("BF.RESERVE", |stage| {
            assert_eq!(stage.heavily(&format!("BF.RESERVE big {scaling}")), "+OK")
        });
        let mut first = 0;
        self.during("first touch", |stage| first = stage.add("big", filling / 2));
        self.during("filling and collapsing", |stage| stage.fill("big", filling / 2));
        self.during("BGSAVE", Self::save);
        self.during("SCANDUMP, LOADCHUNK", Self::dump_in_chunks);
        self.during("adding to what was loaded", |stage| stage.fill("loaded", filling / 8));
        self.assert_has("loaded", first, filling);
        self.during("DEL", |stage| assert_eq!(stage.heavily("DEL loaded"), "1"));
        self.during("DUMP", |stage| drop(stage.heavy(&["DUMP", "big"])));
        self.during("COPY", |stage| assert_eq!(stage.heavily("COPY big copy"), "1"));
        self.assert_has("copy", first, filling);
        self.client.say(&format!("BF.RESERVE other {scaling}"));
        let others = self.add("other", filling);
        self.during("BF.MERGE", |stage| drop(stage.heavily("BF.MERGE copy other")));
        self.assert_has("copy", first, filling);
        self.assert_has("copy", others, filling);
        self.during("BF.CLEAR", |stage| drop(stage.heavily("BF.CLEAR copy")));
        assert_eq!(self.client.int("BF.CARD copy"), 0);
        self.during("UNLINK", |stage| assert_eq!(stage.heavily("UNLINK other"), "1"));
        self.grow();
        self.rotate();
        self.client.say("DEL big copy");
    }

    /// Dumps and loads a filter chunk by chunk.
    fn dump_in_chunks(&mut self) {
        let mut iterator = 0i64;
        loop {
            let reply = self.heavy(&["BF.SCANDUMP".to_owned(), "big".to_owned(), iterator.to_string()]);
            let redis::Value::Array(pair) = reply else { panic!("BF.SCANDUMP") };
            let [redis::Value::Int(next), redis::Value::BulkString(data)] = pair.as_slice() else {
                panic!("BF.SCANDUMP: no chunk")
            };
            iterator = *next;
            if iterator == 0 {
                return;
            }
            let number = iterator.to_string();
            let reply = self.heavy(&[b"BF.LOADCHUNK".as_slice(), b"loaded", number.as_bytes(), data]);
            assert_eq!(crate::harness::show(&reply), "+OK");
        }
    }

    /// Makes a small filter grow by a layer of about `size_bytes` bytes.
    fn grow(&mut self) {
        let growth = 32_768;
        let scaling = self.creation("EXPANSION 2");
        let capacity: u64 = scaling.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a capacity");
        let capacity = (capacity / growth).max(1000);
        self.client.say(&format!("BF.RESERVE grown 0.01 {capacity} EXPANSION {growth}"));
        let first = self.add("grown", usize::try_from(capacity).expect("a number") / BATCH * BATCH);
        self.during("growth by a layer", |stage| stage.fill("grown", 2 * BATCH));
        assert_eq!(self.client.say("BF.INFO grown FILTERS"), "[2]");
        self.assert_has("grown", first, BATCH);
        self.client.say("DEL grown");
    }

    /// Adds items while generations pass and expire.
    fn rotate(&mut self) {
        // The window takes `size_bytes` when it is full: some 18 bits for each live item.
        let capacity = self.size_bytes / 18 * 8;
        // Long enough to keep the added items, and short enough for many generations to pass.
        let span_ms = if self.size_bytes == SOAK_BYTES { 14_000 } else { 700 };
        self.client.say(&format!("BF.RESERVE window 0.01 {capacity} PWINDOW {span_ms}"));
        let count = usize::try_from(self.size_bytes / 4096).expect("a number").next_multiple_of(BATCH);
        self.add("window", count);
        self.during("WINDOW, rotating", |stage| {
            for _ in 0..40 {
                let first = stage.add("window", 2 * BATCH);
                let (items, last) = (stage.client.int("BF.CARD window"), first + BATCH);
                assert!(items > 0);
                stage.assert_has("window", last, BATCH);
                thread::sleep(stage.rest / 4);
            }
        });
        self.during("DEL of the window", |stage| assert_eq!(stage.heavily("DEL window"), "1"));
    }

    /// Runs the same operations on strings, to measure the server's own share.
    fn strings(&mut self) {
        let last = self.size_bytes.min(SOAK_BYTES / 2) - 1;
        // A string has at most 512 MB, so two strings replace a filter of 1 GiB.
        let keys = if self.size_bytes > last + 1 { vec!["string-0", "string-1"] } else { vec!["string-0"] };
        self.during("strings: SETRANGE", |stage| {
            keys.iter().for_each(|key| drop(stage.heavily(&format!("SETRANGE {key} {last} x"))));
        });
        self.during("strings: BGSAVE", Self::save);
        self.during("strings: DUMP", |stage| {
            keys.iter().for_each(|key| drop(stage.heavy(&["DUMP", key])));
        });
        self.during("strings: COPY", |stage| {
            keys.iter().for_each(|key| drop(stage.heavily(&format!("COPY {key} copy-{key}"))));
        });
        self.during("strings: DEL", |stage| {
            keys.iter().for_each(|key| drop(stage.heavily(&format!("DEL {key}"))));
        });
        self.during("strings: UNLINK", |stage| {
            keys.iter().for_each(|key| drop(stage.heavily(&format!("UNLINK copy-{key}"))));
        });
        self.during("at rest, after", |stage| thread::sleep(stage.rest));
    }
}
