//! Every error text, and where everbloom differs from RedisBloom.

use crate::harness::{Client, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    wrong_arity_is_an_error,
    reserve_names_what_is_wrong,
    reserve_refuses_words_it_does_not_know,
    option_words_are_whole_words_after_the_positional_arguments,
    insert_names_what_is_wrong,
    missing_keys_are_errors_where_redisbloom_says_so,
    another_type_is_wrongtype_everywhere,
    error_rates_above_a_quarter_are_kept_as_asked,
    capacities_above_two_to_the_thirty_are_allowed,
    errors_create_no_key,
    an_unknown_word_cannot_smuggle_a_reply_in,
];

pub(crate) const WRONGTYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// Checks the reply of each command; the key `f` holds a filter, `s` a string, `k` nothing.
pub(crate) fn replies(site: &Site, script: &[(&str, &str)]) {
    let server = site.start();
    let mut client = prepared(server.client());
    for (command, reply) in script {
        assert_eq!(client.say(command), *reply, "{command}");
    }
    assert_eq!(client.int("EXISTS k"), 0, "a refused command made a key");
}

fn prepared(mut client: Client) -> Client {
    assert_eq!(client.say("BF.RESERVE f 0.01 100"), "+OK");
    assert_eq!(client.say("SET s text"), "+OK");
    client
}

fn wrong_arity_is_an_error(site: &Site) {
    let server = site.start();
    let mut client = prepared(server.client());
    let commands = [
        "bf.reserve",
        "bf.reserve k",
        "bf.reserve k 0.01",
        "bf.reserve k 0.01 100 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18",
        "bf.add",
        "bf.add k",
        "bf.add k a b",
        "bf.madd",
        "bf.madd k",
        "bf.insert",
        "bf.insert k",
        "bf.insert k ITEMS",
        "bf.insert k CAPACITY 100",
        "bf.insert k CAPACITY 100 ITEMS",
        "bf.insert k NOCREATE CAPACITY",
        "bf.insert k NOCREATE ERROR",
        "bf.insert k NOCREATE EXPANSION",
        "bf.insert k NOCREATE NONSCALING",
        "bf.insert f NOCREATE NONSCALING",
        "bf.del",
        "bf.del k",
        "bf.exists",
        "bf.exists k",
        "bf.exists k a b",
        "bf.mexists",
        "bf.mexists k",
        "bf.bulkadd k LINES",
        "bf.bulkadd k FIXED 1",
        "bf.bulkexists k a",
        "bf.info",
        "bf.info k CAPACITY SIZE",
        "bf.card",
        "bf.stats",
        "bf.card k k",
        "bf.debug",
        "bf.debug k k",
        "bf.scandump",
        "bf.scandump k",
        "bf.scandump k 0 0",
        "bf.loadchunk",
        "bf.loadchunk k",
        "bf.loadchunk k 1",
        "bf.loadchunk k 1 data data",
        "bf.load",
        "bf.load k",
        "bf.load k blob blob",
    ];
    for command in commands {
        let name = command.split(' ').next().unwrap();
        let expected = format!("-ERR wrong number of arguments for '{name}' command");
        assert_eq!(client.say(command), expected, "{command}");
        let upper = command.replace(name, &name.to_uppercase());
        assert_eq!(client.say(&upper), expected, "{upper}");
    }
}

fn reserve_names_what_is_wrong(site: &Site) {
    let rate = "-ERR error rate must be in the range (0.000000, 1.000000)";
    let capacity = "-ERR capacity must be in the range [1, 1099511627776]";
    let expansion = "-ERR expansion must be in the range [0, 32768]";
    replies(
        site,
        &[
            ("BF.RESERVE k abc 100", "-ERR bad error rate"),
            ("BF.RESERVE k 0 100", rate),
            ("BF.RESERVE k 1 100", rate),
            ("BF.RESERVE k -0.1 100", rate),
            ("BF.RESERVE k 1.5 100", rate),
            ("BF.RESERVE k 0.01 abc", "-ERR bad capacity"),
            ("BF.RESERVE k 0.01 0", capacity),
            ("BF.RESERVE k 0.01 -1", capacity),
            ("BF.RESERVE k 0.01 1099511627777", capacity),
            ("BF.RESERVE k 0.01 9223372036854775807", capacity),
            ("BF.RESERVE k 0.01 9223372036854775808", "-ERR bad capacity"),
            ("BF.RESERVE k 0.01 100 EXPANSION", "-ERR no expansion"),
            ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION", "-ERR no expansion"),
            ("BF.RESERVE k 0.01 100 EXPANSION abc", "-ERR bad expansion"),
            ("BF.RESERVE k 0.01 100 EXPANSION NONSCALING", "-ERR bad expansion"),
            ("BF.RESERVE k 0.01 100 EXPANSION -1", expansion),
            ("BF.RESERVE k 0.01 100 EXPANSION 32769", expansion),
            ("BF.RESERVE k 0.01 100 EXPANSION 4294967296", expansion),
            ("BF.RESERVE k 0.01 100 EXPANSION 2 NONSCALING", "-Nonscaling filters cannot expand"),
            ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION 2", "-Nonscaling filters cannot expand"),
            // Before the range of the factor.
            ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION -1", "-Nonscaling filters cannot expand"),
            ("BF.RESERVE f 0.01 100", "-ERR item exists"),
            ("BF.RESERVE s 0.01 100", WRONGTYPE),
        ],
    );
}

