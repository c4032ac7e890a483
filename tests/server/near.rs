//! Tests docs/near-copies.md: copies of a filter in an application, which follow the filter by BF.FOLLOW.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use everbloom::{NearError, NearFilter, NearOptions, WhenStale};

use crate::clients::url;
use crate::foreign::lookups;
use crate::harness::{Client, Cluster, Server, Site, Test, imitate, numbered, tests, wait_until};
use crate::kinds::fill;

pub(crate) const TESTS: &[Test] = tests![
    a_copy_of_every_kind_finds_what_the_server_finds,
    positions_move_with_the_value_and_end_with_it,
    values_end_on_other_threads_while_they_are_followed,
    thousands_of_followed_filters_stay_within_the_total,
    eviction_leaves_a_filter_that_is_followed,
    above_maxmemory_adds_are_accepted_or_refused_as_ever,
    a_replica_is_followed_and_becomes_the_primary,
    a_copy_follows_while_the_filter_grows,
    a_copy_survives_cut_connections_and_a_restart,
    items_expire_in_a_copy_when_they_do_on_the_server,
    stale_copies_and_missing_keys_are_as_chosen,
    own_adds_are_found_at_once,
    following_needs_a_permission_of_its_own,
    a_copy_looks_for_a_key_that_has_moved,
    a_copy_returns_to_its_own_address_if_a_node_has_gone,
    a_copy_asks_the_node_to_which_a_slot_moves,
    a_lookup_is_repeated_if_the_server_has_closed_the_connection,
];

/// Options for tests: a copy that asks often, and is never too old.
fn options() -> NearOptions {
    NearOptions {
        interval: Duration::from_millis(5),
        max_age: Duration::from_secs(3600),
        reload_interval: Duration::from_millis(50),
        when_stale: WhenStale::Fail,
        ..NearOptions::default()
    }
}

/// Returns a copy that was loaded.
fn near(server: &Server, key: &str, options: NearOptions) -> NearFilter {
    let copy = NearFilter::open(&url(server), key, options).expect("a copy");
    assert!(copy.wait(Duration::from_secs(30)), "{key}: {:?}", copy.stats());
    copy
}

/// Waits until the copy has an item, which the server has.
fn wait_for(copy: &NearFilter, item: &str) {
    wait_until(item, || copy.contains(item.as_bytes()) == Ok(true));
}

fn add(client: &mut Client, key: &str, items: std::ops::Range<u32>) {
    let lines: String = items.map(|item| format!("item-{item}\n")).collect();
    client.ask(&["BF.BULKADD", key, "COUNT", "LINES", &lines]);
}

/// Compares the lookups of filters of every kind, shape and client's scheme, before and after further adds.
fn a_copy_of_every_kind_finds_what_the_server_finds(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let absent: Vec<Vec<u8>> = numbered("absent", 0..1000).into_iter().map(String::into_bytes).collect();
    for filter in fill(&mut client) {
        let key = filter.key.as_str();
        let copy = near(&server, key, options());
        for round in 0..2 {
            for items in [filter.members.as_slice(), &absent] {
                let asked = lookups(&mut client, key, items);
                let slices: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
                let many = copy.contains_many(&slices).unwrap();
                for ((item, asked), many) in items.iter().zip(asked).zip(many) {
                    let found = copy.contains(item).unwrap();
                    assert_eq!(found, asked == '1', "{key}, {round}: {}", item.escape_ascii());
                    assert_eq!(found, many);
                }
            }
            let items = client.int(&format!("BF.CARD {key}"));
            client.say(&format!("BF.MADD {key} 100001 100002 100003"));
            let has_changed = client.int(&format!("BF.CARD {key}")) > items;
            for item in ["100001", "100002", "100003"] {
                if has_changed && client.int(&format!("BF.EXISTS {key} {item}")) == 1 {
                    wait_for(&copy, item);
                }
            }
        }
    }
}

/// Returns the position that BF.FOLLOW replies.
fn position(client: &mut Client, key: &str) -> String {
    let reply = client.say(&format!("BF.FOLLOW {key}"));
    reply.trim_matches(['[', ']']).replace(',', "")
}

/// Returns whether the server knows a position of the filter under the key.
fn knows(client: &mut Client, key: &str, position: &str) -> bool {
    let reply = client.say(&format!("BF.FOLLOW {key} {position}"));
    assert!(reply.starts_with('['), "{reply}");
    !reply.ends_with("nil]")
}

