//! LIFE, IFABSENT, WITHIN, BF.TTL and BF.PTTL: items of a sliding window with lives of their own, what is replicated of
//! them, and lookups of what was added lately.

use everbloom_command::Settings;

use crate::support::make::START_MS;
use crate::support::server::Server;
use crate::support::{Random, effort};

/// Returns a server whose clock is at the start of a generation of a window of 14 seconds.
fn server() -> Server {
    Server::at(START_MS / 14_000 * 14_000)
}

/// Returns a server with an empty filter `k`, whose window is 14 seconds.
fn with_window(options: &str) -> Server {
    let mut server = server();
    server.must(format!("BF.RESERVE k 0.0001 1000 WINDOW 14 {options}").trim_end());
    server
}

/// Returns a number in the reply of a command.
fn number(server: &mut Server, line: &str) -> i64 {
    server.run(line)[1..].parse().unwrap()
}

fn assert_replayed(server: &Server) {
    server.assert_replicated(Settings::DEFAULT);
    server.assert_replayed_later();
}

const LIVES_MS: [u64; 8] = [1, 500, 999, 1000, 1001, 7_300, 13_999, 14_000];

/// An item is found for its life and at most a step longer, at every phase of a step.
#[test]
fn an_item_is_found_for_its_life_and_at_most_a_step_longer() {
    for (options, step_ms) in [("", 1000), ("STEPS 120", 117)] {
        for (phase_ms, life_ms) in
            [0, 1, 499, 999].into_iter().flat_map(|phase_ms| LIVES_MS.map(|life_ms| (phase_ms, life_ms)))
        {
            let mut server = with_window(options);
            server.now_ms += phase_ms;
            let added_ms = server.now_ms;
            assert_eq!(server.run(&format!("BF.ADD k a PLIFE {life_ms}")), "#t");
            let left_ms = number(&mut server, "BF.PTTL k a") as u64;
            assert!((life_ms..=life_ms + step_ms + 1).contains(&left_ms), "{phase_ms}, {life_ms}: {left_ms}");
            assert_eq!(number(&mut server, "BF.TTL k a") as u64, left_ms.div_ceil(1000));
            for (later_ms, is_in) in [(life_ms, true), (left_ms - 1, true), (left_ms, false)] {
                server.now_ms = added_ms + later_ms;
                let expected = if is_in { "#t" } else { "#f" };
                assert_eq!(server.run("BF.EXISTS k a"), expected, "{phase_ms}, {life_ms}, {later_ms}");
            }
            assert_eq!(server.run("BF.PTTL k a"), ":-2");
            assert_replayed(&server);
        }
    }
}

/// The last generation of a life of the window is that of an add without a life.
#[test]
fn a_life_of_the_window_is_that_of_a_plain_add() {
    for phase_ms in [0, 300, 999] {
        let mut server = with_window("");
        server.now_ms += phase_ms;
        server.must("BF.ADD k plain");
        server.must("BF.ADD k life LIFE 14");
        server.must(&format!("BF.ADD k at PLIFEAT {}", server.now_ms + 14_000));
        let left = number(&mut server, "BF.PTTL k plain");
        assert_eq!(number(&mut server, "BF.PTTL k life"), left);
        assert_eq!(number(&mut server, "BF.PTTL k at"), left);
    }
}

/// Adds whose items have lives of their own move the newest generation as others do.
#[test]
fn short_lives_do_not_stop_the_time_of_a_filter() {
    let steps = effort(80, 140) * 4;
    let bits = |options: &str, life: &str| {
        let mut server = server();
        server.must(format!("BF.RESERVE k 0.01 14000 WINDOW 14 {options}").trim_end());
        let (mut random, mut bits, mut samples) = (Random(7), 0.0, 0.0);
        for step in 0..steps {
            server.now_ms += 250;
            let data: Vec<u8> = (0..250).flat_map(|_| random.next().to_le_bytes()).collect();
            let front: Vec<&[u8]> = [&b"BF.BULKADD"[..], b"k"]
                .into_iter()
                .chain(life.split_terminator(' ').map(str::as_bytes))
                .collect();
            let call: Vec<&[u8]> = front.into_iter().chain([&b"FIXED"[..], b"8", &data]).collect();
            assert!(server.call(&call).starts_with('$'));
            if step > 200 {
                let filter = server.filter("k");
                bits += filter.size_bytes() as f64 * 8.0 / filter.items() as f64;
                samples += 1.0;
            }
        }
        assert_replayed(&server);
        (bits / samples, server.filter("k").size_bytes())
    };
    for options in ["", "STEPS 120"] {
        let (full, full_bytes) = bits(options, "");
        let (short, short_bytes) = bits(options, "PLIFE 1000");
        println!(
            "{options}: {full:.2} and {short:.2} bits per live item, {full_bytes} and {short_bytes} bytes"
        );
        assert!(short_bytes < full_bytes, "{short_bytes} bytes");
    }
}

/// `WITHIN` finds every item of which an add within that time was stored, and none that is more than a step older.
#[test]
fn items_are_seen_within_a_time() {
    for (options, step_ms) in [("", 1000), ("STEPS 120", 117)] {
        assert_seen(with_window(options), step_ms);
    }
}

