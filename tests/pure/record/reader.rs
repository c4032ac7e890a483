//! An independent reader of everbloom's own format, field by field as in docs/formats.md, without any code of the
//! module but the hash of an item. It is compared with the filter that was saved.

use everbloom_filter::hash::murmur2::Murmur2;
use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::hash::siphash::HashKey;
use everbloom_filter::table::EntryKind;
use everbloom_filter::{Filter, Growth, Hash, ItemHash, Layer, Layout, Policy, Rules};
use everbloom_format::filter::header;

use super::{WINDOW_MS, samples};
use crate::support::fuzz::forge::TableForm;
use crate::support::fuzz::read::{ReadEntry, ReadSegment};
use crate::support::make::{START_MS, add, contains, counting, promise, set_time, window};
use crate::support::saved::saved;
use crate::support::{Field, Record, effort};

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
    let (mut no_refresh, mut deletions) = (false, 0);
    let expected = match filter.policy() {
        Policy::Everbloom(promise) => (1, promise.error_rate, promise.capacity_items, 0, 0),
        Policy::Promised(promised) => {
            let (promise, rules) = (promised.promise, promised.rules);
            let (id, length) = match rules {
                Rules::Union => (2, 0),
                Rules::Window(window) => {
                    no_refresh = window.no_refresh;
                    (3, window.span.ms())
                }
                Rules::Merged => (6, 0),
                Rules::Counting(counting) => {
                    assert_eq!(order, counting.bucket_size.map_or(0, |slots| slots.get()));
                    deletions = counting.deletions;
                    (7, counting.max_iterations.map_or(0, |iterations| iterations.get()).into())
                }
            };
            (id, promise.error_rate, promise.capacity_items, length, deletions)
        }
        Policy::Imported(imported) => {
            assert_eq!(order, imported.form.order.id());
            (4, imported.error_rate, 0, imported.form.length_bytes, imported.estimated_items)
        }
        other => panic!("{other:?} has a record of its own"),
    };
    assert_eq!((policy, error_rate, capacity, length, detail), expected);
    assert!([4, 7].contains(&policy) || order == 0);
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

