//! BF.MERGE: merges of filters of every kind and format, and the refusals.

mod clocks;
mod entries;
mod kinds;
mod limits;
mod promise;
mod tables;

use everbloom_command::words::Word;
use everbloom_filter::Format;

use crate::support::make::{add, plain, promise};
use crate::support::server::Server;

/// The refusal if the destination cannot have the bits or entries of a source.
const MISMATCH: &str = "-ERR a source does not fit the destination";

fn assert_has(server: &mut Server, key: &str, items: std::ops::Range<u64>) {
    assert_eq!(server.found(key, "", items.clone()), items.end - items.start, "{key}: {items:?}");
}

/// The string is on this node, but its settings are not.
#[test]
fn missing_settings_in_a_migrating_slot_return_tryagain() {
    let mut server = Server::new();
    server.strings.insert(b"{migrating}:config-less".to_vec(), b"4".to_vec());
    let reply = server.run("BF.IMPORT b SOURCE {migrating}:config-less SCHEME redisson");
    assert_eq!(reply, "-TRYAGAIN Multiple keys request during rehashing of slot");
}

/// A seed with different halves, like those that a server draws.
const SEED: &str = "0123456789abcdefghijklmnopqrstuv";

/// Creates a filter for 4000 items. All filters of one format have the same shape and hash.
fn make(server: &mut Server, key: &str, format: &str) {
    let seed = if format == "valkey-bloom" { format!("SEED {SEED}") } else { String::new() };
    let line = format!("BF.INSERT {key} CAPACITY 4000 ERROR 0.01 FORMAT {format} {seed} ITEMS 0-{key}");
    assert_eq!(server.run(&line.replace("  ", " ")), "*1 #t");
}

#[test]
fn equal_filters_merge_into_one_layer_in_every_format() {
    for format in Format::ALL.map(Word::word) {
        let mut server = Server::new();
        for shard in 0..4 {
            make(&mut server, &shard.to_string(), format);
            server.add(&shard.to_string(), "", shard * 1000..shard * 1000 + 999);
        }
        for line in ["BF.MERGE all 0 1 2 3", "BF.MERGE 0 1 2 3 0"] {
            assert_eq!(server.run(line), "+OK", "{format}: {line}");
        }
        for key in ["all", "0"] {
            (0..4).for_each(|shard| assert_has(&mut server, key, shard * 1000..shard * 1000 + 999));
            let filter = server.filter(key);
            assert_eq!((filter.layer_count(), filter.format().word()), (1, format), "{key}");
            assert!(filter.items().abs_diff(4000) < 100, "{format}: {} items", filter.items());
        }
        assert_eq!(server.events[server.events.len() - 3..], ["bloom.reserve", "bloom.merge", "bloom.merge"]);
        // The same merge again changes nothing, so nothing is replicated.
        let replicated = server.replicated.len();
        assert_eq!(server.run("BF.MERGE all 0 1 2 3"), "+OK");
        assert_eq!(server.replicated.len(), replicated, "{format}");
        // `all` and `more` have about as many items as their capacity, so their layers cannot be united.
        make(&mut server, "more", format);
        server.add("more", "", 50_000..53_999);
        let before = server.digested("all");
        let reply = server.run("BF.MERGE all more");
        let refusal = if format == "everbloom" {
            "-ERR the merged filter would have"
        } else {
            "-ERR the destination would exceed"
        };
        assert!(reply.starts_with(refusal), "{format}: {reply}");
        assert!(server.digested("all") == before, "{format}");
        assert_eq!(server.run("BF.MERGE all more FORCE"), "+OK");
        assert_has(&mut server, "all", 50_000..53_999);
    }
}

#[test]
fn filters_of_thousands_of_layers_are_merged_and_merged_again_without_a_change() {
    let mut server = Server::new();
    let merge = |server: &mut Server, line: &str| {
        assert_eq!(server.run(line), "+OK");
        let replicated = server.replicated.len();
        assert_eq!(server.run(line), "+OK");
        assert_eq!(server.replicated.len(), replicated);
    };
    for (key, first) in [("a", 0), ("b", 10_000)] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.5 10")), "+OK");
        let mut sources = String::new();
        for item in first..first + 2000 {
            let source = format!(" {item}");
            let mut filter = plain(promise(0.01, 1, 2));
            add(&mut filter, item.to_string().as_bytes()).unwrap();
            server.set(&item.to_string(), filter);
            sources += &source;
        }
        merge(&mut server, &format!("BF.MERGE {key}{sources}"));
    }
    merge(&mut server, "BF.MERGE a b FORCE");
    assert!(server.filter("b").layer_count() > 1000);
    assert_has(&mut server, "a", 0..2000);
    assert_has(&mut server, "a", 10_000..12_000);
    assert_has(&mut server, "b", 10_000..12_000);
}
