//! Loads cuckoo filters of RedisBloom from snapshots, and from headers and chunks, and uses them. Loads values of
//! RedisBloom's other types.

use everbloom_command::Settings;
use everbloom_filter::Format;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_format::carried::{Carried, CarriedType};
use everbloom_format::redisbloom::cuckoo::{ENCODING_VERSION, from_header, load, load_chunk};

use super::input::Input;
use super::snapshot::{read, repeated};
use crate::saved::assert_cuckoo_survives;
use crate::server::NOW_MS;
use crate::work::bounded;
use crate::world::World;
use crate::{Field, Record, slices};

/// Largest number of bytes of the slots of one forged array.
const ARRAY_MAX_BYTES: u64 = 1 << 20;

/// Loads one value, and uses it if it is accepted.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let filter = match input.byte() % 4 {
        0 => {
            let version = i32::from(input.byte() % 6);
            loaded(version, &read(&mut input), limit)
        }
        1 => {
            let (version, fields) = forged(&mut input);
            loaded(version, &fields, limit)
        }
        2 => received(&mut input, limit),
        _ => return carried(&mut input),
    };
    if let Some(filter) = filter {
        assert!(filter.slots_bytes() <= limit);
        exercise(&filter, &mut Input::new(data), limit);
    }
}

fn loaded(version: i32, fields: &Record, limit: u64) -> Option<CuckooFilter> {
    let mut reader = fields.reader();
    // A server refuses a value with more fields before it calls the module.
    let load = || load(version, &mut reader, &limit);
    let size_bytes = |loaded: &Result<CuckooFilter, _>| loaded.as_ref().map_or(0, CuckooFilter::slots_bytes);
    let loaded = bounded(fields.size_bytes(), "cuckoo", load, size_bytes);
    loaded.ok().filter(|_| reader.is_at_end())
}

/// Returns the fields of a snapshot with valid sizes, and any slots.
fn forged(input: &mut Input<'_>) -> (i32, Record) {
    let version = if input.byte() < 0xc0 { ENCODING_VERSION } else { i32::from(input.byte() % 4) };
    let is_old = version < ENCODING_VERSION;
    let count = 1 + input.below(4) as u64;
    let buckets = 1 << input.below(9);
    let buckets = if input.byte() < 0xe0 { buckets } else { buckets + 5 };
    let bucket_size = if is_old { 2 } else { *input.choose(&[2, 1, 3, 4, 255]) };
    let expansion = *input.choose(&[1u64, 0, 2, 4, 3]);
    let number = |input: &mut Input<'_>| match input.byte() {
        byte @ 0..0xf0 => u64::from(byte),
        _ => input.u64(),
    };
    let mut fields = vec![count, buckets, number(input)];
    if !is_old {
        fields.extend([number(input), bucket_size, 1 + number(input) % 600, expansion]);
    }
    let mut fields: Vec<Field> = fields.into_iter().map(Field::Unsigned).collect();
    for index in 0..count as u32 {
        let is_derived = input.byte() < 0xc0;
        let own = if is_derived { buckets * expansion.pow(index) } else { 1 + u64::from(input.byte()) };
        if !is_old {
            fields.push(Field::Unsigned(own));
        }
        fields.push(repeated(input, (own * bucket_size).min(ARRAY_MAX_BYTES) as usize));
    }
    (version, Record(fields))
}

/// Loads a header and chunks, valid or not. A refused chunk must change nothing.
fn received(input: &mut Input<'_>, limit: u64) -> Option<CuckooFilter> {
    let length = if input.flag() { 38 } else { input.byte().into() };
    let mut header = if input.flag() {
        let [items, deletes] = [input.byte(), input.byte()].map(u64::from);
        let (buckets, count) = (1u64 << input.below(10), 1 + input.below(4) as u64);
        let words = [items, buckets, deletes, count].map(u64::to_le_bytes).concat();
        [&words[..], &[1 + input.byte() % 6, 0, 20, 0, 1 << input.below(3), 0]].concat()
    } else {
        input.bytes(length).to_vec()
    };
    header.resize(length, 0);
    let mut filter = from_header(&header, &limit).ok()?;
    for _ in 0..8 {
        let (iterator, length) = (u64::from(input.u16()), input.byte().into());
        let iterator = if input.byte() < 0xf0 { iterator } else { input.u64() };
        let before = filter.try_clone().unwrap();
        if load_chunk(&mut filter, iterator, input.bytes(length)).is_err() {
            let bytes = |filter: &CuckooFilter| -> Vec<Vec<u8>> {
                filter.arrays().iter().map(|array| array.bytes().to_vec()).collect()
            };
            assert!(bytes(&before) == bytes(&filter));
        }
    }
    Some(filter)
}

