//! Packed batches: the same replies as for items one by one, and the replicated commands.

use proptest::prelude::*;

use crate::support::server::Server;

/// Returns the arguments of a packing, with the packed items.
fn packed(packing: usize, items: &[Vec<u8>]) -> Vec<Vec<u8>> {
    match packing {
        0 => vec![b"LINES".to_vec(), items.iter().flat_map(|item| [item, &b"\n"[..]].concat()).collect()],
        1 => vec![b"FIXED".to_vec(), b"3".to_vec(), items.concat()],
        _ => {
            let prefixed = |item: &Vec<u8>| [&(item.len() as u32).to_le_bytes()[..], item].concat();
            vec![b"PREFIXED".to_vec(), items.iter().flat_map(prefixed).collect()]
        }
    }
}

fn bulk(server: &mut Server, command: &str, packing: usize, items: &[Vec<u8>]) -> String {
    let batch = packed(packing, items);
    let words = [command.as_bytes(), b"k"].into_iter().chain(batch.iter().map(Vec::as_slice));
    server.call(&words.collect::<Vec<_>>())
}

/// Returns the replies of one command per item, as the characters of a batch.
fn one_by_one(server: &mut Server, command: &str, items: &[Vec<u8>]) -> String {
    let replies = items.iter().map(|item| match server.call(&[command.as_bytes(), b"k", item]).as_str() {
        "#t" => '1',
        "#f" => '0',
        error if error.starts_with('-') => '!',
        other => panic!("{other}"),
    });
    format!("${}", replies.collect::<String>())
}

/// Commands that create a filter of every kind and format, small enough that batches fill and grow it.
const MAKERS: [&[&str]; 13] = [
    &["BF.ADD k 100"],
    &["BF.RESERVE k 0.01 20"],
    &["BF.RESERVE k 0.01 20 NONSCALING"],
    &["BF.RESERVE k 0.01 20 NONSCALING SATURATE"],
    &["BF.RESERVE k 0.01 20 KEYED"],
    &["BF.RESERVE k 0.01 20 COUNTING"],
    &["BF.RESERVE k 0.01 20 COUNTING NONSCALING"],
    &["BF.RESERVE k 0.01 20 WINDOW 60"],
    &["BF.RESERVE k 0.01 20 WINDOW 60 NONSCALING NOREFRESH"],
    &["BF.RESERVE k 0.1 20 FORMAT redisbloom EXPANSION 1"],
    &["BF.RESERVE k 0.01 20 FORMAT valkey-bloom NONSCALING"],
    &["BF.IMPORT k SOURCE users SCHEME redisson ENCODING int32le CAPACITY 50"],
    &["BF.RESERVE k 0.01 20", "BF.INSERT o CAPACITY 10 FORMAT redisbloom ITEMS x y", "BF.MERGE k o FORCE"],
];

