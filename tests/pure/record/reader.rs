//! An independent reader of the record, field by field as in docs/formats.md, compared with the filter that was
//! saved.

use everbloom::bloom::cells::CellState;
use everbloom::bloom::hash::murmur2::Murmur2;
use everbloom::bloom::hash::siphash::HashKey;
use everbloom::bloom::{Filter, Growth, Hash, Layer, Layout, Policy};
use everbloom::format::filter::header;

use super::samples;
use crate::support::make::{START_MS, add, counting, promise, set_time, window};

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

/// Reads the part for the policy. Returns the number of layers.
fn assert_policy(filter: &Filter, fields: &mut Fields<'_>) -> usize {
    assert_eq!(fields.take(6), b"evbl\x02\x00");
    let (policy, flags, order, shares) = (fields.u8(), fields.u8(), fields.u8(), fields.u8());
    let (layers, expansion, error_rate) = (fields.u16(), fields.u32(), f64::from_bits(fields.u64()));
    let (capacity, length, detail) = (fields.u64(), fields.u64(), fields.u64());
    let growth = filter.growth();
    assert_eq!(expansion, growth.expansion());
    let expected_shares = match (policy, growth) {
        (3, _) | (_, Growth::Fixed | Growth::Saturating) => 0,
        (_, Growth::Scaling { .. }) => 1,
        (_, Growth::Unreserved { .. }) => 2,
    };
    assert_eq!(shares, expected_shares);
    assert_eq!(flags & 1 == 1, growth == Growth::Saturating);
    match filter.policy() {
        Policy::Promise(promise) => {
            assert_eq!((policy, flags >> 1, order, length, detail), (1, 0, 0, 0, 0));
            assert_eq!((error_rate, capacity), (promise.error_rate, promise.capacity_items));
        }
        Policy::United(promise) | Policy::Merged(promise) => {
            let number = if matches!(filter.policy(), Policy::United(_)) { 2 } else { 6 };
            assert_eq!((policy, flags >> 1, order, length, detail), (number, 0, 0, 0, 0));
            assert_eq!((error_rate, capacity), (promise.error_rate, promise.capacity_items));
        }
        Policy::Window(window) => {
            assert_eq!((policy, flags, order), (3, 2 * u8::from(window.no_refresh), 0));
            assert_eq!(detail, window.end());
            assert_eq!((error_rate, capacity), (window.promise.error_rate, window.promise.capacity_items));
            assert_eq!(length, window.span.ms());
        }
        Policy::Imported(imported) => {
            assert_eq!((policy, flags, order, capacity), (4, 0, imported.form.order.id(), 0));
            assert_eq!((error_rate, length), (imported.error_rate, imported.form.length_bytes));
            assert_eq!(detail, imported.estimated_items);
        }
        other => panic!("{other:?} has a record of its own"),
    }
    layers.into()
}

/// Reads the part for a layer.
fn assert_layer(layer: &Layer, fields: &mut Fields<'_>) {
    let (hash, layout, cells, detail) = (fields.u8(), fields.u8(), fields.u8(), fields.u8());
    let (probes, encoding, reserved) = (fields.u16(), fields.u8(), fields.u8());
    let (size_bits, capacity, items, set_cells) = (fields.u64(), fields.u64(), fields.u64(), fields.u64());
    assert_eq!(reserved, 0);
    assert_eq!((u32::from(probes), size_bits), (layer.layout().probes(), layer.cells().size_bits()));
    assert_eq!(
        (capacity, items, set_cells),
        (layer.capacity_items(), layer.counts().items, layer.counts().set_cells)
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
    match layer.cells().state() {
        CellState::Bits => assert_eq!(cells, 1),
        CellState::Counters(state) => assert_eq!((cells, fields.u64()), (2, state.occurrences)),
        CellState::Columns(state) | CellState::Burst(state) => {
            let number = if layer.is_burst() { 4 } else { 3 };
            assert_eq!((cells, fields.u64(), fields.u64()), (number, state.history.newest, state.address));
            assert!(state.history.items.iter().all(|items| fields.u64() == *items));
        }
    }
}

#[test]
fn every_field_of_the_record_is_as_documented() {
    for (name, filter) in samples() {
        let bytes = header(&filter);
        let mut fields = Fields(&bytes);
        assert_eq!(assert_policy(&filter, &mut fields), filter.layer_count(), "{name}");
        filter.layers().iter().for_each(|layer| assert_layer(layer, &mut fields));
        assert!(fields.0.is_empty(), "{name}");
    }
}

/// Computes the bytes of one layer's cells from the text of docs/formats.md, for two layouts. `high(a, b)` is the
/// upper half of the product.
#[test]
fn the_record_of_one_item_has_the_documented_bytes() {
    let mut filter = counting(promise(0.01, 100, 2));
    for _ in 0..3 {
        add(&mut filter, b"hello").unwrap();
    }
    let mut expected = b"evbl\x02\0\x01\0\0\x01\x01\0\x02\0\0\0".to_vec();
    expected.extend(0.01f64.to_le_bytes());
    [100u64, 0, 0].iter().for_each(|number| expected.extend(number.to_le_bytes()));
    let shape = filter.layers()[0].shape().unwrap();
    expected.extend([1, 1, 2, 0, shape.probes as u8, 0, 0, 0]);
    // Bits, capacity, distinct items, counters above 0, occurrences.
    for number in [shape.size_bits(), 100, 1, u64::from(shape.probes), 3] {
        expected.extend(number.to_le_bytes());
    }
    assert_eq!(header(&filter), expected);
    assert_eq!(shape.size_bits(), 4096);

    let window_ms = 14_000;
    let mut filter = window(promise(0.01, 100, 2), window_ms);
    set_time(&mut filter, START_MS);
    add(&mut filter, b"hello").unwrap();
    let mut expected = b"evbl\x02\0\x03\0\0\0\x01\0\x02\0\0\0".to_vec();
    expected.extend(0.01f64.to_le_bytes());
    let shape = filter.layers()[0].shape().unwrap();
    [100, window_ms, shape.size_bits() / 8].iter().for_each(|number| expected.extend(number.to_le_bytes()));
    let generation = START_MS * 14 / window_ms + 1;
    expected.extend([1, 1, 3, 0, shape.probes as u8, 0, 0, 0]);
    for number in [shape.positions * 16 + 64, 100, 0, u64::from(shape.probes) + 1, generation, 0] {
        expected.extend(number.to_le_bytes());
    }
    for column in 0..16 {
        expected.extend(u64::from(column == generation % 16).to_le_bytes());
    }
    assert_eq!(header(&filter), expected);
    // The current time of the filter is not saved.
    set_time(&mut filter, START_MS * 2);
    assert_eq!(header(&filter), expected);
}
