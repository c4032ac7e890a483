//! Unions with keyed and saturating filters, and with the tables of outgrown ones: every result can be saved and
//! loaded.

use everbloom::bloom::limits::LAYER_MAX_BYTES;
use everbloom::bloom::{Filter, Kind};
use everbloom::format::DecodeError;
use everbloom::format::filter::header;

use crate::support::saved::{loaded, saved, string};
use crate::support::server::{Server, assert_dialogue};

/// Filters of each sort: the options that create one, to be filled above its capacity if possible, and its key.
const MAKERS: [(&str, Option<char>); 8] = [
    ("CAPACITY 10 NONSCALING SATURATE", None),
    ("CAPACITY 10 NONSCALING SATURATE KEY 0123456789abcdef", Some('0')),
    ("CAPACITY 10 KEY 0123456789abcdef", Some('0')),
    ("CAPACITY 10 KEY fedcba9876543210", Some('f')),
    ("CAPACITY 10", None),
    (UNRESERVED, None),
    ("CAPACITY 10 FORMAT redisbloom", None),
    ("CAPACITY 10 FORMAT valkey-bloom", None),
];

/// A filter that its first item creates.
const UNRESERVED: &str = "UNRESERVED";

/// Returns whether a filter takes what another one has. If `is_created`, it is a copy, which a merge makes a union.
fn takes((into, key): (&str, Option<char>), (from, its_key): (&str, Option<char>), is_created: bool) -> bool {
    let has_table = !from.contains("NONSCALING") && !from.contains("FORMAT");
    let takes_table = !into.contains("NONSCALING") && key == its_key;
    let takes_layers = is_created || key.is_none() || key == its_key || from == UNRESERVED;
    takes_layers && (takes_table || !has_table)
}

/// Returns the filter after it was saved and loaded.
fn reloaded(filter: &Filter) -> Filter {
    let record = saved(filter);
    loaded(&record, u64::MAX).unwrap()
}

fn names(key: &str) -> String {
    (0..40).map(|item| format!("{key}-{item}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_union_of_any_two_kinds_survives_saving() {
    const MISMATCH: &str = "-ERR the destination cannot take what a source has";
    for into in MAKERS.into_iter().take(6) {
        for from in MAKERS {
            let mut server = Server::new();
            for (key, maker) in [("into", into.0), ("from", from.0)] {
                let reply = match maker {
                    UNRESERVED => server.run(&format!("BF.MADD {key} {}", names(key))),
                    _ => server.run(&format!("BF.INSERT {key} {maker} ITEMS {}", names(key))),
                };
                assert!(!reply.contains("-ERR"), "{maker}: {reply}");
            }
            for (line, key, is_taken) in [
                ("BF.MERGE into from FORCE", "into", takes(into, from, false)),
                ("BF.MERGE made from into FORCE", "made", takes(from, into, true)),
            ] {
                let context = format!("{line}: {} {}", into.0, from.0);
                let before = server.keys.get(key.as_bytes()).map(header);
                let reply = server.run(line);
                if !is_taken {
                    assert!(reply.starts_with(MISMATCH), "{context}: {reply}");
                    assert_eq!(server.keys.get(key.as_bytes()).map(header), before, "{context}");
                    continue;
                }
                assert_eq!(reply, "+OK", "{context}");
                let filter = &server.keys[key.as_bytes()];
                let again = reloaded(filter);
                assert_eq!(header(&again), header(filter), "{context}");
                assert_eq!(again.growth(), filter.growth(), "{context}");
                server.keys.insert(key.as_bytes().to_vec(), again);
                let expected = format!("*40{}", " #t".repeat(40));
                for name in ["into", "from"] {
                    assert_eq!(
                        server.run(&format!("BF.MEXISTS {key} {}", names(name))),
                        expected,
                        "{context}: {name}"
                    );
                }
                let more = server.run(&format!("BF.MADD {key} {}", names("more")));
                assert!(!more.contains("problem"), "{context}: {more}");
                let filter = &server.keys[key.as_bytes()];
                assert_eq!(header(&reloaded(filter)), header(filter), "{context}, with more");
            }
        }
    }
}

#[test]
fn filters_of_one_key_and_shape_are_merged_in_place() {
    let mut server = Server::new();
    for key in ["a", "b"] {
        server.run(&format!("BF.INSERT {key} CAPACITY 1000 KEY 0123456789abcdef ITEMS {key}"));
    }
    server.run("BF.INSERT other CAPACITY 1000 KEY fedcba9876543210 ITEMS c");
    let dialogue =
        [("BF.MERGE a b", "+OK"), ("BF.MEXISTS a a b c", "*3 #t #t #f"), ("BF.INFO a FILTERS", "*1 :1")];
    assert_dialogue(&mut server, &dialogue);
    assert_eq!(server.keys[b"a".as_slice()].kind(), Kind::Keyed);
    assert!(server.run("BF.MERGE a other").starts_with("-ERR the destination cannot take what a source has"));
    assert_eq!(server.run("BF.MEXISTS a a b c"), "*3 #t #t #f");
}

#[test]
fn a_layer_of_valkey_bloom_in_a_union_is_of_whole_bytes_within_the_limit_of_a_layer() {
    let mut server = Server::new();
    server.run("BF.RESERVE dest 0.1 10");
    server.run("BF.INSERT v CAPACITY 20 ERROR 0.01 FORMAT valkey-bloom ITEMS c d");
    assert_eq!(server.run("BF.MERGE dest v"), "+OK");
    let record = saved(&server.keys[b"dest".as_slice()]);
    let header = string(&mut record.clone(), 0).clone();
    // The record of a layer begins with its hash, and has the size at offset 8.
    let size_at = [48, 48 + 40].into_iter().find(|at| [6, 7].contains(&header[*at])).unwrap() + 8;
    let size_bits = u64::from_le_bytes(header[size_at..][..8].try_into().unwrap());
    let refused = |wrong_bits: u64| {
        let mut record = record.clone();
        string(&mut record, 0)[size_at..][..8].copy_from_slice(&wrong_bits.to_le_bytes());
        loaded(&record, u64::MAX).map(|_| ())
    };
    for wrong_bits in [size_bits + 1, size_bits + 7] {
        assert_eq!(refused(wrong_bits), Err(DecodeError::Invalid("size in bits")), "{wrong_bits}");
    }
    assert!(matches!(refused((LAYER_MAX_BYTES + 1) * 8), Err(DecodeError::TooLarge { .. })));
    assert!(loaded(&record, u64::MAX).is_ok());
}

#[test]
fn an_overfull_layer_is_merged_once() {
    let mut server = Server::new();
    server.run("BF.RESERVE dest 0.1 10");
    for key in ["full", "twin"] {
        server.run(&format!(
            "BF.INSERT {key} CAPACITY 20 ERROR 0.01 NONSCALING SATURATE ITEMS {}",
            names("full")
        ));
    }
    assert_eq!(server.run("BF.MERGE dest full twin FORCE"), "+OK");
    assert_eq!(server.run("BF.INFO dest FILTERS"), "*1 :2");
    assert_eq!(server.run(&format!("BF.MEXISTS dest {}", names("full"))), format!("*40{}", " #t".repeat(40)));
}
