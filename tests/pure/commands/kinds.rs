//! Behaviour of commands that depends on the kind of the filter.

use everbloom_command::Settings;
use everbloom_filter::Format;
use everbloom_filter::Hash;
use everbloom_filter::hash::murmur2::Murmur2;
use everbloom_format::filter::header;

use crate::support::fixtures::cases;
use crate::support::saved::assert_survives;
use crate::support::server::Server;

/// The options that determine the kind of a filter, each with the word that names it in the error.
const KIND_OPTIONS: [(&str, &str); 14] = [
    ("FORMAT everbloom", "FORMAT"),
    ("FORMAT redisbloom", "FORMAT"),
    ("FORMAT valkey-bloom", "FORMAT"),
    ("COUNTING", "COUNTING"),
    ("SATURATE", "SATURATE"),
    ("KEYED", "KEYED"),
    ("KEY 0123456789abcdef", "KEY"),
    ("KEY 0123456789abcdeF", "KEY"),
    ("WINDOW 60", "WINDOW"),
    ("PWINDOW 60001", "WINDOW"),
    ("NOREFRESH", "NOREFRESH"),
    ("SEED 0123456789abcdef0123456789ABCDEF", "SEED"),
    ("SEED 0123456789abcdef0123456789ABCDEf", "SEED"),
    ("TIGHTENING 0.3", "TIGHTENING"),
];

#[test]
fn an_option_that_repeats_the_kind_of_a_filter_is_accepted_and_any_other_refused() {
    let kinds: [(&str, &[&str]); 9] = [
        ("FORMAT everbloom", &["FORMAT everbloom"]),
        ("COUNTING", &["FORMAT everbloom", "COUNTING"]),
        ("NONSCALING SATURATE FORMAT everbloom", &["FORMAT everbloom", "SATURATE"]),
        ("KEY 0123456789abcdef FORMAT everbloom", &["FORMAT everbloom", "KEYED", "KEY 0123456789abcdef"]),
        ("KEY 0123456789abcdef COUNTING", &["FORMAT everbloom", "KEYED", "KEY 0123456789abcdef", "COUNTING"]),
        ("WINDOW 60", &["FORMAT everbloom", "WINDOW 60"]),
        ("WINDOW 60 NOREFRESH", &["FORMAT everbloom", "WINDOW 60", "NOREFRESH"]),
        ("FORMAT redisbloom", &["FORMAT redisbloom"]),
        (
            "SEED 0123456789abcdef0123456789ABCDEF",
            &["FORMAT valkey-bloom", "SEED 0123456789abcdef0123456789ABCDEF", "TIGHTENING 0.3"],
        ),
    ];
    // The settings for new filters have no effect on an existing one.
    for (format, keyed) in Format::ALL.into_iter().flat_map(|format| [(format, false), (format, true)]) {
        for (words, own) in kinds {
            let mut server = Server::new();
            assert_eq!(server.run(&format!("BF.INSERT k CAPACITY 100 {words} ITEMS a")), "*1 #t", "{words}");
            (server.settings.format, server.settings.keyed) = (format, keyed);
            for (number, (option, word)) in KIND_OPTIONS.into_iter().enumerate() {
                let before = header(server.filter("k"));
                let line = format!("BF.INSERT k {option} ITEMS new-{number}");
                let reply = server.run(&line);
                if own.contains(&option) {
                    assert_eq!(reply, "*1 #t", "{line} for {words}");
                    continue;
                }
                let differs = format!(
                    "-ERR {word} differs from the existing filter: omit the option, or use another key"
                );
                assert_eq!(reply, differs, "{line} for {words}");
                assert!(header(server.filter("k")) == before, "{line} for {words}");
            }
            let all = own.join(" ");
            assert_eq!(server.run(&format!("BF.INSERT k {all} ITEMS all")), "*1 #t", "{words}");
            server.assert_replicated(Settings::DEFAULT);
        }
    }
}

#[test]
fn the_error_rate_of_redisblooms_filters_is_at_most_a_quarter() {
    let made = |line: &str, settings: Settings| {
        let mut server = Server::new();
        server.settings = settings;
        server.must(line);
        header(server.filter("k"))
    };
    let reserve = |rate: &str| made(&format!("BF.RESERVE k {rate} 100 FORMAT redisbloom"), Settings::DEFAULT);
    let insert =
        |rate: &str| made(&format!("BF.INSERT k ERROR {rate} FORMAT redisbloom ITEMS a"), Settings::DEFAULT);
    for rate in ["0.2501", "0.5", "0.9", "0.999999"] {
        assert_eq!((reserve(rate), insert(rate)), (reserve("0.25"), insert("0.25")), "{rate}");
    }
    assert_ne!(reserve("0.2499"), reserve("0.25"));
    // The default rate too.
    let settings = Settings { format: Format::RedisBloom, error_rate: 0.7, ..Settings::DEFAULT };
    assert_eq!(made("BF.ADD k a", settings), insert("0.25"));
    // Only in that format.
    for format in ["everbloom", "valkey-bloom"] {
        let mut server = Server::new();
        server.must(&format!("BF.RESERVE k 0.9 100 FORMAT {format}"));
        assert_eq!(server.run("BF.INFO k ERROR-RATE"), "*1 ,0.9", "{format}");
    }
}

#[test]
fn chunks_load_as_redisbloom_1_1_if_configured() {
    // The hash of this release does not follow from its bytes.
    let case = cases("redisbloom-1.1.1").into_iter().find(|case| case.key.ends_with(":reserved")).unwrap();
    for assume in [true, false] {
        let mut server = Server::new();
        server.settings.assume_redisbloom_1_1 = assume;
        for (iterator, data) in case.chunks() {
            let reply = server.call(&[b"BF.LOADCHUNK", b"k", iterator.to_string().as_bytes(), &data]);
            assert_eq!(reply, "+OK", "{iterator}");
        }
        let hash = *server.filter("k").layers()[0].hash();
        assert_eq!(hash == Hash::RedisBloom(Murmur2::WideCutSeeds), assume);
        // A union has this hash in a record of its own.
        assert_eq!(server.run("BF.RESERVE union 0.01 10"), "+OK");
        assert_eq!(server.run("BF.MERGE union k FORCE"), "+OK");
        assert!(server.filter("union").layers().iter().any(|layer| *layer.hash() == hash));
        assert_survives(server.filter("union"), "union");
        let found =
            case.members.iter().filter(|item| server.call(&[b"BF.EXISTS", b"k", item]) == "#t").count();
        assert!(
            if assume { found == case.members.len() } else { found * 10 < case.members.len() },
            "{found}"
        );
    }
}
