//! With `bf.format valkey-bloom` a server creates valkey-bloom's filters, bit for bit, and supports its options.

use super::{Case, add, cases};
use crate::harness::{Client, Server, Site, Test, tests};
use crate::support::Field;
use crate::support::rdb::Payload;

pub(crate) const TESTS: &[Test] = tests![
    filters_with_a_recorded_seed_equal_valkey_blooms,
    a_seed_is_random_unless_given,
    options_are_valkey_blooms,
    filters_are_validated_to_scale,
    items_may_be_omitted_for_valkey_blooms_format,
    blobs_are_loaded_or_refused_as_by_valkey_bloom,
    a_rewritten_append_only_file_holds_the_recorded_blobs,
];

fn start(site: &Site) -> Server {
    site.launch().with_option("bf.format valkey-bloom").start()
}

/// Returns the filters of release 1.0.
fn released() -> Vec<Case> {
    cases().into_iter().filter(|case| case.producer.starts_with("valkey-bloom-1.0")).collect()
}

/// Returns the seed in a payload: it follows version, length and probes in the slice of every layer.
fn seed(payload: &Payload) -> Vec<u8> {
    let slice = payload.record.0.iter().find_map(|field| match field {
        Field::Bytes(bytes) => Some(bytes),
        _ => None,
    });
    slice.unwrap()[13..45].to_vec()
}

/// Creates a recorded filter again, with its options, seed and items.
fn make(client: &mut Client, case: &Case) {
    let recorded = Payload::read(&case.payload);
    let seed = seed(&recorded);
    let words = case.reserve_words();
    let rate = words.first().unwrap_or(&"0.01");
    let capacity = words.get(1).unwrap_or(&"100");
    let mut insert: Vec<&[u8]> = vec![b"BF.INSERT", case.key.as_bytes(), b"SEED", &seed];
    insert.extend(["CAPACITY", capacity, "ERROR", rate].map(str::as_bytes));
    insert.extend(words.iter().skip(2).map(|word| word.as_bytes()));
    assert_eq!(client.ask(&insert), "[]", "{}", case.key);
    add(client, &case.key, &case.members);
}

fn filters_with_a_recorded_seed_equal_valkey_blooms(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    for case in released() {
        make(&mut client, &case);
        case.assert_replies(&mut client, &case.key);
        let dumped = Payload::read(&client.bytes(&["DUMP", case.key.as_str()]));
        let recorded = Payload::read(&case.payload);
        assert_eq!((dumped.type_name, dumped.record), (recorded.type_name, recorded.record), "{}", case.key);
    }
}

fn a_seed_is_random_unless_given(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    let mut seeds: Vec<Vec<u8>> = (0..4)
        .map(|i| {
            let key = format!("k{i}");
            client.say(&format!("BF.ADD {key} a"));
            assert_eq!(client.say(&format!("TYPE {key}")), "+bloomfltr");
            seed(&Payload::read(&client.bytes(&["DUMP", key.as_str()])))
        })
        .collect();
    seeds.sort();
    seeds.dedup();
    assert_eq!(seeds.len(), 4);
}

fn options_are_valkey_blooms(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    // A seed alone selects the format.
    let with_seed = |client: &mut Client, key: &str, seed: &[u8]| {
        client.ask(&[b"BF.INSERT", key.as_bytes(), b"SEED", seed, b"ITEMS", b"a"])
    };
    let seed = [[7; 16], [8; 16]].concat();
    assert_eq!(with_seed(&mut client, "seeded", &seed), "[1]");
    assert_eq!(client.say("TYPE seeded"), "+bloomfltr");
    for length in [0, 1, 31, 33, 64] {
        assert_eq!(with_seed(&mut client, "k", &vec![7; length]), "-ERR invalid seed");
    }
    for (ratio, error) in [
        ("x", "-ERR bad tightening ratio"),
        ("0", "-ERR (0 < tightening ratio range < 1)"),
        ("1", "-ERR (0 < tightening ratio range < 1)"),
        ("-0.5", "-ERR (0 < tightening ratio range < 1)"),
    ] {
        let line = format!("BF.INSERT k FORMAT valkey-bloom TIGHTENING {ratio} ITEMS a");
        assert_eq!(client.say(&line), error, "{ratio}");
    }
    assert_eq!(client.say("BF.INSERT k FORMAT valkey-bloom TIGHTENING 0.8 ERROR 0.02 ITEMS a"), "[1]");
    assert_eq!(client.say("BF.INFO k TIGHTENING"), "[\"0.8\"]");
    assert_eq!(client.say("BF.INFO k ERROR"), "[\"0.02\"]");
    assert_eq!(server.client3().say("BF.INFO k ERROR"), "{+Error rate: ,0.02}");
    // A fixed filter has neither of the fields about growth.
    assert_eq!(client.say("BF.INSERT fixed FORMAT valkey-bloom NONSCALING ITEMS a"), "[1]");
    for word in ["TIGHTENING", "MAXSCALEDCAPACITY"] {
        assert_eq!(client.say(&format!("BF.INFO fixed {word}")), "-Invalid information value");
    }
    assert_eq!(client.say("BF.INFO fixed EXPANSION"), "[nil]");
    // SEED cannot be combined with everbloom's format.
    let words: [&[u8]; 8] = [b"BF.INSERT", b"n", b"FORMAT", b"everbloom", b"SEED", &seed, b"ITEMS", b"a"];
    assert_eq!(client.ask(&words), "-ERR SEED and TIGHTENING need FORMAT valkey-bloom");
}

