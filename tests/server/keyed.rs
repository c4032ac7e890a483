//! Filters whose hash is keyed, on every way that a filter takes.

use crate::dump;
use crate::harness::{Site, Test, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    a_keyed_filter_survives_every_way_it_can_take,
    keys_are_drawn_anew_and_not_shown,
    the_setting_keys_new_filters,
];

fn a_keyed_filter_survives_every_way_it_can_take(site: &Site) {
    let append_only = ["appendonly yes", "appendfsync always", "aof-use-rdb-preamble no"];
    let launch = append_only.iter().fold(site.launch(), |launch, line| launch.with(*line));
    let server = launch.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.01 10 KEYED"), "+OK");
    for item in 0..50 {
        client.say(&format!("BF.ADD k item-{item}"));
    }
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
        assert_eq!(client.say(&format!("TYPE {key}")), "+everbloom");
        assert_eq!(client.say(&format!("BF.ADD {key} beyond-all")), "1", "{key}");
    }
    let digest = client.digest("k");
    drop(client);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.digest("k"), digest);
    assert!(client.say("BGREWRITEAOF").starts_with('+'));
    wait_until("the rewrite ends", || {
        client.info_number("aof_rewrite_in_progress") == 0 && client.info_number("aof_rewrite_scheduled") == 0
    });
    drop(client);
    let server = server.restart();
    let mut client = server.client();
    for key in keys {
        assert_eq!(client.digest(key), digest, "{key}");
        assert_eq!(client.say(&format!("BF.MEXISTS {key} item-0 item-49 beyond-all")), "[1, 1, 1]");
    }
}

fn keys_are_drawn_anew_and_not_shown(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE one 0.01 100 KEYED"), "+OK");
    assert_eq!(client.say("BF.RESERVE other 0.01 100 KEYED"), "+OK");
    assert_ne!(client.digest("one"), client.digest("other"));
    assert_eq!(client.say("BF.DEBUG one"), client.say("BF.DEBUG other"));
    assert_eq!(client.say("BF.INFO one"), client.say("BF.INFO other"));
    // A key that is given makes the same filter.
    for key in ["given", "again"] {
        let made = client.say(&format!("BF.INSERT {key} KEY 0123456789abcdef ITEMS a b"));
        assert_eq!(made, "[1, 1]");
    }
    assert_eq!(client.digest("given"), client.digest("again"));
}

fn the_setting_keys_new_filters(site: &Site) {
    let server = site.launch().with_option("bf.keyed yes").start();
    let mut client = server.client();
    assert_eq!(client.say("BF.ADD one a"), "1");
    assert_eq!(client.say("BF.ADD other a"), "1");
    assert_ne!(client.digest("one"), client.digest("other"));
    assert_eq!(client.say("CONFIG SET bf.keyed no"), "+OK");
    assert_eq!(client.say("BF.ADD plain a"), "1");
    assert_eq!(client.say("BF.ADD plain-too a"), "1");
    assert_eq!(client.digest("plain"), client.digest("plain-too"));
}
