//! Commands in transactions, scripts and functions.

use crate::harness::{Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    transactions_reply_to_every_command,
    an_error_in_a_transaction_does_not_stop_it,
    a_command_with_wrong_arity_aborts_the_transaction,
    scripts_get_integers,
    scripts_get_booleans_in_resp3,
    scripts_see_errors_as_errors,
    read_only_scripts_may_check_but_not_add,
    scripts_obey_the_flags_of_their_keys,
    functions_may_add_and_check,
    a_stopped_transaction_changes_nothing,
];

fn transactions_reply_to_every_command(site: &Site) {
    let server = site.start();
    for (mut client, one, zero) in [(server.client(), "1", "0"), (server.client3(), "#t", "#f")] {
        client.say("FLUSHALL");
        client.say("MULTI");
        for command in ["BF.RESERVE k 0.01 10", "BF.ADD k a", "BF.MADD k a b", "BF.EXISTS k b", "BF.CARD k"] {
            assert_eq!(client.say(command), "+QUEUED");
        }
        assert_eq!(client.say("EXEC"), format!("[+OK, {one}, [{zero}, {one}], {one}, 2]"));
    }
}

fn an_error_in_a_transaction_does_not_stop_it(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("MULTI");
    for command in
        ["BF.RESERVE k 0.01 1 NONSCALING", "BF.RESERVE k 0.01 1", "BF.MADD k a b", "BF.ADD k c", "BF.CARD k"]
    {
        client.say(command);
    }
    let full = "-ERR non scaling filter is full";
    assert_eq!(client.say("EXEC"), format!("[+OK, -ERR item exists, [1, {full}], {full}, 1]"));
}

fn a_command_with_wrong_arity_aborts_the_transaction(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("MULTI");
    client.say("BF.ADD k a");
    assert_eq!(client.say("BF.ADD k"), "-ERR wrong number of arguments for 'bf.add' command");
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.int("EXISTS k"), 0);
}

fn scripts_get_integers(site: &Site) {
    let server = site.start();
    for mut client in [server.client(), server.client3()] {
        client.say("FLUSHALL");
        let eval = |client: &mut crate::harness::Client, body: &str| {
            client.ask(&["EVAL", &format!("return redis.call({body})"), "1", "k"])
        };
        assert_eq!(eval(&mut client, "'BF.ADD', KEYS[1], 'a'"), "1");
        assert_eq!(eval(&mut client, "'BF.ADD', KEYS[1], 'a'"), "0");
        assert_eq!(eval(&mut client, "'BF.MADD', KEYS[1], 'a', 'b'"), "[0, 1]");
        assert_eq!(eval(&mut client, "'BF.EXISTS', KEYS[1], 'b'"), "1");
        assert_eq!(eval(&mut client, "'BF.MEXISTS', KEYS[1], 'b', 'c'"), "[1, 0]");
        assert_eq!(eval(&mut client, "'BF.CARD', KEYS[1]"), "2");
        assert_eq!(eval(&mut client, "'BF.INFO', KEYS[1], 'CAPACITY'"), "[100]");
    }
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

fn scripts_see_errors_as_errors(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.INSERT k CAPACITY 1 NONSCALING ITEMS a");
    let script = "local reply = redis.pcall('BF.ADD', KEYS[1], 'b') return reply.err";
    assert_eq!(client.ask(&["EVAL", script, "1", "k"]), "\"ERR non scaling filter is full\"");
    let reply = client.ask(&["EVAL", "return redis.call('BF.ADD', KEYS[1], 'b')", "1", "k"]);
    assert!(reply.starts_with("-ERR non scaling filter is full"), "{reply}");
    let reply = client.ask(&["EVAL", "return redis.call('BF.RESERVE', KEYS[1], '2', '10')", "1", "n"]);
    assert!(reply.starts_with("-ERR error rate must be in the range"), "{reply}");
    client.say("SET s text");
    let reply = client.ask(&["EVAL", "return redis.call('BF.ADD', KEYS[1], 'b')", "1", "s"]);
    assert!(reply.starts_with("-WRONGTYPE"), "{reply}");
}

fn read_only_scripts_may_check_but_not_add(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.MADD k a b");
    for read in [
        "'BF.EXISTS', KEYS[1], 'a'",
        "'BF.CARD', KEYS[1]",
        "'BF.MEXISTS', KEYS[1], 'a'",
        "'BF.INFO', KEYS[1]",
        "'BF.DEBUG', KEYS[1]",
        "'BF.SCANDUMP', KEYS[1], '0'",
    ] {
        let reply = client.ask(&["EVAL_RO", &format!("return redis.call({read})"), "1", "k"]);
        assert!(!reply.starts_with('-'), "{read}: {reply}");
    }
    for write in [
        "'BF.ADD', KEYS[1], 'c'",
        "'BF.MADD', KEYS[1], 'c'",
        "'BF.INSERT', KEYS[1], 'ITEMS', 'c'",
        "'BF.RESERVE', KEYS[1], '0.1', '9'",
        "'BF.LOADCHUNK', KEYS[1], '1', 'x'",
    ] {
        let reply = client.ask(&["EVAL_RO", &format!("return redis.call({write})"), "1", "k"]);
        assert!(reply.contains("Write commands are not allowed from read-only scripts"), "{write}: {reply}");
    }
    assert_eq!(client.int("BF.CARD k"), 2);
}

fn scripts_obey_the_flags_of_their_keys(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    // A script with a flag that it needs no memory may run above `maxmemory`, but adds need memory.
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

fn a_stopped_transaction_changes_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("MULTI");
    client.say("BF.ADD k a");
    assert_eq!(client.say("DISCARD"), "+OK");
    assert_eq!(client.int("EXISTS k"), 0);
}
