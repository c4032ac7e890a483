use crate::harness::{Site, Test, crc64, reseal, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![plain_works, dies, crc];

fn plain_works(site: &Site) {
    let server = site.launch().without_module().start();
    let mut c = server.client();
    assert_eq!(c.say("SET a b"), "+OK");
    assert_eq!(c.say("NOSUCH a b"), "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ");
    let mut r = server.raw3();
    assert_eq!(r.say("GET nokey"), "_\\r\\n");
    assert_eq!(server.raw().say("MGET a nokey"), "*2\\r\\n$1\\r\\nb\\r\\n$-1\\r\\n");
    let replica = server.replica(site.launch().without_module());
    wait_until("copy", || replica.client().say("GET a") == "\"b\"");
    assert_eq!(c.say("SAVE"), "+OK");
    let server = server.restart();
    assert_eq!(server.client().say("GET a"), "\"b\"");
}

fn dies(site: &Site) {
    let log = site.launch().without_module().with("loadmodule /nonexistent.so").expect_dead_at_start();
    assert!(log.contains("nonexistent"), "{log}");
}

fn crc(site: &Site) {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let server = site.launch().without_module().start();
    let mut c = server.client();
    c.say("SET a b");
    let dump = c.bytes(&["DUMP", "a"]);
    let mut again = dump.clone();
    again[dump.len() - 3] ^= 1;
    reseal(&mut again);
    assert_eq!(dump, again);
}
