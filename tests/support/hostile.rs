//! Helpers for the tests of changed bytes in all formats: the values that a field may get, and the checks of a filter
//! that was loaded from such bytes.

use everbloom_filter::limits::LAYERS_MAX;
use everbloom_filter::{Filter, Kind, UnknownMemory, Validation};
use everbloom_format::DecodeError;
use everbloom_format::filter::chunk;
use everbloom_format::value::from_header;

use crate::Field;
use crate::make::{ANY, START_MS, add_within, contains, remove, set_time};
use crate::saved::{loaded_as, saved};

/// Numbers at the limits of every width and range.
#[rustfmt::skip]
pub const NUMBERS: [u64; 31] = [
    0, 1, 2, 3, 7, 8, 50, 51, 63, 64, 127, 128, 255, 256, 4096, 4097, 0x7fff, 0xffff,
    0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, 1 << 52, i64::MAX as u64 - 7, i64::MAX as u64, 1 << 63,
    u64::MAX - 7, u64::MAX - 1, u64::MAX, 2048, 2049,
];

/// Numbers that are invalid or nearly invalid as an error rate or as bits per item.
#[rustfmt::skip]
pub const FLOATS: [f64; 21] = [
    0.0, -0.0, 5e-324, 1e-300, f64::MIN_POSITIVE, 0.5, -0.5, 1.0, -1.0, 2.0, 1e300, f64::MAX, f64::MIN,
    f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 1549.5, 2955.0, 3000.0,
    1.0f64.next_down(),
];

/// Returns the values that a field may get: values at limits, values near its own, and values of other types.
pub fn edges(field: &Field) -> Vec<Field> {
    let mut all = vec![Field::Unsigned(1), Field::Double(0.5), Field::Float(0.5), Field::Bytes(Vec::new())];
    match field {
        Field::Unsigned(value) => {
            let powers = (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
            let steps =
                [1, 8, 64].into_iter().flat_map(|step| [value.wrapping_sub(step), value.wrapping_add(step)]);
            let near = [value << 1, value >> 1, value.wrapping_neg(), value ^ 2, value ^ 8, value.to_be()];
            all.extend(powers.chain(NUMBERS).chain(steps).chain(near).map(Field::Unsigned));
        }
        Field::Float(_) => all.extend(FLOATS.map(|edge| Field::Float(edge as f32))),
        Field::Double(value) => {
            let near = [value.next_up(), value.next_down(), value * 2.0, value / 2.0, value * 1e9, -value];
            all.extend(FLOATS.into_iter().chain(near).map(Field::Double));
            all.push(Field::Double(f64::from_bits(0x7ff0_0000_0000_0001)));
            all.push(Field::Unsigned(value.to_bits()));
        }
        Field::Bytes(bytes) => {
            let longer = [1, 8, bytes.len(), 64 << 10].map(|more| [&bytes[..], &vec![255; more]].concat());
            let shorter = bytes.get(1..).unwrap_or_default().to_vec();
            all.extend(longer.into_iter().chain([shorter, vec![255; bytes.len()]]).map(Field::Bytes));
            all.push(Field::Unsigned(bytes.len() as u64));
        }
    }
    all
}

/// The numbers of changed payloads that were refused, and that gave a filter.
#[derive(Debug, Default)]
pub struct Outcomes {
    refused: u32,
    accepted: u32,
}

impl Outcomes {
    /// Counts an outcome and checks it: an error has a text, and a filter works.
    pub fn judge(&mut self, outcome: Result<Filter, DecodeError>, context: &dyn Fn() -> String) {
        match outcome {
            Ok(filter) => {
                self.accepted += 1;
                assert_behaves(filter, context);
            }
            Err(error) => {
                self.refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }

    /// Asserts that enough payloads were refused, and enough were accepted.
    pub fn assert_at_least(&self, refused: u32, accepted: u32) {
        println!("{self:?}");
        assert!(self.refused >= refused && self.accepted >= accepted, "{self:?}");
    }
}

/// Checks that a filter finds the items that are added to it at any time, keeps all rules, deletes items if it can,
/// and can be saved and loaded.
fn assert_behaves(mut filter: Filter, context: &dyn Fn() -> String) {
    assert!((1..=LAYERS_MAX + 1).contains(&filter.part_count()), "{}", context());
    assert_eq!(filter.internal_validate(Validation::Contents), Ok(()), "{}", context());
    let limit_bytes = filter.size_bytes() + (1 << 17);
    let times = [0, 1, START_MS, START_MS + 9_000_000, u64::MAX];
    for now_ms in &times[..if filter.window().is_some() { 5 } else { 1 }] {
        set_time(&mut filter, *now_ms);
        let items = (0..40u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        let added: Vec<_> = items.filter(|item| add_within(&mut filter, item, limit_bytes).is_ok()).collect();
        assert!(added.iter().all(|item| contains(&filter, item)), "{}", context());
        if filter.kind() == Kind::Counting {
            for item in added.iter().step_by(2) {
                let _ = remove(&mut filter, item).and_then(|_| remove(&mut filter, item));
            }
        }
        let _ = (filter.items(), filter.stats(filter.now()), filter.error_rate_max());
        assert_eq!(filter.internal_validate(Validation::Parts), Ok(()), "{}", context());
    }
    let record = saved(&filter);
    let again = loaded_as(filter.format(), None, &record, ANY);
    let again = again.unwrap_or_else(|error| panic!("{error:?}: {}", context()));
    assert_eq!(saved(&again), record, "{}", context());
    let header =
        from_header(&chunk(&filter, Some(filter.dump_as(1)), 0).unwrap().unwrap().data, &ANY).unwrap();
    assert_eq!(header.filter().layer_count(), filter.layer_count(), "{}", context());
    assert!(filter.try_clone(UnknownMemory).is_ok());
}
