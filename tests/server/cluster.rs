//! Cluster mode: a slot is migrated with its filter.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::harness::{Client, Cluster, Site, Test, show, skip, tests, wait_until};
use crate::import::redisson;
use crate::kinds::{KINDS, make};
use crate::surface::user;

pub(crate) const TESTS: &[Test] = tests![
    a_filter_moves_with_its_slot,
    a_filter_moves_in_an_atomic_slot_migration,
    filters_of_every_kind_move_there_and_back_under_writes,
    a_source_in_a_migrating_slot_returns_tryagain,
    a_failed_slot_migration_leaves_the_filter_at_its_source,
    slot_migration_ignores_the_byte_limit_and_clients_do_not,
    a_node_redirects_commands_by_their_key,
    io_threads_never_call_the_module,
    keys_in_several_slots_are_refused,
    a_script_over_two_slots_changes_no_reply,
];

/// Starts two connected nodes. The first node owns every slot.
fn start(site: &Site) -> Cluster {
    Cluster::start([site.launch(), site.launch()], 1)
}

fn fill(client: &mut Client) -> String {
    assert_eq!(client.say("BF.RESERVE k 0.001 10"), "+OK");
    for item in 0..700 {
        client.say(&format!("BF.ADD k item-{item}"));
    }
    client.digest("k")
}

fn assert_moved(cluster: &Cluster, digest: &str) {
    let (mut from, mut to) = (cluster.client(0), cluster.client(1));
    let slot = to.int("CLUSTER KEYSLOT k");
    assert_eq!(to.digest("k"), digest);
    for item in 0..700 {
        assert_eq!(to.int(&format!("BF.EXISTS k item-{item}")), 1);
    }
    let moved = format!("-MOVED {slot} 127.0.0.1:{}", cluster.nodes[1].port());
    assert_eq!(from.say("BF.EXISTS k item-0"), moved);
    assert_eq!(from.say("BF.ADD k item-0"), moved);
    assert_eq!(to.int("BF.ADD k something-new"), 1);
}

fn a_filter_moves_with_its_slot(site: &Site) {
    let cluster = start(site);
    let digest = fill(&mut cluster.client(0));
    move_slot(&cluster);
    assert_moved(&cluster, &digest);
}

/// Moves the slot of the key `k` with its keys, as `redis-cli --cluster` does, and checks the state halfway.
fn move_slot(cluster: &Cluster) {
    let (mut from, mut to) = (cluster.client(0), cluster.client(1));
    let slot = from.int("CLUSTER KEYSLOT k");
    from.say("BF.ADD {k}source x");
    cluster.begin_move(slot, 0, 1);
    // Both keys are still on the first node, which serves them while the slot is moving.
    assert_eq!(from.say("BF.EXISTS k item-0"), "1");
    assert_eq!(from.say("BF.ADD k item-0"), "0");
    let keys = from.say(&format!("CLUSTER GETKEYSINSLOT {slot} 10"));
    assert!(["[\"k\", \"{k}source\"]", "[\"{k}source\", \"k\"]"].contains(&keys.as_str()), "{keys}");
    cluster.migrate("{k}source", 0, 1);
    // A command with two keys has to wait until both are on one node.
    let reply = from.say("BF.MERGE k {k}source FORCE");
    assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
    cluster.migrate("k", 0, 1);
    let ask = format!("-ASK {slot} 127.0.0.1:{}", cluster.nodes[1].port());
    assert_eq!(from.say("BF.EXISTS k item-0"), ask);
    assert_eq!(from.say("BF.MADD k a b"), ask);
    assert_eq!(to.say("ASKING"), "+OK");
    assert_eq!(to.say("BF.MEXISTS k item-0 item-499"), "[1, 1]");
    cluster.end_move(slot, 1);
}

