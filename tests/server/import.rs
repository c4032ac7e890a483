//! BF.IMPORT and BF.EXPORT: filters that clients keep in strings, taken over, used, moved about and given back.

use everbloom::bloom::scheme::Scheme;
use redis::Value;

use crate::dump::travel;
use crate::harness::{Client, Launch, Server, Site, Test, show, tests};
use crate::vectors::{System, file, hex, numbers, system, systems};

pub(crate) const TESTS: &[Test] = tests![
    every_recorded_answer_is_given_however_the_filter_travels,
    adding_through_the_module_makes_the_clients_string,
    setting_the_recorded_bits_makes_the_same_string,
    the_append_only_file_keeps_imports,
    a_replica_with_other_defaults_imports_the_same,
    a_full_import_grows_by_layers_of_our_own,
    a_fixed_import_refuses_what_it_has_no_room_for,
    items_that_cannot_be_encoded_are_refused_one_by_one,
    counts_say_that_they_are_estimates,
    the_bytes_of_guava_come_and_go,
    hostile_bytes_of_guava_are_refused,
    settings_of_redisson_are_read,
    whatever_is_wrong_is_said_and_changes_nothing,
    nodes_of_a_cluster_find_both_keys,
    access_to_the_source_is_checked,
];

const STRING: &str = "/bitmap/redis_string_b64";

/// The words that describe a system's bitmap.
fn description(system: &System, size_bits: u64, probes: u64) -> String {
    format!(
        "SCHEME {} BITS {size_bits} HASHES {probes} SHIFT {} ENCODING {}",
        system.scheme.name(),
        system.shift,
        system.encoding.name()
    )
}

fn description_of(system: &System) -> String {
    let bitmap = &system.json["bitmap"];
    description(system, bitmap["m"].as_u64().unwrap(), bitmap["k"].as_u64().unwrap())
}

/// Puts the recorded string under `{x}:string` and imports it under `{x}`.
fn import(client: &mut Client, system: &System) {
    let name = system.name;
    client.ask(&[b"SET", format!("{name}:string").as_bytes(), system.string(STRING).as_slice()]);
    let line = format!("BF.IMPORT {name} SOURCE {name}:string {}", description_of(system));
    assert_eq!(client.say(&line), "+OK", "{line}");
}

/// Replies to a command over many items.
fn many(client: &mut Client, command: &str, key: &str, items: &[Vec<u8>]) -> Vec<Value> {
    let mut args = vec![command.as_bytes(), key.as_bytes()];
    args.extend(items.iter().map(Vec::as_slice));
    client.array(&args)
}

/// Whether the filter gives every answer that the client's own code gave.
fn assert_answers(client: &mut Client, system: &System, key: &str) {
    let digit = |answer: &Value| if *answer == Value::Int(1) { '1' } else { '0' };
    let answers: String =
        many(client, "BF.MEXISTS", key, &system.items("queries")).iter().map(digit).collect();
    assert_eq!(answers, system.json["bitmap"]["expected"].as_str().unwrap(), "{key}");
    let members = many(client, "BF.MEXISTS", key, &system.items("members"));
    assert!(members.len() == 1000 && members.iter().all(|answer| *answer == Value::Int(1)), "{key}");
    for item in system.items("queries").iter().take(20) {
        let one = client.call(&[b"BF.EXISTS", key.as_bytes(), item]);
        assert_eq!(vec![one], many(client, "BF.MEXISTS", key, std::slice::from_ref(item)));
    }
}

fn state(client: &mut Client, key: &str) -> [String; 2] {
    [client.digest(key), client.say(&format!("BF.DEBUG {key}"))]
}

