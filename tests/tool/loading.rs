//! `load`, `build` and `restore`.

use crate::harness::{Site, Test, show, skip, tests};
use crate::tool::{Ended, Files, command, fixture, json, keys, present, run, run_with, two_nodes, url};

pub(crate) const TESTS: &[Test] = tests![
    every_line_is_an_item,
    compressed_files_are_recognised,
    a_column_of_csv_and_a_field_of_json_lines_are_items,
    standard_input_needs_a_capacity,
    a_key_that_is_there_stays_unless_told_otherwise,
    options_are_those_of_bf_reserve,
    a_filter_that_is_full_refuses_and_the_exit_code_tells,
    a_filter_built_here_is_the_one_that_a_server_makes,
    ten_million_items_are_built_sent_and_loaded,
    a_file_of_a_filter_that_is_torn_leaves_no_key,
    credentials_come_from_the_address_or_the_environment_and_are_not_shown,
    a_cluster_is_followed_to_the_slot,
    certificates_are_checked,
    what_cannot_be_read_or_reached_is_an_error,
    every_subcommand_has_help_with_an_example,
];

fn every_line_is_an_item(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let file = files.write("lines", b"one\ntwo\r\n\xFF\n\none\nthe last");
    for resp in [&[][..], &["--resp3"]] {
        let result = json(&[&["load", &url(&server), "k", &file, "--replace"], resp].concat());
        assert_eq!((&result["items"], &result["new"]), (&6.into(), &5.into()), "{result}");
        assert_eq!((&result["present"], &result["refused"]), (&1.into(), &0.into()), "{result}");
        assert!(result["bytes"].as_u64() > Some(0), "{result}");
        assert_eq!(present(&mut client, "k", &[b"one", b"two\r", b"\xFF", b"", b"the last"]), 5);
        assert_eq!(present(&mut client, "k", &[b"two", b"six"]), 0);
        // The capacity is what was counted, and nothing else is left behind.
        assert_eq!(client.say("BF.INFO k CAPACITY"), "[6]");
        assert_eq!((keys(&mut client), client.int("TTL k")), (vec!["k".to_owned()], -1));
    }
    // What a person reads.
    let ended = run(&["load", &url(&server), "other", &file]);
    assert!(
        ended.out.starts_with("other: 6 items, 5 new, 1 present, 0 refused; a filter of "),
        "{}",
        ended.out
    );
    assert!(ended.err.contains("counting") && ended.err.contains("loading"), "{}", ended.err);
    let quiet = run(&["load", &url(&server), "quiet", &file, "-q"]);
    assert!(!quiet.err.contains("counting"), "{}", quiet.err);
    // An empty file is a filter without items.
    let empty = files.write("empty", b"");
    assert_eq!(json(&["load", &url(&server), "empty", &empty])["items"], 0);
    assert_eq!(client.int("BF.CARD empty"), 0);
    // Packed, and for a user who must not pack, as on a server that cannot.
    for refused in [false, true] {
        if refused {
            client.say("ACL SETUSER default -bf.bulkadd");
        }
        let ended = run(&["load", &url(&server), "k", &files.items("many", 5000), "--replace"]);
        assert!(ended.code == Some(0) && ended.out.starts_with("k: 5000 items, "), "{}", ended.err);
        assert_eq!(ended.err.contains("BF.INSERT"), refused, "{}", ended.err);
    }
    assert_eq!(present(&mut client, "k", &[b"item-0", b"item-999", b"item-1000", b"item-4999"]), 4);
}

fn compressed_files_are_recognised(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (key, name) in [("plain", "lines.txt"), ("gzip", "lines.txt.gz"), ("zstd", "lines.txt.zst")] {
        let result = json(&["load", &url(&server), key, &fixture(name)]);
        assert_eq!((&result["items"], &result["new"]), (&5.into(), &5.into()), "{result}");
        assert_eq!(present(&mut client, key, &[b"alpha", b"beta", b"\xFF\xFE", b"", b"gamma\r"]), 5);
    }
    // Cut off within the compressed bytes.
    let whole = std::fs::read(fixture("lines.txt.zst")).unwrap();
    let files = Files::new();
    let torn = files.write("torn", &whole[..whole.len() - 6]);
    assert_eq!(run(&["load", &url(&server), "torn", &torn, "--capacity", "9"]).code, Some(1));
    assert_eq!(keys(&mut client), ["gzip", "plain", "zstd"]);
}

