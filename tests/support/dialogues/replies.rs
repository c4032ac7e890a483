//! Replies of successful commands, and of adds to a full filter.

use super::Dialogue;

const FULL: &str = "-ERR non scaling filter is full";

/// Filters are created, also with commands in lower case.
pub(crate) const RESERVED: Dialogue = &[
    ("BF.RESERVE a 0.01 100", "+OK"),
    ("bf.reserve b 0.01 100 expansion 4", "+OK"),
    ("Bf.Reserve c 0.01 100 nonScaling", "+OK"),
    ("BF.RESERVE d 0.01 100 NONSCALING EXPANSION 0", "+OK"),
    ("BF.RESERVE e 0.01 100 EXPANSION 0 NONSCALING", "+OK"),
    ("bf.card a", ":0"),
    ("BF.INFO a BITS-PER-ITEM", "*1 _"),
    ("BF.INFO a FILL", "*1 ,0"),
    ("BF.INFO b EXPANSION", "*1 :4"),
    ("BF.INFO c EXPANSION", "*1 _"),
    ("BF.INFO d EXPANSION", "*1 _"),
    ("BF.INFO e EXPANSION", "*1 _"),
    ("bf.insert f capacity 7 error 0.1 expansion 3 nocreate nonscaling items a", "-ERR not found"),
    ("bf.insert f capacity 7 error 0.1 expansion 3 nonscaling items a", "*1 #t"),
    ("bf.info f capacity", "*1 :7"),
    // Keys are not options, and after ITEMS everything is an item.
    ("BF.RESERVE NONSCALING 0.01 100", "+OK"),
    ("BF.INFO NONSCALING EXPANSION", "*1 :2"),
    ("BF.RESERVE EXPANSION 0.01 100", "+OK"),
    ("BF.INFO EXPANSION EXPANSION", "*1 :2"),
    ("BF.INSERT ITEMS ITEMS ITEMS", "*1 #t"),
    ("BF.EXISTS ITEMS ITEMS", "#t"),
    ("BF.INSERT g ITEMS NOCREATE ITEMS CAPACITY", "*3 #t #t #t"),
    ("BF.RESERVE h 0.01 100 IFNOTEXISTS", ":1"),
    ("BF.RESERVE h 0.5 7 ifnotexists NONSCALING EX 9", ":0"),
    ("BF.RESERVE h 2 100 IFNOTEXISTS", "-ERR error rate must be in the range (0.000000, 1.000000)"),
    ("BF.INFO h CAPACITY", "*1 :100"),
];

/// Items are added, looked up and counted.
pub(crate) const ADDED: Dialogue = &[
    ("BF.EXISTS k a", "#f"),
    ("BF.MEXISTS k a b", "*2 #f #f"),
    ("BF.CARD k", ":0"),
    ("BF.ADD k a", "#t"),
    ("BF.ADD k a", "#f"),
    ("BF.MADD k a b a", "*3 #f #t #f"),
    ("BF.MADD k a", "*1 #f"),
    ("BF.MADD k c", "*1 #t"),
    ("BF.EXISTS k a", "#t"),
    ("BF.EXISTS k z", "#f"),
    ("BF.MEXISTS k a z b", "*3 #t #f #t"),
    ("BF.CARD k", ":3"),
    ("BF.INFO k ITEMS", "*1 :3"),
    ("BF.INSERT k ITEMS d", "*1 #t"),
    ("BF.INSERT k ITEMS d e e", "*3 #f #t #f"),
    ("BF.INSERT n CAPACITY 10 ERROR 0.1 EXPANSION 3 ITEMS a", "*1 #t"),
    ("BF.INSERT n NOCREATE ITEMS a", "*1 #f"),
    ("BF.INFO n expansion", "*1 :3"),
    ("BF.INFO n iTeMs", "*1 :1"),
    ("BF.INFO n BITS-PER-ITEM", "*1 ,64"),
    ("BF.INSERT v CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT valkey-bloom ITEMS a", "*1 #t"),
    ("BF.INFO v MAXSCALEDCAPACITY", "*1 :26214300"),
    ("BF.INFO v ERROR-RATE-MAX", "*1 _"),
];