fn every_recorded_answer_is_given_however_the_filter_travels(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let systems = systems();
    let mut states = Vec::new();
    for system in &systems {
        let name = system.name;
        import(&mut client, system);
        assert_eq!(client.bytes(&["GET", &format!("{name}:string")]), system.string(STRING));
        assert_answers(&mut client, system, name);
        assert_eq!(client.bytes(&["BF.EXPORT", name]), system.string(STRING));
        let before = state(&mut client, name);
        assert_eq!(client.int(&format!("COPY {name} {name}:copy")), 1);
        travel(&mut client, name, &format!("{name}:travelled"));
        let payload = client.bytes(&["DUMP", name]);
        let restored = format!("{name}:restored");
        client.ask(&[b"RESTORE", restored.as_bytes(), b"0", &payload]);
        for copy in ["copy", "travelled", "restored"] {
            let key = format!("{name}:{copy}");
            assert_eq!(state(&mut client, &key), before, "{key}");
            assert_answers(&mut client, system, &key);
            assert_eq!(client.bytes(&["BF.EXPORT", &key]), system.string(STRING));
        }
        states.push(before);
    }
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    let assert_all = |client: &mut Client| {
        for (system, state_before) in systems.iter().zip(&states) {
            assert_eq!(state(client, system.name), *state_before);
            assert_answers(client, system, system.name);
        }
    };
    assert_all(&mut client);
    assert_eq!(client.say("SAVE"), "+OK");
    let server = server.restart();
    assert_all(&mut server.client());
}

fn adding_through_the_module_makes_the_clients_string(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for system in systems() {
        let name = system.name;
        assert_eq!(client.say(&format!("BF.IMPORT {name} EMPTY {}", description_of(&system))), "+OK");
        let added = many(&mut client, "BF.MADD", name, &system.items("members"));
        assert!(added.len() == 1000 && added.iter().all(|answer| matches!(answer, Value::Int(0 | 1))));
        if client.say(&format!("BF.INFO {name} FILTERS")) != "[1]" {
            // Its half-full capacity is below 1000 items: the string of the rest is in another layer.
            let line = format!("BF.IMPORT {name} EMPTY {} CAPACITY 1000 REPLACE", description_of(&system));
            assert_eq!(client.say(&line), "+OK");
            many(&mut client, "BF.MADD", name, &system.items("members"));
        }
        assert_eq!(client.bytes(&["BF.EXPORT", name]), system.string(STRING), "{name}");
        assert_answers(&mut client, &system, name);
    }
}

fn setting_the_recorded_bits_makes_the_same_string(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let special = &file("_sets")["special"];
    for system in systems() {
        for set in system.json["param_sets"].as_array().unwrap() {
            let size_bits = set["m"].as_u64().unwrap();
            if size_bits > 1 << 30 {
                continue; // SETBIT itself would write hundreds of megabytes.
            }
            client.say("DEL string k");
            let words = description(&system, size_bits, set["k"].as_u64().unwrap());
            assert_eq!(client.say(&format!("BF.IMPORT k EMPTY {words} CAPACITY 1000000")), "+OK");
            for (name, offsets) in set["offsets"].as_object().unwrap() {
                for offset in numbers(offsets) {
                    client.int(&format!("SETBIT string {offset} 1"));
                }
                let item = hex(&special[name]);
                client.call(&[b"BF.ADD", b"k".as_slice(), &item]);
                assert_eq!(client.call(&[b"BF.EXISTS", b"k".as_slice(), &item]), Value::Int(1));
            }
            let (exported, string) = (client.bytes(&["BF.EXPORT", "k"]), client.bytes(&["GET", "string"]));
            assert!(exported == string, "{} {words}", system.name);
            // And back in.
            assert_eq!(client.say(&format!("BF.IMPORT k SOURCE string {words} REPLACE")), "+OK");
            assert!(client.bytes(&["BF.EXPORT", "k"]) == string, "{} {words}", system.name);
        }
    }
}

/// One import of every kind, with items added to each.
fn fill(client: &mut Client) -> Vec<String> {
    let mut keys = Vec::new();
    for system in systems() {
        import(client, &system);
        many(client, "BF.MADD", system.name, &system.items("queries"));
        keys.push(system.name.to_owned());
    }
    assert_eq!(client.say("BF.IMPORT grown EMPTY SCHEME go-zero BITS 1000 CAPACITY 20 EXPANSION 3"), "+OK");
    assert_eq!(client.say("BF.IMPORT fixed EMPTY SCHEME go-zero BITS 1000 NONSCALING"), "+OK");
    for item in 0..500 {
        client.say(&format!("BF.ADD grown item-{item}"));
        client.say(&format!("BF.ADD fixed item-{item}"));
    }
    let blob = system("guava-mitz64").string("/guava_writeTo_b64");
    assert_eq!(client.ask(&[b"BF.IMPORT", b"guava".as_slice(), b"GUAVA", &blob]), "+OK");
    client.say("BF.ADD guava something-new");
    keys.extend(["grown", "fixed", "guava"].map(str::to_owned));
    keys
}

