//! Every command on forged filters that are full: all bits are set, all slots are in use, all counts are the longest.
//! [`Server`] asserts the bound of the cost after each command.

use everbloom_command::COMMANDS;
use everbloom_filter::cuckoo::array::{BucketArray, CuckooRelease};
use everbloom_filter::cuckoo::filter::{CuckooFilter, CuckooParameters};
use everbloom_filter::filter::loading::FilterValue;

use crate::support::saved::{assert_valid, loaded, saved, string};
use crate::support::server::Server;
use crate::support::slices;

/// Commands that create filters under `k`, one line each.
const CREATIONS: [&str; 9] = [
    "BF.RESERVE k 0.01 1000",
    "BF.RESERVE k 0.01 10000000",
    "BF.RESERVE k 0.01 1000 NONSCALING",
    "BF.RESERVE k 0.01 1000 NONSCALING SATURATE",
    "BF.RESERVE k 0.01 1000 KEYED",
    "BF.RESERVE k 0.01 1000 FORMAT redisbloom",
    "BF.RESERVE k 0.01 1000 FORMAT valkey-bloom",
    "BF.IMPORT k EMPTY SCHEME murmur3-salted BITS 10000 HASHES 7 CAPACITY 1000",
    "BF.INSERT k ERROR 0.0001 CAPACITY 10 EXPANSION 1 FORMAT redisbloom ITEMS a",
];

/// Sets all bits of the filters of a server.
fn fill(server: &mut Server) {
    for filter in server.keys.values_mut().map(FilterValue::filter_mut) {
        for index in 0..filter.layer_count() {
            let bits = filter.layers_mut()[index].bits_mut();
            let mut ones = vec![0xff; bits.size_bytes() as usize];
            let used_bits = bits.size_bits() % 8;
            if used_bits > 0 {
                *ones.last_mut().unwrap() = (1 << used_bits) - 1;
            }
            assert!(bits.add_bytes(0, &ones));
            assert_eq!(bits.set_bits(), bits.size_bits());
            let layer = &mut filter.layers_mut()[index];
            layer.set_items(layer.capacity_items());
        }
        assert_valid(filter, "full");
    }
}

/// Runs every command on the filter under `k`.
fn use_filter(server: &mut Server, context: &str) {
    let items: Vec<String> = (0..100).map(|number| format!("item{number}")).collect();
    let items = items.join(" ");
    // Some dumps at once: their ids are a list of limited length.
    for _ in 0..20 {
        server.run("BF.SCANDUMP k 0");
        server.run("CF.SCANDUMP k 0");
    }
    for command in COMMANDS {
        let name = command.spec().name.to_uppercase();
        let (family, word) = name.split_once('.').unwrap();
        let line = match word {
            "RESERVE" if family == "CF" => format!("{name} new 100"),
            "RESERVE" => format!("{name} new 0.01 100"),
            "MADD" | "MEXISTS" => format!("{name} k {items}"),
            "INSERT" | "INSERTNX" => format!("{name} k ITEMS {items}"),
            "ADD" | "ADDNX" | "EXISTS" | "COUNT" => format!("{name} k item1"),
            "DEL" => format!("{name} k a"),
            "BULKADD" | "BULKEXISTS" => format!("{name} k \u{1}a\u{1}b"),
            "SCANDUMP" => format!("{name} k 0"),
            "LOADCHUNK" => {
                let reply = server.run(&format!("{family}.SCANDUMP k 0"));
                let Some(iterator) = reply.split([' ', ':']).find_map(|word| word.parse::<u64>().ok()) else {
                    continue;
                };
                let (iterator, data) = (iterator.to_string(), server.bulk.clone());
                server.call(&[name.as_bytes(), b"copy", iterator.as_bytes(), &data]);
                continue;
            }
            "LOAD" => continue,
            "IMPORT" => format!("{name} imported EMPTY SCHEME go-zero BITS 1000"),
            "MERGE" => format!("{name} merged k k FORCE"),
            "EXPORT" => format!("{name} k ENCODING raw"),
            // After all others.
            "CLEAR" => continue,
            _ => format!("{name} k"),
        };
        let reply = server.run(&line);
        assert!(!reply.is_empty(), "{context}: {line}");
        for key in ["new", "imported", "merged"] {
            server.keys.remove(key.as_bytes());
            server.cuckoos.remove(key.as_bytes());
        }
    }
    server.run("BF.CLEAR k");
}

