//! The recordings of the clients: every result and every string is the client's, bit for bit.

use everbloom::bloom::hash::scheme::Scheme;
use redis::Value;

use super::{STRING, assert_replies, description, description_of, import, many, state};
use crate::dump::travel;
use crate::harness::{Client, Site, Test, tests};
use crate::vectors::{file, hex, numbers, systems};

pub(crate) const TESTS: &[Test] = tests![
    every_recorded_result_survives_every_copy,
    adding_through_the_module_makes_the_clients_string,
    setting_the_recorded_bits_makes_the_same_string,
];

fn every_recorded_result_survives_every_copy(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let systems = systems();
    let mut states = Vec::new();
    for system in &systems {
        let name = system.name;
        import(&mut client, system);
        assert_eq!(client.bytes(&["GET", &format!("{name}:string")]), system.string(STRING));
        assert_replies(&mut client, system, name);
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
            assert_replies(&mut client, system, &key);
            assert_eq!(client.bytes(&["BF.EXPORT", &key]), system.string(STRING));
        }
        states.push(before);
    }
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    let assert_all = |client: &mut Client| {
        for (system, state_before) in systems.iter().zip(&states) {
            assert_eq!(state(client, system.name), *state_before);
            assert_replies(client, system, system.name);
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
        assert!(added.len() == 1000 && added.iter().all(|reply| matches!(reply, Value::Int(0 | 1))));
        if client.say(&format!("BF.INFO {name} FILTERS")) != "[1]" {
            // The capacity of a half-full array is below 1000 items; with it, further items would be in another
            // layer.
            let line = format!("BF.IMPORT {name} EMPTY {} CAPACITY 1000 REPLACE", description_of(&system));
            assert_eq!(client.say(&line), "+OK");
            many(&mut client, "BF.MADD", name, &system.items("members"));
        }
        assert_eq!(client.bytes(&["BF.EXPORT", name]), system.string(STRING), "{name}");
        assert_replies(&mut client, &system, name);
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
            // Imported again.
            assert_eq!(client.say(&format!("BF.IMPORT k SOURCE string {words} REPLACE")), "+OK");
            assert!(client.bytes(&["BF.EXPORT", "k"]) == string, "{} {words}", system.name);
        }
    }
}

const _: () = assert!(Scheme::ALL.len() == 9, "a new scheme wants recordings and a place in these tests");
