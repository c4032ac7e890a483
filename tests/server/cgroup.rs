//! A server whose cgroup has little memory: a filter larger than its limit is refused, and so is every block for which
//! it has no memory. The kernel never ends the server.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use redis::Value;

use crate::harness::{Client, Server, Site, Test, numbered, show, skip, tests, wait_until};
use crate::limits::assert_too_large;

pub(crate) const TESTS: &[Test] = tests![
    a_filter_beyond_the_memory_of_the_cgroup_is_refused,
    a_limit_that_was_raised_is_read_again,
    reserved_memory_is_left_to_its_filters,
    reserved_memory_is_free_again_after_its_filters,
    replicas_and_loads_accept_reserved_filters,
    a_full_cgroup_ends_no_server
];

/// A control group with a limit of memory. It is removed with this value, after its processes have ended.
struct Cgroup {
    dir: PathBuf,
    files: &'static Files,
}

/// The names of a cgroup's files, and the ones with the number of processes that the kernel has ended.
struct Files {
    parent: &'static str,
    limit: &'static str,
    kills: &'static str,
}

const VERSIONS: [Files; 2] = [
    Files { parent: "/sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", kills: "memory.oom_control" },
    Files { parent: "/sys/fs/cgroup", limit: "memory.max", kills: "memory.events" },
];

impl Cgroup {
    /// Makes a cgroup of version 1 or 2. If the system does not allow it, skips the running test and returns `None`.
    fn make(site: &Site, purpose: &str) -> Option<Self> {
        let name = format!("everbloom-test-{}-{}-{purpose}", std::process::id(), site.name);
        let made = VERSIONS.iter().find_map(|files| {
            let dir = Path::new(files.parent).join(&name);
            // A file system of cgroups has the files in a new directory.
            let made = fs::create_dir(&dir).ok().map(|()| Self { dir, files })?;
            made.dir.join(files.limit).exists().then_some(made)
        });
        if made.is_none() {
            skip("no cgroup can be made here");
        }
        made
    }

    /// Moves a server to the cgroup. Memory that it has written to already does not count.
    fn add(&self, server: &Server) {
        fs::write(self.dir.join("cgroup.procs"), server.pid().to_string()).unwrap();
        // A change of the configuration makes the module look for its cgroup again.
        let mut client = server.client();
        assert_eq!(client.say("CONFIG SET maxmemory-samples 6"), "+OK");
        assert!(client.say("BF.RESERVE first 0.01 1").starts_with('+'));
        assert_eq!(client.int("DEL first"), 1);
    }

    fn limit(&self, bytes: u64) {
        // The system refuses a limit of version 1 until it has dropped enough cached files.
        let file = self.dir.join(self.files.limit);
        wait_until("the limit is set", || fs::write(&file, bytes.to_string()).is_ok());
    }

    /// Returns how many processes the kernel has ended for lack of memory.
    fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.dir.join(self.files.kills)).unwrap();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap().parse().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

fn a_filter_beyond_the_memory_of_the_cgroup_is_refused(site: &Site) {
    let Some(cgroup) = Cgroup::make(site, "limit") else { return };
    let server = site.start();
    let mut client = server.client();
    cgroup.add(&server);
    let mut reserve = |limit_bytes: u64| {
        cgroup.limit(limit_bytes);
        // A change of the configuration makes the module read the limits.
        assert_eq!(client.say("CONFIG SET maxmemory-samples 6"), "+OK");
        client.say("BF.RESERVE k 0.01 100000000")
    };
    assert_too_large(&reserve(64 << 20), &["the memory limit of the cgroup (67108864)"]);
    assert_eq!(reserve(512 << 20), "+OK");
}

