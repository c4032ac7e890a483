//! The server is killed at random times under load, also while it writes files or loads a filter chunk by chunk, and
//! starts again with everything that it must keep.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Drill, FILTERS, Truth};
use crate::dump::try_travel;
use crate::harness::{Client, Launch, Server, Site, Test, append_only_file, tests, wait_until};
use crate::support::Random;

pub(super) const TESTS: &[Test] = tests![
    acknowledged_items_survive_a_kill_with_synced_writes,
    a_server_starts_after_a_kill_with_sync_each_second,
    a_snapshot_is_complete_after_a_kill,
    a_truncated_append_only_file_loses_only_its_end,
    items_of_a_window_survive_a_kill,
    counts_survive_a_kill,
];

/// The window of this drill. A generation is half a second.
const WINDOW: Duration = Duration::from_secs(7);

fn append_only(site: &Site, sync: &str, preamble: &str) -> Launch {
    site.launch()
        .with("appendonly yes")
        .with(format!("appendfsync {sync}"))
        .with(format!("aof-use-rdb-preamble {preamble}"))
        .with("auto-aof-rewrite-percentage 0")
}

/// Runs two clients that write, and one that makes the server save files and load and merge filters, until the server
/// is killed at a random time. Returns the restarted server.
fn kill_under_load(server: Server, truths: &mut [Truth; 2], drill: &mut Drill) -> Server {
    let port = server.port();
    let moment = Duration::from_millis(30 + drill.random.next() % 400);
    let seeds = [drill.random.next(), drill.random.next(), drill.random.next()];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (truth, seed) in truths.iter_mut().zip(seeds) {
            scope.spawn(move || {
                let Ok(mut client) = Client::connect(port, false) else { return };
                let mut random = Random(seed);
                while truth.step(&mut client, &mut random) {}
            });
        }
        let is_over = &is_over;
        scope.spawn(move || disturb(port, Random(seeds[2]), is_over));
        thread::sleep(moment);
        let server = server.restart();
        is_over.store(true, Ordering::Relaxed);
        server
    })
}

