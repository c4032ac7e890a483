//! Values of RedisBloom's other types on a server: loaded, kept by everything that servers do with values, written back.

use crate::harness::{Client, Site, Test, tests, wait_until};
use crate::journeys::{append_only, rewrite};
use crate::support::fixtures::{CarriedCase, carried_cases};
use crate::support::rdb::Payload;

pub(crate) const TESTS: &[Test] = tests![
    values_are_kept_by_snapshots_files_copies_and_replicas,
    no_command_works_on_them,
    an_operator_can_turn_them_off,
    damaged_values_are_refused,
];

/// Restores every recorded value.
fn restore(client: &mut Client, cases: &[CarriedCase]) {
    for CarriedCase { key, type_name, payload } in cases {
        assert_eq!(client.ask(&[b"RESTORE", key.as_bytes(), b"0", payload]), "+OK", "{key}");
        assert_eq!(client.ask(&["TYPE", key]), format!("+{type_name}"), "{key}");
    }
}

fn assert_kept(client: &mut Client, cases: &[CarriedCase], way: &str) {
    for CarriedCase { key, payload, .. } in cases {
        let dumped = client.bytes(&["DUMP", key]);
        assert_eq!(Payload::read(&dumped), Payload::read(payload), "{key} by {way}");
    }
    let info: u64 =
        ["cms", "topk", "tdigest"].iter().map(|name| client.info_number(&format!("bf_{name}_values"))).sum();
    assert_eq!(info, cases.len() as u64, "{way}");
}

fn values_are_kept_by_snapshots_files_copies_and_replicas(site: &Site) {
    let cases = carried_cases();
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    restore(&mut client, &cases);
    assert_kept(&mut client, &cases, "RESTORE");
    let digest = client.say("DEBUG DIGEST");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_kept(&mut client, &cases, "a snapshot");
    rewrite(&mut client);
    let server = server.restart();
    let mut client = server.client();
    assert_kept(&mut client, &cases, "a rewritten file of commands");
    let replica = server.replica(site.launch());
    assert_kept(&mut replica.client(), &cases, "a full synchronisation");
    assert_eq!((client.say("DEBUG DIGEST"), replica.client().say("DEBUG DIGEST")), (digest.clone(), digest));
    let bytes = client.info_number("bf_cms_bytes");
    for CarriedCase { key, payload, .. } in &cases {
        assert_eq!(client.ask(&["COPY", key, "copy"]), "1", "{key}");
        assert_eq!(client.ask(&["RENAME", "copy", "renamed"]), "+OK", "{key}");
        assert_eq!(client.ask(&["MOVE", "renamed", "1"]), "1", "{key}");
        client.say("SELECT 1");
        assert_eq!(Payload::read(&client.bytes(&["DUMP", "renamed"])), Payload::read(payload), "{key}");
        assert!(client.int("MEMORY USAGE renamed") > 40, "{key}");
        assert_eq!(client.int("UNLINK renamed"), 1, "{key}");
        client.say("SELECT 0");
    }
    // Values may be freed in the background.
    wait_until("the copies are freed", || client.info_number("bf_cms_bytes") == bytes);
    client.say("FLUSHALL");
    wait_until("all values are freed", || client.info_number("bf_cms_bytes") == 0);
}

fn no_command_works_on_them(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    restore(&mut client, &carried_cases()[..1]);
    let key = &carried_cases()[0].key;
    for line in ["BF.ADD k a", "BF.EXISTS k a", "BF.INFO k", "BF.MERGE d k", "CF.ADD k a", "CF.INFO k"] {
        let words: Vec<String> =
            line.split(' ').map(|word| if word == "k" { key.clone() } else { word.to_owned() }).collect();
        assert!(client.ask(&words).starts_with("-WRONGTYPE"), "{line}");
    }
    assert_eq!(client.ask(&["CF.DEL", key, "a"]), "-Not found");
    assert!(client.say("CMS.INCRBY k a 1").starts_with("-ERR unknown command"));
}

fn an_operator_can_turn_them_off(site: &Site) {
    let server = site.launch().with_module_args(&["CARRY", "no"]).start();
    let mut client = server.client();
    let CarriedCase { payload, .. } = &carried_cases()[0];
    let reply = client.ask(&[b"RESTORE", b"k".as_slice(), b"0", payload]);
    assert!(reply.starts_with("-ERR Bad data format"), "{reply}");
    let log = site.launch().with_module_args(&["CARRY", "maybe"]).expect_dead_at_start();
    assert!(log.contains("Invalid argument for 'CARRY': 'maybe' is not yes or no"), "{log}");
}

fn damaged_values_are_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    // A Count-Min sketch without counters.
    let mut damaged = Payload::read(&carried_cases()[0].payload);
    let last = damaged.record.0.len() - 1;
    damaged.record.0[last] = crate::support::rdb::Field::Bytes(Vec::new());
    let mut payload = damaged.write();
    payload.extend(10u16.to_le_bytes());
    let checksum = payload.iter().fold(0u64, |crc, byte| {
        let crc = crc ^ u64::from(*byte);
        (0..8).fold(crc, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x95AC_9329_AC4B_C9B5 } else { crc >> 1 })
    });
    payload.extend(checksum.to_le_bytes());
    let reply = client.ask(&[b"RESTORE", b"k".as_slice(), b"0", &payload]);
    assert!(reply.starts_with("-ERR Bad data format"), "{reply}");
    let log = server.log();
    assert!(log.contains("a value of the type CMSk-TYPE: string length is out of range"), "{log}");
}
