//! The origins of an import: the bytes of Guava, the settings of Redisson, and errors.

use super::{assert_replies, many, redisson, state};
use crate::harness::{Site, Test, tests};
use crate::vectors::system;

pub(crate) const TESTS: &[Test] = tests![
    guavas_bytes_are_imported_and_exported,
    hostile_bytes_of_guava_are_refused,
    settings_of_redisson_are_read,
    importing_does_not_change_how_the_source_is_stored,
    errors_are_reported_and_change_nothing,
];

fn guavas_bytes_are_imported_and_exported(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for name in ["guava-mitz32", "guava-mitz64"] {
        let system = system(name);
        let blob = system.string("/guava_writeTo_b64");
        client.say("FLUSHALL");
        assert_eq!(client.ask(&[b"BF.IMPORT", b"sent".as_slice(), b"GUAVA", &blob]), "+OK");
        client.ask(&[b"SET", b"string".as_slice(), &blob]);
        assert_eq!(client.say("BF.IMPORT read SOURCE string SCHEME guava"), "+OK");
        assert_eq!(state(&mut client, "read"), state(&mut client, "sent"));
        for key in ["sent", "read"] {
            assert_replies(&mut client, &system, key);
            assert_eq!(client.bytes(&["BF.EXPORT", key]), blob);
        }
        // Rebuilt from its items.
        let mut cleared = blob.clone();
        cleared[6..].fill(0);
        assert_eq!(
            client.ask(&[
                b"BF.IMPORT",
                b"sent".as_slice(),
                b"GUAVA",
                &cleared,
                b"CAPACITY",
                b"1000",
                b"REPLACE"
            ]),
            "+OK"
        );
        many(&mut client, "BF.MADD", "sent", &system.items("members"));
        assert_eq!(client.bytes(&["BF.EXPORT", "sent"]), blob, "{name}");
    }
}

fn hostile_bytes_of_guava_are_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let blob = system("guava-mitz64").string("/guava_writeTo_b64");
    let with = |at: usize, bytes: &[u8]| {
        let mut altered = blob.clone();
        altered[at..at + bytes.len()].copy_from_slice(bytes);
        altered
    };
    let mut longer = blob.clone();
    longer.push(0);
    let mut cases = vec![longer, with(0, &[2]), with(0, &[255]), with(1, &[0])];
    cases.extend(
        [[0; 4], [255; 4], [0x7f, 255, 255, 255], [0x80, 0, 0, 0], [0, 0, 0, 1]].map(|longs| with(2, &longs)),
    );
    cases.extend((0..blob.len()).step_by(97).map(|length| blob[..length].to_vec()));
    for case in cases {
        let reply = client.ask(&[b"BF.IMPORT", b"k".as_slice(), b"GUAVA", &case]);
        assert!(reply.starts_with("-ERR ") && reply.contains("Guava"), "{reply}");
        client.ask(&[b"SET", b"string".as_slice(), &case]);
        assert_eq!(client.say("BF.IMPORT k SOURCE string SCHEME guava"), reply);
        assert_eq!(client.int("EXISTS k"), 0);
    }
}

fn settings_of_redisson_are_read(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for name in ["users", "{app}users"] {
        redisson(&mut client, name);
        let line = format!("BF.IMPORT k SOURCE {name} SCHEME redisson ENCODING kryo5-string REPLACE");
        assert_eq!(client.say(&line), "+OK");
        assert_replies(&mut client, &system("redisson-kryo5-codec"), "k");
        assert_eq!(client.say("BF.INFO k CAPACITY"), "[1000]");
    }
    client.say("HDEL {users}:config hashIterations");
    let error = "-ERR cannot read the field hashIterations of Redisson's settings at '{users}:config': give BITS and HASHES";
    assert_eq!(client.say("BF.IMPORT n SOURCE users SCHEME redisson"), error);
    client.say("SET {users}:config text");
    assert_eq!(
        client.say("BF.IMPORT n SOURCE users SCHEME redisson BITS 7001"),
        error.replace("hashIterations", "size")
    );
    assert_eq!(client.say("BF.IMPORT n SOURCE users SCHEME redisson BITS 7001 HASHES 5"), "+OK");
    assert_eq!(client.say("BF.IMPORT n2 EMPTY SCHEME redisson"), "-ERR BITS is missing: add this option");
}

