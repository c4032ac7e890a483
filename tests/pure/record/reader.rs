//! An independent reader of everbloom's own format, field by field as in docs/formats.md, without any code of the
//! module but the hash of an item. It is compared with the filter that was saved.

use std::collections::HashMap;

use everbloom::bloom::generation::Generation;
use everbloom::bloom::hash::murmur2::Murmur2;
use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::hash::siphash::HashKey;
use everbloom::bloom::{Filter, Growth, Hash, ItemHash, Layer, Layout, Policy};
use everbloom::format::filter::header;

use super::{WINDOW_MS, samples};
use crate::support::make::{START_MS, add, contains, counting, promise, set_time, window};
use crate::support::saved::saved;
use crate::support::{Field, Record};

/// The remaining bytes.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, bytes: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }
}

/// Reads the part for the policy. Returns the number of layers, and whether there is a table.
fn assert_policy(filter: &Filter, fields: &mut Fields<'_>) -> (usize, bool) {
    assert_eq!(fields.take(6), b"evbl\x01\x00");
    let (policy, flags, order, reserved) = (fields.u8(), fields.u8(), fields.u8(), fields.u8());
    let (layers, expansion, error_rate) = (fields.u16(), fields.u32(), f64::from_bits(fields.u64()));
    let (capacity, length, detail) = (fields.u64(), fields.u64(), fields.u64());
    let growth = filter.growth();
    assert_eq!((reserved, expansion), (0, growth.expansion()));
    assert_eq!(flags & 1 == 1, growth == Growth::Saturating);
    assert_eq!(flags & 4 == 4, matches!(growth, Growth::Unreserved { .. }));
    let mut no_refresh = false;
    let expected = match filter.policy() {
        Policy::Everbloom(promise) => (1, promise.error_rate, promise.capacity_items, 0, 0),
        Policy::Union(promise) => (2, promise.error_rate, promise.capacity_items, 0, 0),
        Policy::Window(window) => {
            no_refresh = window.no_refresh;
            (3, window.promise.error_rate, window.promise.capacity_items, window.span.ms(), 0)
        }
        Policy::Imported(imported) => {
            assert_eq!(order, imported.form.order.id());
            (4, imported.error_rate, 0, imported.form.length_bytes, imported.estimated_items)
        }
        Policy::Merged(promise) => (6, promise.error_rate, promise.capacity_items, 0, 0),
        Policy::Counting(promise) => (7, promise.error_rate, promise.capacity_items, 0, 0),
        other => panic!("{other:?} has a record of its own"),
    };
    assert_eq!((policy, error_rate, capacity, length, detail), expected);
    assert!(policy == 4 || order == 0);
    assert_eq!(flags & 2 == 2, no_refresh);
    assert_eq!(flags >> 4, 0);
    (layers.into(), flags & 8 == 8)
}

/// Reads the part for a layer.
fn assert_layer(layer: &Layer, fields: &mut Fields<'_>) {
    let (hash, layout, detail) = (fields.u8(), fields.u8(), fields.u8());
    let (probes, encoding, reserved) = (fields.u16(), fields.u8(), fields.u16());
    let (size_bits, capacity, items, set_bits) = (fields.u64(), fields.u64(), fields.u64(), fields.u64());
    assert_eq!(reserved, 0);
    assert_eq!((u32::from(probes), size_bits), (layer.layout().probes(), layer.bits().size_bits()));
    assert_eq!(
        (capacity, items, set_bits),
        (layer.capacity_items(), layer.counts().items, layer.counts().set_bits)
    );
    match layer.hash() {
        Hash::Murmur3 => assert_eq!(hash, 1),
        Hash::Keyed(key) => {
            assert_eq!(hash, 2);
            assert_eq!(&HashKey::new(fields.take(16).try_into().unwrap()), key);
        }
        Hash::RedisBloom(murmur2) => {
            let numbers = [Murmur2::Narrow, Murmur2::Wide, Murmur2::WideCutSeeds];
            assert_eq!(numbers[usize::from(hash) - 3], *murmur2);
        }
        Hash::ValkeyBloom(seed) => {
            assert_eq!(hash, 6 + u8::from(seed.is_random()));
            assert_eq!(fields.take(32), seed.bytes());
        }
        Hash::Client(scheme, item_encoding) => {
            assert_eq!((hash, encoding), (128 | scheme.id(), item_encoding.id()));
        }
    }
    assert!(hash >= 128 || encoding == 0);
    match layer.layout() {
        Layout::Scattered(_) => assert_eq!((layout, detail), (1, 0)),
        Layout::Paged(paged) => assert_eq!((layout, detail), (2, paged.lines())),
        Layout::Modulo(modulo) => {
            assert_eq!((layout, detail), (3, modulo.exponent()));
            let (written_bits, error_rate) = (fields.u64(), f64::from_bits(fields.u64()));
            let bits_per_item = f64::from_bits(fields.u64());
            assert!(written_bits <= size_bits && error_rate > 0.0 && bits_per_item > 0.0);
        }
        Layout::Prime(_) => assert_eq!((layout, detail), (4, 0)),
        Layout::Scheme(scheme) => {
            assert_eq!((layout, detail), (5, scheme.parameters().shift));
            assert_eq!(fields.u64(), scheme.parameters().size_bits);
        }
    }
}

