//! Tests `load --partitions` on one server, and on a cluster whose slots move during the load.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use crate::harness::{Client, Server, Site, Test, imitate, tests, wait_until};
use crate::interrupting::end_by;
use crate::tool::{Files, Loading, fail, items, json, keys, pass, primaries, start, url};

pub(crate) const TESTS: &[Test] = tests![
    items_are_in_the_documented_partition,
    existing_partitions_are_unchanged_without_an_option,
    partitions_are_on_all_nodes_of_a_cluster,
    no_item_is_lost_while_a_slot_moves,
    the_rename_waits_until_a_slot_has_moved,
    an_interrupted_load_leaves_no_partition,
    partitions_are_removed_over_a_new_connection,
];

/// Returns the CRC-32 of zlib, computed bit by bit.
fn crc32(item: &[u8]) -> u32 {
    !item.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Looks up each item in its partition, on the server that has the partition. Returns the number of items found.
fn found(servers: &[Server], name: &str, partitions: u32, items: &[String]) -> i64 {
    let mut theirs = vec![String::new(); partitions as usize];
    for item in items {
        theirs[(crc32(item.as_bytes()) % partitions) as usize].push_str(&format!("{item}\n"));
    }
    let keys = partition_keys(name, partitions);
    let count = |part: usize, data: &str| {
        let key = keys[part].clone();
        let mut client = owner(servers, &key).client();
        let reply = client.call(&["BF.BULKEXISTS", &key, "COUNT", "LINES", data]);
        redis::from_redis_value::<i64>(reply).unwrap()
    };
    theirs.iter().enumerate().map(|(part, data)| count(part, data)).sum()
}

/// Returns the server that has the key.
fn owner<'s>(servers: &'s [Server], key: &str) -> &'s Server {
    let has = |server: &&Server| keys(&mut server.client()).iter().any(|found| found == key);
    servers.iter().find(has).unwrap_or_else(|| panic!("no server has {key}"))
}

/// Returns the slot of a number as a hash tag. CRC-16/XMODEM is computed bit by bit.
fn slot(number: u32) -> u32 {
    let crc = number.to_string().bytes().fold(0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte) << 8, |crc, _| ((crc << 1) ^ ((crc >> 15) * 0x1021)) & 0xFFFF)
    });
    crc % 16_384
}

/// Returns the keys of the partitions: the number of partition i is the smallest whose slot is in the i-th of equal
/// ranges.
fn partition_keys(name: &str, partitions: u32) -> Vec<String> {
    let number = |part| (0..).find(|number| slot(*number) * partitions / 16_384 == part).unwrap();
    (0..partitions).map(|part| format!("{name}:{{{}}}", number(part))).collect()
}

/// Returns the keys in alphabetical order.
fn names(name: &str, partitions: u32) -> Vec<String> {
    let mut names = partition_keys(name, partitions);
    names.sort();
    names
}

fn items_are_in_the_documented_partition(site: &Site) {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    let (server, mut client, files) = start(site);
    let file = files.items("items", 50_000);
    let csv = files.write("csv", items(0..50_000).join("\n"));
    for (name, how) in
        [("seen", &[][..]), ("column", &["--csv", "1", "--no-header"]), ("words", &["--resp3"])]
    {
        if name == "words" {
            client.say("ACL SETUSER default -bf.bulkadd");
        }
        let file = if name == "column" { &csv } else { &file };
        let loaded = json(&[&["load", &url(&server), name, file, "--partitions", "24"], how].concat());
        assert_eq!((&loaded["items"], &loaded["partitions"]), (&50_000.into(), &24.into()), "{loaded}");
        assert!(loaded["new"].as_u64() > Some(49_500), "{loaded}");
        let servers = std::slice::from_ref(&server);
        assert_eq!(found(servers, name, 24, &items(0..50_000)), 50_000, "{name}");
        // 0.75 % are expected: the bits of a reserved filter have 3/4 of its error rate of 1 %. The limit is six
        // standard deviations higher.
        assert!(found(servers, name, 24, &items(50_000..70_000)) < 225, "{name}");
        // The capacity is m + 4 sqrt(m), where m is the mean number of items per partition. All ways of loading create
        // the same filters.
        let mut fullest = 0;
        for (key, first) in partition_keys(name, 24).into_iter().zip(partition_keys("seen", 24)) {
            assert_eq!(client.say(&format!("BF.INFO {key} CAPACITY")), "[2266]");
            assert_eq!(client.digest(&key), client.digest(&first), "{key}");
            fullest = fullest.max(client.int(&format!("BF.CARD {key}")));
        }
        assert_eq!((&loaded["fullest_items"], &loaded["fullest_capacity"]), (&fullest.into(), &2266.into()));
    }
    let all: Vec<String> = ["column", "seen", "words"].iter().flat_map(|name| names(name, 24)).collect();
    assert_eq!(keys(&mut client), all);
    let load = ["load", &url(&server), "seen", &file, "--partitions", "24", "--replace", "--ex", "15m"];
    pass("; 24 filters of ", &load);
    assert!((800..=900).contains(&client.int("TTL seen:{114}")));
}

