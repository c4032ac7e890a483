//! Tests `load` with items of files and of standard input.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::harness::{Site, Test, imitate, skip, tests};
use crate::tool::{
    Ended, Files, Loading, command, fail, fixture, json, keys, pass, path, present, run, spawn, start, url,
};

pub(crate) const TESTS: &[Test] = tests![
    every_line_is_an_item,
    the_cr_of_crlf_line_ends_is_removed,
    compressed_files_are_recognised,
    a_column_of_csv_is_items,
    a_first_line_that_is_taken_as_names_is_noted,
    an_existing_key_is_unchanged_without_an_option,
    only_filters_are_replaced_without_force,
    an_empty_input_replaces_no_filter_without_force,
    a_pipe_is_not_counted_and_then_found_empty,
    options_are_those_of_bf_reserve,
    options_that_only_everbloom_has_are_refused_on_other_modules,
    wrong_arguments_are_reported_before_input_is_read,
    items_that_a_full_filter_refuses_give_exit_code_3,
    a_result_that_cannot_be_printed_gives_exit_code_3,
    a_connection_that_breaks_at_the_end_gives_exit_code_3_if_the_filter_may_be_there,
    progress_is_shown_in_lines_and_on_a_terminal_in_a_bar,
];

fn every_line_is_an_item(site: &Site) {
    let (server, mut client, files) = start(site);
    let file = files.write("lines", b"one\ntwo\n\xFF\n\none\nthe last");
    for resp in [&[][..], &["--resp3"]] {
        let result = json(&[&["load", &url(&server), "k", &file, "--replace"], resp].concat());
        assert_eq!((&result["items"], &result["new"]), (&6.into(), &5.into()), "{result}");
        assert_eq!((&result["present"], &result["refused"]), (&1.into(), &0.into()), "{result}");
        assert!(result["bytes"].as_u64() > Some(0), "{result}");
        assert_eq!(present(&mut client, "k", &[b"one", b"two", b"\xFF", b"", b"the last"]), 5);
        assert_eq!(present(&mut client, "k", &[b"two\r", b"six"]), 0);
        // The capacity is the number of items, and no temporary key is left.
        assert_eq!(client.say("BF.INFO k CAPACITY"), "[6]");
        assert_eq!((keys(&mut client), client.int("TTL k")), (vec!["k".to_owned()], -1));
    }
    // Checks the output as text.
    let text = "other: 6 items, 5 new, 1 present, 0 refused; a filter of ";
    let ended = pass(text, &["load", &url(&server), "other", &file]);
    assert!(ended.err.contains("counting") && ended.err.contains("loading"), "{}", ended.err);
    assert!(!pass("quiet: ", &["load", &url(&server), "quiet", &file, "-q"]).err.contains("counting"));
    // The tool uses BF.BULKADD, or BF.INSERT if the user has no permission for BF.BULKADD.
    for refused in [false, true] {
        if refused {
            client.say("ACL SETUSER default -bf.bulkadd");
        }
        let many = files.items("many", 5000);
        let ended = pass("k: 5000 items, ", &["load", &url(&server), "k", &many, "--replace"]);
        assert_eq!(ended.err.contains("BF.INSERT"), refused, "{}", ended.err);
    }
    assert_eq!(present(&mut client, "k", &[b"item-0", b"item-999", b"item-1000", b"item-4999"]), 4);
}