/// A command that reads several keys replies TRYAGAIN on the new node, as PFMERGE does, until all of them are there.
fn a_source_in_a_migrating_slot_returns_tryagain(site: &Site) {
    const NOT_FOUND: &str = "-ERR not found: the source '{k}none' does not exist";
    const NO_STRING: &str = "-ERR there is no string at the source key";
    const TRY_AGAIN: &str = "-TRYAGAIN";
    let cluster = start(site);
    let (mut from, mut to) = (cluster.client(0), cluster.client(1));
    let slot = from.int("CLUSTER KEYSLOT k");
    for line in ["BF.ADD {k}a x", "BF.ADD {k}b y", "PFADD {k}p x", "SETBIT {k}s 7 1", "SETBIT k 2 1"] {
        assert!(!from.say(line).starts_with('-'), "{line}");
    }
    from.say("HSET {k}:config size 700 hashIterations 5 expectedInsertions 50");
    let merge = ["BF.MERGE {k}d {k}a", "BF.MERGE {k}d {k}a {k}b FORCE", "BF.MERGE {k}a {k}b"];
    let import = "BF.IMPORT {k}i SOURCE {k}s SCHEME go-zero BITS 900 REPLACE";
    let settings = "BF.IMPORT {k}r SOURCE k SCHEME redisson REPLACE";
    cluster.begin_move(slot, 0, 1);
    assert_eq!(to.say("ASKING"), "+OK");
    assert!(to.say("PFMERGE {k}q {k}p").starts_with(TRY_AGAIN));
    // Sends a command after ASKING, directly and in a script. Both ways must give the same kind of reply.
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
    for line in merge.into_iter().chain([import, settings]) {
        let reply = asked(line);
        assert!(reply.starts_with(TRY_AGAIN), "{line}: {reply}");
    }
    // Two keys are on the new node now. Commands that need other keys still reply TRYAGAIN.
    for key in ["{k}a", "k"] {
        cluster.migrate(key, 0, 1);
    }
    for line in [merge[1], merge[2], import, settings] {
        let reply = asked(line);
        assert!(reply.starts_with(TRY_AGAIN), "{line}: {reply}");
    }
    assert_eq!(asked(merge[0]), "+OK");
    for key in ["{k}b", "{k}s", "{k}:config", "{k}p"] {
        cluster.migrate(key, 0, 1);
    }
    for line in merge.into_iter().chain([import, settings]) {
        assert_eq!(asked(line), "+OK", "{line}");
    }
    // While the slot is migrating, a missing key may be on the other node.
    assert!(asked("BF.MERGE {k}d {k}none").starts_with(TRY_AGAIN));
    cluster.end_move(slot, 1);
    assert_eq!(to.say("BF.MERGE {k}d {k}none"), NOT_FOUND);
    assert_eq!(to.say("BF.MERGE {k}none {k}none"), NOT_FOUND);
    let reply = to.say("BF.IMPORT {k}i SOURCE {k}none SCHEME go-zero BITS 900 REPLACE");
    assert!(reply.starts_with(NO_STRING), "{reply}");
}

fn a_filter_moves_in_an_atomic_slot_migration(site: &Site) {
    let cluster = start(site);
    let mut from = cluster.client(0);
    let migrator = Migrator::of(&mut from);
    // Redis from 8.4 and Valkey from 9.0 on move slots atomically. If another server does, this assertion fails.
    let is_known = site.from(Some((8, 4)), Some((9, 0)));
    assert!(migrator.is_some() == is_known || site.is_in_development(), "{migrator:?}");
    let Some(migrator) = migrator else { return skip(NO_MIGRATOR) };
    let digest = fill(&mut from);
    migrator.move_slot(&cluster, "k", 0, 1);
    assert_moved(&cluster, &digest);
}

/// Why a test of atomic slot migration is skipped.
const NO_MIGRATOR: &str = "this server has no atomic slot migration";

/// The command of a server that moves slots atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Migrator {
    /// `CLUSTER MIGRATION IMPORT` of Redis, at the new node.
    Import,
    /// `CLUSTER MIGRATESLOTS` of Valkey, at the former node.
    MigrateSlots,
}

impl Migrator {
    /// Returns the command of a server; `None` if it has none.
    pub(crate) fn of(client: &mut Client) -> Option<Self> {
        let mut has = |name: &str| client.say(&format!("COMMAND INFO CLUSTER|{name}")) != "[nil]";
        if has("MIGRATESLOTS") {
            Some(Self::MigrateSlots)
        } else if has("MIGRATION") {
            Some(Self::Import)
        } else {
            None
        }
    }

