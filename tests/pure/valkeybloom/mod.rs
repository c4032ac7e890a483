//! valkey-bloom's filters: real ones of both generations, the producers' own library as an oracle, and hostile bytes.

mod fixtures;
mod growth;
mod hostile;
mod oracle;
mod rdb;

use everbloom::bloom::hash::siphash::Seed;
use everbloom::bloom::policy::ValkeyBloom;
use everbloom::bloom::{Filter, Growth, Layer, OutOfMemory, Policy, UnknownMemory};
use everbloom::format::valkeybloom::{self, load};
use everbloom::format::{DecodeError, Source, filter};

use crate::support::make::{ANY, valkeybloom as reserved};
use rdb::{Reader, Record};

fn saved(chain: &Filter) -> Record {
    let mut record = Record::default();
    filter::save(&mut chain.try_clone(UnknownMemory).unwrap(), &mut record, UnknownMemory);
    record
}

/// The filter that a record holds from its first to its last field.
fn loaded(record: &Record, version: i32, limit_bytes: u64) -> Result<Filter, DecodeError> {
    let mut reader = Reader::new(record);
    let chain = load(&mut reader, version, &limit_bytes)?;
    if reader.is_at_end() { Ok(chain) } else { Err(DecodeError::Invalid("fields after the end")) }
}

/// What the filter was reserved with.
fn policy(chain: &Filter) -> ValkeyBloom {
    let Policy::ValkeyBloom(policy) = chain.policy() else { panic!("another policy") };
    **policy
}

fn encode_blob(chain: &Filter) -> Result<Vec<u8>, OutOfMemory> {
    valkeybloom::encode_blob(&policy(chain), chain.layers())
}

fn probes(layer: &Layer) -> u32 {
    layer.layout().probes()
}

/// Whether both have the same parameters and layers, bit for bit.
fn assert_same(left: &Filter, right: &Filter) {
    assert_eq!(left.policy(), right.policy());
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
    let growth = Growth::default();
    let policy = ValkeyBloom { error_rate: 0.1, tightening_ratio: 0.8, capacity_items: 9, growth };
    let mut record = saved(&reserved(policy, Seed::new([3; 32])));
    load(&mut Reader::blind(&record), 1, &ANY).unwrap();
    record.0[5..].rotate_right(1);
    assert_eq!(load(&mut Reader::blind(&record), 1, &ANY).unwrap_err(), DecodeError::PrereleaseOrder);
    assert!(Reader::blind(&record).float().is_err());
    load(&mut Reader::new(&record), 1, &ANY).unwrap();
}
