//! Tests of BF.IMPORT and BF.EXPORT that need a server. `kinds` also has the filters of clients, so `journeys` tests
//! them.

use redis::Value;

use everbloom_command::words::Word;

use crate::harness::{Client, Server, Site, Test, numbered, reseal, tests};
use crate::vectors::{System, system, systems};

pub(crate) const TESTS: &[Test] = tests![
    a_string_is_imported_and_exported_as_its_client_made_it,
    guavas_bytes_are_imported_and_exported,
    a_full_filter_is_logged_and_capacity_keeps_the_way_back,
    settings_of_redisson_are_read,
    importing_does_not_change_how_the_source_is_stored,
    a_long_item_takes_no_additional_memory,
    a_string_longer_than_the_limit_is_refused,
    a_forged_length_of_a_string_is_refused,
    a_string_that_the_server_could_not_copy_is_refused,
];

const STRING: &str = "/bitmap/redis_string_b64";

/// Returns the options that describe a system's bitmap.
fn description(system: &System) -> String {
    let bitmap = &system.json["bitmap"];
    format!(
        "SCHEME {} BITS {} HASHES {} SHIFT {} ENCODING {}",
        system.scheme.word(),
        bitmap["m"],
        bitmap["k"],
        system.shift,
        system.encoding.word()
    )
}

/// Sets the recorded string under `NAME:string`, with the system's name, and imports it under `NAME`.
pub(crate) fn import(client: &mut Client, system: &System) {
    let name = system.name;
    client.ask(&[b"SET", format!("{name}:string").as_bytes(), system.string(STRING).as_slice()]);
    let line = format!("BF.IMPORT {name} SOURCE {name}:string {}", description(system));
    assert_eq!(client.say(&line), "+OK", "{line}");
}

/// Creates a Redisson filter with its settings, as Redisson does.
pub(crate) fn redisson(client: &mut Client, name: &str) {
    let system = system("redisson-kryo5-codec");
    client.ask(&[b"SET", name.as_bytes(), system.string(STRING).as_slice()]);
    let config = if name.contains('{') { format!("{name}:config") } else { format!("{{{name}}}:config") };
    let bitmap = &system.json["bitmap"];
    let (size, probes) = (&bitmap["m"], &bitmap["k"]);
    client.say(&format!(
        "HSET {config} size {size} hashIterations {probes} expectedInsertions 1000 falseProbability 0.03"
    ));
}

/// Asserts that every lookup has the result of the client's own code.
fn assert_replies(client: &mut Client, system: &System, key: &str) {
    let digit = |reply: &Value| if *reply == Value::Int(1) { '1' } else { '0' };
    let line = format!("BF.MEXISTS {key}");
    let replies: String = client.many(&line, &system.items("queries")).iter().map(digit).collect();
    assert_eq!(replies, system.json["bitmap"]["expected"].as_str().unwrap(), "{key}");
    assert_eq!(client.ones(&line, &system.items("members")), 1000, "{key}");
}

fn a_string_is_imported_and_exported_as_its_client_made_it(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for system in systems() {
        let (name, string) = (system.name, system.string(STRING));
        import(&mut client, &system);
        assert_replies(&mut client, &system, name);
        assert_eq!(client.bytes(&["BF.EXPORT", name]), string, "{name}");
        assert_eq!(client.bytes(&["GET", &format!("{name}:string")]), string, "{name}");
        // A filter that is made from the items exports the same string.
        let empty = format!("BF.IMPORT made EMPTY {} CAPACITY 1100 REPLACE", description(&system));
        assert_eq!(client.say(&empty), "+OK");
        client.many("BF.MADD made", &system.items("members"));
        assert_eq!(client.bytes(&["BF.EXPORT", "made"]), string, "{name}");
    }
}

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
        for key in ["sent", "read"] {
            assert_replies(&mut client, &system, key);
            assert_eq!(client.bytes(&["BF.EXPORT", key]), blob);
        }
        // The error is the same for bytes and for a string.
        let reply = client.ask(&[b"BF.IMPORT", b"k".as_slice(), b"GUAVA", &blob[..97]]);
        assert!(reply.starts_with("-ERR ") && reply.contains("Guava"), "{reply}");
        client.ask(&[b"SET", b"string".as_slice(), &blob[..97]]);
        assert_eq!(client.say("BF.IMPORT k SOURCE string SCHEME guava"), reply);
    }
}

