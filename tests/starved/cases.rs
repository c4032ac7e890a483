//! Every command, on filters of every kind. The arrays of the filters are large enough for their allocations to fail.

use everbloom_filter::{Format, UnknownMemory};
use everbloom_format::chunks::Rewritten;
use everbloom_format::filter::rewrite;

use crate::support::saved::chunks;
use crate::support::server::{NOW_MS, Server};
use crate::support::slices;

/// Returns a client's bitmap. The key `s` of the server has it.
fn client_string() -> Vec<u8> {
    (0..10_000u32).map(|number| (number * 31 / 8) as u8).collect()
}

/// A command, and the filters that exist before it.
pub(crate) struct Case {
    pub(crate) name: String,
    /// The format of filters that are created without one.
    format: Format,
    pub(crate) before: Vec<Vec<Vec<u8>>>,
    /// The time between the commands before it and the command.
    later_ms: u64,
    pub(crate) words: Vec<Vec<u8>>,
}

impl Case {
    /// Returns a server with the filters and strings that the command needs.
    pub(crate) fn prepared(&self) -> Server {
        let mut server = Server::new();
        server.settings.format = self.format;
        server.strings.insert(b"s".to_vec(), client_string());
        for line in &self.before {
            let reply = server.call(&slices(line));
            assert!(!reply.starts_with('-'), "{}: {reply}", self.name);
        }
        server.now_ms += self.later_ms;
        server
    }
}

/// Returns commands that create a filter of every kind at `k`. Most of these filters have a few items less than their
/// capacity, so the batches of 40 items in [`cases`] exceed it.
pub(crate) fn filters() -> Vec<(&'static str, Vec<String>)> {
    let fill = |key: &str| format!("BF.MADD {key} {}", numbered("item", 5990));
    let made = |line: &str| vec![line.to_owned(), fill("k")];
    vec![
        ("own", made("BF.RESERVE k 0.01 6000")),
        ("unreserved", vec![fill("k")]),
        ("fixed", made("BF.RESERVE k 0.01 6000 NONSCALING")),
        ("saturating", made("BF.RESERVE k 0.01 6000 NONSCALING SATURATE")),
        ("keyed", made("BF.RESERVE k 0.01 6000 KEYED")),
        ("window", made("BF.RESERVE k 0.01 6000 WINDOW 60")),
        ("counting", made("BF.RESERVE k 0.01 6000 COUNTING")),
        ("keyed counting", made("BF.RESERVE k 0.01 6000 COUNTING KEYED")),
        ("keyed window", made("BF.RESERVE k 0.01 6000 WINDOW 60 KEYED")),
        ("redisbloom", made("BF.RESERVE k 0.01 6000 FORMAT redisbloom")),
        ("valkey-bloom", made("BF.RESERVE k 0.01 6000 FORMAT valkey-bloom")),
        ("grown", made("BF.RESERVE k 0.01 2000")),
        ("client", made("BF.IMPORT k EMPTY SCHEME murmur3-salted BITS 80000 HASHES 7 CAPACITY 6000")),
        (
            "union",
            then(
                &[],
                &[
                    "BF.RESERVE r 0.001 6000 FORMAT redisbloom",
                    "BF.INSERT y CAPACITY 6000 ERROR 0.001 KEYED ITEMS a b c",
                    "BF.RESERVE k 0.1 6000",
                    &fill("r"),
                    "BF.MERGE k r y FORCE",
                    &fill("k"),
                ],
            ),
        ),
        ("paged", then(&[], &["BF.RESERVE k 0.01 3000000", "BF.MADD k a b c"])),
    ]
}

/// Options that create a filter of each format and of other kinds.
const CREATIONS: [&str; 7] = [
    "FORMAT everbloom",
    "FORMAT redisbloom",
    "FORMAT valkey-bloom",
    "COUNTING",
    "KEYED",
    "WINDOW 60",
    "NONSCALING SATURATE",
];

