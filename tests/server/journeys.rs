//! Tests that filters of every kind are unchanged after snapshots, append-only files, copies, replication and
//! migration, and that BF.CLEAR restores the state that a filter was created with.

use crate::dump::{self, travel};
use crate::foreign;
use crate::harness::{Client, Launch, Server, Site, Test, append_only_file, numbered, tests, wait_until};
use crate::kinds::{Filter, KINDS, fill, fill_ambiguous, make};

pub(crate) const TESTS: &[Test] = tests![
    a_snapshot,
    a_background_snapshot_without_compression_or_checksum,
    reloads,
    an_append_only_file_as_sent,
    an_append_only_file_rewritten_as_commands,
    an_append_only_file_rewritten_as_a_snapshot,
    a_rewritten_append_only_file_sent_by_a_client,
    copies_are_equal_on_a_server_and_its_replica,
    replicas_that_join_later,
    migration,
    clearing,
];

/// Sets options that differ from the defaults as much as possible. Loaded and replicated filters do not depend on
/// them.
pub(crate) fn unlike(launch: Launch) -> Launch {
    [
        "bf.error-rate 0.25",
        "bf.initial-size 7",
        "bf.expansion-factor 0",
        "bf.format redisbloom",
        "bf.keyed yes",
        "bf.on-full saturate",
        "bf.max-filter-bytes 1024",
    ]
    .iter()
    .fold(launch, |launch, option| launch.with_option(*option))
}

/// Starts a replica with other options, which exits on any error from its primary.
pub(crate) fn strict(launch: Launch) -> Launch {
    unlike(launch).with("propagation-error-behavior panic")
}

pub(crate) fn append_only(launch: Launch, preamble: &str) -> Launch {
    launch.with("appendonly yes").with("appendfsync always").with(format!("aof-use-rdb-preamble {preamble}"))
}

pub(crate) fn rewrite(client: &mut Client) {
    let running = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"];
    let wait = |client: &mut Client| {
        wait_until("no rewrite", || running.iter().all(|field| client.info_number(field) == 0));
    };
    wait(client);
    let reply = client.say("BGREWRITEAOF");
    assert!(reply.contains("append only file rewriting"), "{reply}");
    wait(client);
    assert_eq!(client.info("aof_last_bgrewrite_status").as_deref(), Some("ok"));
}

/// Returns the bytes of the base file of an append-only file.
pub(crate) fn append_only_base(server: &Server) -> Vec<u8> {
    std::fs::read(append_only_file(server.dir(), ".base.")).unwrap()
}

/// Two sets of filters. Only [`Set::Ambiguous`] needs the setting for the hash of RedisBloom 1.1.
#[derive(Clone, Copy)]
enum Set {
    Every,
    Ambiguous,
}

const SETS: [Set; 2] = [Set::Every, Set::Ambiguous];

impl Set {
    fn launch(self, site: &Site) -> Launch {
        match self {
            Self::Every => site.launch(),
            Self::Ambiguous => site.launch().with_option(foreign::ASSUME),
        }
    }

    /// Creates the filters of the set, and the filter `long-lived` with a time to live. Returns the filters of the set.
    fn fill(self, client: &mut Client) -> Vec<Filter> {
        client.say("BF.ADD long-lived a");
        assert_eq!(client.int("EXPIRE long-lived 100000"), 1);
        match self {
            Self::Every => fill(client),
            Self::Ambiguous => fill_ambiguous(client),
        }
    }
}

/// Checks that the filters are unchanged. Then raises the byte limit and checks that they accept further items.
fn assert_kept(client: &mut Client, filters: &[Filter], way: &str) {
    assert_same(client, filters, way);
    assert!(client.int("TTL long-lived") > 0, "{way}");
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 1gb"), "+OK");
    for filter in filters {
        filter.assert_goes_on(client, &filter.key, way);
    }
}

fn assert_same(client: &mut Client, filters: &[Filter], way: &str) {
    filters.iter().for_each(|filter| filter.assert_same(client, &filter.key, way));
}

/// Fills a server, saves, kills it, restarts it with other options, and checks that it has kept its filters.
fn survive(
    site: &Site,
    way: &str,
    configure: impl Fn(Launch) -> Launch,
    save: impl Fn(&mut Client),
    check: impl Fn(&Server),
) {
    for set in SETS {
        let server = configure(set.launch(site)).start();
        let mut client = server.client();
        let filters = set.fill(&mut client);
        save(&mut client);
        check(&server);
        let server = server.restart_as(unlike);
        assert_kept(&mut server.client(), &filters, way);
    }
}

