//! Refused commands with their errors. For a command with several errors, the reply shows which of them is returned.

use super::Dialogue;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_FOUND: &str = "-ERR not found";
const DUMP_ENDED: &str =
    "-ERR the dump of this iterator has ended: delete the copy and start again with iterator 0";
const RATE: &str = "-ERR error rate must be in the range (0.000000, 1.000000)";
const CAPACITY: &str = "-ERR capacity must be in the range [1, 1099511627776]";
const EXPANSION: &str = "-ERR expansion must be in the range [0, 32768]";
const CANNOT_EXPAND: &str = "-Nonscaling filters cannot expand";
const UNKNOWN: &str = "-Unknown argument received";
const BATCH_ARGUMENTS: &str = "-ERR syntax error: all items must be in one argument, the last one";
const ARITY_INSERT: &str = "-ERR wrong number of arguments for 'bf.insert' command";
const ARITY_BULKADD: &str = "-ERR wrong number of arguments for 'bf.bulkadd' command";
const PACKING: &str = "-ERR unknown packing: use LINES, FIXED or PREFIXED";
const LENGTH: &str = "-ERR FIXED needs the length of an item, an integer of at least 1";
const TORN: &str = "-ERR the data ends in the middle of an item: check the packing";
const NOT_COUNTING: &str = "-ERR BF.DEL needs a filter created with COUNTING";
const TOO_LONG: &str =
    "-ERR the exported string could have 536870913 bytes, more than a server's limit of 536870912";

const OWN_PARAMETERS: &str = "-ERR a Guava filter contains its scheme, bits, hashes and order: give its bytes with SOURCE or \
     GUAVA, and omit these options";
const NO_SCALE: &str = "-ERR cannot use NONSCALING and VALIDATESCALETO options together";
const NOT_VALKEY: &str = "-ERR SEED and TIGHTENING need FORMAT valkey-bloom";
const NOT_FIXED: &str = "-ERR SATURATE needs a fixed filter: add NONSCALING or EXPANSION 0";
const COUNTING_SATURATES: &str =
    "-ERR SATURATE cannot be combined with COUNTING: counted items have no fixed memory";
const WINDOW: &str = "-ERR WINDOW must be a number of seconds in the range [1, 1099511627]";
const PWINDOW: &str = "-ERR PWINDOW must be a number of milliseconds in the range [100, 1099511627776]";
const BAD_EXPIRY: &str = "-ERR invalid expire time in 'bf.reserve' command";

