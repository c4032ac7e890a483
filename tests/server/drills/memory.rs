//! Out of memory: at `maxmemory`, without and with eviction, and at the limit of the address space. A refused command
//! changes nothing, and the server keeps running.

use super::Drill;
use super::truth::Truth;
use crate::harness::{Client, Site, Test, tests, wait_until};

pub(super) const TESTS: &[Test] = tests![
    acknowledged_items_are_found_when_memory_is_full,
    a_server_that_evicts_stays_within_its_memory,
    acknowledged_items_are_found_when_allocations_fail,
];

/// Initial memory besides that of the filters.
const ROOM_BYTES: u64 = 4 << 20;
/// Memory that a client's buffers and a running command may add, as much as the server allows itself.
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
        // The thread that frees memory in the background allocates its cache now. jemalloc crashes if it has no memory
        // for that later.
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
