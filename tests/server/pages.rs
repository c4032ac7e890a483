//! Huge pages: memory that is in use is collapsed into them, and again after a save. Memory that is not in use stays
//! in small pages.

use std::fs;

use crate::harness::{Client, Server, Site, Test, skip, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    memory_that_holds_few_items_stays_small,
    filled_filters_get_huge_pages_again_after_a_save,
    loaded_filters_get_huge_pages,
    a_script_debugger_does_not_prevent_huge_pages,
    pages_stay_small_while_the_setting_is_off,
];

const MIB: u64 = 1 << 20;

/// Returns the bytes of the server's process in huge pages.
fn large_page_bytes(server: &Server) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", server.pid())).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Returns whether the system collapses pages on request (Linux 6.1). Otherwise skips the test. An emulator does not
/// pass such a request on.
fn can_collapse(site: &Site) -> bool {
    if site.hides_memory() {
        return false;
    }
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let can_collapse = !setting.is_empty() && !setting.contains("[never]") && version >= (6, 1);
    if !can_collapse {
        skip("the system does not collapse pages on request");
    }
    can_collapse
}

/// Adds items `from..to`, a thousand at a time.
fn fill(client: &mut Client, key: &str, from: u64, to: u64) {
    for start in (from..to).step_by(1000) {
        let mut request = vec!["BF.MADD".to_owned(), key.to_owned()];
        request.extend((start..to.min(start + 1000)).map(|number| format!("item {number}")));
        client.array(&request);
    }
}

/// Waits until `size_bytes` of the process are in huge pages. Adds items meanwhile: if the system has refused, the
/// pages are requested again after more items.
fn wait_for_large_pages(server: &Server, client: &mut Client, key: &str, size_bytes: u64) {
    let mut number = 1 << 40;
    wait_until("large pages", || {
        fill(client, key, number, number + 2000);
        number += 2000;
        large_page_bytes(server) > size_bytes
    });
}

/// Creates a filter of 60 MB with items in nearly all of its pages.
fn make_filled(client: &mut Client, key: &str) {
    assert_eq!(client.say(&format!("BF.RESERVE {key} 0.01 50000000")), "+OK");
    fill(client, key, 0, 200_000);
}

fn memory_that_holds_few_items_stays_small(site: &Site) {
    if site.hides_memory() {
        return;
    }
    let server = site.start();
    let mut client = server.client();
    let before = server.resident_bytes();
    let assert_small = |what: &str| {
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < 24 * MIB, "{what}: {grown} bytes resident");
    };
    // The thousand bits of one item are in a thousand pages.
    assert_eq!(client.say("BF.RESERVE wide 1e-300 12000000 FORMAT redisbloom"), "+OK");
    assert_eq!(client.say("BF.ADD wide a"), "1");
    assert_small("a thousand bits");
    client.int("DEL wide");
    assert_eq!(client.say("BF.RESERVE wide 0.01 3000000000"), "+OK");
    fill(&mut client, "wide", 0, 1000);
    assert_small("a thousand items");
    client.say("BF.MEXISTS wide a b c");
    assert_eq!(client.say("COPY wide copy"), "1");
    assert_small("a thousand items, twice");
}

fn filled_filters_get_huge_pages_again_after_a_save(site: &Site) {
    if !can_collapse(site) {
        return;
    }
    let server = site.start();
    let mut client = server.client();
    make_filled(&mut client, "k");
    wait_for_large_pages(&server, &mut client, "k", 40 * MIB);
    // During a save the child shares the pages. The system splits a huge page that is written to meanwhile.
    assert!(client.say("BGSAVE").starts_with('+'));
    fill(&mut client, "k", 200_000, 300_000);
    wait_until("the save ends", || client.info_number("rdb_bgsave_in_progress") == 0);
    assert_eq!(client.info("rdb_last_bgsave_status").as_deref(), Some("ok"));
    wait_for_large_pages(&server, &mut client, "k", 40 * MIB);
    assert_eq!(client.array(&["BF.MEXISTS", "k", "item 0", "item 199999", "item 250000"]).len(), 3);
}

fn loaded_filters_get_huge_pages(site: &Site) {
    if !can_collapse(site) {
        return;
    }
    let server = site.start();
    let mut client = server.client();
    make_filled(&mut client, "k");
    wait_for_large_pages(&server, &mut client, "k", 40 * MIB);
    assert_eq!(client.say("COPY k copy"), "1");
    wait_for_large_pages(&server, &mut client, "copy", 80 * MIB);
    client.int("DEL copy");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    wait_for_large_pages(&server, &mut client, "k", 40 * MIB);
}

/// The server raises an event when the child of a script debugger starts, but none when it ends.
fn a_script_debugger_does_not_prevent_huge_pages(site: &Site) {
    if !can_collapse(site) {
        return;
    }
    let server = site.start();
    let mut debugger = server.raw();
    assert_eq!(debugger.say("SCRIPT DEBUG YES"), "+OK\r\n");
    // The child serves requests, and exits after the last one.
    let stopped = debugger.ask(&["EVAL", "return 1", "0"]);
    assert!(stopped.contains("Stopped at 1"), "{stopped}");
    drop(debugger);
    let mut client = server.client();
    assert_eq!(client.info_number("rdb_bgsave_in_progress"), 0);
    make_filled(&mut client, "k");
    wait_for_large_pages(&server, &mut client, "k", 40 * MIB);
}

fn pages_stay_small_while_the_setting_is_off(site: &Site) {
    if !can_collapse(site) {
        return;
    }
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("CONFIG SET bf.huge-pages no"), "+OK");
    make_filled(&mut client, "k");
    assert_eq!(client.say("COPY k copy"), "1");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    fill(&mut client, "k", 200_000, 300_000);
    assert!(large_page_bytes(&server) < 8 * MIB, "{}", large_page_bytes(&server));
    assert_eq!(client.say("CONFIG SET bf.huge-pages yes"), "+OK");
    wait_for_large_pages(&server, &mut client, "k", 40 * MIB);
}
