//! A program that adds an item finds it in its copy from then on, also while the copy is loaded again.

use everbloom::{NearCopy, NearLookup, NearProgress};

use crate::following::reply_of;
use crate::support::server::Server;
use crate::support::slices;

/// Sends the next command, and sets the time of the server, whose clock stands still.
fn step(copy: &NearCopy, server: &mut Server) -> NearProgress {
    let command = copy.command();
    server.call(&slices(&command));
    let (progress, _) = copy.take(reply_of(server)).unwrap();
    if progress != NearProgress::Part && copy.needs_time() {
        copy.set_server_time(server.now_ms);
    }
    progress
}

#[test]
fn an_own_item_is_found_from_its_add_on_whatever_the_follower_does_then() {
    for creation in
        ["BF.RESERVE f 0.01 100", "BF.RESERVE f 0.01 100 WINDOW 14", "BF.RESERVE f 0.01 9 FORMAT redisbloom"]
    {
        // The item is added after this many steps of the load, and the load has some six.
        for steps_before in 0..12 {
            let (mut server, copy) = (Server::new(), NearCopy::new("f"));
            server.run(creation);
            server.run("BF.MADD f a b c");
            while step(&copy, &mut server) != NearProgress::Current {}
            // The copy cannot repeat this.
            server.run("BF.CLEAR f");
            server.run("BF.MADD f a b c");
            (0..steps_before).for_each(|_| _ = step(&copy, &mut server));
            server.run("BF.ADD f own");
            copy.added(b"own", true);
            for further in 0..24 {
                let found = copy.look_up(u64::MAX, |filter, now_ms| filter.contains_at(b"own", now_ms));
                assert_eq!(found, NearLookup::Copy(true), "{creation}: {steps_before} steps, then {further}");
                step(&copy, &mut server);
            }
            assert!(!copy.is_loading(), "{creation}");
        }
    }
}

/// Asserts that an own item is found from its add on, before and after each of the next commands.
fn assert_found(copy: &NearCopy, server: &mut Server, story: &str) {
    server.run("BF.ADD f own");
    copy.added(b"own", true);
    for further in 0..24 {
        let found = copy.look_up(u64::MAX, |filter, now_ms| filter.contains_at(b"own", now_ms));
        assert_eq!(found, NearLookup::Copy(true), "{story}, then {further}");
        step(copy, server);
    }
    assert!(!copy.is_loading(), "{story}");
}

#[test]
fn an_own_item_is_found_from_its_add_on_if_there_was_no_filter() {
    for steps_before in 1..3 {
        let (mut server, copy) = (Server::new(), NearCopy::new("f"));
        (0..steps_before).for_each(|_| _ = step(&copy, &mut server));
        assert_eq!(copy.look_up(u64::MAX, |_, _| ()), NearLookup::Missing);
        assert_found(&copy, &mut server, "the first filter");
        // The filter is deleted, and the copy notices it.
        server.keys.clear();
        while copy.look_up(u64::MAX, |_, _| ()) != NearLookup::Missing {
            step(&copy, &mut server);
        }
        assert_found(&copy, &mut server, "a filter after a deletion");
    }
}

#[test]
fn many_own_items_are_found_and_no_others() {
    let (mut server, copy) = (Server::new(), NearCopy::new("f"));
    step(&copy, &mut server);
    let found = |item: u32| copy.look_up(u64::MAX, |filter, _| filter.contains(&item.to_le_bytes()));
    (0..5000u32).for_each(|item| copy.added(&item.to_le_bytes(), true));
    assert!((0..5000).all(|item| found(item) == NearLookup::Copy(true)));
    assert!((5000..10_000).all(|item| found(item) == NearLookup::Copy(false)));
    // It is not a copy of a filter of the server.
    assert_eq!(copy.with_copy(|_| ()), None);
}

#[test]
fn an_own_item_is_found_if_it_was_added_after_the_server_had_replied_that_there_is_no_filter() {
    for added_before in [false, true] {
        let (mut server, copy) = (Server::new(), NearCopy::new("f"));
        step(&copy, &mut server);
        if added_before {
            copy.added(b"other", true);
        }
        let command = copy.command();
        server.call(&slices(&command));
        let reply = reply_of(&server);
        server.run("BF.ADD f own");
        copy.added(b"own", true);
        assert_eq!(copy.take(reply), Ok((NearProgress::Current, 0)));
        let found = |item: &[u8]| copy.look_up(u64::MAX, |filter, _| filter.contains(item));
        // The reply is later than the add of the other item. So this has been deleted.
        assert_eq!((found(b"own"), found(b"other")), (NearLookup::Copy(true), NearLookup::Copy(false)));
        assert_found(&copy, &mut server, "the second item");
    }
}