/// Kubernetes resizes a pod in place: the server gets no event.
fn a_limit_that_was_raised_is_read_again(site: &Site) {
    let Some(cgroup) = Cgroup::make(site, "raised") else { return };
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE large 0.01 100000000"), "+OK");
    let (payload, digest) = (client.bytes(&["DUMP", "large"]), client.digest("large"));
    assert_eq!(client.int("DEL large"), 1);
    cgroup.add(&server);
    let chain = "BF.RESERVE chain 0.01 2000 EXPANSION 32768 FORMAT redisbloom";
    assert_eq!(client.say(chain), "+OK");
    client.many("BF.MADD chain", &numbered("item", 0..2000));
    type Attempt = (&'static str, fn(&mut Client, &[u8]) -> String);
    let attempts: [Attempt; 3] = [
        ("+OK", |client, _| client.say("BF.RESERVE k 0.01 100000000")),
        ("+OK", |client, payload| client.ask(&[b"RESTORE".as_slice(), b"k", b"0", payload])),
        ("[1]", |client, _| client.say("BF.INSERT chain ITEMS more-1 more-2 more-3 more-4 more-5")),
    ];
    for (expected, attempt) in attempts {
        cgroup.limit(64 << 20);
        assert_eq!(client.say("CONFIG SET maxmemory-samples 6"), "+OK");
        let refused = attempt(&mut client, &payload);
        assert!(refused.contains("-ERR"), "{refused}");
        cgroup.limit(1 << 30);
        let mut reply = String::new();
        // The module reads the limit again after a short rest.
        wait_until("the new limit is read", || {
            reply = attempt(&mut client, &payload);
            !reply.contains("-ERR")
        });
        assert!(reply.starts_with(expected) || reply.starts_with('['), "{reply}");
        if client.int("EXISTS k") == 1 {
            assert_eq!(client.digest("k"), digest);
            assert_eq!(client.int("DEL k"), 1);
        }
    }
    assert_eq!(client.ones("BF.MEXISTS chain", &numbered("item", 0..2000)), 2000);
    assert_eq!(cgroup.kills(), 0);
}

/// The limit of a cgroup that has memory for the server and three filters of [`RESERVE`].
const THREE_FILTERS: u64 = 52 << 20;
/// Reserves a filter of 13 MB.
const RESERVE: &str = "0.01 11000000 NONSCALING";
const REFUSED: &str = "-ERR Insufficient memory to create filter";

/// Starts a server with memory for three filters of [`RESERVE`]; `None` if the system has no cgroups.
fn start_for_three(site: &Site, purpose: &str) -> Option<(Cgroup, Server)> {
    if site.hides_memory() {
        return None;
    }
    let cgroup = Cgroup::make(site, purpose)?;
    // A replica that frees its data in the background reads reserved memory of former filters while it loads the new ones.
    let server = site.launch().with("replica-lazy-flush no").start();
    cgroup.add(&server);
    cgroup.limit(THREE_FILTERS);
    Some((cgroup, server))
}

/// Reserves filters until one is refused. Returns how many were reserved.
fn reserve_until_refused(client: &mut Client, from: usize) -> usize {
    let is_refused = |number: &usize| {
        let reply = client.say(&format!("BF.RESERVE bits-{number} {RESERVE}"));
        assert!(reply == "+OK" || reply == REFUSED, "{reply}");
        reply != "+OK"
    };
    (from..20).find(is_refused).unwrap() - from
}

/// Filters that are reserved take no memory until they are filled. The kernel would end the server then.
fn reserved_memory_is_left_to_its_filters(site: &Site) {
    let Some((cgroup, server)) = start_for_three(site, "reserved") else { return };
    let mut client = server.client();
    assert_eq!(reserve_until_refused(&mut client, 0), 3);
    assert!(server.log().contains("that filters have reserved and not filled yet"));
    // Lookups read the system's page of zeros. This memory is still reserved.
    for number in 0..2 {
        assert_eq!(client.int(&format!("BF.ADD bits-{number} item-0")), 1);
        client.ones(&format!("BF.MEXISTS bits-{number}"), &numbered("absent", 0..20_000));
    }
    assert_eq!(client.say(&format!("BF.RESERVE bits-3 {RESERVE}")), REFUSED);
    assert!(client.say("COPY bits-0 bits-3").starts_with("-ERR"));
    let payload = client.bytes(&["DUMP", "bits-2"]);
    let restored = client.ask(&[b"RESTORE".as_slice(), b"bits-3", b"0", &payload]);
    assert_eq!(restored, "-ERR Bad data format");
    assert_eq!(client.say("CONFIG SET bf.format redisbloom"), "+OK");
    assert_eq!(client.say("CF.RESERVE bits-3 8000000"), REFUSED);
    assert_eq!(client.say("CONFIG SET bf.format everbloom"), "+OK");
    assert_eq!(client.int("EXISTS bits-3"), 0);
    // `maxmemory` below the limit bounds what is reserved, because `used_memory` counts it.
    assert_eq!(client.say("CONFIG SET maxmemory 48mb"), "+OK");
    assert_eq!(client.say(&format!("BF.RESERVE bits-3 {RESERVE}")), "+OK");
    assert_eq!(client.int("DEL bits-3"), 1);
    assert_eq!(client.say("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(client.say(&format!("BF.RESERVE bits-3 {RESERVE}")), REFUSED);
    // Every reserved filter can be filled. A filter of 13 MB has 3,200 pages.
    for number in 0..3 {
        for start in (0..30_000).step_by(5_000) {
            let items = numbered("item", start..start + 5_000);
            client.many(&format!("BF.MADD bits-{number}"), &items);
            assert_eq!(client.ones(&format!("BF.MEXISTS bits-{number}"), &items), 5_000);
        }
    }
    assert_eq!(cgroup.kills(), 0);
    // What is filled counts once: the rest of the memory is free.
    assert_eq!(client.say("BF.RESERVE small 0.01 500000"), "+OK");
    for start in (0..50_000).step_by(5_000) {
        client.many("BF.MADD table", &numbered("item", start..start + 5_000));
    }
    assert_eq!(client.say(&format!("BF.RESERVE bits-3 {RESERVE}")), REFUSED);
    cgroup.limit(2 * THREE_FILTERS);
    assert_eq!(client.say(&format!("BF.RESERVE bits-3 {RESERVE}")), "+OK");
    assert_eq!(cgroup.kills(), 0);
}

/// The sum of what is reserved is right after every command that frees or makes a filter.
fn reserved_memory_is_free_again_after_its_filters(site: &Site) {
    let Some((cgroup, server)) = start_for_three(site, "freed") else { return };
    let mut client = server.client();
    assert_eq!(reserve_until_refused(&mut client, 0), 3);
    let reserve = format!("BF.RESERVE bits-0 {RESERVE}");
    for free in
        ["DEL bits-0", "UNLINK bits-0", "PEXPIRE bits-0 1", "SET bits-0 string", "RENAME bits-1 bits-0"]
    {
        assert!(!client.say(free).starts_with('-'), "{free}");
        if free.starts_with("SET") {
            assert_eq!(client.int("DEL bits-0"), 1);
        }
        if free.starts_with("RENAME") {
            assert_eq!(client.say("RENAME bits-0 bits-1"), "+OK");
        }
        // Some servers free in the background, and expiry takes a moment.
        wait_until(free, || client.say(&reserve) == "+OK");
        assert_eq!(client.say(&format!("BF.RESERVE bits-3 {RESERVE}")), REFUSED, "{free}");
    }
    // A copy, and the second layer of a chain, reserve as much.
    assert_eq!(client.int("DEL bits-0 bits-1"), 2);
    assert_eq!(client.say("COPY bits-2 bits-1"), "1");
    assert_eq!(client.say("BF.RESERVE chain 0.01 1000 EXPANSION 8000 FORMAT redisbloom"), "+OK");
    client.many("BF.MADD chain", &numbered("item", 0..1100));
    assert_eq!(client.say("BF.INFO chain FILTERS"), "[2]");
    assert_eq!(client.say(&reserve), REFUSED);
    assert_eq!(client.say("FLUSHALL SYNC"), "+OK");
    assert_eq!(reserve_until_refused(&mut client, 0), 3);
    // A filter that is cleared is reserved again.
    assert_eq!(client.int("DEL bits-1 bits-2"), 2);
    client.many("BF.MADD bits-0", &numbered("item", 0..20_000));
    assert_eq!(client.say("BF.CLEAR bits-0"), "+OK");
    // The allocator returns the memory of the former bits to the system after some seconds.
    let mut reserved = 0;
    wait_until("the memory of the former bits is free", || {
        reserved += reserve_until_refused(&mut client, 1 + reserved);
        reserved == 2
    });
    assert_eq!(reserve_until_refused(&mut client, 3), 0);
    assert_eq!(cgroup.kills(), 0);
}

/// A replica and a server that loads its data accept every filter. The log has one line.
fn replicas_and_loads_accept_reserved_filters(site: &Site) {
    let Some((cgroup, replica)) = start_for_three(site, "replicated") else { return };
    let primary = site.start();
    let mut client = primary.client();
    for number in 0..2 {
        assert_eq!(client.say(&format!("BF.RESERVE bits-{number} {RESERVE}")), "+OK");
    }
    let mut reader = replica.client();
    assert_eq!(reader.say(&format!("REPLICAOF 127.0.0.1 {}", primary.port())), "+OK");
    replica.wait_for_primary();
    for number in 2..6 {
        assert_eq!(client.say(&format!("BF.RESERVE bits-{number} {RESERVE}")), "+OK");
    }
    assert_eq!(client.int("WAIT 1 10000"), 1);
    let warnings = |server: &Server| server.log().matches("that are not filled yet").count();
    assert_eq!((reader.int("DBSIZE"), warnings(&replica)), (6, 1));
    // A full synchronisation of all.
    assert_eq!(reader.say("REPLICAOF NO ONE"), "+OK");
    assert_eq!(reader.say("FLUSHALL SYNC"), "+OK");
    assert_eq!(reserve_until_refused(&mut reader, 0), 3);
    assert_eq!(reader.say(&format!("REPLICAOF 127.0.0.1 {}", primary.port())), "+OK");
    replica.wait_for_primary();
    assert_eq!((reader.int("DBSIZE"), warnings(&replica)), (6, 2));
    // Once it is a primary, its clients are refused.
    assert_eq!(reader.say("REPLICAOF NO ONE"), "+OK");
    assert_eq!(reserve_until_refused(&mut reader, 6), 0);
    assert_eq!(cgroup.kills(), 0);
}

/// Makes filters that have written to all of their memory: an array of 24 MB, and tables of 2 MB.
fn fill(client: &mut Client) {
    assert_eq!(client.say("BF.RESERVE bits 0.01 20000000"), "+OK");
    for (key, words, items) in [
        ("bits", "ITEMS", 100_000),
        ("table", "ITEMS", 1_000_000),
        ("counting", "COUNTING ITEMS", 100_000),
        ("window", "WINDOW 86400 ITEMS", 100_000),
    ] {
        for start in (0..items).step_by(20_000) {
            let added = numbered("item", start..start + 20_000);
            client.many(&format!("BF.INSERT {key} {words}"), &added);
        }
    }
    for number in 0..10 {
        assert_eq!(client.say(&format!("COPY table table-{number}")), "1");
    }
}

/// Adds new items until one is refused, or all of a batch. Asserts that every acknowledged one is found.
fn grow_until_refused(client: &mut Client, key: &str) {
    let is_refused = |start: usize| {
        let batch = numbered("new", start..start + 1000);
        let words = ["BF.MADD", key].into_iter().chain(batch.iter().map(String::as_str));
        let reply = client.call(&words.collect::<Vec<_>>());
        let Value::Array(replies) = reply else {
            assert_eq!(show(&reply), "-ERR out of memory");
            return true;
        };
        let refused: Vec<_> = replies.iter().map(show).filter(|reply| reply.starts_with('-')).collect();
        assert!(refused.iter().all(|reply| reply == "-ERR problem inserting into filter"), "{refused:?}");
        let acknowledged = batch.iter().zip(&replies).filter(|(_, reply)| !show(reply).starts_with('-'));
        let acknowledged: Vec<_> = acknowledged.map(|(item, _)| item).collect();
        let found = acknowledged.is_empty()
            || client.ones(&format!("BF.MEXISTS {key}"), &acknowledged) == acknowledged.len();
        assert!(found, "{key}");
        !refused.is_empty()
    };
    assert!((0..20_000_000).step_by(1000).any(is_refused), "{key}");
    // Lookups need no memory of the filter.
    assert_eq!(client.ones(&format!("BF.MEXISTS {key}"), &numbered("item", 0..5000)), 5000, "{key}");
}

fn digests_of(client: &mut Client) -> Vec<String> {
    ["bits", "table", "counting", "window"].iter().map(|key| client.digest(key)).collect()
}

/// Rewrites the append-only file. Returns whether the rewrite succeeds.
fn rewrite(client: &mut Client) -> bool {
    assert!(client.say("BGREWRITEAOF").starts_with('+'));
    // It is scheduled while a child saves for a replica.
    let mut is_over = |field: &str| client.info(field).as_deref() == Some("0");
    wait_until("the rewrite ends", || is_over("aof_rewrite_scheduled") && is_over("aof_rewrite_in_progress"));
    client.info("aof_last_bgrewrite_status").as_deref() == Some("ok")
}

fn a_full_cgroup_ends_no_server(site: &Site) {
    if site.hides_memory() {
        return;
    }
    let Some(cgroup) = Cgroup::make(site, "full") else { return };
    let server = site.launch().with("aof-use-rdb-preamble no").start();
    cgroup.add(&server);
    let mut client = server.client();
    fill(&mut client);
    let digest = client.digest("bits");

    // The limit is not configured: the module reads it before it allocates.
    let data_bytes = client.info_number("bf_bytes");
    cgroup.limit(data_bytes / 10 * 13);
    let log = |text: &str| assert!(server.log().contains(text), "no '{text}' in the log");
    assert!(client.say("COPY bits other").starts_with("-ERR"));
    log("memory was not allocated: it needs ");
    log("a filter cannot be copied: out of memory");
    let is_refused = |number: &usize| client.say(&format!("COPY table copy-{number}")).starts_with("-ERR");
    let copies = (0..1000).find(is_refused).unwrap();
    assert!(copies > 0);
    for command in ["BF.MERGE other bits", "BF.MERGE other table", "BF.RESERVE other 0.01 10000000"] {
        let reply = client.say(command);
        let is_refusal =
            ["-ERR out of memory", "-ERR Insufficient memory to create filter"].contains(&&*reply);
        assert!(is_refusal, "{command}: {reply}");
    }
    assert_eq!(client.int("EXISTS other"), 0);
    for key in ["table", "counting", "window"] {
        grow_until_refused(&mut client, key);
    }

    // A child and full synchronisation need some memory for the server itself.
    for key in
        (0..copies).map(|number| format!("copy-{number}")).chain(["table-8".to_owned(), "table-9".to_owned()])
    {
        assert_eq!(client.int(&format!("DEL {key}")), 1);
    }
    assert_eq!(client.digest("bits"), digest);
    let digests = digests_of(&mut client);
    assert!(client.say("BGSAVE").starts_with('+'));
    wait_until("the snapshot ends", || client.info("rdb_bgsave_in_progress").as_deref() == Some("0"));
    assert_eq!(client.info("rdb_last_bgsave_status").as_deref(), Some("ok"));
    // The child that rewrites the file needs memory for a chunk of a filter.
    if !rewrite(&mut client) {
        log("a filter cannot be rewritten: out of memory; this rewrite ends");
    }

    // Full synchronisation: a replica with enough memory is in sync, and one without refuses the data.
    let replica_cgroup = Cgroup::make(site, "replica").unwrap();
    let replica = site.start();
    replica_cgroup.add(&replica);
    replica_cgroup.limit(data_bytes / 10 * 14);
    let synchronize = format!("REPLICAOF 127.0.0.1 {}", server.port());
    assert_eq!(replica.client().say(&synchronize), "+OK");
    replica.wait_for_primary();
    let mut reader = replica.client();
    assert_eq!(digests_of(&mut reader), digests);
    assert_eq!(reader.say("REPLICAOF NO ONE"), "+OK");
    assert_eq!(reader.say("FLUSHALL SYNC"), "+OK");
    replica_cgroup.limit(data_bytes / 10 * 6);
    assert_eq!(reader.say(&synchronize), "+OK");
    drop(reader);
    let (status, log) = replica.expect_end();
    // The server checks the file and exits, for this reason with status 0.
    assert_eq!(status.signal(), None);
    assert!(log.contains("a filter cannot be loaded: "), "{log}");

    // With more memory, everything works again.
    cgroup.limit(data_bytes * 3);
    assert_eq!(client.say("COPY bits other"), "1");
    assert_eq!(client.int("BF.ADD table further"), 1);
    assert!(rewrite(&mut client));
    assert_eq!([cgroup.kills(), replica_cgroup.kills()], [0, 0]);
}
