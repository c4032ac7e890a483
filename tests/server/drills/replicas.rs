//! A primary and two replicas that exit on any error run every command that writes, while links are cut, replicas are
//! configured differently and primaries change. After each round all servers have the same filters.

use std::time::Duration;

use redis::Value;

use super::input::Input;
use super::words::{KEYS, creation, word};
use super::{Drill, Truth, choices};
use crate::dump::{chunk, load as load_chunk, try_travel};
use crate::harness::{Client, Server, Site, Test, now_ms, numbered, show, tests, wait_until};
use crate::support::Random;

pub(super) const TESTS: &[Test] =
    tests![replicas_agree_after_random_faults, a_window_is_dumped_while_it_is_written_to];

fn replicas_agree_after_random_faults(site: &Site) {
    let mut drill = Drill::new("three servers, cut and exchanged", site, 5);
    let launch = || {
        let launch = site.launch().with("propagation-error-behavior panic").with("repl-backlog-size 20kb");
        launch
            .with_option("bf.max-filter-bytes 4mb")
            .with("repl-diskless-load swapdb")
            .with("save 3600 1000000")
    };
    let servers = [launch().start(), launch().start(), launch().start()];
    let mut primary = 0;
    follow(&servers, primary);
    let mut truth = Truth::new("truth:");
    truth.make(&mut servers[0].client());
    let mut payloads = Vec::new();
    while drill.goes_on() {
        let mut client = servers[primary].client();
        for step in 0..150 {
            if step % 40 == 20 {
                let victim = &servers[(primary + 1 + drill.random.below(2)) % 3];
                event(&servers[primary], victim, &mut drill.random);
            }
            let bytes = choices(&mut drill.random, 300);
            write(&mut client, &mut Input::new(&bytes), &mut payloads);
            assert!(truth.step(&mut client, &mut drill.random));
            drill.count("commands", 2);
        }
        settle(&servers, primary);
        let digests: Vec<String> = servers.iter().map(|server| server.client().say("DEBUG DIGEST")).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "round {}: {digests:?}", drill.rounds);
        assert_eq!(truth.missing(&mut servers[drill.random.below(3)].client()), [""; 0]);
        if drill.random.below(2) == 0 {
            primary = (primary + 1 + drill.random.below(2)) % 3;
            follow(&servers, primary);
            drill.count("failovers", 1);
        }
    }
    let mut client = servers[primary].client();
    drill.count("full", client.info_number("sync_full"));
    drill.count("partial resynchronisations of the last primary", client.info_number("sync_partial_ok"));
}

/// Makes one server the primary of the others. All servers must have the same data before.
fn follow(servers: &[Server; 3], primary: usize) {
    assert_eq!(servers[primary].client().say("REPLICAOF NO ONE"), "+OK");
    for (number, server) in servers.iter().enumerate() {
        if number != primary {
            let line = format!("REPLICAOF 127.0.0.1 {}", servers[primary].port());
            assert_eq!(server.client().say(&line), "+OK");
        }
    }
    settle(servers, primary);
}

/// Waits until all have the data of the primary.
fn settle(servers: &[Server; 3], primary: usize) {
    for (number, server) in servers.iter().enumerate() {
        if number != primary {
            server.wait_for_primary();
        }
    }
    let mut client = servers[primary].client();
    client.say("INCR settled");
    wait_until("both replicas follow", || client.int("WAIT 2 1000") == 2);
}