    /// Moves the slot of a key, and waits until both nodes say so.
    pub(crate) fn move_slot(self, cluster: &Cluster, key: &str, from: usize, to: usize) {
        let node = cluster.id(to);
        let (mut from, mut to) = (cluster.client(from), cluster.client(to));
        let slot = from.int(&format!("CLUSTER KEYSLOT {key}"));
        match self {
            Self::Import => {
                let task = to.say(&format!("CLUSTER MIGRATION IMPORT {slot} {slot}"));
                assert!(!task.starts_with('-'), "{task}");
            }
            Self::MigrateSlots => {
                let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {node}");
                assert_eq!(from.say(&line), "+OK");
            }
        }
        let card = format!("BF.CARD {key}");
        wait_until("slot moved", || from.say(&card).starts_with("-MOVED"));
        wait_until("slot taken", || !to.say(&card).starts_with('-'));
    }
}

/// Adds items to filters until it is told to stop, at the node that has them. Returns for each filter the items that were
/// accepted.
fn add_until(is_done: &AtomicBool, mut nodes: [Client; 2], keys: &[String]) -> Vec<Vec<String>> {
    let mut accepted = vec![Vec::new(); keys.len()];
    let mut node = 0;
    for batch in 0.. {
        if is_done.load(Relaxed) {
            break;
        }
        for (key, accepted) in keys.iter().zip(&mut accepted) {
            let items: Vec<String> = (0..5).map(|number| format!("item-{batch}-{number}")).collect();
            let line = format!("BF.MADD {key} {}", items.join(" "));
            let mut reply = nodes[node].say(&line);
            while reply.starts_with('-') {
                // The slot has moved, or is about to. The items are not accepted.
                node = 1 - node;
                reply = nodes[node].say(&line);
            }
            if !reply.contains("ERR") {
                accepted.extend(items);
            }
        }
    }
    accepted
}

fn filters_of_every_kind_move_there_and_back_under_writes(site: &Site) {
    let cluster = start(site);
    let mut client = cluster.client(0);
    let Some(migrator) = Migrator::of(&mut client) else { return skip(NO_MIGRATOR) };
    // Unions are made of filters with other keys.
    let kinds = KINDS.iter().filter(|(name, _)| !name.starts_with("united"));
    let mut keys: Vec<String> = Vec::new();
    for (name, kind) in kinds {
        keys.push(format!("{{k}}{name}"));
        make(&mut client, kind, keys.last().unwrap(), "1000", "");
    }
    assert_eq!(client.say("BF.MERGE {k}united {k}scaling {k}redisbloom {k}valkey-bloom FORCE"), "+OK");
    keys.push("{k}united".to_owned());
    let (is_done, nodes) = (AtomicBool::new(false), [cluster.client(0), cluster.client(1)]);
    let accepted = thread::scope(|scope| {
        let adding = scope.spawn(|| add_until(&is_done, nodes, &keys));
        for (from, to) in [(0, 1), (1, 0)] {
            migrator.move_slot(&cluster, "k", from, to);
        }
        is_done.store(true, Relaxed);
        adding.join().unwrap()
    });
    for (key, accepted) in keys.iter().zip(&accepted) {
        assert!(accepted.len() >= 5, "{key}");
        assert_eq!(client.ones(&format!("BF.MEXISTS {key}"), accepted), accepted.len(), "{key}");
    }
}

