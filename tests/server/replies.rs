//! Replies in RESP2 and RESP3 with numbers or bytes that no dialogue can fix, and items that are empty or binary.

use crate::harness::{Raw, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    info_has_five_fields,
    info_has_no_expansion_of_a_fixed_filter,
    debug_replies_with_bulk_strings,
    scandump_replies_with_an_iterator_and_bytes,
    loadchunk_replies_with_ok,
    items_may_be_empty_or_binary,
];

/// Returns the integer of `:n` or of the last line of a reply.
fn last_integer(reply: &str) -> u64 {
    let line = reply.trim_end().rsplit("\r\n").next().unwrap();
    line.strip_prefix(':').and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{reply:?}"))
}

fn info_has_five_fields(site: &Site) {
    let server = site.start();
    let (mut resp2, mut resp3) = (server.raw(), server.raw3());
    resp2.say("BF.RESERVE k 0.01 50 EXPANSION 3");
    resp2.say("BF.MADD k a b");
    let size = last_integer(&resp2.say("BF.INFO k SIZE"));
    assert!(size > 50, "{size}");
    let fields = format!(
        "+Capacity\r\n:50\r\n+Size\r\n:{size}\r\n+Number of filters\r\n:1\r\n+Number of items inserted\r\n:2\r\n\
         +Expansion rate\r\n:3\r\n"
    );
    assert_eq!(resp2.say("BF.INFO k"), format!("*10\r\n{fields}"));
    assert_eq!(resp3.say("BF.INFO k"), format!("%5\r\n{fields}"));
    assert_eq!(resp3.say("BF.INFO k SIZE"), format!("%1\r\n+Size\r\n:{size}\r\n"));
}

fn info_has_no_expansion_of_a_fixed_filter(site: &Site) {
    let server = site.start();
    let (mut resp2, mut resp3) = (server.raw(), server.raw3());
    for reserve in ["BF.RESERVE k 0.01 50 NONSCALING", "BF.RESERVE k 0.01 50 EXPANSION 0"] {
        resp2.say("DEL k");
        assert_eq!(resp2.say(reserve), "+OK\r\n");
        assert_eq!(resp2.say("BF.INFO k EXPANSION"), "*1\r\n$-1\r\n");
        assert_eq!(resp3.say("BF.INFO k EXPANSION"), "%1\r\n+Expansion rate\r\n_\r\n");
        assert!(resp2.say("BF.INFO k").ends_with("+Expansion rate\r\n$-1\r\n"));
        assert!(resp3.say("BF.INFO k").ends_with("+Expansion rate\r\n_\r\n"));
    }
}

fn debug_replies_with_bulk_strings(site: &Site) {
    let server = site.start();
    let check = |mut client: Raw| {
        client.say("DEL k");
        client.say("BF.MADD k a b");
        let reply = client.say("BF.DEBUG k");
        assert!(reply.starts_with("*2\r\n$6\r\nsize:2\r\n$"), "{reply:?}");
        assert!(reply.contains("\r\nbytes:"), "{reply:?}");
        assert!(reply.contains(" segments:1 slots:2 size:2 void:0 saturated:0 ratio:"), "{reply:?}");
    };
    check(server.raw());
    check(server.raw3());
}

fn scandump_replies_with_an_iterator_and_bytes(site: &Site) {
    let server = site.start();
    for mut client in [server.raw(), server.raw3()] {
        client.say("BF.ADD k a");
        let mut scan = |iterator: u64| -> u64 {
            let reply = client.raw(format!("BF.SCANDUMP k {iterator}\r\n").as_bytes());
            assert!(reply.starts_with(b"*2\r\n:"), "{}", reply.escape_ascii());
            let line = reply[5..].split(|byte| *byte == b'\r').next().unwrap();
            assert!(reply[5 + line.len()..].starts_with(b"\r\n$"), "{}", reply.escape_ascii());
            String::from_utf8_lossy(line).parse().unwrap()
        };
        let first = scan(0);
        let next = scan(first);
        assert!(first >= 1 << 52 && next > first && next < 1 << 53, "{first} {next}");
        assert_eq!(client.say(&format!("BF.SCANDUMP k {next}")), "*2\r\n:0\r\n$0\r\n\r\n");
    }
}

fn loadchunk_replies_with_ok(site: &Site) {
    let server = site.start();
    for (mut raw, copy) in [(server.raw(), "resp2"), (server.raw3(), "resp3")] {
        let mut client = server.client();
        client.say("BF.ADD k a");
        let mut iterator = 0;
        while let Some((next, data)) = crate::dump::chunk(&mut client, "k", iterator) {
            let next_text = next.to_string();
            let args: [&[u8]; 4] = [b"BF.LOADCHUNK", copy.as_bytes(), next_text.as_bytes(), &data];
            assert_eq!(raw.ask(&args), "+OK\r\n");
            iterator = next;
        }
        assert!(iterator > 1, "{iterator}");
        assert_eq!(client.int(&format!("BF.EXISTS {copy} a")), 1);
    }
}

fn items_may_be_empty_or_binary(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let items: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"a\r\nb", b"\xff\xfe\0\x80"];
    for item in items {
        assert_eq!(client.ask(&[b"BF.EXISTS", b"k".as_slice(), item]), "0", "{}", item.escape_ascii());
        assert_eq!(client.ask(&[b"BF.ADD", b"k".as_slice(), item]), "1", "{}", item.escape_ascii());
        assert_eq!(client.ask(&[b"BF.EXISTS", b"k".as_slice(), item]), "1", "{}", item.escape_ascii());
    }
    let mut mexists: Vec<&[u8]> = vec![b"BF.MEXISTS", b"k"];
    mexists.extend(items);
    assert_eq!(client.ask(&mexists), "[1, 1, 1, 1, 1]");
    // A key may be empty or binary too.
    assert_eq!(client.ask(&[b"BF.ADD".as_slice(), b"", b"x"]), "1");
    assert_eq!(client.ask(&[b"BF.EXISTS".as_slice(), b"", b"x"]), "1");
    assert_eq!(client.ask(&[b"BF.ADD".as_slice(), b"\0k\xff", b"x"]), "1");
    assert_eq!(client.ask(&[b"BF.CARD".as_slice(), b"\0k\xff"]), "1");
}
