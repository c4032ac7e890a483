//! The files of every release of this module load: snapshots, append-only files, payloads of DUMP, chunks.

use crate::dump::load;
use crate::foreign::{Case, own_cases, restore};
use crate::harness::{Client, Site, Test, tests};
use crate::journeys::append_only;
use crate::support::fixtures::{releases, server_file};

pub(crate) const TESTS: &[Test] = tests![
    snapshots_of_every_release_load,
    append_only_files_of_every_release_load,
    dumps_and_chunks_of_every_release_load,
];

fn snapshots_of_every_release_load(site: &Site) {
    for release in releases() {
        let launch = site.launch();
        std::fs::write(launch.dir().join("dump.rdb"), server_file(release, "rdb_b64")).unwrap();
        assert_all(&mut launch.start().client(), &own_cases(release));
    }
}

fn append_only_files_of_every_release_load(site: &Site) {
    for release in releases() {
        let mut cases = own_cases(release);
        for field in ["commands_aof_b64", "rewritten_aof_b64"] {
            // Every server reads the single file of former servers, too.
            let launch = append_only(site.launch(), "no");
            std::fs::write(launch.dir().join("appendonly.aof"), server_file(release, field)).unwrap();
            assert_all(&mut launch.start().client(), &cases);
            // A rewritten file has those only that were recorded with chunks.
            cases.retain(|case| !case.chunks().is_empty());
        }
    }
}

fn dumps_and_chunks_of_every_release_load(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for case in releases().flat_map(own_cases) {
        assert_eq!(restore(&mut client, "restored", &case.payload), "+OK", "{}", case.key);
        case.assert_lookups(&mut client, "restored");
        for (iterator, data) in case.chunks() {
            assert_eq!(load(&mut client, "copy", iterator, &data), "+OK", "{}", case.key);
        }
        if !case.chunks().is_empty() {
            assert_eq!(client.digest("copy"), client.digest("restored"), "{}", case.key);
        }
        client.say("DEL restored copy");
    }
}

/// Asserts that the server has these filters and no others, under the names of the cases.
fn assert_all(client: &mut Client, cases: &[Case]) {
    assert_eq!(client.say("DBSIZE"), cases.len().to_string());
    for case in cases {
        case.assert_lookups(client, case.json["case"].as_str().unwrap());
    }
}
