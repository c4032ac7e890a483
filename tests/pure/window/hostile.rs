//! Bytes that are no filter.

use everbloom::bloom::{Depth, Filter, NoPrefetch, Storage};
use everbloom::format::DecodeError;
use everbloom::format::filter::{from_header, load_chunk, piece};
use everbloom::format::pieces::Trust;

use super::bytes::{reserve, samples};
use crate::support::saved::{loaded, saved, string};
use crate::support::{Field, Random, Record};
use super::{ANY, START_MS};

/// The most that a hostile filter may take.
const LIMIT_BYTES: u64 = 64 << 20;

fn record_bytes(record: &Record) -> usize {
    record.0.iter().map(|field| if let Field::Bytes(bytes) = field { bytes.len() } else { 0 }).sum()
}

/// A filter with one item.
fn one_item() -> Filter {
    let mut filter = reserve(0.01, 100, 2);
    filter.tell_time(START_MS);
    filter.add(b"hello", &ANY, NoPrefetch).unwrap();
    filter
}

#[test]
fn every_wrong_field_is_refused() {
    let good = saved(&mut one_item());
    assert!(loaded(&good, LIMIT_BYTES).is_ok());
    let wrong = |at: usize, value: &[u8]| {
        let mut record = good.clone();
        string(&mut record, 0)[at..at + value.len()].copy_from_slice(value);
        loaded(&record, LIMIT_BYTES).err().unwrap_or_else(|| panic!("{value:?} at {at}"))
    };
    let unsupported = |what, got| DecodeError::Unsupported { what, got };
    assert_eq!(wrong(6, &[99, 0]), unsupported("kind", 99));
    assert_eq!(wrong(8, &[2]), DecodeError::Invalid("layer count"));
    assert_eq!(wrong(12, &u32::MAX.to_le_bytes()), DecodeError::Invalid("expansion"));
    assert_eq!(wrong(16, &f64::NAN.to_le_bytes()), DecodeError::Invalid("error rate"));
    assert_eq!(wrong(24, &0u64.to_le_bytes()), DecodeError::Invalid("capacity"));
    assert_eq!(wrong(32, &99u64.to_le_bytes()), DecodeError::Invalid("window"));
    assert_eq!(wrong(32, &u64::MAX.to_le_bytes()), DecodeError::Invalid("window"));
    assert_eq!(wrong(40, &2u32.to_le_bytes()), unsupported("reserved field", 2));
    assert_eq!(wrong(44, &1u32.to_le_bytes()), unsupported("reserved field", 1));
    assert_eq!(wrong(48, &[3]), unsupported("layout", 3));
    assert_eq!(wrong(48, &[2, 4]), DecodeError::Invalid("positions"));
    assert_eq!(wrong(49, &[1]), DecodeError::Invalid("lines"));
    assert_eq!(wrong(50, &[0]), DecodeError::Invalid("probes"));
    assert_eq!(wrong(50, &[51]), DecodeError::Invalid("probes"));
    assert_eq!(wrong(51, &[2]), unsupported("hash", 2));
    assert_eq!(wrong(52, &[1]), unsupported("reserved field", 1));
    for positions in [0, 3, 1 << 20, u64::MAX - 3] {
        assert_eq!(wrong(56, &positions.to_le_bytes()), DecodeError::Invalid("positions"));
    }
    assert_eq!(wrong(56, &4000u64.to_le_bytes()), DecodeError::Invalid("chunk length"));
    assert_eq!(wrong(64, &0u64.to_le_bytes()), DecodeError::Invalid("capacity"));
    assert_eq!(wrong(64, &u64::MAX.to_le_bytes()), DecodeError::Invalid("capacity"));
    assert_eq!(wrong(72, &3u64.to_le_bytes()), DecodeError::Invalid("set bits"));
    assert_eq!(wrong(72, &u64::MAX.to_le_bytes()), DecodeError::Invalid("set bits"));
    // A column of a generation that there is none of has an item.
    assert_eq!(wrong(80, &0u64.to_le_bytes()), DecodeError::Invalid("items"));
    // The page is newer than the layer.
    let newest = START_MS * 14 / 14_000 + 1;
    assert_eq!(wrong(80, &(newest - 16).to_le_bytes()), DecodeError::Invalid("chunk"));
    assert_eq!(wrong(88, &((1 << 62) + 1u64).to_le_bytes()), DecodeError::Invalid("address"));
    assert_eq!(wrong(96, &u64::MAX.to_le_bytes()), DecodeError::Invalid("items"));
    let mut longer = good.clone();
    string(&mut longer, 0).push(0);
    assert_eq!(loaded(&longer, LIMIT_BYTES).err(), Some(DecodeError::Invalid("header length")));
    // An array that is too large for the limit is not made.
    let mut filter = reserve(0.01, 100_000_000, 0);
    assert!(matches!(loaded(&saved(&mut filter), LIMIT_BYTES).err(), Some(DecodeError::TooLarge { .. })));
}