/// Errors of BF.RESERVE, in RedisBloom's order.
pub(crate) const RESERVE_ERRORS: Dialogue = &[
    ("BF.RESERVE k abc 100", "-ERR bad error rate"),
    ("BF.RESERVE k x y", "-ERR bad error rate"),
    ("BF.RESERVE k x 100 FOO", "-ERR bad error rate"),
    ("BF.RESERVE k nan 0", "-ERR bad error rate"),
    ("BF.RESERVE k 0 y", RATE),
    ("BF.RESERVE k 0 100", RATE),
    ("BF.RESERVE k 1 y", RATE),
    ("BF.RESERVE k inf y", RATE),
    ("BF.RESERVE k -0.1 100", RATE),
    ("BF.RESERVE k 1.5 100", RATE),
    ("BF.RESERVE k 0.01 abc", "-ERR bad capacity"),
    ("BF.RESERVE k 0.01 1e3 FOO", "-ERR bad capacity"),
    ("BF.RESERVE k 0.01 9223372036854775808", "-ERR bad capacity"),
    ("BF.RESERVE k 0.01 0 FOO", CAPACITY),
    ("BF.RESERVE k 0.01 0", CAPACITY),
    ("BF.RESERVE k 0.01 -1", CAPACITY),
    ("BF.RESERVE k 0.01 1099511627777", CAPACITY),
    ("BF.RESERVE k 0.01 9223372036854775807", CAPACITY),
    ("BF.RESERVE k 0.01 100 EXPANSION", "-ERR no expansion"),
    ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION", "-ERR no expansion"),
    ("BF.RESERVE k 0.01 100 EXPANSION abc", "-ERR bad expansion"),
    ("BF.RESERVE k 0.01 100 EXPANSION 1.5", "-ERR bad expansion"),
    ("BF.RESERVE k 0.01 100 EXPANSION NONSCALING", "-ERR bad expansion"),
    ("BF.RESERVE k 0.01 100 EXPANSION -1", EXPANSION),
    ("BF.RESERVE k 0.01 100 EXPANSION 32769", EXPANSION),
    ("BF.RESERVE k 0.01 100 EXPANSION 4294967296", EXPANSION),
    ("BF.RESERVE k 0.01 100 EXPANSION 2 NONSCALING", CANNOT_EXPAND),
    ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION 2", CANNOT_EXPAND),
    // This error comes before the error about the range of EXPANSION.
    ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION -1", CANNOT_EXPAND),
    ("BF.RESERVE k 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
    ("BF.RESERVE k 0.01 100 NONSCALING bar", "-ERR unknown argument 'bar'"),
    ("BF.RESERVE k 0.01 100 EXPANSION 2 Baz", "-ERR unknown argument 'Baz'"),
    ("BF.RESERVE k 0.01 100 200", "-ERR unknown argument '200': write EXPANSION 200, or omit the number"),
    (
        "BF.RESERVE k 0.01 100 NONSCALING -4",
        "-ERR unknown argument '-4': write EXPANSION -4, or omit the number",
    ),
    ("BF.RESERVE k 0.01 100 4.0", "-ERR unknown argument '4.0'"),
    ("BF.RESERVE k 0.01 100 NoScaling", "-ERR unknown argument 'NoScaling': use NONSCALING"),
    ("BF.INSERT k NoScaling ITEMS a", "-ERR unknown argument 'NoScaling': use NONSCALING"),
    ("BF.RESERVE k 0.01 100 NON", "-ERR unknown argument 'NON'"),
    ("BF.RESERVE k 0.01 100 NONSCALINGS", "-ERR unknown argument 'NONSCALINGS': use NONSCALING"),
    ("BF.RESERVE k 0.01 100 EXP", "-ERR unknown argument 'EXP'"),
    ("BF.RESERVE k 0.01 100 e", "-ERR unknown argument 'e'"),
    ("BF.RESERVE k 0.01 100 EXPAND 2", "-ERR unknown argument 'EXPAND': use EXPANSION"),
    ("BF.RESERVE k 0.01 100 KEYD", "-ERR unknown argument 'KEYD': use KEYED"),
    ("BF.RESERVE k 0.01 100 IFNOTEXIST", "-ERR unknown argument 'IFNOTEXIST': use IFNOTEXISTS"),
    ("BF.RESERVE k 0.01 100 TTL 100", "-ERR unknown argument 'TTL'"),
    // Errors about the key come last, except for errors about memory.
    ("BF.RESERVE string x y EXPANSION z", "-ERR bad error rate"),
    ("BF.RESERVE string 7 y EXPANSION z", RATE),
    ("BF.RESERVE string 0.1 y EXPANSION z", "-ERR bad capacity"),
    ("BF.RESERVE string 0.1 0 EXPANSION z", CAPACITY),
    ("BF.RESERVE string 0.1 1 EXPANSION z", "-ERR bad expansion"),
    ("BF.RESERVE string 0.1 1 EXPANSION -7", EXPANSION),
    ("BF.RESERVE string 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
    ("BF.RESERVE string 0.1 1 EXPANSION 7", WRONG_TYPE),
    ("BF.RESERVE f 0.01 100", "+OK"),
    ("BF.RESERVE f x 1", "-ERR bad error rate"),
    ("BF.RESERVE f 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
    ("BF.RESERVE f 0.1 1 EXPANSION 7", "-ERR item exists"),
    ("BF.RESERVE f 0.01 1099511627776", "-ERR item exists"),
];

/// Errors of BF.INSERT: of the arguments from left to right, then of the key.
pub(crate) const INSERT_ERRORS: Dialogue = &[
    ("BF.INSERT k ITEMS", ARITY_INSERT),
    ("BF.INSERT k CAPACITY 10", ARITY_INSERT),
    ("BF.INSERT k NOCREATE NONSCALING", ARITY_INSERT),
    ("BF.INSERT k CAPACITY abc ITEMS a", "-Bad capacity"),
    ("BF.INSERT k CAPACITY 0 ITEMS a", "-Bad capacity"),
    ("BF.INSERT k CAPACITY -1 ITEMS a", "-Bad capacity"),
    ("BF.INSERT k CAPACITY 1099511627777 ITEMS a", "-Bad capacity"),
    ("BF.INSERT k ERROR abc ITEMS a", "-Bad error rate"),
    ("BF.INSERT k ERROR 0 ITEMS a", "-Bad error rate"),
    ("BF.INSERT k ERROR 1 ITEMS a", "-Bad error rate"),
    ("BF.INSERT k ERROR inf ITEMS a", "-Bad error rate"),
    ("BF.INSERT k ERROR nan ITEMS a", "-Bad error rate"),
    ("BF.INSERT k EXPANSION abc ITEMS a", "-Bad expansion"),
    ("BF.INSERT k EXPANSION -1 ITEMS a", "-Bad expansion"),
    ("BF.INSERT k EXPANSION 32769 ITEMS a", "-Bad expansion"),
    ("BF.INSERT k FOO ITEMS a", UNKNOWN),
    ("BF.INSERT k a b", UNKNOWN),
    ("BF.INSERT k I a", UNKNOWN),
    ("BF.INSERT k NOPE ITEMS a", UNKNOWN),
    ("BF.INSERT k ITEM a", UNKNOWN),
    ("BF.INSERT k ITEMSX a", UNKNOWN),
    ("BF.INSERT k ERRO 0.5 ITEMS a", UNKNOWN),
    ("BF.INSERT k CAP 5 ITEMS a", UNKNOWN),
    ("BF.INSERT k NONSC ITEMS a", UNKNOWN),
    ("BF.INSERT k NOCREATE ITEMS a", NOT_FOUND),
    ("BF.INSERT string ERROR 7 CAPACITY 0 EXPANSION -1 WORD", "-Bad error rate"),
    ("BF.INSERT string CAPACITY 0 ERROR 7 EXPANSION -1 WORD", "-Bad capacity"),
    ("BF.INSERT string EXPANSION -1 WORD ERROR 7", "-Bad expansion"),
    ("BF.INSERT string WORD ERROR 7", UNKNOWN),
    // All options are read before the number of items is checked.
    ("BF.INSERT string ERROR 7 ITEMS", "-Bad error rate"),
    ("BF.INSERT string ERROR 0.7 ITEMS", ARITY_INSERT),
    ("BF.INSERT string ERROR 0.7 CAPACITY", ARITY_INSERT),
    ("BF.INSERT string ERROR 0.7 ITEMS a", WRONG_TYPE),
    ("BF.INSERT string ITEMS a", WRONG_TYPE),
    ("BF.INSERT string NOCREATE ITEMS a", WRONG_TYPE),
    ("BF.RESERVE f 0.01 100", "+OK"),
    ("BF.INSERT f CAPACITY 0 ITEMS a", "-Bad capacity"),
    ("BF.INSERT f ERROR 1 ITEMS a", "-Bad error rate"),
    // Valid options for an existing filter are ignored.
    ("BF.INSERT f CAPACITY 7777 ERROR 0.5 NONSCALING ITEMS a", "*1 #t"),
    ("BF.INFO f CAPACITY", "*1 :100"),
    ("BF.INFO f EXPANSION", "*1 :2"),
    ("BF.INSERT f CAPACITY 1099511627776 ERROR 0.000001 ITEMS b", "*1 #t"),
];

macro_rules! differs {
    ($word:literal) => {
        concat!("-ERR ", $word, " differs from the existing filter: omit the option, or use another key")
    };
}

/// Options that name a kind of filter, for existing filters. They must agree with the filter.
pub(crate) const KIND_ERRORS: Dialogue = &[
    ("BF.RESERVE plain 0.01 100", "+OK"),
    ("BF.INSERT plain WINDOW 60 ITEMS a", differs!("WINDOW")),
    ("BF.INSERT plain PWINDOW 60000 ITEMS a", differs!("WINDOW")),
    ("BF.INSERT plain NOCREATE COUNTING ITEMS a", differs!("COUNTING")),
    ("BF.INSERT plain KEYED ITEMS a", differs!("KEYED")),
    ("BF.INSERT plain KEY 0123456789abcdef ITEMS a", differs!("KEY")),
    ("BF.INSERT plain NONSCALING SATURATE ITEMS a", differs!("SATURATE")),
    ("BF.INSERT plain FORMAT redisbloom ITEMS a", differs!("FORMAT")),
    ("BF.INSERT plain SEED 0123456789abcdef0123456789ABCDEF ITEMS a", differs!("SEED")),
    ("BF.INSERT plain TIGHTENING 0.5 ITEMS a", differs!("TIGHTENING")),
    // Both options differ from the filter, and COUNTING is checked first. Options that exclude each other are checked
    // later.
    ("BF.INSERT plain WINDOW 60 COUNTING ITEMS a", differs!("COUNTING")),
    ("BF.CARD plain", ":0"),
    ("BF.INSERT plain FORMAT everbloom ERROR 0.5 CAPACITY 7 NONSCALING ITEMS a", "*1 #t"),
    ("BF.RESERVE plain 0.01 100 WINDOW 60 IFNOTEXISTS", differs!("WINDOW")),
    ("BF.RESERVE plain 0.5 7 FORMAT everbloom NONSCALING IFNOTEXISTS", ":0"),
    ("BF.RESERVE window 0.01 100 WINDOW 60", "+OK"),
    ("BF.INSERT window WINDOW 61 ITEMS a", differs!("WINDOW")),
    ("BF.INSERT window NOREFRESH ITEMS a", differs!("NOREFRESH")),
    ("BF.CARD window", ":0"),
    ("BF.INSERT window PWINDOW 60000 FORMAT everbloom ITEMS a", "*1 #t"),
    ("BF.RESERVE window 0.01 100 WINDOW 60 IFNOTEXISTS", ":0"),
    ("BF.INSERT window STEPS 120 ITEMS a", differs!("STEPS")),
    ("BF.INSERT plain WINDOW 60 STEPS 14 ITEMS a", differs!("WINDOW")),
    ("BF.INSERT plain STEPS 14 ITEMS a", differs!("STEPS")),
    ("BF.INSERT window STEPS 14 ITEMS b", "*1 #t"),
    ("BF.RESERVE full 0.01 1 NONSCALING SATURATE", "+OK"),
    // For an existing filter, SATURATE does not need NONSCALING.
    ("BF.INSERT full SATURATE ITEMS a b", "*2 #t #t"),
];

macro_rules! together {
    ($word:literal) => {
        concat!("-ERR ", $word, " cannot be combined with WINDOW")
    };
}

macro_rules! positive {
    ($word:literal) => {
        concat!("-ERR ", $word, " must be a positive integer")
    };
}

macro_rules! past {
    ($word:literal) => {
        concat!("-ERR the end of ", $word, " is in the past: check the clocks, and the unit of ", $word)
    };
}

macro_rules! beyond {
    ($word:literal) => {
        concat!("-ERR ", $word, " is more than the window of the filter")
    };
}

macro_rules! needs {
    ($word:literal, $what:literal) => {
        concat!("-ERR ", $word, " needs ", $what)
    };
}

/// Options that need or exclude other options. These errors come before those of the key.
pub(crate) const OPTION_ERRORS: Dialogue = &[
    ("BF.RESERVE f 0.01 100", "+OK"),
    ("BF.INSERT string NONSCALING VALIDATESCALETO 1000 ITEMS b", NO_SCALE),
    ("BF.INSERT string EXPANSION 0 VALIDATESCALETO 1000 ITEMS b", NO_SCALE),
    ("BF.INSERT k NONSCALING SATURATE VALIDATESCALETO 1000 ITEMS b", NO_SCALE),
    (
        "BF.INSERT string VALIDATESCALETO 1000 FORMAT redisbloom ITEMS b",
        "-ERR VALIDATESCALETO cannot be combined with FORMAT redisbloom",
    ),
    ("BF.INSERT string FORMAT redisbloom SEED 0123456789abcdef0123456789abcdef ITEMS b", NOT_VALKEY),
    ("BF.INSERT string TIGHTENING 0.3 ITEMS b", NOT_VALKEY),
    ("BF.INSERT k COUNTING TIGHTENING 0.5 ITEMS x", NOT_VALKEY),
    // SATURATE
    ("BF.RESERVE f 0.01 100 SATURATE", NOT_FIXED),
    ("BF.RESERVE string 0.01 100 SATURATE EXPANSION 2", NOT_FIXED),
    ("BF.INSERT string SATURATE ITEMS b", NOT_FIXED),
    ("BF.INSERT k SATURATE EXPANSION 2 ITEMS b", NOT_FIXED),
    ("BF.RESERVE f 0.01 100 NONSCALING SATURATE FORMAT redisbloom", needs!("SATURATE", "FORMAT everbloom")),
    ("BF.RESERVE string 0.01 9 SATURATE FORMAT redisbloom", needs!("SATURATE", "FORMAT everbloom")),
    ("BF.INSERT k NONSCALING SATURATE FORMAT valkey-bloom ITEMS b", needs!("SATURATE", "FORMAT everbloom")),
    (
        "BF.INSERT k SEED 0123456789abcdef0123456789abcdef NONSCALING SATURATE ITEMS b",
        needs!("SATURATE", "FORMAT everbloom"),
    ),
    ("BF.RESERVE k 0.01 2 NONSCALING COUNTING SATURATE", COUNTING_SATURATES),
    ("BF.INSERT k SATURATE COUNTING EXPANSION 0 ITEMS a", COUNTING_SATURATES),
    // KEYED and KEY
    ("BF.RESERVE f 0.01 9 KEYED FORMAT redisbloom", needs!("KEYED", "FORMAT everbloom")),
    ("BF.RESERVE string 0.01 9 KEYED FORMAT valkey-bloom", needs!("KEYED", "FORMAT everbloom")),
    ("BF.INSERT k FORMAT valkey-bloom KEYED ITEMS a", needs!("KEYED", "FORMAT everbloom")),
    ("BF.INSERT k FORMAT redisbloom KEY 0123456789abcdef ITEMS a", needs!("KEY", "FORMAT everbloom")),
    ("BF.INSERT string FORMAT valkey-bloom KEY 0123456789abcdef ITEMS a", needs!("KEY", "FORMAT everbloom")),
    ("BF.INSERT k KEY short ITEMS a", "-ERR KEY must have 16 bytes"),
    ("BF.INSERT k KEY 0123456789abcdef0 ITEMS a", "-ERR KEY must have 16 bytes"),
    ("BF.RESERVE k 0.01 9 KEY 0123456789abcdef", "-ERR unknown argument 'KEY'"),
    ("BF.INSERT k KEY", ARITY_INSERT),
    // COUNTING
    ("BF.RESERVE f 0.01 100 COUNTING FORMAT redisbloom", needs!("COUNTING", "FORMAT everbloom")),
    ("BF.RESERVE k 0.01 100 FORMAT valkey-bloom COUNTING", needs!("COUNTING", "FORMAT everbloom")),
    ("BF.INSERT k FORMAT redisbloom COUNTING ITEMS x", needs!("COUNTING", "FORMAT everbloom")),
    (
        "BF.INSERT k COUNTING SEED 00000000000000000000000000000000 ITEMS x",
        needs!("COUNTING", "FORMAT everbloom"),
    ),
    // WINDOW, PWINDOW, NOREFRESH and AT
    ("BF.RESERVE k 0.01 100 WINDOW 5 COUNTING", together!("COUNTING")),
    ("BF.RESERVE k 0.01 100 NONSCALING SATURATE WINDOW 5", together!("SATURATE")),
    ("BF.INSERT k WINDOW 5 VALIDATESCALETO 1000 ITEMS a", together!("VALIDATESCALETO")),
    ("BF.RESERVE k 0.01 100 NOREFRESH", needs!("NOREFRESH", "a filter created with WINDOW")),
    ("BF.INSERT k NOREFRESH ITEMS a", needs!("NOREFRESH", "a filter created with WINDOW")),
    ("BF.INSERT k AT 5 ITEMS a", needs!("AT", "a filter created with WINDOW")),
    ("BF.INSERT f AT 1800000000000 ITEMS a", needs!("AT", "a filter created with WINDOW")),
    ("BF.RESERVE k 0.01 100 WINDOW 5 FORMAT redisbloom", needs!("WINDOW", "FORMAT everbloom")),
    ("BF.INSERT k FORMAT valkey-bloom PWINDOW 500 ITEMS a", needs!("WINDOW", "FORMAT everbloom")),
    ("BF.RESERVE k 0.01 100 WINDOW 0", WINDOW),
    ("BF.RESERVE k 0.01 100 WINDOW -3", WINDOW),
    ("BF.RESERVE k 0.01 100 WINDOW 7d", WINDOW),
    ("BF.RESERVE k 0.01 100 WINDOW 1099511628", WINDOW),
    ("BF.RESERVE k 0.01 100 window 9223372036854775807", WINDOW),
    ("BF.RESERVE k 0.01 100 PWINDOW 99", PWINDOW),
    ("BF.RESERVE k 0.01 100 PWINDOW 7d", PWINDOW),
    ("BF.INSERT k PWINDOW 1099511627777 ITEMS a", PWINDOW),
    ("BF.INSERT k WINDOW 5 AT x ITEMS a", "-ERR AT must be a UNIX time in milliseconds"),
    ("BF.INSERT k WINDOW 5 AT -1 ITEMS a", "-ERR AT must be a UNIX time in milliseconds"),
    ("BF.RESERVE k 0.01 100 WINDOW", "-ERR wrong number of arguments for 'bf.reserve' command"),
    ("BF.RESERVE k 0.01 100 AT 5", "-ERR unknown argument 'AT'"),
    // STEPS
    ("BF.RESERVE k 0.01 100 STEPS 120", needs!("STEPS", "a filter created with WINDOW")),
    ("BF.INSERT k STEPS 14 ITEMS a", needs!("STEPS", "a filter created with WINDOW")),
    ("BF.RESERVE k 0.01 100 WINDOW 5 STEPS 13", "-ERR STEPS must be 14 or 120"),
    ("BF.RESERVE k 0.01 100 WINDOW 5 STEPS x", "-ERR STEPS must be 14 or 120"),
    ("BF.RESERVE k 0.01 100 WINDOW 5 STEPS", "-ERR wrong number of arguments for 'bf.reserve' command"),
    // IFABSENT and lives
    ("BF.RESERVE k 0.01 100 IFABSENT", "-ERR unknown argument 'IFABSENT'"),
    ("BF.RESERVE k 0.01 100 LIFE 5", "-ERR unknown argument 'LIFE'"),
    ("BF.INSERT k LIFE 5 ITEMS a", needs!("LIFE", "a filter created with WINDOW")),
    ("BF.ADD k a PLIFE 5", needs!("PLIFE", "a filter created with WINDOW")),
    ("BF.ADD f a LIFEAT 5", needs!("LIFEAT", "a filter created with WINDOW")),
    ("BF.ADD string a LIFE 5", WRONG_TYPE),
    ("BF.BULKADD f PLIFEAT 5 LINES a", needs!("PLIFEAT", "a filter created with WINDOW")),
    ("BF.INSERT k WINDOW 5 LIFE 6 ITEMS a", beyond!("LIFE")),
    ("BF.INSERT k WINDOW 5 PLIFE 5001 ITEMS a", beyond!("PLIFE")),
    ("BF.INSERT k WINDOW 5 LIFE 9223372036854775807 ITEMS a", beyond!("LIFE")),
    ("BF.INSERT k WINDOW 5 LIFEAT 9223372036854775807 ITEMS a", beyond!("LIFEAT")),
    ("BF.INSERT k WINDOW 5 PLIFEAT 9 ITEMS a", past!("PLIFEAT")),
    ("BF.INSERT k WINDOW 5 LIFEAT 9 ITEMS a", past!("LIFEAT")),
    ("BF.INSERT k WINDOW 5 LIFE 0 ITEMS a", positive!("LIFE")),
    ("BF.INSERT k WINDOW 5 PLIFEAT -1 ITEMS a", positive!("PLIFEAT")),
    ("BF.INSERT k WINDOW 5 LIFE 1s ITEMS a", positive!("LIFE")),
    ("BF.ADD k a PLIFE 0", positive!("PLIFE")),
    ("BF.ADD k a LIFEAT 0", positive!("LIFEAT")),
    ("BF.ADD k a LIFE 1 PLIFE", "-ERR wrong number of arguments for 'bf.add' command"),
    ("BF.ADD k a LIFE 1 PLIFE 1", "-ERR wrong number of arguments for 'bf.add' command"),
    ("BF.ADD k a IFABSENT IFABSENT", "-ERR wrong number of arguments for 'bf.add' command"),
    ("BF.ADD k a AT 5", "-ERR wrong number of arguments for 'bf.add' command"),
    ("BF.ADD k a LIFE 1 b", "-ERR wrong number of arguments for 'bf.add' command"),
    ("BF.INSERT k WINDOW 5 LIFE 1 LIFEAT 1 ITEMS a", "-ERR syntax error"),
    ("BF.INSERT k IFABSENT WINDOW 5 IFABSENT ITEMS a", "-ERR syntax error"),
    ("BF.INSERT k WINDOW 5 LIFE", ARITY_INSERT),
    ("BF.BULKADD k LIFE 5 PLIFE 5 LINES a", "-ERR syntax error"),
    ("BF.BULKADD k LIFE 0 LINES a", positive!("LIFE")),
    ("BF.BULKADD k AT 5 LINES a", PACKING),
    ("BF.BULKADD k WITHIN 5 LINES a", PACKING),
    // WITHIN and PWITHIN
    ("BF.EXISTS f a WITHIN 5", needs!("WITHIN", "a filter created with WINDOW")),
    ("BF.BULKEXISTS f PWITHIN 5 LINES a", needs!("PWITHIN", "a filter created with WINDOW")),
    ("BF.EXISTS k a WITHIN 0", positive!("WITHIN")),
    ("BF.EXISTS k a PWITHIN x", positive!("PWITHIN")),
    ("BF.EXISTS k a WITHIN", "-ERR wrong number of arguments for 'bf.exists' command"),
    ("BF.EXISTS k a LIFE 5", "-ERR wrong number of arguments for 'bf.exists' command"),
    ("BF.EXISTS k a WITHIN 5 b", "-ERR wrong number of arguments for 'bf.exists' command"),
    ("BF.EXISTS string a WITHIN 5", WRONG_TYPE),
    ("BF.BULKEXISTS k WITHIN 5 WITHIN 5 LINES a", "-ERR syntax error"),
    ("BF.BULKEXISTS k NOCREATE LINES a", PACKING),
    ("BF.TTL string a", WRONG_TYPE),
    ("BF.PTTL string a", WRONG_TYPE),
    // EX, PX, EXAT and PXAT, with the rules of SET
    ("BF.RESERVE k 0.01 100 EX 0", BAD_EXPIRY),
    ("BF.RESERVE k 0.01 100 PXAT -1", BAD_EXPIRY),
    ("BF.RESERVE k 0.01 100 EX 9223372036854775807", BAD_EXPIRY),
    ("BF.RESERVE k 0.01 100 PX 9223372036854775807", BAD_EXPIRY),
    ("BF.RESERVE k 0.01 100 EX soon", "-ERR value is not an integer or out of range"),
    ("BF.RESERVE k 0.01 100 EX 1 PX 1", "-ERR syntax error"),
    ("BF.RESERVE k 0.01 100 EX", "-ERR wrong number of arguments for 'bf.reserve' command"),
    ("BF.INSERT k EX 0 ITEMS a", "-ERR invalid expire time in 'bf.insert' command"),
    (
        "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 EX 0",
        "-ERR invalid expire time in 'bf.import' command",
    ),
    ("BF.RESERVE string 0.01 100 IFNOTEXISTS", WRONG_TYPE),
    ("BF.CARD f", ":0"),
    ("BF.CARD k", ":0"),
];

/// Vacant keys and keys of another type.
pub(crate) const NO_FILTER: Dialogue = &[
    ("BF.EXISTS none a", "#f"),
    ("BF.MEXISTS none a b", "*2 #f #f"),
    ("BF.CARD none", ":0"),
    ("BF.INFO none", NOT_FOUND),
    ("BF.INFO none CAPACITY", NOT_FOUND),
    ("BF.INFO none NONSENSE", NOT_FOUND),
    ("BF.DEBUG none", NOT_FOUND),
    ("BF.STATS none", NOT_FOUND),
    ("BF.CLEAR none", NOT_FOUND),
    ("BF.DEL none x", NOT_FOUND),
    ("BF.EXPORT none", NOT_FOUND),
    ("BF.SCANDUMP none 0", NOT_FOUND),
    ("BF.SCANDUMP none x", NOT_FOUND),
    ("BF.LOADCHUNK none 2 d", NOT_FOUND),
    ("BF.LOADCHUNK none 0 d", NOT_FOUND),
    ("BF.LOADCHUNK none -1 d", NOT_FOUND),
    ("BF.LOADCHUNK none 1 d", "-ERR received bad data"),
    ("BF.LOADCHUNK none 17592186044417 d", "-ERR received bad data"),
    ("BF.LOADCHUNK none 9223372036854775807 d", NOT_FOUND),
    ("BF.LOADCHUNK none x d", "-ERR Second argument must be numeric"),
    ("BF.LOAD none blob", "-ERR bloom object decoding failed"),
    ("BF.BULKADD none NOCREATE LINES a", NOT_FOUND),
    ("BF.BULKEXISTS none LINES a\nb", "$00"),
    ("BF.BULKEXISTS none COUNT LINES a\nb", ":0"),
    // A batch without items creates no filter.
    ("BF.BULKADD none LINES ", "$"),
    ("BF.BULKADD none COUNT FIXED 8 ", ":0"),
    ("BF.INFO none", NOT_FOUND),
    ("BF.EXISTS string a", WRONG_TYPE),
    ("BF.MEXISTS string a", WRONG_TYPE),
    ("BF.CARD string", WRONG_TYPE),
    ("BF.INFO string", WRONG_TYPE),
    ("BF.INFO string FOO", WRONG_TYPE),
    ("BF.STATS string", WRONG_TYPE),
    ("BF.DEBUG string", WRONG_TYPE),
    ("BF.CLEAR string", WRONG_TYPE),
    ("BF.SCANDUMP string 0", WRONG_TYPE),
    ("BF.SCANDUMP string x", WRONG_TYPE),
    ("BF.LOADCHUNK string 1 d", WRONG_TYPE),
    ("BF.LOADCHUNK string x d", "-ERR Second argument must be numeric"),
    ("BF.LOAD string blob", WRONG_TYPE),
    ("BF.ADD string a", WRONG_TYPE),
    ("BF.MADD string a", WRONG_TYPE),
    ("BF.DEL string x", WRONG_TYPE),
    ("BF.BULKADD string LINES a", WRONG_TYPE),
    ("BF.BULKEXISTS string LINES a", WRONG_TYPE),
];

/// Errors for an existing filter: fields, iterators, chunks, deletions.
pub(crate) const FILTER_ERRORS: Dialogue = &[
    ("BF.MADD f a b c", "*3 #t #t #t"),
    ("BF.INFO f FOO", "-Invalid information value"),
    ("BF.INFO f CAP", "-Invalid information value"),
    ("BF.INFO f CAPACITYX", "-Invalid information value"),
    ("BF.INFO f PER-LAYER", "-Invalid information value"),
    ("BF.INFO f ESTIMATED", "-Invalid information value"),
    ("BF.SCANDUMP f x", "-Second argument must be numeric"),
    ("BF.SCANDUMP f 1.5", "-Second argument must be numeric"),
    ("BF.SCANDUMP f +1", "-Second argument must be numeric"),
    ("BF.SCANDUMP f -1", DUMP_ENDED),
    ("BF.SCANDUMP f 1", DUMP_ENDED),
    ("BF.SCANDUMP f 17592186044417", DUMP_ENDED),
    ("BF.SCANDUMP f 9223372036854775807", DUMP_ENDED),
    ("BF.LOADCHUNK f x d", "-ERR Second argument must be numeric"),
    ("BF.LOADCHUNK f 0 d", "-ERR received bad data"),
    ("BF.LOADCHUNK f -5 d", "-ERR received bad data"),
    ("BF.LOADCHUNK f 1 d", "-ERR received bad data"),
    ("BF.LOADCHUNK f 1 0123456789abcdefg", "-ERR received bad data"),
    ("BF.LOADCHUNK f 99999 0123456789abcdef012345678", "-ERR received bad data"),
    ("BF.LOADCHUNK f 17592186044417 0123456789abcdef012345678", "-ERR received bad data"),
    ("BF.LOAD f blob", "-BUSYKEY Target key name already exists."),
    ("BF.CARD f", ":3"),
    ("BF.DEL f a", NOT_COUNTING),
    ("BF.INSERT redis FORMAT redisbloom ITEMS x", "*1 #t"),
    ("BF.DEL redis x", NOT_COUNTING),
    ("BF.INSERT valkey FORMAT valkey-bloom ITEMS x", "*1 #t"),
    ("BF.DEL valkey x y", NOT_COUNTING),
];

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
pub(crate) fn wrong_arity() -> impl Iterator<Item = String> {
    let lines = |(name, rests): &(&str, &'static [&str])| {
        let name = name.to_string();
        rests.iter().map(move |rest| format!("{name} {rest}").trim_end().to_owned())
    };
    WRONG_ARITY.iter().flat_map(lines)
}

/// CF.* on keys without a counting filter, and bad arguments.
pub(crate) const CUCKOO_ERRORS: Dialogue = &[
    // A filter that does not count: lookups look into it, and the other commands name what is missing.
    ("BF.ADD plain a", "#t"),
    ("CF.ADD plain a", "-ERR CF.ADD needs a filter created with COUNTING"),
    ("CF.ADDNX plain a", "-ERR CF.ADDNX needs a filter created with COUNTING"),
    ("CF.INSERT plain ITEMS a", "-ERR CF.INSERT needs a filter created with COUNTING"),
    ("CF.INSERT plain NOCREATE ITEMS a", "-ERR CF.INSERT needs a filter created with COUNTING"),
    ("CF.INSERTNX plain ITEMS a", "-ERR CF.INSERTNX needs a filter created with COUNTING"),
    ("CF.RESERVE plain 10", "-ERR item exists"),
    ("CF.RESERVE string 10", WRONG_TYPE),
    ("CF.EXISTS plain a", "#t"),
    ("CF.MEXISTS plain a b", "*2 #t #f"),
    ("CF.COUNT plain a", ":1"),
    ("CF.COUNT plain b", ":0"),
    ("CF.DEL plain a", "-ERR CF.DEL needs a filter created with COUNTING"),
    ("CF.INFO plain", "-ERR CF.INFO needs a filter created with COUNTING"),
    ("CF.DEBUG plain", "-ERR CF.DEBUG needs a filter created with COUNTING"),
    ("CF.COMPACT plain", "-ERR CF.COMPACT needs a filter created with COUNTING"),
    ("CF.SCANDUMP plain 0", "-ERR CF.SCANDUMP needs a filter created with COUNTING"),
    ("CF.LOADCHUNK plain 1 x", "-ERR CF.LOADCHUNK needs a filter created with COUNTING"),
    ("BF.RESERVE bits 0.01 10 NONSCALING", "+OK"),
    ("BF.ADD bits a", "#t"),
    ("CF.MEXISTS bits b a", "*2 #f #t"),
    ("BF.INSERT window WINDOW 60 ITEMS a a", "*2 #t #f"),
    ("CF.COUNT window a", ":1"),
    // Bloom filters of the other modules' types: the replies of RedisBloom.
    ("BF.INSERT redis FORMAT redisbloom ITEMS a", "*1 #t"),
    ("BF.INSERT valkey FORMAT valkey-bloom ITEMS a", "*1 #t"),
    ("CF.ADD redis a", WRONG_TYPE),
    ("CF.ADD valkey a", WRONG_TYPE),
    ("CF.EXISTS redis a", "#f"),
    ("CF.EXISTS valkey a", "#f"),
    ("CF.MEXISTS redis a b", "*2 #f #f"),
    ("CF.COUNT valkey a", ":0"),
    ("CF.DEL redis a", "-Not found"),
    ("CF.INFO redis", WRONG_TYPE),
    ("CF.COMPACT valkey", "-Cuckoo filter was not found"),
    ("CF.SCANDUMP redis 0", WRONG_TYPE),
    ("CF.LOADCHUNK redis 1 x", WRONG_TYPE),
    ("CF.SCANDUMP plain -1", "-Invalid position"),
    ("CF.LOADCHUNK plain 0 x", "-Invalid position"),
    ("CF.LOADCHUNK none -1 x", "-ERR not found"),
    ("CF.LOADCHUNK none 1 x", "-Invalid header"),
    ("CF.RESERVE k 100 BUCKETSIZE 2 BUCKETSIZE x KEYED", "+OK"),
    ("CF.LOADCHUNK k 2 x", "-Couldn't load chunk!"),
    ("CF.RESERVE k2 100 FORMAT redisbloom", "-ERR unknown argument 'FORMAT'"),
    ("CF.RESERVE k2 100 WINDOW 60", "-ERR unknown argument 'WINDOW'"),
    // A word without a value.
    ("CF.RESERVE k2 100 FOO", "-ERR unknown argument 'FOO'"),
    ("CF.RESERVE k2 100 0.01", "-ERR unknown argument '0.01'"),
    ("CF.RESERVE k2 100 BUCKETSIZE x y", "-ERR unknown argument 'y'"),
    ("CF.RESERVE k2 100 keyed BUCKETSIZ", "-ERR unknown argument 'BUCKETSIZ': use BUCKETSIZE"),
    ("CF.RESERVE k2 100 EXPAND 2", "-ERR unknown argument 'EXPAND': use EXPANSION"),
    ("CF.RESERVE k2 100 ERROR 1", "-Bad error rate"),
    ("CF.RESERVE k2 100 EX 0", "-ERR invalid expire time in 'cf.reserve' command"),
    ("CF.RESERVE k2 100 EXPANSION 32769 x y", "-EXPANSION: value must be in the range [0, 32768]"),
    ("CF.INSERT k2 ERROR x ITEMS a", "-Bad error rate"),
    ("CF.INSERT k2 BUCKETSIZE 2 ITEMS a", "-Unknown argument received"),
    ("CF.INSERT k KEYED ITEMS a", "*1 #t"),
    ("BF.INSERT k2 BUCKETSIZE 2 ITEMS a", "-ERR BUCKETSIZE needs a filter created with COUNTING"),
    ("BF.INSERT k2 MAXITERATIONS 2 ITEMS a", "-ERR MAXITERATIONS needs a filter created with COUNTING"),
    ("BF.INSERT k2 COUNTING BUCKETSIZE 0 ITEMS a", "-Couldn't parse BUCKETSIZE"),
    ("BF.INSERT k2 COUNTING BUCKETSIZE 256 ITEMS a", "-Couldn't parse BUCKETSIZE"),
    ("BF.INSERT k2 COUNTING MAXITERATIONS 65536 ITEMS a", "-Couldn't parse MAXITERATIONS"),
    ("BF.INSERT k2 FORMAT redisbloom COUNTING BUCKETSIZE 2 ITEMS a", "-ERR COUNTING needs FORMAT everbloom"),
    ("BF.INSERT k2 WINDOW 60 BUCKETSIZE 2 ITEMS a", "-ERR BUCKETSIZE cannot be combined with WINDOW"),
];

/// Errors of packed batches.
pub(crate) const BATCH_ERRORS: Dialogue = &[
    ("BF.BULKADD k COUNT NOCREATE", ARITY_BULKADD),
    ("BF.BULKADD k WORDS data", PACKING),
    ("BF.BULKEXISTS k NOCREATE LINES a", PACKING),
    ("BF.BULKADD k FIXED 0 abc", LENGTH),
    ("BF.BULKADD k FIXED -1 abc", LENGTH),
    ("BF.BULKADD k FIXED 1.0 abc", LENGTH),
    ("BF.BULKADD k FIXED 9223372036854775808 abc", LENGTH),
    ("BF.BULKADD k FIXED 99999999999999999999 abc", LENGTH),
    ("BF.BULKADD k FIXED three abc", LENGTH),
    ("BF.BULKADD k FIXED 4 abc", TORN),
    ("BF.BULKADD k FIXED 4294967296 abc", TORN),
    ("BF.BULKADD k FIXED 9223372036854775807 abc", TORN),
    ("BF.BULKADD k PREFIXED abc", TORN),
    ("BF.BULKEXISTS k PREFIXED abc", TORN),
    ("BF.BULKADD k PREFIXED \x03\0\0\0ab", TORN),
    ("BF.BULKADD k PREFIXED \x7f\x7f\x7f\x7fabc", TORN),
    ("BF.BULKADD k PREFIXED \x7f\x7f\x7f\x7fabc", TORN),
    ("BF.BULKADD k LINES a b", BATCH_ARGUMENTS),
    ("BF.BULKADD k LINES a COUNT", BATCH_ARGUMENTS),
    ("BF.BULKADD k FIXED 1 a b", BATCH_ARGUMENTS),
];

/// Errors of BF.IMPORT, from left to right.
pub(crate) const IMPORT_ERRORS: Dialogue = &[
    ("BF.IMPORT k EMPTY", "-ERR wrong number of arguments for 'bf.import' command"),
    ("BF.IMPORT k FROM s x", "-ERR SOURCE key, GUAVA bytes or EMPTY must follow the key"),
    (
        "BF.IMPORT k SOURCE k SCHEME x",
        "-ERR source and destination are the same key: choose another destination",
    ),
    ("BF.IMPORT k SOURCE string", "-ERR SCHEME is missing: add this option"),
    ("BF.IMPORT k SOURCE string SCHEME", "-ERR wrong number of arguments for 'bf.import' command"),
    (
        "BF.IMPORT k SOURCE string SCHEME murmur",
        "-ERR unknown scheme 'murmur': use guava, murmur3-salted, go-zero, fnv32a-salted, guava-mitz32, guava-mitz64, murmur3-x86-128-mitz64, csharp-netfx-mitz64, php-bkdr-js-sdbm, redisson",
    ),
    ("BF.IMPORT k SOURCE string WHAT 1", "-ERR unknown argument 'WHAT'"),
    ("BF.IMPORT k EMPTY SCHEME go-zero", "-ERR BITS is missing: add this option"),
    ("BF.IMPORT k EMPTY SCHEME redisson BITS 9", "-ERR HASHES is missing: add this option"),
    ("BF.IMPORT k EMPTY SCHEME murmur3-salted BITS 9", "-ERR HASHES is missing: add this option"),
    ("BF.IMPORT k EMPTY SCHEME go-zero BITS 0", "-ERR bad value of BITS: use 1 to 9223372036854775807"),
    ("BF.IMPORT k EMPTY SCHEME go-zero BITS 1e6", "-ERR bad value of BITS: use 1 to 9223372036854775807"),
    ("BF.IMPORT k EMPTY HASHES 0 BITS x", "-ERR bad value of HASHES: use 1 to 4294967295"),
    ("BF.IMPORT k EMPTY HASHES 4294967296", "-ERR bad value of HASHES: use 1 to 4294967295"),
    ("BF.IMPORT k EMPTY CAPACITY 0", "-ERR bad value of CAPACITY: use 1 to 1099511627776"),
    ("BF.IMPORT k EMPTY CAPACITY 1099511627777", "-ERR bad value of CAPACITY: use 1 to 1099511627776"),
    ("BF.IMPORT k EMPTY SHIFT 256", "-ERR bad value of SHIFT: use 0 to 255"),
    ("BF.IMPORT k EMPTY ORDER guava", "-ERR bad value of ORDER: use msb, lsb"),
    (
        "BF.IMPORT k EMPTY ENCODING utf8",
        "-ERR bad value of ENCODING: use raw, utf16le, int32le, int64le, int32be, kryo5-string, json-string",
    ),
    ("BF.IMPORT k EMPTY ERROR 1", "-ERR bad value of ERROR: use a number between 0 and 1"),
    ("BF.IMPORT k EMPTY EXPANSION 32769", "-ERR bad value of EXPANSION: use 0 to 32768"),
    ("BF.IMPORT k EMPTY SCHEME go-zero EXPANSION 2 NONSCALING", "-Nonscaling filters cannot expand"),
    ("BF.IMPORT k SOURCE list SCHEME go-zero BITS 9", WRONG_TYPE),
    ("BF.IMPORT string SOURCE users SCHEME go-zero BITS 9 REPLACE", WRONG_TYPE),
    ("BF.IMPORT k EMPTY SCHEME go-zero BITS 9 HASHES 3", "-ERR the scheme has 14 hashes, got 3"),
    (
        "BF.IMPORT k SOURCE string SCHEME go-zero BITS 5",
        "-ERR the string has bits set at byte 0, beyond a filter of 5 bits: check the number of bits and their order",
    ),
    ("BF.IMPORT k GUAVA x", "-ERR a Guava filter has at least 6 bytes"),
    ("BF.IMPORT k GUAVA x SCHEME go-zero", OWN_PARAMETERS),
    ("BF.IMPORT k GUAVA x BITS 64", OWN_PARAMETERS),
    ("BF.IMPORT k GUAVA x HASHES 4", OWN_PARAMETERS),
    ("BF.IMPORT k GUAVA x SHIFT 0", OWN_PARAMETERS),
    ("BF.IMPORT k GUAVA x ORDER msb", OWN_PARAMETERS),
    ("BF.IMPORT k SOURCE string SCHEME guava ORDER lsb", OWN_PARAMETERS),
    ("BF.IMPORT k EMPTY SCHEME guava", OWN_PARAMETERS),
    ("BF.EXPORT k", "-ERR not found"),
];

/// Exports that would be longer than the longest string of a server.
pub(crate) const LONG_EXPORTS: Dialogue = &[
    ("BF.IMPORT k EMPTY SCHEME go-zero BITS 4294967297", "+OK"),
    ("BF.EXPORT k", TOO_LONG),
    ("BF.ADD k a", "#t"),
    ("BF.EXPORT k", TOO_LONG),
    ("BF.IMPORT l EMPTY SCHEME go-zero BITS 4294967296", "+OK"),
    ("BF.EXPORT l", "$"),
];

const REDISBLOOM_CAPACITY: &str = "-ERR capacity must be in the range [1, 1073741824]";
const BAD_DATA: &str = "-ERR received bad data";
const BAD_RATIO: &str = "-ERR (0 < tightening ratio range < 1)";

/// Errors that only filters of RedisBloom's format have.
pub(crate) const REDISBLOOM_ERRORS: Dialogue = &[
    ("BF.RESERVE k 0.01 1073741825 FORMAT redisbloom", REDISBLOOM_CAPACITY),
    ("BF.RESERVE k 0.01 0 FORMAT redisbloom", REDISBLOOM_CAPACITY),
    ("BF.INSERT k FORMAT redisbloom CAPACITY 1073741825 ITEMS a", "-Bad capacity"),
    ("BF.INSERT k FORMAT redisbloom CAPACITY 1073741824 NOCREATE ITEMS a", NOT_FOUND),
    ("BF.INSERT k FORMAT redisbloom CAPACITY 10", ARITY_INSERT),
    ("BF.RESERVE f 0.01 10 FORMAT redisbloom", "+OK"),
    ("BF.LOADCHUNK f 0 data", BAD_DATA),
    ("BF.LOADCHUNK f 3 data", BAD_DATA),
    ("BF.LOADCHUNK f 4 data", "-ERR invalid offset - no link found"),
    ("BF.LOADCHUNK f 1000 data", "-ERR invalid offset - no link found"),
    ("BF.LOADCHUNK f 20 0123456789abcdefg", "-ERR invalid chunk - Too big for current filter"),
    ("BF.RESERVE f 0.01 10 FORMAT other", "-ERR unknown format: use everbloom, redisbloom or valkey-bloom"),
];

/// Options and errors that only filters of valkey-bloom's format have.
pub(crate) const VALKEY_BLOOM: Dialogue = &[
    ("BF.INSERT k SEED 0123456789abcdef0123456789abcde ITEMS a", "-ERR invalid seed"),
    ("BF.INSERT k SEED 0123456789abcdef0123456789abcdef0 ITEMS a", "-ERR invalid seed"),
    ("BF.INSERT k FORMAT valkey-bloom TIGHTENING x ITEMS a", "-ERR bad tightening ratio"),
    ("BF.INSERT k FORMAT valkey-bloom TIGHTENING 0 ITEMS a", BAD_RATIO),
    ("BF.INSERT k FORMAT valkey-bloom TIGHTENING 1 ITEMS a", BAD_RATIO),
    ("BF.INSERT k FORMAT valkey-bloom TIGHTENING -0.5 ITEMS a", BAD_RATIO),
    (
        "BF.INSERT k FORMAT valkey-bloom TIGHTENING 0.0000000001 CAPACITY 1 EXPANSION 1 VALIDATESCALETO 100 ITEMS x",
        "-ERR provided VALIDATESCALETO causes false positive to degrade to 0",
    ),
    ("BF.INSERT k FORMAT valkey-bloom TIGHTENING 0.25 ERROR 0.125 ITEMS a", "*1 #t"),
    ("BF.INFO k TIGHTENING", "*1 ,0.25"),
    ("BF.INFO k ERROR", "*1 ,0.125"),
    ("BF.INSERT s SEED 0123456789abcdef0123456789ABCDEF CAPACITY 9 ITEMS a", "*1 #t"),
    ("BF.INFO s TIGHTENING", "*1 ,0.5"),
    // A fixed filter has neither of the fields about growth.
    ("BF.INSERT fixed FORMAT valkey-bloom NONSCALING ITEMS a", "*1 #t"),
    ("BF.INFO fixed TIGHTENING", "-Invalid information value"),
    ("BF.INFO fixed MAXSCALEDCAPACITY", "-Invalid information value"),
    ("BF.INFO fixed EXPANSION", "*1 _"),
    // Items may be omitted.
    ("BF.INSERT none FORMAT valkey-bloom NOCREATE CAPACITY 10", NOT_FOUND),
    ("BF.INSERT new FORMAT valkey-bloom CAPACITY 10", "*0"),
    ("BF.INSERT new FORMAT valkey-bloom CAPACITY 10", "*0"),
    ("BF.INFO new CAPACITY", "*1 :10"),
];
