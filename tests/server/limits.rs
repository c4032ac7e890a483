//! The largest filters, and the limits that refuse them: bf.max-filter-bytes, maxmemory, the memory of the machine and
//! of the cgroup.

use std::path::Path;

use crate::dump;
use crate::harness::{Client, Server, Site, Test, numbered, show, tests, wait_until};
use crate::journeys::append_only;
use crate::keys::union_of_layers;
use crate::support::cgroup::MemoryCgroups;

pub(crate) const TESTS: &[Test] = tests![
    a_filter_of_a_gigabyte_takes_no_memory_until_it_is_used,
    a_filter_beyond_a_limit_is_refused,
    items_beyond_the_byte_limit_are_refused_and_logged,
    a_command_may_carry_many_items,
    a_large_batch_has_a_complete_reply,
    a_filter_of_a_thousand_layers_works,
    the_byte_limit_applies_to_restore_by_a_client,
    the_limit_of_restore_is_exact_for_each_format,
    the_byte_limit_does_not_apply_to_primaries_and_files,
    a_client_cannot_move_a_filter_to_a_server_with_a_smaller_limit,
];

fn a_filter_of_a_gigabyte_takes_no_memory_until_it_is_used(site: &Site) {
    if site.hides_memory() {
        return;
    }
    let server = site.start();
    let mut client = server.client();
    let before = server.resident_bytes();
    assert_eq!(client.say("BF.RESERVE big 0.01 800000000"), "+OK");
    assert!(client.field("big", "SIZE") > 900_000_000);
    assert_eq!(client.say("BF.MADD big a b c"), "[1, 1, 1]");
    assert_eq!(client.say("BF.MEXISTS big a b c d"), "[1, 1, 1, 0]");
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes resident");
    assert_eq!(client.int("DEL big"), 1);
    assert_eq!(client.say("BF.RESERVE big 0.01 800000000 NONSCALING"), "+OK");
    assert_eq!(client.int("UNLINK big"), 1);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes resident after deletion");
}

fn a_filter_beyond_a_limit_is_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let machine_bytes = client.info_number("total_system_memory");
    let cgroups = MemoryCgroups::of_process(Path::new("/"));
    let machine = match cgroups.limit_bytes().filter(|limit| *limit < machine_bytes) {
        Some(limit) => format!("the memory limit of the cgroup ({limit})"),
        None => format!("the machine has ({machine_bytes})"),
    };
    let default = "bf.max-filter-bytes (68719476736)";
    for (setting, command, limits) in [
        ("", "BF.RESERVE k 0.01 1099511627776", [default, &machine]),
        ("", "BF.INSERT k CAPACITY 1099511627776 ITEMS a", [default, &machine]),
        // The operator allows any size; the machine does not.
        ("bf.max-filter-bytes 70368744177664", "BF.RESERVE k 0.01 600000000000", [&machine; 2]),
        ("maxmemory 50mb", "BF.RESERVE k 0.01 800000000", ["maxmemory (52428800)"; 2]),
        ("bf.max-filter-bytes 100000", "BF.RESERVE k 0.01 100000", ["bf.max-filter-bytes (100000)"; 2]),
        // The limit applies to the defaults too.
        ("bf.initial-size 1000000", "BF.ADD k a", ["bf.max-filter-bytes (100000)"; 2]),
    ] {
        if !setting.is_empty() {
            assert_eq!(client.say(&format!("CONFIG SET {setting}")), "+OK");
        }
        assert_too_large(&client.say(command), &limits);
        assert_eq!(client.int("EXISTS k"), 0, "{command}");
    }
    assert_eq!(client.say("BF.RESERVE k 0.01 50000"), "+OK");
    assert!(client.field("k", "SIZE") <= 100_000);
}

/// Asserts that a filter was refused because of one of these limits, and that the error shows the limit's name and
/// bytes.
pub(crate) fn assert_too_large(reply: &str, limits: &[&str]) {
    assert!(reply.starts_with("-ERR filter would take "), "{reply}");
    let is_named =
        |limit: &&str| reply.contains(&format!(" bytes, more than {limit}: choose a smaller capacity"));
    let named = limits.iter().find(|limit| is_named(limit)).unwrap_or_else(|| panic!("{reply}"));
    let setting = named.split(" (").next().unwrap();
    let is_raised = reply.ends_with(&format!(" or raise {setting}"));
    assert_eq!(is_raised, setting != "the machine has", "{reply}");
}

