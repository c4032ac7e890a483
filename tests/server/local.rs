//! Tests docs/local-copies.md: a copy of a filter in the client, with the example of that page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redis::Connection;

use crate::clients::url;
use crate::dump::{chunks, load};
use crate::foreign::lookups;
use crate::harness::{Client, Server, Site, Test, numbered, tests, wait_until};
use crate::kinds::fill;

#[path = "../../examples/rust/local_filter.rs"]
mod local_filter;

use local_filter::{LocalFilter, keep};

pub(crate) const TESTS: &[Test] = tests![
    a_copy_of_every_kind_finds_what_the_server_finds,
    only_what_changed_is_loaded_again,
    items_expire_in_a_copy_when_they_do_on_the_server,
    the_server_is_queried_where_the_copy_is_missing_or_old,
    a_filter_that_grows_is_copied_while_it_is_written,
    a_kept_copy_follows_the_server,
];

/// A maximum age that no copy reaches in a test.
const EVER: Duration = Duration::from_secs(3600);

fn connect(server: &Server) -> Connection {
    redis::Client::open(url(server)).and_then(|client| client.get_connection()).expect("connect")
}

fn add(client: &mut Client, key: &str, items: std::ops::Range<u32>) {
    let lines: String = items.map(|item| format!("item-{item}\n")).collect();
    client.ask(&["BF.BULKADD", key, "COUNT", "LINES", &lines]);
}

/// Compares the lookups of filters of every kind, shape and client's scheme. A copy is loaded again only if the filter
/// has more items.
fn a_copy_of_every_kind_finds_what_the_server_finds(site: &Site) {
    let server = site.start();
    let (mut client, mut connection) = (server.client(), connect(&server));
    let absent: Vec<Vec<u8>> = numbered("absent", 0..1000).into_iter().map(String::into_bytes).collect();
    for filter in fill(&mut client) {
        let key = filter.key.as_str();
        let copy = LocalFilter::new(key, EVER);
        assert!(copy.refresh(&mut connection).expect(key));
        assert!(!copy.refresh(&mut connection).expect(key), "{key}: nothing changed");
        for items in [filter.members.as_slice(), &absent] {
            let asked = lookups(&mut client, key, items);
            for (item, asked) in items.iter().zip(asked) {
                assert_eq!(copy.check(item), Some(asked == '1'), "{key}: {}", item.escape_ascii());
            }
        }
        let items = client.int(&format!("BF.CARD {key}"));
        client.say(&format!("BF.MADD {key} 100001 100002 100003"));
        let has_more = client.int(&format!("BF.CARD {key}")) > items;
        assert_eq!(copy.refresh(&mut connection).expect(key), has_more, "{key}: items were added");
    }
}

fn only_what_changed_is_loaded_again(site: &Site) {
    let server = site.start();
    let (mut client, mut connection) = (server.client(), connect(&server));
    // Another filter under the same key is loaded, even if it has the same number of items.
    let copy = LocalFilter::new("k", EVER);
    client.say("BF.ADD k alice");
    assert!(copy.refresh(&mut connection).expect("k"));
    client.say("DEL k");
    client.say("BF.ADD k bob");
    assert!(copy.refresh(&mut connection).expect("another k"));
    assert_eq!((copy.check(b"alice"), copy.check(b"bob")), (Some(false), Some(true)));
    // A filter that is being loaded on the server has no copy yet.
    let chunks = chunks(&mut client, "k");
    let copy = LocalFilter::new("loading", EVER);
    for (iterator, data) in chunks {
        assert!(copy.refresh(&mut connection).is_err());
        assert_eq!(load(&mut client, "loading", iterator, &data), "+OK");
    }
    assert!(copy.refresh(&mut connection).expect("all chunks"));
}

