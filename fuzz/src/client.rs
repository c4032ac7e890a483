//! Imports, uses and exports clients' bitmaps of every scheme, order and encoding, and blobs of Guava.

use everbloom_command::Settings;
use everbloom_filter::Policy;
use everbloom_filter::filter::policy::BitOrder;
use everbloom_format::client::{GuavaHeader, bitmap};

use super::exercise::exercise;
use super::input::Input;
use super::words::number;
use crate::server::NOW_MS;
use crate::slices;
use crate::world::World;

#[rustfmt::skip]
const SCHEMES: [&str; 10] = [
    "murmur3-salted", "go-zero", "fnv32a-salted", "guava-mitz32", "guava-mitz64", "murmur3-x86-128-mitz64",
    "csharp-netfx-mitz64", "php-bkdr-js-sdbm", "redisson", "guava",
];
const ENCODINGS: [&str; 7] =
    ["raw", "utf16le", "int32le", "int64le", "int32be", "kryo5-string", "json-string"];

/// Imports one string or blob.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let mut world = World::pair(Settings { max_filter_bytes: limit, ..Settings::DEFAULT }, NOW_MS);
    let mode = input.byte();
    let mut words: Vec<Vec<u8>> = vec![b"BF.IMPORT".to_vec(), b"k".to_vec()];
    let mut say = |word: &[u8]| words.push(word.to_vec());
    if mode & 1 == 0 {
        say(b"SOURCE");
        say(b"s");
        say(b"SCHEME");
        say(input.choose(&SCHEMES).as_bytes());
    }
    let options = [("BITS", 2), ("HASHES", 4), ("SHIFT", 8), ("CAPACITY", 16)];
    let mut values = Vec::new();
    for (option, bit) in options {
        if mode & bit != 0 {
            values.extend([option.as_bytes().to_vec(), number(&mut input)]);
        }
    }
    if mode & 32 != 0 {
        values.extend([b"ORDER".to_vec(), input.choose(&["lsb", "msb"]).as_bytes().to_vec()]);
    }
    if mode & 64 != 0 {
        values.extend([b"ENCODING".to_vec(), input.choose(&ENCODINGS).as_bytes().to_vec()]);
    }
    if mode & 128 != 0 {
        values.push(b"NONSCALING".to_vec());
    }
    let string = string(&mut input, mode);
    if mode & 1 == 0 {
        world.put(b"s", |server| _ = server.strings.insert(b"s".to_vec(), string.clone()));
    } else {
        say(b"GUAVA");
        say(&string);
    }
    words.extend(values);
    let reply = world.call(&slices(&words));
    if reply != "+OK" {
        assert!(world.filter(b"k").is_none());
        return;
    }
    // An import must be exported unchanged, at its full length.
    let filter = world.filter(b"k").unwrap();
    let Policy::Imported(policy) = filter.policy() else { panic!("another kind") };
    let (layout, layer) = filter.clients_layer().unwrap();
    let guava = (policy.form.order == BitOrder::BigEndianWords)
        .then(|| GuavaHeader::of(&layout.parameters()).unwrap().write(layer.bits()));
    let exported = guava.unwrap_or_else(|| bitmap::write(policy.form, layer.bits()));
    assert_eq!(exported.unwrap(), string);
    exercise(world.server_mut().keys.remove(&b"k"[..]).unwrap(), &mut Input::new(data), limit);
}

/// Returns the rest of the input as a string that a client could have written: unchanged, after a preamble of Guava, or
/// after clear bytes.
fn string(input: &mut Input<'_>, mode: u8) -> Vec<u8> {
    if mode & 3 == 1 {
        return input.rest().to_vec();
    }
    if mode & 1 == 1 {
        // A valid preamble.
        let (strategy, probes) = (input.byte() & 1, input.byte());
        let bytes = input.rest();
        let longs = bytes.len() / 8;
        let mut blob = vec![strategy, probes];
        blob.extend_from_slice(&i32::try_from(longs).unwrap().to_be_bytes());
        blob.extend_from_slice(&bytes[..longs * 8]);
        return blob;
    }
    let clear_bytes = usize::from(input.byte()) << (input.byte() % 16);
    let mut string = vec![0; clear_bytes];
    string.extend_from_slice(input.rest());
    string
}
