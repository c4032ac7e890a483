//! Sliding-window filters are dumped chunk by chunk and loaded under another key, while both get adds, generations
//! pass, and the link to the replica is cut.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;

use super::Drill;
use crate::dump::{chunk, load};
use crate::harness::{Client, Site, Test, tests, wait_until};

pub(super) const TESTS: &[Test] = tests![a_window_is_dumped_while_it_is_written_to];

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    u64::try_from(since.as_millis()).expect("a moment")
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
        let items: Vec<String> = (0..count).map(|number| format!("{name}-{number}")).collect();
        let words: Vec<&str> = ["BF.MADD", key].into_iter().chain(items.iter().map(String::as_str)).collect();
        let from_ms = now_ms();
        let added = client.array(&words);
        assert!(added.iter().all(|reply| matches!(reply, Value::Int(_))), "{added:?}");
        Self { key, items, from_ms, to_ms: now_ms() }
    }

    /// Checks that the copy has the items if they are live, and does not have them if they have expired. Returns the
    /// numbers of both.
    fn check(&self, client: &mut Client, window_ms: u64) -> (u64, u64) {
        let words: Vec<&str> =
            ["BF.MEXISTS", "copy"].into_iter().chain(self.items.iter().map(String::as_str)).collect();
        let from_ms = now_ms();
        let found = client.array(&words).iter().filter(|reply| **reply == Value::Int(1)).count();
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

fn a_window_is_dumped_while_it_is_written_to(site: &Site) {
    let mut drill = Drill::new("windows dumped chunk by chunk", site, 4);
    let launch = || site.launch().with("propagation-error-behavior panic").with("repl-backlog-size 20kb");
    let server = launch().start();
    let replica = server.replica(launch());
    let mut client = server.client();
    while drill.goes_on() {
        // Tables of several chunks, and small ones of several segments, which are split and joined.
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
            assert_eq!(load(&mut client, "copy", next, &chunk), "+OK", "iterator {next}");
            drill.count("chunks", 1);
            Batch::add(&mut client, "src", &format!("meanwhile-{step}"), burst / 10);
            if drill.random.below(2) == 0 {
                batches.push(Batch::add(&mut client, "copy", &format!("own-{step}"), burst / 10));
            }
            if drill.random.below(4) == 0 {
                client.say("CLIENT KILL TYPE replica");
            }
            pause(&mut drill, window_ms / 4);
            step += 1;
        }
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
