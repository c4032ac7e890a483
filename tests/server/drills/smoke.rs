//! Runs every command and every callback once, in a server that exits normally, so that a memory checker can report
//! leaks (scripts/sanitize).

use std::collections::BTreeSet;

use super::Truth;
use crate::harness::{Client, Site, Test, show, tests, wait_until};
use crate::support::Random;

pub(super) const TESTS: &[Test] = tests![every_command_and_callback_runs_once];

fn every_command_and_callback_runs_once(site: &Site) {
    let launch = site.launch().with("appendonly yes").with("aof-use-rdb-preamble no").with("save \"\"");
    // The servers' compression reads uninitialized memory.
    let launch = launch.with("rdbcompression no").with("activedefrag no").with("lazyfree-lazy-user-del yes");
    let server = launch.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    let mut random = Random(3);
    let mut truth = Truth::new("t:");
    truth.make(&mut client);
    (0..60).for_each(|_| assert!(truth.step(&mut client, &mut random)));
    commands(&mut client);
    callbacks(&mut client);
    assert_eq!(truth.missing(&mut client), [""; 0]);
    client.say("INCR end");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(replica.client().say("DEBUG DIGEST"), client.say("DEBUG DIGEST"));
    client.say("FLUSHALL ASYNC");
    wait_until("all is freed", || client.info_number("lazyfree_pending_objects") == 0);
    for server in [replica, server] {
        // SHUTDOWN closes the connection without a reply.
        let _ = server.client().try_call(&["SHUTDOWN", "NOSAVE"]);
        let (status, _) = server.expect_end();
        assert!(status.success(), "{status}");
    }
}

/// Runs every command, also with errors.
fn commands(client: &mut Client) {
    let before = ["SET users 4", "DEBUG SLEEP 0", "BF.INSERT r CAPACITY 9 FORMAT redisbloom ITEMS a b"];
    before.iter().for_each(|line| drop(client.say(line)));
    let lines = [
        "BF.RESERVE a 0.01 100 EX 1000",
        "BF.RESERVE a 0.01 100 IFNOTEXISTS",
        "BF.RESERVE a",
        "BF.FOLLOW a",
        "BF.ADD a x",
        "BF.MADD a x y z",
        "BF.INSERT b CAPACITY 2 KEYED ITEMS x y z",
        "BF.INSERT c CAPACITY 2 COUNTING ITEMS x y x z",
        "BF.INSERT w CAPACITY 2 PWINDOW 100000 NOREFRESH ITEMS x y z",
        "BF.INSERT w NOCREATE AT 1 ITEMS x",
        "BF.INSERT v FORMAT valkey-bloom CAPACITY 2 ITEMS x y z",
        "BF.DEL c x w",
        "BF.DEL a x",
        "BF.EXISTS a x",
        "BF.TTL a x",
        "BF.PTTL a x",
        "BF.MEXISTS a x w",
        "BF.INFO a",
        "BF.INFO a SIZE",
        "BF.STATS a",
        "BF.BULKADD a LINES x",
        "BF.BULKEXISTS a LINES x",
        "BF.CARD a",
        "BF.FOLLOW a 1 0 COUNT 2",
        "BF.DEBUG a",
        "BF.SCANDUMP a 0",
        "BF.SCANDUMP a 1",
        "BF.LOADCHUNK new 1 bad",
        "BF.LOAD new bad",
        "BF.IMPORT i SOURCE users SCHEME murmur3-salted BITS 8 HASHES 2",
        "BF.EXPORT i",
        "BF.MERGE u a b r v FORCE",
        "BF.MERGE u c",
        "BF.CLEAR v",
        "BF.EXISTS users x",
        "CF.RESERVE cf 4 EXPANSION 0",
        "CF.ADD cf x",
        "CF.ADDNX cf x",
        "CF.INSERT cf ITEMS x y x z w v",
        "CF.INSERTNX cf ITEMS x y",
        "CF.EXISTS cf x",
        "CF.MEXISTS cf x y",
        "CF.COUNT cf x",
        "CF.DEL cf x",
        "CF.INFO cf",
        "CF.DEBUG cf",
        "CF.COMPACT cf",
        "CF.SCANDUMP cf 0",
        "CF.LOADCHUNK cf 9 bad",
        "CF.ADD users x",
    ];
    let mut run = BTreeSet::new();
    for line in lines {
        client.say(line);
        run.insert(line.split(' ').next().unwrap().to_ascii_lowercase());
    }
    let names = client.array(&["COMMAND", "LIST", "FILTERBY", "MODULE", "bf"]);
    for name in names {
        let name = show(&name).trim_matches(['"', '+']).to_owned();
        assert!(run.contains(&name), "{name} was not run");
    }
    for key in ["a", "b", "c", "u", "v", "r", "i"] {
        super::replicas::load(client, key.as_bytes());
    }
}

/// Makes the server run every callback except that of active defragmentation.
fn callbacks(client: &mut Client) {
    for key in ["a", "b", "c", "u", "v", "r", "i", "t:large"] {
        client.say(&format!("COPY {key} copy REPLACE"));
        client.int(&format!("MEMORY USAGE {key}"));
        client.digest(key);
        let payload = client.bytes(&["DUMP", key]);
        assert_eq!(client.ask(&[b"RESTORE", b"copy".as_slice(), b"0", &payload, b"REPLACE"]), "+OK");
        let cut = &payload[..payload.len() / 2];
        assert!(client.ask(&[b"RESTORE", b"bad".as_slice(), b"0", cut]).starts_with("-ERR"));
        client.say("UNLINK copy");
    }
    client.say("CONFIG SET bf.error-rate 0.02");
    client.say("CONFIG SET bf.error-rate 7");
    client.say("CONFIG GET bf.*");
    client.say("INFO bf");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert!(client.say("BGREWRITEAOF").starts_with('+'));
    wait_until("rewritten", || client.info_number("aof_rewrite_in_progress") == 0);
    assert_eq!(client.say("DEBUG LOADAOF"), "+OK");
}