/// What entries have besides a remainder.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Counted,
    Timed,
}

/// A table that was read from its bytes.
struct ReadTable {
    kind: Kind,
    key: Option<HashKey>,
    used_slots: u64,
    items: u64,
    tally: u64,
    newest: u64,
    items_of_generations: Vec<u64>,
    segments: Vec<ReadSegment>,
}

/// A segment that was read from its bytes.
struct ReadSegment {
    depth: u32,
    blocks_log: u32,
    /// Bits of an entry: of its remainder and its marker.
    entry_bits: u32,
    stamp: u64,
    /// The slots of each bucket, by block and bucket.
    runs: HashMap<(u64, u64), Vec<u64>>,
}

/// Returns `width` bits of little-endian words.
fn bits(bytes: &[u8], at: usize, width: usize) -> u64 {
    (0..width).fold(0, |value, bit| {
        let at = at + bit;
        value | u64::from(bytes[at / 8] >> (at % 8) & 1) << bit
    })
}

impl ReadTable {
    /// Reads the record of a filter to its end, and then the segments, which are the last fields of a snapshot.
    fn read(record: &Record, filter: &Filter) -> Option<Self> {
        let Field::Bytes(bytes) = &record.0[0] else { panic!() };
        let mut fields = Fields(bytes);
        let (layers, has_table) = assert_policy(filter, &mut fields);
        assert_eq!(layers, filter.layer_count());
        filter.layers().iter().for_each(|layer| assert_layer(layer, &mut fields));
        if !has_table {
            assert!(fields.0.is_empty() && filter.table().is_none());
            return None;
        }
        let kind = match bytes[6] {
            3 => Kind::Timed,
            7 => Kind::Counted,
            _ => Kind::Plain,
        };
        let (hash, schedule, base) = (fields.u8(), fields.u8(), u32::from(fields.u8()));
        let (size, blocks_log) = (u32::from(fields.u8()), u32::from(fields.u8()));
        assert_eq!(fields.take(3), [0; 3]);
        let (segments_first, loading) = (fields.u32(), fields.u32());
        let (segments, used_slots, items, tally) = (fields.u64(), fields.u64(), fields.u64(), fields.u64());
        assert_eq!(loading, 0);
        let key = (hash == 2).then(|| HashKey::new(fields.take(16).try_into().unwrap()));
        assert!(hash == 1 || hash == 2);
        let is_timed = kind == Kind::Timed;
        let newest = if is_timed { fields.u64() } else { 0 };
        let items_of_generations =
            if is_timed { (0..16).map(|_| fields.u64()).collect() } else { Vec::new() };
        assert!(fields.0.is_empty());
        // Returns the length of new remainders in a table of 2^`size_log` blocks.
        let remainder_bits = |size_log: u32| match schedule {
            1 => {
                let longer = [21, 25, 34, 43, 52, 61].iter().filter(|from| size_log >= **from).count();
                base + u32::from(size_log >= size) + longer as u32
            }
            2 => {
                let first = size + segments_first.next_power_of_two().ilog2();
                base + if size_log > first { size_log - first + 1 } else { 0 }
            }
            other => panic!("schedule {other}"),
        };
        assert_eq!(segments_first > 0, schedule == 2);
        let strings = &record.0[record.0.len() - segments as usize * if is_timed { 2 } else { 1 }..];
        let mut strings = strings.iter();
        let whole = segments.ilog2();
        let segments = (0..segments).map(|number| {
            // The segments before this number have been split in this round, and their other halves are the last ones.
            let depth = whole + u32::from(number % (1 << whole) < segments - (1 << whole));
            let stamp = match is_timed.then(|| strings.next().unwrap()) {
                Some(Field::Unsigned(stamp)) => *stamp,
                None => 0,
                other => panic!("{other:?}"),
            };
            let Some(Field::Bytes(words)) = strings.next() else { panic!() };
            let entry_bits = remainder_bits(depth + blocks_log) + 1;
            ReadSegment::read(words, depth, blocks_log, (entry_bits, stamp, if is_timed { 4 } else { 0 }))
        });
        let segments = segments.collect();
        Some(Self { kind, key, used_slots, items, tally, newest, items_of_generations, segments })
    }

