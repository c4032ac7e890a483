//! Out of memory (at `maxmemory`, without and with eviction, and at the limit of the address space), a refused command
//! changes nothing, and the server keeps running. Filters of every kind that are created, filled and deleted repeatedly
//! leak no memory.

use super::{Drill, FILTERS, Truth};
use crate::harness::{Client, Server, Site, Test, numbered, tests, wait_until};
use crate::kinds::KINDS;

pub(super) const TESTS: &[Test] = tests![
    acknowledged_items_are_found_when_memory_is_full,
    a_server_that_evicts_stays_within_its_memory,
    acknowledged_items_are_found_when_allocations_fail,
    cycles_leak_no_memory,
    short_lived_filters_leak_no_memory,
];

/// Memory between the used memory and the limit that a test sets.
const ROOM_BYTES: u64 = 4 << 20;
/// Memory above the limit that the server may use for a client's buffers and a running command.
const SLACK_BYTES: u64 = 8 << 20;

/// Sets a limit slightly above the used memory. Returns it.
fn limit(client: &mut Client, policy: &str) -> u64 {
    let limit = client.info_number("used_memory") + ROOM_BYTES;
    assert_eq!(client.say(&format!("CONFIG SET maxmemory-policy {policy}")), "+OK");
    assert_eq!(client.say(&format!("CONFIG SET maxmemory {limit}")), "+OK");
    limit
}

fn acknowledged_items_are_found_when_memory_is_full(site: &Site) {
    let mut drill = Drill::new("maxmemory, noeviction", site, 3);
    let server = site.start();
    let mut client = server.client();
    while drill.goes_on() {
        let mut truth = Truth::new("");
        truth.make(&mut client);
        limit(&mut client, "noeviction");
        for number in 0..600 {
            assert!(truth.step(&mut client, &mut drill.random));
            let other = drill.random.below(20);
            let line = match drill.random.below(5) {
                0 => format!("BF.RESERVE other-{number} 0.01 {}", 1 + drill.random.below(1_000_000)),
                1 => format!("COPY own other-{number}"),
                2 => format!("BF.MERGE other-{number} own redis FORCE"),
                3 => format!("BF.CLEAR other-{other}"),
                _ => format!("SETRANGE other-{number} {} x", drill.random.below(1_000_000)),
            };
            let reply = client.say(&line);
            drill.count("commands refused", u64::from(reply.starts_with("-OOM")));
        }
        assert_eq!(truth.missing(&mut client), [""; 0], "acknowledged, and lost");
        drill.count("acknowledged items, none lost", truth.count());
        client.say("CONFIG SET maxmemory 0");
        client.say("FLUSHALL SYNC");
    }
    assert!(drill.figures.iter().any(|(name, refused)| *name == "commands refused" && *refused > 0));
}

fn a_server_that_evicts_stays_within_its_memory(site: &Site) {
    let mut drill = Drill::new("maxmemory, allkeys-lru", site, 3);
    // Memory that is freed in the background is not free yet when the server checks.
    let server = site.launch().with("lazyfree-lazy-eviction no").start();
    let mut client = server.client();
    while drill.goes_on() {
        let limit = limit(&mut client, "allkeys-lru");
        for number in 0..600 {
            let mut truth = Truth::new(&format!("{}:", number / 20));
            truth.make(&mut client);
            assert!(truth.step(&mut client, &mut drill.random));
            client.say(&format!("BF.RESERVE other-{number} 0.01 {}", 1 + drill.random.below(100_000)));
            let used = client.info_number("used_memory");
            assert!(used < limit + SLACK_BYTES, "{used} bytes of {limit}");
        }
        drill.count("filters evicted", client.info_number("evicted_keys"));
        client.say("CONFIG SET maxmemory 0");
        client.say("FLUSHALL SYNC");
        wait_until("all is freed", || client.info_number("bf_bytes") == 0);
        client.say("CONFIG RESETSTAT");
    }
    assert!(drill.figures.iter().any(|(_, evicted)| *evicted > 0));
}