fn positions_move_with_the_value_and_end_with_it(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 1000");
    let here = position(&mut client, "k");
    assert!(knows(&mut client, "k", &here));
    client.say("BF.ADD k alice");
    client.say("RENAME k other");
    assert!(knows(&mut client, "other", &here));
    client.say("MOVE other 1");
    client.say("SELECT 1");
    assert!(knows(&mut client, "other", &here));
    client.say("SWAPDB 1 0");
    client.say("SELECT 0");
    assert!(knows(&mut client, "other", &here));
    assert_eq!(client.info_number("bf_followed_filters"), 1);
    // What a follower has asked for is no part of the value.
    let digest = client.digest("other");
    client.say("COPY other copy");
    assert!(!knows(&mut client, "copy", &here));
    assert_eq!(client.digest("copy"), digest);
    let payload = client.bytes(&["DUMP", "other"]);
    let restore = [b"RESTORE".as_slice(), b"restored", b"0", &payload];
    assert_eq!(client.ask(&restore), "+OK");
    assert!(!knows(&mut client, "restored", &here));
    assert_eq!(client.info_number("bf_followed_filters"), 3);
    client.say("DEL copy");
    client.say("UNLINK restored");
    assert_eq!(client.info_number("bf_followed_filters"), 1);
    client.say("DEBUG RELOAD");
    // In Valkey 9.1 the former value ends a little later.
    wait_until("the former value ends", || client.info_number("bf_followed_filters") == 0);
    assert!(!knows(&mut client, "other", &here));
    client.say("FLUSHALL ASYNC");
    wait_until("the values end", || client.info_number("bf_followed_filters") == 0);
    assert_eq!(client.info_number("bf_followed_bytes"), 0);
    // In a transaction and in a script, and without a ring if it is switched off.
    client.say("BF.ADD k alice");
    client.say("MULTI");
    client.say("BF.FOLLOW k");
    assert!(client.say("EXEC").starts_with("[["));
    assert!(client.ask(&["EVAL", "return redis.call('BF.FOLLOW', KEYS[1])", "1", "k"]).starts_with('['));
    client.say("CONFIG SET bf.follow-total-bytes 0");
    assert!(client.say("BF.FOLLOW k").starts_with("-ERR BF.FOLLOW is switched off"));
    client.say("BF.ADD k bob");
    assert_eq!(client.info_number("bf_followed_bytes"), 0);
}

/// Values end on background threads while others are made, followed and added to.
fn values_end_on_other_threads_while_they_are_followed(site: &Site) {
    let server = site.start();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut client = server.client();
                for round in 0u32.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let key = format!("{thread}:{}", round % 50);
                    add(&mut client, &key, round..round + 20);
                    client.say(&format!("BF.FOLLOW {key}"));
                    add(&mut client, &key, round + 20..round + 40);
                    if round % 7 == 0 {
                        client.say(&format!("BF.CLEAR {key}"));
                    }
                }
            });
        }
        let mut client = server.client();
        client.say("CONFIG SET bf.follow-total-bytes 20000");
        for round in 0..100 {
            let removal = if round % 2 == 0 { "FLUSHALL ASYNC" } else { "UNLINK 0:1 1:1 2:1 0:2 1:2" };
            client.say(removal);
            std::thread::sleep(Duration::from_millis(5));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let mut client = server.client();
    client.say("FLUSHALL ASYNC");
    wait_until("the values end", || client.info_number("bf_followed_filters") == 0);
    assert_eq!(client.info_number("bf_followed_bytes"), 0);
}