fn existing_partitions_are_unchanged_without_an_option(site: &Site) {
    let (server, mut client, files) = start(site);
    let address = url(&server);
    let (ten, twenty) = (files.items("ten", 10_000), files.items("twenty", 20_000));
    let load = |file, count, how: &[&'static str]| -> Vec<&str> {
        [&["load", &address, "k", file, "--partitions", count], how].concat()
    };
    json(&load(&ten, "5", &[]));
    let mut digests = || names("k", 5).iter().map(|key| client.digest(key)).collect::<Vec<_>>();
    let before = digests();
    fail(1, "--replace", &load(&twenty, "5", &[]));
    // A larger or smaller number of partitions is refused.
    for (count, how) in
        [("4", &[][..]), ("4", &["--add"]), ("4", &["--replace"]), ("7", &["--replace"]), ("7", &["--add"])]
    {
        let ended = fail(1, "k: the filter has 5 partitions, ", &load(&twenty, count, how));
        assert!(!ended.err.contains("create"), "{}", ended.err);
    }
    fail(1, "none:{3}: ERR not found", &["load", &address, "none", &ten, "--partitions", "5", "--add"]);
    // If one partition is missing, the error says so. It does not report a smaller number of partitions.
    server.client().say("RENAME k:{2} kept{2}");
    fail(1, "k:{2}: the partition is missing", &load(&twenty, "5", &["--add"]));
    server.client().say("RENAME kept{2} k:{2}");
    assert_eq!(digests(), before);
    assert_eq!(json(&load(&twenty, "5", &["--add"]))["items"], 20_000);
    assert_eq!(found(std::slice::from_ref(&server), "k", 5, &items(0..20_000)), 20_000);
    json(&load(&ten, "5", &["--replace"]));
    assert_eq!(digests(), before);
    assert_eq!(keys(&mut server.client()), names("k", 5));
}

fn partitions_are_on_all_nodes_of_a_cluster(site: &Site) {
    let nodes: [Server; 3] = primaries(site);
    let files = Files::new();
    let file = files.items("items", 100_000);
    let mut counts = Vec::new();
    for (node, how) in nodes.iter().zip([&[][..], &["--replace"], &["--replace"]]) {
        let arguments = ["load", &url(node), "seen", &file, "--partitions", "24", "-c"];
        let loaded = json(&[&arguments, how].concat());
        assert_eq!(loaded["items"], 100_000, "{loaded}");
        let spread: Vec<usize> = nodes.iter().map(|node| keys(&mut node.client()).len()).collect();
        // This is the example of docs/clusters.md.
        assert_eq!(spread, [8, 8, 8]);
        assert_eq!(found(&nodes, "seen", 24, &items(0..100_000)), 100_000);
        counts.push(found(&nodes, "seen", 24, &items(100_000..150_000)));
    }
    assert!(counts.iter().all(|count| *count == counts[0] && *count < 500), "{counts:?}");
    let load = ["load", &url(&nodes[1]), "seen", &file, "--partitions", "24", "-c", "--add"];
    assert_eq!(json(&load)["new"], 0);
    let checked = json(&["check", &url(&nodes[2]), "-c"]);
    let whole = &checked["partitioned"][0];
    assert_eq!((&whole["name"], &whole["partitions"]), (&"seen".into(), &24.into()), "{checked}");
    assert_eq!((&whole["capacity"], &whole["bytes"]), (&(24 * 4425).into(), &checked["bytes"]), "{whole}");
    assert!(whole["items"].as_u64() > Some(99_000) && whole["items"].as_u64() <= Some(100_000), "{whole}");
    pass("\nseen: 24 partitions with ", &["check", &url(&nodes[2]), "-c"]);
    // Without -c, the load fails before it creates a key.
    fail(1, "MOVED", &["load", &url(&nodes[1]), "new", &file, "--partitions", "24"]);
    assert!(keys(&mut nodes[1].client()).iter().all(|key| key.starts_with("seen:")));
}

