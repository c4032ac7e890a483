//! Sliding-window filters with the clock of real servers, compared with a map of the time of each item's last add,
//! through saves, restarts, promotions and chunks.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::dump;
use crate::harness::{Client, Site, Test, tests, wait_until};
use crate::journeys::{append_only, rewrite};

pub(crate) const TESTS: &[Test] = tests![
    items_are_kept_through_saves_restarts_and_promotions,
    items_are_kept_through_a_replay_in_mid_window,
    chunks_bring_no_expired_item_back,
    a_window_is_dumped_over_many_generations,
    items_that_expire_are_not_in_the_statistics,
    all_commands_of_a_script_have_one_time,
    expired_entries_are_freed,
    a_limit_counts_no_expired_entries,
    a_large_window_takes_memory_for_its_items_only,
];

/// Short enough for a test to wait, and long enough for a restart within it.
const WINDOW_MS: u64 = 4200;

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis())
        .expect("a moment")
}

/// The times before and after the last add of each item.
#[derive(Default)]
struct Oracle {
    added: HashMap<u64, (u64, u64)>,
    next: u64,
}

impl Oracle {
    /// Adds some new items, and one that was added before.
    fn add(&mut self, client: &mut Client) {
        let again = self.next.saturating_sub(37);
        let items: Vec<u64> = (self.next..self.next + 20).chain([again]).collect();
        let words: Vec<String> = items.iter().map(u64::to_string).collect();
        let before = now_ms();
        let reply = client.say(&format!("BF.MADD k {}", words.join(" ")));
        assert!(!reply.contains("ERR"), "{reply}");
        let after = now_ms();
        self.added.extend(items.into_iter().map(|item| (item, (before, after))));
        self.next += 20;
    }

    /// Checks all items. Returns how many had to be found, and how many had expired.
    fn check(&self, client: &mut Client) -> (usize, usize) {
        let items: Vec<u64> = (0..self.next).collect();
        let (mut there, mut gone) = (0, 0);
        for items in items.chunks(100) {
            let words: Vec<Vec<u8>> = ["BF.MEXISTS", "k"]
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .chain(items.iter().map(|item| item.to_string().into_bytes()))
                .collect();
            let before = now_ms();
            let replies = client.array(&words);
            let after = now_ms();
            for (item, reply) in items.iter().zip(replies) {
                let is_there = reply == redis::Value::Int(1);
                let (first, last) = self.added[item];
                // One millisecond is for rounding.
                if after < first + WINDOW_MS {
                    assert!(is_there, "{item} expired after at most {} ms", after - first);
                    there += 1;
                } else if before > last + WINDOW_MS + WINDOW_MS / 14 + 1 {
                    assert!(!is_there, "{item} was kept for at least {} ms", before - last);
                    gone += 1;
                }
            }
        }
        (there, gone)
    }

    /// Adds and checks for a time.
    fn run(&mut self, client: &mut Client, duration_ms: u64) -> (usize, usize) {
        let end = now_ms() + duration_ms;
        let mut sum = (0, 0);
        while now_ms() < end {
            self.add(client);
            let (there, gone) = self.check(client);
            sum = (sum.0 + there, sum.1 + gone);
            std::thread::sleep(Duration::from_millis(60));
        }
        sum
    }
}

fn reserve(client: &mut Client) {
    assert_eq!(client.say(&format!("BF.RESERVE k 0.000001 1000 PWINDOW {WINDOW_MS}")), "+OK");
}

fn items_are_kept_through_saves_restarts_and_promotions(site: &Site) {
    let server = site.launch().with("propagation-error-behavior panic").start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    let mut oracle = Oracle::default();
    reserve(&mut client);
    let (there, _) = oracle.run(&mut client, WINDOW_MS / 2);
    assert!(there > 0);
    assert!(client.say("BGSAVE").starts_with('+'));
    wait_until("the save ends", || client.info_number("rdb_bgsave_in_progress") == 0);
    assert_eq!(client.say("SAVE"), "+OK");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().digest("k"), client.digest("k"));
    drop(client);
    // The replica becomes a primary with the replicated items.
    let mut promoted = replica.client();
    assert_eq!(promoted.say("REPLICAOF NO ONE"), "+OK");
    oracle.check(&mut promoted);
    let mut fork = Oracle { added: oracle.added.clone(), next: oracle.next };
    fork.run(&mut promoted, WINDOW_MS / 3);
    let server = server.restart();
    let mut client = server.client();
    oracle.check(&mut client);
    let (there, gone) = oracle.run(&mut client, WINDOW_MS + WINDOW_MS / 2);
    assert!(there > 0 && gone > 0, "{there} {gone}");
}

