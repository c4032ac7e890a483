//! What is recorded: one filter of every kind, shape and way of coming about that a release can write down.

use std::ops::Range;

use data_encoding::HEXLOWER;
use serde_json::Value;

use crate::imported::imported;
use crate::recording::Items;

/// How one filter comes about.
pub(crate) struct Plan {
    /// Its name and key; the part before the first `-` is its kind.
    pub(crate) name: &'static str,
    pub(crate) items: Items,
    /// Commands, in words that [`Word`] understands.
    pub(crate) lines: &'static [&'static str],
    /// Commands for another server, whose BF.EXPORT then is `STRING` in the lines.
    pub(crate) string: Option<&'static [&'static str]>,
    /// Options of the module.
    pub(crate) options: &'static [&'static str],
    /// A recording of another module and one of its cases, whose DUMP then is `DUMP` in the lines.
    pub(crate) other: Option<(&'static str, &'static str)>,
    /// Whether items may be refused, because the filter is full.
    pub(crate) fills_up: bool,
}

/// A word of a line.
pub(crate) enum Word<'a> {
    /// `KEY`.
    Key,
    /// `KEY:string`: where the client's string is.
    StringKey,
    /// `STRING`: the client's string.
    String,
    /// `DUMP`: the reply of DUMP in another module's recording.
    Dump,
    /// `{0..9}`: the items 0 to 8.
    Items(Range<u64>),
    /// `seed:1`, `seed:fixed`, `guava:clear`: see [`Word::of`].
    Bytes(Vec<u8>),
    /// Anything else, as it is.
    Text(&'a str),
}

/// The seed of valkey-bloom's filters that have none of their own.
const FIXED_SEED: &[u8] = b"590ff522ea7811daa714d8093b3e7bd91d898a733e988887307f97cd28073383";

impl<'a> Word<'a> {
    pub(crate) fn of(word: &'a str) -> Self {
        if let Some(range) = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let (start, end) = range.split_once("..").unwrap();
            return Self::Items(start.parse().unwrap()..end.parse().unwrap());
        }
        match word {
            "KEY" => Self::Key,
            "KEY:string" => Self::StringKey,
            "STRING" => Self::String,
            "DUMP" => Self::Dump,
            "seed:fixed" => Self::Bytes(HEXLOWER.decode(FIXED_SEED).unwrap()),
            // As good as drawn by chance, and the same in every recording.
            "seed:1" => Self::Bytes((0..32u8).map(|byte| byte.wrapping_mul(37) ^ 0xa5).collect()),
            "seed:2" => Self::Bytes((0..32u8).map(|byte| byte.wrapping_mul(101) ^ 0x3c).collect()),
            // `writeTo` of an empty filter: MURMUR128_MITZ_64, 5 hashes, 20 longs.
            "guava:clear" => Self::Bytes([&[1, 5, 0, 0, 0, 20], [0; 160].as_slice()].concat()),
            text => Self::Text(text),
        }
    }
}

pub(crate) fn plan(name: &'static str, items: u64, lines: &'static [&'static str]) -> Plan {
    let items = Items::numbered("item-%d", items);
    Plan { name, items, lines, string: None, options: &[], other: None, fills_up: false }
}

impl Plan {
    pub(crate) fn with_items(mut self, format: &str) -> Self {
        let Items::Numbered { count, .. } = self.items else { unreachable!() };
        self.items = Items::numbered(format, count);
        self
    }

    fn listing(self, items: &[&[u8]]) -> Self {
        Self { items: Items::Listed(items.iter().map(|item| item.to_vec()).collect()), ..self }
    }

    pub(crate) fn with_string(self, lines: &'static [&'static str]) -> Self {
        Self { string: Some(lines), ..self }
    }

    fn with_options(self, options: &'static [&'static str]) -> Self {
        Self { options, ..self }
    }

    pub(crate) fn filling_up(self) -> Self {
        Self { fills_up: true, ..self }
    }
}

