//! Generates words of commands.

use super::input::Input;

/// Names of keys. There are few, so that commands often use the same ones. Some are keys of the simulated server.
pub const KEYS: [&[u8]; 10] =
    [b"a", b"b", b"c", b"d", b"{users}", b"users", b"string", b"list", b"", b"\xff\r\n"];

/// Option words of all commands, in upper and lower case, and values that follow them.
#[rustfmt::skip]
const WORDS: [&str; 72] = [
    "UNRESERVED", "EXPANSION", "NONSCALING", "SATURATE", "KEYED", "KEY", "FORMAT", "everbloom", "redisbloom",
    "valkey-bloom", "COUNTING", "CAPACITY", "ERROR", "NOCREATE", "SEED", "TIGHTENING", "VALIDATESCALETO",
    "ITEMS", "EX", "PX", "EXAT", "PXAT", "IFNOTEXISTS", "SOURCE", "GUAVA", "EMPTY", "SCHEME", "BITS",
    "HASHES", "SHIFT", "ORDER", "msb", "lsb", "ENCODING", "REPLACE", "FORCE", "SIZE", "FILTERS", "FILL",
    "ESTIMATED", "murmur3-salted", "go-zero", "fnv32a-salted", "guava", "guava-mitz32", "guava-mitz64",
    "murmur3-x86-128-mitz64", "csharp-netfx-mitz64", "php-bkdr-js-sdbm", "redisson", "raw", "utf16le",
    "int32le", "int64le", "int32be", "kryo5-string", "json-string", "CHUNKS", "LINES", "FIXED", "PREFIXED",
    "BITSET", "expansion", "Nonscaling", "iTEMS", "bits", "error_rate", "window", "BUCKETSIZE", "MAXITERATIONS",
    "EVERY", "LEFT",
];

/// Numbers near the limits of commands, and words that are not numbers.
#[rustfmt::skip]
const NUMBERS: [&str; 48] = [
    "0", "1", "2", "3", "7", "10", "64", "100", "1000", "4096", "32768", "32769", "65536", "1000000",
    "1073741824", "4294967295", "4294967296", "1099511627776", "1099511627777", "9223372036854775807",
    "9223372036854775808", "18446744073709551615", "18446744073709551616", "-1", "-9223372036854775808", "+5",
    "05", " 5", "5 ", "1e3", "0x10", "0.01", "0.5", "0.999999999999", "1e-300", "1e-12", "1e-320", "1.0",
    "-0.5", "nan", "inf", "-inf", "1e400", ".5", "5.", "1e", "", "0x1p-3",
];

/// Returns a number as text. It may be near a limit, out of range, or not a number at all.
pub fn number(input: &mut Input<'_>) -> Vec<u8> {
    match input.byte() {
        byte @ 0..0x30 => NUMBERS[usize::from(byte)].as_bytes().to_vec(),
        byte @ 0x30..0xc0 => byte.to_string().into_bytes(),
        byte @ 0xc0..0xe0 => (u64::from(byte & 31) << (input.byte() % 40)).to_string().into_bytes(),
        byte @ 0xe0..0xf0 => (f64::from(byte & 15) / 16.0).to_string().into_bytes(),
        _ => {
            let length = input.below(24);
            input.bytes(length).to_vec()
        }
    }
}

/// Returns a word of any kind.
pub fn word(input: &mut Input<'_>) -> Vec<u8> {
    match input.byte() {
        byte @ 0..71 => WORDS[usize::from(byte)].as_bytes().to_vec(),
        71..0x90 => number(input),
        0x90..0xb0 => input.choose(&KEYS).to_vec(),
        0xb0..0xe0 => input.item(),
        0xe0..0xe8 => {
            let length = usize::from(input.u16());
            input.bytes(length).to_vec()
        }
        _ => {
            let length = input.below(40);
            input.bytes(length).to_vec()
        }
    }
}

/// Returns words that create a filter. Most of the time they are valid together. `is_insert` is true for BF.INSERT.
pub fn creation(input: &mut Input<'_>, is_insert: bool) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let rate = *input.choose(&["0.01", "0.1", "0.5", "0.9", "0.001", "1e-6", "1e-12", "0.25"]);
    let capacity = *input
        .choose(&["1", "3", "10", "20", "50", "100", "1000", "3000", "20000", "400000", "2000000", "7"]);
    let options = ["ERROR", rate, "CAPACITY", capacity];
    let numbers = options.iter().skip(usize::from(!is_insert)).step_by(if is_insert { 1 } else { 2 });
    words.extend(numbers.map(|word| word.as_bytes().to_vec()));
    let mut say = |line: &str| words.extend(line.split(' ').map(|word| word.as_bytes().to_vec()));
    match input.byte() % 12 {
        0 | 1 => say("NONSCALING"),
        2 => say("EXPANSION 0 SATURATE"),
        3 => say("NONSCALING SATURATE"),
        4 => say("EXPANSION 1"),
        5 => say("EXPANSION 5"),
        _ => {}
    }
    match input.byte() % 14 {
        0 | 1 => say("FORMAT redisbloom"),
        2 | 3 => say("FORMAT valkey-bloom"),
        4..=6 => say("COUNTING"),
        7 | 8 => say("KEYED"),
        9 if is_insert => say("SEED 0123456789abcdef0123456789ABCDEF"),
        10 if is_insert => say("TIGHTENING 0.7 FORMAT valkey-bloom"),
        11 if is_insert => say("KEY 0123456789abcdef"),
        12 => say("PX 100000"),
        13 => say("WINDOW 86400"),
        _ => {}
    }
    if input.byte() > 0xf0 {
        let place = input.below(words.len() + 1);
        words.insert(place, word(input));
    }
    words
}