/// A full fixed filter: the reply ends at the item that is refused.
pub(crate) const FULL_FIXED: Dialogue = &[
    ("BF.RESERVE k 0.0001 2 NONSCALING", "+OK"),
    ("BF.MADD k a a b c d", "*4 #t #f #t -ERR non scaling filter is full"),
    // An item that is present takes no capacity.
    ("BF.MADD k a b", "*2 #f #f"),
    ("BF.ADD k b", "#f"),
    ("BF.ADD k c", FULL),
    ("BF.INSERT k ITEMS c", "*1 -ERR non scaling filter is full"),
    ("BF.INSERT n CAPACITY 1 NONSCALING ITEMS x y z", "*2 #t -ERR non scaling filter is full"),
    ("BF.CARD n", ":1"),
    // Each notation for no expansion makes a filter of fixed size.
    ("BF.RESERVE a 0.01 1 EXPANSION 0", "+OK"),
    ("BF.ADD a x", "#t"),
    ("BF.ADD a y", FULL),
    ("BF.INSERT b CAPACITY 1 EXPANSION 0 ITEMS x", "*1 #t"),
    ("BF.ADD b y", FULL),
    ("BF.INSERT c NONSCALING EXPANSION 4 CAPACITY 1 ITEMS x", "*1 #t"),
    ("BF.ADD c y", FULL),
    ("BF.INSERT d EXPANSION 4 NONSCALING CAPACITY 1 ITEMS x", "*1 #t"),
    ("BF.INFO d EXPANSION", "*1 _"),
    ("BF.ADD d y", FULL),
];

/// A repeated option replaces the one before it, and the order of options does not matter.
pub(crate) const OPTIONS: Dialogue = &[
    ("BF.INSERT k CAPACITY 5 ERROR 0.5 EXPANSION 3 CAPACITY 7 ERROR 0.25 EXPANSION 4 ITEMS a", "*1 #t"),
    ("BF.INFO k CAPACITY", "*1 :7"),
    ("BF.INFO k EXPANSION", "*1 :4"),
    ("BF.INFO k ERROR-RATE", "*1 ,0.25"),
    ("BF.INSERT n EXPANSION 0 EXPANSION 6 ITEMS a", "*1 #t"),
    ("BF.INFO n EXPANSION", "*1 :6"),
    ("BF.INSERT m capacity 3 CAPACITY 5 error 0.1 nonscaling EXPANSION 7 items ITEMS a", "*2 #t #t"),
    ("BF.INFO m CAPACITY", "*1 :5"),
    ("BF.INFO m EXPANSION", "*1 _"),
    ("BF.RESERVE largest 0.01 2 EXPANSION 32768", "+OK"),
    ("BF.MADD largest a b c", "*3 #t #t #t"),
    // EXPANSION does not decide how the filter grows.
    ("BF.INFO largest CAPACITY", "*1 :114"),
    ("BF.INFO largest FILTERS", "*1 :2"),
];

/// An unreserved filter is a table. A reserved filter adds items beyond its capacity to a table.
pub(crate) const TABLES: Dialogue = &[
    ("BF.MADD k a b", "*2 #t #t"),
    ("BF.INFO k CAPACITY", "*1 :100"),
    ("BF.INFO k FILTERS", "*1 :1"),
    ("BF.INFO k EXPANSION", "*1 :2"),
    ("BF.INFO k ADVICE", "*1 _"),
    ("BF.INSERT l UNRESERVED CAPACITY 3 ERROR 0.0001 ITEMS a b c d e", "*5 #t #t #t #t #t"),
    ("BF.INFO l CAPACITY", "*1 :112"),
    ("BF.INFO l FILTERS", "*1 :1"),
    ("BF.RESERVE r 0.0001 2 EXPANSION 7", "+OK"),
    ("BF.MADD r a b c d a", "*5 #t #t #t #t #f"),
    ("BF.INFO r CAPACITY", "*1 :114"),
    ("BF.INFO r FILTERS", "*1 :2"),
    ("BF.INFO r EXPANSION", "*1 :7"),
    ("BF.MEXISTS r a b c d e", "*5 #t #t #t #t #f"),
    ("BF.CARD r", ":4"),
];

