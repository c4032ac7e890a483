//! BF.MERGE of sliding-window filters.

use super::*;

/// Shards with bursts are merged: each item keeps its time, and the destination keeps its base.
#[test]
fn bursts_of_windows_are_merged() {
    let mut server = Server::new();
    let start = 14_000_000;
    server.now_ms = start;
    assert_eq!(server.run("BF.RESERVE all 0.01 4000 PWINDOW 14000"), "+OK");
    for shard in ["one", "two"] {
        assert_eq!(server.run(&format!("BF.RESERVE {shard} 0.001 1000 PWINDOW 14000")), "+OK");
        for (burst, at_ms) in [("early", start), ("late", start + 5000)] {
            server.now_ms = at_ms;
            let items: Vec<String> = (0..700).map(|number| format!("{shard}-{burst}-{number}")).collect();
            server.run(&format!("BF.MADD {shard} {}", items.join(" ")));
        }
    }
    assert_eq!(server.run("BF.ADD all own"), "#t");
    let count = |server: &mut Server, burst: &str| {
        let found =
            |shard: &str, number: u32| server.run(&format!("BF.EXISTS all {shard}-{burst}-{number}")) == "#t";
        let mut found = found;
        ["one", "two"]
            .iter()
            .map(|shard| (0..700).filter(|number| found(shard, *number)).count())
            .sum::<usize>()
    };
    assert_eq!(server.run("BF.MERGE all one two"), "+OK");
    assert!(server.run("BF.STATS all").contains(" +error-rate-max ,0.01 "));
    assert_eq!((count(&mut server, "early"), count(&mut server, "late")), (1400, 1400));
    let replicated = server.replicated.len();
    assert_eq!(server.run("BF.MERGE all one two"), "+OK");
    assert_eq!(server.replicated.len(), replicated, "nothing has changed");
    // The first bursts expire; the later ones expire a third of the window later.
    server.now_ms = start + 15_000;
    assert!(count(&mut server, "early") < 60 && count(&mut server, "late") == 1400);
    server.now_ms = start + 20_000;
    assert!(count(&mut server, "late") < 60);
    assert_eq!(server.run("BF.ADD all new"), "#t");
    assert_eq!(server.run("BF.INFO all FILTERS"), "*1 :1");
    assert_eq!(server.run("BF.INFO all CAPACITY"), "*1 :4000");
}

#[test]
fn generations_of_windows_are_merged() {
    let mut server = Server::new();
    let start = 14_000_000;
    server.now_ms = start;
    for key in ["a", "b"] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 1000 PWINDOW 14000")), "+OK");
    }
    server.run("BF.MADD a old-a both");
    server.now_ms = start + 5000;
    server.run("BF.MADD b new-b both");
    assert_eq!(server.run("BF.MERGE a b"), "+OK");
    let replicated = server.replicated.len();
    assert_eq!(server.run("BF.MERGE a b"), "+OK");
    assert_eq!(server.replicated.len(), replicated, "nothing has changed");
    let all = "BF.MEXISTS a old-a both new-b none";
    assert_eq!(server.run(all), "*4 #t #t #t #f");
    // Each item expires when it would have expired in its own filter.
    server.now_ms = start + 15_000;
    assert_eq!(server.run(all), "*4 #f #t #t #f");
    server.now_ms = start + 20_000;
    assert_eq!(server.run(all), "*4 #f #f #f #f");

    // A layer of another shape is appended, and expires with its items.
    server.run("BF.RESERVE large 0.01 5000 PWINDOW 14000");
    server.run("BF.MADD large p q");
    server.run("BF.ADD a r");
    assert_eq!(server.run("BF.MERGE a large"), "+OK");
    assert_eq!(server.run("BF.INFO a FILTERS"), "*1 :2");
    assert_eq!(server.run("BF.MEXISTS a p q r s"), "*4 #t #t #t #f");
    server.now_ms = start + 36_000;
    assert_eq!(server.run("BF.MEXISTS a p q r s"), "*4 #f #f #f #f");
    server.run("BF.ADD a s");
    assert_eq!(server.run("BF.INFO a FILTERS"), "*1 :1");

    // A new key gets the window of the first source.
    assert_eq!(server.run("BF.MERGE made a"), "+OK");
    assert_eq!(server.run("BF.EXISTS made s"), "#t");
    server.now_ms += 15_000;
    assert_eq!(server.run("BF.EXISTS made s"), "#f");
    // Filters with another window, hash or cell type.
    server.run("BF.RESERVE other 0.01 1000 PWINDOW 14001");
    server.run("BF.INSERT keyed CAPACITY 1000 ERROR 0.01 PWINDOW 14000 KEY 0123456789abcdef ITEMS x");
    server.run("BF.RESERVE bits 0.01 1000");
    for key in ["other", "keyed", "bits"] {
        server.run(&format!("BF.ADD {key} item"));
        for line in
            [format!("BF.MERGE a {key}"), format!("BF.MERGE {key} a"), format!("BF.MERGE a {key} FORCE")]
        {
            let reply = server.run(&line);
            assert!(reply.starts_with(MISMATCH), "{line}: {reply}");
        }
    }
    // The error rates of all live generations add up to at most the promised one.
    for key in ["l", "m"] {
        server.run(&format!("BF.RESERVE {key} 0.01 10000 PWINDOW 14000 NONSCALING"));
        for generation in 0..15 {
            let items: Vec<String> = (0..740).map(|item| format!("{key}-{generation}-{item}")).collect();
            server.run(&format!("BF.MADD {key} {}", items.join(" ")));
            server.now_ms += 1000;
        }
        server.now_ms -= 15_000;
    }
    let reply = server.run("BF.MERGE l m");
    assert!(reply.starts_with("-ERR") && !reply.starts_with(MISMATCH), "{reply}");
    assert_eq!(server.run("BF.MERGE l m FORCE"), "+OK");
}

#[test]
fn bursts_of_one_generation_are_counted_together() {
    let mut server = Server::new();
    let items = |server: &Server, key: &str| server.keys[key.as_bytes()].items();
    for key in ["a", "b"] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 10000 PWINDOW 14000")), "+OK");
        let added: Vec<String> = (0..3600).map(|item| format!("{key}-{item}")).collect();
        server.run(&format!("BF.MADD {key} {}", added.join(" ")));
        assert_eq!(server.run(&format!("BF.INFO {key} FILTERS")), "*1 :5");
    }
    let sum = items(&server, "a") + items(&server, "b");
    assert_eq!(server.run("BF.MERGE a b FORCE"), "+OK");
    // The last bursts of both, which are less than half full, are one layer now.
    assert_eq!(server.run("BF.INFO a FILTERS"), "*1 :9");
    assert_eq!(items(&server, "a"), sum);
}