/// A slot that is moving from one node to another.
pub(crate) struct Moving<'s> {
    slot: i64,
    nodes: [&'s Server; 2],
}

impl<'s> Moving<'s> {
    /// Begins to move the slot of a key.
    pub(crate) fn begin(nodes: &'s [Server], key: &str) -> Self {
        let slot = nodes[0].client().int(&format!("CLUSTER KEYSLOT {key}"));
        let owns = |server: &&Server| {
            let reply = server.client().say(&format!("EXISTS {key}"));
            !reply.contains("MOVED")
        };
        let from = nodes.iter().find(owns).expect("an owner");
        let to = nodes.iter().find(|server| server.port() != from.port()).unwrap();
        let (from_id, to_id) = (id(&mut from.client()), id(&mut to.client()));
        assert_eq!(to.client().say(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")), "+OK");
        assert_eq!(from.client().say(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")), "+OK");
        Self { slot, nodes: [from, to] }
    }

    /// Returns the number of keys in the slot on the old node.
    fn keys(&self) -> i64 {
        self.nodes[0].client().int(&format!("CLUSTER COUNTKEYSINSLOT {}", self.slot))
    }

    fn migrate(&self) {
        let [from, to] = self.nodes;
        let reply = from.client().call(&["CLUSTER", "GETKEYSINSLOT", &self.slot.to_string(), "10"]);
        for key in redis::from_redis_value::<Vec<String>>(reply).unwrap() {
            let migrate = ["MIGRATE", "127.0.0.1", &to.port().to_string(), &key, "0", "60000"];
            assert_eq!(from.client().ask(&migrate), "+OK");
        }
    }

    pub(crate) fn end(&self) {
        let [from, to] = self.nodes;
        let to_id = id(&mut to.client());
        for server in [to, from] {
            assert_eq!(server.client().say(&format!("CLUSTER SETSLOT {} NODE {to_id}", self.slot)), "+OK");
        }
    }
}

fn id(client: &mut Client) -> String {
    String::from_utf8(client.bytes(&["CLUSTER", "MYID"])).expect("an id")
}

fn no_item_is_lost_while_a_slot_moves(site: &Site) {
    for (key, arguments) in [
        ("k:{0}", &["-c", "--partitions", "6"][..]),
        ("k", &["-c"]),
        // The user has no permission for BF.BULKADD, so the tool uses BF.INSERT.
        ("k", &["-c", "--counting"]),
    ] {
        let nodes: [Server; 3] = primaries(site);
        if arguments.contains(&"--counting") {
            nodes.iter().for_each(|node| _ = node.client().say("ACL SETUSER default -bf.bulkadd"));
        }
        let mut loading = Loading::begin(&nodes[2], arguments);
        let moving = Moving::begin(&nodes, key);
        loading.next();
        // The temporary key in the moving slot is on the old node or, after ASK, on the new one.
        let drafts = || nodes.iter().map(|node| node.client().int("DBSIZE")).sum::<i64>();
        wait_until("drafts", || drafts() == if key == "k" { 1 } else { 6 });
        loading.next();
        moving.migrate();
        assert_eq!(moving.keys(), 0);
        // The slot moves to the other node and back again. The tool gets ASK while the slot moves, and MOVED
        // afterwards.
        loading.next();
        sleep(Duration::from_millis(200));
        moving.end();
        loading.next();
        let back = Moving::begin(&nodes, key);
        loading.next();
        back.migrate();
        back.end();
        loading.next();
        let (ended, items) = loading.end();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let loaded = ended.json();
        assert_eq!(loaded["items"], items.len(), "{loaded}");
        if key == "k" {
            let mut client = owner(&nodes, "k").client();
            let command = ["BF.BULKEXISTS", "k", "COUNT", "LINES", &items.join("\n")];
            assert_eq!(client.call(&command), redis::Value::Int(i64::try_from(items.len()).unwrap()));
            assert_eq!(drafts(), 1);
        } else {
            assert_eq!(found(&nodes, "k", 6, &items), i64::try_from(items.len()).unwrap());
            assert_eq!(drafts(), 6);
        }
    }
}

fn the_rename_waits_until_a_slot_has_moved(site: &Site) {
    let nodes: [Server; 3] = primaries(site);
    let mut loading = Loading::begin(&nodes[0], &["-c"]);
    loading.next();
    wait_until("a draft", || nodes.iter().any(|node| node.client().int("DBSIZE") == 1));
    let moving = Moving::begin(&nodes, "k");
    // The temporary key is on the old node. The final key may be on either node, so the rename is refused with
    // TRYAGAIN.
    drop(loading.child.stdin.take());
    sleep(Duration::from_millis(1500));
    assert!(loading.child.try_wait().unwrap().is_none(), "it did not wait");
    moving.migrate();
    moving.end();
    let (ended, items) = loading.end();
    assert_eq!((ended.code, &ended.json()["items"]), (Some(0), &items.len().into()), "{}", ended.err);
    assert_eq!(keys(&mut owner(&nodes, "k").client()), ["k"]);
    // The tool waits and retries. A signal ends the wait.
    let mut loading = Loading::begin(&nodes[0], &["-c", "--replace"]);
    loading.next();
    wait_until("a draft", || nodes.iter().any(|node| node.client().int("DBSIZE") == 2));
    let moving = Moving::begin(&nodes, "k");
    moving.migrate();
    drop(loading.child.stdin.take());
    sleep(Duration::from_millis(500));
    // All keys of the slot have moved, so the tool may rename the filter before the signal arrives.
    assert!(matches!(end_by(loading.child, "INT").code, Some(0 | 130)));
    moving.end();
    assert_eq!(keys(&mut owner(&nodes, "k").client()), ["k"]);
}

fn an_interrupted_load_leaves_no_partition(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let begin = |client: &mut Client| {
        let mut loading = Loading::begin(&server, &["--partitions", "4"]);
        loading.next();
        loading.next();
        wait_until("drafts with items", || {
            let keys = keys(client);
            keys.len() == 4 && keys.iter().all(|key| client.int(&format!("BF.CARD {key}")) > 0)
        });
        loading
    };
    let ended = end_by(begin(&mut client).child, "INT");
    assert_eq!((ended.code, keys(&mut client)), (Some(130), vec![]), "{}", ended.err);
    // Another client creates the key of the third partition. The first two, which are already renamed, must be removed.
    let loading = begin(&mut client);
    client.say("SET k:{1} mine");
    let (ended, _) = loading.end();
    assert!(ended.code == Some(1) && ended.err.contains("in the meantime"), "{}", ended.err);
    assert_eq!(
        (client.say("GET k:{1}"), keys(&mut client)),
        ("\"mine\"".to_owned(), vec!["k:{1}".to_owned()])
    );
}

fn partitions_are_removed_over_a_new_connection(_: &Site) {
    let files = Files::new();
    let file = files.items("items", 100);
    for is_refusing in [false, true] {
        let (renames, removed) = (AtomicU32::new(0), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&removed);
        let address = imitate(move |words| {
            let reply = match words[0].as_str() {
                "EXISTS" => format!(":{}\r\n", u8::from(words[1].contains("everbloom"))),
                "TYPE" => "+none\r\n".to_owned(),
                "BF.BULKADD" => {
                    "-ERR unknown command 'BF.BULKADD', with args beginning with: \r\n".to_owned()
                }
                // BF.INSERT KEY NOCREATE ITEMS and the items.
                "BF.INSERT" => format!("*{}\r\n{}", words.len() - 4, ":1\r\n".repeat(words.len() - 4)),
                // The connection breaks at the third of four partitions.
                "RENAMENX" if renames.fetch_add(1, Ordering::Relaxed) == 2 => return None,
                "UNLINK" => {
                    seen.lock().unwrap().push(words[1].clone());
                    let is_final = !words[1].contains("everbloom");
                    if is_refusing && is_final { "-OOM no\r\n" } else { ":1\r\n" }.to_owned()
                }
                "EXEC" => "*2\r\n:1\r\n:1\r\n".to_owned(),
                _ => "+OK\r\n".to_owned(),
            };
            Some(reply)
        });
        let load = ["load", &address, "k", &file, "--partitions", "4", "--capacity", "100"];
        let (code, more) = if is_refusing { (3, "could not all be removed: OOM no") } else { (1, "") };
        let ended = fail(code, more, &load);
        assert!(ended.err.contains("everbloom: connection: "), "{}", ended.err);
        let removed = removed.lock().unwrap();
        let finals: Vec<&String> = removed.iter().filter(|key| !key.contains("everbloom")).collect();
        let expected = partition_keys("k", 4);
        assert_eq!(finals, expected.iter().take(2).collect::<Vec<_>>(), "{removed:?}");
    }
}