fn a_column_of_csv_and_a_field_of_json_lines_are_items(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let csv = files.write("csv", "id,\"name\",city\n1,\"Ann, B.\",Rome\n2,\"two\nlines\",Oslo\n");
    let tabs = files.write("tabs", "1\tx\n2\ty\n");
    let lines =
        "{\"id\": 7, \"user\": {\"name\": \"Zo\\u00eb\"}}\n\n{\"user\": {\"name\": \"b\\n\"}, \"id\": -8}\n";
    let lines = files.write("jsonl", lines);
    for (arguments, items) in [
        (vec![&csv[..], "--csv", "name"], [&b"Ann, B."[..], b"two\nlines"]),
        (vec![&csv, "--csv", "3"], [b"Rome", b"Oslo"]),
        (vec![&tabs, "--csv", "2", "--delimiter", "\t", "--no-header"], [b"x", b"y"]),
        (vec![&lines, "--jsonl", "id"], [b"7", b"-8"]),
        (vec![&lines, "--jsonl", "/user/name"], ["Zoë".as_bytes(), b"b\n"]),
    ] {
        let result = json(&[&["load", &url(&server), "k", "--replace"], &arguments[..]].concat());
        assert_eq!((&result["items"], &result["new"]), (&2.into(), &2.into()), "{arguments:?} {result}");
        assert_eq!(present(&mut client, "k", &items), 2, "{arguments:?}");
    }
    let before = client.digest("k");
    for (arguments, trouble) in [
        (vec![&csv[..], "--csv", "nickname"], "no column nickname"),
        (vec![&csv, "--csv", "9"], "no column 9"),
        (vec![&lines, "--jsonl", "age"], "line 1: no field age"),
        (vec![&lines, "--jsonl", "user"], "neither a string nor"),
        (vec![&csv, "--jsonl", "id"], "line 1: expected value"),
    ] {
        let ended = run(&[&["load", &url(&server), "k", "--replace"], &arguments[..]].concat());
        assert!(ended.code == Some(1) && ended.err.contains(trouble), "{arguments:?}: {}", ended.err);
    }
    assert_eq!((client.digest("k"), keys(&mut client).len()), (before, 1));
}

fn standard_input_needs_a_capacity(site: &Site) {
    let server = site.start();
    let ended = run_with(&["load", &url(&server), "k", "-"], b"a\nb\n");
    assert!(ended.code == Some(2) && ended.err.contains("--capacity"), "{}", ended.err);
    let ended = run_with(&["load", &url(&server), "k", "-", "--capacity", "1e3", "--json"], b"a\nb\n");
    assert_eq!((ended.code, &ended.json()["items"]), (Some(0), &2.into()), "{}", ended.err);
    assert_eq!(server.client().say("BF.INFO k CAPACITY"), "[1000]");
}

fn a_key_that_is_there_stays_unless_told_otherwise(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let (ten, twenty) = (files.items("ten", 10), files.items("twenty", 20));
    json(&["load", &url(&server), "k", &ten]);
    let before = client.digest("k");
    for how in [&[][..], &["--offline"]] {
        let ended = run(&[&["load", &url(&server), "k", &twenty], how].concat());
        assert!(ended.code == Some(1) && ended.err.contains("--replace"), "{}", ended.err);
    }
    assert_eq!(client.digest("k"), before);
    let added = json(&["load", &url(&server), "k", &twenty, "--add"]);
    assert_eq!((&added["new"], &added["present"]), (&10.into(), &10.into()), "{added}");
    assert_eq!(client.int("BF.CARD k"), 20);
    json(&["load", &url(&server), "k", &ten, "--replace"]);
    assert_eq!(client.digest("k"), before);
    // There is nothing to add to, and nothing is made.
    assert_eq!(run(&["load", &url(&server), "none", &ten, "--add"]).code, Some(1));
    // Somebody else's key stays what it is.
    client.say("SET text value");
    assert_eq!(run(&["load", &url(&server), "text", &ten, "--add"]).code, Some(1));
    assert_eq!((client.say("GET text"), keys(&mut client).len()), ("\"value\"".to_owned(), 2));
}

