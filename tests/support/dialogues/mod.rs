//! Dialogues: lists of commands with their replies. Two kinds of tests run the same dialogues: the tests of commands
//! with a simulated server, and the tests of servers with real servers in both protocols.
//!
//! A dialogue begins without filters. The key `string` has another type. The replies have the notation of
//! `server::Server`: `#t` and `#f` are booleans, `*2` an array of two, `$` a bulk string, `_` null, `,` a double.

pub(crate) mod errors;
pub(crate) mod replies;

/// Commands with their replies. The words of a command are separated by one space.
pub(crate) type Dialogue = &'static [(&'static str, &'static str)];

/// Every dialogue with its name.
pub(crate) const DIALOGUES: &[(&str, Dialogue)] = &[
    ("errors of BF.RESERVE", errors::RESERVE_ERRORS),
    ("errors of BF.INSERT", errors::INSERT_ERRORS),
    ("other kinds", errors::KIND_ERRORS),
    ("options", errors::OPTION_ERRORS),
    ("no filter", errors::NO_FILTER),
    ("errors of a filter", errors::FILTER_ERRORS),
    ("errors of batches", errors::BATCH_ERRORS),
    ("errors of BF.IMPORT", errors::IMPORT_ERRORS),
    ("long exports", errors::LONG_EXPORTS),
    ("errors of RedisBloom's format", errors::REDISBLOOM_ERRORS),
    ("valkey-bloom", errors::VALKEY_BLOOM),
    ("reserved", replies::RESERVED),
    ("added", replies::ADDED),
    ("full", replies::FULL_FIXED),
    ("options", replies::OPTIONS),
    ("tables", replies::TABLES),
    ("windows", replies::WINDOWS),
    ("lives", replies::LIVES),
    ("batches", replies::BATCHES),
    ("distinct items", replies::DISTINCT_ITEMS),
    ("emptied", replies::EMPTIED),
    ("saturating", replies::SATURATING),
    ("united imports", replies::UNITED_IMPORTS),
    ("united layers", replies::UNITED_LAYERS),
    ("united counts", replies::UNITED_COUNTS),
    ("cleared import", replies::CLEARED_IMPORT),
    ("FORCE as a key", replies::FORCE_IS_A_KEY),
    ("CF.*", replies::CUCKOO),
    ("CF.* on other filters", errors::CUCKOO_ERRORS),
];

/// Returns the error of a command with too few or too many arguments.
pub(crate) fn arity_error(line: &str) -> String {
    let name = line.split(' ').next().unwrap_or_default().to_lowercase();
    format!("-ERR wrong number of arguments for '{name}' command")
}