/// A window takes more items than its capacity, unless it is fixed.
pub(crate) const WINDOWS: Dialogue = &[
    ("BF.INSERT w CAPACITY 3 ERROR 0.0001 WINDOW 3600 EXPANSION 7 ITEMS a b c d e a", "*6 #t #t #t #t #t #f"),
    ("BF.INFO w CAPACITY", "*1 :5"),
    ("BF.INFO w FILTERS", "*1 :1"),
    ("BF.INFO w EXPANSION", "*1 :7"),
    ("BF.INFO w WINDOW", "*1 :3600000"),
    ("BF.CARD w", ":5"),
    ("BF.RESERVE f 0.0001 2 WINDOW 3600 NONSCALING", "+OK"),
    ("BF.MADD f a b c d", "*3 #t #t -ERR non scaling filter is full"),
    ("BF.ADD f a", "#f"),
    ("BF.ADD f c", FULL),
    ("BF.MEXISTS f a b c", "*3 #t #t #f"),
    ("BF.INFO f EXPANSION", "*1 _"),
];

/// Items with lives of their own, items that are added only if they are absent, and items seen within a time.
pub(crate) const LIVES: Dialogue = &[
    ("BF.INSERT w CAPACITY 1000 ERROR 0.0001 WINDOW 700 IFABSENT LIFE 100 ITEMS a b a", "*3 #t #t #f"),
    ("BF.ADD w c LIFE 100", "#t"),
    ("bf.add w c life 300 ifabsent", "#f"),
    ("BF.ADD w c PLIFE 300000", "#f"),
    ("BF.ADD w d PLIFE 700000 IFABSENT", "#t"),
    ("BF.BULKADD w NOCREATE IFABSENT LIFE 60 COUNT LINES e\nf\ne", ":2"),
    ("BF.BULKADD w LIFE 60 FIXED 1 ag", "$01"),
    ("BF.MEXISTS w a b c d e f g h", "*8 #t #t #t #t #t #t #t #f"),
    ("BF.CARD w", ":7"),
    ("BF.INFO w LIFE-ADDS", "*1 :8"),
    // An add without a life of its own is seen, and one with a short life is not.
    ("BF.ADD w now", "#t"),
    ("BF.EXISTS w now WITHIN 60", "#t"),
    ("BF.EXISTS w now PWITHIN 700000", "#t"),
    ("BF.EXISTS w d PWITHIN 1", "#t"),
    ("BF.EXISTS w a WITHIN 60", "#f"),
    ("BF.BULKEXISTS w WITHIN 60 FIXED 1 adh", "$010"),
    ("BF.BULKEXISTS w COUNT PWITHIN 700000 FIXED 1 adh", ":2"),
    ("BF.EXISTS w now WITHIN 701", "-ERR WITHIN is more than the window of the filter"),
    ("BF.EXISTS none a WITHIN 60", "#f"),
    ("BF.BULKEXISTS none PWITHIN 60 FIXED 1 ad", "$00"),
    ("BF.TTL w h", ":-2"),
    ("BF.PTTL w h", ":-2"),
    ("BF.TTL none a", ":-2"),
    // Other filters have no lives. IFABSENT changes something in counting filters only.
    ("BF.ADD k a IFABSENT", "#t"),
    ("BF.ADD k a IFABSENT", "#f"),
    ("BF.TTL k a", ":-1"),
    ("BF.PTTL k a", ":-1"),
    ("BF.PTTL k b", ":-2"),
    ("BF.INFO k LIFE-ADDS", "*1 _"),
    ("BF.INSERT n COUNTING IFABSENT ITEMS a a b", "*3 #t #f #t"),
    ("BF.ADD n a IFABSENT", "#f"),
    ("BF.BULKADD n IFABSENT FIXED 1 abc", "$001"),
    ("BF.CARD n", ":3"),
    ("BF.ADD n a", "#f"),
    ("BF.CARD n", ":4"),
    ("BF.TTL n a", ":-1"),
    // A window of 120 steps.
    ("BF.RESERVE s 0.0001 100 WINDOW 700 STEPS 120", "+OK"),
    ("BF.INFO s STEPS", "*1 :120"),
    ("BF.INFO w STEPS", "*1 :14"),
    ("BF.INFO n STEPS", "*1 _"),
    ("BF.RESERVE s 0.0001 100 steps 120 WINDOW 700 IFNOTEXISTS", ":0"),
    ("BF.INSERT s WINDOW 700 STEPS 120 LIFE 100 ITEMS a b", "*2 #t #t"),
    ("BF.ADD s c", "#t"),
    ("BF.MEXISTS s a b c d", "*4 #t #t #t #f"),
    ("BF.EXISTS s c WITHIN 60", "#t"),
    ("BF.EXISTS s a WITHIN 500", "#f"),
    ("BF.INSERT s2 WINDOW 700 STEPS 14 ITEMS a", "*1 #t"),
    ("BF.MERGE w s2 FORCE", "+OK"),
    ("BF.MERGE all s s", "+OK"),
    ("BF.INFO all STEPS", "*1 :120"),
];

