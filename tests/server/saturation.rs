//! Filters that go on accepting items when they are full, on every way that a filter takes.

use crate::dump;
use crate::harness::{Client, Site, Test, tests};

pub(crate) const TESTS: &[Test] =
    tests![a_saturated_filter_survives_every_way_it_can_take, the_setting_decides_where_the_word_is_missing,];

fn items(from: u64, to: u64) -> Vec<String> {
    (from..to).map(|number| format!("item-{number}")).collect()
}

/// Fills the filter to three times its capacity.
fn fill(client: &mut Client, key: &str) {
    let request: Vec<String> =
        ["BF.MADD".to_owned(), key.to_owned()].into_iter().chain(items(0, 300)).collect();
    let reply = client.ask(&request);
    assert!(!reply.contains("ERR"), "{reply}");
}

fn a_saturated_filter_survives_every_way_it_can_take(site: &Site) {
    let append_only = ["appendonly yes", "appendfsync always", "aof-use-rdb-preamble no"];
    let launch = append_only.iter().fold(site.launch(), |launch, line| launch.with(*line));
    let server = launch.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.01 100 NONSCALING SATURATE"), "+OK");
    fill(&mut client, "k");
    assert!(client.int("BF.CARD k") > 150);
    let digest = client.digest("k");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().digest("k"), digest);
    dump::travel(&mut client, "k", "piecewise");
    assert_eq!(client.int("COPY k copy"), 1);
    let payload = client.bytes(&["DUMP", "k"]);
    assert_eq!(client.ask(&[b"RESTORE", b"restored".as_slice(), b"0", &payload]), "+OK");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    let keys = ["k", "piecewise", "copy", "restored"];
    for key in keys {
        assert_eq!(client.digest(key), digest, "{key}");
        assert_eq!(client.say(&format!("BF.ADD {key} beyond-all")), "1", "{key}");
    }
    let digest = client.digest("k");
    drop(client);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.digest("copy"), digest);
    assert!(client.say("BGREWRITEAOF").starts_with('+'));
    crate::harness::wait_until("the rewrite ends", || {
        client.info_number("aof_rewrite_in_progress") == 0 && client.info_number("aof_rewrite_scheduled") == 0
    });
    drop(client);
    let server = server.restart();
    let mut client = server.client();
    for key in keys {
        assert_eq!(client.digest(key), digest, "{key}");
    }
}

fn the_setting_decides_where_the_word_is_missing(site: &Site) {
    let server = site.launch().with_option("bf.on-full saturate").start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.0001 1 NONSCALING"), "+OK");
    assert_eq!(client.say("BF.MADD k a b c"), "[1, 1, 1]");
    assert_eq!(client.say("BF.RESERVE peer 0.0001 1 NONSCALING FORMAT redisbloom"), "+OK");
    assert_eq!(client.say("BF.MADD peer a b"), "[1, -ERR non scaling filter is full]");
    assert_eq!(client.say("CONFIG SET bf.on-full refuse"), "+OK");
    assert_eq!(client.say("BF.ADD k d"), "1");
    assert_eq!(client.say("BF.RESERVE fixed 0.0001 1 NONSCALING"), "+OK");
    assert_eq!(client.say("BF.MADD fixed a b"), "[1, -ERR non scaling filter is full]");
}
