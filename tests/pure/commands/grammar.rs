//! Wrong words, and which error wins; questions about nothing and about other types.

use crate::support::server::{Server, assert_dialogue};

#[test]
fn reserve_checks_in_redisblooms_order() {
    let dialogue = [
        ("BF.RESERVE k x y", "-ERR bad error rate"),
        ("BF.RESERVE k nan 0", "-ERR bad error rate"),
        ("BF.RESERVE k 0 y", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k inf y", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k 1 y", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k 0.01 1e3 FOO", "-ERR bad capacity"),
        ("BF.RESERVE k 0.01 0 FOO", "-ERR capacity must be in the range [1, 1099511627776]"),
        ("BF.RESERVE k 0.01 -5", "-ERR capacity must be in the range [1, 1099511627776]"),
        ("BF.RESERVE k 0.01 1099511627777", "-ERR capacity must be in the range [1, 1099511627776]"),
        ("BF.RESERVE k 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
        ("BF.RESERVE k 0.01 100 EXPANSION", "-ERR no expansion"),
        ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION", "-ERR no expansion"),
        ("BF.RESERVE k 0.01 100 EXPANSION NONSCALING", "-ERR bad expansion"),
        ("BF.RESERVE k 0.01 100 EXPANSION 1.5", "-ERR bad expansion"),
        ("BF.RESERVE k 0.01 100 EXPANSION -1", "-ERR expansion must be in the range [0, 32768]"),
        ("BF.RESERVE k 0.01 100 EXPANSION 32769", "-ERR expansion must be in the range [0, 32768]"),
        ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION -1", "-Nonscaling filters cannot expand"),
        ("BF.RESERVE k 0.01", "-ERR wrong number of arguments for 'bf.reserve' command"),
        (
            "BF.RESERVE k 0.01 1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18",
            "-ERR wrong number of arguments for 'bf.reserve' command",
        ),
        ("BF.RESERVE string 0.01 100", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BF.RESERVE string 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
    ];
    let mut server = Server::new();
    assert_dialogue(&mut server, &dialogue);
    assert!(server.keys.is_empty() && server.replicated.is_empty());
}

#[test]
fn insert_reads_whole_words_from_left_to_right() {
    let dialogue = [
        ("BF.INSERT k ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT k CAPACITY 10", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT k NOCREATE NONSCALING", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT k I a", "-Unknown argument received"),
        ("BF.INSERT k NOPE ITEMS a", "-Unknown argument received"),
        ("BF.INSERT k CAPACITY 0 ITEMS a", "-Bad capacity"),
        ("BF.INSERT k CAPACITY x ITEMS a", "-Bad capacity"),
        ("BF.INSERT k ERROR 1 ITEMS a", "-Bad error rate"),
        ("BF.INSERT k ERROR nan ITEMS a", "-Bad error rate"),
        ("BF.INSERT k EXPANSION 32769 ITEMS a", "-Bad expansion"),
        ("BF.INSERT k EXPANSION -1 ITEMS a", "-Bad expansion"),
        ("BF.INSERT k ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT string ITEMS a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BF.INSERT k capacity 3 CAPACITY 5 error 0.1 nonscaling EXPANSION 7 items ITEMS a", "*2 #t #t"),
        ("BF.INFO k CAPACITY", "*1 :5"),
        ("BF.INFO k EXPANSION", "*1 _"),
        ("BF.INSERT f EXPANSION 0 ITEMS a", "*1 #t"),
        ("BF.INFO f EXPANSION", "*1 _"),
    ];
    assert_dialogue(&mut Server::new(), &dialogue);
}

#[test]
fn options_that_do_not_go_together_are_refused_whether_the_filter_is_there_or_not() {
    let mut server = Server::new();
    server.run("BF.ADD there a");
    let seed = "0123456789abcdef0123456789abcdef";
    for (options, error) in [
        (
            "NONSCALING VALIDATESCALETO 1000".to_owned(),
            "-ERR cannot use NONSCALING and VALIDATESCALETO options together",
        ),
        (
            "EXPANSION 0 VALIDATESCALETO 1000".to_owned(),
            "-ERR cannot use NONSCALING and VALIDATESCALETO options together",
        ),
        (
            format!("FORMAT redisbloom SEED {seed}"),
            "-ERR SEED and TIGHTENING are for filters of FORMAT valkey-bloom only",
        ),
        ("TIGHTENING 0.3".to_owned(), "-ERR SEED and TIGHTENING are for filters of FORMAT valkey-bloom only"),
        (
            "VALIDATESCALETO 1000 FORMAT redisbloom".to_owned(),
            "-ERR VALIDATESCALETO is not for filters of FORMAT redisbloom",
        ),
    ] {
        for key in ["there", "vacant", "string"] {
            assert_eq!(server.run(&format!("BF.INSERT {key} {options} ITEMS b")), error, "{key} {options}");
        }
    }
    assert_eq!(server.run("BF.CARD there"), ":1");
    assert_eq!(server.keys.len(), 1);
}

#[test]
fn questions_about_nothing_and_about_other_types() {
    const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let dialogue = [
        ("BF.EXISTS none a", "#f"),
        ("BF.MEXISTS none a b", "*2 #f #f"),
        ("BF.CARD none", ":0"),
        ("BF.INFO none", "-ERR not found"),
        ("BF.INFO none NONSENSE", "-ERR not found"),
        ("BF.DEBUG none", "-ERR not found"),
        ("BF.SCANDUMP none x", "-ERR not found"),
        ("BF.LOADCHUNK none x d", "-ERR Second argument must be numeric"),
        ("BF.LOADCHUNK none 2 d", "-ERR not found"),
        ("BF.LOADCHUNK none 1 d", "-ERR received bad data"),
        ("BF.EXISTS string a", WRONG),
        ("BF.MEXISTS string a", WRONG),
        ("BF.CARD string", WRONG),
        ("BF.INFO string", WRONG),
        ("BF.DEBUG string", WRONG),
        ("BF.SCANDUMP string 0", WRONG),
        ("BF.LOADCHUNK string 1 d", WRONG),
        ("BF.ADD string a", WRONG),
        ("BF.MADD string a", WRONG),
        ("BF.EXISTS none", "-ERR wrong number of arguments for 'bf.exists' command"),
        ("BF.CARD none none", "-ERR wrong number of arguments for 'bf.card' command"),
    ];
    assert_dialogue(&mut Server::new(), &dialogue);
}
