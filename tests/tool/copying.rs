//! Tests `copy` between servers, versions and formats.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use crate::harness::{Client, Site, Test, imitate, show, tests, wait_until};
use crate::interrupting::send;
use crate::partitions::Moving;
use crate::tool::{Ended, Files, command, fail, json, keys, pass, primaries, spawn, url};

pub(crate) const TESTS: &[Test] = tests![
    filters_of_every_kind_are_copied_to_every_other_server,
    cuckoo_filters_of_redisbloom_are_copied_and_compared,
    an_interrupted_copy_is_continued,
    match_copies_only_matching_filters,
    a_copy_of_nothing_is_an_error_without_the_option,
    verify_reports_differences,
    all_databases_are_copied_and_checked_with_the_option,
    a_quiet_copy_prints_the_cause_of_a_failure,
    a_source_without_chunks_is_read_by_dump,
    a_large_filter_is_copied_in_chunks_or_not_at_all,
    a_cluster_is_copied_node_by_node,
    filters_are_restored_in_a_slot_that_is_moving,
    a_node_of_a_cluster_is_refused_without_the_option,
    source_and_target_have_separate_credentials,
    a_target_without_the_format_is_named,
    a_connection_that_breaks_at_restore_gives_a_failure_that_says_so,
    a_file_of_members_that_is_too_large_is_refused,
];

/// The options of BF.RESERVE for each kind of filter.
const KINDS: [&str; 8] = [
    "",
    "NONSCALING",
    "FORMAT redisbloom",
    "FORMAT valkey-bloom",
    "COUNTING",
    "KEYED",
    "NONSCALING SATURATE",
    "WINDOW 604800",
];

/// Creates small and large filters of each kind. The filters of every second kind have a time to live. Returns the
/// number of filters.
fn fill(client: &mut Client) -> usize {
    let items: Vec<String> = (0..60).map(|item| format!("{}-{}", item % 3, item / 3)).collect();
    for (number, kind) in KINDS.iter().enumerate() {
        for capacity in [50, 20_000, 2_500_000] {
            let key = format!("kind-{number}-{capacity}");
            assert_eq!(client.say(&format!("BF.RESERVE {key} 0.01 {capacity} {kind}")), "+OK");
            client.say(&format!("BF.MADD {key} {}", items.join(" ")));
            if number % 2 == 1 {
                client.say(&format!("PEXPIRE {key} 1000000"));
            }
        }
    }
    client.say("SETBIT bits 4 1");
    client.say("SADD set member");
    3 * KINDS.len()
}

/// Checks that both servers have the same filters with about the same time to live.
fn assert_same(from: &mut Client, to: &mut Client, filters: usize) {
    let copied = keys(to);
    assert_eq!(copied.len(), filters, "{copied:?}");
    for key in copied {
        let ttl = [&mut *from, &mut *to].map(|client| client.int(&format!("PTTL {key}")));
        assert!((ttl[0] - ttl[1]).abs() < 60_000 && (ttl[0] < 0) == (ttl[1] < 0), "{key}: {ttl:?}");
        assert_eq!(show(&from.call(&["BF.DEBUG", &key])), show(&to.call(&["BF.DEBUG", &key])), "{key}");
        let asked: Vec<String> = (0..300).map(|item| format!("{}-{}", item % 4, item / 4)).collect();
        let ask = format!("BF.MEXISTS {key} {}", asked.join(" "));
        assert_eq!(from.say(&ask), to.say(&ask), "{key}");
    }
}

fn filters_of_every_kind_are_copied_to_every_other_server(site: &Site) {
    let from = site.start();
    let filters = fill(&mut from.client());
    for other in Site::find_all().unwrap() {
        let to = other.start();
        let copied = json(&["copy", &url(&from), &url(&to), "--verify"]);
        let number = |name: &str| copied[name].as_u64().unwrap();
        assert_eq!(number("by_dump") + number("in_chunks"), filters as u64, "{copied}");
        assert_eq!((number("filters"), number("verified")), (filters as u64, filters as u64), "{copied}");
        if other.name == site.name {
            assert_eq!(number("in_chunks"), 0, "{copied}");
        }
        assert_same(&mut from.client(), &mut to.client(), filters);
        // Without an option, existing keys are unchanged.
        let again = fail(3, "already exists: use --replace, or", &["copy", &url(&from), &url(&to), "--json"]);
        assert_eq!(again.json()["failed"].as_array().unwrap().len(), filters);
        let resumed = json(&["copy", &url(&from), &url(&to), "--resume", "--resp3", "--verify"]);
        assert_eq!((&resumed["already_present"], &resumed["verified"]), (&filters.into(), &filters.into()));
        let replaced = json(&["copy", &url(&from), &url(&to), "--replace", "--jobs", "1"]);
        assert_eq!(replaced["already_present"], 0, "{replaced}");
        assert_same(&mut from.client(), &mut to.client(), filters);
    }
}