/// Every kind of filter with a table refuses new items at the byte limit, not long before it, and accepts them after
/// the limit is raised.
fn items_beyond_the_byte_limit_are_refused_and_logged(site: &Site) {
    const REFUSED: &str = "-ERR problem inserting into filter";
    let server = site.launch().with_option("bf.max-filter-bytes 50000").start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    // Filters with the same name in two databases.
    client.say("BF.RESERVE fixed 0.0001 2 NONSCALING");
    (0..100).for_each(|number| drop(client.say(&format!("BF.MADD fixed a b c-{number}"))));
    client.say("SELECT 1");
    client.say("BF.INSERT fixed CAPACITY 1 NONSCALING ITEMS a b c d");
    client.say("SELECT 0");
    let kinds = [
        ("unreserved", "", 22),
        ("reserved", "CAPACITY 1000 ", 22),
        ("counting", "COUNTING ", 22),
        ("window", "WINDOW 86400 ", 25),
    ];
    for (key, creation, most_bits) in kinds {
        client.say(&format!("BF.INSERT {key} {creation}ITEMS first"));
        let is_full = |from: usize| {
            let items = numbered("item", from..from + 500);
            client.many(&format!("BF.MADD {key}"), &items).iter().any(|reply| show(reply) == REFUSED)
        };
        assert!((0..100_000).step_by(500).any(is_full), "{key}");
        let (size, items) = (client.field(key, "SIZE"), client.field(key, "ITEMS"));
        assert!(size <= 50_000 && items * most_bits > 45_000 * 8, "{key}: {items} items in {size} bytes");
        // Existing items are still found, and the reply has an error for each refused item.
        let refused = numbered("new", 0..1000);
        let refused =
            refused.iter().find(|item| client.say(&format!("BF.ADD {key} {item}")) == REFUSED).unwrap();
        let digest = client.digest(key);
        let reply = client.say(&format!("BF.MADD {key} {refused} {refused}"));
        assert_eq!(
            (reply, client.int(&format!("BF.EXISTS {key} first"))),
            (format!("[{REFUSED}, {REFUSED}]"), 1)
        );
        assert_eq!(client.digest(key), digest, "{key}");
    }
    for number in 0..100 {
        client.say(&format!("BF.MADD reserved new-{number} first newer-{number}"));
    }
    // One line per filter and minute.
    let log = server.log();
    let lines = |key: &str| {
        log.lines()
            .filter(|line| line.contains(&format!("a filter refuses items: '{key}' ")))
            .collect::<Vec<_>>()
    };
    assert_eq!((lines("reserved").len(), lines("fixed").len()), (1, 2), "{log}");
    assert!(lines("reserved")[0].ends_with(" bytes, more than bf.max-filter-bytes (50000)"), "{log}");
    // A client may go on to use a filter above the limit, and copy it.
    client.say("CONFIG SET bf.max-filter-bytes 1024");
    assert_eq!((client.int("BF.EXISTS reserved first"), client.int("COPY reserved copy")), (1, 1));
    client.say("CONFIG SET bf.max-filter-bytes 1000000");
    for (key, ..) in kinds {
        let replies = client.many(&format!("BF.MADD {key}"), &numbered("more", 0..2000));
        assert!(replies.iter().all(|reply| matches!(reply, redis::Value::Int(_))), "{key}");
    }
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().say("DEBUG DIGEST"), client.say("DEBUG DIGEST"));
    assert!(!replica.log().contains("a filter refuses items"), "{}", replica.log());
}

fn a_command_may_carry_many_items(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let items = numbered("item", 0..50_000);
    client.say("BF.RESERVE k 0.0001 1000");
    let new = client.ones("BF.MADD k", &items);
    assert!(new > 49_900 && client.field("k", "ITEMS") == new as u64, "{new}");
    assert_eq!(client.ones("BF.MEXISTS k", &items), items.len());
}