/// Uses an accepted filter as commands do, on a primary and a replica.
fn exercise(filter: &CuckooFilter, input: &mut Input<'_>, limit: u64) {
    assert_cuckoo_survives(filter, "loaded");
    let settings = Settings { format: Format::RedisBloom, max_filter_bytes: limit * 2, ..Settings::DEFAULT };
    let mut world = World::pair(settings, NOW_MS);
    world.put(b"f", |server| _ = server.cuckoos.insert(b"f".to_vec(), filter.try_clone().unwrap()));
    let items = input.items(40);
    // With other sizes, RedisBloom's formulas lose fingerprints that an add moves.
    let keeps = filter.arrays().iter().all(|array| array.buckets().is_power_of_two());
    for item in &items {
        let is_added = world.call(&[b"CF.ADD", b"f", item]) == "#t";
        assert!(!(is_added && keeps) || world.call(&[b"CF.EXISTS", b"f", item]) == "#t");
    }
    world.call_with(&[b"CF.MEXISTS", b"f"], &items);
    let at_once = world.server().reply[1..].to_vec();
    for (item, reply) in items.iter().zip(&at_once) {
        assert_eq!(&world.call(&[b"CF.EXISTS", b"f", item]), reply);
        let count = world.call(&[b"CF.COUNT", b"f", item]);
        assert_eq!(count != ":0", reply == "#t", "{count}");
    }
    for name in [&b"CF.INSERT"[..], b"CF.INSERTNX"] {
        world.call(&[&[name, b"f", b"ITEMS"], &slices(&items)[..]].concat());
    }
    for line in ["CF.INFO f", "CF.DEBUG f", "CF.COMPACT f"] {
        assert!(!world.run(line).starts_with('-'), "{line}");
    }
    items.iter().for_each(|item| drop(world.call(&[b"CF.DEL", b"f", item])));
    dump(&mut world);
    world.check_all();
}

/// Copies the filter in chunks.
fn dump(world: &mut World) {
    let filter = world.server().cuckoos[&b"f"[..]].try_clone().unwrap();
    let mut iterator = "0".to_owned();
    loop {
        let reply = world.call(&[b"CF.SCANDUMP", b"f", iterator.as_bytes()]);
        assert!(!reply.starts_with('-') || !filter.has_header(), "{reply}");
        let Some(chunk) = everbloom_format::redisbloom::cuckoo::chunk(&filter, iterator.parse().unwrap())
        else {
            return;
        };
        if filter.items() == 0 || !filter.has_header() {
            return;
        }
        iterator = chunk.next_iterator.to_string();
        let reply = world.call(&[b"CF.LOADCHUNK", b"g", iterator.as_bytes(), &chunk.data]);
        assert!(
            reply == "+OK" || reply == "-Couldn't create filter!" || reply == "-ERR not found",
            "{reply}"
        );
    }
}

/// Loads a value that is only carried. What is accepted must be written back as it was read.
fn carried(input: &mut Input<'_>) {
    let carried_type = *input.choose(&CarriedType::ALL);
    let version = i32::from(input.byte() / 0xf0);
    let fields = read(input);
    let mut reader = fields.reader();
    let Ok(value) = Carried::load(carried_type, version, &mut reader) else { return };
    if !reader.is_at_end() {
        return;
    }
    let mut saved = Record::default();
    value.try_clone().unwrap().save(&mut saved);
    assert_eq!(saved, fields);
    assert!(value.payload().unwrap().len() > value.bytes().len());
}
