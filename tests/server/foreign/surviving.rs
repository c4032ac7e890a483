//! Recorded filters survive what servers do to keys, and reach replicas as they are.

use super::{ASSUME, Case, UNTOLD, add, digests, servers};
use crate::dump::travel;
use crate::harness::{Client, Launch, Server, Site, Test, tests, wait_until};
use crate::persistence::{append_only, rewrite};

pub(crate) const TESTS: &[Test] = tests![
    a_reload_keeps_every_filter,
    a_snapshot_keeps_every_filter,
    an_append_only_file_keeps_every_filter,
    an_append_only_file_rewritten_as_a_snapshot_keeps_every_filter,
    an_append_only_file_rewritten_as_commands_keeps_every_filter,
    copies_and_pieces_make_equal_filters,
    a_replica_of_another_format_has_the_same_filters,
    a_replica_that_joins_later_has_the_same_filters,
];

fn assert_kept(server: &Server, cases: &[Case], expected: &[String]) {
    let mut client = server.client();
    assert_eq!(digests(&mut client, cases), expected);
    cases.iter().for_each(|case| case.assert_answers(&mut client, &case.key));
}

fn survive(site: &Site, change: impl Fn(Launch) -> Launch, save: impl Fn(&mut Client)) {
    for (server, cases) in servers(site, change) {
        let mut client = server.client();
        let expected = digests(&mut client, &cases);
        save(&mut client);
        let server = server.restart();
        assert_kept(&server, &cases, &expected);
    }
}

fn a_reload_keeps_every_filter(site: &Site) {
    for (server, cases) in servers(site, |launch| launch) {
        let mut client = server.client();
        let expected = digests(&mut client, &cases);
        assert_eq!(client.say("DEBUG RELOAD"), "+OK");
        assert_kept(&server, &cases, &expected);
    }
}

fn a_snapshot_keeps_every_filter(site: &Site) {
    survive(site, |launch| launch, |client| assert_eq!(client.say("SAVE"), "+OK"));
}

fn with_file(preamble: &'static str) -> impl Fn(Launch) -> Launch {
    move |launch| append_only(launch, preamble)
}

fn an_append_only_file_keeps_every_filter(site: &Site) {
    survive(site, with_file("no"), |_| ());
}

fn an_append_only_file_rewritten_as_a_snapshot_keeps_every_filter(site: &Site) {
    survive(site, with_file("yes"), rewrite);
}

fn an_append_only_file_rewritten_as_commands_keeps_every_filter(site: &Site) {
    survive(site, with_file("no"), rewrite);
}

fn copies_and_pieces_make_equal_filters(site: &Site) {
    for (server, cases) in servers(site, |launch| launch) {
        let mut client = server.client();
        for case in &cases {
            let digest = client.digest(&case.key);
            assert_eq!(client.say(&format!("COPY {} copied", case.key)), "1");
            travel(&mut client, &case.key, "travelled");
            for copy in ["copied", "travelled"] {
                assert_eq!(client.digest(copy), digest, "{} {copy}", case.key);
                case.assert_answers(&mut client, copy);
            }
            client.say("DEL copied travelled");
        }
    }
}

/// Unlike its primary, and unforgiving; for filters of RedisBloom 1.1 it must be told what its primary is told.
fn strict(site: &Site, cases: &[Case]) -> Launch {
    let launch = site.launch().with("propagation-error-behavior panic");
    let launch = launch.with_option("bf.format redisbloom").with_option("bf.max-filter-bytes 1024");
    if cases[0].producer == UNTOLD { launch.with_option(ASSUME) } else { launch }
}

fn wait_for_replica(client: &mut Client) {
    assert_eq!(client.int("WAIT 1 60000"), 1);
}

fn a_replica_of_another_format_has_the_same_filters(site: &Site) {
    for (primary, cases) in servers(site, |launch| launch.with_option("bf.format valkey-bloom")) {
        let mut client = primary.client();
        client.say("FLUSHALL");
        let replica = primary.replica(strict(site, &cases));
        for case in &cases {
            assert_eq!(super::restore(&mut client, &case.key, &case.payload_for(site)), "+OK");
            let items: Vec<Vec<u8>> = (0..2000).map(|i| format!("later:{i}").into_bytes()).collect();
            add(&mut client, &case.key, &items);
            // Pieces and blobs reach it too.
            travel(&mut client, &case.key, &format!("{}:travelled", case.key));
            if let Some(blob) = case.blob() {
                let key = format!("{}:blob", case.key);
                assert_eq!(client.ask(&[b"BF.LOAD".as_slice(), key.as_bytes(), &blob]), "+OK");
            }
        }
        wait_for_replica(&mut client);
        let mut on_replica = replica.client();
        assert_eq!(digests(&mut on_replica, &cases), digests(&mut client, &cases));
        for case in &cases {
            let travelled = format!("{}:travelled", case.key);
            assert_eq!(on_replica.digest(&travelled), client.digest(&travelled), "{travelled}");
            let blob = format!("{}:blob", case.key);
            if case.blob().is_some() {
                assert_eq!(on_replica.digest(&blob), client.digest(&blob), "{blob}");
                case.assert_answers(&mut on_replica, &blob);
            }
        }
    }
}

fn a_replica_that_joins_later_has_the_same_filters(site: &Site) {
    for (primary, cases) in servers(site, |launch| launch) {
        let expected = digests(&mut primary.client(), &cases);
        let replica = primary.replica(strict(site, &cases));
        let mut client = replica.client();
        wait_until("the data set", || client.int("DBSIZE") == i64::try_from(cases.len()).unwrap());
        assert_kept(&replica, &cases, &expected);
    }
}