fn filters_are_validated_to_scale(site: &Site) {
    let server = site
        .launch()
        .with_option("bf.format valkey-bloom")
        .with_option("bf.max-filter-bytes 134217728")
        .start();
    let mut client = server.client();
    let too_large = "-ERR provided VALIDATESCALETO causes bloom object to exceed memory limit";
    let together = "-ERR cannot use NONSCALING and VALIDATESCALETO options together";
    for (line, reply) in [
        ("BF.INSERT a VALIDATESCALETO 26214300 ITEMS x", "[1]"),
        ("BF.INSERT b VALIDATESCALETO 26214301 ITEMS x", too_large),
        ("BF.INSERT b NONSCALING VALIDATESCALETO 100 ITEMS x", together),
        (
            "BF.INSERT b TIGHTENING 0.0000000001 CAPACITY 1 EXPANSION 1 VALIDATESCALETO 100 ITEMS x",
            "-ERR provided VALIDATESCALETO causes false positive to degrade to 0",
        ),
        ("BF.INSERT c FORMAT everbloom VALIDATESCALETO 1000000 ITEMS x", "[1]"),
        ("BF.INSERT d FORMAT everbloom VALIDATESCALETO 1000000000 ITEMS x", too_large),
    ] {
        assert_eq!(client.say(line), reply, "{line}");
    }
    assert_eq!(client.say("EXISTS b d"), "0");
    assert_eq!(client.say("BF.INFO a MAXSCALEDCAPACITY"), "[26214300]");
}

fn items_may_be_omitted_for_valkey_blooms_format(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    assert_eq!(client.say("BF.INSERT k CAPACITY 10"), "[]");
    assert_eq!(client.say("BF.INFO k CAPACITY"), "[10]");
    assert_eq!(client.say("BF.INSERT k CAPACITY 10"), "[]");
    assert_eq!(client.say("BF.INSERT none NOCREATE CAPACITY 10"), "-ERR not found");
    // With another format clients may not omit ITEMS.
    let arity = "-ERR wrong number of arguments for 'bf.insert' command";
    assert_eq!(client.say("BF.INSERT n FORMAT redisbloom CAPACITY 10"), arity);
    assert_eq!(client.say("BF.INSERT n FORMAT everbloom CAPACITY 10"), arity);
}

fn blobs_are_loaded_or_refused_as_by_valkey_bloom(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    let load = |client: &mut Client, key: &str, blob: &[u8]| client.ask(&[b"BF.LOAD", key.as_bytes(), blob]);
    let bad = "-ERR bloom object decoding failed";
    for case in released() {
        let blob = case.blob().unwrap();
        assert_eq!(load(&mut client, "k", &blob), "+OK", "{}", case.key);
        assert_eq!(load(&mut client, "k", &blob), "-BUSYKEY Target key name already exists.");
        assert_eq!(load(&mut client, "n", &[]), bad);
        assert_eq!(load(&mut client, "n", &blob[..blob.len() - 1]), bad, "{}", case.key);
        assert_eq!(load(&mut client, "n", &[&blob[..], b"x"].concat()), bad, "{}", case.key);
        let newer = [&[2], &blob[1..]].concat();
        assert_eq!(load(&mut client, "n", &newer), format!("{bad}. Unsupported version"), "{}", case.key);
        client.say("DEL k");
    }
    client.say("SET s text");
    assert!(load(&mut client, "s", b"x").starts_with("-WRONGTYPE"));
    assert_eq!(client.int("EXISTS n"), 0);
}

fn a_rewritten_append_only_file_holds_the_recorded_blobs(site: &Site) {
    let launch = site.launch().with_option("bf.format valkey-bloom");
    let server = crate::journeys::append_only(launch, "no").start();
    let mut client = server.client();
    for case in released() {
        make(&mut client, &case);
    }
    crate::journeys::rewrite(&mut client);
    let base = crate::journeys::append_only_base(&server);
    for case in released() {
        let blob = case.blob().unwrap();
        assert!(base.windows(blob.len()).any(|window| window == blob), "{}", case.key);
    }
}
