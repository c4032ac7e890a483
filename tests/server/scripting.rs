//! Commands in transactions, scripts and functions.

use crate::harness::{Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    transactions_reply_to_every_command,
    a_transaction_that_is_aborted_changes_nothing,
    scripts_get_integers_and_errors,
    scripts_get_the_error_of_a_refused_item,
    scripts_get_booleans_in_resp3,
    read_only_scripts_may_check_but_not_add,
    scripts_obey_the_flags_of_their_keys,
    functions_may_add_and_check,
    scripts_copy_a_filter_with_iterators_as_text,
];

fn transactions_reply_to_every_command(site: &Site) {
    let server = site.start();
    for (mut client, one, zero) in [(server.client(), "1", "0"), (server.client3(), "#t", "#f")] {
        client.say("FLUSHALL");
        client.say("MULTI");
        for command in [
            "BF.RESERVE k 0.0001 2 NONSCALING",
            "BF.ADD k a",
            "BF.MADD k a b c",
            "BF.EXISTS k b",
            "BF.CARD k",
            "BF.BULKADD k FIXED 1 aca",
            "BF.BULKEXISTS k COUNT FIXED 1 abc",
            "BF.RESERVE k 0.01 1",
        ] {
            assert_eq!(client.say(command), "+QUEUED");
        }
        let full = "-ERR non scaling filter is full";
        let replies =
            format!("[+OK, {one}, [{zero}, {one}, {full}], {one}, 2, \"0!0\", 2, -ERR item exists]");
        assert_eq!(client.say("EXEC"), replies);
    }
}

fn a_transaction_that_is_aborted_changes_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("MULTI");
    client.say("BF.ADD k a");
    assert_eq!(client.say("DISCARD"), "+OK");
    client.say("MULTI");
    client.say("BF.ADD k a");
    assert_eq!(client.say("BF.ADD k"), "-ERR wrong number of arguments for 'bf.add' command");
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.int("EXISTS k"), 0);
}

fn scripts_get_integers_and_errors(site: &Site) {
    let server = site.start();
    for mut client in [server.client(), server.client3()] {
        client.say("FLUSHALL");
        client.say("SET s text");
        for (call, key, reply) in [
            ("'BF.INSERT', KEYS[1], 'CAPACITY', 2, 'NONSCALING', 'ITEMS', 'a'", "k", "[1]"),
            ("'BF.ADD', KEYS[1], 'a'", "k", "0"),
            ("'BF.MADD', KEYS[1], 'a', 'b'", "k", "[0, 1]"),
            ("'BF.EXISTS', KEYS[1], 'b'", "k", "1"),
            ("'BF.MEXISTS', KEYS[1], 'b', 'c'", "k", "[1, 0]"),
            ("'BF.CARD', KEYS[1]", "k", "2"),
            ("'BF.INFO', KEYS[1], 'CAPACITY'", "k", "[2]"),
            ("'BF.BULKADD', KEYS[1], 'LINES', 'a\\nc'", "k", "\"0!\""),
            ("'BF.ADD', KEYS[1], 'c'", "k", "-ERR non scaling filter is full"),
            ("'BF.RESERVE', KEYS[1], '2', '10'", "n", "-ERR error rate must be in the range"),
            ("'BF.ADD', KEYS[1], 'b'", "s", "-WRONGTYPE Operation against a key"),
        ] {
            let replied = client.ask(&["EVAL", &format!("return redis.call({call})"), "1", key]);
            assert!(
                replied == reply || reply.starts_with('-') && replied.starts_with(reply),
                "{call}: {replied}"
            );
        }
        let script = "local reply = redis.pcall('BF.ADD', KEYS[1], 'c') return reply.err";
        assert_eq!(client.ask(&["EVAL", script, "1", "k"]), "\"ERR non scaling filter is full\"");
    }
}

/// Valkey 9.1 takes an error within an array for the reply of the command.
fn scripts_get_the_error_of_a_refused_item(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let call = "('BF.MADD', KEYS[1], 'a', 'b')";
    let [called, caught, length] = [
        format!("return redis.call{call}"),
        format!("local reply = redis.pcall{call} return reply.err or reply[2].err"),
        format!("return #redis.pcall{call}"),
    ]
    .map(|script| {
        client.say("DEL k");
        assert_eq!(client.say("BF.RESERVE k 0.0001 1 NONSCALING"), "+OK");
        let reply = client.ask(&["EVAL", &script, "1", "k"]);
        // The item before the refused one was added.
        assert_eq!(client.say("BF.MEXISTS k a b"), "[1, 0]", "{script}");
        reply
    });
    assert_eq!(caught, "\"ERR non scaling filter is full\"");
    if site.from(None, Some((9, 1))) {
        assert!(called.starts_with("-ERR non scaling filter is full script"), "{called}");
        assert_eq!(length, "0");
    } else {
        assert_eq!(called, "[1, -ERR non scaling filter is full]");
        assert_eq!(length, "2");
    }
}

