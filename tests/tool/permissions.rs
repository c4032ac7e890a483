//! Tests the table of permissions in docs/tool.md: they suffice, and each of them is necessary.

use std::io::Write;

use crate::harness::{Client, Server, Site, Test, now_ms, tests, wait_until};
use crate::partitions::Moving;
use crate::tool::{Ended, Files, fail, keys, primaries, run, spawn, start, url};

pub(crate) const TESTS: &[Test] = tests![
    the_documented_permissions_suffice_for_a_load,
    the_documented_permissions_suffice_for_a_copy,
    the_documented_permissions_suffice_for_a_check,
    the_documented_permissions_suffice_in_a_cluster,
];

const PAGE: &str = include_str!("../../docs/tool.md");

/// Returns the rules in the row of a call, for the key `k`.
fn rules(call: &str) -> Vec<String> {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {call} | `")));
    let (rules, _) = row.unwrap_or_else(|| panic!("no row of {call}")).split_once('`').unwrap();
    rules.replace("\\|", "|").replace("KEY", "k").split(' ').map(str::to_owned).collect()
}

/// Gives the user `tool` these rules only. Returns the address of the server with this user.
fn permit(server: &Server, rules: &[String]) -> String {
    let words: Vec<&str> = rules.iter().map(String::as_str).collect();
    let set = [&["ACL", "SETUSER", "tool", "reset", "on", ">word"], words.as_slice()].concat();
    assert_eq!(server.client().ask(&set), "+OK", "{rules:?}");
    url(server).replace("redis://", "redis://tool:word@")
}

/// Calls `works` with these rules, which must suffice, and then without each permission, which must not suffice.
fn assert_necessary(rules: &[String], mut works: impl FnMut(&[String]) -> bool) {
    assert!(works(rules), "{rules:?}");
    for (place, rule) in rules.iter().enumerate() {
        let mut fewer = rules.to_vec();
        fewer.remove(place);
        assert!(!works(&fewer), "{rule} is not necessary");
    }
}

/// Runs the tool. Returns whether it succeeded, and printed the text.
fn passes(text: &str, arguments: &[&str]) -> bool {
    let ended = run(arguments);
    ended.code == Some(0) && ended.out.contains(text)
}