fn the_append_only_file_keeps_imports(site: &Site) {
    for preamble in ["no", "yes"] {
        let configured = |launch: Launch| {
            launch
                .with("appendonly yes")
                .with("appendfsync always")
                .with(format!("aof-use-rdb-preamble {preamble}"))
        };
        let server = configured(site.launch()).start();
        let mut client = server.client();
        let keys = fill(&mut client);
        let before: Vec<_> = keys.iter().map(|key| state(&mut client, key)).collect();
        // As the commands that were sent, with other defaults; then rewritten.
        let server = server.restart_as(|launch| launch.with_option("bf.error-rate 0.2"));
        let mut client = server.client();
        let after: Vec<_> = keys.iter().map(|key| state(&mut client, key)).collect();
        assert_eq!(after, before, "as sent");
        client.say("BGREWRITEAOF");
        crate::harness::wait_until("the rewrite", || {
            client.info("aof_rewrite_in_progress").as_deref() == Some("0")
                && client.info("aof_rewrite_scheduled").as_deref() == Some("0")
        });
        assert_eq!(client.info("aof_last_bgrewrite_status").as_deref(), Some("ok"));
        let server = server.restart();
        let mut client = server.client();
        let after: Vec<_> = keys.iter().map(|key| state(&mut client, key)).collect();
        assert_eq!(after, before, "rewritten, preamble {preamble}");
    }
}

fn a_replica_with_other_defaults_imports_the_same(site: &Site) {
    let primary = site.start();
    let strict = site
        .launch()
        .with("propagation-error-behavior panic")
        .with_option("bf.error-rate 0.2")
        .with_option("bf.expansion-factor 0")
        .with_option("bf.max-filter-bytes 1024");
    let replica = primary.replica(strict);
    let mut client = primary.client();
    let keys = fill(&mut client);
    redisson(&mut client, "{users}");
    assert_eq!(
        client.say("BF.IMPORT {users}:bf SOURCE {users} SCHEME redisson ENCODING kryo5-string"),
        "+OK"
    );
    // Refusals are no business of the replica's.
    client.say("BF.IMPORT grown EMPTY SCHEME go-zero BITS 1000");
    client.say("BF.ADD fixed one-too-many");
    client.say("BF.MADD redisson-kryo5-codec fine \u{7}");
    client.ask(&[b"BF.MADD", b"redisson-kryo5-codec".as_slice(), b"fine-too", b"\xff", b"after"]);
    assert_eq!(client.say("BF.EXPORT nothing"), "-ERR not found");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let mut reader = replica.client();
    for key in keys.iter().map(String::as_str).chain(["{users}:bf"]) {
        assert_eq!(state(&mut reader, key), state(&mut client, key), "{key}");
    }
    // One that joins later gets the same by a snapshot.
    let later = primary.replica(site.launch());
    let mut reader = later.client();
    for key in &keys {
        assert_eq!(state(&mut reader, key), state(&mut client, key), "{key}");
    }
}

fn a_full_import_grows_by_layers_of_our_own(site: &Site) {
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
    let layers = show(&client.call(&["BF.INFO", "k", "FILTERS"]));
    assert_eq!((layers.as_str(), client.say("BF.INFO k CAPACITY").as_str()), ("[4]", "[44000]"));
    let check = |client: &mut Client| {
        for chunk in items.chunks(1000).chain([system.items("members").as_slice()]) {
            assert!(many(client, "BF.MEXISTS", "k", chunk).iter().all(|answer| *answer == Value::Int(1)));
        }
        let absent: Vec<Vec<u8>> = (0..10_000).map(|item| format!("absent-{item}").into_bytes()).collect();
        let wrong = many(client, "BF.MEXISTS", "k", &absent)
            .iter()
            .filter(|&answer| *answer == Value::Int(1))
            .count();
        // The client's layer alone has 3.9 % at its fill of now; ours add no more than 0.1 %.
        assert!((200..600).contains(&wrong), "{wrong} of 10000");
    };
    check(&mut client);
    let error = "-ERR the filter has grown to 4 layers, which no client's string can hold";
    assert_eq!(client.say("BF.EXPORT k"), error);
    let before = state(&mut client, "k");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_eq!(state(&mut client, "k"), before);
    check(&mut client);
    travel(&mut client, "k", "copy");
    assert_eq!(state(&mut client, "copy"), before);
}