    /// Returns the hash of an item.
    fn hash(&self, item: &[u8]) -> ItemHash {
        self.key.as_ref().map_or_else(|| hash128(item), |key| key.hash128(item))
    }

    /// Returns the entries that match an item, each with its count and its generation.
    fn find(&self, item: &[u8]) -> Vec<(u64, Generation)> {
        let ItemHash { h1, h2 } = self.hash(item);
        let hash = u128::from(h2) << 64 | u128::from(h1);
        let count = self.segments.len() as u64;
        let whole = count.ilog2();
        let twice = h1 % (2 << whole);
        let number = if twice < count { twice } else { h1 % (1 << whole) };
        let segment = &self.segments[number as usize];
        let block = (h1 >> segment.depth) % (1 << segment.blocks_log);
        let key = hash >> (segment.depth + segment.blocks_log);
        let entries = segment.entries(self.kind, (block, h2 >> 58));
        let matching = entries.filter(|(entry, ..)| {
            let length = if *entry == 0 { 0 } else { entry.ilog2() };
            (u128::from(*entry) ^ key).is_multiple_of(1 << length)
        });
        matching.map(|(_, count, generation)| (count, generation)).collect()
    }

    /// Returns all entries, each with its count and its generation.
    fn all(&self) -> impl Iterator<Item = (u64, u64, Generation)> {
        self.segments
            .iter()
            .flat_map(|segment| segment.runs.keys().flat_map(|bucket| segment.entries(self.kind, *bucket)))
    }
}

impl ReadSegment {
    fn read(
        words: &[u8],
        depth: u32,
        blocks_log: u32,
        (entry_bits, stamp, code_bits): (u32, u64, u32),
    ) -> Self {
        let blocks = 1usize << blocks_log;
        let width = (entry_bits + code_bits) as usize;
        let mut runs = HashMap::new();
        if !words.is_empty() {
            let capacity = ((words.len() / 8 / blocks * 64 - 80) / (width + 1)).min(112);
            let block_bits = (80 + capacity * (width + 1)).div_ceil(64).max(3) * 64;
            assert!(blocks * block_bits <= words.len() * 8 && words.len().is_multiple_of(8));
            for block in 0..blocks {
                let start = block * block_bits;
                let mut slot = block * capacity + bits(words, start + 64, 16) as usize;
                for bucket in (0..64).filter(|bucket| bits(words, start + bucket, 1) == 1) {
                    let mut run = Vec::new();
                    loop {
                        let (at, index) = (slot / capacity % blocks * block_bits, slot % capacity);
                        run.push(bits(words, at + 80 + capacity + index * width, width));
                        slot += 1;
                        if bits(words, at + 80 + index, 1) == 1 {
                            break;
                        }
                    }
                    runs.insert((block as u64, bucket as u64), run);
                }
            }
        }
        Self { depth, blocks_log, entry_bits, stamp, runs }
    }

