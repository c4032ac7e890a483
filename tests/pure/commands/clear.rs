//! BF.CLEAR: the result is an empty filter with the same parameters.

use everbloom::bloom::{Filter, Format};
use everbloom::format::filter::header;

use crate::support::server::{Server, assert_dialogue};

/// Commands that create a filter of every kind, with the parameters that must survive.
const MAKERS: [&str; 13] = [
    "BF.RESERVE k 0.003 10 EXPANSION 3",
    "BF.RESERVE k 0.003 50000 NONSCALING",
    "BF.RESERVE k 0.003 10 EXPANSION 3 FORMAT redisbloom",
    "BF.RESERVE k 0.003 10 NONSCALING FORMAT redisbloom",
    "BF.INSERT k FORMAT valkey-bloom CAPACITY 10 ERROR 0.003 TIGHTENING 0.3 EXPANSION 3",
    "BF.INSERT k FORMAT valkey-bloom CAPACITY 10 NONSCALING",
    "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 CAPACITY 10 ERROR 0.003 EXPANSION 3",
    "BF.IMPORT k EMPTY SCHEME go-zero BITS 2000 CAPACITY 10 NONSCALING",
    "BF.RESERVE k 0.003 10 COUNTING",
    "BF.RESERVE k 0.003 10 COUNTING NONSCALING KEYED",
    "BF.RESERVE k 0.003 10 WINDOW 60",
    "BF.RESERVE k 0.003 40000 WINDOW 60 NOREFRESH",
    "BF.RESERVE k 0.003 10 KEYED",
];

fn fill(server: &mut Server) {
    let items: Vec<String> = (0..10).map(|item| format!("item-{item}")).collect();
    server.run(&format!("BF.MADD k {}", items.join(" ")));
}

#[test]
fn a_cleared_filter_equals_a_new_one() {
    for maker in MAKERS {
        let mut server = Server::new();
        assert!(!server.run(maker).contains('-') || maker.contains("INSERT"), "{maker}");
        let made = header(&server.keys[b"k".as_slice()]);
        fill(&mut server);
        server.run("BF.MADD k more even-more more-again");
        let filled = header(&server.keys[b"k".as_slice()]);
        assert_ne!(filled, made, "{maker}");
        server.replicated.clear();
        server.events.clear();
        assert_dialogue(
            &mut server,
            &[("BF.CLEAR k", "+OK"), ("BF.EXISTS k item-1", "#f"), ("BF.CARD k", ":0")],
        );
        let filter = &server.keys[b"k".as_slice()];
        assert_eq!(header(filter), made, "{maker}");
        assert!(filter.set_bits() == 0 && filter.is_empty(), "{maker}");
        assert_eq!(
            (server.replicated.join("|"), server.events.join("|")),
            ("BF.CLEAR k".into(), "bloom.clear".into())
        );
        // It fills up and grows as before.
        fill(&mut server);
        server.run("BF.MADD k more even-more more-again");
        assert_eq!(header(&server.keys[b"k".as_slice()]), filled, "{maker}");
    }
}

/// A filter that nobody reserved comes with its first item.
#[test]
fn clearing_a_filter_that_nobody_reserved_frees_its_table() {
    let mut server = Server::new();
    let add = |server: &mut Server| {
        for first in (0..20_000).step_by(1000) {
            let items: String = (first..first + 1000).map(|item| format!(" item-{item}")).collect();
            server.run(&format!("BF.MADD k{items}"));
        }
        (header(&server.keys[b"k".as_slice()]), server.keys[b"k".as_slice()].size_bytes())
    };
    let filled = add(&mut server);
    assert_eq!(server.run("BF.CLEAR k"), "+OK");
    let filter = &server.keys[b"k".as_slice()];
    assert!(filter.is_empty() && filter.growth().is_unreserved(), "{filter:?}");
    assert_eq!(filter.size_bytes(), size_of::<Filter>() as u64);
    let dialogue = [
        ("BF.EXISTS k item-1", "#f"),
        ("BF.CARD k", ":0"),
        ("BF.INFO k CAPACITY", "*1 :100"),
        ("BF.INFO k FILTERS", "*1 :1"),
        ("BF.INFO k EXPANSION", "*1 :2"),
    ];
    assert_dialogue(&mut server, &dialogue);
    assert_eq!(add(&mut server), filled);
}