fn a_fixed_import_refuses_what_it_has_no_room_for(site: &Site) {
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
    let error = "-ERR the item is not a decimal integer of 64 bits, which encoding int64le needs";
    assert_eq!(client.say("BF.ADD k forty-two"), error);
    assert_eq!(client.say("BF.MADD k 1 x 2 007 3"), format!("[1, {error}, 1, {error}, 1]"));
    // The third one is in a layer of our own, which could hold anything, and still does not.
    assert_eq!(client.say("BF.INFO k FILTERS"), "[2]");
    assert_eq!(client.say("BF.MADD k y 4"), format!("[{error}, 1]"));
    for item in 0..100 {
        assert_eq!(client.int(&format!("BF.EXISTS k word-{item}")), 0);
    }
    assert_eq!(client.say("BF.MEXISTS k 1 x 2 3 007"), "[1, 0, 1, 1, 0]");
    assert_eq!(client.int("BF.CARD k"), 4);
}

fn counts_say_that_they_are_estimates(site: &Site) {
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

fn the_bytes_of_guava_come_and_go(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for name in ["guava-mitz32", "guava-mitz64"] {
        let system = system(name);
        let blob = system.string("/guava_writeTo_b64");
        client.say("FLUSHALL");
        assert_eq!(client.ask(&[b"BF.IMPORT", b"sent".as_slice(), b"GUAVA", &blob]), "+OK");
        client.ask(&[b"SET", b"string".as_slice(), &blob]);
        assert_eq!(client.say("BF.IMPORT read SOURCE string SCHEME guava"), "+OK");
        assert_eq!(state(&mut client, "read"), state(&mut client, "sent"));
        for key in ["sent", "read"] {
            assert_answers(&mut client, &system, key);
            assert_eq!(client.bytes(&["BF.EXPORT", key]), blob);
        }
        // Made anew from its items.
        let mut cleared = blob.clone();
        cleared[6..].fill(0);
        assert_eq!(
            client.ask(&[
                b"BF.IMPORT",
                b"sent".as_slice(),
                b"GUAVA",
                &cleared,
                b"CAPACITY",
                b"1000",
                b"REPLACE"
            ]),
            "+OK"
        );
        many(&mut client, "BF.MADD", "sent", &system.items("members"));
        assert_eq!(client.bytes(&["BF.EXPORT", "sent"]), blob, "{name}");
    }
}

fn hostile_bytes_of_guava_are_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let blob = system("guava-mitz64").string("/guava_writeTo_b64");
    let with = |at: usize, bytes: &[u8]| {
        let mut altered = blob.clone();
        altered[at..at + bytes.len()].copy_from_slice(bytes);
        altered
    };
    let mut longer = blob.clone();
    longer.push(0);
    let mut cases = vec![longer, with(0, &[2]), with(0, &[255]), with(1, &[0])];
    cases.extend(
        [[0; 4], [255; 4], [0x7f, 255, 255, 255], [0x80, 0, 0, 0], [0, 0, 0, 1]].map(|longs| with(2, &longs)),
    );
    cases.extend((0..blob.len()).step_by(97).map(|length| blob[..length].to_vec()));
    for case in cases {
        let reply = client.ask(&[b"BF.IMPORT", b"k".as_slice(), b"GUAVA", &case]);
        assert!(reply.starts_with("-ERR ") && reply.contains("Guava"), "{reply}");
        client.ask(&[b"SET", b"string".as_slice(), &case]);
        assert_eq!(client.say("BF.IMPORT k SOURCE string SCHEME guava"), reply);
        assert_eq!(client.int("EXISTS k"), 0);
    }
}

/// A Redisson filter as Redisson leaves it.
fn redisson(client: &mut Client, name: &str) {
    let system = system("redisson-kryo5-codec");
    client.ask(&[b"SET", name.as_bytes(), system.string(STRING).as_slice()]);
    let config = if name.contains('{') { format!("{name}:config") } else { format!("{{{name}}}:config") };
    let bitmap = &system.json["bitmap"];
    let (size, probes) = (&bitmap["m"], &bitmap["k"]);
    client.say(&format!(
        "HSET {config} size {size} hashIterations {probes} expectedInsertions 1000 falseProbability 0.03"
    ));
}

