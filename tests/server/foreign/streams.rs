//! Replicated commands of primaries that run another module.

use std::net::TcpListener;

use crate::harness::{Client, Launch, Raw, Server, Site, Test, packed, tests, wait_until};
use crate::journeys::{append_only, rewrite};

pub(crate) const TESTS: &[Test] = tests![
    commands_of_redisbloom_create_filters_of_the_configured_format,
    commands_of_valkey_bloom_create_its_filters,
    equal_seed_halves_are_refused_only_from_clients,
];

/// Returns a replica that exits on any error. Its primary is not a server: it sends an empty data set and then these
/// commands.
fn replica_of_stream(site: &Site, format: &str, commands: Vec<u8>) -> Server {
    let launch = site.launch().with("propagation-error-behavior panic");
    follow_stream(launch.with_option(format!("bf.format {format}")), commands)
}

/// Starts a replica of a primary that sends an empty data set and then these commands.
pub(crate) fn follow_stream(launch: Launch, commands: Vec<u8>) -> Server {
    let empty = {
        let server = launch.site().launch().without_module().start();
        assert_eq!(server.client().say("SAVE"), "+OK");
        std::fs::read(server.dir().join("dump.rdb")).unwrap()
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut synchronisation =
        format!("+FULLRESYNC {} 0\r\n${}\r\n", "1".repeat(40), empty.len()).into_bytes();
    synchronisation.extend([empty, commands].concat());
    std::thread::spawn(move || {
        let Ok((stream, _)) = listener.accept() else { return };
        serve(Raw::over(stream), &synchronisation);
    });
    launch.with(format!("replicaof 127.0.0.1 {port}")).start()
}

/// Replies to a replica until it closes the connection.
fn serve(mut replica: Raw, synchronisation: &[u8]) {
    while let Ok(command) = replica.receive() {
        let command = command.to_ascii_uppercase();
        let has = |word: &[u8]| command.windows(word.len()).any(|window| window == word);
        let reply = match () {
            () if has(b"\r\nPSYNC\r\n") => synchronisation,
            () if has(b"\r\nACK\r\n") => b"",
            () if has(b"PING") => b"+PONG\r\n",
            () => b"+OK\r\n",
        };
        if replica.send(reply).is_err() {
            return;
        }
    }
}

/// Returns commands of words without spaces as a primary sends them.
pub(crate) fn stream(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| packed(&line.split(' ').collect::<Vec<_>>())).collect()
}

fn in_step(client: &mut Client, keys: i64) {
    wait_until("the stream is carried out", || client.int("DBSIZE") == keys);
}

fn commands_of_redisbloom_create_filters_of_the_configured_format(site: &Site) {
    let lines = [
        "SELECT 0",
        "BF.ADD a x",
        "BF.RESERVE b 0.05 1000",
        "BF.MADD b x y",
        "BF.INSERT c CAPACITY 7 ITEMS x",
    ];
    for (format, key_type, bytes) in
        [("redisbloom", "MBbloom--", "bytes:144 "), ("valkey-bloom", "bloomfltr", "bytes:120 ")]
    {
        let replica = replica_of_stream(site, format, stream(&lines));
        let mut client = replica.client();
        in_step(&mut client, 3);
        for (key, key_type) in [("a", key_type), ("b", "MBbloom--"), ("c", key_type)] {
            assert_eq!(client.say(&format!("TYPE {key}")), format!("+{key_type}"), "{key}");
            assert_eq!(client.say(&format!("BF.EXISTS {key} x")), "1", "{key}");
        }
        let debug = client.say("BF.DEBUG a");
        assert!(debug.contains(bytes), "{debug}");
        assert_eq!(client.say("BF.INFO b CAPACITY"), "[1000]");
        assert_eq!(client.say("BF.INFO c CAPACITY"), "[7]");
    }
}

fn commands_of_valkey_bloom_create_its_filters(site: &Site) {
    let mut commands = stream(&["SELECT 0"]);
    let seed: Vec<u8> = (0..32).collect();
    let insert = |key: &str, growth: &[&str], items: &[&str]| {
        let head = ["BF.INSERT", key, "CAPACITY", "10", "ERROR", "0.1", "TIGHTENING", "0.8", "SEED"];
        let mut words: Vec<Vec<u8>> = head.iter().map(|word| word.as_bytes().to_vec()).collect();
        words.push(seed.clone());
        words.extend(growth.iter().chain(items).map(|word| word.as_bytes().to_vec()));
        packed(&words)
    };
    commands.extend(insert("a", &["EXPANSION", "2"], &["ITEMS", "a"]));
    commands.extend(insert("b", &["NONSCALING"], &[]));
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        let replica = replica_of_stream(site, format, commands.clone());
        let mut client = replica.client();
        in_step(&mut client, 2);
        assert_eq!(client.say("TYPE a"), "+bloomfltr");
        assert_eq!(client.say("TYPE b"), "+bloomfltr");
        // These are the bits that valkey-bloom 1.0.1 sets for this command.
        let payload = client.bytes(&["DUMP", "a"]);
        let bits = [0x00, 0x21, 0x00, 0x20, 0x00, 0x00];
        assert!(payload.windows(6).any(|window| window == bits), "{payload:x?}");
    }
}

fn equal_seed_halves_are_refused_only_from_clients(site: &Site) {
    const REFUSED: &str = "-ERR invalid seed: its two halves of 16 bytes must differ";
    let seed = [b's'; 32];
    let insert = |key: &'static str, seed: &[u8]| -> Vec<Vec<u8>> {
        let words = [b"BF.INSERT", key.as_bytes(), b"CAPACITY", b"1000", b"SEED", seed, b"ITEMS", b"a"];
        words.iter().map(|word| word.to_vec()).collect()
    };
    let mut commands = stream(&["SELECT 0"]);
    commands.extend(packed(&insert("sent", &seed)));
    let replica = replica_of_stream(site, "everbloom", commands);
    let mut client = replica.client();
    in_step(&mut client, 1);
    assert_eq!(client.say("TYPE sent"), "+bloomfltr");
    let payload = client.bytes(&["DUMP", "sent"]);
    drop(replica);
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    assert_eq!(client.ask(&insert("asked", &seed)), REFUSED);
    assert_eq!(client.int("EXISTS asked"), 0);
    let mut other = seed;
    other[31] ^= 1;
    assert_eq!(client.ask(&insert("asked", &other)), "[1]");
    let reply = client.ask(&insert("asked", &seed));
    assert!(reply.starts_with("-ERR SEED differs from the existing filter"), "{reply}");
    // Equal halves are accepted from a payload, a snapshot and a rewritten append-only file.
    assert_eq!(client.ask(&[b"RESTORE", b"restored".as_slice(), b"0", &payload]), "+OK");
    for item in 0..1000 {
        client.say(&format!("BF.ADD restored {item}"));
    }
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    rewrite(&mut client);
    let digest = client.digest("restored");
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.digest("restored"), digest);
    let number = |reply: String| reply.trim_matches(['[', ']', '"']).parse::<f64>().unwrap();
    assert_eq!(client.say("BF.INFO restored LAYERS"), "[1]");
    assert!(number(client.say("BF.INFO restored ERROR-RATE-NOW")) > 0.02);
    assert!(number(client.say("BF.INFO asked ERROR-RATE-NOW")) < 0.01);
}
