//! What every command answers when all is well, to the byte, in RESP2 and RESP3.

use crate::harness::{Raw, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    reserve_answers_ok,
    add_tells_whether_the_item_was_new,
    madd_answers_one_boolean_per_item,
    insert_always_answers_an_array,
    a_full_fixed_filter_cuts_the_array_at_the_refusal,
    exists_answers_a_boolean,
    mexists_answers_one_boolean_per_item,
    a_missing_key_holds_nothing,
    card_answers_an_integer,
    info_answers_five_fields,
    info_answers_one_field,
    info_answers_null_for_the_expansion_of_a_fixed_filter,
    debug_answers_bulk_strings,
    scandump_answers_an_iterator_and_bytes,
    loadchunk_answers_ok,
    items_may_be_empty_or_binary,
    command_names_and_options_ignore_case,
];

/// Runs a script of commands and replies on a fresh server per protocol.
fn transcript(site: &Site, resp2: &[(&str, &str)], resp3: &[(&str, &str)]) {
    for (raw, script) in [(false, resp2), (true, resp3)] {
        let server = site.start();
        let mut client = if raw { server.raw3() } else { server.raw() };
        for (command, reply) in script {
            assert_eq!(client.say(command), *reply, "{command} in {}", if raw { "RESP3" } else { "RESP2" });
        }
    }
}

/// As [`transcript`] for replies that are the same in both protocols.
fn same_transcript(site: &Site, script: &[(&str, &str)]) {
    transcript(site, script, script);
}

fn reserve_answers_ok(site: &Site) {
    same_transcript(
        site,
        &[
            ("BF.RESERVE a 0.01 100", "+OK\r\n"),
            ("BF.RESERVE b 0.01 100 EXPANSION 4", "+OK\r\n"),
            ("BF.RESERVE c 0.01 100 NONSCALING", "+OK\r\n"),
            ("BF.RESERVE d 0.01 100 NONSCALING EXPANSION 0", "+OK\r\n"),
            ("BF.RESERVE e 0.01 100 EXPANSION 0 NONSCALING", "+OK\r\n"),
        ],
    );
}

fn add_tells_whether_the_item_was_new(site: &Site) {
    transcript(
        site,
        &[("BF.ADD k a", ":1\r\n"), ("BF.ADD k a", ":0\r\n")],
        &[("BF.ADD k a", "#t\r\n"), ("BF.ADD k a", "#f\r\n")],
    );
}

fn madd_answers_one_boolean_per_item(site: &Site) {
    transcript(
        site,
        &[
            ("BF.MADD k a b a", "*3\r\n:1\r\n:1\r\n:0\r\n"),
            ("BF.MADD k a", "*1\r\n:0\r\n"),
            ("BF.MADD k c", "*1\r\n:1\r\n"),
        ],
        &[
            ("BF.MADD k a b a", "*3\r\n#t\r\n#t\r\n#f\r\n"),
            ("BF.MADD k a", "*1\r\n#f\r\n"),
            ("BF.MADD k c", "*1\r\n#t\r\n"),
        ],
    );
}

fn insert_always_answers_an_array(site: &Site) {
    transcript(
        site,
        &[
            ("BF.INSERT k ITEMS a", "*1\r\n:1\r\n"),
            ("BF.INSERT k ITEMS a b b", "*3\r\n:0\r\n:1\r\n:0\r\n"),
            ("BF.INSERT n CAPACITY 10 ERROR 0.1 EXPANSION 3 ITEMS a", "*1\r\n:1\r\n"),
            ("BF.INSERT n NOCREATE ITEMS a", "*1\r\n:0\r\n"),
        ],
        &[
            ("BF.INSERT k ITEMS a", "*1\r\n#t\r\n"),
            ("BF.INSERT k ITEMS a b b", "*3\r\n#f\r\n#t\r\n#f\r\n"),
            ("BF.INSERT n CAPACITY 10 ERROR 0.1 EXPANSION 3 ITEMS a", "*1\r\n#t\r\n"),
            ("BF.INSERT n NOCREATE ITEMS a", "*1\r\n#f\r\n"),
        ],
    );
}