fn settings_of_redisson_are_read(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for name in ["users", "{app}users"] {
        redisson(&mut client, name);
        let line = format!("BF.IMPORT k SOURCE {name} SCHEME redisson ENCODING kryo5-string REPLACE");
        assert_eq!(client.say(&line), "+OK");
        assert_answers(&mut client, &system("redisson-kryo5-codec"), "k");
        assert_eq!(client.say("BF.INFO k CAPACITY"), "[1000]");
    }
    client.say("HDEL {users}:config hashIterations");
    let error = "-ERR no field hashIterations of Redisson's settings can be read at '{users}:config': give BITS and HASHES";
    assert_eq!(client.say("BF.IMPORT n SOURCE users SCHEME redisson"), error);
    client.say("SET {users}:config text");
    assert_eq!(
        client.say("BF.IMPORT n SOURCE users SCHEME redisson BITS 7001"),
        error.replace("hashIterations", "size")
    );
    assert_eq!(client.say("BF.IMPORT n SOURCE users SCHEME redisson BITS 7001 HASHES 5"), "+OK");
    assert_eq!(
        client.say("BF.IMPORT n2 EMPTY SCHEME redisson"),
        "-ERR BITS is missing, and nothing else tells it"
    );
}

fn whatever_is_wrong_is_said_and_changes_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.ask(&[b"SETRANGE", b"string".as_slice(), b"100", b"\x01"]);
    client.say("RPUSH list a");
    client.say("BF.ADD native a");
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let busy = "-BUSYKEY Target key name already exists.";
    for (line, reply) in [
        (
            "k SOURCE string SCHEME go-zero BITS 800",
            "-ERR the string has bits set at byte 100, beyond a filter of 800 bits",
        ),
        (
            "k SOURCE nothing SCHEME go-zero BITS 800",
            "-ERR there is no string at the source key; EMPTY starts without one",
        ),
        ("k SOURCE k SCHEME go-zero BITS 800", "-ERR source and destination are the same key"),
        ("k SOURCE list SCHEME go-zero BITS 900", wrong_type),
        ("k SOURCE native SCHEME go-zero BITS 900", wrong_type),
        ("list SOURCE string SCHEME go-zero BITS 900 REPLACE", wrong_type),
        ("native SOURCE string SCHEME go-zero BITS 900", busy),
        ("native EMPTY SCHEME go-zero BITS 900", busy),
        ("k EMPTY SCHEME go-zero BITS 900 HASHES 5", "-ERR the scheme has 14 hashes, got 5"),
        (
            "k EMPTY SCHEME guava-mitz64 BITS 900 HASHES 5 SHIFT 17",
            "-ERR the scheme takes a shift of 0 to 16, got 17",
        ),
        (
            "k EMPTY SCHEME php-bkdr-js-sdbm BITS 900",
            "-ERR the scheme takes a multiple of 8192 bits, got 900",
        ),
    ] {
        assert_eq!(client.say(&format!("BF.IMPORT {line}")), reply, "{line}");
        assert_eq!(client.int("DBSIZE"), 3, "{line}");
    }
    let reply = client.say("BF.IMPORT k EMPTY SCHEME go-zero BITS 8796093022208");
    assert!(reply.starts_with("-ERR filter would take 1099511627"), "{reply}");
    assert_eq!(client.say("BF.EXPORT native"), "-ERR the filter was not imported");
    assert_eq!(client.say("BF.EXPORT list"), wrong_type);
    // A number is a string too: the server keeps it as an integer until somebody looks.
    client.say("SET number 4");
    assert_eq!(client.say("BF.IMPORT n SOURCE number SCHEME murmur3-salted BITS 6 HASHES 1"), "+OK");
    assert_eq!(client.say("BF.EXPORT n"), "\"4\"");
    assert_eq!(client.say("GET number"), "\"4\"");
    // REPLACE puts the new filter in place of the old one.
    assert_eq!(client.say("BF.IMPORT native SOURCE string SCHEME go-zero BITS 900 REPLACE"), "+OK");
    assert_eq!(client.bytes(&["BF.EXPORT", "native"]), client.bytes(&["GET", "string"]));
}

