//! Merges of every kind of filter into every other kind. Every merged filter can be saved and loaded, and a refusal
//! changes nothing.

use everbloom_filter::limits::LAYER_MAX_BYTES;
use everbloom_format::DecodeError;

use super::MISMATCH;
use crate::support::saved::{assert_survives, loaded, saved, string};
use crate::support::server::Server;

/// What an entry of a filter has besides its remainder. Filters in which this differs never merge.
#[derive(Clone, Copy, PartialEq)]
enum Entries {
    /// Nothing, or the filter has only bits.
    Plain,
    Counted,
    /// A time in a window of this length.
    Timed(u64),
}

/// Filters with the same options.
#[derive(Clone, Copy, PartialEq)]
struct Sort {
    /// The options of the BF.INSERT or BF.IMPORT that creates the filter, or [`UNRESERVED`].
    options: &'static str,
    /// The first character of the key of a keyed filter.
    key: Option<char>,
    entries: Entries,
}

/// Stands for no options: the first item creates the filter.
const UNRESERVED: &str = "UNRESERVED";

const fn plain(options: &'static str, key: Option<char>) -> Sort {
    Sort { options, key, entries: Entries::Plain }
}

const SORTS: [Sort; 19] = [
    plain("CAPACITY 10 NONSCALING SATURATE", None),
    plain("CAPACITY 10 NONSCALING SATURATE KEY 0123456789abcdef", Some('0')),
    plain("CAPACITY 10 KEY 0123456789abcdef", Some('0')),
    plain("CAPACITY 10 KEY fedcba9876543210", Some('f')),
    plain("CAPACITY 10", None),
    plain("CAPACITY 1000", None),
    plain("CAPACITY 1000 EXPANSION 0", None),
    plain("CAPACITY 1000 KEY 0123456789abcdef", Some('0')),
    plain(UNRESERVED, None),
    plain("KEY 0123456789abcdef", Some('0')),
    plain("KEY fedcba9876543210", Some('f')),
    plain("CAPACITY 10 FORMAT redisbloom", None),
    plain("CAPACITY 10 FORMAT valkey-bloom", None),
    plain("SCHEME go-zero BITS 900 NONSCALING", None),
    plain("SCHEME go-zero BITS 900 CAPACITY 10", None),
    Sort { options: "CAPACITY 10 COUNTING", key: None, entries: Entries::Counted },
    Sort { options: "CAPACITY 10 COUNTING KEY 0123456789abcdef", key: Some('0'), entries: Entries::Counted },
    Sort { options: "CAPACITY 10 PWINDOW 60000", key: None, entries: Entries::Timed(60_000) },
    Sort { options: "CAPACITY 10 PWINDOW 60001", key: None, entries: Entries::Timed(60_001) },
];

impl Sort {
    /// Returns whether the filter has the format of another module.
    fn is_foreign(self) -> bool {
        self.options.contains("FORMAT")
    }

    fn is_imported(self) -> bool {
        self.options.contains("SCHEME")
    }

    fn is_fixed(self) -> bool {
        self.options.contains("NONSCALING") || self.options.contains("EXPANSION 0")
    }

    fn has_table(self) -> bool {
        !self.is_fixed() && !self.is_foreign() && !self.options.contains("CAPACITY 1000")
    }

    fn has_layers(self) -> bool {
        self.options.contains("CAPACITY") || self.is_imported()
    }

    /// Returns whether a filter of this sort can be the destination of a merge from a filter of sort `from`. If
    /// `is_created`, the destination is a new copy of the filter, which may become a union.
    fn takes(self, from: Self, is_created: bool) -> bool {
        if self.entries != Entries::Plain || from.entries != Entries::Plain {
            return self.entries == from.entries && self.key == from.key;
        }
        if self.is_foreign() && !is_created {
            // An existing filter of such a format takes only filters of the same format.
            return false;
        }
        let takes_table = !self.is_fixed() && self.key == from.key;
        let takes_layers = is_created || self.key.is_none() || self.key == from.key || !from.has_layers();
        takes_layers && (takes_table || !from.has_table())
    }
}

