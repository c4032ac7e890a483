//! BF.CLEAR: the key keeps its time to live and its parameters, and loses its items.

use crate::dump;
use crate::harness::{Raw, Site, Test, tests, wait_until};
use crate::kinds::{KINDS, make};

pub(crate) const TESTS: &[Test] = tests![
    a_cleared_filter_keeps_its_time_to_live_and_its_parameters,
    a_clear_is_announced_only_if_it_changes_anything,
    the_memory_of_a_large_filter_is_freed,
    a_full_server_clears,
    a_dump_continues_only_with_its_own_header,
];

fn a_cleared_filter_keeps_its_time_to_live_and_its_parameters(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (name, kind) in KINDS {
        for line in *kind {
            // Only the commands that create a filter without items.
            if !line.contains("RESERVE") && !line.contains("EMPTY") {
                break;
            }
            make(&mut client, &[line], name, "10", "");
            client.say(&format!("PEXPIREAT {name} 4102444800000"));
            let (digest, usage) = (client.digest(name), client.int(&format!("MEMORY USAGE {name}")));
            for item in 0..50 {
                client.say(&format!("BF.ADD {name} item-{item}"));
            }
            assert_ne!(client.digest(name), digest, "{name}");
            assert_eq!(client.say(&format!("BF.CLEAR {name}")), "+OK");
            assert_eq!(client.int(&format!("PEXPIRETIME {name}")), 4_102_444_800_000, "{name}");
            assert_eq!(client.digest(name), digest, "{name}");
            assert_eq!(client.int(&format!("MEMORY USAGE {name}")), usage, "{name}");
            assert_eq!(client.int(&format!("BF.CARD {name}")), 0, "{name}");
        }
    }
    assert_eq!(client.info_number("bf_items"), 0);
}

fn a_clear_is_announced_only_if_it_changes_anything(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let mut watcher = server.client();
    client.say("BF.RESERVE k 0.01 100");
    client.say("CONFIG SET notify-keyspace-events Eg");
    let mut subscriber: Raw = server.raw();
    assert!(subscriber.say("PSUBSCRIBE __keyevent@0__:*").contains("psubscribe"));
    for (add, outcome) in [("PING", "[PONG]"), ("BF.ADD k a", "nil")] {
        client.say(add);
        watcher.say("WATCH k");
        assert_eq!(client.say("BF.CLEAR k"), "+OK");
        watcher.say("MULTI");
        watcher.say("PING");
        let reply = watcher.say("EXEC");
        assert!(
            reply.to_lowercase().contains(&outcome.to_lowercase().replace(['[', ']'], "")),
            "{add}: {reply}"
        );
    }
    let (added, cleared) = (subscriber.next(), subscriber.next());
    assert!(String::from_utf8_lossy(&added).contains("bloom.add"));
    assert!(String::from_utf8_lossy(&cleared).contains("bloom.clear"));
}

fn the_memory_of_a_large_filter_is_freed(site: &Site) {
    if site.hides_memory() {
        return;
    }
    // Below and above the size that is freed in the background.
    for capacity in [20_000_000, 250_000_000] {
        let server = site.start();
        let mut client = server.client();
        let before = server.resident_bytes();
        assert_eq!(client.say(&format!("BF.RESERVE k 0.01 {capacity} NONSCALING")), "+OK");
        // A copy has resident memory only for pages with bits, so fill some pages.
        for batch in 0..20 {
            let mut request = vec!["BF.MADD".to_owned(), "k".to_owned()];
            request.extend((0..1000).map(|item| format!("{batch}-{item}")));
            client.array(&request);
        }
        assert!(server.resident_bytes() > before + (20 << 20));
        assert_eq!(client.say("BF.CLEAR k"), "+OK");
        assert_eq!(client.say("BF.EXISTS k 0-0"), "0");
        wait_until("memory is given back", || server.resident_bytes() < before + (20 << 20));
        wait_until("one filter without items is counted", || {
            client.info_number("bf_items") == 0 && client.info_number("bf_filters") == 1
        });
        assert_eq!(client.say("BF.ADD k again"), "1");
    }
}

fn a_full_server_clears(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    client.say("CONFIG SET maxmemory-policy noeviction");
    client.say("CONFIG SET maxmemory 1");
    assert!(client.say("BF.ADD k b").starts_with("-OOM"));
    assert_eq!(client.say("BF.CLEAR k"), "+OK");
    assert_eq!(client.int("BF.CARD k"), 0);
}

fn a_dump_continues_only_with_its_own_header(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.MADD source a b c");
    let (next, header) = dump::chunk(&mut client, "source", 0).unwrap();
    let (end, chunk) = dump::chunk(&mut client, "source", next).unwrap();
    assert_eq!(dump::load(&mut client, "k", next, &header), "+OK");
    assert_eq!(client.say("BF.CLEAR k"), "+OK");
    let reply = dump::load(&mut client, "k", end, &chunk);
    assert!(
        reply.starts_with("-ERR received bad data - the chunk and the header are from different dumps"),
        "{reply}"
    );
    assert_eq!(client.say("BF.EXISTS k a"), "0");
}
