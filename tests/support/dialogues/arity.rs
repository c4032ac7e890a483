//! Commands with too few or too many arguments.

/// Names of commands, each with lists of too few or too many arguments.
const WRONG_ARITY: &[(&str, &[&str])] = &[
    ("bf.reserve", &["", "k", "k 0.01", "k 0.01 100 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"]),
    ("bf.add", &["", "k", "k a b"]),
    (
        "cf.reserve",
        &["", "k", "k 100 BUCKETSIZE", "k 100 KEYED ERROR", "k 100 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"],
    ),
    ("cf.add", &["", "k", "k a b"]),
    ("cf.addnx", &["", "k", "k a b"]),
    ("cf.insert", &["", "k", "k ITEMS", "k CAPACITY 100", "k NOCREATE CAPACITY", "k CAPACITY 100 ITEMS"]),
    ("cf.insertnx", &["", "k", "k ITEMS"]),
    ("cf.exists", &["", "k", "k a b"]),
    ("cf.mexists", &["", "k"]),
    ("cf.count", &["", "k", "k a b"]),
    ("cf.del", &["", "k", "k a b"]),
    ("cf.info", &["", "k Size"]),
    ("cf.debug", &["", "k x"]),
    ("cf.compact", &["", "k x"]),
    ("cf.scandump", &["", "k", "k 0 x"]),
    ("cf.loadchunk", &["", "k", "k 1", "k 1 x y"]),
    ("bf.madd", &["", "k"]),
    (
        "bf.insert",
        &[
            "",
            "k",
            "k ITEMS",
            "k CAPACITY 100",
            "k CAPACITY 100 ITEMS",
            "k NOCREATE CAPACITY",
            "k NOCREATE ERROR",
            "k NOCREATE EXPANSION",
            "k NOCREATE NONSCALING",
        ],
    ),
    ("bf.del", &["", "k"]),
    ("bf.exists", &["", "k", "k a b"]),
    ("bf.mexists", &["", "k"]),
    ("bf.bulkadd", &["k LINES", "k FIXED 1", "k data", "k COUNT NOCREATE", "k FIXED 3"]),
    ("bf.bulkexists", &["k a"]),
    ("bf.info", &["", "k CAPACITY SIZE"]),
    ("bf.card", &["", "k k"]),
    ("bf.stats", &["", "k FILL"]),
    ("bf.debug", &["", "k k"]),
    ("bf.clear", &["", "k k"]),
    ("bf.scandump", &["", "k", "k 0 0"]),
    ("bf.loadchunk", &["", "k", "k 1", "k 1 data data"]),
    ("bf.load", &["", "k", "k blob blob"]),
    ("bf.import", &["k EMPTY"]),
    ("bf.merge", &["a"]),
];

/// Returns lines of commands with too few or too many arguments.
pub fn wrong_arity() -> impl Iterator<Item = String> {
    let lines = |(name, rests): &(&str, &'static [&str])| {
        let name = name.to_string();
        rests.iter().map(move |rest| format!("{name} {rest}").trim_end().to_owned())
    };
    WRONG_ARITY.iter().flat_map(lines)
}

/// Returns the error of a command with too few or too many arguments.
pub fn arity_error(line: &str) -> String {
    let name = line.split(' ').next().unwrap_or_default().to_lowercase();
    format!("-ERR wrong number of arguments for '{name}' command")
}
