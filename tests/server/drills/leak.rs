//! Creating, filling and deleting filters of every kind repeatedly: all memory is freed.

use super::Drill;
use super::truth::{FILTERS, Truth};
use crate::harness::{Client, Site, Test, tests, wait_until};

pub(super) const TESTS: &[Test] = tests![cycles_leak_no_memory, short_lived_filters_leak_no_memory];

/// Commands that create a small filter of every kind. Later adds make growing filters grow.
const SMALL: [&str; 10] = [
    "BF.ADD short made",
    "BF.RESERVE short 0.01 5",
    "BF.RESERVE short 0.01 5 KEYED",
    "BF.RESERVE short 0.01 100 NONSCALING SATURATE",
    "BF.RESERVE short 0.01 5 COUNTING",
    "BF.RESERVE short 0.01 5 FORMAT redisbloom",
    "BF.RESERVE short 0.01 5 FORMAT valkey-bloom",
    "BF.RESERVE short 0.01 100 WINDOW 86400",
    "BF.IMPORT short EMPTY SCHEME murmur3-salted BITS 4000 HASHES 5",
    "BF.MERGE short own redis",
];
/// Filters of one kind in a round.
const LIVES: u64 = 1000;

fn cycles_leak_no_memory(site: &Site) {
    let mut drill = Drill::new("create, fill and delete", site, 40);
    let server = site.start();
    let mut client = server.client();
    // The first rounds allocate memory that is kept: buffers, tables, caches of the allocator.
    (0..20).for_each(|_| cycle(&mut client, &mut drill));
    let used = settled(&mut client);
    let resident = server.resident_bytes();
    while drill.goes_on() {
        cycle(&mut client, &mut drill);
    }
    wait_until("what was freed is given back", || settled(&mut client) < used + (64 << 10));
    let grown = server.resident_bytes().saturating_sub(resident);
    drill.most("KiB more resident", grown >> 10);
    assert!(grown < 32 << 20, "{grown} bytes more are resident");
}

/// A server can create and delete a million short-lived filters in seconds, so a small leak per filter would be
/// visible.
fn short_lived_filters_leak_no_memory(site: &Site) {
    let mut drill = Drill::new("short lives", site, 3);
    let server = site.start();
    let mut client = server.client();
    live(&mut client);
    let (used, resident) = (settled(&mut client), server.resident_bytes());
    while drill.goes_on() {
        live(&mut client);
        drill.count("filters of each kind", LIVES);
    }
    wait_until("what was freed is given back", || settled(&mut client) < used + (64 << 10));
    let grown = server.resident_bytes().saturating_sub(resident);
    drill.most("KiB more resident", grown >> 10);
    assert!(grown < 32 << 20, "{grown} bytes more are resident");
}

/// Creates, fills and deletes LIVES filters of each kind in a script of the server.
fn live(client: &mut Client) {
    for source in ["own 0.01 100", "redis 0.01 100 FORMAT redisbloom"] {
        assert_eq!(client.say(&format!("BF.RESERVE {source}")), "+OK");
    }
    for creation in SMALL {
        let quoted = format!("'{}'", creation.replace(' ', "','"));
        let script = format!(
            "for life = 1, {LIVES} do
               redis.call({quoted})
               redis.call('BF.MADD', 'short', life, 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l')
               redis.call(life % 2 == 0 and 'DEL' or 'UNLINK', 'short')
             end
             return 'lived'"
        );
        assert_eq!(client.ask(&["EVAL", &script, "3", "short", "own", "redis"]), "\"lived\"", "{creation}");
    }
    client.say("DEL own redis");
}

/// Returns the memory of a server after all filters are freed. The server keeps up to 128 slow commands, and on some
/// builds counts the garbage of Lua: both are removed first.
fn settled(client: &mut Client) -> u64 {
    assert_eq!(client.say("SLOWLOG RESET"), "+OK");
    assert_eq!(client.say("SCRIPT FLUSH SYNC"), "+OK");
    assert_eq!(client.info_number("bf_bytes"), 0);
    assert_eq!(client.info_number("bf_filters"), 0);
    client.info_number("used_memory")
}

fn cycle(client: &mut Client, drill: &mut Drill) {
    let truth = Truth::new("");
    truth.make(client);
    let items: Vec<String> = (0..200).map(|item| format!("item-{item}")).collect();
    for (key, _) in FILTERS {
        let words: Vec<&str> = ["BF.MADD", key].into_iter().chain(items.iter().map(String::as_str)).collect();
        client.array(&words);
    }
    for line in [
        "BF.MERGE union own redis valkey FORCE",
        "COPY own copy",
        "BF.CLEAR own",
        "BF.DEL counting item-1 item-2",
        "BF.SCANDUMP keyed 0",
        "BF.EXPORT client",
        "BF.RESERVE bad 2 1",
    ] {
        client.say(line);
    }
    for key in ["union", "counting", "valkey", "window"] {
        let payload = client.bytes(&["DUMP", key]);
        client.call(&[b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"]);
        client.call(&[b"RESTORE", b"cut".as_slice(), b"0", &payload[..payload.len() / 2]]);
    }
    drill.count("filters", client.int("DBSIZE").cast_unsigned());
    client.say(if drill.rounds.is_multiple_of(2) { "FLUSHALL SYNC" } else { "FLUSHALL ASYNC" });
    wait_until("all is freed", || client.info_number("lazyfree_pending_objects") == 0);
}