fn made(maker: &[&str]) -> Server {
    let mut server = Server::new();
    for line in maker {
        let reply = server.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    server.replicated_calls.clear();
    server
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn batches_reply_as_single_commands_do(
        maker in 0..MAKERS.len(),
        batches in prop::collection::vec((0..3usize, prop::collection::vec(0..150u32, 0..140)), 1..4),
    ) {
        let mut at_once = made(MAKERS[maker]);
        let mut in_turn = made(MAKERS[maker]);
        // This replica runs only the replicated commands, and has no limit.
        let mut replica = made(MAKERS[maker]);
        replica.is_replicated = true;
        for (packing, numbers) in batches {
            // Items of three bytes, for FIXED. Some are not numbers, and an encoding refuses them.
            let item = |number: &u32| {
                let text = if number.is_multiple_of(11) { format!("x{:02}", number % 100) } else { format!("{}", number + 100) };
                text.into_bytes()
            };
            let items: Vec<Vec<u8>> = numbers.iter().map(item).collect();
            let asked = bulk(&mut at_once, "BF.BULKEXISTS", packing, &items);
            prop_assert_eq!(asked, one_by_one(&mut in_turn, "BF.EXISTS", &items));
            let added = bulk(&mut at_once, "BF.BULKADD", packing, &items);
            prop_assert_eq!(&added, &one_by_one(&mut in_turn, "BF.ADD", &items));
            let ones = added.matches('1').count();
            let found = bulk(&mut at_once, "BF.BULKEXISTS", packing, &items);
            prop_assert!(found.matches('1').count() >= ones);
            prop_assert_eq!(at_once.run("BF.CARD k"), in_turn.run("BF.CARD k"));
            prop_assert_eq!(at_once.run("BF.DEBUG k"), in_turn.run("BF.DEBUG k"));
            for line in at_once.replicated_calls.drain(..) {
                let words: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
                let reply = replica.call(&words);
                // A replica accepts every replicated item.
                prop_assert!(!reply.contains('!') && !reply.starts_with('-'), "{}", reply);
            }
            prop_assert_eq!(at_once.run("BF.DEBUG k"), replica.run("BF.DEBUG k"));
        }
    }

    #[test]
    fn random_bytes_are_a_batch_or_an_error(data in prop::collection::vec(any::<u8>(), 0..300), bytes in 0..20u32) {
        let mut server = Server::new();
        let bytes = bytes.to_string();
        for packing in [&[b"LINES".as_slice()][..], &[b"PREFIXED"], &[b"FIXED", bytes.as_bytes()]] {
            let words = [&[b"BF.BULKADD".as_slice(), b"any"], packing, &[&data]].concat();
            let reply = server.call(&words);
            prop_assert!(reply.starts_with('$') || reply.starts_with("-ERR "), "{}", reply);
            let words = [&[b"BF.BULKEXISTS".as_slice(), b"any", b"COUNT"], packing, &[&data]].concat();
            let count = server.call(&words);
            // Every accepted item is found.
            prop_assert_eq!(reply.starts_with('-'), count.starts_with('-'));
            if !reply.starts_with('-') {
                prop_assert_eq!(count, format!(":{}", reply.len() - 1));
            }
        }
    }
}

#[test]
fn a_length_beyond_the_data_is_refused() {
    let reply = Server::new().call(&[b"BF.BULKADD", b"k", b"PREFIXED", b"\xff\xff\xff\xffabc"]);
    assert_eq!(reply, "-ERR the data ends in the middle of an item: check the packing");
}

#[test]
fn replies_for_a_missing_filter_follow_the_settings() {
    let mut server = Server::new();
    server.settings.missing_filter_is_error = true;
    assert_eq!(server.run("BF.BULKEXISTS k LINES a"), "-ERR not found");
    server.settings.auto_create = false;
    assert_eq!(server.run("BF.BULKADD k LINES a"), "-ERR not found");
    assert!(server.keys.is_empty());
    // A primary replicates the creation explicitly, so a replicated batch without it means that the filter was lost.
    let mut server = Server::new();
    server.is_replicated = true;
    assert!(server.run("BF.BULKADD k LINES a").starts_with("-ERR not found: a replicated command"));
}

#[test]
fn a_batch_is_replicated_as_sent_or_with_the_added_items() {
    let mut server = Server::new();
    server.run("BF.BULKADD k COUNT LINES a\nb");
    assert_eq!(
        server.replicated,
        ["BF.INSERT k ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom", "BF.BULKADD k LINES a\nb",]
    );
    assert_eq!(server.events, ["bloom.reserve", "bloom.add"]);
    server.replicated.clear();
    // Without new items nothing is replicated.
    assert_eq!(server.run("BF.BULKADD k LINES a\nb"), "$00");
    assert!(server.replicated.is_empty());
    assert_eq!(server.run("bf.bulkadd k nocreate count lines a\nc"), ":1");
    assert_eq!(server.replicated, ["bf.bulkadd k nocreate count lines a\nc"]);
    server.replicated.clear();
    server.run("BF.RESERVE f 0.01 3 NONSCALING");
    server.replicated.clear();
    assert_eq!(server.run("BF.BULKADD f LINES a\nb"), "$11");
    assert_eq!(server.run("BF.BULKADD f LINES a\nc\nd\nb\ne"), "$01!0!");
    assert_eq!(server.run("BF.BULKADD f FIXED 1 abcde"), "$000!!");
    assert_eq!(server.replicated, ["BF.BULKADD f LINES a\nb", "BF.BULKADD f LINES c\n"]);
    server.run("BF.RESERVE g 0.01 2 NONSCALING");
    server.replicated.clear();
    assert_eq!(server.run("BF.BULKADD g FIXED 1 abc"), "$11!");
    server.run("BF.RESERVE h 0.01 2 NONSCALING");
    assert_eq!(server.run("BF.BULKADD h COUNT PREFIXED \x01\0\0\0a\x01\0\0\0a\x01\0\0\0b\x01\0\0\0c"), ":2");
    assert_eq!(server.replicated[0], "BF.BULKADD g FIXED 1 ab");
    assert_eq!(server.replicated[2], "BF.BULKADD h PREFIXED \x01\0\0\0a\x01\0\0\0b");
}

#[test]
fn counted_items_are_replicated_when_others_were_refused() {
    let mut server = Server::new();
    server.run("BF.RESERVE k 0.01 2 COUNTING NONSCALING");
    server.replicated.clear();
    assert_eq!(server.run("BF.BULKADD k LINES a\nb\na\nc"), "$110!");
    assert_eq!(server.replicated, ["BF.BULKADD k LINES a\nb\na\n"]);
    assert_eq!(server.run("BF.CARD k"), ":3");
}