fn cluster_node(site: &Site) -> Server {
    let server = site.launch().in_cluster().start();
    let mut client = server.client();
    assert_eq!(client.say("CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
    crate::harness::wait_until("cluster up", || {
        String::from_utf8(client.bytes(&["CLUSTER", "INFO"])).unwrap().contains("cluster_state:ok")
    });
    server
}

fn nodes_of_a_cluster_find_both_keys(site: &Site) {
    let server = cluster_node(site);
    let mut client = server.client();
    client.say("SETBIT {a}s 7 1");
    redisson(&mut client, "{b}users");
    assert_eq!(client.say("BF.IMPORT {a} SOURCE {a}s SCHEME go-zero BITS 900"), "+OK");
    assert_eq!(client.say("BF.IMPORT {b}:bf SOURCE {b}users SCHEME redisson"), "+OK");
    let crossed = client.say("BF.IMPORT {c} SOURCE {a}s SCHEME go-zero BITS 900");
    assert!(crossed.starts_with("-CROSSSLOT"), "{crossed}");
    let crossed = client.say("BF.IMPORT {c} source {a}s SCHEME go-zero BITS 900");
    assert!(crossed.starts_with("-CROSSSLOT"), "{crossed}");
    assert_eq!(client.say("COMMAND GETKEYS BF.IMPORT k SOURCE s SCHEME go-zero"), "[\"k\", \"s\"]");
    assert_eq!(client.say("COMMAND GETKEYS BF.IMPORT k GUAVA s REPLACE"), "[\"k\"]");
    assert_eq!(client.say("COMMAND GETKEYS BF.IMPORT k EMPTY SCHEME go-zero"), "[\"k\"]");
    assert_eq!(client.say("COMMAND GETKEYS BF.EXPORT k"), "[\"k\"]");
    // A node that does not serve the slot says who does, whichever the origin.
    let slot = client.int("CLUSTER KEYSLOT {d}");
    assert_eq!(client.say(&format!("CLUSTER DELSLOTS {slot}")), "+OK");
    client.say("CONFIG SET cluster-require-full-coverage no");
    for line in
        ["{d} EMPTY SCHEME go-zero BITS 900", "{d} GUAVA x", "{d} SOURCE {d}s SCHEME go-zero BITS 900"]
    {
        let reply = client.say(&format!("BF.IMPORT {line}"));
        assert!(reply.starts_with("-CLUSTERDOWN"), "{line}: {reply}");
    }
}

fn access_to_the_source_is_checked(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("SETBIT secret 7 1");
    client.say("SETBIT mine:s 7 1");
    redisson(&mut client, "secret:users");
    redisson(&mut client, "half:users");
    client.say("ACL SETUSER u on >p +@all ~mine:* %R~readable:* ~half:users");
    client.say("SETBIT readable:s 7 1");
    assert_eq!(client.say("AUTH u p"), "+OK");
    let denied = |reply: String| assert!(reply.starts_with("-NOPERM"), "{reply}");
    denied(client.say("BF.IMPORT mine:k SOURCE secret SCHEME go-zero BITS 900"));
    denied(client.say("BF.IMPORT secret2 SOURCE mine:s SCHEME go-zero BITS 900"));
    denied(client.say("BF.IMPORT readable:k SOURCE mine:s SCHEME go-zero BITS 900"));
    denied(client.say("BF.IMPORT readable:k EMPTY SCHEME go-zero BITS 900"));
    denied(client.say("BF.IMPORT secret2 GUAVA x"));
    denied(client.say("BF.EXPORT secret2"));
    denied(client.say("BF.IMPORT mine:k SOURCE secret:users SCHEME redisson"));
    // The settings lie at a key of their own, which this user may not read.
    let reply = client.say("BF.IMPORT mine:k SOURCE half:users SCHEME redisson");
    assert!(reply.contains("can be read at '{half:users}:config'"), "{reply}");
    assert_eq!(client.say("BF.IMPORT mine:k SOURCE mine:s SCHEME go-zero BITS 900"), "+OK");
    assert_eq!(client.say("BF.IMPORT mine:r SOURCE readable:s SCHEME go-zero BITS 900"), "+OK");
    assert_eq!(client.say("BF.IMPORT mine:e EMPTY SCHEME go-zero BITS 900"), "+OK");
}

const _: () = assert!(Scheme::ALL.len() == 9, "a new scheme wants recordings and a place in these tests");