fn a_full_filter_is_logged_and_capacity_keeps_the_way_back(site: &Site) {
    let server = site.start();
    let replica = server.replica(site.launch());
    let mut client = server.client();
    let system = system("guava-mitz32");
    let blob = system.string("/guava_writeTo_b64");
    // The client planned the filter for a thousand items, and has added them.
    assert_eq!(client.ask(&[b"BF.IMPORT", b"full".as_slice(), b"GUAVA", &blob]), "+OK");
    let [items, capacity] = ["ITEMS", "CAPACITY"].map(|name| client.field("full", name));
    let larger = (items + 1000).to_string();
    let words = [b"BF.IMPORT", b"roomy".as_slice(), b"GUAVA", &blob, b"CAPACITY", larger.as_bytes()];
    assert_eq!(client.ask(&words), "+OK");
    let new = numbered("new", 0..500);
    for key in ["full", "roomy"] {
        client.many(&format!("BF.MADD {key}"), &new);
    }
    assert!(client.say("BF.EXPORT full").starts_with("-ERR the filter has grown"));
    let exported = client.bytes(&["BF.EXPORT", "roomy"]);
    assert_eq!(client.ask(&[b"BF.IMPORT", b"back".as_slice(), b"GUAVA", &exported]), "+OK");
    assert_eq!(client.ones("BF.MEXISTS back", &new), 500);
    assert_eq!(client.ones("BF.MEXISTS back", &system.items("members")), 1000);
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("an imported filter is full")).collect();
    let [full, back] = lines[..] else { panic!("{log}") };
    let expected = format!(
        "<bf> an imported filter is full: 'full' has {items} items and a capacity of {capacity}: after the first"
    );
    assert!(full.contains(&expected) && full.ends_with(&format!("a CAPACITY above {items}")), "{full}");
    assert!(back.contains(": 'back' has "), "{back}");
    replica.wait_for_primary();
    assert!(!replica.log().contains("an imported filter is full"), "{}", replica.log());
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
}

fn importing_does_not_change_how_the_source_is_stored(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let long = "x".repeat(5000);
    // A number, a small number whose object the server shares, text that is stored with its object, and text that is
    // stored on its own, short and long.
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

/// Starts a server with about 80 MiB of address space plus `mib`, beyond which every allocation fails.
fn cramped(site: &Site, mib: u64) -> Server {
    site.launch().with("rdbcompression no").with_address_space_mib(80 + mib).start()
}

fn assert_lives(client: &mut Client) {
    assert_eq!(client.say("BF.IMPORT alive EMPTY SCHEME go-zero BITS 900"), "+OK");
    assert_eq!(client.say("BF.MADD alive a b"), "[1, 1]");
    assert!(client.bytes(&["BF.EXPORT", "alive"]).len() > 50);
    assert_eq!(client.int("DEL alive"), 1);
}

fn a_long_item_takes_no_additional_memory(site: &Site) {
    if site.hides_memory() {
        return;
    }
    // The server reads the item into a buffer of up to twice its length. In JSON each of its bytes becomes two.
    let server = cramped(site, 220);
    let mut client = server.client();
    let item = vec![b'"'; 60 << 20];
    let line = "BF.IMPORT k EMPTY SCHEME redisson BITS 81920 HASHES 7 ENCODING json-string";
    assert_eq!(client.say(line), "+OK");
    assert_eq!(client.ask(&[b"BF.ADD", b"k".as_slice(), &item]), "1");
    assert_eq!(client.ask(&[b"BF.MEXISTS", b"k".as_slice(), &item, b"a"]), "[1, 0]");
    assert_lives(&mut client);
}

/// Returns the error for a filter whose exported string could have this length.
fn too_long(bytes: u64) -> String {
    format!("-ERR the exported string could have {bytes} bytes, more than a server's limit of 536870912")
}

fn a_string_longer_than_the_limit_is_refused(site: &Site) {
    // Enough memory for the array and a string, but not for a second string.
    let server = cramped(site, 3900);
    let mut client = server.client();
    let line = "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 12000000000 HASHES 3";
    assert_eq!(client.say(line), "+OK");
    assert_eq!(client.say("BF.MADD k a b c"), "[1, 1, 1]");
    assert_eq!(client.say("BF.EXPORT k"), too_long(1_500_000_000));
    assert_eq!(client.say("BF.MEXISTS k a b c d"), "[1, 1, 1, 0]");
    assert_lives(&mut client);
}

fn a_forged_length_of_a_string_is_refused(site: &Site) {
    // Enough memory for the string, but not for two of them.
    let server = cramped(site, 900);
    let mut client = server.client();
    assert_eq!(client.say("BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 1"), "+OK");
    let mut payload = client.bytes(&["DUMP", "k"]);
    assert!(payload.len() < 140, "{} bytes", payload.len());
    let header = payload.windows(4).position(|window| window == b"evbl").unwrap();
    let mut restore = |string_bytes: u64| {
        payload[header + 32..][..8].copy_from_slice(&string_bytes.to_le_bytes());
        reseal(&mut payload);
        client.ask(&[b"RESTORE", b"forged".as_slice(), b"0", &payload, b"REPLACE"])
    };
    assert_eq!(restore((512 << 20) + 9), "-ERR Bad data format");
    assert_eq!(restore((512 << 20) + 8), "+OK");
    assert_eq!(client.say("BF.EXPORT forged"), too_long((512 << 20) + 8));
    assert_eq!(client.say("BF.EXISTS forged a"), "0");
    assert_lives(&mut client);
}

fn a_string_that_the_server_could_not_copy_is_refused(site: &Site) {
    if site.hides_memory() {
        return;
    }
    // Enough memory for the array and the string, but not for the server's copy of the reply.
    let server = cramped(site, 2 * 256 + 128);
    let mut client = server.client();
    assert_eq!(client.say("BF.IMPORT k EMPTY SCHEME guava-mitz32 BITS 2147483648 HASHES 255"), "+OK");
    assert_eq!(client.say("BF.EXPORT k"), "\"\"");
    assert_eq!(client.say("BF.ADD k a"), "1");
    assert_eq!(client.say("BF.EXPORT k"), "-ERR out of memory");
    assert_eq!(client.say("BF.EXISTS k a"), "1");
    assert_lives(&mut client);
}
