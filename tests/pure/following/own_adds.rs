//! A program that adds an item finds it in its copy from then on, also while the copy is loaded again.

use std::time::{SystemTime, UNIX_EPOCH};

use everbloom::{NearCopy, NearLookup, NearProgress};

use crate::following::reply_of;
use crate::support::server::{NOW_MS, Server};
use crate::support::slices;

/// Sends the next command, and sets the time of a server whose clock stands still.
fn step(copy: &NearCopy, server: &mut Server) -> NearProgress {
    let command = copy.command();
    server.call(&slices(&command));
    let (progress, _) = copy.take(reply_of(server)).unwrap();
    if progress != NearProgress::Part && copy.needs_time() {
        let here_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        copy.set_ahead_ms(i64::try_from(NOW_MS).unwrap() - i64::try_from(here_ms).unwrap());
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
            copy.added(b"own");
            for further in 0..24 {
                let found = copy.look_up(u64::MAX, |filter, now_ms| filter.contains_at(b"own", now_ms));
                assert_eq!(found, NearLookup::Copy(true), "{creation}: {steps_before} steps, then {further}");
                step(&copy, &mut server);
            }
            assert!(!copy.is_loading(), "{creation}");
        }
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