/// Packed batches.
pub(crate) const BATCHES: Dialogue = &[
    ("bf.bulkadd k count lines a\nb\na", ":2"),
    ("BF.BULKADD k NOCREATE COUNT LINES a\nc\n", ":1"),
    // An empty line is the empty item, and \r is part of an item.
    ("BF.BULKADD k LINES \n\nc\r\n", "$101"),
    ("BF.BULKEXISTS k LINES \nc\n\nc\r", "$1111"),
    ("BF.EXISTS k ", "#t"),
    ("BF.EXISTS k c\r", "#t"),
    ("BF.BULKEXISTS k FIXED 1 abx", "$110"),
    ("BF.BULKEXISTS k COUNT FIXED 1 abx", ":2"),
    ("BF.BULKADD k FIXED 2 xxyyxx", "$110"),
    ("BF.BULKADD k PREFIXED \x01\0\0\0a\0\0\0\0\x02\0\0\0zz", "$001"),
    ("BF.BULKEXISTS k PREFIXED \x02\0\0\0c\r\0\0\0\0", "$11"),
    ("BF.BULKADD k LINES ", "$"),
    ("BF.CARD k", ":8"),
];

/// The capacity of a counting filter is a number of distinct items.
pub(crate) const DISTINCT_ITEMS: Dialogue = &[
    ("BF.RESERVE k 0.0001 5 COUNTING NONSCALING", "+OK"),
    ("BF.MADD k a a a a a", "*5 #t #f #f #f #f"),
    ("BF.MADD k b c d e f", "*5 #t #t #t #t -ERR non scaling filter is full"),
    ("BF.CARD k", ":9"),
    ("BF.ADD k a", "#f"),
    // Deletes five of six occurrences. The item is still present.
    ("BF.DEL k a a a a a", "*5 #t #t #t #t #t"),
    ("BF.ADD k f", FULL),
    ("BF.DEL k a a", "*2 #t #f"),
    ("BF.CARD k", ":4"),
    ("BF.MADD k f g", "*2 #t -ERR non scaling filter is full"),
    ("BF.MADD k f f f", "*3 #f #f #f"),
    ("BF.DEL k b c d e f f f f", "*8 #t #t #t #t #t #t #t #t"),
    ("BF.CARD k", ":0"),
    ("BF.MADD k 1 2 3 4 5 6", "*6 #t #t #t #t #t -ERR non scaling filter is full"),
    ("BF.CLEAR k", "+OK"),
    ("BF.MADD k 1 2 3 4 5 6", "*6 #t #t #t #t #t -ERR non scaling filter is full"),
    // The capacity of an unreserved counting filter is a number of distinct items too.
    ("BF.INSERT grows ERROR 0.0001 COUNTING ITEMS a a a a a a b", "*7 #t #f #f #f #f #f #t"),
    ("BF.CARD grows", ":7"),
    ("BF.INFO grows CAPACITY", "*1 :100"),
    ("BF.INFO grows FILTERS", "*1 :1"),
];