fn items_are_kept_through_a_replay_in_mid_window(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    let mut oracle = Oracle::default();
    reserve(&mut client);
    oracle.run(&mut client, WINDOW_MS / 2);
    let digest = client.digest("k");
    drop(client);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.digest("k"), digest);
    let (there, _) = oracle.run(&mut client, WINDOW_MS / 3);
    assert!(there > 0);
    rewrite(&mut client);
    oracle.add(&mut client);
    let digest = client.digest("k");
    drop(client);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.digest("k"), digest);
    let (_, gone) = oracle.run(&mut client, WINDOW_MS);
    assert!(gone > 0);
}

fn chunks_bring_no_expired_item_back(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE src 0.01 1000 PWINDOW 1400"), "+OK");
    assert_eq!(client.int("BF.ADD src old"), 1);
    let chunks = dump::chunks(&mut client, "src");
    wait_until("it has expired", || client.int("BF.EXISTS src old") == 0);
    // A few more generations, so that a stale entry would be in the past of both filters.
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(dump::load(&mut client, "dst", chunks[0].0, &chunks[0].1), "+OK");
    assert_eq!(client.int("BF.ADD dst new"), 1);
    assert_eq!(dump::load(&mut client, "dst", chunks[1].0, &chunks[1].1), "+OK");
    assert_eq!(client.say("BF.MEXISTS dst old new"), "[0, 1]");
}

/// Generations pass between the chunks, with adds in each. The clock determines how many; longer pauses only increase
/// the number.
fn a_window_is_dumped_over_many_generations(site: &Site) {
    let server = site.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE src 0.000001 6000000 WINDOW 86400"), "+OK");
    let hour_ms = 3_600_000;
    let start = now_ms() - 12 * hour_ms;
    let add = |client: &mut Client, name: &str, at_ms: u64| {
        let items: Vec<String> = (0..500).map(|number| format!("{name}-{number}")).collect();
        let reply = client.say(&format!("BF.INSERT src NOCREATE AT {at_ms} ITEMS {}", items.join(" ")));
        assert!(!reply.contains("ERR"), "{reply}");
    };
    add(&mut client, "before", start);
    let (mut iterator, mut chunks) = (0, 0);
    while let Some((next, data)) = dump::chunk(&mut client, "src", iterator) {
        iterator = next;
        assert_eq!(dump::load(&mut client, "copy", next, &data), "+OK", "{next}");
        chunks += 1;
        // Two hours, which is more than a generation, between any two.
        (0..4).for_each(|part| add(&mut client, &format!("{chunks}-{part}"), start + chunks * 2 * hour_ms));
    }
    assert!(chunks >= 2, "{chunks}");
    let asked: Vec<String> = (0..500).map(|number| format!("before-{number}")).collect();
    let found = client.say(&format!("BF.MEXISTS copy {}", asked.join(" ")));
    assert_eq!(found.matches('1').count(), 500);
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().digest("copy"), client.digest("copy"));
}

fn items_that_expire_are_not_in_the_statistics(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.01 50 WINDOW 1000 NOREFRESH"), "+OK");
    let at = now_ms() - 500_000;
    assert_eq!(client.say(&format!("BF.INSERT k AT {at} ITEMS item-0")), "[1]");
    // With NOREFRESH the item keeps its first time.
    let digest = client.digest("k");
    assert_eq!(client.say("BF.ADD k item-0"), "0");
    assert_eq!(client.digest("k"), digest);
    assert_eq!(client.say("BF.INFO k WINDOW"), "[1000000]");
    assert_eq!(client.info_number("bf_items"), 0);
    assert_eq!(client.info_number("bf_filters"), 1);
    client.say("FLUSHALL");
    wait_until("all is freed", || client.info_number("bf_bytes") == 0);
    assert_eq!(client.info_number("bf_filters"), 0);
}