    /// Returns the entries of a bucket: the remainder with its marker, the count and the generation.
    fn entries(&self, kind: Kind, bucket: (u64, u64)) -> impl Iterator<Item = (u64, u64, Generation)> {
        let mut slots = self.runs.get(&bucket).map(Vec::as_slice).unwrap_or_default();
        std::iter::from_fn(move || {
            let (first, rest) = slots.split_first()?;
            slots = rest;
            let entry = first % (1 << self.entry_bits);
            match (kind, rest) {
                (Kind::Counted, [0, less_two, rest @ ..]) => {
                    slots = rest;
                    Some((entry, less_two + 2, 0))
                }
                (Kind::Timed, _) => {
                    let code = first >> self.entry_bits;
                    let newest = self.stamp + 1;
                    Some((entry, 1, (0..16).map(|age| newest - age).find(|at| at % 16 == code).unwrap()))
                }
                _ => Some((entry, 1, 0)),
            }
        })
    }
}

#[test]
fn every_field_of_the_record_is_as_documented() {
    for (name, filter) in samples() {
        let record = saved(&filter);
        let Field::Bytes(bytes) = &record.0[0] else { panic!() };
        assert_eq!(header(&filter), *bytes, "{name}");
        let Some(read) = ReadTable::read(&record, &filter) else { continue };
        let table = filter.table().unwrap();
        let slots =
            read.segments.iter().flat_map(|segment| segment.runs.values()).map(Vec::len).sum::<usize>();
        assert_eq!((slots as u64, read.used_slots), (table.used_slots(), table.used_slots()), "{name}");
        let now = filter.newest_generation();
        let counted = read.all().map(|(_, count, _)| count).sum::<u64>();
        match read.kind {
            Kind::Plain => assert_eq!((read.items, read.tally), (table.items(0), 0), "{name}"),
            Kind::Counted => {
                assert_eq!((read.items, read.tally), (table.items(0), table.distinct_items(0)), "{name}");
                assert!(counted >= read.items, "{name}");
            }
            Kind::Timed => {
                assert_eq!((read.items, read.newest), (0, now), "{name}");
                let live = (0..15).map(|age| read.items_of_generations[((now + 16 - age) % 16) as usize]);
                assert_eq!(live.sum::<u64>(), table.items(now), "{name}");
            }
        }
    }
}

#[test]
fn the_items_of_a_table_are_found_in_its_bytes() {
    let mut found = [0; 3];
    for (name, filter) in samples().into_iter().filter(|(_, filter)| filter.layers().is_empty()) {
        let Some(read) = ReadTable::read(&saved(&filter), &filter) else { panic!("{name}") };
        for number in 0..3000u64 {
            let item = number.to_le_bytes();
            let matching = read.find(&item);
            let is_live = |(_, generation): &(u64, u64)| {
                read.kind != Kind::Timed || filter.now().saturating_sub(*generation) < 15
            };
            let is_found = matching.iter().any(is_live);
            assert_eq!(is_found, contains(&filter, &item), "{name}, {number}");
            found[read.kind as usize] += usize::from(is_found);
        }
    }
    assert!(found.iter().all(|found| *found > 500), "{found:?}");
}

#[test]
fn counts_and_generations_are_read_from_their_bytes() {
    let mut filter = counting(promise(0.01, 100, 2));
    for number in 0..200u64 {
        for _ in 0..=number {
            add(&mut filter, &number.to_le_bytes()).unwrap();
        }
    }
    let read = ReadTable::read(&saved(&filter), &filter).unwrap();
    for number in 0..200u64 {
        let counts: u64 = read.find(&number.to_le_bytes()).iter().map(|(count, _)| count).sum();
        assert!(counts > number, "{number}: {counts}");
    }
    assert_eq!(read.all().map(|(_, count, _)| count).sum::<u64>(), 200 * 201 / 2);

    let mut filter = window(promise(0.01, 5000, 2), WINDOW_MS);
    for number in 0..2000u64 {
        set_time(&mut filter, START_MS + number * 5);
        add(&mut filter, &number.to_le_bytes()).unwrap();
    }
    let read = ReadTable::read(&saved(&filter), &filter).unwrap();
    for number in 0..2000u64 {
        let generation = (START_MS + number * 5) * 14 / WINDOW_MS + 1;
        assert!(read.find(&number.to_le_bytes()).iter().any(|(_, read)| *read == generation), "{number}");
    }
}