fn a_snapshot(site: &Site) {
    survive(site, "a snapshot", |launch| launch, |client| assert_eq!(client.say("SAVE"), "+OK"), |_| ());
}

fn a_background_snapshot_without_compression_or_checksum(site: &Site) {
    let save = |client: &mut Client| {
        client.say("BGSAVE");
        wait_until("background save", || client.info_number("rdb_bgsave_in_progress") == 0);
        assert_eq!(client.info("rdb_last_bgsave_status").as_deref(), Some("ok"));
        assert_eq!(client.info_number("rdb_changes_since_last_save"), 0);
    };
    survive(site, "a plain snapshot", |l| l.with("rdbcompression no").with("rdbchecksum no"), save, |_| ());
}

fn reloads(site: &Site) {
    for set in SETS {
        let server = set.launch(site).start();
        let mut client = server.client();
        let filters = set.fill(&mut client);
        for _ in 0..2 {
            assert_eq!(client.say("DEBUG RELOAD"), "+OK");
            assert_same(&mut client, &filters, "DEBUG RELOAD");
        }
        assert_kept(&mut client, &filters, "DEBUG RELOAD");
    }
}

fn an_append_only_file_as_sent(site: &Site) {
    survive(site, "commands as sent", |launch| append_only(launch, "no"), |_| (), |_| ());
}

fn an_append_only_file_rewritten_as_commands(site: &Site) {
    survive(
        site,
        "rewritten commands",
        |launch| append_only(launch, "no"),
        rewrite,
        |server| {
            let has_chunks = append_only_base(server).windows(12).any(|window| window == b"BF.LOADCHUNK");
            assert!(has_chunks, "the file holds no commands of ours");
        },
    );
}

fn an_append_only_file_rewritten_as_a_snapshot(site: &Site) {
    survive(
        site,
        "a preamble",
        |launch| append_only(launch, "yes"),
        rewrite,
        |server| {
            let base = append_only_base(server);
            assert!(base.starts_with(b"REDIS") || base.starts_with(b"VALKEY"), "the file is no snapshot");
        },
    );
}

