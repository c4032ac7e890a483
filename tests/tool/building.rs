//! Tests `build`, `restore` and `load --offline`: filters that are built without a server.

use crate::harness::{Site, Test, tests};
use crate::tool::{Files, json, keys, present, run, url};

pub(crate) const TESTS: &[Test] = tests![
    a_filter_built_by_the_tool_equals_one_built_by_a_server,
    ten_million_items_are_built_sent_and_loaded,
    a_damaged_file_leaves_no_key,
];

fn a_filter_built_by_the_tool_equals_one_built_by_a_server(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    // The filters are a small one, one with enough pages for several threads, and one that grows.
    for (items, options) in [(1000, &[][..]), (400_000, &[]), (5000, &["--capacity", "700"])] {
        let file = files.items("items", items);
        json(&[&["load", &url(&server), "k", &file, "--replace"], options].concat());
        for threads in ["1", "2", "5"] {
            let here = ["load", &url(&server), "here", &file, "--replace", "--offline", "--threads", threads];
            json(&[&here, options].concat());
            assert_eq!(client.digest("here"), client.digest("k"), "{items}");
        }
        // The filter in a file is the same.
        let path = files.path("k.bloom");
        let built = json(&[&["build", &file, "-o", &path], options].concat());
        assert_eq!(built["items"], items, "{built}");
        let sent = json(&["restore", &url(&server), "sent", &path, "--replace", "--ex", "1000s"]);
        assert!((900..=1000).contains(&client.int("TTL sent")), "{sent}");
        // Removes the expiry, which is part of the digest.
        client.say("PERSIST sent");
        assert_eq!(client.digest("sent"), client.digest("k"), "{sent}");
        assert_eq!(run(&["restore", &url(&server), "sent", &path]).code, Some(1));
    }
    assert_eq!(keys(&mut client), ["here", "k", "sent"]);
}

fn ten_million_items_are_built_sent_and_loaded(site: &Site) {
    const ITEMS: u32 = 10_000_000;
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let file = files.items("items", ITEMS);
    let built = json(&["load", &url(&server), "built", &file, "--offline", "--threads", "4"]);
    let loaded = json(&["load", &url(&server), "loaded", &file]);
    for (key, result) in [("built", built), ("loaded", loaded)] {
        assert_eq!(result["items"], ITEMS, "{result}");
        let new = result["new"].as_u64().unwrap();
        // All items are different, so items that are not new are false positives: at most 1 %, at the end of the load.
        assert!(new <= ITEMS.into() && new > u64::from(ITEMS) / 1000 * 995, "{result}");
        assert_eq!(client.int(&format!("BF.CARD {key}")), i64::try_from(new).unwrap());
        let members: Vec<String> = (0..ITEMS).step_by(9973).map(|item| format!("item-{item}")).collect();
        let absent: Vec<String> = (0..10_000).map(|item| format!("absent-{item}")).collect();
        let bytes = |items: &[String]| items.iter().map(|item| item.clone().into_bytes()).collect::<Vec<_>>();
        let (members, absent) = (bytes(&members), bytes(&absent));
        let slices = |items: &[Vec<u8>]| -> usize {
            let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
            present(&mut server.client(), key, &items)
        };
        assert_eq!(slices(&members), members.len(), "{key}");
        // 75 are expected, since the first layer of a scaling filter has 3/4 of 1 %; plus five deviations.
        assert!(slices(&absent) < 120, "{key}");
    }
    assert_eq!(keys(&mut client), ["built", "loaded"]);
}

fn a_damaged_file_leaves_no_key(site: &Site) {
    let server = site.start();
    let files = Files::new();
    let path = files.path("k.bloom");
    json(&["build", &files.items("items", 2_000_000), "-o", &path]);
    let whole = std::fs::read(&path).unwrap();
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    let mut long = whole.clone();
    long[20..28].copy_from_slice(&u64::MAX.to_le_bytes());
    for (what, bytes) in [
        ("truncated", &whole[..whole.len() - 17]),
        ("without an end", &whole[..whole.len() - 1]),
        ("of nothing", &whole[..12]),
        ("altered", &altered),
        ("too long", &long),
        ("of another kind", b"REDIS0011"),
        ("empty", b""),
    ] {
        let ended = run(&["restore", &url(&server), "k", &files.write("damaged", bytes)]);
        assert_eq!(ended.code, Some(1), "{what}: {}", ended.err);
        assert_eq!(keys(&mut server.client()), [""; 0], "{what}");
    }
    // A file that cannot be written is an error.
    let missing = files.path("no/such/directory.bloom");
    assert_eq!(run(&["build", &files.items("few", 10), "-o", &missing]).code, Some(1));
}