/// A filter that another module wrote, and that is written again.
fn rewritten(name: &'static str, file: &'static str, case: &'static str) -> Plan {
    let items = Items::from_json(&other_recording(file, case)["items"]);
    Plan { items, other: Some((file, case)), ..plan(name, 0, &["RESTORE KEY 0 DUMP"]) }
}

/// A case of tests/fixtures/redisbloom-*.json or valkey-bloom-*.json.
pub(crate) fn other_recording(file: &str, case: &str) -> Value {
    let path = format!("{}/tests/fixtures/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let recording: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    recording["cases"].as_array().unwrap().iter().find(|json| json["case"] == case).unwrap().clone()
}

pub(crate) fn plans() -> Vec<Plan> {
    let mut plans = everbloom();
    plans.extend(redisbloom());
    plans.extend(valkeybloom());
    plans.extend(imported());
    plans
}

fn everbloom() -> Vec<Plan> {
    vec![
        plan("everbloom-default", 60, &["BF.ADD KEY {0..1}", "BF.MADD KEY {1..60}"]),
        plan("everbloom-empty", 0, &["BF.RESERVE KEY 0.01 1000"]),
        plan("everbloom-empty-fixed", 0, &["BF.RESERVE KEY 0.001 77 NONSCALING"]),
        plan("everbloom-empty-paged", 0, &["BF.RESERVE KEY 0.01 5000000"]),
        plan(
            "everbloom-binary",
            7,
            &[
                "BF.RESERVE KEY 0.0001 10",
                "BF.ADD KEY {0..1}",
                "BF.MADD KEY {1..5}",
                "BF.ADD KEY {5..6}",
                "BF.ADD KEY {6..7}",
            ],
        )
        .listing(&[b"", b"\0", b"\xff\r\n", b"with space", b"\xc3\x28", &[0; 64], &[b'x'; 300]]),
        // Full, at every rate.
        plan("everbloom-full-0.9", 900, &["BF.RESERVE KEY 0.9 1000 NONSCALING", "BF.MADD KEY {0..900}"]),
        plan("everbloom-full-0.5", 333, &["BF.RESERVE KEY 0.5 333 NONSCALING", "BF.MADD KEY {0..333}"]),
        plan("everbloom-full-0.25", 64, &["BF.RESERVE KEY 0.25 64 NONSCALING", "BF.MADD KEY {0..64}"]),
        plan("everbloom-full-0.1", 97, &["BF.RESERVE KEY 0.1 97 NONSCALING", "BF.MADD KEY {0..97}"]),
        plan("everbloom-full-0.03", 1000, &["BF.RESERVE KEY 0.03 1000 NONSCALING", "BF.MADD KEY {0..1000}"]),
        plan("everbloom-full-0.01", 1001, &["BF.RESERVE KEY 0.01 1001 NONSCALING", "BF.MADD KEY {0..1001}"]),
        plan("everbloom-full-0.001", 500, &["BF.RESERVE KEY 0.001 500 NONSCALING", "BF.MADD KEY {0..500}"]),
        plan("everbloom-full-1e-4", 101, &["BF.RESERVE KEY 0.0001 101 NONSCALING", "BF.MADD KEY {0..101}"]),
        plan("everbloom-full-1e-6", 50, &["BF.RESERVE KEY 1e-6 50 NONSCALING", "BF.MADD KEY {0..50}"]),
        plan("everbloom-full-1e-9", 20, &["BF.RESERVE KEY 1e-9 20 NONSCALING", "BF.MADD KEY {0..20}"]),
        plan("everbloom-full-1e-12", 7, &["BF.RESERVE KEY 1e-12 7 NONSCALING", "BF.MADD KEY {0..7}"]),
        plan("everbloom-full-of-one", 1, &["BF.RESERVE KEY 0.01 1 NONSCALING", "BF.ADD KEY {0..1}"]),
        plan(
            "everbloom-overfull",
            40,
            &[
                "BF.RESERVE KEY 0.02 45 NONSCALING",
                "BF.MADD KEY {0..40}",
                "BF.MADD KEY {30..60}",
                "BF.ADD KEY {60..61}",
            ],
        )
        .filling_up(),
        // Grown, by every kind of factor.
        plan("everbloom-grown-0.9", 300, &["BF.RESERVE KEY 0.9 10", "BF.MADD KEY {0..300}"]),
        plan("everbloom-grown-0.5", 60, &["BF.RESERVE KEY 0.5 7 EXPANSION 1", "BF.MADD KEY {0..60}"]),
        plan("everbloom-grown-by-1", 40, &["BF.RESERVE KEY 0.01 1 EXPANSION 1", "BF.MADD KEY {0..40}"]),
        plan(
            "everbloom-grown-by-2",
            1400,
            &[
                "BF.RESERVE KEY 0.01 100",
                "BF.MADD KEY {0..99}",
                "BF.ADD KEY {99..100}",
                "BF.ADD KEY {100..101}",
                "BF.MADD KEY {101..1400}",
            ],
        ),
        plan("everbloom-grown-by-4", 800, &["BF.RESERVE KEY 0.001 10 EXPANSION 4", "BF.MADD KEY {0..800}"]),
        plan("everbloom-grown-1e-12", 40, &["BF.RESERVE KEY 1e-12 3", "BF.MADD KEY {0..40}"]),
        plan(
            "everbloom-inserted",
            120,
            &[
                "BF.INSERT KEY CAPACITY 20 ERROR 0.05 EXPANSION 3 ITEMS {0..30}",
                "BF.INSERT KEY NOCREATE ITEMS {30..100}",
                "BF.INSERT KEY FORMAT everbloom CAPACITY 9 ITEMS {95..120}",
            ],
        ),
        plan("everbloom-by-other-defaults", 30, &["BF.ADD KEY {0..1}", "BF.MADD KEY {1..30}"])
            .with_options(&["bf.error-rate 0.003", "bf.initial-size 30", "bf.expansion-factor 0"]),
        // Large ones: scattered up to 2 MiB, paged from there on, and of several strings and pieces.
        plan(
            "everbloom-scattered-large",
            30,
            &["BF.RESERVE KEY 0.01 1600000 NONSCALING", "BF.MADD KEY {0..30}"],
        ),
        plan("everbloom-paged", 40, &["BF.RESERVE KEY 0.01 2000000 NONSCALING", "BF.MADD KEY {0..40}"]),
        plan("everbloom-paged-0.9", 40, &["BF.RESERVE KEY 0.9 150000000 NONSCALING", "BF.MADD KEY {0..40}"]),
        plan("everbloom-paged-1e-6", 30, &["BF.RESERVE KEY 1e-6 1000000", "BF.MADD KEY {0..30}"]),
        plan(
            "everbloom-paged-1e-12",
            20,
            &["BF.RESERVE KEY 1e-12 600000 EXPANSION 4", "BF.MADD KEY {0..20}"],
        ),
        plan(
            "everbloom-paged-behind-scattered",
            120,
            &["BF.RESERVE KEY 0.01 100 EXPANSION 32768", "BF.MADD KEY {0..120}"],
        ),
        // Three chunks, of which only the second has set bits: see the test that looks at it.
        plan("everbloom-paged-chunks", 3, &["BF.RESERVE KEY 0.01 30000000 NONSCALING", "BF.MADD KEY {0..3}"])
            .with_items("far-%d"),
    ]
}

fn redisbloom() -> Vec<Plan> {
    vec![
        plan("redisbloom-empty", 0, &["BF.RESERVE KEY 0.01 100 FORMAT redisbloom"]),
        plan("redisbloom-default", 60, &["BF.ADD KEY {0..1}", "BF.MADD KEY {1..60}"])
            .with_options(&["bf.format redisbloom"]),
        plan("redisbloom-grown", 300, &["BF.RESERVE KEY 0.01 10 FORMAT redisbloom", "BF.MADD KEY {0..300}"]),
        plan(
            "redisbloom-grown-by-1",
            60,
            &["BF.RESERVE KEY 0.1 7 EXPANSION 1 FORMAT redisbloom", "BF.MADD KEY {0..60}"],
        ),
        plan(
            "redisbloom-grown-by-4",
            400,
            &["BF.INSERT KEY CAPACITY 9 ERROR 0.001 EXPANSION 4 FORMAT redisbloom ITEMS {0..400}"],
        ),
        plan("redisbloom-0.9", 60, &["BF.RESERVE KEY 0.9 50 FORMAT redisbloom", "BF.MADD KEY {0..60}"]),
        plan("redisbloom-1e-12", 20, &["BF.RESERVE KEY 1e-12 9 FORMAT redisbloom", "BF.MADD KEY {0..20}"]),
        plan(
            "redisbloom-full",
            80,
            &[
                "BF.RESERVE KEY 0.02 85 NONSCALING FORMAT redisbloom",
                "BF.MADD KEY {0..80}",
                "BF.MADD KEY {80..100}",
            ],
        )
        .filling_up(),
        plan(
            "redisbloom-inserted-full",
            5,
            &["BF.INSERT KEY CAPACITY 5 ERROR 0.0001 NONSCALING FORMAT redisbloom ITEMS {0..9}"],
        )
        .filling_up(),
        rewritten("redisbloom-1.0.3-reserved", "redisbloom-1.0.3", "reserved"),
        rewritten("redisbloom-1.0.3-binary", "redisbloom-1.0.3", "binary"),
        rewritten("redisbloom-2.0.3-reserved", "redisbloom-2.0.3", "reserved"),
        rewritten("redisbloom-2.2.0-slow", "redisbloom-2.2.0", "slow"),
        plan(
            "redisbloom-large",
            30,
            &["BF.RESERVE KEY 0.01 2000000 FORMAT redisbloom", "BF.MADD KEY {0..30}"],
        ),
    ]
}

fn valkeybloom() -> Vec<Plan> {
    vec![
        plan("valkeybloom-empty", 0, &["BF.INSERT KEY FORMAT valkey-bloom SEED seed:1"]),
        plan("valkeybloom-default", 60, &["BF.INSERT KEY SEED seed:2 ITEMS {0..1}", "BF.MADD KEY {1..60}"]),
        plan(
            "valkeybloom-fixed-seed",
            60,
            &["BF.INSERT KEY ERROR 0.02 SEED seed:fixed ITEMS {0..1}", "BF.MADD KEY {1..60}"],
        ),
        plan(
            "valkeybloom-grown",
            300,
            &["BF.INSERT KEY CAPACITY 10 ERROR 0.01 SEED seed:1 ITEMS {0..50}", "BF.MADD KEY {50..300}"],
        ),
        plan(
            "valkeybloom-grown-by-1",
            60,
            &["BF.INSERT KEY CAPACITY 9 ERROR 0.3 EXPANSION 1 SEED seed:2 ITEMS {0..60}"],
        ),
        plan(
            "valkeybloom-grown-by-4",
            400,
            &["BF.INSERT KEY CAPACITY 9 ERROR 0.001 EXPANSION 4 TIGHTENING 0.25 SEED seed:1 ITEMS {0..400}"],
        ),
        plan(
            "valkeybloom-1e-12",
            20,
            &["BF.INSERT KEY CAPACITY 9 ERROR 1e-12 TIGHTENING 0.9 SEED seed:2 ITEMS {0..20}"],
        ),
        plan("valkeybloom-0.9", 60, &["BF.INSERT KEY CAPACITY 50 ERROR 0.9 SEED seed:1 ITEMS {0..60}"]),
        plan(
            "valkeybloom-full",
            80,
            &[
                "BF.INSERT KEY CAPACITY 85 ERROR 0.02 NONSCALING SEED seed:2 ITEMS {0..80}",
                "BF.MADD KEY {80..100}",
            ],
        )
        .filling_up(),
        rewritten("valkeybloom-0.1.0-reserved", "valkey-bloom-0.1.0", "reserved"),
        rewritten("valkeybloom-0.1.0-slow", "valkey-bloom-0.1.0", "slow"),
        plan("valkeybloom-large", 30, &["BF.INSERT KEY CAPACITY 2000000 SEED seed:1 ITEMS {0..30}"]),
    ]
}
