//! Cluster mode: a slot is migrated with its filter.

use crate::harness::{Client, Launch, Server, Site, Test, show, skip, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    a_filter_moves_with_its_slot,
    a_filter_moves_in_an_atomic_slot_migration,
    a_source_in_a_migrating_slot_returns_tryagain,
    a_failed_slot_migration_leaves_the_filter_at_its_source,
    slot_migration_ignores_the_byte_limit_and_clients_do_not,
    a_node_redirects_commands_by_their_key,
];

const SLOTS: i64 = 16384;

/// Two connected nodes. The first one owns every slot.
struct Cluster {
    first: Server,
    second: Server,
}

impl Cluster {
    fn start(site: &Site) -> Self {
        Self::start_with(site, |second| second)
    }

    /// Starts a cluster whose second node is configured differently.
    fn start_with(site: &Site, change: impl FnOnce(Launch) -> Launch) -> Self {
        let first = site.launch().in_cluster().start();
        let second = change(site.launch().in_cluster()).start();
        let mut client = first.client();
        assert_eq!(client.say(&format!("CLUSTER ADDSLOTSRANGE 0 {}", SLOTS - 1)), "+OK");
        // Nodes with equal epochs may reject the owner of a slot that has just moved.
        for (epoch, server) in [&first, &second].into_iter().enumerate() {
            assert_eq!(server.client().say(&format!("CLUSTER SET-CONFIG-EPOCH {}", epoch + 1)), "+OK");
        }
        let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", second.port(), second.bus_port());
        assert_eq!(client.say(&meet), "+OK");
        for server in [&first, &second] {
            let mut client = server.client();
            wait_until("cluster up", || {
                let info = String::from_utf8(client.bytes(&["CLUSTER", "INFO"])).unwrap();
                info.contains("cluster_state:ok")
                    && info.contains("cluster_known_nodes:2")
                    && info.contains("cluster_slots_assigned:16384")
            });
        }
        Self { first, second }
    }
}

fn id(client: &mut Client) -> String {
    String::from_utf8(client.bytes(&["CLUSTER", "MYID"])).unwrap()
}

fn fill(client: &mut Client) -> String {
    assert_eq!(client.say("BF.RESERVE k 0.001 10"), "+OK");
    for item in 0..700 {
        client.say(&format!("BF.ADD k item-{item}"));
    }
    client.digest("k")
}

fn assert_moved(cluster: &Cluster, digest: &str) {
    let (mut from, mut to) = (cluster.first.client(), cluster.second.client());
    let slot = to.int("CLUSTER KEYSLOT k");
    assert_eq!(to.digest("k"), digest);
    for item in 0..700 {
        assert_eq!(to.int(&format!("BF.EXISTS k item-{item}")), 1);
    }
    let moved = format!("-MOVED {slot} 127.0.0.1:{}", cluster.second.port());
    assert_eq!(from.say("BF.EXISTS k item-0"), moved);
    assert_eq!(from.say("BF.ADD k item-0"), moved);
    assert_eq!(to.int("BF.ADD k something-new"), 1);
}

fn a_filter_moves_with_its_slot(site: &Site) {
    let cluster = Cluster::start(site);
    let digest = fill(&mut cluster.first.client());
    move_slot(&cluster);
    assert_moved(&cluster, &digest);
}