/// Does what docs/migrating-from-redisbloom.md does with `redis-cli --pipe`.
fn a_rewritten_append_only_file_sent_by_a_client(site: &Site) {
    for set in SETS {
        let server = append_only(set.launch(site), "no").start();
        let mut client = server.client();
        let filters = set.fill(&mut client);
        rewrite(&mut client);
        let mut commands = append_only_base(&server);
        commands.extend_from_slice(b"*2\r\n$4\r\nECHO\r\n$8\r\nall sent\r\n");
        let target = set.launch(site).start();
        let mut raw = target.raw();
        let mut reply = raw.raw(&commands);
        while !reply.ends_with(b"all sent\r\n") {
            assert!(!reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
            reply = raw.next();
        }
        assert_kept(&mut target.client(), &filters, "a pipe");
    }
}

/// A way to copy the filter `from` to the vacant key `to`.
type Copy = fn(client: &mut Client, from: &str, to: &str);

/// The ways to copy a filter whose copy is equal to the original. The last way, RENAME, removes the original.
const COPIES: &[(&str, Copy)] = &[
    ("COPY", |client, from, to| assert_eq!(client.int(&format!("COPY {from} {to}")), 1)),
    ("COPY and MOVE", |client, from, to| {
        assert_eq!(client.int(&format!("COPY {from} {to} DB 1")), 1);
        assert_eq!(client.say("SELECT 1"), "+OK");
        assert_eq!(client.int(&format!("MOVE {to} 0")), 1);
        assert_eq!(client.say("SELECT 0"), "+OK");
    }),
    ("chunks", travel),
    ("DUMP and RESTORE", |client, from, to| {
        let payload = client.bytes(&["DUMP", from]);
        assert_eq!(foreign::restore(client, to, &payload), "+OK", "{from}");
        assert_eq!(client.bytes(&["DUMP", to]), payload, "{from}");
        assert_eq!(foreign::restore(client, to, &payload), "-BUSYKEY Target key name already exists.");
        // RESTORE also replaces an existing filter, and sets a time to live.
        assert_eq!(client.ask(&[b"RESTORE", to.as_bytes(), b"50000", &payload, b"REPLACE"]), "+OK");
        assert_eq!(client.int(&format!("PERSIST {to}")), 1);
    }),
    ("RENAME", |client, from, to| assert_eq!(client.say(&format!("RENAME {from} {to}")), "+OK")),
];

fn copies_are_equal_on_a_server_and_its_replica(site: &Site) {
    for set in SETS {
        let server = set.launch(site).start();
        let replica = server.replica(strict(set.launch(site)));
        let (mut client, mut follower) = (server.client(), replica.client());
        let filters = set.fill(&mut client);
        let in_step = |client: &mut Client| {
            client.say("INCR sync-marker");
            assert_eq!(client.int("WAIT 1 60000"), 1, "the replica does not follow");
        };
        in_step(&mut client);
        assert_same(&mut follower, &filters, "replication");
        for filter in &filters {
            let key = &filter.key;
            client.say(&format!("BF.MERGE merged {key} FORCE"));
            filter.assert_members(&mut client, "merged", "BF.MERGE");
            // Loads only the first two chunks of a dump.
            for (iterator, data) in dump::chunks(&mut client, key).into_iter().take(2) {
                assert_eq!(dump::load(&mut client, "half", iterator, &data), "+OK", "{key}");
            }
            in_step(&mut client);
            for copy in ["merged", "half"] {
                assert_eq!(follower.digest(copy), client.digest(copy), "{key} {copy}");
            }
            client.say("DEL merged half");
            for (way, copy) in COPIES {
                copy(&mut client, key, "copied");
                filter.assert_same(&mut client, "copied", way);
                filter.assert_goes_on(&mut client, "copied", way);
                in_step(&mut client);
                assert_eq!(follower.digest("copied"), client.digest("copied"), "{key} {way}");
                client.say("DEL copied");
            }
            if let Some(blob) = filter.recorded.as_ref().and_then(|case| case.blob()) {
                assert_eq!(client.ask(&[b"BF.LOAD".as_slice(), b"copied", &blob]), "+OK");
                in_step(&mut client);
                filter.assert_same(&mut follower, "copied", "BF.LOAD");
                client.say("DEL copied");
            }
        }
        in_step(&mut client);
        assert_eq!(follower.int("DBSIZE"), client.int("DBSIZE"));
    }
}

fn replicas_that_join_later(site: &Site) {
    for set in SETS {
        let primary = set.launch(site).start();
        let mut client = primary.client();
        let filters = set.fill(&mut client);
        for diskless in ["yes", "no"] {
            client.say(&format!("CONFIG SET repl-diskless-sync {diskless}"));
            for load in ["disabled", "swapdb"] {
                let replica = strict(set.launch(site)).with(format!("repl-diskless-load {load}"));
                let replica = primary.replica(replica);
                let mut promoted = replica.client();
                assert_eq!(promoted.say("REPLICAOF NO ONE"), "+OK");
                assert_kept(&mut promoted, &filters, &format!("diskless {diskless}, load {load}"));
            }
        }
    }
}

fn migration(site: &Site) {
    for set in SETS {
        let (server, target) = (set.launch(site).start(), unlike(set.launch(site)).start());
        let (mut client, mut there) = (server.client(), target.client());
        let filters = set.fill(&mut client);
        assert_eq!(there.say("CONFIG SET bf.max-filter-bytes 1gb"), "+OK");
        let port = target.port().to_string();
        let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "60000", "KEYS", "long-lived"];
        let words: Vec<&str> =
            words.into_iter().chain(filters.iter().map(|filter| filter.key.as_str())).collect();
        assert_eq!(client.ask(&words), "+OK");
        assert_kept(&mut there, &filters, "MIGRATE");
    }
}

fn clearing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (name, kind) in KINDS {
        let Some(line) = kind.first().filter(|line| line.contains("RESERVE") || line.contains("EMPTY"))
        else {
            continue;
        };
        make(&mut client, &[line], name, "10", "");
        client.say(&format!("PEXPIREAT {name} 4102444800000"));
        // Not MEMORY USAGE, which has a fault in one release (docs/troubleshooting.md).
        let state = |client: &mut Client| (client.digest(name), client.say(&format!("BF.INFO {name} SIZE")));
        let made = state(&mut client);
        for item in numbered("item", 0..50) {
            client.say(&format!("BF.ADD {name} {item}"));
        }
        assert_ne!(client.digest(name), made.0, "{name}");
        assert_eq!(client.say(&format!("BF.CLEAR {name}")), "+OK");
        assert_eq!(state(&mut client), made, "{name}");
        assert_eq!(client.int(&format!("PEXPIRETIME {name}")), 4_102_444_800_000, "{name}");
    }
}