#[test]
fn clearing_an_imported_filter_resets_its_estimate() {
    let mut server = Server::new();
    let import = "BF.IMPORT k SOURCE users SCHEME murmur3-salted BITS 8 HASHES 1";
    assert_eq!(server.run(import), "+OK");
    assert_ne!(server.run("BF.INFO k ESTIMATED"), "*1 :0");
    assert_eq!(server.run("BF.CLEAR k"), "+OK");
    let dialogue =
        [("BF.INFO k ESTIMATED", "*1 :0"), ("BF.CARD k", ":0"), ("BF.ADD k a", "#t"), ("BF.CARD k", ":1")];
    assert_dialogue(&mut server, &dialogue);
}

#[test]
fn clearing_an_empty_filter_changes_nothing() {
    for maker in MAKERS {
        let mut server = Server::new();
        server.run(maker);
        let (replicated, events) = (server.replicated.len(), server.events.len());
        assert_dialogue(&mut server, &[("BF.CLEAR k", "+OK"), ("BF.CLEAR k", "+OK")]);
        assert_eq!((server.replicated.len(), server.events.len()), (replicated, events), "{maker}");
    }
}

#[test]
fn older_chunks_do_not_load_into_a_cleared_filter() {
    use everbloom::format::chunks::{ChunkError, Trust};
    use everbloom::format::filter::{chunk, load_chunk};

    let makers = MAKERS.into_iter().map(|maker| (maker, !maker.ends_with("redisbloom")));
    for (maker, has_dump_id) in makers.filter(|(maker, _)| !maker.contains("NONSCALING")) {
        let mut source = Server::new();
        source.run(maker);
        source.run("BF.MADD k a b c");
        let dumped = source.keys.get_mut(b"k".as_slice()).unwrap();
        dumped.begin_dump(77);
        let header = chunk(dumped, 0).unwrap().unwrap();
        let chunk = chunk(dumped, header.next_iterator).unwrap().unwrap();
        let mut server = Server::new();
        assert_eq!(server.call(&[b"BF.LOADCHUNK", b"k", b"1", &header.data]), "+OK");
        assert_eq!(server.run("BF.CLEAR k"), "+OK");
        let filter = server.keys.get_mut(b"k".as_slice()).unwrap();
        let outcome = load_chunk(filter, chunk.next_iterator, &chunk.data, Trust::DumpId, &u64::MAX);
        // RedisBloom's chunks have no dump id.
        let expected = if has_dump_id { Err(ChunkError::OtherDump) } else { Ok(()) };
        assert_eq!(outcome, expected, "{maker}");
        assert_eq!(filter.format() == Format::RedisBloom, !has_dump_id);
    }
}

#[test]
fn clearing_a_merged_filter_restores_its_first_parameters() {
    for words in ["", "KEY 0123456789abcdef "] {
        let mut server = Server::new();
        server.run(&format!("BF.INSERT k CAPACITY 10 ERROR 0.3 {words}ITEMS a"));
        let made = server.keys[b"k".as_slice()].capacity_items();
        server.run(&format!("BF.INSERT other CAPACITY 5000 ERROR 0.0001 {words}ITEMS b"));
        let reply = server.run("BF.MERGE k other FORCE");
        assert!(reply == "+OK" || !words.is_empty(), "{reply}");
        assert_eq!(server.run("BF.CLEAR k"), "+OK");
        let filter = &server.keys[b"k".as_slice()];
        assert_eq!((filter.capacity_items(), filter.layer_count()), (made, 1));
        assert_eq!(server.run("BF.MEXISTS k a b"), "*2 #f #f");
    }
}

#[test]
fn clearing_a_union_restores_the_parameters_of_its_first_filter() {
    for options in
        ["FORMAT redisbloom", "FORMAT redisbloom NONSCALING", "FORMAT valkey-bloom", "EXPANSION 3", "KEYED"]
    {
        let mut server = Server::new();
        server.run(&format!("BF.INSERT k CAPACITY 20 ERROR 0.01 {options} ITEMS a"));
        server.run("BF.INSERT other CAPACITY 5000 ERROR 0.0001 FORMAT everbloom ITEMS b");
        assert_eq!(server.run("BF.MERGE made k other FORCE"), "+OK", "{options}");
        assert_eq!(server.run("BF.CLEAR made"), "+OK");
        for (field, expected) in
            [("KIND", "*1 $everbloom"), ("ERROR-RATE", "*1 ,0.01"), ("CAPACITY", "*1 :20")]
        {
            assert_eq!(server.run(&format!("BF.INFO made {field}")), expected, "{options}");
        }
    }
}
