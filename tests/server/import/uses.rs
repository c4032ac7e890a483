//! Uses of an imported filter: it grows or is full, refuses items that it cannot encode, and estimates its count.

use redis::Value;

use super::{STRING, description_of, import, many, redisson, state};
use crate::dump::travel;
use crate::harness::{Client, Site, Test, show, tests};
use crate::journeys::strict;
use crate::vectors::system;

pub(crate) const TESTS: &[Test] = tests![
    a_full_import_grows_by_a_table,
    a_fixed_import_refuses_items_beyond_its_capacity,
    items_that_cannot_be_encoded_are_refused_one_by_one,
    info_shows_which_counts_are_estimates,
    refused_commands_are_not_replicated,
];

fn a_full_import_grows_by_a_table(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let system = system("guava-mitz64");
    client.ask(&[b"SET", b"string".as_slice(), &system.string(STRING)]);
    let line = format!(
        "BF.IMPORT k SOURCE string {} CAPACITY 1100 EXPANSION 3 ERROR 0.001",
        description_of(&system)
    );
    assert_eq!(client.say(&line), "+OK");
    assert_eq!(client.say("BF.INFO k CAPACITY"), "[1100]");
    let items: Vec<Vec<u8>> = (0..20_000).map(|item| format!("later-{item}").into_bytes()).collect();
    for chunk in items.chunks(1000) {
        many(&mut client, "BF.MADD", "k", chunk);
    }
    assert_eq!(show(&client.call(&["BF.INFO", "k", "FILTERS"])), "[2]");
    let number = |reply: String| reply.trim_matches(['[', ']']).parse::<u64>().unwrap();
    let of_table = number(client.say("BF.INFO k TABLE-ITEMS"));
    assert!((17_000..20_000).contains(&of_table), "{of_table}");
    assert_eq!(number(client.say("BF.INFO k CAPACITY")), 1100 + of_table);
    let check = |client: &mut Client| {
        for chunk in items.chunks(1000).chain([system.items("members").as_slice()]) {
            assert!(many(client, "BF.MEXISTS", "k", chunk).iter().all(|reply| *reply == Value::Int(1)));
        }
        let absent: Vec<Vec<u8>> = (0..10_000).map(|item| format!("absent-{item}").into_bytes()).collect();
        let wrong =
            many(client, "BF.MEXISTS", "k", &absent).iter().filter(|&reply| *reply == Value::Int(1)).count();
        // The client's layer alone has 3.9 % at its current fill; the table adds at most 0.1 %.
        assert!((200..600).contains(&wrong), "{wrong} of 10000");
    };
    check(&mut client);
    let error = "-ERR the filter has more items than its capacity, and a client's string can only hold the first of them";
    assert_eq!(client.say("BF.EXPORT k"), error);
    let before = state(&mut client, "k");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_eq!(state(&mut client, "k"), before);
    check(&mut client);
    travel(&mut client, "k", "copy");
    assert_eq!(state(&mut client, "copy"), before);
}

fn a_fixed_import_refuses_items_beyond_its_capacity(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.IMPORT k EMPTY SCHEME go-zero BITS 10000 CAPACITY 2 NONSCALING"), "+OK");
    assert_eq!(client.say("BF.INFO k EXPANSION"), "[nil]");
    let full = "-ERR non scaling filter is full";
    assert_eq!(client.say("BF.MADD k a b a c d"), format!("[1, 1, 0, {full}]"));
    assert_eq!(client.say("BF.ADD k c"), full);
    assert_eq!(client.say("BF.ADD k b"), "0");
}

fn items_that_cannot_be_encoded_are_refused_one_by_one(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let line = "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 1 ENCODING int64le CAPACITY 2 ERROR 0.5";
    assert_eq!(client.say(line), "+OK");
    let error = "-ERR the item is not a decimal integer of 64 bits, as encoding int64le requires";
    assert_eq!(client.say("BF.ADD k forty-two"), error);
    assert_eq!(client.say("BF.MADD k 1 x 2 007 3"), format!("[1, {error}, 1, {error}, 1]"));
    // The third item would be in a layer of everbloom's own, which could hold any item, but it is refused too.
    assert_eq!(client.say("BF.INFO k FILTERS"), "[2]");
    assert_eq!(client.say("BF.MADD k y 4"), format!("[{error}, 1]"));
    for item in 0..100 {
        assert_eq!(client.int(&format!("BF.EXISTS k word-{item}")), 0);
    }
    assert_eq!(client.say("BF.MEXISTS k 1 x 2 3 007"), "[1, 0, 1, 1, 0]");
    assert_eq!(client.int("BF.CARD k"), 4);
}

fn info_shows_which_counts_are_estimates(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let system = system("guava-mitz64");
    import(&mut client, &system);
    // -(7040 / 5) ln(1 - X / 7040); 1000 were added.
    let items = client.int("BF.CARD guava-mitz64");
    assert!((960..1040).contains(&items), "{items}");
    client.say("BF.ADD guava-mitz64 something-new");
    assert_eq!(client.int("BF.CARD guava-mitz64"), items + 1);
    assert_eq!(client.say("BF.INFO guava-mitz64 ESTIMATED"), format!("[{items}]"));
    assert_eq!(client.say("BF.INFO guava-mitz64 ITEMS"), format!("[{}]", items + 1));
    let debug = client.say("BF.DEBUG guava-mitz64");
    assert!(debug.contains(&format!("estimated:{items} ")), "{debug}");
    assert!(debug.contains("scheme:guava-mitz64 encoding:raw shift:0 order:msb "), "{debug}");
    client.say("BF.ADD native x");
    assert_eq!(client.say("BF.INFO native ESTIMATED"), "-Invalid information value");
}

fn refused_commands_are_not_replicated(site: &Site) {
    let primary = site.start();
    let replica = primary.replica(strict(site.launch()));
    let mut client = primary.client();
    redisson(&mut client, "{users}");
    let line = "BF.IMPORT {users}:bf SOURCE {users} SCHEME redisson ENCODING kryo5-string";
    assert_eq!(client.say(line), "+OK");
    assert_eq!(client.say("BF.IMPORT fixed EMPTY SCHEME go-zero BITS 1000 CAPACITY 2 NONSCALING"), "+OK");
    client.say("BF.MADD fixed a b c d");
    assert_eq!(client.say("BF.ADD fixed one-too-many"), "-ERR non scaling filter is full");
    assert!(client.say("BF.IMPORT fixed EMPTY SCHEME go-zero BITS 1000").starts_with('-'));
    client.say("BF.MADD {users}:bf fine \u{7}");
    client.ask(&[b"BF.MADD", b"{users}:bf".as_slice(), b"fine-too", b"\xff", b"after"]);
    assert_eq!(client.say("BF.EXPORT nothing"), "-ERR not found");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    for key in ["{users}:bf", "fixed"] {
        assert_eq!(state(&mut replica.client(), key), state(&mut client, key), "{key}");
    }
}
