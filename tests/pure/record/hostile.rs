//! Bytes that are not a filter, or not one that commands can create.

use everbloom::format::filter::from_header;
use everbloom::format::record::{LAYER_BYTES, POLICY_BYTES, TABLE_BYTES};

use super::{is_small, samples};
use crate::hostile::{FLOATS, NUMBERS, Outcomes};
use crate::support::make::ANY;
use crate::support::saved::{loaded, saved, string};
use crate::support::{Field, Random, Record};

/// The largest size of a filter from hostile bytes.
const LIMIT_BYTES: u64 = 64 << 20;

#[test]
fn a_snapshot_cut_anywhere_is_refused() {
    for (name, filter) in samples() {
        let record = saved(&filter);
        // Copies of a large filter take long.
        let cuts = if is_small(&filter) && record.0.len() < 100 { 20 } else { 3 };
        let step = record.0.len() / cuts + 1;
        for fields in (0..record.0.len()).step_by(step) {
            assert!(loaded(&Record(record.0[..fields].to_vec()), ANY).is_err(), "{name}");
        }
        for field in (0..record.0.len()).step_by(step) {
            let Field::Bytes(bytes) = &record.0[field] else { continue };
            let step = if cuts == 3 || bytes.len() > 1000 { bytes.len() / cuts + 1 } else { 1 };
            for length in (1..bytes.len()).step_by(step) {
                let mut cut = record.clone();
                string(&mut cut, field).truncate(length);
                assert!(loaded(&cut, ANY).is_err(), "{name}: field {field} cut to {length}");
                if field == 0 {
                    assert!(from_header(string(&mut cut, 0), &LIMIT_BYTES).is_err(), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_record_with_edge_values_is_refused_or_valid() {
    let mut outcomes = Outcomes::default();
    for (name, filter) in samples().into_iter().filter(|(_, filter)| filter.size_bytes() < 1500) {
        let record = saved(&filter);
        let record_bytes = string(&mut record.clone(), 0).len();
        // The first layers and the table have all possible fields.
        let most_bytes = POLICY_BYTES + 3 * LAYER_BYTES + TABLE_BYTES;
        let offsets = (0..record_bytes.min(most_bytes)).flat_map(|at| [1, 4, 8].map(|width| (at, width)));
        for (at, width) in offsets.filter(|(at, width)| at + width <= record_bytes && at % width == 0) {
            for value in NUMBERS.into_iter().chain(FLOATS.map(f64::to_bits)) {
                let mut altered = record.clone();
                string(&mut altered, 0)[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                outcomes.judge(loaded(&altered, LIMIT_BYTES), &|| format!("{name}, {value} at {at}"));
            }
        }
    }
    outcomes.assert_at_least(10_000, 1000);
}

#[test]
fn changed_bytes_are_refused_or_valid() {
    let seed = 0x0068_6f73;
    let mut random = Random(seed);
    let mut outcomes = Outcomes::default();
    for (name, filter) in samples() {
        let good = saved(&filter);
        let record_bytes = string(&mut good.clone(), 0).len();
        // Copies of large filters take long.
        for round in 0..if is_small(&filter) { 100 } else { 5 } {
            let mut record = good.clone();
            let at = random.below(record_bytes);
            string(&mut record, 0)[at] ^= 1 << random.below(8);
            if random.below(3) == 0 {
                let last = record.0.len() - 1;
                let bytes = string(&mut record, last);
                if !bytes.is_empty() {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            outcomes.judge(loaded(&record, LIMIT_BYTES), &|| format!("seed {seed}, {name}, round {round}"));
        }
    }
    outcomes.assert_at_least(100, 100);
}
