//! The commands that replicas get, and commands of primaries that run another module.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use crate::harness::{Client, Launch, Server, Site, Test, tests, wait_until};
use crate::journeys::{append_only, append_only_base, rewrite};
use crate::replication::Watch;

pub(crate) const TESTS: &[Test] = tests![
    a_primary_of_redisblooms_format_replicates_its_commands,
    a_primary_of_valkey_blooms_format_replicates_its_commands,
    a_rewritten_file_of_redisblooms_format_has_clear_chunks,
    commands_of_redisbloom_create_filters_of_the_configured_format,
    commands_of_valkey_bloom_create_its_filters,
    equal_seed_halves_are_refused_only_from_clients,
];

/// Every way to create and change a filter.
const COMMANDS: &[&str] = &[
    "BF.RESERVE reserved 0.01 10",
    "BF.RESERVE fixed 0.01 3 NONSCALING",
    "BF.RESERVE four 0.02 10 EXPANSION 4",
    "BF.ADD added a",
    "BF.MADD many a b a c",
    "BF.INSERT inserted CAPACITY 20 ERROR 0.001 ITEMS a b",
    "BF.INSERT worded FORMAT everbloom FORMAT %FORMAT% ITEMS a",
    "BF.INSERT worded FORMAT %FORMAT% ITEMS b c",
    "BF.MADD fixed a b c d e",
    "BF.ADD added b",
    "BF.MADD reserved a b c d e f g h i j k l m n",
    "BF.INSERT inserted NOCREATE ITEMS a z",
    "BF.INSERT inserted CAPACITY 5 ERROR 0.5 EXPANSION 2 ITEMS y",
    "BF.ADD added b",
    "COPY many copied",
];
const KEYS: [&str; 8] = ["reserved", "fixed", "four", "added", "many", "inserted", "worded", "copied"];

/// Returns every command that reaches a replica of a primary with that format, split into words.
fn sent(site: &Site, format: &str) -> (Server, Server, Vec<Vec<String>>) {
    let primary = site.launch().with_option(format!("bf.format {format}")).start();
    let replica = primary.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = primary.client();
    let mut watch = Watch::of(&replica);
    for command in COMMANDS {
        client.say(&command.replace("%FORMAT%", format));
    }
    client.say("INCR end-marker");
    let lines = watch.until("\"INCR\" \"end-marker\"");
    let lines = lines.iter().map(|line| line.trim_matches('"').split("\" \"").map(str::to_owned).collect());
    let lines = lines.collect();
    let mut on_replica = replica.client();
    for key in KEYS {
        assert_eq!(on_replica.digest(key), client.digest(key), "{key}");
    }
    (primary, replica, lines)
}

fn a_primary_of_redisblooms_format_replicates_its_commands(site: &Site) {
    let (_primary, _replica, lines) = sent(site, "redisbloom");
    let mut made = 0;
    for line in &lines {
        match line[0].to_uppercase().as_str() {
            "BF.RESERVE" => {
                assert!(line[2].parse::<f64>().is_ok() && line[3].parse::<u64>().is_ok(), "{line:?}");
                let growth: Vec<&str> = line[4..].iter().map(String::as_str).collect();
                assert!(matches!(growth[..], ["NONSCALING"] | ["EXPANSION", _]), "{line:?}");
                made += 1;
            }
            "BF.ADD" => assert_eq!(line.len(), 3, "{line:?}"),
            "BF.MADD" => assert!(line.len() > 2, "{line:?}"),
            "BF.INSERT" => {
                let items = line.iter().position(|word| word == "ITEMS").unwrap();
                let known = ["NOCREATE", "CAPACITY", "ERROR", "EXPANSION", "NONSCALING"];
                let options = line[2..items].iter().filter(|word| word.parse::<f64>().is_err());
                assert!(options.clone().all(|word| known.contains(&word.as_str())), "{line:?}");
            }
            "COPY" | "MULTI" | "EXEC" => {}
            other => panic!("{other}: {line:?}"),
        }
    }
    assert_eq!(made, 7, "{lines:?}");
}

fn a_rewritten_file_of_redisblooms_format_has_clear_chunks(site: &Site) {
    let server = append_only(site.launch(), "no").with_option("bf.format redisbloom").start();
    let mut client = server.client();
    // About 41 MB: three chunks, in which one item sets at most eight bits.
    client.say("BF.RESERVE k 0.01 30000000");
    client.say("BF.RESERVE empty 0.01 30000000");
    client.say("BF.ADD k a");
    rewrite(&mut client);
    let base = append_only_base(&server);
    let chunks = base.windows(12).filter(|window| *window == b"BF.LOADCHUNK").count();
    assert_eq!(chunks, 2 * (1 + 3));
    let digests = ["k", "empty"].map(|key| client.digest(key));
    drop(client);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(["k", "empty"].map(|key| client.digest(key)), digests);
}