fn cuckoo_filters_of_redisbloom_are_copied_and_compared(site: &Site) {
    let from = site.launch().with_option("bf.format redisbloom").start();
    let mut client = from.client();
    for filter in 0..3 {
        for item in 0..1500 {
            client.say(&format!("CF.ADD cuckoo-{filter} {}", item % 900));
        }
    }
    client.say("BF.ADD bloom a");
    client.say("EXPIRE cuckoo-1 1000");
    let to = site.start();
    let files = Files::new();
    let members = files.write("members", "1\n2\n1700\n");
    let arguments = ["copy", &url(&from), &url(&to), "--verify", "--members", &members];
    let copied = json(&arguments);
    assert_eq!((&copied["filters"], &copied["verified"]), (&4.into(), &4.into()), "{copied}");
    for filter in 0..3 {
        let key = format!("cuckoo-{filter}");
        assert_eq!(client.digest(&key), to.client().digest(&key));
        assert_eq!(to.client().int(&format!("TTL {key}")) > 0, filter == 1);
    }
    // A difference is found.
    to.client().say("CF.DEL cuckoo-2 5");
    let arguments = ["copy", &url(&from), &url(&to), "--verify", "--resume", "--json"];
    let failed = fail(3, "", &arguments).json();
    assert_eq!(failed["failed"].as_array().unwrap().len(), 1, "{failed}");
    assert_eq!(failed["failed"][0]["key"], "cuckoo-2", "{failed}");
    // --replace replaces cuckoo filters as it replaces others, and so ends the difference.
    let replaced = json(&["copy", &url(&from), &url(&to), "--verify", "--replace"]);
    assert_eq!((&replaced["already_present"], &replaced["verified"]), (&0.into(), &4.into()), "{replaced}");
}

fn an_interrupted_copy_is_continued(site: &Site) {
    let (from, to) = (site.start(), site.start());
    let (mut source, mut client) = (from.client(), to.client());
    for number in 0..300 {
        source.say(&format!("BF.RESERVE filter-{number} 0.01 500000"));
        source.say(&format!("BF.MADD filter-{number} a b c {number}"));
    }
    for how in ["INT", "KILL"] {
        client.say("FLUSHALL");
        let child = spawn(&["copy", &url(&from), &url(&to), "--jobs", "2"]);
        wait_until("some copied", || client.int("DBSIZE") > 10);
        send(&child, how);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert!(matches!(ended.code, None | Some(0 | 130)), "{}", ended.err);
        let copied = client.int("DBSIZE");
        let resumed = json(&["copy", &url(&from), &url(&to), "--resume", "--verify"]);
        assert_eq!(resumed["verified"], 300, "{resumed}");
        assert!(resumed["already_present"].as_i64().unwrap() <= copied, "{resumed}");
        assert_eq!(client.int("DBSIZE"), 300);
    }
}

fn match_copies_only_matching_filters(site: &Site) {
    let (from, to) = (site.start(), site.start());
    let mut client = from.client();
    for key in ["a:1", "a:2", "b:1", "{a:1}:everbloom:0123456789abcdef"] {
        client.say(&format!("BF.ADD {key} item"));
    }
    client.say("SET a:text value");
    let copied = json(&["copy", &url(&from), &url(&to), "--match", "a:*"]);
    assert_eq!((&copied["filters"], keys(&mut to.client())), (&2.into(), vec!["a:1".into(), "a:2".into()]));
    // All filters exist if both addresses are those of one server.
    fail(3, "a:1: the key already exists: use --replace", &["copy", &url(&from), &url(&from)]);
    // Temporary keys of other copies and loads are not copied.
    assert_eq!(json(&["copy", &url(&from), &url(&to), "--resume"])["filters"], 3);
}