fn assert_seen(mut server: Server, step_ms: u64) {
    let start = server.now_ms;
    for (later_ms, item) in [(0, "a"), (300, "b"), (999, "c"), (1000, "d"), (5500, "e"), (13_700, "f")] {
        server.now_ms = start + later_ms;
        server.must(&format!("BF.ADD k {item}"));
    }
    server.must("BF.ADD k short LIFE 2");
    for now_ms in (13_700..15_000).step_by(100) {
        server.now_ms = start + now_ms;
        for (added_ms, item) in [(0, "a"), (300, "b"), (999, "c"), (1000, "d"), (5500, "e"), (13_700, "f")] {
            for within_ms in [1, 700, 1000, 1300, 8200, 9300, 12_700, 13_700, 14_000u64] {
                let age_ms = now_ms - added_ms;
                let single = server.run(&format!("BF.EXISTS k {item} PWITHIN {within_ms}"));
                let packed = server.run(&format!("BF.BULKEXISTS k PWITHIN {within_ms} LINES {item}"));
                assert_eq!(single == "#t", packed == "$1");
                assert!(single == "#t" || age_ms > within_ms, "{item} after {age_ms}, within {within_ms}");
                assert!(
                    single == "#f" || age_ms <= within_ms + step_ms,
                    "{item} after {age_ms}, within {within_ms}"
                );
            }
        }
        assert_eq!(server.run("BF.EXISTS k short WITHIN 5"), "#f");
    }
    // The time of the filter counts if the clock goes back.
    server.now_ms = start + 9000;
    assert_eq!(server.run("BF.EXISTS k f PWITHIN 1"), "#t");
    assert_eq!(server.run("BF.EXISTS k e WITHIN 7"), "#f");
    assert_eq!(server.run("BF.EXISTS k e WITHIN 9"), "#t");
}

/// No item is missing before its life has ended, and none is kept more than a step longer, except by the error rate, at
/// any mixture of lives: 400,000 checks, and 13.8 million in the long form.
#[test]
fn every_mixture_of_lives_keeps_the_promises() {
    let items = effort(20_000, 300_000);
    type Life = fn(&mut Random) -> u64;
    let mixtures: [(&str, Life); 4] = [
        ("short", |random| 1 + random.next() % 1500),
        ("long", |random| 12_500 + random.next() % 1501),
        ("bimodal", |random| if random.below(2) == 0 { 700 } else { 14_000 }),
        ("any", |random| 1 + random.next() % 14_000),
    ];
    let steps = [("", 1000), ("STEPS 120", 117)];
    let cases = mixtures
        .into_iter()
        .flat_map(|(name, life_ms)| steps.map(|(options, step_ms)| (name, life_ms, options, step_ms)));
    for (name, life_ms, options, step_ms) in cases {
        let (mut server, mut random) = (server(), Random(11));
        server.must(format!("BF.RESERVE k 0.01 15000 WINDOW 14 {options}").trim_end());
        let mut ends = Vec::new();
        let (mut checked, mut absent, mut found) = (0u64, 0u64, 0u64);
        for step in 0..items / 100 {
            server.now_ms += 100;
            // Most of the batch has one life, as a command has.
            let life = life_ms(&mut random);
            let numbers: Vec<u64> = (0..100).map(|number| step * 100 + number).collect();
            let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let life_text = life.to_string();
            let call = [&b"BF.BULKADD"[..], b"k", b"PLIFE", life_text.as_bytes(), b"FIXED", b"8", &data];
            assert!(server.call(&call).starts_with('$'));
            ends.extend(numbers.iter().map(|number| (*number, server.now_ms + life)));
            if step % 50 == 49 {
                let recent = ends.len().saturating_sub(30_000);
                let asked = &ends[recent..];
                let data: Vec<u8> = asked.iter().flat_map(|(number, _)| number.to_le_bytes()).collect();
                server.call(&[b"BF.BULKEXISTS", b"k", b"FIXED", b"8", &data]);
                for ((number, end_ms), character) in asked.iter().zip(&server.bulk) {
                    checked += 1;
                    let is_found = *character == b'1';
                    assert!(is_found || server.now_ms > *end_ms, "{name}: {number}");
                    if server.now_ms > end_ms + step_ms + 1 {
                        absent += 1;
                        found += u64::from(is_found);
                    }
                }
            }
        }
        let most = 0.01 * absent as f64;
        println!("{name} {options}: {checked} checked, {found} of {absent} expired items found");
        assert!(found as f64 <= most + 6.0 * most.sqrt() + 2.0, "{name}: {found} of {absent}");
        assert_replayed(&server);
    }
}

/// Items with a life of their own are replicated in commands that are not too long.
#[test]
fn a_large_batch_with_a_life_is_replicated_in_parts() {
    for (items, commands) in [(65_536u64, 1), (65_537, 2)] {
        let mut server = server();
        server.must("BF.RESERVE k 1e-9 15000 WINDOW 14");
        let data: Vec<u8> = (0..items).flat_map(u64::to_le_bytes).collect();
        server.replicated.clear();
        let call: [&[u8]; 7] = [b"BF.BULKADD", b"k", b"LIFE", b"5", b"FIXED", b"8", &data];
        assert!(server.call(&call).starts_with('$'));
        assert_eq!(server.replicated.len(), commands, "{items}");
        assert!(server.replicated.iter().all(|command| command.starts_with("BF.INSERT k NOCREATE ")));
        assert_replayed(&server);
    }
}