fn reserve_refuses_words_it_does_not_know(site: &Site) {
    replies(
        site,
        &[
            ("BF.RESERVE k 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
            ("BF.RESERVE k 0.01 100 NONSCALING bar", "-ERR unknown argument 'bar'"),
            ("BF.RESERVE k 0.01 100 EXPANSION 2 Baz", "-ERR unknown argument 'Baz'"),
            ("BF.RESERVE k 0.01 100 200", "-ERR unknown argument '200'"),
            ("BF.RESERVE f 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
            ("BF.RESERVE k x 100 FOO", "-ERR bad error rate"),
        ],
    );
}

fn option_words_are_whole_words_after_the_positional_arguments(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    // In RedisBloom the first key would be fixed, and the second always `bad expansion`.
    assert_eq!(client.say("BF.RESERVE NONSCALING 0.01 100"), "+OK");
    assert_eq!(client.say("BF.INFO NONSCALING EXPANSION"), "[2]");
    assert_eq!(client.say("BF.RESERVE EXPANSION 0.01 100"), "+OK");
    assert_eq!(client.say("BF.INFO EXPANSION EXPANSION"), "[2]");
    assert_eq!(client.say("BF.INSERT ITEMS ITEMS ITEMS"), "[1]");
    assert_eq!(client.say("BF.EXISTS ITEMS ITEMS"), "1");
    // After ITEMS everything is an item.
    assert_eq!(client.say("BF.INSERT k ITEMS NOCREATE ITEMS CAPACITY"), "[1, 1, 1]");
    for word in
        ["i", "IT", "ITEM", "ITEMSX", "e", "er", "ERRO", "EXP", "c", "CAP", "n", "NOPE", "NOC", "NONSC"]
    {
        let command = format!("BF.INSERT z {word} 0.5 ITEMS a");
        assert_eq!(client.say(&command), "-Unknown argument received", "{command}");
    }
    for word in ["NON", "NONSCALINGS", "EXP", "e"] {
        let command = format!("BF.RESERVE z 0.01 100 {word}");
        assert_eq!(client.say(&command), format!("-ERR unknown argument '{word}'"), "{command}");
    }
    assert_eq!(client.int("EXISTS z"), 0);
}

fn insert_names_what_is_wrong(site: &Site) {
    replies(
        site,
        &[
            ("BF.INSERT k CAPACITY abc ITEMS a", "-Bad capacity"),
            ("BF.INSERT k CAPACITY 0 ITEMS a", "-Bad capacity"),
            ("BF.INSERT k CAPACITY -1 ITEMS a", "-Bad capacity"),
            ("BF.INSERT k CAPACITY 1099511627777 ITEMS a", "-Bad capacity"),
            ("BF.INSERT k ERROR abc ITEMS a", "-Bad error rate"),
            ("BF.INSERT k ERROR 0 ITEMS a", "-Bad error rate"),
            ("BF.INSERT k ERROR 1 ITEMS a", "-Bad error rate"),
            ("BF.INSERT k ERROR inf ITEMS a", "-Bad error rate"),
            ("BF.INSERT k EXPANSION abc ITEMS a", "-Bad expansion"),
            ("BF.INSERT k EXPANSION -1 ITEMS a", "-Bad expansion"),
            ("BF.INSERT k EXPANSION 32769 ITEMS a", "-Bad expansion"),
            ("BF.INSERT k FOO ITEMS a", "-Unknown argument received"),
            ("BF.INSERT k a b", "-Unknown argument received"),
            ("BF.INSERT k NOCREATE ITEMS a", "-ERR not found"),
            ("BF.INSERT s ITEMS a", WRONGTYPE),
            ("BF.INSERT s NOCREATE ITEMS a", WRONGTYPE),
        ],
    );
}

fn missing_keys_are_errors_where_redisbloom_says_so(site: &Site) {
    replies(
        site,
        &[
            ("BF.INFO k", "-ERR not found"),
            ("BF.INFO k CAPACITY", "-ERR not found"),
            ("BF.DEBUG k", "-ERR not found"),
            ("BF.SCANDUMP k 0", "-ERR not found"),
            ("BF.LOADCHUNK k 2 data", "-ERR not found"),
            ("BF.LOADCHUNK k 0 data", "-ERR not found"),
            ("BF.LOADCHUNK k -1 data", "-ERR not found"),
            ("BF.LOADCHUNK k 1 data", "-ERR received bad data"),
            ("BF.CARD k", "0"),
            ("BF.EXISTS k a", "0"),
        ],
    );
}

fn another_type_is_wrongtype_everywhere(site: &Site) {
    let commands = [
        "BF.RESERVE x 0.01 100",
        "BF.ADD x a",
        "BF.MADD x a b",
        "BF.INSERT x ITEMS a b",
        "BF.INSERT x NOCREATE ITEMS a b",
        "BF.EXISTS x a",
        "BF.MEXISTS x a b",
        "BF.INFO x",
        "BF.INFO x CAPACITY",
        "BF.CARD x",
        "BF.STATS x",
        "BF.DEBUG x",
        "BF.SCANDUMP x 0",
        "BF.LOADCHUNK x 1 data",
        "BF.LOADCHUNK x 2 data",
    ];
    let server = site.start();
    let mut client = server.client();
    for make in ["SET x text", "RPUSH x a", "SADD x a", "HSET x a b", "ZADD x 1 a", "XADD x * a b"] {
        client.say("DEL x");
        client.say(make);
        let before = client.digest("x");
        for command in commands {
            assert_eq!(client.say(command), WRONGTYPE, "{command} after {make}");
        }
        assert_eq!(client.digest("x"), before, "{make}");
    }
    client.say("DEL x");
    client.say("BF.ADD x a");
    for command in ["GET x", "LPUSH x a", "SADD x a", "APPEND x a", "INCR x", "HGETALL x"] {
        assert_eq!(client.say(command), WRONGTYPE, "{command} on a filter");
    }
}

fn error_rates_above_a_quarter_are_kept_as_asked(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE half 0.5 1000 NONSCALING"), "+OK");
    assert_eq!(client.say("BF.RESERVE quarter 0.25 1000 NONSCALING"), "+OK");
    assert!(client.say("BF.DEBUG half").contains("ratio:0.5"));
    let bytes = |client: &mut Client, key: &str| -> u64 {
        let debug = client.say(&format!("BF.DEBUG {key}"));
        let (_, rest) = debug.split_once("bytes:").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    assert!(bytes(&mut client, "half") < bytes(&mut client, "quarter"));
    assert_eq!(client.say("BF.INSERT most CAPACITY 1000 ERROR 0.99 ITEMS a"), "[1]");
    assert!(client.say("BF.DEBUG most").contains("ratio:0.7425"));
}

fn capacities_above_two_to_the_thirty_are_allowed(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.1 1073741825 NONSCALING"), "+OK");
    assert_eq!(client.say("BF.INFO k CAPACITY"), "[1073741825]");
    assert_eq!(client.say("BF.ADD k a"), "1");
    assert_eq!(client.say("BF.MEXISTS k a b"), "[1, 0]");
}

fn errors_create_no_key(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for command in [
        "BF.RESERVE k 0 100",
        "BF.RESERVE k 0.01 100 FOO",
        "BF.RESERVE k 0.01 1099511627776",
        "BF.INSERT k CAPACITY 1099511627776 ITEMS a",
        "BF.INSERT k NOCREATE ITEMS a",
        "BF.LOADCHUNK k 1 rubbish",
        "BF.LOADCHUNK k 9 rubbish",
        "BF.INFO k",
    ] {
        assert!(client.say(command).starts_with('-'), "{command}");
        assert_eq!(client.int("DBSIZE"), 0, "{command}");
    }
    assert_eq!(client.info_number("rdb_changes_since_last_save"), 0);
}

fn an_unknown_word_cannot_smuggle_a_reply_in(site: &Site) {
    let server = site.start();
    let mut raw = server.raw();
    let long = vec![b'x'; 1 << 20];
    let words: [&[u8]; 5] = [b"a\r\n+PWNED", b"\n", b"nul\0nul", b"\xff\xfe", &long];
    for word in words {
        let reply = raw.ask(&[b"BF.RESERVE".as_slice(), b"k", b"0.01", b"100", word]);
        assert!(reply.starts_with("-ERR unknown argument '"), "{reply:.100}");
        assert_eq!(reply.matches("\r\n").count(), 1, "{reply:.100}");
        assert_eq!(raw.say("PING"), "+PONG\r\n");
    }
}