fn a_copy_of_nothing_is_an_error_without_the_option(site: &Site) {
    let (from, to) = (site.start(), site.start());
    let (source, target) = (url(&from), url(&to));
    let copy = |how: &[&'static str]| [&["copy", source.as_str(), target.as_str()], how].concat();
    // These keys are not copied.
    from.client().say("SET nightly text");
    from.client().say("BF.ADD {nightly}:everbloom:0123456789abcdef item");
    let address = source.trim_start_matches("redis://");
    let empty =
        format!("{address} has no filters: check the address and its database, or give --allow-empty");
    let unmatched =
        format!("no filter of {address} matches night*: check the pattern, or give --allow-empty");
    for (text, how) in [
        (&empty, &[][..]),
        (&empty, &["--resume"]),
        (&unmatched, &["--match", "night*", "--replace"]),
        (&unmatched, &["--match", "night*", "--verify"]),
    ] {
        assert_eq!(fail(1, text, &copy(how)).out, "");
        let copied = json(&copy(&[how, &["--allow-empty"]].concat()));
        assert_eq!((&copied["filters"], &copied["by_dump"]), (&0.into(), &0.into()), "{copied}");
    }
    from.client().say("BF.ADD nightshift item");
    assert_eq!(json(&copy(&["--match", "night*", "--allow-empty"]))["by_dump"], 1);
    fail(1, "no filter of ", &copy(&["--match", "nightly"]));
    assert_eq!(keys(&mut to.client()), ["nightshift"]);
}

fn all_databases_are_copied_and_checked_with_the_option(site: &Site) {
    let (from, to) = (site.start(), site.start());
    let (source, target) = (url(&from), url(&to));
    let mut client = from.client();
    client.say("BF.ADD zero a");
    for (database, line) in [(1, "BF.MADD one a b"), (12, "BF.ADD twelve a"), (12, "CF.ADD counts a")] {
        client.say(&format!("SELECT {database}"));
        client.say(line);
    }
    // Without the option, a line names the others.
    let line = "not looked at: database 1 (1 key), 12 (2 keys); use --all-databases";
    pass(line, &["copy", &source, &target]);
    pass(line, &["check", &source]);
    pass("database 0 (1 key), 12 (2 keys)", &["check", &format!("{source}/1")]);
    assert_eq!(json(&["check", &source])["other_databases"], serde_json::json!({"1": 1, "12": 2}));
    fail(1, line, &["copy", &source, &target, "--match", "one"]);
    let copied = json(&["copy", &source, &target, "--all-databases", "--resume", "--verify", "--jobs", "2"]);
    assert_eq!(
        (&copied["filters"], &copied["already_present"], &copied["verified"]),
        (&4.into(), &1.into(), &4.into())
    );
    let mut copy = to.client();
    for (database, key) in [(0, "zero"), (1, "one"), (12, "twelve"), (12, "counts")] {
        copy.say(&format!("SELECT {database}"));
        client.say(&format!("SELECT {database}"));
        assert_eq!(copy.digest(key), client.digest(key), "{key}");
    }
    let checked = json(&["check", &target, "--all-databases"]);
    let filters = checked["filters"].as_array().unwrap();
    let places: Vec<String> =
        filters.iter().map(|filter| format!("{} {}", filter["database"], filter["key"])).collect();
    assert_eq!(places, ["0 \"zero\"", "1 \"one\"", "12 \"counts\"", "12 \"twelve\""]);
    let shown = pass("4 filters, ", &["check", &target, "--all-databases"]);
    assert!(shown.out.starts_with("database  key") && !shown.out.contains("not looked at"), "{}", shown.out);
    let failed = fail(
        3,
        "database 12, twelve: the key already exists",
        &["copy", &source, &target, "--all-databases"],
    );
    assert!(failed.err.contains("database 0, zero: "), "{}", failed.err);
    fail(2, "without the number of a database", &["check", &format!("{source}/1"), "--all-databases"]);
}

fn a_quiet_copy_prints_the_cause_of_a_failure(site: &Site) {
    let server = site.start();
    server.client().say("BF.ADD k a");
    let address = url(&server);
    let cause = "k: the key already exists: use --replace, or --resume to skip it\n";
    let quiet = fail(3, cause, &["copy", &address, &address, "-q"]);
    assert_eq!(quiet.err, format!("{cause}everbloom: 1 filter not copied, or different\n"));
    // With --json the result has it.
    let quiet = fail(3, "1 filter not copied", &["copy", &address, &address, "-q", "--json"]);
    assert_eq!(quiet.err.lines().count(), 1, "{}", quiet.err);
    assert_eq!(quiet.json()["failed"][0]["key"], "k");
}

fn verify_reports_differences(site: &Site) {
    let (from, to) = (site.start(), site.start());
    let mut client = from.client();
    client.say("BF.MADD k a b c");
    client.say("BF.MADD same a b c");
    let files = Files::new();
    let members = files.write("members", "a\nb\nzzz\n");
    let verify = ["copy", &url(&from), &url(&to), "--resume", "--verify", "--members", &members, "--json"];
    assert_eq!(json(&verify[..7])["verified"], 2);
    to.client().say("BF.ADD k another");
    let result = fail(3, "k: the filters differ", &verify).json();
    assert_eq!((&result["verified"], &result["failed"][0]["key"]), (&1.into(), &"k".into()), "{result}");
}

fn a_source_without_chunks_is_read_by_dump(site: &Site) {
    let (from, to) = (site.start(), site.start());
    let filters = fill(&mut from.client());
    // valkey-bloom has no BF.SCANDUMP either.
    for server in [&from, &to] {
        assert_eq!(server.client().say("ACL SETUSER default -bf.scandump"), "+OK");
    }
    let copied = json(&["copy", &url(&from), &url(&to), "--verify"]);
    assert_eq!((&copied["by_dump"], &copied["verified"]), (&filters.into(), &filters.into()), "{copied}");
    // If the target refuses the dumps, the tool makes the chunks.
    assert_eq!(to.client().say("ACL SETUSER default -restore"), "+OK");
    let copied = json(&["copy", &url(&from), &url(&to), "--verify", "--replace"]);
    assert_eq!((&copied["in_chunks"], &copied["verified"]), (&filters.into(), &filters.into()), "{copied}");
    assert_same(&mut from.client(), &mut to.client(), filters);
}

fn a_large_filter_is_copied_in_chunks_or_not_at_all(site: &Site) {
    let (from, to) = (site.start(), site.start());
    from.client().say("BF.RESERVE large 0.01 80000000 EX 1000");
    let (is_copied, mut other) = (AtomicBool::new(false), from.client());
    // Another client changes the filter and dumps it again and again, which ends the dump that the tool is reading.
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            for item in 0.. {
                other.say(&format!("BF.ADD large {item}"));
                other.call(&["BF.SCANDUMP", "large", "0"]);
                if is_copied.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let ended = Ended::of(command(&["copy", &url(&from), &url(&to)]).output().unwrap());
        is_copied.store(true, Ordering::Relaxed);
        ended
    });
    let is_told = ended.err.contains("the dump of this iterator has ended");
    assert!(ended.code == Some(3) && is_told, "{}", ended.err);
    let mut client = to.client();
    assert!(keys(&mut client).is_empty());
    let resumed = json(&["copy", &url(&from), &url(&to), "--resume", "--verify"]);
    assert_eq!((&resumed["in_chunks"], &resumed["verified"]), (&1.into(), &1.into()), "{resumed}");
    assert!((1..=1000).contains(&client.int("TTL large")) && client.int("BF.CARD large") > 0);
    assert_eq!(keys(&mut client), ["large"]);
}

