//! Replicas get the same filters, whatever their own defaults are, and only the changes are replicated.

use crate::harness::{Client, Raw, Server, Site, Test, tests, wait_until};
use crate::journeys::strict;
use crate::support::dialogues::replicated::REPLICATED;

pub(crate) const TESTS: &[Test] = tests![
    only_changes_are_replicated,
    growth_ignores_the_byte_limit_of_the_replica,
    tables_grow_and_shrink_alike_on_replicas,
    scripts_and_transactions_replicate_effects,
    a_promoted_replica_accepts_writes,
    a_chain_of_replicas_agrees,
    a_replica_serves_reads_and_refuses_writes,
    a_server_without_the_module_gets_no_filter,
];

/// A primary, a replica with other defaults that exits on any error from its primary, and a watch on its commands.
struct Pair {
    primary: Server,
    replica: Server,
    client: Client,
}

impl Pair {
    fn start(site: &Site) -> Self {
        let primary = site.start();
        let replica = primary.replica(strict(site.launch()));
        let client = primary.client();
        Self { primary, replica, client }
    }

    /// Waits until the replica has everything that this client wrote.
    fn sync(&mut self) {
        self.client.say("INCR sync-marker");
        assert_eq!(self.client.int("WAIT 1 60000"), 1, "the replica does not follow");
    }

    fn assert_equal(&mut self, keys: &[&str]) {
        self.sync();
        let mut replica = self.replica.client();
        for key in keys {
            assert_eq!(replica.digest(key), self.client.digest(key), "{key}");
            let debug = format!("BF.DEBUG {key}");
            assert_eq!(replica.say(&debug), self.client.say(&debug));
        }
        assert_eq!(replica.int("DBSIZE"), self.client.int("DBSIZE"));
    }

    fn watch(&self) -> Watch {
        Watch::of(&self.replica)
    }

    /// Returns what these commands replicate.
    fn replicated(&mut self, watch: &mut Watch, commands: &[&str]) -> Vec<String> {
        for command in commands {
            self.client.say(command);
        }
        self.client.say("ECHO x");
        self.client.say("INCR end-marker");
        watch.until("\"INCR\" \"end-marker\"")
    }
}

/// Records the commands that a server runs.
pub(crate) struct Watch {
    raw: Raw,
}

impl Watch {
    pub(crate) fn of(replica: &Server) -> Self {
        let mut raw = replica.raw();
        assert_eq!(raw.say("MONITOR"), "+OK\r\n");
        Self { raw }
    }

    /// Returns everything up to a marker, without times, connections, and commands that keep the link alive.
    pub(crate) fn until(&mut self, marker: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let line = String::from_utf8_lossy(&self.raw.next()).trim_end().to_owned();
            let command = line.split_once("] ").map_or("", |(_, command)| command).to_owned();
            if command.eq_ignore_ascii_case(marker) {
                return seen;
            }
            let noise = ["\"SELECT\"", "\"PING\"", "\"REPLCONF\"", "\"INFO\""];
            if !noise.iter().any(|word| command.to_uppercase().starts_with(word)) {
                seen.push(command);
            }
        }
    }
}

fn words(line: &str) -> String {
    line.split_whitespace().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ")
}

fn only_changes_are_replicated(site: &Site) {
    let mut pair = Pair::start(site);
    pair.client.say("SET string text");
    pair.sync();
    let mut watch = pair.watch();
    for (sent, replicated) in REPLICATED {
        let expected = if replicated.is_empty() { vec![] } else { vec![words(replicated)] };
        assert_eq!(pair.replicated(&mut watch, &[sent]), expected, "{sent}");
    }
    drop(watch);
    // Neither the replication offset of the primary nor its count of changes increases.
    pair.sync();
    let counts = |client: &mut Client| {
        ["master_repl_offset", "rdb_changes_since_last_save"].map(|field| client.info_number(field))
    };
    let before = counts(&mut pair.client);
    for (command, _) in REPLICATED.iter().filter(|(_, replicated)| replicated.is_empty()) {
        pair.client.say(command);
        assert_eq!(counts(&mut pair.client), before, "{command}");
    }
    pair.assert_equal(&["a", "b", "c", "d", "NONSCALING", "e", "f", "g", "h", "i", "k"]);
}