/// After all its items are deleted, a filter is like a new one.
pub(crate) const EMPTIED: Dialogue = &[
    ("BF.INSERT k CAPACITY 2 EXPANSION 3 ERROR 0.001 COUNTING ITEMS a b c d e", "*5 #t #t #t #t #t"),
    // A counting filter is a table, however many items it has.
    ("BF.INFO k CAPACITY", "*1 :112"),
    ("BF.INFO k FILTERS", "*1 :1"),
    ("BF.INFO k EXPANSION", "*1 :3"),
    ("BF.DEL k a b c", "*3 #t #t #t"),
    ("BF.CARD k", ":2"),
    ("BF.INFO k CAPACITY", "*1 :2"),
    ("BF.DEL k d e", "*2 #t #t"),
    ("BF.MEXISTS k a b c d e", "*5 #f #f #f #f #f"),
    ("BF.INFO k BITS-PER-ITEM", "*1 _"),
    ("BF.CLEAR k", "+OK"),
    ("BF.INFO k CAPACITY", "*1 :2"),
    ("BF.DEL k c", "*1 #f"),
    ("BF.ADD k c", "#t"),
    ("BF.DEL k c", "*1 #t"),
];

/// A saturating filter accepts items that a fixed one refuses.
pub(crate) const SATURATING: Dialogue = &[
    ("BF.RESERVE k 0.0001 2 NONSCALING saturate", "+OK"),
    ("BF.MADD k a b c d a", "*5 #t #t #t #t #f"),
    ("BF.ADD k e", "#t"),
    ("BF.MEXISTS k a b c d e f", "*6 #t #t #t #t #t #f"),
    ("BF.CARD k", ":5"),
    ("BF.INFO k CAPACITY", "*1 :2"),
    ("BF.INFO k FILTERS", "*1 :1"),
    ("BF.INFO k EXPANSION", "*1 _"),
    ("BF.RESERVE zero 0.0001 1 SATURATE EXPANSION 0", "+OK"),
    ("BF.MADD zero a b", "*2 #t #t"),
    ("BF.INSERT i CAPACITY 1 SATURATE NONSCALING ITEMS a b", "*2 #t #t"),
    // A saturating filter promises no error rate.
    ("BF.INFO i ERROR-RATE-MAX", "*1 _"),
    // A fixed filter without SATURATE refuses items beyond its capacity.
    ("BF.INSERT fixed CAPACITY 1 NONSCALING ITEMS a", "*1 #t"),
    ("BF.INSERT fixed CAPACITY 1 NONSCALING ITEMS b", "*1 -ERR non scaling filter is full"),
];

/// A union of imports accepts items that their clients cannot encode.
pub(crate) const UNITED_IMPORTS: Dialogue = &[
    ("BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 6400 HASHES 3 ENCODING int32le CAPACITY 300", "+OK"),
    ("BF.IMPORT l EMPTY SCHEME guava-mitz32 BITS 6400 HASHES 3 ENCODING int32le CAPACITY 300", "+OK"),
    ("BF.INFO k ERROR-RATE-MAX", "*1 _"),
    ("BF.ADD k 7", "#t"),
    ("BF.ADD l 8", "#t"),
    ("BF.MERGE dest k l", "+OK"),
    ("BF.MERGE k l", "+OK"),
    ("BF.MADD dest abc 9", "*2 #t #t"),
    ("BF.MADD k abc 9", "*2 #t #t"),
    ("BF.INFO dest KIND", "*1 $union"),
    ("BF.MEXISTS dest 7 8 9 abc abd", "*5 #t #t #t #t #f"),
    ("BF.MEXISTS k 7 8 9 abc abd", "*5 #t #t #t #t #f"),
    ("BF.EXPORT k", "-ERR BF.EXPORT needs a filter created with BF.IMPORT"),
];