fn a_cluster_is_copied_node_by_node(site: &Site) {
    let (from, to): ([_; 2], _) = (primaries(site), site.start());
    for (number, node) in [("foo", 1), ("bar", 0), ("{bar}2", 0)] {
        assert_eq!(from[node].client().int(&format!("BF.ADD {number} item")), 1);
    }
    // The address may be any node, and either server may be a cluster.
    for node in &from {
        let copied = json(&["copy", &url(node), &url(&to), "-c", "--replace", "--verify"]);
        assert_eq!(copied["verified"], 3, "{copied}");
    }
    let back: [_; 2] = primaries(site);
    let copied = json(&["copy", &url(&to), &url(&back[1]), "-c", "--verify"]);
    assert_eq!((&copied["by_dump"], &copied["verified"]), (&3.into(), &3.into()), "{copied}");
    assert_eq!(keys(&mut back[0].client()), ["bar", "{bar}2"]);
}

fn filters_are_restored_in_a_slot_that_is_moving(site: &Site) {
    let from = site.launch().with_option("bf.format redisbloom").start();
    let mut client = from.client();
    client.say("CF.ADD k item");
    client.say("BF.ADD {k}2 item");
    let to: [_; 2] = primaries(site);
    // The owner of the slot refuses new keys with ASK.
    let moving = Moving::begin(&to, "k");
    let copied = json(&["copy", &url(&from), &url(&to[0]), "-c"]);
    assert_eq!(copied["by_dump"], 2, "{copied}");
    moving.end();
    let found: Vec<Vec<String>> = to.iter().map(|node| keys(&mut node.client())).collect();
    assert!(found.contains(&vec!["k".to_owned(), "{k}2".to_owned()]), "{found:?}");
}

