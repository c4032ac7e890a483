//! Tests which commands are replicated: only those that change a filter. `journeys` compares filters of every kind on
//! replicas.

use crate::harness::{Raw, Server, Site, Test, tests};
use crate::journeys::{append_only, rewrite, strict};
use crate::support::dialogues::replicated;

pub(crate) const TESTS: &[Test] = tests![
    only_changes_are_replicated,
    scripts_and_transactions_replicate_effects,
    a_replica_starts_from_its_own_append_only_file,
    a_server_without_the_module_gets_no_filter,
];

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

    /// Returns the commands up to a marker, without their times and connections. Omits SELECT, INFO, and the commands
    /// that keep the link alive.
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
    let primary = site.start();
    let replica = primary.replica(strict(site.launch()));
    let mut client = primary.client();
    client.say("SET string text");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let mut watch = Watch::of(&replica);
    for (sent, replicated) in replicated() {
        let counts = ["master_repl_offset", "rdb_changes_since_last_save"];
        let before = counts.map(|field| client.info_number(field));
        client.say(&sent);
        // If the filter is unchanged, so are the primary's replication offset and its count of changes.
        let after = counts.map(|field| client.info_number(field));
        assert_eq!(before == after, replicated.is_empty(), "{sent}");
        client.say("INCR end-marker");
        let expected = if replicated.is_empty() { vec![] } else { vec![words(&replicated)] };
        assert_eq!(watch.until("\"INCR\" \"end-marker\""), expected, "{sent}");
    }
    assert_eq!(replica.client().say("DEBUG DIGEST"), client.say("DEBUG DIGEST"));
}

fn scripts_and_transactions_replicate_effects(site: &Site) {
    let primary = site.start();
    let replica = primary.replica(strict(site.launch()));
    let mut client = primary.client();
    let script = "redis.call('BF.ADD', KEYS[1], 'a') redis.call('BF.MADD', KEYS[1], 'a', 'b') return 1";
    assert_eq!(client.ask(&["EVAL", script, "1", "scripted"]), "1");
    for command in
        ["MULTI", "BF.ADD multi a", "BF.ADD multi a", "BF.RESERVE multi2 0.1 5", "BF.MADD multi2 x y"]
    {
        client.say(command);
    }
    assert_eq!(client.say("EXEC"), "[1, 0, +OK, [1, 1]]");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().say("DEBUG DIGEST"), client.say("DEBUG DIGEST"));
}

/// A replica writes to its file what it was sent, and not more.
fn a_replica_starts_from_its_own_append_only_file(site: &Site) {
    let primary = site.start();
    let replica = primary.replica(append_only(strict(site.launch()), "no"));
    // Until its first rewrite after the synchronisation has ended, it would start with nothing.
    rewrite(&mut replica.client());
    let mut client = primary.client();
    for (sent, _) in replicated() {
        client.say(&sent);
    }
    let mut client = primary.client();
    // The last source keys look like the time of a replicated merge.
    for key in ["source", "AT", "5"] {
        client.say(&format!("BF.ADD {key} {key}"));
    }
    assert_eq!(client.say("BF.MERGE merged source AT 5"), "+OK");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let mut follower = replica.client();
    let (digest, keys) = (follower.digest("merged"), follower.int("DBSIZE"));
    drop(primary);
    let restarted = replica.restart_as(|launch| launch.with("replicaof no one"));
    let mut follower = restarted.client();
    assert_eq!((follower.digest("merged"), follower.int("DBSIZE")), (digest, keys));
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
    // Restarted with the module and without data, the replica is synchronized again.
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