fn the_cr_of_crlf_line_ends_is_removed(site: &Site) {
    let (server, mut client, files) = start(site);
    // The last line has no newline: its \r is part of the item.
    let file = files.write("crlf", b"one\r\ntwo\nthree\r\nfour\r");
    let without: [&[u8]; 4] = [b"one", b"two", b"three", b"four\r"];
    for how in [&[][..], &["--capacity", "4"], &["--partitions", "1"]] {
        let ended = run(&[&["load", &url(&server), "k", &file, "--replace"], how].concat());
        assert_eq!((ended.code, ended.err.matches("CRLF").count()), (Some(0), 1), "{how:?} {}", ended.err);
        let key = if how.contains(&"--partitions") { "k:{0}" } else { "k" };
        assert_eq!(present(&mut client, key, &without), 4, "{how:?}");
        assert_eq!(present(&mut client, key, &[b"one\r", b"three\r", b"four"]), 0, "{how:?}");
    }
    assert!(!pass("kept: ", &["load", &url(&server), "kept", &file, "--keep-cr"]).err.contains("CRLF"));
    assert_eq!(present(&mut client, "kept", &[b"one\r", b"two", b"three\r", b"four\r"]), 4);
    assert_eq!(present(&mut client, "kept", &[b"one", b"three", b"four"]), 0);
    // --keep-cr is for lines only.
    fail(2, "--keep-cr", &["load", &url(&server), "k", &file, "--csv", "1", "--keep-cr"]);
}

fn a_first_line_that_is_taken_as_names_is_noted(site: &Site) {
    let (server, mut client, files) = start(site);
    let file = files.write("csv", "id1,x\nid2,y\n");
    let note = "the first line, `id1,x`, is taken as column names: --no-header if it is an item";
    let load =
        |more: &[&str]| run(&[&["load", &url(&server), "k", &file, "--replace", "--csv"], more].concat());
    for how in [&["1"][..], &["1", "--capacity", "4"]] {
        let ended = load(how);
        assert_eq!((ended.code, ended.err.matches(note).count()), (Some(0), 1), "{how:?} {}", ended.err);
        assert_eq!(present(&mut client, "k", &[b"id1", b"id2"]), 1);
    }
    // A name is in the first line, and with --no-header this line is an item.
    for how in [&["x"][..], &["1", "--no-header"]] {
        let ended = load(how);
        assert!(ended.code == Some(0) && !ended.err.contains("first line"), "{how:?} {}", ended.err);
    }
    assert_eq!(present(&mut client, "k", &[b"id1", b"id2"]), 2);
}

fn compressed_files_are_recognised(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (key, name) in [("plain", "lines.txt"), ("gzip", "lines.txt.gz"), ("zstd", "lines.txt.zst")] {
        let result = json(&["load", &url(&server), key, &fixture(name)]);
        assert_eq!((&result["items"], &result["new"]), (&5.into(), &5.into()), "{result}");
        assert_eq!(present(&mut client, key, &[b"alpha", b"beta", b"\xFF\xFE", b"", b"gamma"]), 5);
    }
    // A truncated file.
    let whole = std::fs::read(fixture("lines.txt.zst")).unwrap();
    let files = Files::new();
    let truncated = files.write("truncated", &whole[..whole.len() - 6]);
    fail(1, "truncated: ", &["load", &url(&server), "truncated", &truncated, "--capacity", "9"]);
    assert_eq!(keys(&mut client), ["gzip", "plain", "zstd"]);
}

fn a_column_of_csv_is_items(site: &Site) {
    let (server, mut client, files) = start(site);
    let csv = files.write("csv", "id,\"name\",city\n1,\"Ann, B.\",Rome\n2,\"two\nlines\",Oslo\n");
    let tabs = files.write("tabs", "1\tx\n2\ty\n");
    for (arguments, items) in [
        (vec![&csv[..], "--csv", "name"], [&b"Ann, B."[..], b"two\nlines"]),
        (vec![&csv, "--csv", "3"], [b"Rome", b"Oslo"]),
        (vec![&tabs, "--csv", "2", "--delimiter", "\t", "--no-header"], [b"x", b"y"]),
    ] {
        let result = json(&[&["load", &url(&server), "k", "--replace"], &arguments[..]].concat());
        assert_eq!((&result["items"], &result["new"]), (&2.into(), &2.into()), "{arguments:?} {result}");
        assert_eq!(present(&mut client, "k", &items), 2, "{arguments:?}");
    }
    let before = client.digest("k");
    for (arguments, trouble) in [
        (vec![&csv[..], "--csv", "nickname"], "no column nickname: the columns are id, name, city"),
        (vec![&csv, "--csv", "9"], "no column 9: the columns are id, name, city"),
        (vec![&csv, "--csv", "x", "--no-header"], "no column x: the file has no column names"),
        (vec![&tabs, "--csv", "2", "--no-header"], "line 1: no column 2: the line has 1"),
    ] {
        fail(1, trouble, &[&["load", &url(&server), "k", "--replace"], &arguments[..]].concat());
    }
    assert_eq!((client.digest("k"), keys(&mut client).len()), (before, 1));
}