/// Runs operations during which the server may be killed.
fn disturb(port: u16, mut random: Random, is_over: &AtomicBool) {
    let Ok(mut client) = Client::connect(port, false) else { return };
    while !is_over.load(Ordering::Relaxed) {
        let name = FILTERS[random.below(FILTERS.len())].0;
        let reply = match random.below(6) {
            0 => client.try_call(&["BGREWRITEAOF"]),
            1 => client.try_call(&["BGSAVE"]),
            2 => client.try_call(&["BF.MERGE", "merged", &format!("0:{name}"), "1:own", "FORCE"]),
            3 => client.try_call(&["BF.CLEAR", "merged"]),
            4 => client.try_call(&["DEL", "merged", "loaded"]),
            _ => try_travel(&mut client, format!("0:{name}").as_bytes(), b"loaded"),
        };
        if reply.is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn make(server: &Server) -> [Truth; 2] {
    let mut client = server.client();
    ["0:", "1:"].map(|prefix| {
        let truth = Truth::new(prefix);
        truth.make(&mut client);
        truth
    })
}

fn acknowledged_items_survive_a_kill_with_synced_writes(site: &Site) {
    let mut drill = Drill::new("kill -9, appendfsync always", site, 3);
    let preamble = if drill.random.below(2) == 0 { "no" } else { "yes" };
    let mut server = append_only(site, "always", preamble).start();
    let mut truths = make(&server);
    while drill.goes_on() {
        server = kill_under_load(server, &mut truths, &mut drill);
        let mut client = server.client();
        for truth in &truths {
            assert_eq!(truth.missing(&mut client), [""; 0], "acknowledged, and lost");
        }
    }
    drill.count("acknowledged items, none lost", truths.iter().map(Truth::count).sum());
}

fn a_server_starts_after_a_kill_with_sync_each_second(site: &Site) {
    let mut drill = Drill::new("kill -9, appendfsync everysec", site, 3);
    let mut server = append_only(site, "everysec", "no").start();
    let mut truths = make(&server);
    while drill.goes_on() {
        server = kill_under_load(server, &mut truths, &mut drill);
        let mut client = server.client();
        // A kill loses the writes that the server had not passed to the system. With this setting these may be the
        // writes of the last second.
        for truth in &mut truths {
            drill.count("items lost", truth.missing(&mut client).len() as u64);
            assert!(client.say(&format!("BF.CARD {}", truth.key("own"))).parse::<u64>().is_ok());
            *truth = Truth::new(&format!("{}:", drill.random.next()));
            truth.make(&mut client);
        }
    }
}

fn a_snapshot_is_complete_after_a_kill(site: &Site) {
    let mut drill = Drill::new("kill -9, snapshots only", site, 3);
    let mut server = site.launch().start();
    let mut truths = make(&server);
    while drill.goes_on() {
        let mut client = server.client();
        let mut random = Random(drill.random.next());
        for truth in &mut truths {
            (0..50).for_each(|_| assert!(truth.step(&mut client, &mut random)));
        }
        // A child may be saving already.
        wait_until("saved", || client.say("SAVE") == "+OK");
        let saved: Vec<_> = truths.iter().map(|truth| truth.items.clone()).collect();
        server = kill_under_load(server, &mut truths, &mut drill);
        let mut client = server.client();
        for (truth, saved) in truths.iter_mut().zip(saved) {
            truth.items = saved;
            // A later snapshot may lack items that were deleted after the SAVE above.
            let deleted = truth.key("counting");
            truth.items.remove(&deleted);
            assert_eq!(truth.missing(&mut client), [""; 0], "saved, and lost");
        }
    }
    drill.count("saved items, none lost", truths.iter().map(Truth::count).sum());
}

fn a_truncated_append_only_file_loses_only_its_end(site: &Site) {
    let mut drill = Drill::new("append-only file cut", site, 2);
    while drill.goes_on() {
        let server = append_only(site, "always", "no").start();
        let mut truths = make(&server);
        let mut client = server.client();
        let mut random = Random(drill.random.next());
        for _ in 0..60 {
            assert!(truths[0].step(&mut client, &mut random));
        }
        drop(client);
        let cut_bytes = 1 + drill.random.next() % 600;
        let cut = |launch: Launch| {
            let file = append_only_file(launch.dir(), ".incr.");
            let file = std::fs::OpenOptions::new().write(true).open(file).expect("open");
            let length = file.metadata().unwrap().len();
            file.set_len(length.saturating_sub(cut_bytes)).expect("cut");
            launch
        };
        let server = server.restart_as(cut);
        let mut client = server.client();
        let missing = truths[0].missing(&mut client);
        drill.count("items lost with the end", missing.len() as u64);
        // An item takes more than ten bytes in the file, and the command at the cut has up to twenty items.
        assert!((missing.len() as u64) < cut_bytes / 10 + 21, "{cut_bytes} bytes were cut: {missing:?}");
    }
}

fn items_of_a_window_survive_a_kill(site: &Site) {
    let mut drill = Drill::new("kill -9, window rotating", site, 3);
    let preamble = if drill.random.below(2) == 0 { "no" } else { "yes" };
    let mut server = append_only(site, "always", preamble).start();
    let creation = format!("0.001 100000 PWINDOW {}", WINDOW.as_millis());
    assert_eq!(server.client().say(&format!("BF.RESERVE window {creation}")), "+OK");
    let mut added: Vec<(Instant, String)> = Vec::new();
    while drill.goes_on() {
        let mut client = server.client();
        let moment = Duration::from_millis(30 + drill.random.next() % 1500);
        let round = drill.rounds;
        let (killed, acknowledged) = thread::scope(|scope| {
            let load = scope.spawn(move || {
                let mut acknowledged = Vec::new();
                for number in 0u64.. {
                    let (begin, item) = (Instant::now(), format!("{round}-{number}"));
                    let Ok(reply) = client.try_call(&["BF.ADD", "window", &item]) else { break };
                    assert!(matches!(reply, redis::Value::Int(_)), "{reply:?}");
                    acknowledged.push((begin, item));
                }
                acknowledged
            });
            thread::sleep(moment);
            (server.restart(), load.join().expect("the load"))
        });
        server = killed;
        added.extend(acknowledged);
        let mut client = server.client();
        for items in added.chunks(500) {
            let words: Vec<&str> =
                ["BF.MEXISTS", "window"].into_iter().chain(items.iter().map(|(_, item)| &**item)).collect();
            let replies = client.array(&words);
            for ((begin, item), reply) in items.iter().zip(replies) {
                // The clock was read before the add and is read after the lookup, so the lookup was within the window.
                let is_due = begin.elapsed() < WINDOW;
                assert!(!is_due || reply == redis::Value::Int(1), "{item} was acknowledged, and is lost");
                drill.count("items within the window, none lost", u64::from(is_due));
            }
        }
        added.retain(|(begin, _)| begin.elapsed() < WINDOW);
    }
}

/// Adds and deletes random items until the server is killed. Returns the item whose last command was not acknowledged.
fn count_until_killed(
    client: &mut Client,
    counts: &mut HashMap<String, usize>,
    mut random: Random,
) -> String {
    loop {
        let item = format!("item-{}", random.below(6000));
        let count = counts.entry(item.clone()).or_default();
        let is_deleted = *count > 0 && random.below(3) == 0;
        let command = if is_deleted { "BF.DEL" } else { "BF.MADD" };
        let Ok(reply) = client.try_call(&[command, "counts", &item]) else { return item };
        let is_new = redis::Value::Array(vec![redis::Value::Int(i64::from(is_deleted || *count == 0))]);
        assert_eq!(reply, is_new, "{command} {item}, added {count} times");
        *count = if is_deleted { *count - 1 } else { *count + 1 };
    }
}

fn counts_survive_a_kill(site: &Site) {
    let mut drill = Drill::new("kill -9, counts", site, 3);
    let mut server =
        append_only(site, "always", if drill.random.below(2) == 0 { "no" } else { "yes" }).start();
    assert_eq!(server.client().say("BF.RESERVE counts 0.000000000001 100 COUNTING"), "+OK");
    let mut counts = HashMap::new();
    while drill.goes_on() {
        let mut client = server.client();
        let moment = Duration::from_millis(300 + drill.random.next() % 700);
        let random = Random(drill.random.next());
        let (killed, unknown) = thread::scope(|scope| {
            let counts = &mut counts;
            let load = scope.spawn(move || count_until_killed(&mut client, counts, random));
            thread::sleep(moment);
            (server.restart(), load.join().expect("the load"))
        });
        server = killed;
        let mut client = server.client();
        assert_eq!(client.int("COPY counts probe REPLACE"), 1);
        for (item, count) in &mut counts {
            // Deletes the item from the copy more often than it was added. The number of successful deletions is its
            // count.
            let words: Vec<&str> = ["BF.DEL", "probe"]
                .into_iter()
                .chain(std::iter::repeat_n(item.as_str(), *count + 2))
                .collect();
            let replies = client.array(&words);
            let found = replies.iter().filter(|reply| **reply == redis::Value::Int(1)).count();
            let is_exact = *item != unknown;
            assert!(
                found == *count || !is_exact && found.abs_diff(*count) == 1,
                "{item}: {found}, not {count}"
            );
            *count = found;
        }
        assert_eq!(client.int("BF.CARD probe"), 0);
        drill.count("counts, all exact", counts.len() as u64);
        client.say("BGREWRITEAOF");
    }
}
