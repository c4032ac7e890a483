//! Every error text, and the differences from RedisBloom.

use crate::harness::{Client, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    option_words_are_whole_words,
    another_type_is_wrongtype_everywhere,
    error_rates_above_a_quarter_are_kept,
    capacities_above_two_to_the_thirty_are_allowed,
    errors_create_no_key,
    an_unknown_word_cannot_inject_a_reply,
];

pub(crate) const WRONGTYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

fn option_words_are_whole_words(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for word in
        ["i", "IT", "ITEM", "ITEMSX", "e", "er", "ERRO", "EXP", "c", "CAP", "n", "NOPE", "NOC", "NONSC"]
    {
        let command = format!("BF.INSERT z {word} 0.5 ITEMS a");
        assert_eq!(client.say(&command), "-Unknown argument received", "{command}");
    }
    assert_eq!(client.int("EXISTS z"), 0);
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

fn error_rates_above_a_quarter_are_kept(site: &Site) {
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

fn an_unknown_word_cannot_inject_a_reply(site: &Site) {
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
