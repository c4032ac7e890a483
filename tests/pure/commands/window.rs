//! WINDOW, PWINDOW, NOREFRESH and AT: sliding-window filters, and the time in replicated commands.

use everbloom::bloom::Format;
use everbloom::command::Settings;
use everbloom::format::filter::digest;

use crate::support::server::{Server, assert_dialogue};

const START_MS: u64 = 1_800_000_000_000;

/// Returns a server whose clock is at the start of a generation of 14 seconds.
fn server() -> Server {
    let mut server = Server::new();
    server.now_ms = START_MS / 14_000 * 14_000;
    server
}

fn digested(server: &Server, key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    digest(&server.keys[key.as_bytes()], &mut |part| bytes.extend_from_slice(part));
    bytes
}

/// Returns a replica, or a server that replays an append-only file, years later and with other settings.
fn replica(later_ms: u64) -> Server {
    let mut replica = Server::new();
    replica.settings = Settings {
        format: Format::Everbloom,
        expansion_factor: 0,
        fixed_filters_saturate: true,
        keyed: true,
        ..Settings::DEFAULT
    };
    replica.is_replicated = true;
    replica.now_ms = START_MS + later_ms;
    replica
}

#[test]
fn items_are_found_for_the_window() {
    let mut server = server();
    let start = server.now_ms;
    assert_dialogue(
        &mut server,
        &[
            ("BF.RESERVE k 0.01 1000 WINDOW 14", "+OK"),
            ("BF.INFO k WINDOW", "*1 :14000"),
            ("BF.INFO k CAPACITY", "*1 :1000"),
            ("BF.ADD k a", "#t"),
            ("BF.ADD k a", "#f"),
            ("BF.CARD k", ":1"),
        ],
    );
    server.now_ms = start + 14_000;
    assert_dialogue(
        &mut server,
        &[("BF.MADD k a b", "*2 #f #t"), ("BF.CARD k", ":3"), ("BF.INFO k ITEMS", "*1 :3")],
    );
    server.now_ms = start + 28_999;
    assert_dialogue(&mut server, &[("BF.MEXISTS k a b c", "*3 #t #t #f"), ("BF.CARD k", ":2")]);
    // The clock goes back before the last lookup: a reply depends on the current time only.
    server.now_ms = start + 29_000;
    assert_dialogue(
        &mut server,
        &[("BF.MEXISTS k a b", "*2 #f #f"), ("BF.EXISTS k a", "#f"), ("BF.CARD k", ":0")],
    );
    // The time does not go back before the last add.
    server.now_ms = start;
    assert_dialogue(&mut server, &[("BF.EXISTS k b", "#t"), ("BF.ADD k c", "#t"), ("BF.CARD k", ":4")]);
    server.now_ms = start + 28_999;
    assert_dialogue(&mut server, &[("BF.EXISTS k c", "#t"), ("BF.CLEAR k", "+OK"), ("BF.EXISTS k c", "#f")]);
    assert_dialogue(
        &mut server,
        &[("BF.INFO k WINDOW", "*1 :14000"), ("BF.ADD k c", "#t"), ("BF.EXISTS k c", "#t")],
    );
    // Other filters have no window.
    assert_dialogue(
        &mut server,
        &[("BF.ADD plain a", "#t"), ("BF.INFO plain WINDOW", "-Invalid information value")],
    );
}

#[test]
fn an_item_counts_from_its_first_add_with_norefresh() {
    let mut server = server();
    let start = server.now_ms;
    assert_dialogue(
        &mut server,
        &[
            ("BF.INSERT k PWINDOW 14000 NOREFRESH ITEMS a", "*1 #t"),
            ("BF.RESERVE r 0.01 100 norefresh pwindow 14000", "+OK"),
            ("BF.ADD r a", "#t"),
        ],
    );
    let replicated = server.replicated.len();
    server.now_ms = start + 14_999;
    assert_dialogue(&mut server, &[("BF.ADD k a", "#f"), ("BF.MADD r a", "*1 #f"), ("BF.CARD k", ":1")]);
    assert_eq!(server.replicated.len(), replicated, "nothing changed");
    server.now_ms = start + 15_000;
    assert_dialogue(&mut server, &[("BF.ADD k a", "#t"), ("BF.MADD r a", "*1 #t")]);
}

