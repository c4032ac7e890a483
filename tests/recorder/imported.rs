//! Clients' filters that are recorded.

use crate::plans::{Plan, plan};

/// Every scheme and every encoding, empty or from a string, alone or with own layers behind.
pub(crate) fn imported() -> Vec<Plan> {
    let text = "gr\u{f6}\u{df}e-%d";
    vec![
        plan("imported-empty", 0, &["BF.IMPORT KEY EMPTY SCHEME go-zero BITS 20000"]),
        plan(
            "imported-murmur3-salted",
            300,
            &["BF.IMPORT KEY EMPTY SCHEME murmur3-salted BITS 997 HASHES 5 CAPACITY 100", "BF.MADD KEY {0..300}"],
        ),
        plan(
            "imported-go-zero",
            100,
            &["BF.IMPORT KEY EMPTY SCHEME go-zero BITS 2001", "BF.ADD KEY {0..1}", "BF.MADD KEY {1..100}"],
        ),
        plan(
            "imported-go-zero-source",
            150,
            &[
                "SET KEY:string STRING",
                "BF.IMPORT KEY SOURCE KEY:string SCHEME go-zero BITS 4000",
                "BF.MADD KEY {100..150}",
            ],
        )
        .with_string(&["BF.IMPORT KEY EMPTY SCHEME go-zero BITS 4000", "BF.MADD KEY {0..100}"]),
        plan(
            "imported-fnv32a-salted",
            100,
            &[
                "BF.IMPORT KEY EMPTY SCHEME fnv32a-salted BITS 1000 HASHES 7 CAPACITY 20 EXPANSION 3 ERROR 0.1",
                "BF.MADD KEY {0..100}",
            ],
        ),
        plan(
            "imported-guava-mitz32",
            100,
            &[
                "BF.IMPORT KEY EMPTY SCHEME guava-mitz32 BITS 1001 HASHES 6 ENCODING int32le",
                "BF.MADD KEY {0..100}",
            ],
        )
        .with_items("%d"),
        plan(
            "imported-guava-mitz64",
            250,
            &[
                "BF.IMPORT KEY EMPTY SCHEME guava-mitz64 BITS 1024 HASHES 5 ENCODING int64le CAPACITY 90 EXPANSION 1",
                "BF.MADD KEY {0..250}",
            ],
        )
        .with_items("%d"),
        plan(
            "imported-guava-mitz64-shift",
            60,
            &[
                "BF.IMPORT KEY EMPTY SCHEME guava-mitz64 BITS 45000 HASHES 4 SHIFT 6 ENCODING utf16le NONSCALING",
                "BF.MADD KEY {0..60}",
            ],
        )
        .with_items(text),
        plan(
            "imported-guava-bytes",
            120,
            &["BF.IMPORT KEY GUAVA STRING", "BF.MADD KEY {100..120}"],
        )
        .with_string(&["BF.IMPORT KEY GUAVA guava:clear CAPACITY 1000", "BF.MADD KEY {0..100}"]),
        plan(
            "imported-guava-source",
            260,
            &[
                "SET KEY:string STRING",
                "BF.IMPORT KEY SOURCE KEY:string SCHEME guava CAPACITY 110 ERROR 0.05",
                "BF.MADD KEY {100..260}",
            ],
        )
        .with_string(&["BF.IMPORT KEY GUAVA guava:clear CAPACITY 1000", "BF.MADD KEY {0..100}"]),
        plan(
            "imported-murmur3-x86",
            100,
            &[
                "BF.IMPORT KEY EMPTY SCHEME murmur3-x86-128-mitz64 BITS 1003 HASHES 5 ENCODING int32be",
                "BF.MADD KEY {0..100}",
            ],
        )
        .with_items("%d"),
        plan(
            "imported-csharp-netfx",
            90,
            &[
                "SET KEY:string STRING",
                "BF.IMPORT KEY SOURCE KEY:string SCHEME csharp-netfx-mitz64 BITS 1009 HASHES 5 ORDER lsb NONSCALING",
                "BF.MADD KEY {80..90}",
            ],
        )
        // The same order of bits both times: what is exported is what is read.
        .with_string(&[
            "BF.IMPORT KEY EMPTY SCHEME csharp-netfx-mitz64 BITS 1009 HASHES 5 ORDER lsb",
            "BF.MADD KEY {0..80}",
        ]),
        plan(
            "imported-php",
            200,
            &["BF.IMPORT KEY EMPTY SCHEME php-bkdr-js-sdbm BITS 8192", "BF.MADD KEY {0..200}"],
        ),
        plan(
            "imported-redisson",
            100,
            &["BF.IMPORT KEY EMPTY SCHEME redisson BITS 1400 HASHES 5", "BF.MADD KEY {0..100}"],
        ),
        plan(
            "imported-redisson-kryo5",
            200,
            &[
                "SET KEY:string STRING",
                "BF.IMPORT KEY SOURCE KEY:string SCHEME redisson BITS 1500 HASHES 5 ENCODING kryo5-string",
                "BF.MADD KEY {100..200}",
            ],
        )
        .with_items(text)
        .with_string(&[
            "BF.IMPORT KEY EMPTY SCHEME redisson BITS 1500 HASHES 5 ENCODING kryo5-string",
            "BF.MADD KEY {0..100}",
        ]),
        plan(
            "imported-redisson-json",
            100,
            &[
                "BF.IMPORT KEY EMPTY SCHEME redisson BITS 1501 HASHES 5 ENCODING json-string EXPANSION 0",
                "BF.MADD KEY {0..100}",
            ],
        )
        .with_items(text),
        plan(
            "imported-full",
            60,
            &[
                "BF.IMPORT KEY EMPTY SCHEME go-zero BITS 2000 CAPACITY 70 NONSCALING",
                "BF.MADD KEY {0..60}",
                "BF.MADD KEY {60..90}",
            ],
        )
        .filling_up(),
        plan(
            "imported-in-place-of-another",
            30,
            &[
                "BF.MADD KEY a b c",
                "BF.IMPORT KEY EMPTY SCHEME redisson BITS 900 HASHES 3 REPLACE",
                "BF.MADD KEY {0..30}",
            ],
        ),
        plan(
            "imported-large",
            30,
            &["BF.IMPORT KEY EMPTY SCHEME go-zero BITS 20000003", "BF.MADD KEY {0..30}"],
        ),
        plan(
            "imported-with-paged-behind",
            120,
            &[
                "BF.IMPORT KEY EMPTY SCHEME murmur3-salted BITS 1200 HASHES 4 CAPACITY 100 EXPANSION 32768",
                "BF.MADD KEY {0..120}",
            ],
        ),
    ]
}
