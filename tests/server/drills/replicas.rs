//! A primary and two replicas that exit on any error run every command that writes, while links are cut, replicas are
//! configured differently and primaries change. In the end all have the same filters.

use super::input::Input;
use super::truth::Truth;
use super::words::{KEYS, creation, word};
use super::{Drill, choices};
use crate::harness::{Client, Server, Site, Test, show, tests, wait_until};
use crate::support::Random;

pub(super) const TESTS: &[Test] = tests![replicas_agree_after_random_faults];

fn replicas_agree_after_random_faults(site: &Site) {
    let mut drill = Drill::new("three servers, cut and exchanged", site, 5);
    let launch = || {
        let launch = site.launch().with("propagation-error-behavior panic").with("repl-backlog-size 20kb");
        launch
            .with_option("bf.max-filter-bytes 4mb")
            .with("repl-diskless-load swapdb")
            .with("save 3600 1000000")
    };
    let servers = [launch().start(), launch().start(), launch().start()];
    let mut primary = 0;
    follow(&servers, primary);
    let mut truth = Truth::new("truth:");
    truth.make(&mut servers[0].client());
    let mut payloads = Vec::new();
    while drill.goes_on() {
        let mut client = servers[primary].client();
        for step in 0..150 {
            if step % 40 == 20 {
                let victim = &servers[(primary + 1 + drill.random.below(2)) % 3];
                event(&servers[primary], victim, &mut drill.random);
            }
            let bytes = choices(&mut drill.random, 300);
            write(&mut client, &mut Input::new(&bytes), &mut payloads);
            assert!(truth.step(&mut client, &mut drill.random));
            drill.count("commands", 2);
        }
        settle(&servers, primary);
        let digests: Vec<String> = servers.iter().map(|server| server.client().say("DEBUG DIGEST")).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "round {}: {digests:?}", drill.rounds);
        assert_eq!(truth.missing(&mut servers[drill.random.below(3)].client()), [""; 0]);
        if drill.random.below(2) == 0 {
            primary = (primary + 1 + drill.random.below(2)) % 3;
            follow(&servers, primary);
            drill.count("failovers", 1);
        }
    }
    let mut client = servers[primary].client();
    drill.count("full", client.info_number("sync_full"));
    drill.count("partial resynchronisations of the last primary", client.info_number("sync_partial_ok"));
}

/// Makes one of them the primary of the others, which must be in sync.
fn follow(servers: &[Server; 3], primary: usize) {
    assert_eq!(servers[primary].client().say("REPLICAOF NO ONE"), "+OK");
    for (number, server) in servers.iter().enumerate() {
        if number != primary {
            let line = format!("REPLICAOF 127.0.0.1 {}", servers[primary].port());
            assert_eq!(server.client().say(&line), "+OK");
        }
    }
    settle(servers, primary);
}

/// Waits until all have the data of the primary.
fn settle(servers: &[Server; 3], primary: usize) {
    for (number, server) in servers.iter().enumerate() {
        if number != primary {
            server.wait_for_primary();
        }
    }
    let mut client = servers[primary].client();
    client.say("INCR settled");
    wait_until("both replicas follow", || client.int("WAIT 2 1000") == 2);
}

/// Runs a random event on a replica, or on its link to the primary.
fn event(primary: &Server, replica: &Server, random: &mut Random) {
    let mut client = replica.client();
    match random.below(5) {
        0 => drop(primary.client().say("CLIENT KILL TYPE replica")),
        1 => drop(client.say("CLIENT KILL TYPE master")),
        2 => {
            let settings = [
                "bf.error-rate 0.3",
                "bf.initial-size 3",
                "bf.expansion-factor 0",
                "bf.format redisbloom",
                "bf.keyed yes",
                "bf.on-full saturate",
                "bf.max-filter-bytes 1kb",
            ];
            assert_eq!(client.say(&format!("CONFIG SET {}", random.choose(&settings))), "+OK");
        }
        3 => {
            let way = random.choose(&["yes", "no"]);
            drop(primary.client().say(&format!("CONFIG SET repl-diskless-sync {way}")));
            // Possibly more than the backlog can keep is written meanwhile.
            drop(client.say("CLIENT KILL TYPE master"));
            let big = "x".repeat(30_000);
            primary.client().say(&format!("SET filler {big}"));
        }
        _ => drop(client.say("BGSAVE")),
    }
}

/// Runs a random command that may change something.
fn write(client: &mut Client, input: &mut Input<'_>, payloads: &mut Vec<Vec<u8>>) {
    let key = *input.choose(&KEYS[..5]);
    let mut words: Vec<Vec<u8>> = Vec::new();
    match input.byte() % 16 {
        0..=3 => {
            words.extend([b"BF.INSERT".to_vec(), key.to_vec()]);
            words.extend(creation(input, true));
            words.push(b"ITEMS".to_vec());
            words.extend(input.items(30));
        }
        4..=7 => {
            words.extend([b"BF.MADD".to_vec(), key.to_vec()]);
            words.extend(input.items(40));
        }
        8 => {
            words.extend([b"BF.DEL".to_vec(), key.to_vec()]);
            words.extend(input.items(10));
        }
        9 => {
            words.extend([b"BF.MERGE".to_vec(), key.to_vec(), input.choose(&KEYS[..5]).to_vec()]);
            words.extend(input.flag().then_some(b"FORCE".to_vec()));
        }
        10 => words.extend([b"BF.CLEAR".to_vec(), key.to_vec()]),
        11 => words.extend([b"DEL".to_vec(), key.to_vec()]),
        12 => {
            if let redis::Value::BulkString(payload) = client.call(&[b"DUMP", key]) {
                payloads.truncate(20);
                payloads.insert(0, payload);
            }
            if let Some(payload) = payloads.get(input.below(payloads.len().max(1))) {
                words.extend([
                    b"RESTORE".to_vec(),
                    key.to_vec(),
                    b"0".to_vec(),
                    payload.clone(),
                    b"REPLACE".to_vec(),
                ]);
            } else {
                return;
            }
        }
        13 => return load(client, key),
        14 => {
            let line = "EMPTY SCHEME murmur3-salted BITS 3000 HASHES 4 CAPACITY 60 REPLACE";
            words.extend([b"BF.IMPORT".to_vec(), key.to_vec()]);
            words.extend(line.split(' ').map(|word| word.as_bytes().to_vec()));
        }
        _ => {
            words.extend([b"BF.RESERVE".to_vec(), key.to_vec()]);
            words.extend(creation(input, false));
            words.extend(input.flag().then(|| word(input)));
        }
    }
    client.call(&words);
}

/// Copies a filter by its chunks.
pub(super) fn load(client: &mut Client, key: &[u8]) {
    client.say("DEL copied");
    let mut iterator = 0;
    loop {
        let number = iterator.to_string();
        let redis::Value::Array(chunk) = client.call(&[b"BF.SCANDUMP", key, number.as_bytes()]) else {
            return;
        };
        let [redis::Value::Int(next), redis::Value::BulkString(data)] = chunk.as_slice() else {
            panic!("{chunk:?}")
        };
        if *next == 0 {
            return;
        }
        iterator = *next;
        let reply = client.ask(&[b"BF.LOADCHUNK", b"copied".as_slice(), next.to_string().as_bytes(), data]);
        if reply != "+OK" {
            // Only a header above the limit is refused.
            assert!(reply.starts_with("-ERR filter would take"), "{reply} {}", show(&chunk[0]));
            return;
        }
    }
}
