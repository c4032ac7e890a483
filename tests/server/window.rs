//! Sliding-window filters with the clock of real servers, compared with a map of the time of each item's last add,
//! through saves, restarts and promotions.

use std::collections::HashMap;
use std::time::Duration;

use crate::harness::{Client, Site, Test, now_ms, numbered, tests, wait_until};
use crate::journeys::{append_only, rewrite, strict};
use crate::support::make::{add, promise, set_time, window};
use crate::support::saved::chunks;

pub(crate) const TESTS: &[Test] = tests![
    items_are_kept_through_saves_restarts_and_promotions,
    items_are_kept_through_a_replay_in_mid_window,
    all_commands_of_a_script_have_one_time,
    a_limit_counts_no_expired_entries,
    a_merge_of_a_clock_that_is_ahead_is_replicated_with_the_time,
];

/// Short enough for a test to wait, and long enough for a restart within it.
const WINDOW_MS: u64 = 4200;

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

    /// Adds and checks items for `duration_ms`. Returns the sums of [`Self::check`].
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

/// A window that has reached `bf.max-filter-bytes` accepts as many items as before once the old ones have expired.
fn a_limit_counts_no_expired_entries(site: &Site) {
    let server = site.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.01 2000 PWINDOW 1400"), "+OK");
    let batch = |client: &mut Client, name: &str| -> usize {
        2000 - client.ones("BF.MADD k", &numbered(name, 0..2000))
    };
    assert!(batch(&mut client, "first") < 50);
    let size = client.field("k", "SIZE");
    assert_eq!(client.say(&format!("CONFIG SET bf.max-filter-bytes {}", size + size / 16)), "+OK");
    for round in 0..3 {
        wait_until("all items expire", || client.int("BF.CARD k") == 0);
        assert!(batch(&mut client, &format!("round-{round}")) < 50, "round {round}");
        assert!(client.field("k", "SIZE") <= size + size / 16);
    }
    // A second batch of live items exceeds the limit.
    assert!(batch(&mut client, "more") > 1000);
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().digest("k"), client.digest("k"));
}

/// The replica and the append-only file have the same filter, although they merge later.
fn a_merge_of_a_clock_that_is_ahead_is_replicated_with_the_time(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let replica = server.replica(strict(site.launch()));
    let mut client = server.client();
    let load = |client: &mut Client, key: &str, ahead_ms: u64| {
        let mut filter = window(promise(0.000_001, 1000, 2), 28_000);
        set_time(&mut filter, now_ms() + ahead_ms);
        (0..500).for_each(|number| _ = add(&mut filter, format!("{key}-{number}").as_bytes()).unwrap());
        for (iterator, data) in chunks(&filter, ahead_ms) {
            let iterator = iterator.to_string();
            let call = [b"BF.LOADCHUNK".as_slice(), key.as_bytes(), iterator.as_bytes(), &data];
            assert_eq!(client.ask(&call), "+OK");
        }
    };
    assert_eq!(client.say("BF.RESERVE dest 0.000001 1000 PWINDOW 28000"), "+OK");
    assert_eq!(client.ones("BF.MADD dest", &numbered("own", 0..500)), 500);
    load(&mut client, "near", 4_500);
    load(&mut client, "far", 20_000);
    assert_eq!(client.say("BF.MERGE dest near"), "+OK");
    assert_eq!(client.say("BF.MERGE new near"), "+OK");
    for dest in ["dest", "none"] {
        let reply = client.say(&format!("BF.MERGE {dest} far"));
        assert!(reply.contains("ERR the newest items of the source 'far' are of "), "{reply}");
    }
    for (key, name) in [("dest", "own"), ("dest", "near"), ("new", "near")] {
        assert_eq!(client.ones(&format!("BF.MEXISTS {key}"), &numbered(name, 0..500)), 500, "{key}, {name}");
    }
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let digests = ["dest", "new"].map(|key| client.digest(key));
    assert_eq!(["dest", "new"].map(|key| replica.client().digest(key)), digests);
    drop(client);
    std::thread::sleep(Duration::from_millis(3_000));
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(["dest", "new"].map(|key| client.digest(key)), digests);
}