/// A merge unites layers of the same shape and hash.
pub(crate) const UNITED_LAYERS: Dialogue = &[
    ("BF.INSERT a CAPACITY 1000 KEY 0123456789abcdef ITEMS a", "*1 #t"),
    ("BF.INSERT b CAPACITY 1000 KEY 0123456789abcdef ITEMS b", "*1 #t"),
    ("BF.INSERT other CAPACITY 1000 KEY fedcba9876543210 ITEMS c", "*1 #t"),
    ("BF.MERGE a b", "+OK"),
    ("BF.MEXISTS a a b c", "*3 #t #t #f"),
    ("BF.INFO a FILTERS", "*1 :1"),
    ("BF.INFO a KIND", "*1 $keyed"),
    ("BF.INFO a KEYED", "*1 #t"),
    ("BF.INFO other KEYED", "*1 #t"),
    ("BF.INSERT plain CAPACITY 100 ITEMS p", "*1 #t"),
    ("BF.INFO plain KEYED", "*1 #f"),
    ("BF.MERGE mixed plain a FORCE", "+OK"),
    ("BF.INFO mixed KIND", "*1 $union"),
    ("BF.INFO mixed KEYED", "*1 #f"),
    // Layers with more items than their capacity are united too.
    (
        "BF.INSERT full CAPACITY 3 ERROR 0.01 NONSCALING SATURATE ITEMS a b c d e f g h",
        "*8 #t #t #t #t #t #t #t #t",
    ),
    (
        "BF.INSERT twin CAPACITY 3 ERROR 0.01 NONSCALING SATURATE ITEMS a b c d e f g h",
        "*8 #t #t #t #t #t #t #t #t",
    ),
    ("BF.RESERVE dest 0.1 10", "+OK"),
    ("BF.MERGE dest full twin FORCE", "+OK"),
    ("BF.INFO dest FILTERS", "*1 :2"),
    ("BF.MEXISTS dest a b c d e f g h", "*8 #t #t #t #t #t #t #t #t"),
];

/// A merge adds the counts of each item. The capacities of the sources may differ. A new filter promises the sum of
/// their error rates.
pub(crate) const UNITED_COUNTS: Dialogue = &[
    ("BF.INSERT a CAPACITY 1000 ERROR 0.001 COUNTING ITEMS x x y", "*3 #t #f #t"),
    ("BF.INSERT b CAPACITY 5 ERROR 0.001 COUNTING ITEMS x z", "*2 #t #t"),
    ("BF.MERGE sum a b", "+OK"),
    ("BF.INFO sum ERROR-RATE", "*1 ,0.002"),
    ("BF.INFO sum KIND", "*1 $counting"),
    ("BF.CARD sum", ":5"),
    ("BF.DEL sum x x x x", "*4 #t #t #t #f"),
    ("BF.MEXISTS sum x y z w", "*4 #f #t #t #f"),
    ("BF.CARD b", ":2"),
    ("BF.MERGE a b", "+OK"),
    ("BF.DEL a x x x x", "*4 #t #t #t #f"),
];

/// BF.CLEAR sets the estimated items of an imported filter to 0.
pub(crate) const CLEARED_IMPORT: Dialogue = &[
    ("BF.IMPORT k SOURCE users SCHEME murmur3-salted BITS 8 HASHES 1", "+OK"),
    ("BF.INFO k ESTIMATED-ITEMS", "*1 :4"),
    ("BF.CLEAR k", "+OK"),
    ("BF.INFO k ESTIMATED-ITEMS", "*1 :0"),
    ("BF.CARD k", ":0"),
    ("BF.ADD k a", "#t"),
    ("BF.CARD k", ":1"),
];