fn acknowledged_items_are_found_when_allocations_fail(site: &Site) {
    if site.hides_memory() {
        return;
    }
    let mut drill = Drill::new("ulimit -v", site, 3);
    while drill.goes_on() {
        // Every round needs a new server: the allocator keeps the address space of freed large blocks, and may refuse
        // small blocks on an empty server.
        let server = site.launch().with_address_space_mib(1600).start();
        let mut client = server.client();
        // The thread that frees memory in the background allocates its cache now, while there is memory for it.
        client.say("BF.ADD other-0 x");
        client.say("FLUSHALL ASYNC");
        wait_until("all is freed", || client.info_number("bf_bytes") == 0);
        let mut truth = Truth::new("");
        truth.make(&mut client);
        for _ in 0..1000 {
            assert!(truth.step(&mut client, &mut drill.random));
            let key = drill.random.below(4);
            let line = match drill.random.below(5) {
                0 | 1 => format!("BF.RESERVE other-{key} 0.01 {}", 1 + drill.random.below(700_000_000)),
                2 => format!("COPY other-{key} other-{}", drill.random.below(4)),
                3 => format!(
                    "BF.INSERT other-{key} CAPACITY {} ITEMS a b",
                    1 + drill.random.below(700_000_000)
                ),
                _ => format!("DEL other-{key}"),
            };
            let reply = client.say(&line);
            let is_refused =
                reply.contains("memory") || reply.starts_with("-ERR") && line.starts_with("COPY");
            drill.count("commands refused", u64::from(is_refused));
        }
        assert_eq!(truth.missing(&mut client), [""; 0], "acknowledged, and lost");
        drill.count("acknowledged items, none lost", truth.count());
    }
    assert!(drill.figures.iter().any(|(name, refused)| *name == "commands refused" && *refused > 0));
}

/// Runs rounds of a drill, and asserts that they leave no memory allocated or resident. The first round is not
/// compared: it allocates memory that is kept, such as buffers, tables and caches of the allocator.
fn leaks_no_memory(mut drill: Drill, server: &Server, round: impl Fn(&mut Client, &mut Drill)) {
    let mut client = server.client();
    round(&mut client, &mut drill);
    let (used, resident) = (settled(&mut client), server.resident_bytes());
    while drill.goes_on() {
        round(&mut client, &mut drill);
    }
    wait_until("what was freed is given back", || settled(&mut client) < used + (64 << 10));
    let grown = server.resident_bytes().saturating_sub(resident);
    drill.most("KiB more resident", grown >> 10);
    assert!(grown < 32 << 20, "{grown} bytes more are resident");
}

fn cycles_leak_no_memory(site: &Site) {
    let drill = Drill::new("create, fill and delete", site, 4);
    leaks_no_memory(drill, &site.start(), |client, drill| (0..15).for_each(|_| cycle(client, drill)));
}

/// A server can create and delete a million short-lived filters in seconds, so a small leak per filter would be
/// visible.
fn short_lived_filters_leak_no_memory(site: &Site) {
    let drill = Drill::new("short lives", site, 2);
    leaks_no_memory(drill, &site.start(), live);
}

/// Number of filters of each kind in a round.
const LIVES: u64 = 1000;

/// Creates, fills and deletes filters of each kind in a script of the server. Filters of fixed size refuse some items.
fn live(client: &mut Client, drill: &mut Drill) {
    for source in ["own 0.01 100", "redis 0.01 100 FORMAT redisbloom"] {
        assert_eq!(client.say(&format!("BF.RESERVE {source}")), "+OK");
    }
    let made = KINDS.iter().filter(|(name, _)| !name.starts_with("united")).map(|(_, kind)| kind[0]);
    for creation in made.chain(["BF.MERGE $ own redis"]) {
        let quoted = format!("'{}'", creation.replace('$', "short").replace('#', "5").replace(' ', "','"));
        let script = format!(
            "for life = 1, {LIVES} do
               redis.call({quoted})
               redis.pcall('BF.MADD', 'short', life, 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l')
               redis.call(life % 2 == 0 and 'DEL' or 'UNLINK', 'short')
             end
             return 'lived'"
        );
        assert_eq!(client.ask(&["EVAL", &script, "3", "short", "own", "redis"]), "\"lived\"", "{creation}");
    }
    client.say("DEL own redis");
    drill.count("filters of each kind", LIVES);
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
    for (key, _) in FILTERS {
        client.many(&format!("BF.MADD {key}"), &numbered("item", 0..200));
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
