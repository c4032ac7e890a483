//! The two keys of an import in a cluster and with access lists.

use super::redisson;
use crate::harness::{Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![nodes_of_a_cluster_find_both_keys, access_to_the_source_is_checked];

fn nodes_of_a_cluster_find_both_keys(site: &Site) {
    let server = site.launch().in_cluster().start();
    let mut client = server.client();
    client.own_all_slots();
    client.say("SETBIT {a}s 7 1");
    redisson(&mut client, "{b}users");
    assert_eq!(client.say("BF.IMPORT {a} SOURCE {a}s SCHEME go-zero BITS 900"), "+OK");
    assert_eq!(client.say("BF.IMPORT {b}:bf SOURCE {b}users SCHEME redisson"), "+OK");
    let crossed = client.say("BF.IMPORT {c} SOURCE {a}s SCHEME go-zero BITS 900");
    assert!(crossed.starts_with("-CROSSSLOT"), "{crossed}");
    let crossed = client.say("BF.IMPORT {c} source {a}s SCHEME go-zero BITS 900");
    assert!(crossed.starts_with("-CROSSSLOT"), "{crossed}");
    assert_eq!(client.say("COMMAND GETKEYS BF.IMPORT k GUAVA s REPLACE"), "[\"k\"]");
    assert_eq!(client.say("COMMAND GETKEYS BF.IMPORT k EMPTY SCHEME go-zero"), "[\"k\"]");
    assert_eq!(client.say("COMMAND GETKEYS BF.EXPORT k"), "[\"k\"]");
    // A node that does not serve the slot redirects, for every origin.
    let slot = client.int("CLUSTER KEYSLOT {d}");
    assert_eq!(client.say(&format!("CLUSTER DELSLOTS {slot}")), "+OK");
    client.say("CONFIG SET cluster-require-full-coverage no");
    for line in
        ["{d} EMPTY SCHEME go-zero BITS 900", "{d} GUAVA x", "{d} SOURCE {d}s SCHEME go-zero BITS 900"]
    {
        let reply = client.say(&format!("BF.IMPORT {line}"));
        assert!(reply.starts_with("-CLUSTERDOWN"), "{line}: {reply}");
    }
}

fn access_to_the_source_is_checked(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("SETBIT secret 7 1");
    client.say("SETBIT mine:s 7 1");
    redisson(&mut client, "secret:users");
    redisson(&mut client, "half:users");
    client.say("ACL SETUSER u on >p +@all ~mine:* %R~readable:* ~half:users");
    client.say("SETBIT readable:s 7 1");
    assert_eq!(client.say("AUTH u p"), "+OK");
    let denied = |reply: String| assert!(reply.starts_with("-NOPERM"), "{reply}");
    denied(client.say("BF.IMPORT mine:k SOURCE secret SCHEME go-zero BITS 900"));
    denied(client.say("BF.IMPORT secret2 SOURCE mine:s SCHEME go-zero BITS 900"));
    denied(client.say("BF.IMPORT readable:k SOURCE mine:s SCHEME go-zero BITS 900"));
    denied(client.say("BF.IMPORT readable:k EMPTY SCHEME go-zero BITS 900"));
    denied(client.say("BF.IMPORT secret2 GUAVA x"));
    denied(client.say("BF.EXPORT secret2"));
    denied(client.say("BF.IMPORT mine:k SOURCE secret:users SCHEME redisson"));
    // The settings have a separate key, which this user may not read.
    let reply = client.say("BF.IMPORT mine:k SOURCE half:users SCHEME redisson");
    assert!(reply.contains("settings at '{half:users}:config'"), "{reply}");
    assert_eq!(client.say("BF.IMPORT mine:k SOURCE mine:s SCHEME go-zero BITS 900"), "+OK");
    assert_eq!(client.say("BF.IMPORT mine:r SOURCE readable:s SCHEME go-zero BITS 900"), "+OK");
    assert_eq!(client.say("BF.IMPORT mine:e EMPTY SCHEME go-zero BITS 900"), "+OK");
}