fn a_failed_slot_migration_leaves_the_filter_at_its_source(site: &Site) {
    // In Redis the filter is then on neither node: docs/clusters.md.
    if Migrator::of(&mut site.start().client()) != Some(Migrator::MigrateSlots) {
        return skip("this server has no CLUSTER MIGRATESLOTS");
    }
    if site.hides_memory() {
        return;
    }
    let cramped = site.launch().with_address_space_mib(600).expecting("CRITICAL");
    let cluster = Cluster::start([site.launch(), cramped], 1);
    let (mut from, mut to) = (cluster.client(0), cluster.client(1));
    assert_eq!(to.int("DBSIZE"), 0);
    // Takes about 800 MB of address space, but no memory until it is used.
    assert_eq!(from.say("BF.RESERVE k 0.01 600000000"), "+OK");
    assert_eq!(from.say("BF.MADD k a b"), "[1, 1]");
    let digest = from.digest("k");
    let slot = from.int("CLUSTER KEYSLOT k");
    let command = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", cluster.id(1));
    assert_eq!(from.say(&command), "+OK");
    for server in [&cluster.nodes[0], &cluster.nodes[1]] {
        let mut client = server.client();
        wait_until("the migration fails", || {
            show(&client.call(&["CLUSTER", "GETSLOTMIGRATIONS"])).contains("\"failed\"")
        });
    }
    let log = cluster.nodes[1].log();
    assert!(
        log.contains("slot-import-target is sending an error") && log.contains("'bf.loadchunk'"),
        "{log}"
    );
    assert!(!log.contains("so it ends here"), "{log}");
    // The source node keeps its filter and can use it. The target node keeps running and redirects to the source.
    assert_eq!(from.digest("k"), digest);
    assert_eq!(from.say("BF.MADD k a c"), "[0, 1]");
    assert!(to.say("BF.CARD k").starts_with(&format!("-MOVED {slot} ")));
    assert_eq!(from.say("DEL k"), "1");
    fill(&mut from);
    let digest = from.digest("k");
    Migrator::MigrateSlots.move_slot(&cluster, "k", 0, 1);
    assert_moved(&cluster, &digest);
}

fn slot_migration_ignores_the_byte_limit_and_clients_do_not(site: &Site) {
    let migrator = Migrator::of(&mut site.start().client()).map(Some);
    for migrator in [None].into_iter().chain(migrator) {
        let cluster = start(site);
        let (mut from, mut to) = (cluster.client(0), cluster.client(1));
        let digest = fill(&mut from);
        let payload = from.bytes(&["DUMP", "k"]);
        for client in [&mut from, &mut to] {
            assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 1024"), "+OK");
        }
        // The first node owns all slots. The limit applies in the slot that will move and in another slot.
        for key in ["{k}2", "other"] {
            let reply = from.ask(&[b"RESTORE", key.as_bytes(), b"0", &payload]);
            assert_eq!(reply, "-ERR Bad data format", "{key}");
        }
        match migrator {
            None => move_slot(&cluster),
            Some(migrator) => migrator.move_slot(&cluster, "k", 0, 1),
        }
        let slot = to.int("CLUSTER KEYSLOT k");
        assert_eq!(to.digest("k"), digest);
        assert!(from.say("BF.CARD k").starts_with(&format!("-MOVED {slot} ")));
        // The second node owns the slot now, and applies the limit to its clients.
        let reply = to.ask(&[b"RESTORE", b"{k}2".as_slice(), b"0", &payload]);
        assert_eq!(reply, "-ERR Bad data format");
        assert!(cluster.nodes[1].log().contains("more than bf.max-filter-bytes (1024)"));
        assert_eq!(to.int("EXISTS {k}2"), 0);
    }
}

fn a_node_redirects_commands_by_their_key(site: &Site) {
    let cluster = start(site);
    let mut other = cluster.client(1);
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
    let moved = format!("-MOVED {slot} 127.0.0.1:{}", cluster.nodes[0].port());
    for command in commands {
        assert_eq!(other.say(command), moved, "{command}");
    }
}

/// In a cluster, Valkey from 8 on finds the keys of commands in I/O threads. For a command with the flag `getkeys-api`
/// it calls the module there, concurrently with the main thread, which the module API does not support.
fn io_threads_never_call_the_module(site: &Site) {
    let launch = site.launch().with("io-threads 4").with("appendonly yes");
    let server = Cluster::start([launch], 1).nodes.remove(0);
    let work = |lines: &[&str]| {
        let mut client = server.client();
        (0..150).for_each(|_| client.pipeline(lines));
    };
    server.client().say("BF.RESERVE {k}source 0.01 100");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| work(&["BF.MERGE {k}dest {k}source"; 20]));
            scope.spawn(|| work(&["BF.IMPORT {k}import EMPTY SCHEME go-zero BITS 900 REPLACE"; 20]));
            scope.spawn(|| work(&["INCR {k}count"; 20]));
        }
    });
    assert_eq!(server.client().say("GET {k}count"), "\"12000\"");
    let server = server.restart();
    wait_until("cluster up", || server.client().say("GET {k}count") == "\"12000\"");
}