/// A batch of 16 MiB of newlines has an item per byte. The size of the batch bounds the memory.
fn a_large_batch_has_a_complete_reply(site: &Site) {
    const BYTES: usize = 16 << 20;
    let server = site.start();
    let mut client = server.client();
    let newlines = vec![b'\n'; BYTES];
    let reply = client.bytes(&[b"BF.BULKADD", b"k".as_slice(), b"LINES", &newlines]);
    assert!(reply.len() == BYTES && reply[0] == b'1' && reply[1..].iter().all(|reply| *reply == b'0'));
    assert_eq!(
        client.ask(&[b"BF.BULKEXISTS", b"k".as_slice(), b"COUNT", b"LINES", &newlines]),
        BYTES.to_string()
    );
    assert_eq!(client.int("BF.CARD k"), 1);
    // Memory at the peak: the batch, its reply, the copy of the reply for the client, and the replicated command.
    let peak = client.info_number("used_memory_peak");
    // The allocator of the C library takes slightly more for large blocks.
    assert!(peak < 6 * BYTES as u64 + (4 << 20), "{peak} bytes at the peak");
}

fn a_filter_of_a_thousand_layers_works(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    union_of_layers(&mut client, "k", 1000);
    assert_eq!(client.array(&["BF.DEBUG", "k"]).len(), 1001);
    for item in 1..=1000 {
        assert_eq!(client.int(&format!("BF.EXISTS k {item}")), 1);
    }
    let digest = client.digest("k");
    assert_eq!(client.int("COPY k copied"), 1);
    dump::travel(&mut client, "k", "travelled");
    let payload = client.bytes(&["DUMP", "k"]);
    client.ask(&[b"RESTORE", b"restored".as_slice(), b"0", &payload]);
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    for key in ["k", "copied", "travelled", "restored"] {
        assert_eq!(client.digest(key), digest, "{key}");
    }
}

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> String {
    client.ask(&[b"RESTORE", key.as_bytes(), b"0", payload])
}

/// The reply of RESTORE to a payload that the module refuses. The reason is in the log.
const BAD_PAYLOAD: &str = "-ERR Bad data format";

fn assert_logged(server: &Server, reason: &str) {
    let log = server.log();
    let line = log.lines().rev().find(|line| line.contains("a filter cannot be loaded"));
    assert!(line.is_some_and(|line| line.contains(reason)), "{log}");
}

fn the_byte_limit_applies_to_restore_by_a_client(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    // Some kilobytes that would become 20 GB.
    client.say("BF.RESERVE k 0.01 16000000000 NONSCALING");
    let payload = client.bytes(&["DUMP", "k"]);
    assert!(payload.len() < 100_000, "{} bytes", payload.len());
    let shape = client.say("BF.DEBUG k");
    assert_eq!(client.say("FLUSHALL SYNC"), "+OK");
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 1mb"), "+OK");
    assert_eq!(client.info_number("bf_load_errors"), 0);
    assert_eq!(restore(&mut client, "new", &payload), BAD_PAYLOAD);
    assert_eq!(client.info_number("bf_load_errors"), 1);
    assert_logged(&server, "more than bf.max-filter-bytes (1048576)");
    let script = "return redis.call('RESTORE', KEYS[1], 0, ARGV[1])";
    let reply = client.ask(&[b"EVAL", script.as_bytes(), b"1", b"new", &payload]);
    assert!(reply.contains("Bad data format"), "{reply}");
    // `maxmemory` applies too, as it does to new filters.
    client.say("CONFIG SET bf.max-filter-bytes 64gb");
    client.say("CONFIG SET maxmemory 1gb");
    assert_eq!(restore(&mut client, "new", &payload), BAD_PAYLOAD);
    assert_logged(&server, "more than maxmemory (1073741824)");
    assert_eq!(client.int("EXISTS new"), 0);
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(restore(&mut client, "new", &payload), "+OK");
    assert_eq!(client.say("BF.DEBUG new"), shape);
}