fn all_commands_of_a_script_have_one_time(site: &Site) {
    let server = site.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.01 1000 PWINDOW 100"), "+OK");
    let script = "for i=1,60 do redis.call('BF.ADD',KEYS[1],i) redis.call('BF.INSERT',KEYS[1],'ITEMS',i,-i) end \
                  return redis.call('BF.MEXISTS',KEYS[1],1,60)";
    let reply = client.ask(&["EVAL", script, "1", "k"]);
    if site.from(Some((7, 2)), Some((7, 2))) {
        assert_eq!(reply, "[1, 1]");
    }
    assert_eq!(client.say("MULTI"), "+OK");
    for item in 100..140 {
        client.say(&format!("BF.ADD k {item}"));
    }
    assert!(client.say("EXEC").contains('1'));
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().digest("k"), client.digest("k"));
}

fn number(client: &mut Client, field: &str) -> u64 {
    client.say(&format!("BF.INFO k {field}")).trim_matches(['[', ']']).parse().unwrap()
}

fn expired_entries_are_freed(site: &Site) {
    let server = site.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.01 1400 PWINDOW 1400"), "+OK");
    let items: Vec<String> = (0..14_000).map(|item: u32| item.to_string()).collect();
    for items in items.chunks(1400) {
        client.say(&format!("BF.MADD k {}", items.join(" ")));
    }
    let (bytes, usage) = (client.info_number("bf_bytes"), client.int("MEMORY USAGE k"));
    assert!(number(&mut client, "TABLE-SEGMENTS") > 1);
    wait_until("all items expire", || client.int("BF.CARD k") == 0);
    assert!(number(&mut client, "EXPIRED-ENTRIES") > 13_000 && number(&mut client, "EXPIRED-BYTES") > 10_000);
    // Reading frees nothing; adding does, in whatever segments the new items are.
    assert_eq!(client.int("MEMORY USAGE k"), usage);
    let mut next = 0;
    wait_until("what has expired is freed", || {
        let items: String = (next..next + 50).map(|item| format!(" new-{item}")).collect();
        next += 50;
        client.say(&format!("BF.MADD k{items}"));
        number(&mut client, "EXPIRED-ENTRIES") < 100
    });
    assert!(next < 4000, "{next} items");
    assert!(client.int("MEMORY USAGE k") < usage / 2);
    assert!(client.info_number("bf_bytes") < bytes / 2);
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().digest("k"), client.digest("k"));
    assert_eq!(client.say("DEL k"), "1");
    wait_until("all is freed", || client.info_number("bf_bytes") == 0);
}

/// A window that has reached `bf.max-filter-bytes` accepts as many items as before once the old ones have expired.
fn a_limit_counts_no_expired_entries(site: &Site) {
    let server = site.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.01 2000 PWINDOW 1400"), "+OK");
    let batch = |client: &mut Client, name: &str| -> usize {
        let items: String = (0..2000).map(|item| format!(" {name}-{item}")).collect();
        client.say(&format!("BF.MADD k{items}")).matches("ERR").count()
    };
    assert_eq!(batch(&mut client, "first"), 0);
    let size = number(&mut client, "SIZE");
    assert_eq!(client.say(&format!("CONFIG SET bf.max-filter-bytes {}", size + size / 16)), "+OK");
    for round in 0..3 {
        wait_until("all items expire", || client.int("BF.CARD k") == 0);
        assert_eq!(batch(&mut client, &format!("round-{round}")), 0, "round {round}");
        assert!(number(&mut client, "SIZE") <= size + size / 16);
    }
    // A second batch of live items is too much.
    assert!(batch(&mut client, "more") > 1000);
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().digest("k"), client.digest("k"));
}

fn a_large_window_takes_memory_for_its_items_only(site: &Site) {
    let server = site.launch().with("maxmemory 0").start();
    let mut client = server.client();
    let before = server.resident_bytes();
    assert_eq!(client.say("BF.RESERVE k 0.01 29000000 PWINDOW 1400"), "+OK");
    for round in 0..40 {
        client.say(&format!("BF.MADD k a{round} b{round} c{round}"));
        std::thread::sleep(Duration::from_millis(40));
    }
    assert!(server.resident_bytes() < before + (16 << 20));
}
