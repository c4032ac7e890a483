//! Active defragmentation under load, if the server has it (`make test-defrag`): of thousands of filters of every
//! kind, two thirds are deleted. Memory is moved, and no filter changes.

use std::time::Instant;

use super::{Drill, quantile};
use crate::harness::{Client, Launch, Server, Site, Test, skip, tests, wait_until};

pub(super) const TESTS: &[Test] = tests![moved_filters_are_unchanged];

/// Commands that create filters of every kind but unions. `$` is the key, `#` the capacity.
const KINDS: [&str; 10] = [
    "BF.RESERVE $ 0.01 #",
    "BF.RESERVE $ 0.01 # COUNTING",
    "BF.RESERVE $ 0.01 # KEYED",
    "BF.RESERVE $ 0.01 # SATURATE NONSCALING",
    "BF.RESERVE $ 0.01 # WINDOW 86400",
    "BF.RESERVE $ 0.01 # FORMAT redisbloom",
    "BF.RESERVE $ 0.01 # FORMAT valkey-bloom",
    "BF.IMPORT $ EMPTY SCHEME murmur3-salted BITS #00 HASHES 5",
    "BF.IMPORT $ EMPTY SCHEME go-zero BITS #0 CAPACITY 50",
    "BF.INSERT $ ERROR 0.0001 ITEMS made",
];
/// The command that creates a union of filters of several kinds.
const UNION: &str = "BF.MERGE $ kind-0 kind-2 kind-5 kind-6 FORCE";
/// Items per filter.
const ITEMS: usize = 40;
/// Number of items that are checked in a filter with many segments, which the server moves in several calls.
const ITEMS_OF_MANY: usize = 1200;
/// Number of segments above which the server moves a filter in several calls.
const SEGMENTS: i64 = 1000;
/// Defragmentation cycles per second.
const HZ: u64 = 100;
/// One filter out of this many is kept.
const KEPT: usize = 3;

fn moved_filters_are_unchanged(site: &Site) {
    if site.start().client().say("CONFIG SET activedefrag yes") != "+OK" {
        return skip("this server is built without the allocator that can defragment");
    }
    let mut drill = Drill::new("active defragmentation", site, 1);
    while drill.goes_on() {
        round(site.launch().with(format!("hz {HZ}")).with("latency-monitor-threshold 1"), &mut drill);
    }
}

/// The kept keys and their digests.
struct Kept {
    keys: Vec<String>,
    digests: Vec<String>,
}

impl Kept {
    fn of(client: &mut Client, keys: Vec<String>) -> Self {
        let digests = keys.iter().map(|key| client.digest(key)).collect();
        Self { keys, digests }
    }

    fn assert_same(&self, client: &mut Client) {
        for (key, digest) in self.keys.iter().zip(&self.digests) {
            assert_eq!(client.digest(key), *digest, "{key} has changed");
            assert_whole(client, key);
        }
    }
}

fn assert_whole(client: &mut Client, key: &str) {
    let count = if key.starts_with("many") { ITEMS_OF_MANY } else { ITEMS };
    for from in (0..count).step_by(ITEMS) {
        let replies = client.ask(&words("BF.MEXISTS", key, from));
        assert_eq!(replies, format!("[{}]", ["1"; ITEMS].join(", ")), "{key} lost an item");
    }
}

fn words(command: &str, key: &str, from: usize) -> Vec<String> {
    let items = (from..from + ITEMS).map(|item| format!("item-{item}"));
    [command.to_owned(), key.to_owned()].into_iter().chain(items).collect()
}

fn round(launch: Launch, drill: &mut Drill) {
    let server = launch.start();
    let mut client = server.client();
    let keys = fill(&mut client, drill);
    let kept = Kept::of(&mut client, keys);
    let mut rest = Load::default();
    (0..2000).for_each(|_| rest.step(&mut client, drill, &kept));
    let holes = |client: &mut Client| client.info_number("allocator_frag_bytes");
    wait_until("fragmented", || holes(&mut client) > 1 << 20);
    let before = holes(&mut client);
    let percent = [25u64, 50, 75][drill.random.below(3)];
    for line in [
        "active-defrag-ignore-bytes 1".to_owned(),
        "active-defrag-threshold-lower 0".to_owned(),
        format!("active-defrag-cycle-max {percent}"),
        format!("active-defrag-cycle-min {percent}"),
        "activedefrag yes".to_owned(),
    ] {
        assert_eq!(client.say(&format!("CONFIG SET {line}")), "+OK", "{line}");
    }
    let mut load = Load::default();
    wait_until("less fragmented", || {
        (0..200).for_each(|_| load.step(&mut client, drill, &kept));
        holes(&mut client) < before / 2
            && client.info_number("active_defrag_key_hits") > 100
            && client.info_number("bf_bloom_defrag_hits") > 100
    });
    // The server may still be moving memory during this check.
    kept.assert_same(&mut client);
    drill.count("checks", load.took_us.len() as u64);
    drill.count("filters kept", kept.keys.len() as u64);
    drill.count("blocks moved", client.info_number("bf_bloom_defrag_hits"));
    drill.most("KiB of holes before", before >> 10);
    drill.most("KiB after", holes(&mut client) >> 10);
    drill.most("us p50 of a check", quantile(&mut load.took_us, 500));
    drill.most("us p99.9", quantile(&mut load.took_us, 999));
    drill.most("us max", quantile(&mut load.took_us, 1000));
    drill.most("us p99.9 before", quantile(&mut rest.took_us, 999));
    drill.most("us max before", quantile(&mut rest.took_us, 1000));
    drill.most("ms for a step of the server at most", longest_step_ms(&mut client));
    drill.most("us its own limit", percent * 10_000 / HZ);
    assert_eq!(client.say("CONFIG SET activedefrag no"), "+OK");
    after(&server, &mut client, &kept);
}

