//! Filters that get a time to live when they are created.

use crate::harness::{Site, Test, tests, wait_until};
use crate::journeys::append_only;

pub(crate) const TESTS: &[Test] = tests![
    a_filter_expires_at_its_time,
    a_time_in_the_past_leaves_no_filter,
    replicas_and_the_append_only_file_have_the_same_expiry,
];

/// Commands that create a filter with a time to live, except for the option and what follows it.
const MAKERS: [(&str, &str); 4] = [
    ("BF.RESERVE", "0.01 100"),
    ("BF.RESERVE", "0.01 100 FORMAT redisbloom"),
    ("BF.INSERT", "FORMAT valkey-bloom"),
    ("BF.IMPORT", "EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3"),
];

fn tail(command: &str) -> &'static str {
    if command == "BF.INSERT" { " ITEMS a" } else { "" }
}

fn a_filter_expires_at_its_time(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (index, (command, options)) in MAKERS.iter().enumerate() {
        client.say(&format!("{command} k{index} {options} EX 1000{}", tail(command)));
        assert!((990..=1000).contains(&client.int(&format!("TTL k{index}"))), "{command} {options}");
        client.say(&format!("{command} gone{index} {options} PX 50{}", tail(command)));
        wait_until("the filter expires", || client.int(&format!("EXISTS gone{index}")) == 0);
    }
    // An existing filter keeps its time to live.
    client.say("BF.ADD plain a");
    assert_eq!(client.say("BF.INSERT plain EX 10 ITEMS a b"), "[0, 1]");
    assert_eq!(client.int("TTL plain"), -1);
}

fn a_time_in_the_past_leaves_no_filter(site: &Site) {
    let server = site.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.01 100 EXAT 1000"), "+OK");
    assert_eq!(client.int("EXISTS k"), 0);
    assert_eq!(client.say("BF.RESERVE k 0.01 100"), "+OK");
    assert_eq!(client.int("TTL k"), -1);
    client.say("BF.ADD k a");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().digest("k"), client.digest("k"));
    assert_eq!(replica.client().int("PTTL k"), -1);
}

fn replicas_and_the_append_only_file_have_the_same_expiry(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    for (index, (command, options)) in MAKERS.iter().enumerate() {
        client.say(&format!("{command} k{index} {options} EX 1000{}", tail(command)));
    }
    let moments = |client: &mut crate::harness::Client| -> Vec<i64> {
        (0..MAKERS.len()).map(|index| client.int(&format!("PEXPIRETIME k{index}"))).collect()
    };
    let expected = moments(&mut client);
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(moments(&mut replica.client()), expected);
    drop(client);
    let restarted = server.restart();
    assert_eq!(moments(&mut restarted.client()), expected);
}