fn the_limit_of_restore_is_exact_for_each_format(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        let make = format!("BF.RESERVE {format} 0.01 10000 NONSCALING FORMAT {format}");
        assert_eq!(client.say(&make), "+OK");
        let payload = client.bytes(&["DUMP", format]);
        let (_, header) = dump::chunk(&mut client, format, 0).unwrap();
        client.say("DEL chunks");
        // The error contains the number of bytes that the filter would need.
        client.say("CONFIG SET bf.max-filter-bytes 1024");
        let refusal = dump::load(&mut client, "chunks", 1, &header);
        assert_too_large(&refusal, &["bf.max-filter-bytes (1024)"]);
        let needed_bytes: u64 = refusal.split_whitespace().nth(4).unwrap().parse().unwrap();
        assert!(needed_bytes > 10_000, "{refusal}");
        for (limit_bytes, outcome) in [(needed_bytes - 1, BAD_PAYLOAD), (needed_bytes, "+OK")] {
            client.say(&format!("DEL new chunks {format}"));
            client.say(&format!("CONFIG SET bf.max-filter-bytes {limit_bytes}"));
            assert_eq!(restore(&mut client, "new", &payload), outcome, "{format}");
            // BF.LOADCHUNK and BF.RESERVE have the same limit as RESTORE.
            let loaded = dump::load(&mut client, "chunks", 1, &header);
            let made = client.say(&make);
            assert_eq!(
                (loaded.as_str() == "+OK", made.as_str() == "+OK"),
                (outcome == "+OK", outcome == "+OK")
            );
        }
        client.say("CONFIG SET bf.max-filter-bytes 64gb");
    }
}

fn the_byte_limit_does_not_apply_to_primaries_and_files(site: &Site) {
    const SMALL: &str = "bf.max-filter-bytes 1024";
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        assert_eq!(client.say(&format!("BF.RESERVE {format} 0.01 10000 FORMAT {format}")), "+OK");
        client.say(&format!("BF.MADD {format} a b c"));
    }
    // The replica gets filters by full synchronisation, then by the stream. It applies no limit to them.
    let replica = server.replica(site.launch().with_option(SMALL));
    let mut follower = replica.client();
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        let payload = client.bytes(&["DUMP", format]);
        let digest = client.digest(format);
        assert_eq!(restore(&mut client, &format!("restored-{format}"), &payload), "+OK");
        for key in [format, &format!("restored-{format}")] {
            wait_until("replicated", || follower.int(&format!("EXISTS {key}")) == 1);
            assert_eq!(follower.digest(key), digest, "{key}");
        }
    }
    // When it is a primary, it applies the limit.
    assert_eq!(follower.say("REPLICAOF NO ONE"), "+OK");
    let payload = follower.bytes(&["DUMP", "everbloom"]);
    assert_eq!(restore(&mut follower, "late", &payload), BAD_PAYLOAD);
    // The limit does not apply when the server loads a file of commands, which include RESTORE, in DEBUG RELOAD, or
    // when it loads a snapshot.
    let digest = client.digest("restored-redisbloom");
    let server = server.restart_as(|launch| launch.with_option(SMALL));
    let mut client = server.client();
    assert_eq!(client.digest("restored-redisbloom"), digest);
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_eq!((client.int("DBSIZE"), client.digest("restored-redisbloom")), (6, digest.clone()));
    assert_eq!(client.say("SAVE"), "+OK");
    let server = server.restart_as(|launch| launch.with("appendonly no"));
    let mut client = server.client();
    assert_eq!((client.int("DBSIZE"), client.digest("restored-redisbloom")), (6, digest));
    assert_eq!(restore(&mut client, "late", &payload), BAD_PAYLOAD);
}

fn a_client_cannot_move_a_filter_to_a_server_with_a_smaller_limit(site: &Site) {
    let from = site.start();
    let to = site.launch().with_option("bf.max-filter-bytes 1024").start();
    let mut client = from.client();
    client.say("BF.RESERVE k 0.01 10000");
    let migrate = format!("MIGRATE 127.0.0.1 {} k 0 60000", to.port());
    let reply = client.say(&migrate);
    assert!(reply.starts_with("-ERR ") && reply.contains("Bad data format"), "{reply}");
    assert_logged(&to, "bf.max-filter-bytes");
    assert_eq!((client.int("EXISTS k"), to.client().int("DBSIZE")), (1, 0));
    to.client().say("CONFIG SET bf.max-filter-bytes 1mb");
    assert_eq!(client.say(&migrate), "+OK");
    assert_eq!((client.int("EXISTS k"), to.client().int("DBSIZE")), (0, 1));
}
