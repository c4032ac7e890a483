//! Panics of commands: afterwards either no key has changed, or the server has ended.

use std::collections::BTreeMap;

use everbloom_command::COMMANDS;
use everbloom_command::error::INTERNAL_ERROR;

use crate::support::keyspace::panic_at;
use crate::support::server::Server;

/// Commands that create filters of several kinds under `k`. [`prepared`] then adds the items 0 to 299.
const MAKERS: [&str; 9] = [
    "BF.INSERT k ITEMS 0",
    "BF.RESERVE k 0.01 100",
    "BF.RESERVE k 0.01 300 NONSCALING",
    "BF.RESERVE k 0.01 100 COUNTING",
    "BF.RESERVE k 0.01 100 WINDOW 60",
    "BF.RESERVE k 0.01 100 FORMAT redisbloom",
    "BF.RESERVE k 0.01 100 FORMAT valkey-bloom",
    "BF.IMPORT k EMPTY SCHEME murmur3-salted BITS 8000 HASHES 7 CAPACITY 1000",
    "BF.RESERVE k 0.01 100 KEYED",
];

/// Every command: with the existing filter `k`, with the existing filter `other` and with the vacant key `new`.
const LINES: [&str; 57] = [
    "CF.RESERVE new 100 EX 100",
    "CF.ADD k 7",
    "CF.ADD new a",
    "CF.ADDNX k new-1",
    "CF.INSERT k ITEMS 7 7 new-1",
    "CF.INSERT new CAPACITY 9 ITEMS a b c",
    "CF.INSERTNX k ITEMS 7 new-1",
    "CF.EXISTS k 7",
    "CF.MEXISTS k 7 x",
    "CF.COUNT k 7",
    "CF.DEL k 7",
    "CF.INFO k",
    "CF.DEBUG k",
    "CF.COMPACT k",
    "CF.SCANDUMP k 0",
    "CF.LOADCHUNK k 9 data",
    "BF.RESERVE new 0.01 100",
    "BF.RESERVE k 0.01 100",
    "BF.RESERVE new 0.01 100 EX 100",
    "BF.ADD k 7",
    "BF.ADD k new-1",
    "BF.ADD new a",
    "BF.MADD k a b c d e f 7 8",
    "BF.MADD new a b c",
    "BF.INSERT k ITEMS a b c",
    "BF.INSERT new CAPACITY 9 ITEMS a b c",
    "BF.INSERT new EX 100 ITEMS a",
    "BF.DEL k 7 8 9",
    "BF.EXISTS k 7",
    "BF.TTL k a",
    "BF.PTTL k a",
    "BF.ADD k new IFABSENT",
    "BF.EXISTS new 7",
    "BF.MEXISTS k 7 x",
    "BF.MEXISTS new 7 x",
    "BF.BULKADD k LINES a",
    "BF.BULKADD new LINES a",
    "BF.BULKEXISTS k LINES 7",
    "BF.INFO k",
    "BF.INFO k CAPACITY",
    "BF.STATS k",
    "BF.CARD k",
    "BF.DEBUG k",
    "BF.CLEAR k",
    "BF.CLEAR new",
    "BF.SCANDUMP k 0",
    "BF.FOLLOW k",
    "BF.FOLLOW k 1 0",
    "BF.LOADCHUNK new 1 data",
    "BF.LOADCHUNK k 9 data",
    "BF.LOAD new blob",
    "BF.IMPORT new SOURCE users SCHEME murmur3-salted BITS 8 HASHES 2",
    "BF.EXPORT k",
    "BF.MERGE new k",
    "BF.MERGE k other FORCE",
    "BF.MERGE k other",
    "BF.MERGE k k",
];

fn prepared(maker: &str, is_replicated: bool) -> Server {
    let mut server = Server::new();
    assert!(["+OK", "*1 #t"].contains(&server.run(maker).as_str()), "{maker}");
    server.batches("BF.MADD k", "", 0..300);
    server.run("BF.RESERVE other 0.1 50");
    server.run("BF.MADD other p q r");
    server.is_replicated = is_replicated;
    server
}

/// Runs a command once for each of its calls into the server, with a panic in that call. Returns how often the server
/// ended, and how often the reply was an error.
fn panic_everywhere(maker: &str, line: &str, is_replicated: bool) -> [u32; 2] {
    let mut counts = [0, 0];
    for call in 0.. {
        let context = format!("{maker}, {line}, replicated: {is_replicated}, call {call}");
        let mut server = prepared(maker, is_replicated);
        let (before, replicated) = (server.state(), server.replicated.len());
        panic_at(call);
        // The requested panic is not printed.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let reply = server.run(line);
        std::panic::set_hook(hook);
        if !server.has_panicked {
            assert!(!server.has_ended || reply.starts_with('-'), "{context}: {reply}");
            break;
        }
        assert_eq!(server.replicated.len(), replicated, "{context}");
        if server.has_ended {
            counts[0] += 1;
            continue;
        }
        counts[1] += 1;
        assert!(!is_replicated, "{context}: a replica goes on without the change");
        assert!(server.state() == before, "{context}: changed and not replicated");
        // The rest of the reply is an error. The simulated server checks that the reply is complete.
        let errors = server.reply.iter().filter(|part| part[1..] == *INTERNAL_ERROR).count();
        assert!(errors > 0, "{context}: {reply}");
    }
    counts
}

#[test]
fn after_a_panic_the_keys_are_unchanged_or_the_server_ends() {
    let mut all: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    for maker in MAKERS {
        for line in LINES {
            let name = line.split(' ').next().unwrap();
            for is_replicated in [false, true] {
                let counts = panic_everywhere(maker, line, is_replicated);
                let sums = all.entry(name).or_default();
                *sums = [sums[0] + counts[0], sums[1] + counts[1]];
                assert!(counts[0] + counts[1] > 0, "{maker}, {line}");
            }
        }
    }
    for command in COMMANDS {
        let name = command.spec().name.to_uppercase();
        let [ended, replied] = all[name.as_str()];
        assert!(replied > 0, "{name}: {ended} {replied}");
    }
    for name in [
        "BF.ADD",
        "BF.MADD",
        "BF.INSERT",
        "BF.BULKADD",
        "BF.CLEAR",
        "BF.MERGE",
        "BF.DEL",
        "CF.ADD",
        "CF.INSERT",
        "CF.DEL",
    ] {
        assert!(all[name][0] > 0, "{name} never ended the server");
    }
}