fn read_only_scripts_may_check_but_not_add(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.MADD k a b");
    for (call, is_read) in [
        ("'BF.EXISTS', KEYS[1], 'a'", true),
        ("'BF.CARD', KEYS[1]", true),
        ("'BF.BULKEXISTS', KEYS[1], 'LINES', 'a'", true),
        ("'BF.SCANDUMP', KEYS[1], '0'", true),
        ("'BF.ADD', KEYS[1], 'c'", false),
        ("'BF.INSERT', KEYS[1], 'ITEMS', 'c'", false),
        ("'BF.RESERVE', KEYS[1], '0.1', '9'", false),
        ("'BF.LOADCHUNK', KEYS[1], '1', 'x'", false),
    ] {
        let reply = client.ask(&["EVAL_RO", &format!("return redis.call({call})"), "1", "k"]);
        let is_refused = reply.contains("Write commands are not allowed from read-only scripts");
        assert_eq!(is_refused, !is_read, "{call}: {reply}");
    }
    assert_eq!(client.int("BF.CARD k"), 2);
}

fn scripts_get_booleans_in_resp3(site: &Site) {
    let server = site.start();
    let mut client = server.client3();
    let script = "redis.setresp(3); local added = redis.call('BF.ADD', KEYS[1], 'a') \
                  local info = redis.call('BF.INFO', KEYS[1], 'ITEMS') \
                  local name, items = next(info.map) \
                  return {type(added), tostring(added), name.ok, items}";
    let expected = "[\"boolean\", \"true\", \"Number of items inserted\", 1]";
    assert_eq!(client.ask(&["EVAL", script, "1", "k"]), expected);
}

fn scripts_obey_the_flags_of_their_keys(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    // Above `maxmemory` a server refuses a script with a `#!lua` line, unless it has the flag `no-writes` or
    // `allow-oom`.
    client.say("CONFIG SET maxmemory 1");
    let reply = client.ask(&["EVAL", "#!lua\nreturn redis.call('BF.ADD', KEYS[1], 'b')", "1", "k"]);
    assert!(reply.starts_with("-OOM"), "{reply}");
    let script = "#!lua flags=no-writes\nreturn redis.call('BF.EXISTS', KEYS[1], 'a')";
    assert_eq!(client.ask(&["EVAL", script, "1", "k"]), "1");
}

fn functions_may_add_and_check(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let library = "#!lua name=lib\n\
        redis.register_function('seen', function(keys, args) \
        return redis.call('BF.ADD', keys[1], args[1]) end)\n\
        redis.register_function{function_name='has', callback=function(keys, args) \
        return redis.call('BF.EXISTS', keys[1], args[1]) end, flags={'no-writes'}}";
    assert_eq!(client.ask(&["FUNCTION", "LOAD", library]), "\"lib\"");
    assert_eq!(client.say("FCALL seen 1 k a"), "1");
    assert_eq!(client.say("FCALL seen 1 k a"), "0");
    assert_eq!(client.say("FCALL_RO has 1 k a"), "1");
    assert!(client.say("FCALL_RO seen 1 k a").starts_with('-'));
}

/// Lua writes a number with 14 digits, unless a format is given.
fn scripts_copy_a_filter_with_iterators_as_text(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for reserve in ["BF.RESERVE k 0.001 1000", "BF.RESERVE k 0.001 1000 FORMAT valkey-bloom"] {
        client.say("DEL k");
        assert_eq!(client.say(reserve), "+OK");
        for (number, text) in ["tostring(it)", "it .. ''", "cjson.encode(it)"].into_iter().enumerate() {
            let script = format!(
                "local it, text, chunks = 0, '0', 0 \
                 while true do \
                   local reply = redis.call('BF.SCANDUMP', KEYS[1], text) \
                   it = reply[1] \
                   if it == 0 then return chunks end \
                   text, chunks = {text}, chunks + 1 \
                   redis.call('BF.LOADCHUNK', KEYS[2], text, reply[2]) \
                 end"
            );
            // Each dump draws other iterators, because the filter has changed. It has a layer and a table, or layers.
            for dump in 0..4 {
                let items: Vec<_> = (0..1000).map(|item| format!("{number}-{dump}-{item}")).collect();
                client.many("BF.MADD k", &items);
                client.say("DEL copy");
                let chunks = client.ask(&["EVAL", &script, "2", "k", "copy"]);
                assert!(chunks.parse::<u64>().is_ok_and(|chunks| chunks >= 2), "{reserve}, {text}: {chunks}");
                assert_eq!(client.digest("copy"), client.digest("k"), "{reserve}, {text}");
            }
        }
    }
}