fn options_are_those_of_bf_reserve(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let file = files.items("items", 100);
    for (options, reserve) in [
        (&["--error", "0.001"][..], "0.001 100"),
        (&["--capacity", "5000", "--nonscaling"], "0.01 5000 NONSCALING"),
        (&["--capacity", "10", "--expansion", "4"], "0.01 10 EXPANSION 4"),
        (&["--counting"], "0.01 100 COUNTING"),
    ] {
        json(&[&["load", &url(&server), "k", &file, "--replace"], options].concat());
        client.say("DEL mine");
        assert_eq!(client.say(&format!("BF.RESERVE mine {reserve}")), "+OK");
        for item in 0..100 {
            client.say(&format!("BF.ADD mine item-{item}"));
        }
        assert_eq!(client.digest("k"), client.digest("mine"), "{options:?}");
    }
    json(&["load", &url(&server), "k", &file, "--replace", "--keyed", "--ex", "1000"]);
    assert!(client.bytes(&["DUMP", "k"]).len() > 100 && (900..=1000).contains(&client.int("TTL k")));
    // The server has the last word.
    for options in [&["--error", "2"][..], &["--window", "1ms"], &["--keyed", "--counting"]] {
        let ended = run(&[&["load", &url(&server), "bad", &file], options].concat());
        assert!(ended.code == Some(1) && ended.err.contains("ERR "), "{options:?} {}", ended.err);
    }
    assert_eq!(run(&["load", &url(&server), "bad", &file, "--offline", "--error", "2"]).code, Some(2));
    assert_eq!(run(&["load", &url(&server), "bad", &file, "--capacity", "many"]).code, Some(2));
    assert_eq!(run(&["load", &url(&server), "bad", &file, "--window", "soon"]).code, Some(2));
    assert_eq!(keys(&mut client), ["k", "mine"]);
}

fn a_filter_that_is_full_refuses_and_the_exit_code_tells(site: &Site) {
    let server = site.start();
    let files = Files::new();
    let file = files.items("items", 100);
    for how in [&[][..], &["--offline"]] {
        let load =
            ["load", &url(&server), "k", &file, "--capacity", "40", "--nonscaling", "--replace", "--json"];
        let ended = run(&[&load, how].concat());
        let result = ended.json();
        let count = |name: &str| result[name].as_u64().unwrap();
        assert_eq!((ended.code, count("items"), count("new")), (Some(3), 100, 40), "{result}");
        assert_eq!(count("present") + count("refused"), 60, "{result}");
        assert!(count("refused") > 50 && ended.err.contains("refused"), "{result}");
        assert_eq!(server.client().int("BF.CARD k"), 40);
    }
}

fn a_filter_built_here_is_the_one_that_a_server_makes(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    // Small, large enough for threads to share its pages, and growing.
    for (items, options) in [(1000, &[][..]), (400_000, &[]), (5000, &["--capacity", "700"])] {
        let file = files.items("items", items);
        json(&[&["load", &url(&server), "k", &file, "--replace"], options].concat());
        for threads in ["1", "2", "5"] {
            let here = ["load", &url(&server), "here", &file, "--replace", "--offline", "--threads", threads];
            json(&[&here, options].concat());
            assert_eq!(client.digest("here"), client.digest("k"), "{items}");
        }
        // In a file; what it holds and what it counts is the same whoever sends it.
        let path = files.path("k.bloom");
        let built = json(&[&["build", &file, "-o", &path], options].concat());
        assert_eq!(built["items"], items, "{built}");
        let sent = json(&["restore", &url(&server), "sent", &path, "--replace", "--ex", "1000"]);
        assert!((900..=1000).contains(&client.int("TTL sent")), "{sent}");
        // The digest is one of the expiry too.
        client.say("PERSIST sent");
        assert_eq!(client.digest("sent"), client.digest("k"), "{sent}");
        assert_eq!(run(&["restore", &url(&server), "sent", &path]).code, Some(1));
    }
    assert_eq!(keys(&mut client), ["here", "k", "sent"]);
}

