//! CF.* on a real server: the replies that RedisBloom gave to the same commands, byte for byte in both protocols, with a
//! table of what differs; counts on replicas, in files and after a kill; large filters.

use serde_json::Value as Json;

use crate::harness::{Client, ROOT, Site, Test, packed, tests};
use crate::journeys::{append_only, rewrite, strict};
use crate::support::Random;

pub(crate) const TESTS: &[Test] = tests![
    replies_are_those_of_redisbloom,
    an_option_at_the_end_is_an_error,
    counts_survive_replication_files_and_kills,
    changes_that_change_nothing_break_no_transaction,
    many_items_need_no_reservation,
];

/// The places of the recorded commands whose replies show the structure of a cuckoo filter, its type, or the filter's
/// absence after a command of [`DIFFERENT`].
const STRUCTURE: &[usize] = &[
    // CF.INFO and CF.DEBUG: sizes, the number of filters, and the capacity of a filter that nobody reserved.
    18, 75, 78, 83, 218, 260, 269, //
    // CF.SCANDUMP: the header and the chunks of a cuckoo filter.
    21, 57, 58, 59, //
    // TYPE.
    306,
];

/// The places of replies that differ for cuckoo filters too.
const DIFFERENT_PLACES: &[usize] = &[
    // A header with an address at its end, of RedisBloom 2.2.0 to 2.2.10, is accepted.
    68, //
    // CF.DEBUG and DEL of a filter that was not created. A key named like an option has its capacity as the option's value
    // in RedisBloom.
    86, 87, 194, 195, 200, 201, 206, 208, 210, 257, 258, 275, 276, //
    // MEMORY USAGE and COPY.
    307, 308,
];

/// Replies that differ only with counting filters: capacity counts items, every place is used, and there is no limit of 32
/// arrays.
const OF_COUNTING: &[usize] = &[70, 71, 79, 80, 81, 84];

/// The other replies that differ from RedisBloom's, in RESP2, each with its place.
const DIFFERENT: &[(usize, &str)] = &[
    // Capacity counts items, and every place is used. RedisBloom refuses items although four slots are free.
    (70, "*8\r\n:1\r\n:1\r\n:1\r\n:1\r\n:-1\r\n:-1\r\n:-1\r\n:-1\r\n"),
    (71, "*8\r\n:0\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:-1\r\n"),
    // There is no limit of 32 filters.
    (79, ":1\r\n"),
    (80, ":0\r\n"),
    (81, "*1\r\n:1\r\n"),
    (84, ":1\r\n"),
    // Unknown words are errors, and options are whole words after the capacity or the key.
    (85, "-ERR unknown argument 'FOO'\r\n"),
    (88, "-ERR unknown argument 'FOO'\r\n"),
    (193, "-ERR unknown argument '1'\r\n"),
    (199, "-ERR unknown argument 'x'\r\n"),
    (205, "+OK\r\n"),
    (253, "-Unknown argument received\r\n"),
    (256, "-Unknown argument received\r\n"),
    (274, "-Unknown argument received\r\n"),
];

/// Returns the bytes of a recorded text, a character for each byte.
fn recorded(text: &Json) -> Vec<u8> {
    text.as_str().unwrap().chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect()
}

fn replies_are_those_of_redisbloom(site: &Site) {
    let path = format!("{ROOT}/tests/fixtures/redisbloom-cuckoo-replies.json");
    let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let server = site.start();
    for format in ["everbloom", "redisbloom"] {
        assert_eq!(server.client().say(&format!("CONFIG SET bf.format {format}")), "+OK");
        let is_counting = format == "everbloom";
        for (mut client, field) in [(server.raw(), "resp2"), (server.raw3(), "resp3")] {
            client.say("FLUSHALL");
            for (place, case) in file["replies"].as_array().unwrap().iter().enumerate() {
                let words: Vec<Vec<u8>> = case["command"].as_array().unwrap().iter().map(recorded).collect();
                let (got, expected) = (client.raw(&packed(&words)), recorded(&case[field]));
                let shown =
                    || format!("{format}, {place}, {field}, {}: {}", case["command"], got.escape_ascii());
                let different = DIFFERENT.iter().find(|(different, _)| *different == place);
                match different.filter(|_| is_counting || !OF_COUNTING.contains(&place)) {
                    Some((_, reply)) if field == "resp2" => assert_eq!(got, reply.as_bytes(), "{}", shown()),
                    Some(_) => assert_ne!(got, expected, "{}", shown()),
                    None => {
                        let is_different =
                            DIFFERENT_PLACES.contains(&place) || is_counting && STRUCTURE.contains(&place);
                        assert_eq!(got != expected, is_different, "{}", shown());
                    }
                }
            }
        }
    }
}

/// Tested with our own option only: RedisBloom does not have it.
fn an_option_at_the_end_is_an_error(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let reply = client.say("CF.RESERVE k 100 BUCKETSIZE 2 ERROR");
    assert_eq!(reply, "-ERR wrong number of arguments for 'cf.reserve' command");
    assert_eq!(client.say("CF.RESERVE k 100 x error"), "-ERR Couldn't parse ERROR");
    assert_eq!(client.int("DBSIZE"), 0);
}