fn keys_in_several_slots_are_refused(site: &Site) {
    let cluster = Cluster::start([site.launch()], 1);
    let mut client = cluster.client(0);
    for key in ["{a}1", "{a}2", "{b}1"] {
        client.say(&format!("BF.ADD {key} {key}"));
    }
    client.say("SETBIT {a}s 7 1");
    redisson(&mut client, "{b}users");
    for line in [
        "BF.MERGE {b}1 {a}1",
        "BF.MERGE {a}1 {a}2 {b}1",
        "BF.MERGE {a}1 {a}2 {b}1 FORCE",
        "BF.MERGE {a}1 FORCE",
        "BF.IMPORT {c} SOURCE {a}s SCHEME go-zero BITS 900",
        "BF.IMPORT {c} source {a}s SCHEME go-zero BITS 900",
    ] {
        let reply = client.say(line);
        assert!(reply.starts_with("-CROSSSLOT"), "{line}: {reply}");
    }
    // FORCE is an option after two sources, not a key, so its slot does not matter.
    assert_eq!(client.say("BF.MERGE {a}d {a}1 {a}2 FORCE"), "+OK");
    assert_eq!(client.say("BF.MEXISTS {a}d {a}1 {a}2 {b}1"), "[1, 1, 0]");
    assert_eq!(client.say("BF.IMPORT {a} SOURCE {a}s SCHEME go-zero BITS 900"), "+OK");
    assert_eq!(client.say("BF.IMPORT {b}:bf SOURCE {b}users SCHEME redisson"), "+OK");
    // BF.IMPORT with any origin is refused if no node serves the slot of its key.
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

/// After a script's command with keys in two slots, Valkey 9.1 refuses the calls of modules until it restarts.
fn a_script_over_two_slots_changes_no_reply(site: &Site) {
    let cluster = Cluster::start([site.launch()], 1);
    let mut client = cluster.client(0);
    for line in ["BF.ADD {a}1 x", "BF.ADD {a}2 y", "BF.ADD {b}1 x", "SETBIT {a}s 7 1"] {
        assert_eq!(client.int(line) & !1, 0, "{line}");
    }
    fill(&mut client);
    let payload = client.bytes(&["DUMP", "k"]);
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 1024"), "+OK");
    let mut user = user(&mut client, &cluster.nodes[0], "+@all ~{a}d ~{a}1 ~{a}i ~{b}1");
    let import = |source: &str| format!("BF.IMPORT {{a}}i SOURCE {source} SCHEME go-zero BITS 900 REPLACE");
    let [found, missing, elsewhere] = ["{a}s", "{a}none", "{b}s"].map(import);
    let merge = ["BF.MERGE {a}d {a}1 FORCE", "BF.MERGE {a}d {a}2", "BF.MERGE {a}d {a}1 {a}none"];
    for time in ["before", "after"] {
        for (line, start) in [
            (merge[0], "+OK"),
            (merge[1], "+OK"),
            (merge[2], "-ERR not found"),
            ("BF.MERGE {a}d {b}1", "-CROSSSLOT"),
            (&found, "+OK"),
            (&missing, "-ERR there is no string"),
            (&elsewhere, "-CROSSSLOT"),
        ] {
            let reply = client.say(line);
            assert!(reply.starts_with(start), "{time} the script, {line}: {reply}");
        }
        for (line, start) in [
            (merge[0], "+OK"),
            (merge[1], "-NOPERM"),
            (merge[2], "-NOPERM"),
            ("BF.MERGE {a}d {b}1", "-CROSSSLOT"),
            (&found, "-NOPERM"),
        ] {
            let reply = user.say(line);
            assert!(reply.starts_with(start), "{time} the script, as a user, {line}: {reply}");
        }
        let reply = client.ask(&[b"RESTORE", b"{a}r".as_slice(), b"0", &payload]);
        assert_eq!(reply, "-ERR Bad data format", "{time} the script");
        let script = "return redis.call('MGET', KEYS[1], ARGV[1])";
        let reply = client.ask(&["EVAL", script, "1", "{a}s", "{b}s"]);
        assert!(reply.starts_with('-'), "{reply}");
    }
}