/// A table that was read from its bytes.
struct ReadTable {
    form: TableForm,
    key: Option<HashKey>,
    used_slots: u64,
    items: u64,
    tally: u64,
    newest: u64,
    items_of_generations: Vec<u64>,
    /// The segments that have entries.
    segments: Vec<ReadSegment>,
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
        let form = TableForm::of(bytes).unwrap();
        let (hash, schedule) = (fields.u8(), fields.u8());
        assert!(schedule == if form.is_timed() { 2 } else { 1 });
        assert_eq!((fields.take(3)[2], fields.take(7)), (form.blocks_log as u8, &[0; 7][..]));
        let (loading, segments) = (fields.u32(), fields.u64());
        let (used_slots, items, tally) = (fields.u64(), fields.u64(), fields.u64());
        assert_eq!((loading, segments), (0, form.segments));
        let key = (hash == 2).then(|| HashKey::new(fields.take(16).try_into().unwrap()));
        assert!(hash == 1 || hash == 2);
        let newest = if form.is_timed() { fields.u64() } else { 0 };
        let items_of_generations =
            if form.is_timed() { (0..16).map(|_| fields.u64()).collect() } else { Vec::new() };
        assert!(fields.0.is_empty());
        // The segments are the last fields. Before them comes their number.
        let per_segment = if form.is_timed() { 3 } else { 2 };
        let stored = (0..=segments).find(|stored| {
            let at = record.0.len().checked_sub(1 + *stored as usize * per_segment);
            at.is_some_and(|at| record.0[at] == Field::Unsigned(*stored))
        });
        let strings = &record.0[record.0.len() - stored.unwrap() as usize * per_segment..];
        let read = |fields: &[Field]| {
            let (Field::Unsigned(number), Field::Bytes(bytes)) = (&fields[0], &fields[per_segment - 1])
            else {
                panic!()
            };
            let stamp = if let Field::Unsigned(stamp) = fields[per_segment - 2] { stamp } else { panic!() };
            let stamp = if form.is_timed() { stamp } else { 0 };
            let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            let size = (form.depth_of(*number), form.blocks_log);
            ReadSegment::read(&form, *number, size, &words.collect::<Vec<_>>(), stamp)
        };
        let segments = strings.chunks(per_segment).map(read).collect();
        Some(Self { form, key, used_slots, items, tally, newest, items_of_generations, segments })
    }

    /// Returns the hash of an item.
    fn hash(&self, item: &[u8]) -> ItemHash {
        self.key.as_ref().map_or_else(|| hash128(item), |key| key.hash128(item))
    }

    /// Returns the entries that match an item.
    fn find(&self, item: &[u8]) -> Vec<ReadEntry> {
        let ItemHash { h1, h2 } = self.hash(item);
        let hash = u128::from(h2) << 64 | u128::from(h1);
        let matches = |segment: &ReadSegment, entry: &ReadEntry| {
            let is_known = || {
                let (known, bits) = entry.known(segment);
                (known ^ hash) & ((1 << bits) - 1) == 0
            };
            u64::from(entry.bucket) == h2 >> 58 && is_known()
        };
        self.all().filter(|(segment, entry)| matches(segment, entry)).map(|(_, entry)| *entry).collect()
    }

    /// Returns all entries, each with its segment.
    fn all(&self) -> impl Iterator<Item = (&ReadSegment, &ReadEntry)> {
        self.segments.iter().flat_map(|segment| segment.entries.iter().map(move |entry| (segment, entry)))
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
        let slots = read.segments.iter().map(|segment| segment.slots).sum::<usize>();
        assert_eq!((slots as u64, read.used_slots), (table.used_slots(), table.used_slots()), "{name}");
        let now = filter.newest_generation();
        let counted = read.all().map(|(_, entry)| entry.count).sum::<u64>();
        match table.kind() {
            EntryKind::Plain => assert_eq!((read.items, read.tally), (table.items(0), 0), "{name}"),
            EntryKind::Counted => {
                assert_eq!((read.items, read.tally), (table.items(0), table.distinct_items(0)), "{name}");
                assert!(counted >= read.items, "{name}");
            }
            EntryKind::Timed(_) => {
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
        for number in (0..3000u64).step_by(effort(9, 1)) {
            let item = number.to_le_bytes();
            let matching = read.find(&item);
            let is_live = |entry: &ReadEntry| {
                !read.form.is_timed() || filter.now().saturating_sub(entry.generation) < 15
            };
            let is_found = matching.iter().any(is_live);
            assert_eq!(is_found, contains(&filter, &item), "{name}, {number}");
            let kind = filter.table().unwrap().kind();
            found[usize::from(kind != EntryKind::Plain) + usize::from(kind.is_timed())] +=
                usize::from(is_found);
        }
    }
    assert!(found.iter().all(|found| *found > effort(50, 500)), "{found:?}");
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
        let counts: u64 = read.find(&number.to_le_bytes()).iter().map(|entry| entry.count).sum();
        assert!(counts > number, "{number}: {counts}");
    }
    assert_eq!(read.all().map(|(_, entry)| entry.count).sum::<u64>(), 200 * 201 / 2);

    let mut filter = window(promise(0.01, 5000, 2), WINDOW_MS);
    for number in 0..2000u64 {
        set_time(&mut filter, START_MS + number * 5);
        add(&mut filter, &number.to_le_bytes()).unwrap();
    }
    let read = ReadTable::read(&saved(&filter), &filter).unwrap();
    for number in 0..2000u64 {
        let generation = (START_MS + number * 5) * 14 / WINDOW_MS + 1;
        assert!(
            read.find(&number.to_le_bytes()).iter().any(|entry| entry.generation == generation),
            "{number}"
        );
    }
}