#[test]
fn chunks_of_a_newer_page_or_of_torn_words_change_nothing() {
    let mut filter = one_item();
    filter.mark_state(3);
    let header = piece(&filter, 0).unwrap().unwrap().data.into_owned();
    let mut loaded = from_header(&header, &ANY).unwrap();
    assert!(load_chunk(&mut loaded, 9, b"no seal", Trust::Marks).is_err());
    let Filter::Window(chain) = &mut loaded else { panic!("another kind") };
    let storage = chain.layers_mut()[0].storage_mut();
    let cells_bytes = storage.bytes().len() - 8;
    let newest = storage.history().newest;
    let cells = vec![0xff; cells_bytes];
    let stamp = |generation: u64| generation.to_le_bytes().to_vec();
    for (offset, cells, stamps) in [
        (0, &cells[..], stamp(newest + 1)),
        // Bits of generations that there are none of.
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
        assert!(!storage.add_segment(offset, cells, &stamps), "{} at {offset}", cells.len());
    }
    assert_eq!((storage.set_bits(), storage.page_generations()), (0, &[0][..]));
    assert!(storage.add_segment(0, &[], &stamp(newest)) && storage.add_segment(0, &[], &stamp(1)));
    assert_eq!((storage.set_bits(), storage.page_generations()), (1, &[newest][..]));
    // Of a page stamped 16 generations ago there is no column left, of one stamped 15 generations ago there is one.
    assert!(storage.add_segment(0, &cells, &stamp(newest - 16)));
    assert_eq!(storage.set_bits(), 1);
    assert!(storage.add_segment(0, &cells, &stamp(newest - 15)));
    assert_eq!(storage.set_bits(), 1 + cells_bytes as u64 / 2);
    assert_eq!(loaded.internal_validate(Depth::Cells), Ok(()));
}

#[test]
fn bytes_that_are_cut_or_changed_anywhere_never_panic() {
    let seed = 0x0068_6f73;
    let mut random = Random(seed);
    for mut filter in samples() {
        let good = saved(&mut filter);
        let header_bytes = string(&mut good.clone(), 0).len();
        for cut in (0..header_bytes.min(600)).step_by(if record_bytes(&good) > 1 << 20 { 37 } else { 1 }) {
            let mut record = good.clone();
            string(&mut record, 0).truncate(cut);
            assert!(loaded(&record, LIMIT_BYTES).is_err(), "cut at {cut}");
            assert!(from_header(string(&mut record, 0), &LIMIT_BYTES).is_err());
        }
        // Copies of the largest take long.
        let rounds = if record_bytes(&good) > 1 << 20 { 10 } else { 300 };
        for _ in 0..rounds {
            let mut record = good.clone();
            let at = random.below(header_bytes);
            string(&mut record, 0)[at] ^= 1 << random.below(8);
            if random.below(3) == 0 && record.0.len() > 1 {
                let chunk = string(&mut record, 1);
                if !chunk.is_empty() {
                    let at = random.below(chunk.len());
                    chunk[at] ^= 1 << random.below(8);
                }
            }
            let Ok(mut loaded) = loaded(&record, LIMIT_BYTES) else { continue };
            // Whatever it is, it can be used at any time.
            for now_ms in [0, 1, START_MS, START_MS + 9_000_000, u64::MAX] {
                assert_eq!(loaded.internal_validate(Depth::Cells), Ok(()), "seed {seed}");
                loaded.tell_time(now_ms);
                let _ = loaded.contains(b"anything", NoPrefetch);
                let _ = loaded.add(b"anything", &LIMIT_BYTES, NoPrefetch);
                drop(loaded.take_dead());
                let _ = loaded.items();
            }
        }
    }
}