/// The name of cases with a cuckoo filter of RedisBloom.
const CUCKOO: &str = "cuckoo";

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns the command lines `before`, followed by `lines`.
fn then(before: &[String], lines: &[&str]) -> Vec<String> {
    before.iter().cloned().chain(lines.iter().map(|line| (*line).to_owned())).collect()
}

/// Returns `count` items of this name, numbered from 0, as words of a command line.
fn numbered(name: &str, count: u32) -> String {
    (0..count).map(|number| format!("{name}-{number}")).collect::<Vec<_>>().join(" ")
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut put = |name: &str, before: &[String], line: Vec<Vec<u8>>| {
        let before = before.iter().map(|line| words(line)).collect();
        let format = if name == CUCKOO { Format::RedisBloom } else { Format::Everbloom };
        let name = format!("{name}: {}", line[0].escape_ascii());
        cases.push(Case { name, format, before, later_ms: 0, words: line });
    };
    for creation in CREATIONS {
        put(creation, &[], words(&format!("BF.RESERVE n 0.01 9000 {creation}")));
        put(creation, &[], words(&format!("BF.INSERT n CAPACITY 9000 {creation} ITEMS a b")));
    }
    let more = numbered("more", 40);
    for (name, before) in filters() {
        for line in [
            &format!("BF.MADD k {more}"),
            &format!("BF.INSERT k ITEMS {more}"),
            "BF.ADD k another",
            "BF.EXISTS k another",
            "BF.MEXISTS k another item-3",
            "BF.INFO k",
            "BF.STATS k",
            "BF.BULKADD k NOCREATE LINES item-3",
            "BF.BULKEXISTS k LINES item-3",
            "BF.CARD k",
            "BF.TTL k another",
            "BF.PTTL k another",
            "BF.DEBUG k",
            "BF.CLEAR k",
            "BF.SCANDUMP k 0",
        ] {
            put(name, &before, words(line));
        }
        match name {
            // Segments are joined and become smaller.
            "counting" | "keyed counting" => {
                put(name, &before, words(&format!("BF.DEL k {}", numbered("item", 5000))));
            }
            "client" => put(name, &before, words("BF.EXPORT k")),
            _ => {}
        }
        put(name, &before, words("BF.MERGE new k"));
        let has_bits = !name.ends_with("counting") && !name.ends_with("window");
        if has_bits {
            put(name, &then(&before, &["BF.RESERVE dest 0.1 700"]), words("BF.MERGE dest k FORCE"));
            let other = then(&before, &["BF.RESERVE e 0.01 9 FORMAT valkey-bloom"]);
            put(name, &other, words("BF.MERGE new k e FORCE"));
        }
        if !has_bits || name == "unreserved" {
            put(name, &then(&before, &["BF.MERGE e k", "BF.MADD e p q"]), words("BF.MERGE k e FORCE"));
        }
        load(name, &before, &mut put);
    }
    // Each list of these sources is large enough to be refused.
    let [bits, entries] = ["BF.INSERT KEY CAPACITY 9 ERROR 0.01 ITEMS KEY", "BF.ADD KEY KEY"];
    // The tables of 600 entries are united in steps, those of 140 at once.
    for (create, count) in [(bits, 600), (entries, 600), (entries, 140)] {
        let keys: Vec<String> = (0..count).map(|number| format!("s{number}")).collect();
        let before: Vec<String> = keys.iter().map(|key| create.replace("KEY", key)).collect();
        let sources = keys.join(" ");
        put("many sources", &before, words(&format!("BF.MERGE new {sources} FORCE")));
        let before = then(&before, &[&create.replace("KEY", "dest")]);
        put("many sources", &before, words(&format!("BF.MERGE dest {sources} FORCE")));
    }
    for creation in CREATIONS.into_iter().filter(|creation| !creation.contains("NONSCALING")) {
        let reserve = format!("BF.RESERVE k 0.01 1 EXPANSION 20000 {creation}");
        let full = [reserve, "BF.ADD k a".to_owned()];
        put("full", &full, words("BF.ADD k b"));
        put("full", &full, words("BF.MADD k a b c"));
    }
    // For more than 1024 items, a command allocates the memory to replicate them before it adds the first.
    let many = numbered("many", 1200);
    put("many items", &[], words(&format!("BF.MADD k {many}")));
    put("many items", &[], words(&format!("BF.INSERT k CAPACITY 9000 ITEMS {many}")));
    put("many items", &[], words(&format!("BF.BULKADD k LINES {}", many.replace(' ', "\n"))));
    // The server copies a reply of this length, so the command allocates memory for the copy in advance.
    for (before, command) in [(0, "BULKADD"), (1, "BULKADD"), (0, "BULKEXISTS"), (1, "BULKEXISTS")] {
        let before = &["BF.RESERVE k 0.01 100000".to_owned()][..before];
        put("many items", before, words(&format!("BF.{command} k FIXED 1 {}", "k".repeat(70_000))));
    }
    for import in [
        "SOURCE s SCHEME murmur3-salted BITS 80000 HASHES 7",
        "SOURCE s SCHEME go-zero BITS 80000 ORDER lsb",
        "EMPTY SCHEME guava-mitz64 BITS 80000 HASHES 3",
    ] {
        put(import, &[], words(&format!("BF.IMPORT n {import}")));
    }
    cuckoo_commands(&mut put);
    let guava = [&[1, 5][..], &1250u32.to_be_bytes(), &client_string()].concat();
    put("guava", &[], [words("BF.IMPORT n GUAVA"), vec![guava]].concat());
    cases.extend(sweeps());
    cases
}