fn a_primary_of_valkey_blooms_format_replicates_its_commands(site: &Site) {
    let (_primary, _replica, lines) = sent(site, "valkey-bloom");
    let mut made = 0;
    for line in &lines {
        match line[0].to_uppercase().as_str() {
            "BF.INSERT" if line.contains(&"SEED".to_owned()) => {
                let words: Vec<&str> = [2, 4, 6, 8, 10].iter().map(|at| line[*at].as_str()).collect();
                assert_eq!(words[..4], ["CAPACITY", "ERROR", "TIGHTENING", "SEED"], "{line:?}");
                assert!(["EXPANSION", "NONSCALING"].contains(&words[4]), "{line:?}");
                let rest = if words[4] == "EXPANSION" { &line[12..] } else { &line[11..] };
                assert!(rest.is_empty() || (rest[0] == "ITEMS" && rest.len() > 1), "{line:?}");
                made += 1;
            }
            "BF.ADD" => assert_eq!(line.len(), 3, "{line:?}"),
            "BF.MADD" => assert!(line.len() > 2, "{line:?}"),
            "BF.INSERT" => assert!(!line.contains(&"FORMAT".to_owned()), "{line:?}"),
            "COPY" | "MULTI" | "EXEC" => {}
            other => panic!("{other}: {line:?}"),
        }
    }
    assert_eq!(made, 7, "{lines:?}");
}

/// Returns a replica that exits on any error. Its primary is not a server: it sends an empty data set and then these
/// commands.
fn replica_of_stream(site: &Site, format: &str, commands: Vec<Vec<Vec<u8>>>) -> Server {
    let launch = site.launch().with("propagation-error-behavior panic");
    follow_stream(launch.with_option(format!("bf.format {format}")), commands)
}

/// Starts a replica of a primary that sends an empty data set and then these commands.
pub(crate) fn follow_stream(launch: Launch, commands: Vec<Vec<Vec<u8>>>) -> Server {
    let site = launch.site();
    let empty = {
        let server = site.launch().without_module().start();
        assert_eq!(server.client().say("SAVE"), "+OK");
        std::fs::read(server.dir().join("dump.rdb")).unwrap()
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let Ok((stream, _)) = listener.accept() else { return };
        serve(stream, &empty, &commands);
    });
    launch.with(format!("replicaof 127.0.0.1 {port}")).start()
}

/// Replies to a replica until it closes the connection.
fn serve(stream: TcpStream, data_set: &[u8], commands: &[Vec<Vec<u8>>]) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(words) = read_command(&mut reader) {
        let reply = match words[0].to_ascii_uppercase().as_slice() {
            b"PING" => b"+PONG\r\n".to_vec(),
            b"PSYNC" => {
                let id = "1".repeat(40);
                let mut reply = format!("+FULLRESYNC {id} 0\r\n${}\r\n", data_set.len()).into_bytes();
                reply.extend_from_slice(data_set);
                for command in commands {
                    reply.extend(format!("*{}\r\n", command.len()).bytes());
                    for word in command {
                        reply.extend(format!("${}\r\n", word.len()).bytes());
                        reply.extend_from_slice(word);
                        reply.extend(b"\r\n");
                    }
                }
                reply
            }
            b"REPLCONF" if words[1].eq_ignore_ascii_case(b"ack") => Vec::new(),
            _ => b"+OK\r\n".to_vec(),
        };
        if writer.write_all(&reply).is_err() {
            return;
        }
    }
}

fn read_command(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let mut number = |mark: char| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.trim_end().strip_prefix(mark)?.parse::<usize>().ok().map(|n| (n, ()))
    };
    let (count, ()) = number('*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let length: usize = line.trim_end().strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(length);
        words.push(word);
    }
    Some(words)
}

pub(crate) fn stream(lines: &[&str]) -> Vec<Vec<Vec<u8>>> {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    lines.iter().map(|line| words(line)).collect()
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
        words
    };
    commands.push(insert("a", &["EXPANSION", "2"], &["ITEMS", "a"]));
    commands.push(insert("b", &["NONSCALING"], &[]));
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        let replica = replica_of_stream(site, format, commands.clone());
        let mut client = replica.client();
        in_step(&mut client, 2);
        assert_eq!(client.say("TYPE a"), "+bloomfltr");
        assert_eq!(client.say("TYPE b"), "+bloomfltr");
        // The payload of this command, made by valkey-bloom 1.0.1.
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
    commands.push(insert("sent", &seed));
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
    // From a payload, a snapshot and a rewritten append-only file.
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
