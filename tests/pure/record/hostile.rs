//! Bytes that are not a filter, or not one that commands can create.

use everbloom::bloom::Depth;
use everbloom::format::chunks::Trust;
use everbloom::format::filter::{chunk, from_header, load_chunk};
use everbloom::format::record::{LAYER_BYTES, POLICY_BYTES};

use super::{WINDOW_MS, is_small, samples};
use crate::hostile::{FLOATS, NUMBERS, Outcomes};
use crate::support::make::{ANY, START_MS, add, promise, set_time, window};
use crate::support::saved::{loaded, saved, string};
use crate::support::{Field, Random, Record};

/// The largest size of a filter from hostile bytes.
const LIMIT_BYTES: u64 = 64 << 20;

#[test]
fn a_snapshot_cut_anywhere_is_refused() {
    for (name, filter) in samples() {
        let record = saved(&filter);
        for fields in 0..record.0.len() {
            assert!(loaded(&Record(record.0[..fields].to_vec()), ANY).is_err(), "{name}");
        }
        for field in 0..record.0.len() {
            let Field::Bytes(bytes) = &record.0[field] else { panic!("{name}") };
            let step = if bytes.len() > 4096 { bytes.len() / 20 } else { 1 };
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
    for (name, filter) in samples().into_iter().filter(|(_, filter)| is_small(filter)) {
        let record = saved(&filter);
        let record_bytes = string(&mut record.clone(), 0).len();
        // The first layers have all possible fields.
        let offsets = (0..record_bytes.min(POLICY_BYTES + 3 * LAYER_BYTES))
            .flat_map(|at| [1, 4, 8].map(|width| (at, width)));
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
        // Copies of the largest filter take long.
        for round in 0..if is_small(&filter) { 300 } else { 10 } {
            let mut record = good.clone();
            let at = random.below(record_bytes);
            string(&mut record, 0)[at] ^= 1 << random.below(8);
            if random.below(3) == 0 {
                let cells = string(&mut record, 1);
                if !cells.is_empty() {
                    let at = random.below(cells.len());
                    cells[at] ^= 1 << random.below(8);
                }
            }
            outcomes.judge(loaded(&record, LIMIT_BYTES), &|| format!("seed {seed}, {name}, round {round}"));
        }
    }
    outcomes.assert_at_least(100, 100);
}

#[test]
fn chunks_of_a_newer_page_or_of_torn_words_change_nothing() {
    let mut filter = window(promise(0.01, 100, 2), WINDOW_MS);
    set_time(&mut filter, START_MS);
    add(&mut filter, b"hello").unwrap();
    filter.begin_dump(3);
    let header = chunk(&filter, 0).unwrap().unwrap().data.into_owned();
    let mut loaded = from_header(&header, &ANY).unwrap();
    assert!(load_chunk(&mut loaded, 9, b"no trailer", Trust::DumpId).is_err());
    let storage = loaded.layers_mut()[0].cells_mut();
    let cells_bytes = storage.bytes().len() - 8;
    let newest = storage.timed().unwrap().history.newest;
    let cells = vec![0xff; cells_bytes];
    let stamp = |generation: u64| generation.to_le_bytes().to_vec();
    for (offset, cells, stamps) in [
        (0, &cells[..], stamp(newest + 1)),
        // Bits of generations that cannot exist.
        (0, &cells[..], stamp(0)),
        (0, &cells[..], stamp(15)),
        (0, &cells[8..], stamp(newest)),
        (0, &cells[..], Vec::new()),
        (0, &cells[..], stamp(newest)[1..].to_vec()),
        (0, &cells[..], [stamp(newest), stamp(newest)].concat()),
        (8, &cells[..], stamp(newest)),
        (cells_bytes + 8, &cells[..], stamp(newest)),
        (usize::MAX - 7, &cells[..], stamp(newest)),
    ] {
        assert!(!storage.add_parts(offset, cells, &stamps), "{} at {offset}", cells.len());
    }
    let stamps = |storage: &everbloom::bloom::Cells| storage.words().last().copied();
    assert_eq!((storage.set_cells(), stamps(storage)), (0, Some(0)));
    assert!(storage.add_parts(0, &[], &stamp(newest)) && storage.add_parts(0, &[], &stamp(1)));
    assert_eq!((storage.set_cells(), stamps(storage)), (1, Some(newest)));
    // A page that was stamped 16 generations ago has no column left; one that was stamped 15 generations ago has one.
    assert!(storage.add_parts(0, &cells, &stamp(newest - 16)));
    assert_eq!(storage.set_cells(), 1);
    assert!(storage.add_parts(0, &cells, &stamp(newest - 15)));
    assert_eq!(storage.set_cells(), 1 + cells_bytes as u64 / 2);
    assert_eq!(loaded.internal_validate(Depth::Cells), Ok(()));
}
