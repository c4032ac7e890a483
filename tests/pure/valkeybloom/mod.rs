//! valkey-bloom's filters: real ones of both generations, the producers' own library as an oracle, and hostile bytes.

mod fixtures;
mod growth;
mod hostile;
mod oracle;
mod rdb;

use everbloom::bloom::valkeybloom::ValkeyBloom;
use everbloom::bloom::{Chain, Growth, UnknownMemory};
use everbloom::format::valkeybloom::{ValkeyChain, load, save};
use everbloom::format::{DecodeError, Source};

use rdb::{Reader, Record};

/// No limit.
const ANY: u64 = u64::MAX;

fn saved(chain: &ValkeyChain) -> Record {
    let mut record = Record::default();
    save(&mut chain.try_clone(UnknownMemory).unwrap(), &mut record);
    record
}

/// The filter that a record holds from its first to its last field.
fn loaded(record: &Record, version: i32, limit_bytes: u64) -> Result<ValkeyChain, DecodeError> {
    let mut reader = Reader::new(record);
    let chain = load(&mut reader, version, &limit_bytes)?;
    if reader.is_at_end() { Ok(chain) } else { Err(DecodeError::Invalid("fields after the end")) }
}

fn reserved(parameters: ValkeyBloom) -> ValkeyChain {
    Chain::try_new(parameters, &ANY).unwrap()
}

/// Whether both have the same parameters and layers, bit for bit.
fn assert_same(left: &ValkeyChain, right: &ValkeyChain) {
    assert_eq!(left.family(), right.family());
    assert_eq!(saved(left), saved(right));
    for (left, right) in left.layers().iter().zip(right.layers()) {
        assert_eq!((left.counts(), left.placement()), (right.counts(), right.placement()));
    }
}

/// An item that no fixture has.
fn new_item(number: u64) -> Vec<u8> {
    format!("new item {number}").into_bytes()
}

#[test]
fn a_blind_source_reads_the_released_order_only() {
    let seed = everbloom::bloom::valkeybloom::Seed::new([3; 32]);
    let growth = Growth::default();
    let mut record = saved(&reserved(ValkeyBloom {
        error_rate: 0.1,
        tightening_ratio: 0.8,
        capacity_items: 9,
        growth,
        seed,
    }));
    load(&mut Reader::blind(&record), 1, &ANY).unwrap();
    record.0[5..].rotate_right(1);
    assert_eq!(load(&mut Reader::blind(&record), 1, &ANY).unwrap_err(), DecodeError::PrereleaseOrder);
    assert!(Reader::blind(&record).float().is_err());
    load(&mut Reader::new(&record), 1, &ANY).unwrap();
}