fn make(server: &mut Server, key: &str, sort: Sort) {
    let command = match sort.options {
        UNRESERVED => format!("BF.MADD {key}"),
        options if sort.is_imported() => {
            server.must(&format!("BF.IMPORT {key} EMPTY {options}"));
            format!("BF.MADD {key}")
        }
        options => format!("BF.INSERT {key} {options} ITEMS"),
    };
    let reply = server.batches(&command, &format!("{key}-"), 0..40);
    assert!(!reply.contains("-ERR") || sort.is_imported(), "{}: {reply}", sort.options);
}

#[test]
fn any_two_kinds_are_merged_or_refused() {
    for (into, from) in SORTS.into_iter().flat_map(|into| SORTS.map(|from| (into, from))) {
        // Whether two chains of one format are merged in place depends on the seeds that the server draws.
        if into == from && into.is_foreign() {
            continue;
        }
        let mut server = Server::new();
        make(&mut server, "into", into);
        make(&mut server, "from", from);
        let held =
            [("into-", "into"), ("from-", "from")].map(|(name, key)| (name, server.found(key, name, 0..40)));
        assert!(held.iter().all(|(_, held)| *held >= 10));
        for (line, key, is_taken) in [
            ("BF.MERGE into from FORCE", "into", into.takes(from, false)),
            ("BF.MERGE made from into FORCE", "made", from.takes(into, true)),
        ] {
            let context = format!("{line}: {} {}", into.options, from.options);
            let before = server.state();
            let reply = server.run(line);
            if !is_taken {
                let refusal = match (into.entries, from.entries) {
                    (Entries::Timed(one), Entries::Timed(other)) if key == "made" && one != other => {
                        "-ERR the source 'into' has another WINDOW, or other STEPS, than the source 'from'"
                    }
                    _ => MISMATCH,
                };
                assert!(reply.starts_with(refusal), "{context}: {reply}");
                assert_eq!(server.state(), before, "{context}");
                continue;
            }
            assert_eq!(reply, "+OK", "{context}");
            assert_survives(server.filter(key), &context);
            for (name, held) in held {
                assert!(server.found(key, name, 0..40) >= held, "{context}: {name}");
            }
            let more = server.batches(&format!("BF.MADD {key}"), "more-", 0..40);
            assert!(!more.contains("problem"), "{context}: {more}");
            assert_survives(server.filter(key), &format!("{context}, with more"));
        }
    }
}

#[test]
fn a_layer_of_valkey_bloom_in_a_union_is_of_whole_bytes_within_the_limit_of_a_layer() {
    let mut server = Server::new();
    server.run("BF.RESERVE dest 0.1 10");
    server.run("BF.INSERT v CAPACITY 20 ERROR 0.01 FORMAT valkey-bloom ITEMS c d");
    assert_eq!(server.run("BF.MERGE dest v"), "+OK");
    let record = saved(server.filter("dest"));
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

/// Layers with other hashes, which come before or after entries, do not change the hash with which the entries are found.
#[test]
fn any_three_kinds_in_any_order_keep_their_items() {
    let sorts = [0, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13].map(|index| SORTS[index]);
    let triples = sorts.iter().flat_map(|one| sorts.iter().map(move |other| (one, other)));
    let triples = triples.flat_map(|(one, other)| sorts.iter().map(move |third| [*one, *other, *third]));
    let mut merged = 0;
    for sources in triples {
        let mut server = Server::new();
        let keys = ["first", "second", "third"];
        keys.iter().zip(sources).for_each(|(key, sort)| make(&mut server, key, sort));
        let held = keys.map(|key| server.found(key, &format!("{key}-"), 0..40));
        let reply = server.run("BF.MERGE made first second third FORCE");
        let context = sources.map(|sort| sort.options);
        assert!(reply == "+OK" || reply.starts_with(MISMATCH), "{context:?}: {reply}");
        if reply == "+OK" {
            merged += 1;
            for (key, held) in keys.iter().zip(held) {
                assert!(server.found("made", &format!("{key}-"), 0..40) >= held, "{context:?}: {key}");
            }
        }
    }
    assert!(merged > 300, "{merged}");
}