fn thousands_of_followed_filters_stay_within_the_total(site: &Site) {
    const FILTERS: usize = 2_500;
    const TOTAL_BYTES: u64 = 2 << 20;
    let server = site.start();
    let mut client = server.client();
    client.say(&format!("CONFIG SET bf.follow-total-bytes {TOTAL_BYTES}"));
    let before = client.info_number("used_memory");
    for number in 0..FILTERS {
        client.pipeline(&[&format!("BF.ADD k{number} a"), &format!("BF.FOLLOW k{number}")]);
    }
    let items = numbered("item", 0..100).join(" ");
    let lines: Vec<String> = (0..FILTERS).map(|number| format!("BF.MADD k{number} {items}")).collect();
    for lines in lines.chunks(100) {
        client.pipeline(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let followed = client.info_number("bf_followed_bytes");
    assert!((TOTAL_BYTES / 2..=TOTAL_BYTES).contains(&followed), "{followed}");
    let filters: u64 = client.info_number("bf_bytes");
    let used = client.info_number("used_memory") - before;
    assert!(used < filters * 2 + TOTAL_BYTES + (8 << 20), "{used} for {filters} bytes of filters");
    client.say("CONFIG SET bf.follow-total-bytes 100kb");
    client.say("BF.FOLLOW k1");
    client.say("BF.ADD k1 another");
    assert!(client.info_number("bf_followed_bytes") <= 100 << 10);
}

/// A filter that is followed counts as used, and its ring as memory. Other keys go.
fn eviction_leaves_a_filter_that_is_followed(site: &Site) {
    let server = site.launch().with("maxmemory-policy allkeys-lru").with("maxmemory-samples 10").start();
    let mut client = server.client();
    add(&mut client, "k", 0..10_000);
    let copy = near(&server, "k", options());
    let limit = client.info_number("used_memory") + (6 << 20);
    client.say(&format!("CONFIG SET maxmemory {limit}"));
    let value = "x".repeat(10_000);
    for round in 0..3 {
        for number in 0..400 {
            client.ask(&["SET", &format!("other{round}:{number}"), &value]);
            client.say(&format!("BF.ADD k late{round}:{number}"));
        }
        // The server's clock for eviction has seconds. Nothing but the copy uses the filter meanwhile.
        std::thread::sleep(Duration::from_millis(2100));
    }
    assert!(client.info_number("evicted_keys") > 300);
    wait_for(&copy, "late2:399");
    assert_eq!((copy.stats().loads, copy.stats().losses), (1, 0));
}

fn above_maxmemory_adds_are_accepted_or_refused_as_ever(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 100000");
    client.say("BF.FOLLOW k");
    client.say("BF.ADD k before");
    let bytes = client.info_number("bf_followed_bytes");
    client.say("CONFIG SET maxmemory 1");
    assert!(client.say("BF.ADD k refused").starts_with("-OOM"));
    // A command in a script that began before is not refused. The ring does not grow.
    assert_eq!(client.info_number("bf_followed_bytes"), bytes);
    assert!(client.say("BF.FOLLOW k").starts_with('['));
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(client.say("BF.ADD k after"), "1");
}

fn a_replica_is_followed_and_becomes_the_primary(site: &Site) {
    let primary = site.start();
    let mut client = primary.client();
    client.say("BF.RESERVE k 0.01 100");
    add(&mut client, "k", 0..1000);
    let replica = primary.replica(site.launch());
    replica.wait_for_primary();
    let copy = near(&replica, "k", options());
    add(&mut client, "k", 1000..5000);
    client.say("BF.ADD k last");
    wait_for(&copy, "last");
    let mut other = replica.client();
    assert_eq!(other.say("REPLICAOF NO ONE"), "+OK");
    assert_eq!(other.say("BF.ADD k promoted"), "1");
    wait_for(&copy, "promoted");
    assert_eq!(copy.stats().loads, 1);
    let there = (0..5000).filter(|item| copy.contains(format!("item-{item}").as_bytes()) == Ok(true)).count();
    assert_eq!(there, 5000);
}

fn a_copy_follows_while_the_filter_grows(site: &Site) {
    let server = site.start();
    for (key, options_of_filter) in [
        ("everbloom", ""),
        ("redisbloom", "FORMAT redisbloom"),
        ("valkey-bloom", "FORMAT valkey-bloom"),
        ("window", "WINDOW 60"),
    ] {
        server.client().say(&format!("BF.RESERVE {key} 0.01 10 {options_of_filter}"));
        let (is_over, added) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = server.client();
                for round in (0..20_000).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    add(&mut client, key, round * 10..round * 10 + 10);
                    added.fetch_add(10, Ordering::Relaxed);
                }
            });
            let mut client = server.client();
            let copy = near(&server, key, options());
            for round in 0..50 {
                let item = format!("before{round}");
                client.say(&format!("BF.ADD {key} {item}"));
                wait_for(&copy, &item);
            }
            wait_until("many items", || added.load(Ordering::Relaxed) > 10_000);
            is_over.store(true, Ordering::Relaxed);
        });
        let copy = near(&server, key, options());
        let items = added.into_inner();
        wait_for(&copy, &format!("item-{}", items - 1));
        let missing = (0..items).filter(|item| copy.contains(format!("item-{item}").as_bytes()) != Ok(true));
        assert_eq!(missing.count(), 0, "{key}");
    }
}

