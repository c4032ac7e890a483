//! valkey-bloom's filters: recorded ones of both generations, the library of valkey-bloom as an oracle, and hostile
//! bytes.

mod fixtures;
mod hostile;
mod oracle;

use everbloom::bloom::filter::policy::ValkeyBloom;
use everbloom::bloom::filter::policy::valkeybloom::ProbeRounding;
use everbloom::bloom::hash::siphash::Seed;
use everbloom::bloom::{Filter, Format, Growth, OutOfMemory, Policy};
use everbloom::format::valkeybloom::{self, load};
use everbloom::format::{DecodeError, Source};

use crate::support::Record;
use crate::support::make::{ANY, valkeybloom as reserved};
use crate::support::saved::{loaded_as, saved};

/// Returns the filter in a snapshot of an encoding version.
fn loaded(record: &Record, version: i32, limit_bytes: u64) -> Result<Filter, DecodeError> {
    loaded_as(Format::ValkeyBloom, Some(version), record, limit_bytes)
}

/// Checks the layers of a recorded filter that has grown.
pub(crate) fn assert_grown(filter: &Filter, encoding_version: i32) {
    let rounding = if encoding_version == 0 { ProbeRounding::Up } else { ProbeRounding::Nearest };
    oracle::assert_layers_are_as_computed(filter, rounding);
    assert_same(&loaded(&saved(filter), 1, ANY).unwrap(), filter);
}

/// Returns the parameters with which the filter was reserved.
fn policy(chain: &Filter) -> ValkeyBloom {
    let Policy::ValkeyBloom(policy) = chain.policy() else { panic!("another policy") };
    **policy
}

fn encode_blob(chain: &Filter) -> Result<Vec<u8>, OutOfMemory> {
    valkeybloom::encode_blob(&policy(chain), chain.layers())
}

/// Asserts that both have the same parameters and layers, bit for bit.
fn assert_same(left: &Filter, right: &Filter) {
    assert_eq!(left.policy(), right.policy());
    assert_eq!(saved(left), saved(right));
    for (left, right) in left.layers().iter().zip(right.layers()) {
        assert_eq!((left.counts(), left.placement()), (right.counts(), right.placement()));
    }
}

/// Returns an item that no fixture has.
fn new_item(number: u64) -> Vec<u8> {
    format!("new item {number}").into_bytes()
}

#[test]
fn a_blind_source_reads_the_released_order_only() {
    let growth = Growth::default();
    let policy = ValkeyBloom { error_rate: 0.1, tightening_ratio: 0.8, capacity_items: 9, growth };
    let mut record = saved(&reserved(policy, Seed::new([3; 32])));
    load(&mut record.blind_reader(), 1, &ANY).unwrap();
    record.0[5..].rotate_right(1);
    assert_eq!(load(&mut record.blind_reader(), 1, &ANY).unwrap_err(), DecodeError::PrereleaseOrder);
    assert!(record.blind_reader().float().is_err());
    load(&mut record.reader(), 1, &ANY).unwrap();
}