fn a_full_fixed_filter_cuts_the_array_at_the_refusal(site: &Site) {
    transcript(
        site,
        &[
            ("BF.RESERVE k 0.0001 2 NONSCALING", "+OK\r\n"),
            ("BF.MADD k a a b c d", "*4\r\n:1\r\n:0\r\n:1\r\n-ERR non scaling filter is full\r\n"),
            // What is there already needs no room.
            ("BF.MADD k a b", "*2\r\n:0\r\n:0\r\n"),
            ("BF.ADD k b", ":0\r\n"),
            ("BF.ADD k c", "-ERR non scaling filter is full\r\n"),
            ("BF.INSERT k ITEMS c", "*1\r\n-ERR non scaling filter is full\r\n"),
            (
                "BF.INSERT n CAPACITY 1 NONSCALING ITEMS x y z",
                "*2\r\n:1\r\n-ERR non scaling filter is full\r\n",
            ),
            ("BF.CARD n", ":1\r\n"),
        ],
        &[
            ("BF.RESERVE k 0.0001 2 NONSCALING", "+OK\r\n"),
            ("BF.MADD k a a b c d", "*4\r\n#t\r\n#f\r\n#t\r\n-ERR non scaling filter is full\r\n"),
            ("BF.MADD k a b", "*2\r\n#f\r\n#f\r\n"),
            ("BF.ADD k b", "#f\r\n"),
            ("BF.ADD k c", "-ERR non scaling filter is full\r\n"),
            ("BF.INSERT k ITEMS c", "*1\r\n-ERR non scaling filter is full\r\n"),
            (
                "BF.INSERT n CAPACITY 1 NONSCALING ITEMS x y z",
                "*2\r\n#t\r\n-ERR non scaling filter is full\r\n",
            ),
            ("BF.CARD n", ":1\r\n"),
        ],
    );
}

fn exists_answers_a_boolean(site: &Site) {
    transcript(
        site,
        &[("BF.ADD k a", ":1\r\n"), ("BF.EXISTS k a", ":1\r\n"), ("BF.EXISTS k b", ":0\r\n")],
        &[("BF.ADD k a", "#t\r\n"), ("BF.EXISTS k a", "#t\r\n"), ("BF.EXISTS k b", "#f\r\n")],
    );
}

fn mexists_answers_one_boolean_per_item(site: &Site) {
    transcript(
        site,
        &[("BF.ADD k a", ":1\r\n"), ("BF.MEXISTS k a b a", "*3\r\n:1\r\n:0\r\n:1\r\n")],
        &[("BF.ADD k a", "#t\r\n"), ("BF.MEXISTS k a b a", "*3\r\n#t\r\n#f\r\n#t\r\n")],
    );
}

fn a_missing_key_holds_nothing(site: &Site) {
    transcript(
        site,
        &[
            ("BF.EXISTS k a", ":0\r\n"),
            ("BF.MEXISTS k a b", "*2\r\n:0\r\n:0\r\n"),
            ("BF.CARD k", ":0\r\n"),
            ("EXISTS k", ":0\r\n"),
        ],
        &[
            ("BF.EXISTS k a", "#f\r\n"),
            ("BF.MEXISTS k a b", "*2\r\n#f\r\n#f\r\n"),
            ("BF.CARD k", ":0\r\n"),
            ("EXISTS k", ":0\r\n"),
        ],
    );
}

fn card_answers_an_integer(site: &Site) {
    let server = site.start();
    for mut client in [server.raw(), server.raw3()] {
        client.say("DEL k");
        client.say("BF.MADD k a b c a b");
        assert_eq!(client.say("BF.CARD k"), ":3\r\n");
    }
}

/// The integer of `:n` or of the last line of a reply.
fn last_integer(reply: &str) -> u64 {
    let line = reply.trim_end().rsplit("\r\n").next().unwrap();
    line.strip_prefix(':').and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{reply:?}"))
}

fn info_answers_five_fields(site: &Site) {
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
}