/// Moves the slot of the key `k` with its keys, as `redis-cli --cluster` does, and checks the state halfway.
fn move_slot(cluster: &Cluster) {
    let (mut from, mut to) = (cluster.first.client(), cluster.second.client());
    let slot = from.int("CLUSTER KEYSLOT k");
    let (from_id, to_id) = (id(&mut from), id(&mut to));
    from.say("BF.ADD {k}source x");
    assert_eq!(to.say(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")), "+OK");
    assert_eq!(from.say(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")), "+OK");
    // Halfway the key is still on the first node. A key that is not there is redirected to the other node.
    assert_eq!(from.say("BF.EXISTS k item-0"), "1");
    assert_eq!(from.say("BF.ADD k item-0"), "0");
    let keys = from.say(&format!("CLUSTER GETKEYSINSLOT {slot} 10"));
    assert!(["[\"k\", \"{k}source\"]", "[\"{k}source\", \"k\"]"].contains(&keys.as_str()), "{keys}");
    let migrate = format!("MIGRATE 127.0.0.1 {} {{k}}source 0 60000", cluster.second.port());
    assert_eq!(from.say(&migrate), "+OK");
    // A command with two keys has to wait until both are on one node.
    let reply = from.say("BF.MERGE k {k}source FORCE");
    assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
    let migrate = format!("MIGRATE 127.0.0.1 {} k 0 60000", cluster.second.port());
    assert_eq!(from.say(&migrate), "+OK");
    let ask = format!("-ASK {slot} 127.0.0.1:{}", cluster.second.port());
    assert_eq!(from.say("BF.EXISTS k item-0"), ask);
    assert_eq!(from.say("BF.MADD k a b"), ask);
    assert_eq!(to.say("ASKING"), "+OK");
    assert_eq!(to.say("BF.MEXISTS k item-0 item-499"), "[1, 1]");
    for client in [&mut to, &mut from] {
        assert_eq!(client.say(&format!("CLUSTER SETSLOT {slot} NODE {to_id}")), "+OK");
    }
}

/// A command that reads several keys replies TRYAGAIN on the new node, as PFMERGE does, until all of them are there.
fn a_source_in_a_migrating_slot_returns_tryagain(site: &Site) {
    const NOT_FOUND: &str = "-ERR not found";
    const NO_STRING: &str = "-ERR there is no string at the source key";
    const TRY_AGAIN: &str = "-TRYAGAIN";
    let cluster = Cluster::start(site);
    let (mut from, mut to) = (cluster.first.client(), cluster.second.client());
    let slot = from.int("CLUSTER KEYSLOT k");
    for line in ["BF.ADD {k}a x", "BF.ADD {k}b y", "PFADD {k}p x", "SETBIT {k}s 7 1", "SETBIT k 2 1"] {
        assert!(!from.say(line).starts_with('-'), "{line}");
    }
    from.say("HSET {k}:config size 700 hashIterations 5 expectedInsertions 50");
    let merge = ["BF.MERGE {k}d {k}a", "BF.MERGE {k}d {k}a {k}b FORCE", "BF.MERGE {k}a {k}b"];
    let import = "BF.IMPORT {k}i SOURCE {k}s SCHEME go-zero BITS 900 REPLACE";
    let settings = "BF.IMPORT {k}r SOURCE k SCHEME redisson REPLACE";
    let (from_id, to_id) = (id(&mut from), id(&mut to));
    assert_eq!(to.say(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")), "+OK");
    assert_eq!(from.say(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")), "+OK");
    assert_eq!(to.say("ASKING"), "+OK");
    assert!(to.say("PFMERGE {k}q {k}p").starts_with(TRY_AGAIN));
    // By a command of the client and by a script.
    let mut asked = |line: &str| {
        assert_eq!(to.say("ASKING"), "+OK");
        let reply = to.say(line);
        let words: Vec<&str> = line.split(' ').collect();
        let script = "return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))";
        let script = [&["EVAL", script, "1", words[1], words[0]], &words[2..]].concat();
        assert_eq!(to.say("ASKING"), "+OK");
        let in_script = to.ask(&script);
        let start = |reply: &str| reply.split(' ').next().unwrap().to_owned();
        assert_eq!(start(&in_script), start(&reply), "{line}: {in_script}, {reply}");
        reply
    };
    let migrate = |from: &mut Client, key: &str| {
        let line = format!("MIGRATE 127.0.0.1 {} {key} 0 60000", cluster.second.port());
        assert_eq!(from.say(&line), "+OK");
    };
    for line in merge.into_iter().chain([import, settings]) {
        let reply = asked(line);
        assert!(reply.starts_with(TRY_AGAIN), "{line}: {reply}");
    }
    // Some keys are on this node; commands that need others have to wait.
    for key in ["{k}a", "k"] {
        migrate(&mut from, key);
    }
    for line in [merge[1], merge[2], import, settings] {
        let reply = asked(line);
        assert!(reply.starts_with(TRY_AGAIN), "{line}: {reply}");
    }
    assert_eq!(asked(merge[0]), "+OK");
    for key in ["{k}b", "{k}s", "{k}:config", "{k}p"] {
        migrate(&mut from, key);
    }
    for line in merge.into_iter().chain([import, settings]) {
        assert_eq!(asked(line), "+OK", "{line}");
    }
    // While the slot is migrating, a missing key may be on the other node.
    assert!(asked("BF.MERGE {k}d {k}none").starts_with(TRY_AGAIN));
    for client in [&mut to, &mut from] {
        assert_eq!(client.say(&format!("CLUSTER SETSLOT {slot} NODE {to_id}")), "+OK");
    }
    assert_eq!(to.say("BF.MERGE {k}d {k}none"), NOT_FOUND);
    assert_eq!(to.say("BF.MERGE {k}none {k}none"), NOT_FOUND);
    let reply = to.say("BF.IMPORT {k}i SOURCE {k}none SCHEME go-zero BITS 900 REPLACE");
    assert!(reply.starts_with(NO_STRING), "{reply}");
}

fn a_filter_moves_in_an_atomic_slot_migration(site: &Site) {
    let cluster = Cluster::start(site);
    let mut from = cluster.first.client();
    let known = migrates_slots_at_once(&mut from);
    // Only Valkey from 9.0 has it. If another server gets it, this assertion fails.
    assert!(known == site.from(None, Some((9, 0))) || site.is_in_development(), "CLUSTER MIGRATESLOTS");
    if !known {
        return skip("this server has no CLUSTER MIGRATESLOTS");
    }
    let digest = fill(&mut from);
    move_slot_at_once(&cluster);
    assert_moved(&cluster, &digest);
}

/// Returns whether the server has CLUSTER MIGRATESLOTS.
pub(crate) fn migrates_slots_at_once(client: &mut Client) -> bool {
    client.say("COMMAND INFO CLUSTER|MIGRATESLOTS") != "[nil]"
}

fn move_slot_at_once(cluster: &Cluster) {
    let (mut from, mut to) = (cluster.first.client(), cluster.second.client());
    let slot = from.int("CLUSTER KEYSLOT k");
    let to_id = id(&mut to);
    let command = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {to_id}");
    assert_eq!(from.say(&command), "+OK");
    wait_until("slot moved", || from.say("BF.CARD k").starts_with("-MOVED"));
    wait_until("slot taken", || !to.say("BF.CARD k").starts_with('-'));
}

fn a_failed_slot_migration_leaves_the_filter_at_its_source(site: &Site) {
    if !migrates_slots_at_once(&mut site.start().client()) {
        return skip("this server has no CLUSTER MIGRATESLOTS");
    }
    if site.hides_memory() {
        return;
    }
    let cramped = |second: Launch| second.with_address_space_mib(600).expecting("CRITICAL");
    let cluster = Cluster::start_with(site, cramped);
    let (mut from, mut to) = (cluster.first.client(), cluster.second.client());
    assert_eq!(to.int("DBSIZE"), 0);
    // Takes about 800 MB of address space, and no memory.
    assert_eq!(from.say("BF.RESERVE k 0.01 600000000"), "+OK");
    assert_eq!(from.say("BF.MADD k a b"), "[1, 1]");
    let digest = from.digest("k");
    let (slot, to_id) = (from.int("CLUSTER KEYSLOT k"), id(&mut to));
    let command = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {to_id}");
    assert_eq!(from.say(&command), "+OK");
    for server in [&cluster.first, &cluster.second] {
        let mut client = server.client();
        wait_until("the migration fails", || {
            show(&client.call(&["CLUSTER", "GETSLOTMIGRATIONS"])).contains("\"failed\"")
        });
    }
    let log = cluster.second.log();
    assert!(
        log.contains("slot-import-target is sending an error") && log.contains("'bf.loadchunk'"),
        "{log}"
    );
    assert!(!log.contains("so it ends here"), "{log}");
    // The source node keeps its filter and can use it, and the other node serves everything else.
    assert_eq!(from.digest("k"), digest);
    assert_eq!(from.say("BF.MADD k a c"), "[0, 1]");
    assert!(to.say("BF.CARD k").starts_with(&format!("-MOVED {slot} ")));
    assert_eq!(from.say("DEL k"), "1");
    fill(&mut from);
    let digest = from.digest("k");
    move_slot_at_once(&cluster);
    assert_moved(&cluster, &digest);
}

fn slot_migration_ignores_the_byte_limit_and_clients_do_not(site: &Site) {
    let at_once = migrates_slots_at_once(&mut site.start().client());
    let ways: &[fn(&Cluster)] = if at_once { &[move_slot, move_slot_at_once] } else { &[move_slot] };
    for move_slot in ways {
        let cluster = Cluster::start(site);
        let (mut from, mut to) = (cluster.first.client(), cluster.second.client());
        let digest = fill(&mut from);
        let payload = from.bytes(&["DUMP", "k"]);
        for client in [&mut from, &mut to] {
            assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 1024"), "+OK");
        }
        // In a slot that the node owns, and in another slot of it.
        for key in ["{k}2", "other"] {
            let reply = from.ask(&[b"RESTORE", key.as_bytes(), b"0", &payload]);
            assert_eq!(reply, "-ERR Bad data format", "{key}");
        }
        move_slot(&cluster);
        let slot = to.int("CLUSTER KEYSLOT k");
        assert_eq!(to.digest("k"), digest);
        assert!(from.say("BF.CARD k").starts_with(&format!("-MOVED {slot} ")));
        // The other node owns the slot now, and applies the limit to its clients.
        let reply = to.ask(&[b"RESTORE", b"{k}2".as_slice(), b"0", &payload]);
        assert_eq!(reply, "-ERR Bad data format");
        assert!(cluster.second.log().contains("more than bf.max-filter-bytes (1024)"));
        assert_eq!(to.int("EXISTS {k}2"), 0);
    }
}

fn a_node_redirects_commands_by_their_key(site: &Site) {
    let cluster = Cluster::start(site);
    let mut other = cluster.second.client();
    let commands = [
        "BF.RESERVE k 0.01 10",
        "BF.ADD k a",
        "BF.MADD k a b",
        "BF.INSERT k ITEMS a",
        "BF.EXISTS k a",
        "BF.MEXISTS k a b",
        "BF.INFO k",
        "BF.CARD k",
        "BF.DEBUG k",
        "BF.SCANDUMP k 0",
        "BF.LOADCHUNK k 1 x",
    ];
    let slot = other.int("CLUSTER KEYSLOT k");
    let moved = format!("-MOVED {slot} 127.0.0.1:{}", cluster.first.port());
    for command in commands {
        assert_eq!(other.say(command), moved, "{command}");
    }
}