/// Runs a random event on a replica, or on its link to the primary.
fn event(primary: &Server, replica: &Server, random: &mut Random) {
    let mut client = replica.client();
    match random.below(5) {
        0 => drop(primary.client().say("CLIENT KILL TYPE replica")),
        1 => drop(client.say("CLIENT KILL TYPE master")),
        2 => {
            let settings = [
                "bf.error-rate 0.3",
                "bf.initial-size 3",
                "bf.expansion-factor 0",
                "bf.format redisbloom",
                "bf.keyed yes",
                "bf.on-full saturate",
                "bf.max-filter-bytes 1kb",
            ];
            assert_eq!(client.say(&format!("CONFIG SET {}", random.choose(&settings))), "+OK");
        }
        3 => {
            let way = random.choose(&["yes", "no"]);
            drop(primary.client().say(&format!("CONFIG SET repl-diskless-sync {way}")));
            // While the link is down, more may be written than the backlog holds. Then the replica needs a full
            // synchronization.
            drop(client.say("CLIENT KILL TYPE master"));
            let big = "x".repeat(30_000);
            primary.client().say(&format!("SET filler {big}"));
        }
        _ => drop(client.say("BGSAVE")),
    }
}

/// Runs a random command that may change something.
fn write(client: &mut Client, input: &mut Input<'_>, payloads: &mut Vec<Vec<u8>>) {
    let key = *input.choose(&KEYS[..5]);
    let mut words: Vec<Vec<u8>> = Vec::new();
    match input.byte() % 16 {
        0..=3 => {
            words.extend([b"BF.INSERT".to_vec(), key.to_vec()]);
            words.extend(creation(input, true));
            words.push(b"ITEMS".to_vec());
            words.extend(input.items(30));
        }
        4..=7 => {
            words.extend([b"BF.MADD".to_vec(), key.to_vec()]);
            words.extend(input.items(40));
        }
        8 => {
            words.extend([b"BF.DEL".to_vec(), key.to_vec()]);
            words.extend(input.items(10));
        }
        9 => {
            words.extend([b"BF.MERGE".to_vec(), key.to_vec(), input.choose(&KEYS[..5]).to_vec()]);
            words.extend(input.flag().then_some(b"FORCE".to_vec()));
        }
        10 => words.extend([b"BF.CLEAR".to_vec(), key.to_vec()]),
        11 => words.extend([b"DEL".to_vec(), key.to_vec()]),
        12 => {
            if let redis::Value::BulkString(payload) = client.call(&[b"DUMP", key]) {
                payloads.truncate(20);
                payloads.insert(0, payload);
            }
            if let Some(payload) = payloads.get(input.below(payloads.len().max(1))) {
                words.extend([
                    b"RESTORE".to_vec(),
                    key.to_vec(),
                    b"0".to_vec(),
                    payload.clone(),
                    b"REPLACE".to_vec(),
                ]);
            } else {
                return;
            }
        }
        13 => return load(client, key),
        14 => {
            let line = "EMPTY SCHEME murmur3-salted BITS 3000 HASHES 4 CAPACITY 60 REPLACE";
            words.extend([b"BF.IMPORT".to_vec(), key.to_vec()]);
            words.extend(line.split(' ').map(|word| word.as_bytes().to_vec()));
        }
        _ => {
            words.extend([b"BF.RESERVE".to_vec(), key.to_vec()]);
            words.extend(creation(input, false));
            words.extend(input.flag().then(|| word(input)));
        }
    }
    client.call(&words);
}

/// Copies a filter by its chunks.
pub(super) fn load(client: &mut Client, key: &[u8]) {
    client.say("DEL copied");
    let reply = show(&try_travel(client, key, b"copied").expect("a connection"));
    // A copy is refused only if its header is above the limit or if the key has no filter.
    let is_refused = ["-ERR filter would take", "-ERR not found", "-WRONGTYPE"]
        .iter()
        .any(|error| reply.starts_with(error));
    assert!(reply == "+OK" || is_refused, "{reply}");
}

/// Items that one command added to a key, and the times between which it ran.
struct Batch {
    key: &'static str,
    items: Vec<String>,
    from_ms: u64,
    to_ms: u64,
}

impl Batch {
    fn add(client: &mut Client, key: &'static str, name: &str, count: usize) -> Self {
        let items = numbered(name, 0..count);
        let from_ms = now_ms();
        let added = client.many(&format!("BF.MADD {key}"), &items);
        assert!(added.iter().all(|reply| matches!(reply, Value::Int(_))), "{added:?}");
        Self { key, items, from_ms, to_ms: now_ms() }
    }