fn a_node_of_a_cluster_is_refused_without_the_option(site: &Site) {
    let (nodes, alone): ([_; 2], _) = (primaries(site), site.start());
    assert_eq!(nodes[0].client().int("BF.ADD bar item"), 1);
    assert_eq!(alone.client().int("BF.ADD bar item"), 1);
    let (node, alone) = (url(&nodes[0]), url(&alone));
    for (from, to) in [(&node, &alone), (&alone, &node), (&node, &node)] {
        for how in [&[][..], &["--resp3"], &["--replace"], &["--match", "bar"]] {
            let ended = fail(1, "is a node of a cluster", &[&["copy", from, to], how].concat());
            let port = node.rsplit(':').next().unwrap();
            assert!(ended.err.contains(port) && ended.err.contains("use -c"), "{}", ended.err);
        }
    }
    // The copy of the first node alone would have passed.
    assert_eq!(json(&["copy", &alone, &node, "-c", "--replace"])["by_dump"], 1);
    assert_eq!(keys(&mut nodes[1].client()), [""; 0]);
}

fn source_and_target_have_separate_credentials(site: &Site) {
    let (from, to) = (site.start(), site.start());
    from.client().say("BF.ADD k item");
    from.client().say("CONFIG SET requirepass word-of-from");
    to.client().say("CONFIG SET requirepass word-of-to");
    let copy = |from_word: &str, to_word: &str| {
        let mut command = command(&["copy", &url(&from), &url(&to), "--replace", "--json"]);
        command.env("EVERBLOOM_PASSWORD", from_word).env("EVERBLOOM_TO_PASSWORD", to_word);
        Ended::of(command.output().unwrap())
    };
    assert_eq!(copy("word-of-from", "word-of-to").code, Some(0));
    for ended in [copy("word-of-to", "word-of-to"), copy("word-of-from", "word-of-from")] {
        assert!(ended.code == Some(1) && !ended.err.contains("word-of"), "{}", ended.err);
    }
}

fn a_target_without_the_format_is_named(site: &Site) {
    let server = site.start();
    server.client().say("BF.RESERVE k 0.01 100");
    // RedisBloom is not installed: this server refuses a filter of the format everbloom as RedisBloom 2.8 does.
    let target = imitate(|words| {
        let reply = match words[0].as_str() {
            "TYPE" => "+none\r\n",
            "RESTORE" => "-ERR Bad data format\r\n",
            "EXEC" => "*2\r\n-ERR not found\r\n:0\r\n",
            _ => "+OK\r\n",
        };
        Some(reply.to_owned())
    });
    let reason =
        "k: ERR not found; the server cannot read filters of the format everbloom: check with MODULE LIST";
    fail(3, reason, &["copy", &url(&server), &target]);
}

fn a_connection_that_breaks_at_restore_gives_a_failure_that_says_so(site: &Site) {
    let server = site.start();
    server.client().say("BF.RESERVE k 0.01 100");
    for (is_restored, text) in [(true, "k: connection: "), (false, "1 copied by DUMP")] {
        // The first RESTORE has no reply.
        let restores = AtomicU32::new(0);
        let target = imitate(move |words| {
            let restored = u8::from(is_restored && restores.load(Ordering::Relaxed) > 0);
            let reply = match words[0].as_str() {
                "TYPE" if restored == 1 => "+bf-alice1\r\n".to_owned(),
                "TYPE" => "+none\r\n".to_owned(),
                "EXISTS" => format!(":{restored}\r\n"),
                "RESTORE" if restores.fetch_add(1, Ordering::Relaxed) == 0 => return None,
                _ => "+OK\r\n".to_owned(),
            };
            Some(reply)
        });
        let arguments = ["copy", &url(&server), &target];
        if is_restored {
            let ended = fail(3, text, &arguments);
            assert!(
                ended.err.contains("the filter may be complete: repeat with --replace or --resume"),
                "{}",
                ended.err
            );
        } else {
            pass(text, &arguments);
        }
    }
}

fn a_file_of_members_that_is_too_large_is_refused(site: &Site) {
    let (from, to, files) = (site.start(), site.start(), Files::new());
    from.client().say("BF.ADD k item");
    let members = files.write("members", "item\n".repeat((64 << 20) / 5 + 1));
    let arguments = ["copy", &url(&from), &url(&to), "--verify", "--members", &members];
    fail(2, "the file of --members has more than 64 MiB", &arguments);
    assert!(keys(&mut to.client()).is_empty());
}
