//! What earlier releases of everbloom wrote down, in real servers: the recordings of tests/fixtures/everbloom-*.json.

use std::fs;
use std::io::{BufWriter, Write};

use crate::dump::load;
use crate::foreign::{answers, restore};
use crate::harness::{Client, Server, Site, Test, show, tests};
use crate::support::Random;
use crate::support::recording::{Command, Recorded, recordings};

pub(crate) const TESTS: &[Test] = tests![
    every_filter_is_restored_and_reloaded,
    every_filter_loads_from_its_pieces_in_order,
    every_filter_loads_from_its_pieces_in_any_order,
    a_server_starts_with_a_file_that_grew,
    a_server_starts_with_a_file_that_was_rewritten,
];

const SHUFFLE_SEED: u64 = 0x5eed_0020;

/// Asserts that every filter is there and is what it was.
fn assert_all(client: &mut Client) {
    for recorded in recordings() {
        let key = &recorded.name;
        let type_name = match recorded.kind() {
            "redisbloom" => "MBbloom--",
            "valkeybloom" => "bloomfltr",
            _ => "everbloom",
        };
        assert_eq!(client.say(&format!("TYPE {key}")), format!("+{type_name}"), "{key}");
        let members = answers(client, key, &recorded.items.all());
        assert!(members.iter().all(|answer| *answer == '1'), "{key} lost a member");
        let probes: String = answers(client, key, &recorded.probes.all()).into_iter().collect();
        assert_eq!(probes, recorded.answers, "{key}");
        assert_eq!(
            client.int(&format!("BF.CARD {key}")).to_string(),
            recorded.cardinality.to_string(),
            "{key}"
        );
        let debug = client.array(&["BF.DEBUG", key.as_str()]);
        let debug: Vec<String> =
            debug.iter().map(|line| show(line).trim_matches(['"', '+']).to_owned()).collect();
        assert_eq!(debug, recorded.debug, "{key}");
        assert_eq!(client.digest(key), recorded.digest, "{key}");
    }
}

fn every_filter_is_restored_and_reloaded(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for recorded in recordings() {
        assert_eq!(restore(&mut client, &recorded.name, &recorded.dump), "+OK", "{}", recorded.name);
    }
    assert_all(&mut client);
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_all(&mut client);
}

fn every_filter_loads_from_its_pieces_in_order(site: &Site) {
    assert_loads(site, |_| ());
}

fn every_filter_loads_from_its_pieces_in_any_order(site: &Site) {
    let mut random = Random(SHUFFLE_SEED);
    assert_loads(site, |chunks| {
        for last in (1..chunks.len()).rev() {
            chunks.swap(last, random.below(last + 1));
        }
    });
}

/// Loads the header, then the chunks as `arrange` puts them.
fn assert_loads(site: &Site, mut arrange: impl FnMut(&mut [(u64, Vec<u8>)])) {
    let server = site.start();
    let mut client = server.client();
    for mut recorded in recordings() {
        let (header, chunks) = recorded.pieces.split_first_mut().unwrap();
        arrange(chunks);
        for (iterator, data) in std::iter::once(&*header).chain(&*chunks) {
            let reply = load(&mut client, &recorded.name, i64::try_from(*iterator).unwrap(), data);
            assert_eq!(reply, "+OK", "{} {iterator}, shuffled by {SHUFFLE_SEED:#x}", recorded.name);
        }
    }
    assert_all(&mut client);
}

fn a_server_starts_with_a_file_that_grew(site: &Site) {
    assert_all(&mut started_with(site, |recorded| recorded.grown).client());
}

fn a_server_starts_with_a_file_that_was_rewritten(site: &Site) {
    assert_all(&mut started_with(site, |recorded| recorded.rewritten).client());
}

/// A server that starts with an append-only file of the recorded commands, and with other defaults than it was written
/// by.
fn started_with(site: &Site, commands: impl Fn(Recorded) -> Vec<Command>) -> Server {
    let launch = site
        .launch()
        .with("appendonly yes")
        .with_option("bf.error-rate 0.2")
        .with_option("bf.expansion-factor 0")
        .with_option("bf.max-filter-bytes 1024");
    let folder = launch.dir().join("appendonlydir");
    fs::create_dir(&folder).unwrap();
    let base = "appendonly.aof.1.base.aof";
    fs::write(folder.join("appendonly.aof.manifest"), format!("file {base} seq 1 type b\n")).unwrap();
    let mut file = BufWriter::new(fs::File::create(folder.join(base)).unwrap());
    for command in recordings().flat_map(commands) {
        write!(file, "*{}\r\n", command.len()).unwrap();
        for word in command {
            write!(file, "${}\r\n", word.len()).unwrap();
            file.write_all(&word).unwrap();
            file.write_all(b"\r\n").unwrap();
        }
    }
    file.flush().unwrap();
    drop(file);
    launch.start()
}