fn the_documented_permissions_suffice_for_a_load(site: &Site) {
    let (server, mut client, files) = start(site);
    let (file, empty) = (files.items("items", 10), files.write("empty", ""));
    let log = files.write("log", format!("{0},a\n{0},b\n", now_ms()));
    assert_necessary(&rules("`load`"), |rules| {
        client.say("FLUSHALL");
        let address = permit(&server, rules);
        let load = |file, how: &[&'static str]| [&["load", &address, "k", file], how].concat();
        passes("a filter of ", &load(&file, &[]))
            && passes("a filter of ", &load(&file, &["--replace"]))
            && run(&load(&empty, &["--replace"])).code == Some(1)
            && keys(&mut client) == ["k"]
    });
    assert_necessary(&rules("`load --add`"), |rules| {
        assert_eq!(client.say("FLUSHALL"), "+OK");
        client.say("BF.ADD k item");
        passes("10 items, ", &["load", &permit(&server, rules), "k", &file, "--add"])
            && passes("a filter of ", &["load", &permit(&server, rules), "k", &file, "--add"])
    });
    let load = rules("`load`");
    assert_necessary(&rules("`--partitions`"), |rules| {
        client.say("FLUSHALL");
        let address = permit(&server, &[&load, rules].concat());
        passes("4 filters of ", &["load", &address, "k", &file, "--partitions", "4"])
    });
    assert_necessary(&rules("`--time`"), |rules| {
        client.say("FLUSHALL");
        let address = permit(&server, &[&load, rules].concat());
        let columns = ["--csv", "2", "--no-header", "--time", "1", "--window", "1h"];
        passes("2 new", &[&["load", &address, "k", &log], &columns[..]].concat())
    });
    assert_necessary(&rules("a database in the address, `--all-databases`"), |rules| {
        client.say("FLUSHALL");
        let address = permit(&server, &[&load, rules].concat());
        passes("10 items, ", &["load", &format!("{address}/3"), "k", &file])
    });
}

/// Creates two filters that are copied by DUMP, and one that is copied in chunks.
fn make_filters(client: &mut Client) {
    assert_eq!(client.int("BF.ADD small-1 item"), 1);
    assert_eq!(client.int("BF.ADD small-2 item"), 1);
    assert_eq!(client.say("BF.RESERVE large 0.01 53000000"), "+OK");
    assert_eq!(client.int("BF.ADD large item"), 1);
}

fn the_documented_permissions_suffice_for_a_copy(site: &Site) {
    let (from, to) = (site.start(), site.start());
    make_filters(&mut from.client());
    let files = Files::new();
    let members = files.write("members", "item\n");
    let verifying = ["--verify", "--members", &members];
    assert_necessary(&rules("`copy`, user of FROM"), |rules| {
        to.client().say("FLUSHALL");
        passes("2 copied by DUMP, 1 in chunks, ", &["copy", &permit(&from, rules), &url(&to)])
    });
    assert_necessary(&rules("`copy`, user of TO"), |rules| {
        to.client().say("FLUSHALL");
        let copy = |unused: &[&str], how: &[&'static str]| {
            let rules: Vec<String> =
                rules.iter().filter(|rule| !unused.contains(&rule.as_str())).cloned().collect();
            let (source, target) = (url(&from), permit(&to, &rules));
            run(&[&["copy", &source, &target, "--match", "small-*", "--jobs", "1"], how].concat())
        };
        let copies = |text: &str, ended: Ended| ended.code == Some(0) && ended.out.contains(text);
        // Copies in chunks that cannot be renamed are removed.
        assert_ne!(copy(&["+restore", "+renamenx"], &[]).code, Some(0));
        // A refused chunk of the first filter does not end in an error of the second one.
        let refused = copy(&["+restore", "+bf.loadchunk"], &[]).err;
        keys(&mut to.client()).is_empty()
            && !refused.contains("already exists")
            && copies("2 copied by DUMP", copy(&[], &[]))
            && copies("2 already present", copy(&[], &["--resume"]))
            && copies("2 copied by DUMP", copy(&[], &["--replace"]))
            && copies("2 in chunks", copy(&["+restore"], &["--replace"]))
            && to.client().int("DEL small-1 small-2") == 2
            && copies("2 in chunks", copy(&["+restore"], &[]))
    });
    let [of_from, of_to] = ["`copy`, user of FROM", "`copy`, user of TO"].map(rules);
    assert_necessary(&rules("`--verify --members`, both users"), |rules| {
        to.client().say("FLUSHALL");
        let addresses = [permit(&from, &[&of_from, rules].concat()), permit(&to, &[&of_to, rules].concat())];
        passes("3 verified", &[&["copy", &addresses[0], &addresses[1]], &verifying[..]].concat())
    });
}

fn the_documented_permissions_suffice_for_a_check(site: &Site) {
    let server = site.start();
    server.client().say("BF.MADD k a b");
    assert_necessary(&rules("`check`"), |rules| {
        let ended = run(&["check", &permit(&server, rules)]);
        // The error rate shows that BF.STATS was permitted.
        ended.code == Some(0) && ended.out.contains("1 filter, ") && !ended.out.contains('?')
    });
    assert_necessary(&rules("`check`, server without BF.STATS"), |rules| {
        passes("1 filter, ", &["check", &permit(&server, rules)])
    });
    // A filter that the user may not query is not skipped.
    let mut fewer = rules("`check`");
    fewer.retain(|rule| rule != "+bf.stats");
    fail(1, "permission", &["check", &permit(&server, &fewer)]);
}

fn the_documented_permissions_suffice_in_a_cluster(site: &Site) {
    let nodes: [Server; 2] = primaries(site);
    let (load, mut of_cluster) = (rules("`load`"), rules("`-c`"));
    // Some servers refuse a command of a transaction at once, others refuse EXEC, which discards the transaction.
    let moving = Moving::begin(&nodes, "k");
    let is_queued = |node: &Server| {
        let mut client = node.client();
        (client.say("MULTI"), client.say("PERSIST k")) == ("+OK".to_owned(), "+QUEUED".to_owned())
    };
    if nodes.iter().any(is_queued) {
        of_cluster.retain(|rule| rule != "+discard");
    }
    moving.end();
    assert_necessary(&of_cluster, |rules| {
        for node in &nodes {
            let mut client = node.client();
            assert_eq!(
                (client.say("FLUSHALL"), client.say("CONFIG RESETSTAT")),
                ("+OK".into(), "+OK".into())
            );
        }
        let [address, _] = nodes.each_ref().map(|node| permit(node, &[&load, rules].concat()));
        // The slot moves until the tool has tried to rename the temporary key, which takes several tries.
        let moving = Moving::begin(&nodes, "k");
        let mut tool = spawn(&["load", &address, "k", "-", "--capacity", "100", "-c"]);
        // The tool may have ended.
        let _ = tool.stdin.take().unwrap().write_all(b"item\n");
        let transactions = |node: &Server| {
            let stats = node.client().info("cmdstat_multi").unwrap_or_default();
            stats.trim_start_matches("calls=").split(',').next().unwrap().parse().unwrap_or(0)
        };
        wait_until("tries to rename, or the end", || {
            tool.try_wait().unwrap().is_some() || nodes.iter().any(|node| transactions(node) > 3)
        });
        moving.end();
        let ended = Ended::of(tool.wait_with_output().unwrap());
        ended.code == Some(0) && ended.out.contains("1 new")
    });
}
