//! Replicas end up with the same filters, whatever their own defaults, and get only what changed.

use crate::harness::{Client, Raw, Server, Site, Test, tests, wait_until};
use crate::journeys::strict;

pub(crate) const TESTS: &[Test] = tests![
    creation_is_spelt_out_in_full,
    adds_to_a_filter_replicate_only_what_is_new,
    nothing_new_replicates_nothing,
    a_refusal_replicates_only_what_was_added_before,
    refused_commands_replicate_nothing,
    growth_ignores_the_byte_limit_of_the_replica,
    scripts_and_transactions_replicate_effects,
    a_promoted_replica_goes_on,
    a_chain_of_replicas_agrees,
    a_replica_answers_reads_and_refuses_writes,
];

/// A primary, a replica with other defaults that dies of any error from its primary, and a watch on its commands.
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

    /// Waits until the replica has everything this client wrote.
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

    /// What the replica is sent for these commands.
    fn replicated(&mut self, watch: &mut Watch, commands: &[&str]) -> Vec<String> {
        for command in commands {
            self.client.say(command);
        }
        self.client.say("ECHO x");
        self.client.say("INCR end-marker");
        watch.until("\"INCR\" \"end-marker\"")
    }
}

/// The commands that a server carries out.
pub(crate) struct Watch {
    raw: Raw,
}

impl Watch {
    pub(crate) fn of(replica: &Server) -> Self {
        let mut raw = replica.raw();
        assert_eq!(raw.say("MONITOR"), "+OK\r\n");
        Self { raw }
    }