#[test]
fn the_time_is_replicated_with_the_first_add_of_a_generation() {
    let mut server = server();
    let start = server.now_ms;
    server.run("BF.RESERVE k 0.01 1000 WINDOW 14");
    let at = |seconds: u64| start + seconds * 1000;
    for (seconds, line) in [
        (0, "BF.ADD k a"),
        (0, "BF.ADD k b"),
        (0, "BF.MADD k a c"),
        (1, "BF.MADD k a d d"),
        (1, "BF.MADD k d a"),
        (1, "BF.INSERT k CAPACITY 5 ITEMS e a"),
        // The clock goes back, so the add is of the newest generation.
        (0, "BF.ADD k f"),
        (3, "BF.INSERT k NOCREATE ITEMS g"),
        (3, "BF.INSERT k EX 10 ITEMS h"),
    ] {
        server.now_ms = at(seconds);
        assert!(!server.run(line).contains("-ERR"), "{line}");
    }
    let said = |seconds: u64, items: &str| format!("BF.INSERT k NOCREATE AT {} ITEMS {items}", at(seconds));
    assert_eq!(
        server.replicated,
        [
            "BF.INSERT k CAPACITY 1000 ERROR 0.01 EXPANSION 2 FORMAT everbloom PWINDOW 14000".to_owned(),
            said(0, "a"),
            "BF.ADD k b".to_owned(),
            "BF.MADD k a c".to_owned(),
            said(1, "a d"),
            "BF.INSERT k CAPACITY 5 ITEMS e a".to_owned(),
            "BF.ADD k f".to_owned(),
            said(3, "g"),
            "BF.MADD k h".to_owned(),
        ]
    );
    // A command that creates a filter with items replicates the time too.
    server.replicated.clear();
    server.run("BF.INSERT made CAPACITY 10 WINDOW 100 NOREFRESH ITEMS a a");
    assert_eq!(
        server.replicated,
        [format!(
            "BF.INSERT made CAPACITY 10 ERROR 0.01 EXPANSION 2 FORMAT everbloom PWINDOW 100000 NOREFRESH AT {} ITEMS a",
            at(3)
        )]
    );
}

#[test]
fn the_same_replicated_commands_give_the_same_columns_years_later() {
    for options in ["WINDOW 14", "PWINDOW 14000 NOREFRESH", "WINDOW 14 EXPANSION 1", "WINDOW 14 NONSCALING"] {
        let mut primary = server();
        let start = primary.now_ms;
        let mut random = crate::support::Random(7);
        primary.run(&format!("BF.RESERVE k 0.01 300 {options}"));
        primary.run(&format!("BF.INSERT i CAPACITY 300 {options} ITEMS x y z"));
        for round in 0..600u64 {
            primary.now_ms = match random.below(12) {
                0 => primary.now_ms + random.next() % 40_000,
                1 => primary.now_ms - random.next() % 4000,
                _ => primary.now_ms + random.next() % 400,
            };
            let items: Vec<String> =
                (0..1 + random.below(9)).map(|_| random.below(900).to_string()).collect();
            let items = items.join(" ");
            let moment = primary.now_ms - random.next() % 16_000 + 500;
            match random.below(5) {
                0 => primary.run(&format!("BF.ADD k {}", random.below(900))),
                1 => primary.run(&format!("BF.INSERT k AT {moment} ITEMS {items}")),
                2 => primary.run(&format!("BF.INSERT i NOCREATE AT {moment} CAPACITY 7 ITEMS {items}")),
                3 if round % 100 == 0 => primary.run("BF.CLEAR i"),
                3 if round % 3 == 0 => {
                    let data = items.replace(' ', "\n");
                    primary.call(&[b"BF.BULKADD", b"i", b"LINES", data.as_bytes()])
                }
                3 => primary.run(&format!("BF.INSERT i ITEMS {items}")),
                _ => primary.run(&format!("BF.MADD k {items}")),
            };
        }
        for later_ms in [0, 10 * 365 * 86_400_000] {
            let mut replica = replica(later_ms);
            for line in &primary.replicated {
                let reply = replica.run(line);
                assert!(!reply.contains("-ERR"), "{options}: {line}: {reply}");
            }
            for key in ["k", "i"] {
                assert!(digested(&primary, key) == digested(&replica, key), "{options}: {key} {later_ms}");
            }
            // Replies to its clients depend on its own clock.
            replica.is_replicated = false;
            let expected = if later_ms == 0 { primary.run("BF.CARD k") } else { ":0".to_owned() };
            replica.now_ms = if later_ms == 0 { primary.now_ms } else { start + later_ms };
            assert_eq!(replica.run("BF.CARD k"), expected, "{options}");
        }
    }
}