fn items_expire_in_a_copy_when_they_do_on_the_server(site: &Site) {
    let server = site.start();
    let (mut client, mut connection) = (server.client(), connect(&server));
    assert_eq!(client.say("BF.RESERVE k 0.001 1000 PWINDOW 1400"), "+OK");
    assert_eq!(client.say("BF.ADD k alice"), "1");
    let copy = LocalFilter::new("k", EVER);
    assert!(copy.refresh(&mut connection).expect("a copy"));
    assert_eq!(copy.check(b"alice"), Some(true));
    wait_until("the item expires on the server", || client.int("BF.EXISTS k alice") == 0);
    assert_eq!(copy.check(b"alice"), Some(false));
}

fn the_server_is_queried_where_the_copy_is_missing_or_old(site: &Site) {
    let server = site.start();
    let (mut client, mut connection) = (server.client(), connect(&server));
    let copy = LocalFilter::new("k", EVER);
    assert!(copy.refresh(&mut connection).is_err(), "no filter");
    assert_eq!(copy.check(b"alice"), None);
    assert!(!copy.contains(b"alice", &mut connection).expect("a reply"));
    client.say("BF.ADD k alice");
    assert!(copy.contains(b"alice", &mut connection).expect("a reply"));
    assert_eq!(copy.check(b"alice"), None);
    assert!(copy.refresh(&mut connection).expect("a copy"));
    let checks = client.info_number("bf_checks");
    assert!(copy.contains(b"alice", &mut connection).expect("a reply"));
    assert!(!copy.contains(b"bob", &mut connection).expect("a reply"));
    assert_eq!(client.info_number("bf_checks"), checks, "the copy said it");
    // The copy is immediately too old.
    let copy = LocalFilter::new("k", Duration::ZERO);
    assert!(copy.refresh(&mut connection).expect("a copy"));
    assert_eq!(copy.check(b"alice"), None);
    assert!(copy.contains(b"alice", &mut connection).expect("a reply"));
    assert_eq!(client.info_number("bf_checks"), checks + 1);
    // A value of another type has no chunks.
    client.say("SET k text");
    assert!(copy.refresh(&mut connection).is_err());
}

fn a_filter_that_grows_is_copied_while_it_is_written(site: &Site) {
    let server = site.start();
    for (format, options) in [
        ("everbloom", ""),
        ("redisbloom", "FORMAT redisbloom"),
        ("valkey-bloom", "FORMAT valkey-bloom"),
        ("window", "PWINDOW 1000"),
    ] {
        server.client().say(&format!("BF.RESERVE {format} 0.01 10 {options}"));
        let (is_over, added) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = server.client();
                for round in (0..20_000).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    add(&mut client, format, round * 10..round * 10 + 10);
                    added.fetch_add(10, Ordering::Relaxed);
                }
            });
            let (mut client, mut connection) = (server.client(), connect(&server));
            let copy = LocalFilter::new(format, EVER);
            let mut rounds = 0;
            // The items make each of the filters grow several times.
            while rounds < 50 || added.load(Ordering::Relaxed) < 10_000 {
                client.say(&format!("BF.ADD {format} before"));
                copy.refresh(&mut connection).expect("a copy of what is written to");
                assert_eq!(copy.check(b"before"), Some(true), "{format}");
                rounds += 1;
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

fn a_kept_copy_follows_the_server(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let copy = Arc::new(LocalFilter::new("k", Duration::from_secs(60)));
    let redis = redis::Client::open(url(&server)).expect("a client");
    let keeper = keep(&copy, redis, Duration::from_millis(20));
    client.say("BF.ADD k alice");
    wait_until("the copy", || copy.check(b"alice") == Some(true));
    client.say("BF.ADD k bob");
    wait_until("the next copy", || copy.check(b"bob") == Some(true));
    client.say("CLIENT KILL TYPE normal SKIPME yes");
    client.say("BF.ADD k carol");
    wait_until("a new connection", || copy.check(b"carol") == Some(true));
    drop(copy);
    keeper.join().expect("its end");
}