/// CF.* and BF.* on the same counting filters.
pub(crate) const CUCKOO: Dialogue = &[
    ("CF.RESERVE k 4 EXPANSION 0 BUCKETSIZE 2 MAXITERATIONS 50 ERROR 0.0001", "+OK"),
    ("CF.ADD k a", "#t"),
    ("CF.ADD k a", "#t"),
    ("CF.ADDNX k a", "#f"),
    ("CF.ADDNX k b", "#t"),
    ("CF.INSERTNX k ITEMS b c c", "*3 :0 :1 :0"),
    ("CF.INSERT k ITEMS d d", "*2 #t #t"),
    ("CF.ADD k e", "-Filter is full"),
    ("CF.ADDNX k e", "-Filter is full"),
    ("CF.INSERTNX k ITEMS a e b", "*3 :0 :-1 :0"),
    ("CF.ADD k d", "#t"),
    ("CF.COUNT k a", ":2"),
    ("CF.COUNT k d", ":3"),
    ("CF.COUNT k e", ":0"),
    ("CF.EXISTS k a", "#t"),
    ("CF.MEXISTS k a e d", "*3 #t #f #t"),
    ("CF.DEL k a", "#t"),
    ("CF.DEL k a", "#t"),
    ("CF.DEL k a", "#f"),
    ("CF.ADD k e", "#t"),
    ("CF.DEBUG k", "$bktsize:2 buckets:2 items:6 deletes:2 filters:1 max_iterations:50 expansion:0"),
    ("CF.COMPACT k", "+OK"),
    ("BF.CARD k", ":6"),
    ("BF.INFO k KIND", "*1 $counting"),
    ("BF.DEL k d d d d", "*4 #t #t #t #f"),
    ("BF.MADD k b b", "*2 #f #f"),
    ("CF.COUNT k b", ":3"),
    ("CF.RESERVE u 100 ERROR 0.01", "+OK"),
    ("BF.MERGE u k", "+OK"),
    ("CF.COUNT u b", ":3"),
    // The deletions add up in a union, also those of a source without items, and BF.CLEAR keeps the parameters only.
    ("CF.DEBUG u", "$bktsize:2 buckets:64 items:5 deletes:5 filters:1 max_iterations:20 expansion:1"),
    ("BF.INSERT gone COUNTING BUCKETSIZE 4 MAXITERATIONS 9 ITEMS x", "*1 #t"),
    ("CF.DEL gone x", "#t"),
    ("BF.MERGE u gone k", "+OK"),
    ("CF.DEBUG u", "$bktsize:2 buckets:64 items:10 deletes:11 filters:1 max_iterations:20 expansion:1"),
    ("BF.MERGE other gone", "+OK"),
    ("CF.DEBUG other", "$bktsize:4 buckets:32 items:0 deletes:1 filters:1 max_iterations:9 expansion:2"),
    ("BF.INSERT gone BUCKETSIZE 5 ITEMS x", "*1 #t"),
    ("CF.DEBUG gone", "$bktsize:4 buckets:32 items:1 deletes:1 filters:1 max_iterations:9 expansion:2"),
    ("BF.CLEAR k", "+OK"),
    ("CF.DEBUG k", "$bktsize:2 buckets:2 items:0 deletes:0 filters:1 max_iterations:50 expansion:0"),
    ("CF.COUNT k b", ":0"),
    ("CF.SCANDUMP k 0", "*2 :0 _"),
    ("CF.ADD made a", "#t"),
    ("CF.RESERVE keyed 10 KEYED EX 1000", "+OK"),
    ("CF.ADD keyed a", "#t"),
    ("BF.INFO keyed KEYED", "*1 #t"),
    ("CF.RESERVE k 10", "-ERR item exists"),
    ("CF.RESERVE two 10 EXPANSION 5 EXPANSION 1", "+OK"),
    ("CF.DEBUG two", "$bktsize:2 buckets:8 items:0 deletes:0 filters:1 max_iterations:20 expansion:8"),
];

/// FORCE is an option if it is the last word and follows a source. Elsewhere it is a key.
pub(crate) const FORCE_IS_A_KEY: Dialogue = &[
    ("BF.ADD FORCE x", "#t"),
    ("BF.MERGE a FORCE", "+OK"),
    ("BF.MERGE b FORCE FORCE", "+OK"),
    ("BF.MEXISTS a x y", "*2 #t #f"),
    ("BF.MEXISTS b x y", "*2 #t #f"),
    ("BF.MERGE FORCE a", "+OK"),
];