/// Sends random commands about 200 items, with the expected count of each item.
fn change(client: &mut Client, counts: &mut [i64; 200], random: &mut Random, commands: usize) {
    for _ in 0..commands {
        let number = random.below(counts.len());
        let count = &mut counts[number];
        match random.below(5) {
            0 => {
                client.say(&format!("CF.ADD k {number}"));
                *count += 1;
            }
            1 => {
                client.say(&format!("CF.INSERT k ITEMS {number} {number}"));
                *count += 2;
            }
            2 => {
                client.say(&format!("CF.ADDNX k {number}"));
                *count = 1.max(*count);
            }
            3 => {
                client.say(&format!("CF.INSERTNX k ITEMS {number} {number}"));
                *count = 1.max(*count);
            }
            _ if *count > 0 => {
                assert_eq!(client.say(&format!("CF.DEL k {number}")), "1");
                *count -= 1;
            }
            _ => {}
        }
    }
}

fn assert_counts(client: &mut Client, counts: &[i64; 200], context: &str) {
    for (number, count) in counts.iter().enumerate() {
        assert_eq!(client.int(&format!("CF.COUNT k {number}")), *count, "{context}: {number}");
    }
    assert_eq!(client.int("BF.CARD k"), counts.iter().sum::<i64>(), "{context}");
}

fn counts_survive_replication_files_and_kills(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let replica = server.replica(strict(site.launch()));
    let (mut counts, mut random) = ([0; 200], Random(7));
    let mut client = server.client();
    // An error rate so small that no two of the items share an entry.
    assert_eq!(client.say("CF.RESERVE k 100 ERROR 0.000000001 EXPANSION 4"), "+OK");
    change(&mut client, &mut counts, &mut random, 2_000);
    assert_counts(&mut client, &counts, "primary");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_counts(&mut replica.client(), &counts, "replica");
    assert_eq!(replica.client().digest("k"), client.digest("k"));
    rewrite(&mut client);
    change(&mut client, &mut counts, &mut random, 500);
    assert_eq!(client.say("COPY k copied"), "1");
    let payload = client.bytes(&["DUMP", "k"]);
    assert_eq!(client.ask(&[b"RESTORE", b"restored".as_slice(), b"0", &payload]), "+OK");
    for key in ["copied", "restored"] {
        assert_eq!(client.digest(key), client.digest("k"), "{key}");
        client.say(&format!("DEL {key}"));
    }
    let digest = client.digest("k");
    // As `kill -9`.
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.digest("k"), digest);
    assert_counts(&mut client, &counts, "after a kill");
    // A dump by chunks ends with a null, and an empty filter has no chunks.
    let mut iterator = 0;
    while let [redis::Value::Int(next), redis::Value::BulkString(data)] =
        &client.array(&["CF.SCANDUMP", "k", &iterator.to_string()])[..]
    {
        iterator = *next;
        let words =
            [&b"CF.LOADCHUNK"[..], b"loaded", iterator.to_string().as_bytes(), data].map(<[u8]>::to_vec);
        assert_eq!(client.ask(&words), "+OK");
    }
    assert_eq!(client.digest("loaded"), digest);
    client.say("CF.RESERVE empty 10");
    assert_eq!(client.say("CF.SCANDUMP empty 0"), "[0, nil]");
    assert_eq!(server.raw3().say("CF.SCANDUMP empty 0"), "*2\r\n:0\r\n_\r\n");
}

fn changes_that_change_nothing_break_no_transaction(site: &Site) {
    let server = site.start();
    let (mut watcher, mut client) = (server.client(), server.client());
    client.say("CF.RESERVE k 4 EXPANSION 0");
    client.say("CF.INSERT k ITEMS a b c d");
    for (line, changes) in [
        ("CF.ADDNX k a", false),
        ("CF.INSERTNX k ITEMS a b e", false),
        ("CF.ADD k e", false),
        ("CF.INSERT k ITEMS e f", false),
        ("CF.DEL k e", false),
        ("CF.COMPACT k", false),
        ("CF.COUNT k a", false),
        ("CF.RESERVE k 4", false),
        ("CF.LOADCHUNK k 9 x", false),
        ("CF.ADD k a", true),
        ("CF.DEL k a", true),
        ("CF.INSERT k ITEMS a e", true),
    ] {
        for step in ["WATCH k", "MULTI", "PING"] {
            watcher.say(step);
        }
        client.say(line);
        assert_eq!(watcher.say("EXEC") == "nil", changes, "{line}");
    }
}

/// A filter that nobody reserved takes all items and keeps its error rate. Its memory follows the deletions.
fn many_items_need_no_reservation(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let items = 300_000;
    let insert = |client: &mut Client, command: &str, from: usize, to: usize| {
        let mut sum = 0;
        for start in (from..to).step_by(1000) {
            let batch: Vec<String> = (start..start + 1000).map(|number| format!("item {number}")).collect();
            sum += client.ones(command, &batch);
        }
        sum
    };
    assert_eq!(insert(&mut client, "CF.INSERT k ITEMS", 0, items), items);
    assert_eq!(insert(&mut client, "CF.MEXISTS k", 0, items), items);
    let found = insert(&mut client, "CF.MEXISTS k", items, items + 100_000);
    assert!(found <= 1_100, "{found} of 100000");
    let mut raw = server.raw();
    let deletion = |number: usize| packed(&["CF.DEL", "k", &format!("item {number}")]);
    for start in (0..items / 2).step_by(1000) {
        let numbers = start..start + 1000;
        raw.send(&numbers.clone().flat_map(deletion).collect::<Vec<u8>>()).unwrap();
        numbers.for_each(|number| assert_eq!(raw.next(), b":1\r\n", "{number}"));
    }
    let info = client.array(&["CF.INFO", "k"]);
    let number =
        |at: usize| if let redis::Value::Int(number) = info[at] { number } else { panic!("{info:?}") };
    let live = i64::try_from(items / 2).unwrap();
    assert_eq!(number(7), live);
    assert!(number(1) as f64 * 8.0 / live as f64 <= 18.5, "{info:?}");
}