#[test]
fn an_own_item_is_found_while_a_filter_that_cannot_be_followed_is_loaded() {
    for steps_before in 0..12 {
        let (mut server, copy) = (Server::new(), NearCopy::new("f"));
        server.run("BF.RESERVE f 0.01 100 COUNTING");
        server.run("BF.MADD f a b c");
        while step(&copy, &mut server) != NearProgress::Current {}
        server.run("BF.ADD f d");
        (0..steps_before).for_each(|_| _ = step(&copy, &mut server));
        assert_found(&copy, &mut server, &format!("{steps_before} steps"));
        let found = copy.look_up(u64::MAX, |filter, _| filter.contains(b"d"));
        assert_eq!(found, NearLookup::Copy(true));
    }
}

#[test]
fn a_copy_is_used_when_it_has_the_changes_since_its_load() {
    let (mut server, copy) = (Server::new(), NearCopy::new("f"));
    server.run("BF.RESERVE f 0.01 100");
    let found = |copy: &NearCopy| copy.look_up(u64::MAX, |filter, _| filter.contains(b"a"));
    while step(&copy, &mut server) != NearProgress::Loaded {
        assert_eq!((found(&copy), copy.age_ms()), (NearLookup::Stale, None));
    }
    assert_eq!((found(&copy), copy.age_ms()), (NearLookup::Stale, None));
    server.run("BF.ADD f a");
    assert_eq!(step(&copy, &mut server), NearProgress::Current);
    assert_eq!(found(&copy), NearLookup::Copy(true));
    assert!(copy.age_ms().is_some_and(|age_ms| age_ms > 0));
    // A filter that is gone is known to be.
    server.keys.clear();
    assert_eq!(step(&copy, &mut server), NearProgress::Current);
    assert_eq!(
        (found(&copy), copy.with_copy(|_| ()), copy.age_ms().is_some()),
        (NearLookup::Missing, None, true)
    );
}

#[test]
fn an_own_item_that_was_not_new_expires_with_that_of_the_server() {
    let (mut server, copy) = (Server::new(), NearCopy::new("f"));
    server.run("BF.RESERVE f 0.0001 100 WINDOW 14 NOREFRESH");
    let follow = |server: &mut Server| while step(&copy, server) != NearProgress::Current {};
    follow(&mut server);
    let found = || copy.look_up(u64::MAX, |filter, now_ms| filter.contains_at(b"own", now_ms));
    for (is_new, later_ms, is_found) in
        [(true, 7_000, true), (false, 9_000, false), (true, 13_000, true), (false, 3_000, false)]
    {
        assert_eq!(server.run("BF.ADD f own") == "#t", is_new);
        copy.added(b"own", is_new);
        assert_eq!(found(), NearLookup::Copy(true));
        server.now_ms += later_ms;
        follow(&mut server);
        assert_eq!(found(), NearLookup::Copy(is_found), "{is_new}, after {later_ms} ms");
    }
}

/// The clock of this machine is not used: only the time of the server counts, and what has passed since.
#[test]
fn the_time_of_a_lookup_is_that_of_the_server() {
    let (mut server, copy) = (Server::new(), NearCopy::new("f"));
    server.run("BF.RESERVE f 0.01 100 WINDOW 14");
    while step(&copy, &mut server) != NearProgress::Current {}
    for server_ms in [5_000_000, 4_000_000_000_000, 1_000] {
        copy.set_server_time(server_ms);
        let NearLookup::Copy(now_ms) = copy.look_up(u64::MAX, |_, now_ms| now_ms) else { panic!("no copy") };
        assert!(now_ms + 25 >= server_ms && now_ms < server_ms + 60_000, "{now_ms} for {server_ms}");
    }
    copy.set_server_time(u64::MAX);
    assert_eq!(copy.look_up(u64::MAX, |_, _| ()), NearLookup::Stale);
}