fn ten_million_items_are_built_sent_and_loaded(site: &Site) {
    const ITEMS: u32 = 10_000_000;
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let file = files.items("items", ITEMS);
    let built = json(&["load", &url(&server), "built", &file, "--offline", "--threads", "4"]);
    let loaded = json(&["load", &url(&server), "loaded", &file]);
    for (key, result) in [("built", built), ("loaded", loaded)] {
        assert_eq!(result["items"], ITEMS, "{result}");
        let new = result["new"].as_u64().unwrap();
        // All are distinct, so what is not new was a false positive: at most 1 %, and that only at the end.
        assert!(new <= ITEMS.into() && new > u64::from(ITEMS) / 1000 * 995, "{result}");
        assert_eq!(client.int(&format!("BF.CARD {key}")), i64::try_from(new).unwrap());
        let members: Vec<String> = (0..ITEMS).step_by(9973).map(|item| format!("item-{item}")).collect();
        let absent: Vec<String> = (0..10_000).map(|item| format!("absent-{item}")).collect();
        let bytes = |items: &[String]| items.iter().map(|item| item.clone().into_bytes()).collect::<Vec<_>>();
        let (members, absent) = (bytes(&members), bytes(&absent));
        let slices = |items: &[Vec<u8>]| -> usize {
            let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
            present(&mut server.client(), key, &items)
        };
        assert_eq!(slices(&members), members.len(), "{key}");
        // 75 expected, since a filter that grows gives its first layer 3/4 of 1 %; plus five deviations.
        assert!(slices(&absent) < 120, "{key}");
    }
    assert_eq!(keys(&mut client), ["built", "loaded"]);
}

fn a_file_of_a_filter_that_is_torn_leaves_no_key(site: &Site) {
    let server = site.start();
    let files = Files::new();
    let path = files.path("k.bloom");
    json(&["build", &files.items("items", 2_000_000), "-o", &path]);
    let whole = std::fs::read(&path).unwrap();
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    let mut long = whole.clone();
    long[20..28].copy_from_slice(&u64::MAX.to_le_bytes());
    for (what, bytes) in [
        ("torn", &whole[..whole.len() - 17]),
        ("without an end", &whole[..whole.len() - 1]),
        ("of nothing", &whole[..12]),
        ("altered", &altered),
        ("too long", &long),
        ("of another kind", b"REDIS0011"),
        ("empty", b""),
    ] {
        let ended = run(&["restore", &url(&server), "k", &files.write("torn", bytes)]);
        assert_eq!(ended.code, Some(1), "{what}: {}", ended.err);
        assert_eq!(keys(&mut server.client()), [""; 0], "{what}");
    }
    // Nothing is left of a file that could not be written either.
    let missing = files.path("no/such/directory.bloom");
    assert_eq!(run(&["build", &files.items("few", 10), "-o", &missing]).code, Some(1));
}

fn credentials_come_from_the_address_or_the_environment_and_are_not_shown(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("ACL SETUSER loader on >s3cret-word ~* +@all");
    client.say("ACL SETUSER default resetpass >other-word");
    let files = Files::new();
    let file = files.items("items", 10);
    let with = |user: &str| format!("redis://{user}@127.0.0.1:{}", server.port());
    json(&["load", &with("loader:s3cret-word"), "k", &file]);
    json(&["load", &with(":other-word"), "k", &file, "--replace", "--resp3"]);
    let from_environment = |user: Option<&str>, password: &str| {
        let mut command = command(&["load", &url(&server), "k", &file, "--replace", "--json"]);
        command.env("EVERBLOOM_PASSWORD", password);
        user.map(|user| command.env("EVERBLOOM_USERNAME", user));
        Ended::of(command.output().unwrap())
    };
    assert_eq!(from_environment(Some("loader"), "s3cret-word").code, Some(0));
    assert_eq!(from_environment(None, "other-word").code, Some(0));
    let wrong = [
        from_environment(Some("loader"), "wr0ng-word"),
        run(&["load", &with("loader:wr0ng-word"), "k", &file]),
        run(&["load", "redis://loader:wr0ng-word@127.0.0.1:port/x", "k", &file]),
        run(&["load", "http://loader:wr0ng-word@127.0.0.1", "k", &file]),
    ];
    for ended in wrong {
        assert!(matches!(ended.code, Some(1 | 2)) && !ended.err.is_empty());
        assert!(!(ended.out + &ended.err).contains("wr0ng-word"));
    }
}