fn importing_does_not_change_how_the_source_is_stored(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let long = "x".repeat(5000);
    // A number, one that servers share, text stored with its object, and plain arrays, short and long.
    let sources =
        ["12345678901234", "7", "short", &long[..44], &long[..100], &long[..4096], &long[..4097], &long];
    for source in sources {
        client.say(&format!("SET s {source}"));
        let before = client.say("OBJECT ENCODING s");
        let bits = source.len() * 8;
        let scheme = format!("SCHEME go-zero BITS {bits}");
        assert_eq!(client.say(&format!("BF.IMPORT k SOURCE s {scheme} REPLACE")), "+OK");
        assert_eq!(client.say("OBJECT ENCODING s"), before, "{source}");
        assert_eq!(client.bytes(&["BF.EXPORT", "k"]), source.as_bytes());
        assert_eq!(client.bytes(&["GET", "s"]), source.as_bytes());
    }
    client.say("DEL s");
    client.say("SETBIT s 99 1");
    assert_eq!(client.say("BF.IMPORT k SOURCE s SCHEME go-zero BITS 104 REPLACE"), "+OK");
    assert_eq!(client.bytes(&["BF.EXPORT", "k"]), client.bytes(&["GET", "s"]));
    // The user need not have permission for GET.
    client.say("SET s 123");
    client.say("ACL SETUSER u on >p ~* +bf.import +bf.card");
    assert_eq!(client.say("AUTH u p"), "+OK");
    assert_eq!(client.say("BF.IMPORT k SOURCE s SCHEME go-zero BITS 24 REPLACE"), "+OK");
    assert!(client.say("GET s").starts_with("-NOPERM"));
}

fn errors_are_reported_and_change_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.ask(&[b"SETRANGE", b"string".as_slice(), b"100", b"\x01"]);
    client.say("RPUSH list a");
    client.say("BF.ADD native a");
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let busy = "-BUSYKEY Target key name already exists.";
    for (line, reply) in [
        (
            "k SOURCE string SCHEME go-zero BITS 800",
            "-ERR the string has bits set at byte 100, beyond a filter of 800 bits: check the number of bits and their order",
        ),
        (
            "k SOURCE nothing SCHEME go-zero BITS 800",
            "-ERR there is no string at the source key: check its name, or use EMPTY to start without one",
        ),
        (
            "k SOURCE k SCHEME go-zero BITS 800",
            "-ERR source and destination are the same key: choose another destination",
        ),
        ("k SOURCE list SCHEME go-zero BITS 900", wrong_type),
        ("k SOURCE native SCHEME go-zero BITS 900", wrong_type),
        ("list SOURCE string SCHEME go-zero BITS 900 REPLACE", wrong_type),
        ("native SOURCE string SCHEME go-zero BITS 900", busy),
        ("native EMPTY SCHEME go-zero BITS 900", busy),
        ("k EMPTY SCHEME go-zero BITS 900 HASHES 5", "-ERR the scheme has 14 hashes, got 5"),
        (
            "k EMPTY SCHEME guava-mitz64 BITS 900 HASHES 5 SHIFT 17",
            "-ERR the scheme takes a shift of 0 to 16, got 17",
        ),
        (
            "k EMPTY SCHEME php-bkdr-js-sdbm BITS 900",
            "-ERR the scheme takes a multiple of 8192 bits, got 900",
        ),
    ] {
        assert_eq!(client.say(&format!("BF.IMPORT {line}")), reply, "{line}");
        assert_eq!(client.int("DBSIZE"), 3, "{line}");
    }
    let reply = client.say("BF.IMPORT k EMPTY SCHEME go-zero BITS 8796093022208");
    assert!(reply.starts_with("-ERR filter would take 1099511627"), "{reply}");
    assert_eq!(client.say("BF.EXPORT native"), "-ERR BF.EXPORT needs a filter created with BF.IMPORT");
    assert_eq!(client.say("BF.EXPORT list"), wrong_type);
    // A number is a string too: the server stores it as an integer until it is read.
    client.say("SET number 4");
    assert_eq!(client.say("BF.IMPORT n SOURCE number SCHEME murmur3-salted BITS 6 HASHES 1"), "+OK");
    assert_eq!(client.say("BF.EXPORT n"), "\"4\"");
    assert_eq!(client.say("GET number"), "\"4\"");
    // REPLACE replaces the old filter.
    assert_eq!(client.say("BF.IMPORT native SOURCE string SCHEME go-zero BITS 900 REPLACE"), "+OK");
    assert_eq!(client.bytes(&["BF.EXPORT", "native"]), client.bytes(&["GET", "string"]));
}