fn info_answers_one_field(site: &Site) {
    let server = site.start();
    let (mut resp2, mut resp3) = (server.raw(), server.raw3());
    resp2.say("BF.RESERVE k 0.01 50 EXPANSION 3");
    resp2.say("BF.MADD k a b");
    let size = last_integer(&resp2.say("BF.INFO k SIZE"));
    let fields = [
        ("CAPACITY", "Capacity", 50),
        ("SIZE", "Size", size),
        ("FILTERS", "Number of filters", 1),
        ("ITEMS", "Number of items inserted", 2),
        ("EXPANSION", "Expansion rate", 3),
        ("expansion", "Expansion rate", 3),
        ("iTeMs", "Number of items inserted", 2),
    ];
    for (word, name, value) in fields {
        assert_eq!(resp2.say(&format!("BF.INFO k {word}")), format!("*1\r\n:{value}\r\n"), "{word}");
        assert_eq!(
            resp3.say(&format!("BF.INFO k {word}")),
            format!("%1\r\n+{name}\r\n:{value}\r\n"),
            "{word}"
        );
    }
}

fn info_answers_null_for_the_expansion_of_a_fixed_filter(site: &Site) {
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

fn debug_answers_bulk_strings(site: &Site) {
    let server = site.start();
    let check = |mut client: Raw| {
        client.say("DEL k");
        client.say("BF.MADD k a b");
        let reply = client.say("BF.DEBUG k");
        assert!(reply.starts_with("*2\r\n$6\r\nsize:2\r\n$"), "{reply:?}");
        assert!(reply.contains("\r\nbytes:"), "{reply:?}");
        assert!(reply.ends_with(" ratio:0.0075\r\n"), "{reply:?}");
    };
    check(server.raw());
    check(server.raw3());
}

fn scandump_answers_an_iterator_and_bytes(site: &Site) {
    let server = site.start();
    for mut client in [server.raw(), server.raw3()] {
        client.say("BF.ADD k a");
        let header = client.raw(b"BF.SCANDUMP k 0\r\n");
        assert!(header.starts_with(b"*2\r\n:1\r\n$"), "{}", header.escape_ascii());
        let chunk = client.raw(b"BF.SCANDUMP k 1\r\n");
        assert!(chunk.starts_with(b"*2\r\n:"), "{}", chunk.escape_ascii());
        let line = chunk[5..].split(|byte| *byte == b'\r').next().unwrap();
        let next: u64 = String::from_utf8_lossy(line).parse().unwrap();
        assert!(next > 1, "{next}");
        assert_eq!(client.say(&format!("BF.SCANDUMP k {next}")), "*2\r\n:0\r\n$0\r\n\r\n");
        assert_eq!(client.say("BF.SCANDUMP k -1"), "*2\r\n:0\r\n$0\r\n\r\n");
        assert_eq!(client.say("BF.SCANDUMP k 9223372036854775807"), "*2\r\n:0\r\n$0\r\n\r\n");
    }
}

fn loadchunk_answers_ok(site: &Site) {
    let server = site.start();
    for (mut raw, copy) in [(server.raw(), "resp2"), (server.raw3(), "resp3")] {
        let mut client = server.client();
        client.say("BF.ADD k a");
        let mut iterator = 0;
        while let Some((next, data)) = crate::dump::piece(&mut client, "k", iterator) {
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

fn command_names_and_options_ignore_case(site: &Site) {
    same_transcript(
        site,
        &[
            ("bf.reserve a 0.01 100 expansion 4", "+OK\r\n"),
            ("Bf.Reserve b 0.01 100 nonScaling", "+OK\r\n"),
            ("bf.card a", ":0\r\n"),
        ],
    );
    let server = site.start();
    let mut client = server.client();
    let insert = "bf.insert c capacity 7 error 0.1 expansion 3 nocreate nonscaling items a";
    assert_eq!(client.say(insert), "-ERR not found");
    assert_eq!(client.say(&insert.replace("nocreate ", "")), "[1]");
    assert_eq!(client.say("bf.info c capacity"), "[7]");
    assert_eq!(client.say("bf.mexists c a b"), "[1, 0]");
    // A renamed command must go on working: its name as typed means nothing.
    let server = site.launch().with("rename-command SET \"\"").start();
    assert_eq!(server.client().say("bF.mAdD k a"), "[1]");
}