/// Commands, each with the command that replicates it; an empty string if nothing is replicated. The replicated command
/// has every parameter of a new filter, and only the changes of an existing filter. The commands are run in order on
/// one server. The key `string` has another type.
pub(crate) const REPLICATED: &[(&str, &str)] = &[
    // A new filter: every parameter is explicit.
    ("BF.RESERVE a 1e-2 100", "BF.INSERT a CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom"),
    ("bf.reserve b 0.5 7 expansion 3", "BF.INSERT b CAPACITY 7 ERROR 0.5 EXPANSION 3 FORMAT everbloom"),
    ("BF.RESERVE c 0x1p-3 9 EXPANSION 0", "BF.INSERT c CAPACITY 9 ERROR 0.125 NONSCALING FORMAT everbloom"),
    ("BF.RESERVE d .001 5 NonScaling", "BF.INSERT d CAPACITY 5 ERROR 0.001 NONSCALING FORMAT everbloom"),
    ("BF.RESERVE NONSCALING 0.1 5", "BF.INSERT NONSCALING CAPACITY 5 ERROR 0.1 EXPANSION 2 FORMAT everbloom"),
    ("BF.ADD e x", "BF.INSERT e ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom ITEMS x"),
    ("BF.MADD f x y x", "BF.INSERT f ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom ITEMS x y"),
    ("BF.INSERT g ITEMS x", "BF.INSERT g ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom ITEMS x"),
    (
        "bf.insert h error 0.5 nonscaling items x x",
        "BF.INSERT h CAPACITY 100 ERROR 0.5 NONSCALING FORMAT everbloom ITEMS x",
    ),
    (
        "BF.INSERT i CAPACITY 2 NONSCALING ITEMS x y z w",
        "BF.INSERT i CAPACITY 2 ERROR 0.01 NONSCALING FORMAT everbloom ITEMS x y",
    ),
    (
        "BF.RESERVE s 0.0001 2 NONSCALING SATURATE",
        "BF.INSERT s CAPACITY 2 ERROR 0.0001 NONSCALING SATURATE FORMAT everbloom",
    ),
    (
        "BF.INSERT y KEY 0123456789abcdef ITEMS x",
        "BF.INSERT y ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom KEY 0123456789abcdef ITEMS x",
    ),
    (
        "BF.RESERVE w 0.01 9 WINDOW 60 NOREFRESH",
        "BF.INSERT w CAPACITY 9 ERROR 0.01 EXPANSION 2 FORMAT everbloom PWINDOW 60000 NOREFRESH",
    ),
    (
        "BF.RESERVE wf 0.01 9 STEPS 120 PWINDOW 1000",
        "BF.INSERT wf CAPACITY 9 ERROR 0.01 EXPANSION 2 FORMAT everbloom PWINDOW 1000 STEPS 120",
    ),
    (
        "BF.RESERVE wc 0.01 9 STEPS 14 WINDOW 60",
        "BF.INSERT wc CAPACITY 9 ERROR 0.01 EXPANSION 2 FORMAT everbloom PWINDOW 60000",
    ),
    (
        "BF.INSERT t CAPACITY 5 UNRESERVED COUNTING ITEMS x",
        "BF.INSERT t CAPACITY 5 ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom COUNTING ITEMS x",
    ),
    // A counting filter: every add changes it. Refused adds and deletions of absent items are not replicated.
    (
        "BF.RESERVE n 0.001 2 counting NONSCALING",
        "BF.INSERT n CAPACITY 2 ERROR 0.001 NONSCALING FORMAT everbloom COUNTING",
    ),
    ("BF.ADD n a", "BF.ADD n a"),
    ("BF.ADD n a", "BF.ADD n a"),
    ("BF.MADD n a b", "BF.MADD n a b"),
    ("BF.ADD n c", ""),
    ("BF.MADD n a c b", "BF.MADD n a"),
    ("BF.INSERT n COUNTING ITEMS a", "BF.MADD n a"),
    ("BF.INSERT n ITEMS b", "BF.INSERT n ITEMS b"),
    // IFABSENT is replicated as the adds that it leaves.
    ("BF.ADD n a IFABSENT", ""),
    ("BF.INSERT n IFABSENT ITEMS a b", ""),
    ("BF.BULKADD n IFABSENT LINES a", ""),
    ("BF.DEL n x", ""),
    ("BF.DEL n a", "BF.DEL n a"),
    ("BF.DEL n a x b a", "BF.DEL n a b a"),
    ("BF.DEL n a a a", "BF.DEL n a a"),
    // CF.*: as for BF.*.
    (
        "CF.RESERVE cn 2 BUCKETSIZE 1 EXPANSION 0",
        "BF.INSERT cn CAPACITY 2 ERROR 0.01 NONSCALING FORMAT everbloom COUNTING BUCKETSIZE 1",
    ),
    ("CF.INSERT cn ITEMS a b c", "BF.MADD cn a b"),
    ("CF.ADD cn c", ""),
    ("CF.ADD cn b", "CF.ADD cn b"),
    ("CF.INSERT cn CAPACITY 9 ITEMS b a", "CF.INSERT cn CAPACITY 9 ITEMS b a"),
    ("CF.DEL cn x", ""),
    ("CF.DEL cn a", "CF.DEL cn a"),
    ("CF.DEL cn a", "CF.DEL cn a"),
    ("CF.ADDNX cn a", "CF.ADDNX cn a"),
    ("CF.ADDNX cn a", ""),
    ("CF.DEL cn a", "CF.DEL cn a"),
    ("CF.INSERTNX cn ITEMS a b a", "CF.INSERTNX cn ITEMS a b a"),
    ("CF.INSERTNX cn ITEMS a b c", ""),
    ("CF.RESERVE cf 9", "BF.INSERT cf CAPACITY 9 ERROR 0.01 EXPANSION 1 FORMAT everbloom COUNTING"),
    (
        "cf.reserve cf2 9 expansion 3 error 0.5 bucketsize 4 maxiterations 7",
        "BF.INSERT cf2 CAPACITY 9 ERROR 0.5 EXPANSION 4 FORMAT everbloom COUNTING BUCKETSIZE 4 MAXITERATIONS 7",
    ),
    (
        "CF.RESERVE cf3 4 EXPANSION 0",
        "BF.INSERT cf3 CAPACITY 4 ERROR 0.01 NONSCALING FORMAT everbloom COUNTING",
    ),
    ("CF.ADD cf4 x", "BF.INSERT cf4 ERROR 0.01 EXPANSION 1 UNRESERVED FORMAT everbloom COUNTING ITEMS x"),
    (
        "CF.INSERTNX cf5 CAPACITY 9 ITEMS x x",
        "BF.INSERT cf5 CAPACITY 9 ERROR 0.01 EXPANSION 1 FORMAT everbloom COUNTING ITEMS x",
    ),
    ("CF.COMPACT cf", ""),
    ("CF.EXISTS cf4 x", ""),
    ("CF.MEXISTS cf4 x y", ""),
    ("CF.COUNT cf4 x", ""),
    ("CF.INFO cf4", ""),
    ("CF.DEBUG cf4", ""),
    ("CF.SCANDUMP cf4 0", ""),
    ("CF.RESERVE cf 9", ""),
    ("CF.LOADCHUNK cf 9 rubbish", ""),
    ("CF.LOADCHUNK none 1 rubbish", ""),
    ("CF.ADD string x", ""),
    ("CF.INSERT none NOCREATE ITEMS x", ""),
    // This add makes the filter full again. Tests run the commands that change nothing a second time after all others,
    // and they must change nothing then either.
    ("BF.ADD n a", "BF.ADD n a"),
    // An existing filter: the command as it was sent, if every item was accepted and at least one was added.
    ("BF.ADD a d", "BF.ADD a d"),
    ("BF.MADD a d e f e", "BF.MADD a d e f e"),
    ("BF.ADD a i IFABSENT", "BF.MADD a i"),
    ("BF.INSERT a IFABSENT ITEMS d j k", "BF.MADD a j k"),
    ("BF.BULKADD a IFABSENT FIXED 1 dl", "BF.BULKADD a FIXED 1 l"),
    ("BF.ADD ab x IFABSENT", "BF.INSERT ab ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom ITEMS x"),
    ("BF.INSERT a CAPACITY 9 ERROR 0.3 ITEMS g h", "BF.INSERT a CAPACITY 9 ERROR 0.3 ITEMS g h"),
    // A filter of fixed size that becomes full: only the accepted items are replicated.
    ("BF.RESERVE k 0.0001 3 NONSCALING", "BF.INSERT k CAPACITY 3 ERROR 0.0001 NONSCALING FORMAT everbloom"),
    ("BF.ADD k a", "BF.ADD k a"),
    ("BF.MADD k a b c d e", "BF.MADD k b c"),
    // Commands that change nothing are not replicated.
    ("BF.ADD k a", ""),
    ("BF.MADD k a b a", ""),
    ("BF.INSERT k ITEMS a b", ""),
    ("BF.INSERT k NOCREATE ITEMS b", ""),
    ("BF.EXISTS k a", ""),
    ("BF.MEXISTS k a z", ""),
    ("BF.CARD k", ""),
    ("BF.INFO k", ""),
    ("BF.DEBUG k", ""),
    ("BF.SCANDUMP k 0", ""),
    // Refused commands are not replicated.
    ("BF.ADD k d", ""),
    ("BF.MADD k a d b", ""),
    ("BF.INSERT k ITEMS d", ""),
    ("BF.RESERVE a 0.01 100", ""),
    ("BF.RESERVE string 0.01 100", ""),
    ("BF.RESERVE none 0 100", ""),
    ("BF.RESERVE none 0.01 1099511627776", ""),
    ("BF.ADD string a", ""),
    ("BF.INSERT none NOCREATE ITEMS a", ""),
    ("BF.LOADCHUNK k 9 rubbish", ""),
    ("BF.LOADCHUNK none 1 rubbish", ""),
    ("BF.LOADCHUNK k 1 rubbish", ""),
];