fn an_existing_key_is_unchanged_without_an_option(site: &Site) {
    let (server, mut client, files) = start(site);
    let (ten, twenty) = (files.items("ten", 10), files.items("twenty", 20));
    json(&["load", &url(&server), "k", &ten]);
    let before = client.digest("k");
    fail(1, "--replace", &["load", &url(&server), "k", &twenty]);
    assert_eq!(client.digest("k"), before);
    let added = json(&["load", &url(&server), "k", &twenty, "--add"]);
    assert_eq!((&added["new"], &added["present"]), (&10.into(), &10.into()), "{added}");
    assert_eq!(client.int("BF.CARD k"), 20);
    json(&["load", &url(&server), "k", &ten, "--replace"]);
    assert_eq!(client.digest("k"), before);
    // --add does not change a key of another type.
    client.say("SET text value");
    fail(1, "WRONGTYPE", &["load", &url(&server), "text", &ten, "--add"]);
    assert_eq!((client.say("GET text"), keys(&mut client).len()), ("\"value\"".to_owned(), 2));
}

fn only_filters_are_replaced_without_force(site: &Site) {
    let (server, other) = (site.start(), site.start());
    let mut client = server.client();
    let files = Files::new();
    let file = files.items("ten", 10);
    other.client().say("BF.ADD k item");
    let (address, source) = (url(&server), url(&other));
    for arguments in [&["load", &address, "k", &file][..], &["copy", &source, &address, "--match", "k"]] {
        client.say("SET k value");
        for (options, remedy) in
            [(&[][..], "already exists: use --replace"), (&["--replace"], "a string, not a filter")]
        {
            fail(if arguments[0] == "copy" { 3 } else { 1 }, remedy, &[arguments, options].concat());
            assert_eq!(client.say("GET k"), "\"value\"");
        }
        json(&[arguments, &["--replace", "--force"]].concat());
        assert_ne!(client.say("TYPE k"), "+string");
        // --replace without --force replaces a filter of any format.
        json(&[arguments, &["--replace"]].concat());
    }
    assert_eq!(keys(&mut client), ["k"]);
}

fn an_empty_input_replaces_no_filter_without_force(site: &Site) {
    let (server, mut client, files) = start(site);
    let (address, empty) = (url(&server), files.write("empty", b""));
    json(&["load", &address, "good", &files.items("ten", 10)]);
    let before = client.digest("good");
    for arguments in [
        &["load", &address, "good", &empty][..],
        &["load", &address, "good", &empty, "--capacity", "50"],
        &["load", &address, "good", &empty, "--csv", "1", "--no-header", "--time", "1", "--window", "1h"],
        &["load", &address, "good", &empty, "--partitions", "2"],
    ] {
        fail(1, "--force", &[arguments, &["--replace"]].concat());
    }
    fail(1, "--force", &["load", &address, "good", "-", "--capacity", "50", "--replace"]);
    // Without --replace, an empty filter needs a capacity.
    fail(1, "--capacity", &["load", &address, "new", &empty]);
    assert_eq!((client.digest("good"), keys(&mut client)), (before.clone(), vec!["good".to_owned()]));
    // Adding nothing changes nothing.
    assert_eq!(json(&["load", &address, "good", &empty, "--add"])["items"], 0);
    assert_eq!(client.digest("good"), before);
    assert_eq!(json(&["load", &address, "new", &empty, "--capacity", "50"])["items"], 0);
    assert_eq!(client.say("BF.INFO new CAPACITY"), "[50]");
    json(&["load", &address, "good", &empty, "--replace", "--force"]);
    assert_eq!(client.int("BF.CARD good"), 0);
}