#[test]
fn items_can_have_an_earlier_time() {
    let mut server = server();
    let start = server.now_ms;
    server.run("BF.RESERVE k 0.01 1000 WINDOW 14");
    let mut insert = |at_ms: u64, item: &str| server.run(&format!("BF.INSERT k AT {at_ms} ITEMS {item}"));
    assert_eq!(insert(start - 14_000, "oldest"), "*1 #t");
    assert_eq!(
        insert(start - 14_001, "older"),
        "-ERR AT is older than the window of the filter: the items have expired"
    );
    assert_eq!(insert(start + 1000, "ahead"), "*1 #t");
    assert_eq!(
        insert(start + 1001, "far"),
        "-ERR AT is in the future by more than a fourteenth of the window: check the clocks"
    );
    assert_eq!(insert(start - 5000, "middle"), "*1 #t");
    assert_eq!(insert(start, "now"), "*1 #t");
    assert_eq!(
        server.replicated[1..],
        [
            format!("BF.INSERT k AT {} ITEMS oldest", start - 14_000),
            // A time ahead becomes the current time.
            format!("BF.INSERT k NOCREATE AT {start} ITEMS ahead"),
            format!("BF.INSERT k AT {} ITEMS middle", start - 5000),
            format!("BF.INSERT k AT {start} ITEMS now"),
        ]
    );
    server.now_ms = start + 1000;
    assert_eq!(server.run("BF.MEXISTS k oldest middle now ahead"), "*4 #f #t #t #t");
    server.now_ms = start + 10_000;
    assert_eq!(server.run("BF.MEXISTS k oldest middle now ahead"), "*4 #f #f #t #t");
    server.now_ms = start + 15_000;
    assert_eq!(server.run("BF.MEXISTS k now ahead"), "*2 #f #f");
    // A replicated command is accepted.
    server.is_replicated = true;
    assert_eq!(server.run(&format!("BF.INSERT k AT {} ITEMS later", start + 900_000)), "*1 #t");
    assert_eq!(server.run(&format!("BF.INSERT k AT {start} ITEMS dead")), "*1 #f");
}

#[test]
fn incompatible_window_options_are_refused() {
    let mut server = server();
    let together = |word: &str| format!("-ERR {word} cannot be combined with WINDOW");
    let needs = |word: &str| format!("-ERR {word} needs a filter created with WINDOW");
    let seconds = "-ERR WINDOW must be a number of seconds in the range [1, 1099511627]".to_owned();
    let milliseconds =
        "-ERR PWINDOW must be a number of milliseconds in the range [100, 1099511627776]".to_owned();
    let dialogue = [
        ("BF.RESERVE k 0.01 100 WINDOW 5 COUNTING", together("COUNTING")),
        ("BF.RESERVE k 0.01 100 NONSCALING SATURATE WINDOW 5", together("SATURATE")),
        ("BF.INSERT k WINDOW 5 VALIDATESCALETO 1000 ITEMS a", together("VALIDATESCALETO")),
        ("BF.RESERVE k 0.01 100 NOREFRESH", needs("NOREFRESH")),
        ("BF.INSERT k NOREFRESH ITEMS a", needs("NOREFRESH")),
        ("BF.INSERT k AT 5 ITEMS a", needs("AT")),
        ("BF.RESERVE k 0.01 100 WINDOW 5 FORMAT redisbloom", "-ERR WINDOW needs FORMAT everbloom".to_owned()),
        (
            "BF.INSERT k FORMAT valkey-bloom PWINDOW 500 ITEMS a",
            "-ERR WINDOW needs FORMAT everbloom".to_owned(),
        ),
        ("BF.RESERVE k 0.01 100 WINDOW 0", seconds.clone()),
        ("BF.RESERVE k 0.01 100 WINDOW -3", seconds.clone()),
        ("BF.RESERVE k 0.01 100 WINDOW 7d", seconds.clone()),
        ("BF.RESERVE k 0.01 100 WINDOW 1099511628", seconds.clone()),
        ("BF.RESERVE k 0.01 100 window 9223372036854775807", seconds),
        ("BF.RESERVE k 0.01 100 PWINDOW 99", milliseconds.clone()),
        ("BF.RESERVE k 0.01 100 PWINDOW 7d", milliseconds.clone()),
        ("BF.INSERT k PWINDOW 1099511627777 ITEMS a", milliseconds),
        ("BF.INSERT k WINDOW 5 AT x ITEMS a", "-ERR AT must be a UNIX time in milliseconds".to_owned()),
        ("BF.INSERT k WINDOW 5 AT -1 ITEMS a", "-ERR AT must be a UNIX time in milliseconds".to_owned()),
        (
            "BF.RESERVE k 0.01 100 WINDOW",
            "-ERR wrong number of arguments for 'bf.reserve' command".to_owned(),
        ),
        ("BF.RESERVE k 0.01 100 AT 5", "-ERR unknown argument 'AT'".to_owned()),
    ];
    for (line, expected) in &dialogue {
        assert_eq!(server.run(line), *expected, "{line}");
    }
    assert!(server.keys.is_empty() && server.replicated.is_empty());
    let start = server.now_ms;
    let moment = format!("BF.INSERT plain AT {start} ITEMS a");
    let dialogue = [
        ("BF.RESERVE k 0.01 100 PWINDOW 100 EXPANSION 0", "+OK"),
        ("BF.ADD plain a", "#t"),
        (moment.as_str(), "-ERR AT needs a filter created with WINDOW"),
        ("BF.DEL k a", "-ERR BF.DEL needs a filter created with COUNTING"),
        ("BF.MERGE k plain", "-ERR the destination cannot take a layer of a source"),
        ("BF.MERGE plain k", "-ERR the destination cannot take a layer of a source"),
        ("BF.EXPORT k", "-ERR"),
    ];
    for (line, expected) in dialogue {
        let reply = server.run(line);
        assert!(
            reply == expected || (!line.starts_with("BF.ADD") && reply.starts_with(expected)),
            "{line}: {reply}"
        );
    }
}