    /// Checks that the copy has the items if they are live, and does not have them if they have expired. Returns the
    /// numbers of live and of expired items.
    fn check(&self, client: &mut Client, window_ms: u64) -> (u64, u64) {
        let from_ms = now_ms();
        let found = client.ones("BF.MEXISTS copy", &self.items);
        let (to_ms, count) = (now_ms(), self.items.len() as u64);
        // One millisecond is for rounding.
        if to_ms < self.from_ms + window_ms {
            assert_eq!(found as u64, count, "{} of {} {count}", self.key, self.items[0]);
            (count, 0)
        } else if from_ms > self.to_ms + window_ms + window_ms / 14 + 1 {
            assert!(found < 2, "{found} expired items of {count} are found, {}", self.items[0]);
            (0, count)
        } else {
            (0, 0)
        }
    }
}

/// Sliding-window filters are dumped chunk by chunk and loaded under another key, while both get adds, generations pass,
/// and the link to the replica is cut.
fn a_window_is_dumped_while_it_is_written_to(site: &Site) {
    let mut drill = Drill::new("windows dumped chunk by chunk", site, 4);
    let launch = || site.launch().with("propagation-error-behavior panic").with("repl-backlog-size 20kb");
    let server = launch().start();
    let replica = server.replica(launch());
    let mut client = server.client();
    while drill.goes_on() {
        // Odd rounds have tables of several chunks. Even rounds have small tables whose segments are split and joined.
        let (rate, window_ms, burst, filler) =
            if drill.rounds % 2 == 1 { ("1e-12", 5600, 3000, 3_000_000u64) } else { ("1e-6", 700, 1500, 0) };
        client.say("DEL src copy");
        assert_eq!(client.say(&format!("BF.RESERVE src {rate} 200 PWINDOW {window_ms}")), "+OK");
        for from in (0..filler).step_by(250_000) {
            let data: Vec<u8> = (from..from + 250_000).flat_map(u64::to_le_bytes).collect();
            client.call(&[b"BF.BULKADD".as_slice(), b"src", b"FIXED", b"8", &data]);
        }
        let mut batches = Vec::new();
        for part in 0..3 {
            batches.push(Batch::add(&mut client, "src", &format!("before-{part}"), burst));
            pause(&mut drill, window_ms / 7);
        }
        let (mut iterator, mut step) = (0, 0);
        while let Some((next, chunk)) = chunk(&mut client, "src", iterator) {
            iterator = next;
            assert_eq!(load_chunk(&mut client, "copy", next, &chunk), "+OK", "iterator {next}");
            drill.count("chunks", 1);
            Batch::add(&mut client, "src", &format!("meanwhile-{step}"), burst / 10);
            if drill.random.below(2) == 0 {
                let reply = client.say("BF.ADD copy own");
                assert!(
                    reply.starts_with("-ERR the filter is being loaded") || ["0", "1"].contains(&&*reply),
                    "{reply}"
                );
            }
            if drill.random.below(4) == 0 {
                client.say("CLIENT KILL TYPE replica");
            }
            pause(&mut drill, window_ms / 2);
            step += 1;
        }
        // The items that were added first have expired in most rounds then.
        pause(&mut drill, window_ms / 2);
        for batch in &batches {
            let (live, expired) = batch.check(&mut client, window_ms);
            drill.count("live items found", live);
            drill.count("expired items not found", expired);
        }
        wait_until("the replica follows", || client.int("WAIT 1 1000") == 1);
        assert_eq!(replica.client().digest("copy"), client.digest("copy"), "round {}", drill.rounds);
    }
}

/// Sleeps for up to `most_ms` milliseconds.
fn pause(drill: &mut Drill, most_ms: u64) {
    std::thread::sleep(Duration::from_millis(drill.random.next() % most_ms));
}
