//! Unions with keyed and saturating filters: every result can be saved and loaded.

use everbloom::bloom::limits::{CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES};
use everbloom::bloom::{AddError, Filter, Kind, NoPrefetch, ReserveError};
use everbloom::format::DecodeError;
use everbloom::format::filter::header;

use crate::support::saved::{loaded, saved, string};
use crate::support::server::{Server, assert_dialogue};

/// Commands that create a filter of each sort, to be filled above its capacity if possible.
const MAKERS: [&str; 7] = [
    "CAPACITY 10 NONSCALING SATURATE",
    "CAPACITY 10 NONSCALING SATURATE KEY 0123456789abcdef",
    "CAPACITY 10 KEY 0123456789abcdef",
    "CAPACITY 10 KEY fedcba9876543210",
    "CAPACITY 10",
    "CAPACITY 10 FORMAT redisbloom",
    "CAPACITY 10 FORMAT valkey-bloom",
];

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
    for into in MAKERS.iter().take(5) {
        for from in MAKERS {
            let mut server = Server::new();
            for (key, maker) in [("into", *into), ("from", from)] {
                assert!(
                    !server.run(&format!("BF.INSERT {key} {maker} ITEMS {}", names(key))).contains("-ERR")
                );
            }
            // A keyed filter stays keyed: it refuses what does not fit into its layers.
            let reply = server.run("BF.MERGE into from FORCE");
            let is_keyed = into.contains("KEY");
            assert!(reply == "+OK" || (is_keyed && reply.starts_with("-ERR")), "{into} {from}: {reply}");
            assert_eq!(server.run("BF.MERGE made from into FORCE"), "+OK", "{into} {from}");
            for key in ["into", "made"] {
                let filter = &server.keys[key.as_bytes()];
                let again = reloaded(filter);
                assert_eq!(header(&again), header(filter), "{into} {from}: {key}");
                assert_eq!(again.growth(), filter.growth(), "{into} {from}: {key}");
                server.keys.insert(key.as_bytes().to_vec(), again);
                let expected = format!("*40{}", " #t".repeat(40));
                assert_eq!(server.run(&format!("BF.MEXISTS {key} {}", names("into"))), expected);
                if key == "made" || reply == "+OK" {
                    assert_eq!(server.run(&format!("BF.MEXISTS {key} {}", names("from"))), expected);
                }
                if !into.contains("KEY") || key == "into" {
                    let more = server.run(&format!("BF.MADD {key} {}", names("more")));
                    assert!(!more.contains("problem"), "{into} {from}: {more}");
                }
                let filter = &server.keys[key.as_bytes()];
                assert_eq!(header(&reloaded(filter)), header(filter), "{into} {from}: {key}, with more");
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
    assert!(
        server.run("BF.MERGE a other").starts_with("-ERR the destination cannot take a layer of a source")
    );
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
fn a_union_grows_up_to_the_largest_layer_and_not_past_it() {
    let outcome = |capacity_items: u64| {
        let mut server = Server::new();
        server.run("BF.INSERT r CAPACITY 9 ERROR 0.25 FORMAT redisbloom NONSCALING ITEMS a b c d e f g h i");
        server.run("BF.INSERT v CAPACITY 20 ERROR 0.01 FORMAT valkey-bloom EXPANSION 2 ITEMS c d");
        assert_eq!(server.run("BF.MERGE made v r FORCE"), "+OK");
        let mut record = saved(&server.keys[b"made".as_slice()]);
        // The capacity of the second layer, which is valkey-bloom's and whose array may be smaller than the capacity
        // implies.
        let at = 48 + 40 + 24;
        assert!([6, 7].contains(&string(&mut record, 0)[at]));
        string(&mut record, 0)[at + 16..][..8].copy_from_slice(&capacity_items.to_le_bytes());
        let mut filter = loaded(&record, u64::MAX).unwrap();
        filter.layers_mut()[1].set_items(capacity_items);
        filter.add(b"one more", &1_000_000, NoPrefetch).map(|_| ())
    };
    let half = CAPACITY_MAX_ITEMS / 2;
    assert!(matches!(outcome(half), Err(AddError::CannotGrow(ReserveError::TooLarge { .. }))));
    assert_eq!(outcome(half + 1), Err(AddError::CannotGrow(ReserveError::TooLong)));
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
