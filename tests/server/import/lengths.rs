//! Long items, and long strings of exports.

use crate::harness::{Client, Server, Site, Test, reseal, tests};

pub(crate) const TESTS: &[Test] = tests![
    a_long_item_takes_no_additional_memory,
    a_string_longer_than_the_limit_is_refused,
    a_forged_length_of_a_string_is_refused,
    a_string_that_the_server_could_not_copy_is_refused,
];

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

/// Returns the error for a string of this length, or for a filter that could have it.
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