/// The entries of a window between two sweeps: a sweep joins two segments, or compacts one to which no item was added.
const SWEEP_ENTRIES: u64 = 256;

/// Returns adds of which one sweeps the segments of a window.
fn sweeps() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, items) in [("one segment", 6000), ("segments", 24_000)] {
        // Old items expire between the commands, so that segments are joined, or none does.
        for (old, later_ms) in [(items / 6 * 5, 20_000), (0, 50_000)] {
            let old_items = format!("BF.INSERT k AT {} ITEMS {}", NOW_MS - 50_000, numbered("old", old));
            let live_items = format!("BF.MADD k {}", numbered("live", items - old));
            let mut before = vec![words("BF.RESERVE k 0.01 6000 WINDOW 60"), words(&live_items)];
            before.extend((old > 0).then(|| words(&old_items)));
            let mut server = Server::new();
            before.iter().for_each(|line| assert!(!server.call(&slices(line)).contains("-ERR")));
            // The next items are the last ones before a sweep.
            while (server.filter("k").table().unwrap().counts().entries + 3) % SWEEP_ENTRIES > 3 {
                before.push(words(&format!("BF.ADD k next-{}", before.len())));
                server.call(&slices(&before[before.len() - 1]));
            }
            let name = format!("window of {name}, {old} items expire");
            let words = words(&format!("BF.MADD k {}", numbered("new", 10)));
            cases.push(Case { name, format: Format::Everbloom, before, later_ms, words });
        }
    }
    cases
}

/// Filters of fewer items have smaller arrays and segments.
const FIRST: u32 = 3000;

/// Returns commands after which a filter is about to change its size, and the item with which it does so. From the filter
/// that the lines `before` create, `many` takes all items before it and `one` takes the item.
fn resizing(name: &str, before: &[String], many: &str, one: &str) -> (Vec<String>, String) {
    let mut server = Server::new();
    server.settings.format = if name == CUCKOO { Format::RedisBloom } else { Format::Everbloom };
    before.iter().for_each(|line| drop(server.run(line)));
    server.run(&format!("{many} {}", numbered("item", FIRST)));
    let size = |server: &mut Server| server.run("CF.INFO k").split(' ').nth(2).map(str::to_owned);
    let first = size(&mut server);
    let number = (FIRST..9000).find(|number| {
        server.run(&format!("{one} item-{number}"));
        size(&mut server) != first
    });
    let number = number.unwrap_or_else(|| panic!("{name} keeps its size"));
    (then(before, &[&format!("{many} {}", numbered("item", number))]), format!("item-{number}"))
}