fn a_copy_survives_cut_connections_and_a_restart(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k alice");
    let copy = near(&server, "k", options());
    client.say("CLIENT KILL TYPE normal SKIPME yes");
    client.say("BF.ADD k bob");
    wait_for(&copy, "bob");
    assert_eq!(copy.stats().loads, 1, "the position is that of another connection");
    client.say("SAVE");
    let server = server.restart();
    let mut client = server.client();
    client.say("BF.ADD k carol");
    let copy = near(&server, "k", options());
    wait_for(&copy, "alice");
    wait_for(&copy, "carol");
    // The key is deleted and made again.
    client.say("DEL k");
    wait_until("the copy goes", || copy.contains(b"alice") == Ok(false));
    client.say("BF.ADD k dave");
    wait_for(&copy, "dave");
    assert_eq!(copy.contains(b"carol"), Ok(false));
}

fn items_expire_in_a_copy_when_they_do_on_the_server(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.001 1000 PWINDOW 1400"), "+OK");
    let copy = near(&server, "k", options());
    assert_eq!(client.say("BF.ADD k alice"), "1");
    wait_for(&copy, "alice");
    wait_until("the item expires on the server", || client.int("BF.EXISTS k alice") == 0);
    wait_until("the item expires in the copy", || copy.contains_many(&[b"alice"]) == Ok(vec![false]));
    assert_eq!((copy.stats().loads, copy.stats().losses), (1, 0));
}

fn stale_copies_and_missing_keys_are_as_chosen(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let copy = near(&server, "k", options());
    // A wait without an end.
    assert!(copy.wait(Duration::MAX));
    assert_eq!(copy.contains(b"alice"), Ok(false));
    let strict = near(&server, "k", NearOptions { missing_is_error: true, ..options() });
    assert_eq!(strict.contains(b"alice"), Err(NearError::Missing));
    client.say("BF.ADD k alice");
    wait_for(&copy, "alice");
    wait_for(&strict, "alice");
    // Copies that are too old, because they may not follow any more.
    let old = NearOptions { max_age: Duration::from_millis(50), ..options() };
    let failing = near(&server, "k", old.clone());
    let asking = near(&server, "k", NearOptions { when_stale: WhenStale::Ask, ..old });
    client.say("ACL SETUSER default -bf.follow");
    std::thread::sleep(Duration::from_millis(100));
    assert!(matches!(failing.contains(b"alice"), Err(NearError::Stale(_))));
    let checks = client.info_number("bf_checks");
    assert_eq!(asking.contains(b"alice"), Ok(true));
    assert_eq!(asking.contains_many(&[b"alice", b"bob"]), Ok(vec![true, false]));
    assert_eq!(client.info_number("bf_checks"), checks + 3);
    client.say("ACL SETUSER default +bf.follow");
    // Another type is an error of the server.
    client.say("SET text x");
    let other = NearFilter::open(&url(&server), "text", options()).unwrap();
    wait_until("the error", || other.stats().last_error.contains("WRONGTYPE"));
    assert!(matches!(other.contains(b"x"), Err(NearError::Stale(text)) if text.contains("WRONGTYPE")));
}

fn own_adds_are_found_at_once(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 1000 NONSCALING");
    let slow = NearOptions { interval: Duration::from_secs(3599), ..options() };
    // Also if there was no filter when the copy began.
    let first = near(&server, "none", slow.clone());
    for number in 0..1000 {
        let item = number.to_string();
        first.add(item.as_bytes()).unwrap();
        assert_eq!(first.contains(item.as_bytes()), Ok(true), "{item}");
    }
    let others = (1000..2000).filter(|number| first.contains(number.to_string().as_bytes()) != Ok(false));
    assert_eq!(others.count(), 0);
    let copy = near(&server, "k", slow);
    for number in 0..1000 {
        let item = number.to_string();
        if copy.add(item.as_bytes()).unwrap() {
            assert_eq!(copy.contains(item.as_bytes()), Ok(true), "{item}");
        }
    }
    let full = (1000..3000).find_map(|number| copy.add(number.to_string().as_bytes()).err());
    assert!(matches!(full, Some(NearError::Refused(error)) if error.to_string().contains("full")));
}

fn following_needs_a_permission_of_its_own(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k alice");
    client.say("ACL SETUSER reader on >secret ~* +bf.exists +bf.scandump");
    let url = format!("redis://reader:secret@127.0.0.1:{}", server.port());
    let copy = NearFilter::open(&url, "k", options()).unwrap();
    wait_until("the error", || copy.stats().last_error.contains("+bf.follow"));
    assert_eq!(copy.lag(), None);
    client.say("ACL SETUSER reader +bf.follow");
    wait_for(&copy, "alice");
    if site.from(Some((7, 4)), Some((8, 0))) {
        client.say("ACL SETUSER follower on >secret ~* +@bloom");
        let mut user = server.client();
        user.say("AUTH follower secret");
        assert!(user.say("BF.FOLLOW k").starts_with("-NOPERM"));
        assert_eq!(user.say("BF.EXISTS k alice"), "1");
    }
}