fn growth_ignores_the_byte_limit_of_the_replica(site: &Site) {
    let mut pair = Pair::start(site);
    assert_eq!(pair.client.say("BF.RESERVE large 0.001 1000000"), "+OK");
    for item in 0..3000 {
        pair.client.say(&format!("BF.ADD k item-{item}"));
    }
    pair.assert_equal(&["large", "k"]);
    let size = pair.client.say("BF.INFO k SIZE");
    assert!(size.trim_matches(['[', ']']).parse::<u64>().unwrap() > 1024, "{size}");
}

fn tables_grow_and_shrink_alike_on_replicas(site: &Site) {
    let mut pair = Pair::start(site);
    let keys = ["add", "insert", "counting", "window", "reserved", "by-option"];
    for (key, line) in keys.iter().zip([
        "BF.ADD add x",
        "BF.INSERT insert ERROR 0.001 EXPANSION 3 ITEMS x",
        "BF.INSERT counting COUNTING ITEMS x",
        "BF.RESERVE window 0.01 100 WINDOW 86400",
        "BF.RESERVE reserved 0.01 100",
    ]) {
        assert!(!pair.client.say(line).starts_with('-'), "{key}");
    }
    // Settings of the primary are replicated too.
    assert_eq!(pair.client.say("CONFIG SET bf.initial-size 90"), "+OK");
    pair.client.say("BF.ADD by-option x");
    // Enough for several segments.
    let items = |range: std::ops::Range<u32>| range.map(|item| format!(" {item}")).collect::<String>();
    let grow = |pair: &mut Pair, keys: &[&str], from: u32| {
        for key in keys {
            for from in (from..from + 9000).step_by(1500) {
                pair.client.say(&format!("BF.MADD {key}{}", items(from..from + 1500)));
            }
        }
        pair.assert_equal(keys);
    };
    grow(&mut pair, &keys, 0);
    for (key, filters) in keys.iter().zip([1, 1, 1, 1, 2, 2]) {
        assert_eq!(pair.client.say(&format!("BF.INFO {key} FILTERS")), format!("[{filters}]"), "{key}");
    }
    // A table and its state are saved and copied with the filter.
    let mut all = keys.to_vec();
    for (from, to) in [("add", "copy"), ("counting", "counting-copy")] {
        assert_eq!(pair.client.int(&format!("COPY {from} {to}")), 1);
        all.push(to);
    }
    assert_eq!(pair.client.say("DEBUG RELOAD"), "+OK");
    grow(&mut pair, &all, 9000);
    let size = |pair: &mut Pair| {
        let reply = pair.client.say("BF.INFO counting SIZE");
        reply.trim_matches(['[', ']']).parse::<u64>().unwrap()
    };
    let before = size(&mut pair);
    for from in (0..18_000).step_by(1500) {
        for key in ["counting", "counting-copy"] {
            let reply = pair.client.say(&format!("BF.DEL {key}{}", items(from..from + 1500)));
            assert!(!reply.contains('0') && !reply.contains("ERR"), "{reply}");
        }
        if from % 6000 == 0 {
            pair.assert_equal(&all);
        }
    }
    pair.assert_equal(&all);
    assert_eq!(pair.client.int("BF.CARD counting"), 1);
    assert!(size(&mut pair) < before / 20, "{} of {before} bytes", size(&mut pair));
    for (from, to) in [("add", "copy"), ("counting", "counting-copy")] {
        assert_eq!(pair.client.digest(from), pair.client.digest(to));
    }
}

fn scripts_and_transactions_replicate_effects(site: &Site) {
    let mut pair = Pair::start(site);
    let client = &mut pair.client;
    let script = "redis.call('BF.ADD', KEYS[1], 'a') redis.call('BF.MADD', KEYS[1], 'a', 'b') return 1";
    assert_eq!(client.ask(&["EVAL", script, "1", "scripted"]), "1");
    for command in
        ["MULTI", "BF.ADD multi a", "BF.ADD multi a", "BF.RESERVE multi2 0.1 5", "BF.MADD multi2 x y"]
    {
        client.say(command);
    }
    assert_eq!(client.say("EXEC"), "[1, 0, +OK, [1, 1]]");
    client.say("BF.ADD expiring a");
    client.say("PEXPIRE expiring 1");
    wait_until("expiry", || client.int("EXISTS expiring") == 0);
    pair.assert_equal(&["scripted", "multi", "multi2"]);
}

