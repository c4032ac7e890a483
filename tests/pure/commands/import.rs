//! BF.IMPORT and BF.EXPORT: replicated commands, growth, and quoted words.

use crate::support::server::{Server, assert_dialogue};

#[test]
fn an_imported_filter_grows_by_a_table_of_its_error_rate() {
    let mut server = Server::new();
    let import = "EMPTY SCHEME guava-mitz64 BITS 4096 HASHES 4 CAPACITY 2 ERROR 0.01 EXPANSION 7";
    server.must(&format!("BF.IMPORT k {import}"));
    server.add("k", "first-", 0..16);
    let dialogue = [
        ("BF.INFO k FILTERS", "*1 :2"),
        ("BF.INFO k EXPANSION", "*1 :7"),
        ("BF.INFO k TABLE-ITEMS", "*1 :14"),
        ("BF.INFO k CAPACITY", "*1 :114"),
    ];
    assert_dialogue(&mut server, &dialogue);
    let debug = server.run("BF.DEBUG k");
    let lines: Vec<&str> = debug.split(" $").collect();
    // The rate of the client's layer follows from its fill: (8 / 4096)^4. That of the table follows from its entries.
    assert!(lines[2].ends_with(" ratio:1.45519e-11"), "{debug}");
    assert!(lines[3].contains(" slots:14 size:14 void:0 saturated:0 ratio:0.0"), "{debug}");
    server.add("k", "more-", 0..4000);
    let found = server.found("k", "absent-", 0..20_000);
    assert!(found < 200, "{found}");
}

#[test]
fn an_import_that_the_next_new_item_makes_unexportable_is_logged() {
    // The string has half of its 6 bits set, which is the default capacity: 4 items.
    for (options, is_logged) in [
        ("", true),
        (" CAPACITY 4", true),
        (" CAPACITY 1", true),
        (" CAPACITY 5", false),
        (" NONSCALING", false),
    ] {
        let mut server = Server::new();
        server.must(&format!("BF.IMPORT k SOURCE string SCHEME murmur3-salted BITS 6 HASHES 1{options}"));
        assert_eq!(server.run("BF.EXPORT k"), "$4", "{options}");
        let capacity = server.run("BF.INFO k CAPACITY").replace("*1 :", "");
        let line = format!(
            "'k' has 4 items and a capacity of {capacity}: after the first new item BF.EXPORT refuses it; to keep \
             the way back, import it with a CAPACITY above 4"
        );
        assert_eq!(server.log, if is_logged { vec![line] } else { vec![] }, "{options}");
        // Items that are found already change nothing.
        server.log.clear();
        let mut replies = (0..).map(|item| server.run(&format!("BF.ADD k item-{item}")));
        let first_new = replies.find(|reply| reply != "#f").unwrap();
        assert_eq!(first_new.starts_with("-ERR non scaling"), options == " NONSCALING", "{first_new}");
        let exported = server.run("BF.EXPORT k");
        assert_eq!(exported.starts_with("-ERR the filter has grown"), is_logged, "{options}: {exported}");
        assert!(server.log.iter().all(|line| !line.contains("BF.EXPORT")), "{:?}", server.log);
    }
    let mut server = Server::new();
    server.must("BF.IMPORT k EMPTY SCHEME go-zero BITS 2000");
    assert!(server.log.is_empty());
}

#[test]
fn a_long_word_is_quoted_by_its_start() {
    let word = "x".repeat(1 << 20);
    for line in ["BF.IMPORT k EMPTY SCHEME", "BF.IMPORT k EMPTY"] {
        let reply = Server::new().run(&format!("{line} {word}"));
        let quoted = reply.split('\'').nth(1).unwrap();
        assert!(reply.starts_with("-ERR unknown ") && quoted == &word[..128], "{line}: {reply}");
    }
}

#[test]
fn all_options_fit_in_one_command() {
    let mut server = Server::new();
    server.must(
        "BF.IMPORT k SOURCE string SCHEME murmur3-salted BITS 64 HASHES 3 CAPACITY 10 SHIFT 0 ORDER msb ENCODING raw \
         ERROR 0.01 EXPANSION 2 REPLACE EX 60",
    );
}