fn a_cluster_is_followed_to_the_slot(site: &Site) {
    let nodes = two_nodes(site);
    let files = Files::new();
    let (file, path) = (files.items("items", 1000), files.path("k.bloom"));
    json(&["build", &file, "-o", &path]);
    // Slots 12182 and 5061, one with a tag, and one that no tag of itself can stand for.
    for key in ["foo", "bar", "x{foo}y", "a}b"] {
        for subcommand in [&["load", "--offline"][..], &["load"], &["restore"]] {
            let source = if subcommand[0] == "restore" { &path } else { &file };
            for node in &nodes {
                let address = url(node);
                let arguments =
                    [&[subcommand[0], &address, key, source, "-c", "--replace"], &subcommand[1..]];
                json(&arguments.concat());
            }
        }
        let found = nodes.iter().filter(|node| keys(&mut node.client()).contains(&key.to_owned())).count();
        assert_eq!(found, 1, "{key}");
    }
    let all: usize = nodes.iter().map(|node| keys(&mut node.client()).len()).sum();
    assert_eq!(all, 4);
    // Without being told, the tool says where the key is.
    let refused = nodes.iter().map(|node| run(&["load", &url(node), "new", &file]));
    assert_eq!(refused.filter(|ended| ended.code == Some(1) && ended.err.contains("MOVED")).count(), 1);
}

fn certificates_are_checked(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (certificate, key) = (fixture("tls.crt"), fixture("tls.key"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let settings = ["tls-cert-file", &certificate, "tls-key-file", &key, "tls-ca-cert-file", &certificate];
    let set = [&["CONFIG", "SET"], &settings[..], &["tls-port", &port]].concat();
    let reply = show(&client.call(&set));
    if reply.contains("Unknown option") || reply.contains("Unsupported CONFIG parameter") {
        return skip("the server was built without TLS");
    }
    assert_eq!(reply, "+OK");
    let files = Files::new();
    let file = files.items("items", 100);
    let address = format!("rediss://127.0.0.1:{port}");
    let shown = ["--cert", &certificate, "--key", &key];
    // Nobody the system trusts has signed it.
    assert_eq!(run(&[&["load", &address, "k", &file], &shown[..]].concat()).code, Some(1));
    // The server wants to see one too.
    assert_eq!(run(&["load", &address, "k", &file, "--cacert", &certificate]).code, Some(1));
    json(&[&["load", &address, "k", &file, "--cacert", &certificate], &shown[..]].concat());
    assert_eq!(present(&mut client, "k", &[b"item-0", b"item-99"]), 2);
}

fn what_cannot_be_read_or_reached_is_an_error(site: &Site) {
    let server = site.start();
    let files = Files::new();
    let file = files.items("items", 10);
    for arguments in [
        &["load", &url(&server), "k", "/no/such/file"][..],
        &["load", &url(&server), "k", "/"],
        &["load", "redis://127.0.0.1:1", "k", &file],
        &["restore", "redis://127.0.0.1:1", "k", &file],
        &["build", "/no/such/file", "-o", &files.path("out")],
    ] {
        let ended = run(arguments);
        assert!(
            ended.code == Some(1) && ended.err.starts_with("everbloom: "),
            "{arguments:?}: {}",
            ended.err
        );
        let told = run(&[arguments, &["--json"]].concat());
        let last: serde_json::Value = serde_json::from_str(told.err.lines().last().unwrap()).unwrap();
        assert_eq!(last["code"], 1, "{last}");
    }
    assert!(!std::path::Path::new(&files.path("out")).exists());
    // A server without the module.
    let bare = site.launch().without_module().start();
    let ended = run(&["load", &url(&bare), "k", &file]);
    assert!(ended.code == Some(1) && ended.err.contains("unknown command"), "{}", ended.err);
    assert_eq!(keys(&mut bare.client()), [""; 0]);
}

fn every_subcommand_has_help_with_an_example(_: &Site) {
    let help = run(&["--help"]);
    assert!(help.code == Some(0) && help.out.contains("Exit codes:"), "{}", help.out);
    let commands = help.out.split("Commands:").nth(1).unwrap().lines().skip(1);
    let names: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        let help = run(&[name, "--help"]);
        assert_eq!(help.code, Some(0), "{name}");
        assert!(help.out.contains("Example") && help.out.contains(&format!("  everbloom {name} ")), "{name}");
        assert!(help.out.contains("Exit codes:"), "{name}");
        assert_eq!(run(&[name, "--no-such-option"]).code, Some(2), "{name}");
    }
}