#[test]
fn full_filters_of_bits_answer_every_command() {
    for line in CREATIONS {
        for grows in [false, true] {
            let mut server = Server::new();
            server.must(line);
            if grows {
                let replies = server.batches("BF.MADD k", "fill", 0..5000);
                assert!(replies.contains('#') || replies.contains(':'), "{line}");
            }
            fill(&mut server);
            assert_eq!(server.run("BF.EXISTS k absent"), "#t", "{line}");
            use_filter(&mut server, line);
        }
    }
    // A union of full filters of several hashes.
    let mut server = Server::new();
    server.run("BF.RESERVE a 0.001 1000 FORMAT redisbloom");
    server.run("BF.RESERVE b 0.001 1000 KEYED");
    server.run("BF.RESERVE k 0.5 1000");
    server.must("BF.MADD a x y");
    server.must("BF.MADD b x y");
    server.must("BF.MERGE k a b FORCE");
    assert!(server.filter("k").layer_count() > 1);
    fill(&mut server);
    use_filter(&mut server, "union");
}

#[test]
fn full_filters_of_entries_answer_every_command() {
    for line in ["BF.RESERVE k 0.25 1 COUNTING", "BF.RESERVE k 0.25 1 PWINDOW 1000", "BF.ADD k a"] {
        let mut server = Server::new();
        server.must(line);
        // Up to the last item before the table grows.
        let mut number = 0;
        while number < 4000 || server.filter("k").size_bytes() == server.filter("before").size_bytes() {
            server.copy("k", "before");
            number += 1;
            server.run(&format!("BF.ADD k fill{number}"));
        }
        server.copy("before", "k");
        server.run("BF.ADD k a");
        for _ in 0..60 {
            // Counts double, up to the longest one.
            server.run("BF.MERGE k k FORCE");
        }
        use_filter(&mut server, line);
    }
}

#[test]
fn full_cuckoo_filters_answer_every_command() {
    let contents: [fn(usize) -> u8; 4] =
        [|_| 1, |_| 255, |slot| (slot * 37 % 255) as u8 + 1, |slot| if slot % 7 == 0 { 0 } else { 9 }];
    let sizes: [&[u64]; 6] = [&[1], &[2; 40], &[8, 16, 32], &[7, 21], &[64, 8, 1], &[1024]];
    for (content, sizes) in contents.into_iter().flat_map(|content| sizes.map(|sizes| (content, sizes))) {
        for (bucket_size, expansion, items) in [(2, 1, 5), (255, 0, u64::MAX), (1, 2, 0)] {
            let parameters =
                CuckooParameters { buckets: sizes[0], bucket_size, max_iterations: 500, expansion };
            let arrays = sizes.iter().map(|buckets| {
                let slots = (0..*buckets as usize * usize::from(bucket_size)).map(content);
                BucketArray::of_bytes(*buckets, bucket_size, &slots.collect::<Vec<u8>>()).unwrap()
            });
            let filter = CuckooFilter::from_parts(
                parameters,
                CuckooRelease::Current,
                items,
                u64::MAX,
                arrays.collect(),
            );
            let mut server = Server::new();
            server.cuckoos.insert(b"k".to_vec(), filter.unwrap());
            let context = format!("{sizes:?}, {bucket_size}");
            use_filter(&mut server, &context);
            let words: Vec<String> = (0..300).map(|number| format!("item{}", number % 90)).collect();
            server.call(&[&[&b"CF.INSERT"[..], b"k", b"ITEMS"], &slices(&words)[..]].concat());
            words.iter().for_each(|item| drop(server.run(&format!("CF.DEL k {item}"))));
            server.run("CF.COMPACT k");
        }
    }
}

/// Every number of a record is set to the largest values, such as the items of each generation of a window. Filters that
/// are accepted answer every command.
#[test]
fn records_with_the_largest_numbers_answer_every_command() {
    for line in ["BF.RESERVE k 0.01 1 PWINDOW 1000", "BF.RESERVE k 0.25 10 COUNTING", "BF.RESERVE k 0.01 100"]
    {
        let mut server = Server::new();
        server.must(line);
        server.add("k", "item", 0..40);
        let mut record = saved(server.filter("k"));
        let header_bytes = string(&mut record, 0).len();
        let mut accepted = 0;
        for offset in 0..header_bytes - 7 {
            for number in [u64::MAX, u64::MAX / 16, 1 << 53] {
                let mut changed = record.clone();
                string(&mut changed, 0)[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
                let Ok(filter) = loaded(&changed, 1 << 20) else { continue };
                accepted += 1;
                let mut server = Server::new();
                server.set("k", filter);
                use_filter(&mut server, &format!("{line}: {number} at {offset}"));
            }
        }
        // The items of sixteen generations, or the numbers of items.
        assert!(accepted >= 3, "{line}: {accepted}");
    }
}