#[test]
fn settings_incompatible_with_a_window_are_ignored() {
    let mut server = server();
    server.settings.keyed = true;
    server.settings.fixed_filters_saturate = true;
    server.settings.format = Format::RedisBloom;
    server.run("BF.RESERVE k 0.01 14 WINDOW 14 NONSCALING");
    assert_eq!(
        server.replicated,
        [
            "BF.INSERT k CAPACITY 14 ERROR 0.01 NONSCALING FORMAT everbloom KEY \u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7} PWINDOW 14000"
        ]
    );
    let replies = (0..50).map(|item| server.run(&format!("BF.ADD k {item}")));
    assert_eq!(replies.last().unwrap(), "-ERR non scaling filter is full");
    let (taken, start) = (server.run("BF.CARD k"), server.now_ms);
    // Only the added items are replicated, and the next generation takes items again.
    let mut follower = replica(0);
    server.now_ms = start + 1000;
    server.run("BF.MADD k a b c d e f g h i j k l m n o p q r s t");
    for line in &server.replicated {
        assert!(!follower.run(line).contains("-ERR"), "{line}");
    }
    assert!(digested(&server, "k") == digested(&follower, "k"));
    assert_ne!(server.run("BF.CARD k"), taken);
}

/// BF.STATS shows the memory of bursts, and the memory that the next add frees. Bursts are not logged.
#[test]
fn bursts_are_shown_until_they_are_freed() {
    let mut server = server();
    let start = server.now_ms;
    let add = |server: &mut Server, name: &str, items: u64| {
        let items: Vec<String> = (0..items).map(|number| format!("{name}-{number}")).collect();
        server.run(&format!("BF.MADD k {}", items.join(" ")))
    };
    assert_eq!(server.run("BF.RESERVE k 0.01 14000 WINDOW 14"), "+OK");
    let size = |server: &mut Server| server.run("BF.INFO k SIZE");
    let reserved = size(&mut server);
    assert!(server.run("BF.STATS k").contains(" +expired-bytes :0 "));
    add(&mut server, "burst", 14_000);
    let stats = server.run("BF.STATS k");
    assert!(
        stats
            .contains("bursts of more than 1032 items in 1000 ms take 35224 bytes until their items expire "),
        "{stats}"
    );
    // Nothing is freed without an add.
    server.now_ms = start + 15_000;
    let (stats, taken) = (server.run("BF.STATS k"), size(&mut server));
    assert!(stats.contains(" +expired-bytes :35224 ") && stats.contains(" +advice _ "), "{stats}");
    assert!(taken != reserved);
    add(&mut server, "next", 1);
    assert_eq!(size(&mut server), reserved);
    assert!(server.run("BF.STATS k").contains(" +expired-bytes :0 "));
    assert!(server.log.is_empty(), "{:?}", server.log);
}

/// A pace above the capacity gets a larger base. The log and BF.STATS show the BF.RESERVE for it.
#[test]
fn a_pace_above_the_capacity_is_logged_once() {
    let mut server = server();
    let start = server.now_ms;
    assert_eq!(server.run("BF.RESERVE k 0.01 1400 PWINDOW 14000 KEYED NOREFRESH"), "+OK");
    for step in 0..60 {
        server.now_ms = start + 1000 * step;
        let items: Vec<String> = (0..250).map(|number| format!("{step}-{number}")).collect();
        server.run(&format!("BF.MADD k {}", items.join(" ")));
    }
    let [line] = server.log.as_slice() else { panic!("{:?}", server.log) };
    let reserve = "BF.RESERVE k 0.01 5600 KEYED WINDOW 14 NOREFRESH";
    assert!(line.contains(reserve) && line.starts_with("'k' has "), "{line}");
    assert_eq!(server.run("BF.INFO k CAPACITY"), "*1 :5600");
    // The filter takes as much memory now as the recommended one.
    assert_eq!(server.run(reserve.replace(" k ", " other ").as_str()), "+OK");
    assert_eq!(server.run("BF.INFO other SIZE"), server.run("BF.INFO k SIZE"));
}