/// Adds cases of the CF.* commands, on a cuckoo filter of RedisBloom and on a counting filter.
fn cuckoo_commands(put: &mut impl FnMut(&str, &[String], Vec<Vec<u8>>)) {
    for name in [CUCKOO, "counting occurrences"] {
        let fill = format!("CF.INSERT k ITEMS {}", numbered("item", 5990));
        let before = ["CF.RESERVE k 6000".to_owned(), fill];
        let more = numbered("more", 3000);
        for line in [
            "CF.ADD k another",
            "CF.EXISTS k another",
            "CF.MEXISTS k another item-3",
            "CF.COUNT k item-3",
            "CF.INFO k",
            "CF.DEBUG k",
            "CF.COMPACT k",
            "CF.SCANDUMP k 0",
            &format!("CF.INSERT k ITEMS {more}"),
            &format!("CF.INSERTNX k ITEMS {more}"),
        ] {
            put(name, &before, words(line));
        }
        let mut server = Server::new();
        then(&before, &["CF.SCANDUMP k 0"]).iter().for_each(|line| drop(server.run(line)));
        let next = words(&format!("CF.SCANDUMP k {}", &server.reply[1][1..]));
        put(name, &then(&before, &["CF.SCANDUMP k 0"]), next);
        put(name, &[], words("CF.RESERVE n 9000"));
        put(name, &[], words("CF.RESERVE n 9000 EXPANSION 0"));
        // The next item adds an array, or splits a segment.
        let resizing = resizing(name, &["CF.RESERVE k 6000".to_owned()], "CF.INSERT k ITEMS", "CF.ADD k");
        for command in ["CF.ADD", "CF.ADDNX"] {
            put(name, &resizing.0, words(&format!("{command} k {}", resizing.1)));
        }
        if name != CUCKOO {
            // The next deletion joins segments.
            let (before, item) = self::resizing(name, &before, "BF.DEL k", "CF.DEL k");
            put(name, &before, words(&format!("CF.DEL k {item}")));
        }
    }
    let header = [9u64, 8192, 0, 1].map(u64::to_le_bytes).concat();
    let header = [&header[..], &[2, 0, 20, 0, 1, 0]].concat();
    put(CUCKOO, &[], [words("CF.LOADCHUNK n 1"), vec![header]].concat());
}

/// Adds cases that dump a chunk of a filter, and that load its header and its blob.
fn load(name: &str, before: &[String], put: &mut impl FnMut(&str, &[String], Vec<Vec<u8>>)) {
    let mut server = Server::new();
    before.iter().for_each(|line| drop(server.run(line)));
    server.run("BF.SCANDUMP k 0");
    put(
        name,
        &then(before, &["BF.SCANDUMP k 0"]),
        words(&format!("BF.SCANDUMP k {}", &server.reply[1][1..])),
    );
    // The changes since a position.
    let mut followed = Server::new();
    let followed_before = then(before, &["BF.FOLLOW k"]);
    followed_before.iter().for_each(|line| drop(followed.run(line)));
    let [id, offset] = [1, 2].map(|place: usize| followed.reply[place][1..].to_owned());
    let more = format!("BF.MADD k {}", numbered("more", 3000));
    put(name, &then(&followed_before, &[&more]), words(&format!("BF.FOLLOW k {id} {offset}")));
    let filter = server.take("k");
    put(name, &[], [words("BF.LOADCHUNK n 1"), vec![chunks(&filter, 4).swap_remove(0).1]].concat());
    rewrite(&filter, UnknownMemory, 1, &mut |command| {
        if let Rewritten::Blob(blob) = command {
            put(name, &[], [words("BF.LOAD n"), vec![blob.to_vec()]].concat());
        }
    })
    .unwrap();
}