    /// Everything up to a marker, without times, connections, and what keeps the link alive.
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

fn creation_is_spelt_out_in_full(site: &Site) {
    let mut pair = Pair::start(site);
    let mut watch = pair.watch();
    let cases = [
        ("BF.RESERVE r1 0.01 100", "BF.INSERT r1 CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom"),
        (
            "BF.RESERVE r2 1e-3 50 EXPANSION 7",
            "BF.INSERT r2 CAPACITY 50 ERROR 0.001 EXPANSION 7 FORMAT everbloom",
        ),
        (
            "BF.RESERVE r3 0.01 100 NONSCALING",
            "BF.INSERT r3 CAPACITY 100 ERROR 0.01 NONSCALING FORMAT everbloom",
        ),
        (
            "BF.RESERVE r4 0.01 100 EXPANSION 0",
            "BF.INSERT r4 CAPACITY 100 ERROR 0.01 NONSCALING FORMAT everbloom",
        ),
        ("BF.ADD a1 x", "BF.INSERT a1 CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom ITEMS x"),
        ("BF.MADD m1 x y x", "BF.INSERT m1 CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom ITEMS x y"),
        ("BF.INSERT i1 ITEMS x", "BF.INSERT i1 CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom ITEMS x"),
        (
            "bf.insert i2 error 0.5 nonscaling items x x",
            "BF.INSERT i2 CAPACITY 100 ERROR 0.5 NONSCALING FORMAT everbloom ITEMS x",
        ),
        (
            "BF.INSERT i3 CAPACITY 1 NONSCALING ITEMS x y",
            "BF.INSERT i3 CAPACITY 1 ERROR 0.01 NONSCALING FORMAT everbloom ITEMS x",
        ),
    ];
    for (sent, replicated) in cases {
        assert_eq!(pair.replicated(&mut watch, &[sent]), [words(replicated)], "{sent}");
    }
    drop(watch);
    pair.assert_equal(&["r1", "r2", "r3", "r4", "a1", "m1", "i1", "i2", "i3"]);
}

fn adds_to_a_filter_replicate_only_what_is_new(site: &Site) {
    let mut pair = Pair::start(site);
    pair.client.say("BF.MADD k a b c");
    let mut watch = pair.watch();
    pair.replicated(&mut watch, &[]);
    // A single item, a part of several, all of several.
    let one = pair.replicated(&mut watch, &["BF.ADD k d"]);
    assert_eq!(one.len(), 1, "{one:?}");
    assert!(one[0].ends_with("\"k\" \"d\""), "{one:?}");
    let part = pair.replicated(&mut watch, &["BF.MADD k a e b f e"]);
    assert_eq!(part.len(), 1, "{part:?}");
    assert!(part[0].contains("\"e\"") && part[0].contains("\"f\""), "{part:?}");
    let insert = pair.replicated(&mut watch, &["BF.INSERT k CAPACITY 9 ERROR 0.3 ITEMS g h"]);
    assert_eq!(insert.len(), 1, "{insert:?}");
    assert!(insert[0].contains("\"g\" \"h\""), "{insert:?}");
    drop(watch);
    pair.assert_equal(&["k"]);
}

const NO_OPS: &[&str] = &[
    "BF.ADD k a",
    "BF.MADD k a b a",
    "BF.INSERT k ITEMS a b",
    "BF.INSERT k NOCREATE ITEMS b",
    "BF.EXISTS k a",
    "BF.MEXISTS k a z",
    "BF.CARD k",
    "BF.INFO k",
    "BF.DEBUG k",
    "BF.SCANDUMP k 0",
    "BF.ADD full a",
];

const REFUSED: &[&str] = &[
    "BF.RESERVE k 0.01 100",
    "BF.RESERVE s 0.01 100",
    "BF.RESERVE n 0 100",
    "BF.RESERVE n 0.01 1099511627776",
    "BF.ADD full b",
    "BF.MADD full b c",
    "BF.INSERT full ITEMS b",
    "BF.ADD s a",
    "BF.INSERT n NOCREATE ITEMS a",
    "BF.LOADCHUNK k 9 rubbish",
    "BF.LOADCHUNK n 1 rubbish",
    "BF.LOADCHUNK k 1 rubbish",
];

fn nothing_new_replicates_nothing(site: &Site) {
    nothing_is_sent(site, NO_OPS);
}

fn refused_commands_replicate_nothing(site: &Site) {
    nothing_is_sent(site, REFUSED);
}

fn nothing_is_sent(site: &Site, commands: &[&str]) {
    let mut pair = Pair::start(site);
    let client = &mut pair.client;
    client.say("BF.MADD k a b");
    client.say("BF.INSERT full CAPACITY 1 NONSCALING ITEMS a");
    client.say("SET s text");
    pair.sync();
    let mut watch = pair.watch();
    assert_eq!(pair.replicated(&mut watch, commands), Vec::<String>::new());
    drop(watch);
    // The same by the books of the primary: neither its offset nor its count of changes moves.
    pair.sync();
    let books = |client: &mut Client| {
        ["master_repl_offset", "rdb_changes_since_last_save"].map(|field| client.info_number(field))
    };
    let before = books(&mut pair.client);
    for command in commands {
        pair.client.say(command);
        assert_eq!(books(&mut pair.client), before, "{command}");
    }
    pair.assert_equal(&["k", "full"]);
}

fn a_refusal_replicates_only_what_was_added_before(site: &Site) {
    let mut pair = Pair::start(site);
    pair.client.say("BF.RESERVE k 0.0001 3 NONSCALING");
    pair.client.say("BF.ADD k a");
    pair.sync();
    let mut watch = pair.watch();
    let sent = pair.replicated(&mut watch, &["BF.MADD k a b c d e"]);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].ends_with("\"b\" \"c\""), "{sent:?}");
    let sent = pair.replicated(&mut watch, &["BF.INSERT n CAPACITY 2 NONSCALING ITEMS x y z w"]);
    assert_eq!(sent, [words("BF.INSERT n CAPACITY 2 ERROR 0.01 NONSCALING FORMAT everbloom ITEMS x y")]);
    drop(watch);
    pair.assert_equal(&["k", "n"]);
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

fn a_promoted_replica_goes_on(site: &Site) {
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
    // Now it is the one whose limit counts.
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 1048576"), "+OK");
    let added = (300..900).filter(|item| client.say(&format!("BF.ADD k item-{item}")) == "1").count();
    assert!(added > 500, "{added}");
    // And the old primary's successor follows it.
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

fn a_replica_answers_reads_and_refuses_writes(site: &Site) {
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