fn a_pipe_is_not_counted_and_then_found_empty(site: &Site) {
    let (server, mut client, files) = start(site);
    let (address, trouble) = (url(&server), "give their number with --capacity");
    json(&["load", &address, "k", &files.items("ten", 10)]);
    let before = client.digest("k");
    let replace = |more: &[&str]| {
        let load = ["load", &address, "k", "/dev/stdin", "--replace", "--force"];
        let mut tool = spawn(&[&load, more].concat());
        // Fails if the tool has ended.
        let _ = tool.stdin.take().unwrap().write_all(b"a\nb\nc\n");
        Ended::of(tool.wait_with_output().unwrap())
    };
    let ended = replace(&[]);
    assert!(ended.code == Some(2) && ended.err.contains(trouble), "{:?}: {}", ended.code, ended.err);
    assert_eq!(client.digest("k"), before);
    let named = files.path("pipe");
    assert!(Command::new("mkfifo").arg(&named).status().unwrap().success());
    fail(2, trouble, &["load", &address, "k", &named, "--replace"]);
    assert_eq!(replace(&["--capacity", "3"]).code, Some(0));
    assert_eq!(client.int("BF.CARD k"), 3);
}

fn options_are_those_of_bf_reserve(site: &Site) {
    let (server, mut client, files) = start(site);
    let file = files.items("items", 100);
    for (options, reserve) in [
        (&["--error", "0.001"][..], "0.001 100"),
        (&["--capacity", "5k", "--nonscaling"], "0.01 5000 NONSCALING"),
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
    json(&["load", &url(&server), "k", &file, "--replace", "--keyed", "--ex", "1000s"]);
    assert!(client.bytes(&["DUMP", "k"]).len() > 100 && (900..=1000).contains(&client.int("TTL k")));
    // The server refuses a filter that is too large.
    fail(1, "ERR ", &["load", &url(&server), "bad", &file, "--capacity", "1000G"]);
    assert_eq!(keys(&mut client), ["k", "mine"]);
}

fn options_that_only_everbloom_has_are_refused_on_other_modules(_: &Site) {
    // This server replies as RedisBloom does, which ignores options of BF.RESERVE that it does not know.
    let address = imitate(|words| match words[0].as_str() {
        "BF.STATS" => Some("-ERR unknown command 'BF.STATS', with args beginning with: \r\n".to_owned()),
        "BF.RESERVE" if words.len() == 1 => Some("-ERR wrong number of arguments\r\n".to_owned()),
        _ => Some("+OK\r\n".to_owned()),
    });
    for options in
        [&["--keyed"][..], &["--counting"], &["--window", "7d"], &["--window", "7d", "--steps", "120"]]
    {
        let arguments = [&["load", &address, "k", "/dev/null", "--capacity", "10"], options].concat();
        fail(1, "does not know BF.STATS: everbloom is not loaded", &arguments);
    }
}

fn wrong_arguments_are_reported_before_input_is_read(_: &Site) {
    // Neither the server nor the file exists.
    let (address, file) = ("redis://127.0.0.1:1", "/no/such/file");
    for (wrong, remedy) in [
        (&["--error", "1.5"][..], "between 0 and 1"),
        (&["--window", "1ms"], "between 100ms and"),
        (&["--ex", "900"], "with a unit"),
        (&["--ttl", "900"], "with a unit"),
        (&["--capacity", "many"], "such as 5000, 500k, 5M"),
        (&["--expansion", "0"], "1..=32768"),
        (&["--partitions", "0"], "between 1 and 1024"),
        (&["--csv", "1", "--delimiter", "ab"], "one ASCII character"),
        (&["--force"], "--replace"),
    ] {
        fail(2, remedy, &[&["load", address, "k", file], wrong].concat());
    }
    fail(2, "give their number with --capacity", &["load", address, "k", "-"]);
    fail(2, "use a key without {", &["load", address, "{k}", file, "--partitions", "3"]);
    fail(2, "1..=64", &["copy", address, address, "--jobs", "0"]);
}

fn items_that_a_full_filter_refuses_give_exit_code_3(site: &Site) {
    let (server, _, files) = start(site);
    let file = files.items("items", 100);
    let load = ["load", &url(&server), "k", &file, "--capacity", "40", "--nonscaling", "--json"];
    let result = fail(3, "the filter is full and refused ", &load).json();
    let count = |name: &str| result[name].as_u64().unwrap();
    assert_eq!((count("items"), count("new")), (100, 40), "{result}");
    assert!(count("refused") > 50 && count("present") + count("refused") == 60, "{result}");
    assert_eq!(server.client().int("BF.CARD k"), 40);
}

fn a_result_that_cannot_be_printed_gives_exit_code_3(site: &Site) {
    let (server, mut client, files) = start(site);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut load = command(&["load", &url(&server), "k", &files.items("ten", 10)]);
    let ended = Ended::of(load.stdout(full).output().unwrap());
    assert!(ended.code == Some(3) && ended.err.contains("the items were loaded, but"), "{}", ended.err);
    assert_eq!(client.int("BF.CARD k"), 10);
}

fn a_connection_that_breaks_at_the_end_gives_exit_code_3_if_the_filter_may_be_there(_: &Site) {
    let files = Files::new();
    let file = files.items("ten", 10);
    for (is_renamed, code, text) in [(false, 1, "everbloom: connection: "), (true, 3, "may be complete")] {
        let transactions = AtomicU32::new(0);
        let address = imitate(move |words| {
            let reply = match words[0].as_str() {
                "EXISTS" => format!(":{}\r\n", u8::from(words[1].contains("everbloom") && !is_renamed)),
                "TYPE" => "+none\r\n".to_owned(),
                "BF.BULKADD" => {
                    "-ERR unknown command 'BF.BULKADD', with args beginning with: \r\n".to_owned()
                }
                // BF.INSERT KEY NOCREATE ITEMS and the items.
                "BF.INSERT" => format!("*{}\r\n{}", words.len() - 4, ":1\r\n".repeat(words.len() - 4)),
                // The first transaction creates the filter under the temporary key.
                "EXEC" if transactions.fetch_add(1, Ordering::Relaxed) == 1 => return None,
                "EXEC" => "*2\r\n:1\r\n:1\r\n".to_owned(),
                _ => "+OK\r\n".to_owned(),
            };
            Some(reply)
        });
        let ended = fail(code, "", &["load", &address, "k", &file, "--capacity", "10"]);
        assert!(ended.err.contains(text), "{}", ended.err);
    }
}

fn progress_is_shown_in_lines_and_on_a_terminal_in_a_bar(site: &Site) {
    let (server, _, files) = start(site);
    let mut loading = Loading::begin(&server, &[]);
    loading.next();
    sleep(Duration::from_millis(600));
    loading.next();
    let (ended, _) = loading.end();
    let line = ended.err.lines().find(|line| line.contains(" items/s")).unwrap();
    assert!(line.starts_with("loading: ") && line.contains(" items, "), "{line}");
    let file = files.write("items", (0..500_000).map(|item| format!("item-{item}\r\n")).collect::<String>());
    // `script` gives the tool a terminal. Without TERM there is no bar.
    let load = format!("{} load {} terminal {file}", path().display(), url(&server));
    let mut script = Command::new("script");
    script.args(["-qec", &load, "/dev/null"]).env("TERM", "xterm");
    let Ok(ended) = script.stdin(Stdio::null()).output() else {
        return skip("there is no script");
    };
    let (text, error) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    if error.contains("failed to create pseudo-terminal") {
        return skip(error.trim());
    }
    assert!(ended.status.success() && text.contains(" items/s") && text.contains(" left"), "{ended:?}");
    // Finds the last state of each bar, just before the tool prints something else.
    for (task, next) in [("counting", "loading"), ("loading", "the file has CRLF line ends")] {
        let shown = text.split(next).next().unwrap().rsplit(task).next().unwrap();
        assert!(shown.contains(" 100 %, 500000 items"), "{task}: {shown}");
    }
    assert!(text.contains("terminal: 500000 items, "), "{text}");
}