/// Creates filters of every kind side by side, and deletes two thirds of them. Returns the keys of the others.
fn fill(client: &mut Client, drill: &mut Drill) -> Vec<String> {
    let many: Vec<String> = (0..3).map(|number| format!("many-{number}")).collect();
    for (key, options) in many.iter().zip(["", "COUNTING ", "WINDOW 86400 "]) {
        assert_eq!(client.say(&format!("BF.INSERT {key} ERROR 0.5 {options}ITEMS made")), "[1]");
    }
    for kind in 0..KINDS.len() {
        make(client, &format!("kind-{kind}"), kind, 50);
    }
    let count = if drill.is_soak() { 12_000 } else { 6000 };
    for number in 0..count {
        // Arrays of all of the allocator's size classes up to 14 KiB, which leave holes, and larger ones.
        let capacity = ITEMS + drill.random.below(1 << (4 + number % 11));
        make(client, &format!("filter-{number}"), number % (KINDS.len() + 1), capacity);
        let from = number * ITEMS;
        if from < ITEMS_OF_MANY {
            many.iter().for_each(|key| drop(client.array(&words("BF.MADD", key, from))));
        }
    }
    let segments = |client: &mut Client, key: &str| -> i64 {
        let reply = client.say(&format!("BF.INFO {key} TABLE-SEGMENTS"));
        reply.trim_matches(['[', ']']).parse().expect("a number of segments")
    };
    for from in (0u64..).step_by(50_000) {
        let data: Vec<u8> = (from..from + 50_000).flat_map(u64::to_le_bytes).collect();
        let small = many.iter().filter(|key| segments(client, key) <= SEGMENTS).collect::<Vec<_>>();
        if small.is_empty() {
            break;
        }
        for key in small {
            client.call(&[b"BF.BULKADD".as_slice(), key.as_bytes(), b"FIXED", b"8", &data]);
        }
    }
    for number in 0..3 {
        make(client, &format!("large-{number}"), 0, 20_000_000);
    }
    let all = (0..count).map(|number| format!("filter-{number}")).chain(many);
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    // Filters of every kind are kept, because the number of kinds and `KEPT` have no common divisor.
    all.enumerate()
        .for_each(|(number, key)| if number % KEPT == 0 { &mut kept } else { &mut gone }.push(key));
    for keys in gone.chunks(100) {
        let words: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        client.call(&words);
    }
    kept.extend(["large-0", "large-1"].map(str::to_owned));
    client.say("DEL large-2");
    kept
}

fn make(client: &mut Client, key: &str, kind: usize, capacity: usize) {
    let line = KINDS.get(kind).unwrap_or(&UNION).replace('$', key).replace('#', &capacity.to_string());
    let reply = client.say(&line);
    assert!(!reply.starts_with('-'), "{line}: {reply}");
    client.array(&words("BF.MADD", key, 0));
}

/// The load of clients during defragmentation.
#[derive(Default)]
struct Load {
    /// The duration of each lookup, in microseconds.
    took_us: Vec<u64>,
}

impl Load {
    fn step(&mut self, client: &mut Client, drill: &mut Drill, kept: &Kept) {
        let key = &kept.keys[drill.random.below(kept.keys.len())];
        let begin = Instant::now();
        let reply = client.int(&format!("BF.EXISTS {key} item-{}", drill.random.below(ITEMS)));
        self.took_us.push(u64::try_from(begin.elapsed().as_micros()).expect("a time"));
        assert_eq!(reply, 1, "{key} lost an item");
        // Other filters are created, grow and are deleted, possibly between two calls that move the same filter.
        let other = format!("other-{}", drill.random.below(20));
        match drill.random.below(8) {
            0 => drop(client.say(&format!("DEL {other}"))),
            1 => drop(client.say(&format!("BF.CLEAR {other}"))),
            2 => drop(client.say(&format!("BF.INSERT {other} CAPACITY 2 EXPANSION 1 ERROR 0.3 ITEMS made"))),
            3 => drop(client.call(&words("BF.MADD", &other, drill.random.below(100)))),
            _ => {}
        }
    }
}

/// Returns the longest step of the server's defragmentation, in milliseconds.
fn longest_step_ms(client: &mut Client) -> u64 {
    let events = client.say("LATENCY LATEST");
    let steps = events.split("[\"active-defrag-cycle\", ").nth(1);
    let longest = steps.and_then(|steps| steps.split([',', ']']).nth(2)?.trim().parse().ok());
    longest.unwrap_or(0)
}

/// Checks that moved filters can be saved, loaded and freed.
fn after(server: &Server, client: &mut Client, kept: &Kept) {
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    kept.assert_same(client);
    client.say("FLUSHALL SYNC");
    wait_until("all is freed", || client.info_number("bf_bytes") == 0);
    assert_eq!(server.client().info_number("bf_filters"), 0);
}