fn a_promoted_replica_accepts_writes(site: &Site) {
    let mut pair = Pair::start(site);
    for item in 0..300 {
        pair.client.say(&format!("BF.ADD k item-{item}"));
    }
    pair.assert_equal(&["k"]);
    let digest = pair.client.digest("k");
    let Pair { primary, replica, .. } = pair;
    drop(primary);
    let mut client = replica.client();
    assert_eq!(client.say("REPLICAOF NO ONE"), "+OK");
    assert_eq!(client.digest("k"), digest);
    for item in 0..300 {
        assert_eq!(client.int(&format!("BF.EXISTS k item-{item}")), 1);
    }
    // Now its own limit applies.
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 1048576"), "+OK");
    let added = (300..900).filter(|item| client.say(&format!("BF.ADD k item-{item}")) == "1").count();
    assert!(added > 500, "{added}");
    // And a replica follows the new primary.
    let follower = replica.replica(site.launch().with("propagation-error-behavior panic"));
    assert_eq!(follower.client().digest("k"), client.digest("k"));
}

fn a_chain_of_replicas_agrees(site: &Site) {
    let mut pair = Pair::start(site);
    let last = pair.replica.replica(site.launch().with("propagation-error-behavior panic"));
    for item in 0..300 {
        pair.client.say(&format!("BF.MADD k item-{item} item-{}", item + 1));
    }
    pair.assert_equal(&["k"]);
    let expected = pair.client.digest("k");
    let mut client = last.client();
    wait_until("the last replica", || {
        client.say("GET sync-marker") != "nil" && client.digest("k") == expected
    });
}

fn a_replica_serves_reads_and_refuses_writes(site: &Site) {
    let mut pair = Pair::start(site);
    pair.client.say("BF.MADD k a b");
    pair.sync();
    let mut replica = pair.replica.client();
    assert_eq!(replica.say("BF.MEXISTS k a b c"), "[1, 1, 0]");
    assert_eq!(replica.int("BF.CARD k"), 2);
    for command in
        ["BF.ADD k c", "BF.MADD k c", "BF.INSERT k ITEMS c", "BF.RESERVE n 0.1 9", "BF.LOADCHUNK k 1 x"]
    {
        let reply = replica.say(command);
        assert_eq!(reply, "-READONLY You can't write against a read only replica.", "{command}");
    }
}

/// The section "Replication" of docs/operations.md.
fn a_server_without_the_module_gets_no_filter(site: &Site) {
    let primary = site.start();
    let mut client = primary.client();
    let bare = || site.launch().without_module();
    // The replica is linked before there is a filter. Its log would fail the test without `expecting`.
    let linked = primary.replica(bare().expecting("CRITICAL"));
    client.say("BF.ADD k a");
    client.say("SET text value");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let mut replica = linked.client();
    assert_eq!(
        (replica.say("KEYS *"), replica.info("master_link_status")),
        ("[\"text\"]".into(), Some("up".into()))
    );
    assert!(replica.info_number("unexpected_error_replies") > 0);
    let log = linked.log();
    assert!(
        log.contains("This replica is sending an error") && log.contains("unknown command 'BF."),
        "{log}"
    );
    // Without its data, it is synchronized again.
    let linked =
        linked.restart_as(|_| strict(site.launch()).with(format!("replicaof 127.0.0.1 {}", primary.port())));
    linked.wait_for_primary();
    assert_eq!(linked.client().digest("k"), client.digest("k"));
    let late = bare().start();
    late.client().say(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let (_, log) = late.expect_end();
    assert!(log.contains("no matching module type 'everbloom'"), "{log}");
    let target = bare().start();
    let reply = client.say(&format!("MIGRATE 127.0.0.1 {} k 0 60000", target.port()));
    assert!(reply.contains("ERR Bad data format"), "{reply}");
    assert!(!target.log().contains("everbloom"), "{}", target.log());
    assert_eq!(client.say("BF.EXISTS k a"), "1");
}
