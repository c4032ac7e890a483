//! Out of memory: the client gets an error, and the server keeps running.

use crate::dump;
use crate::harness::{Client, Server, Site, Test, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    out_of_memory_in_bf_reserve_is_an_error,
    out_of_memory_during_growth_is_an_error,
    out_of_memory_in_copy_is_an_error,
    out_of_memory_in_restore_is_an_error,
    a_filter_is_saved_without_a_copy_of_it,
];

/// Starts a server that can hold one filter of a gigabyte, but not two.
fn cramped(site: &Site) -> Server {
    site.launch().with_address_space_mib(1600).start()
}

/// Takes about 960 MB of address space, but no memory until it is used.
const GIGABYTE: &str = "0.01 800000000 NONSCALING";

fn assert_lives(client: &mut Client) {
    assert_eq!(client.say("BF.ADD alive a"), "1");
    assert_eq!(client.say("BF.MEXISTS alive a b"), "[1, 0]");
    assert_eq!(client.int("DEL alive"), 1);
}

fn out_of_memory_in_bf_reserve_is_an_error(site: &Site) {
    let server = cramped(site);
    let mut client = server.client();
    assert_eq!(client.say(&format!("BF.RESERVE first {GIGABYTE}")), "+OK");
    for command in [
        format!("BF.RESERVE second {GIGABYTE}"),
        "BF.RESERVE second 0.000001 4000000000".to_owned(),
        "BF.INSERT second CAPACITY 3000000000 ITEMS a b".to_owned(),
    ] {
        assert_eq!(client.say(&command), "-ERR Insufficient memory to create filter", "{command}");
        assert_eq!(client.int("EXISTS second"), 0);
        assert_lives(&mut client);
    }
    assert_eq!(client.say("BF.MADD first a b"), "[1, 1]");
    client.say("DEL first");
    // Some servers free it in the background.
    wait_until("enough freed", || client.say(&format!("BF.RESERVE second {GIGABYTE}")) == "+OK");
}

fn out_of_memory_during_growth_is_an_error(site: &Site) {
    let server = cramped(site);
    let mut client = server.client();
    // The second layer would have a capacity of 4 * 10^9 items.
    assert_eq!(client.say("BF.RESERVE k 0.01 131072 EXPANSION 32768 FORMAT redisbloom"), "+OK");
    let refused = "-ERR problem inserting into filter";
    for batch in 0..131 {
        let items: Vec<String> = (0..1000).map(|item| format!("{batch}-{item}")).collect();
        client
            .call(&["BF.MADD", "k"].into_iter().chain(items.iter().map(String::as_str)).collect::<Vec<_>>());
    }
    let mut item = 0;
    while client.say(&format!("BF.ADD k more-{item}")) != refused {
        item += 1;
        assert!(item < 100_000, "the filter never filled up");
    }
    let digest = client.digest("k");
    assert_eq!(client.int("BF.CARD k"), 131_072);
    assert_eq!(client.say("BF.INFO k FILTERS"), "[1]");
    assert_eq!(client.say(&format!("BF.MADD k 0-0 more-{item} 130-999")), format!("[0, {refused}, 0]"));
    assert_eq!(client.digest("k"), digest);
    assert_lives(&mut client);
}

fn out_of_memory_in_copy_is_an_error(site: &Site) {
    let server = cramped(site);
    let mut client = server.client();
    assert_eq!(client.say(&format!("BF.RESERVE k {GIGABYTE}")), "+OK");
    let reply = client.say("COPY k copy");
    assert!(reply.starts_with("-ERR"), "{reply}");
    assert_eq!(client.int("EXISTS copy"), 0);
    assert_eq!(client.say("BF.MADD k a b"), "[1, 1]");
    assert_lives(&mut client);
}

fn out_of_memory_in_restore_is_an_error(site: &Site) {
    // An empty filter of any size has a small payload.
    let unlimited = site.start();
    let mut source = unlimited.client();
    assert_eq!(source.say("BF.RESERVE k 0.000001 4000000000"), "+OK");
    let payload = source.bytes(&["DUMP", "k"]);
    assert!(payload.len() < 100_000, "{} bytes", payload.len());
    let (_, header) = dump::chunk(&mut source, "k", 0).unwrap();
    let server = cramped(site);
    let mut client = server.client();
    assert_eq!(client.ask(&[b"RESTORE", b"k".as_slice(), b"0", &payload]), "-ERR Bad data format");
    let reply = dump::load(&mut client, "k", 1, &header);
    assert_eq!(reply, "-ERR Insufficient memory to create filter");
    assert_eq!(client.int("EXISTS k"), 0);
    assert_lives(&mut client);
}

fn a_filter_is_saved_without_a_copy_of_it(site: &Site) {
    if site.hides_memory() {
        return;
    }
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        // A child that is out of memory ends with the server's crash report. The report's memory test is disabled.
        let launch =
            site.launch().expecting("BUG REPORT").expecting("=== ").with("crash-memcheck-enabled no");
        let cramped = launch.with_address_space_mib(900).with("rdbcompression no");
        let server = cramped.start();
        let mut client = server.client();
        let make = format!("BF.RESERVE k 0.01 400000000 NONSCALING FORMAT {format}");
        assert_eq!(client.say(&make), "+OK");
        client.say("BF.ADD k a");
        assert_eq!(client.say("SAVE"), "+OK", "{format}");
        // To compress a string, the server allocates its length again. The strings of everbloom are short.
        client.say("CONFIG SET rdbcompression yes");
        assert!(client.say("BGSAVE").starts_with('+'));
        wait_until("the save ends", || client.info_number("rdb_bgsave_in_progress") == 0);
        let status = client.info("rdb_last_bgsave_status");
        assert_eq!(status.as_deref() == Some("ok"), format == "everbloom", "{format}: {status:?}");
        assert_lives(&mut client);
        client.say("CONFIG SET rdbcompression no");
        client.say("BF.ADD k b");
        assert_eq!(client.say("SAVE"), "+OK", "{format}");
        let server = server.restart_as(|cramped| cramped.with_address_space_mib(4000));
        let mut client = server.client();
        assert_eq!(client.say("BF.MEXISTS k a b c"), "[1, 1, 0]", "{format}");
    }
}