fn a_copy_looks_for_a_key_that_has_moved(site: &Site) {
    let cluster = Cluster::start((0..2).map(|_| site.launch()), 2);
    let (mut first, second) = (cluster.client(0), 1);
    let key = (0..)
        .map(|number| format!("k{number}"))
        .find(|key| first.say(&format!("BF.EXISTS {key} a")).starts_with("-MOVED"));
    let key = key.unwrap();
    cluster.client(second).say(&format!("BF.ADD {key} alice"));
    let copy = near(&cluster.nodes[0], &key, options());
    wait_for(&copy, "alice");
    assert_eq!(copy.add(b"bob"), Ok(true));
    wait_for(&copy, "bob");
}

fn a_copy_returns_to_its_own_address_if_a_node_has_gone(_: &Site) {
    // A node that replies to two adds, and closes every connection after them.
    let calls = AtomicU32::new(0);
    let other = imitate(move |words| match words[0].as_str() {
        "BF.ADD" => (calls.fetch_add(1, Ordering::Relaxed) < 2).then(|| ":1\r\n".to_owned()),
        _ => (calls.load(Ordering::Relaxed) < 2).then(|| "+OK\r\n".to_owned()),
    });
    let other_port = other.rsplit(':').next().unwrap().to_owned();
    let moves = AtomicU32::new(0);
    let own = imitate(move |words| {
        let reply = match words[0].as_str() {
            "BF.ADD" if moves.fetch_add(1, Ordering::Relaxed) == 0 => {
                format!("-MOVED 7 127.0.0.1:{other_port}\r\n")
            }
            "BF.ADD" => ":0\r\n".to_owned(),
            "CLIENT" => "+OK\r\n".to_owned(),
            _ => "-ERR no\r\n".to_owned(),
        };
        Some(reply)
    });
    let copy = NearFilter::open(&own, "k", options()).unwrap();
    assert_eq!([copy.add(b"a"), copy.add(b"b")], [Ok(true), Ok(true)]);
    assert!(matches!(copy.add(b"c"), Err(NearError::Connection(_))));
    assert_eq!(copy.add(b"c"), Ok(false));
}

/// The node to which a slot moves replies only after ASKING.
fn a_copy_asks_the_node_to_which_a_slot_moves(_: &Site) {
    let is_asking = AtomicU32::new(0);
    let other = imitate(move |words| {
        let reply = match words[0].as_str() {
            "ASKING" => {
                is_asking.store(1, Ordering::Relaxed);
                "+OK\r\n"
            }
            "BF.ADD" if is_asking.swap(0, Ordering::Relaxed) == 1 => ":1\r\n",
            "CLIENT" => "+OK\r\n",
            _ => "-MOVED 7 127.0.0.1:1\r\n",
        };
        Some(reply.to_owned())
    });
    let other_port = other.rsplit(':').next().unwrap().to_owned();
    let adds = AtomicU32::new(0);
    let own = imitate(move |words| {
        let reply = match words[0].as_str() {
            "BF.ADD" if adds.fetch_add(1, Ordering::Relaxed) < 2 => {
                format!("-ASK 7 127.0.0.1:{other_port}\r\n")
            }
            "BF.ADD" => ":0\r\n".to_owned(),
            "CLIENT" => "+OK\r\n".to_owned(),
            _ => "-ERR no\r\n".to_owned(),
        };
        Some(reply)
    });
    let copy = NearFilter::open(&own, "k", options()).unwrap();
    // The slot has moved back after two adds.
    assert_eq!([b"a", b"b", b"c"].map(|item| copy.add(item)), [Ok(true), Ok(true), Ok(false)]);
}

fn a_lookup_is_repeated_if_the_server_has_closed_the_connection(_: &Site) {
    let lookups = AtomicU32::new(0);
    let address = imitate(move |words| match words[0].as_str() {
        // Every second lookup closes its connection.
        "BF.EXISTS" => lookups.fetch_add(1, Ordering::Relaxed).is_multiple_of(2).then(|| ":1\r\n".to_owned()),
        "CLIENT" => Some("+OK\r\n".to_owned()),
        _ => Some("-ERR no\r\n".to_owned()),
    });
    let asking = NearOptions { when_stale: WhenStale::Ask, ..options() };
    let copy = NearFilter::open(&address, "k", asking).unwrap();
    assert_eq!([(); 5].map(|()| copy.contains(b"a")), [const { Ok(true) }; 5]);
}
