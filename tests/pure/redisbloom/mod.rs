//! RedisBloom's filters: recorded ones of six releases, an oracle that implements the formulas directly, and hostile
//! bytes.

mod bounds;
mod cuckoo;
mod encodings;
mod hostile;
mod prefetch;
mod releases;
mod sparse;

use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::filter::policy::RedisBloom;
use everbloom_filter::{Added, Filter, Format, Policy, UnknownMemory};
use everbloom_format::DecodeError;
use everbloom_format::chunks::{Chunk, ChunkError};
use everbloom_format::{filter, value};

use crate::support::Record;
use crate::support::make::{self, ANY, CLIENT, parameters};
use crate::support::saved::{complete, loaded_as};

/// Returns the filter in a snapshot, with a limit of `limit_bytes`.
fn read(record: &Record, encoding_version: i32, limit_bytes: u64) -> Result<Filter, DecodeError> {
    loaded_as(Format::RedisBloom, Some(encoding_version), record, limit_bytes)
}

fn load(record: &Record, encoding_version: i32) -> Filter {
    read(record, encoding_version, ANY).unwrap()
}

/// Checks the layers of a recorded filter that has grown beyond `layers`.
pub(crate) fn assert_grown(chain: &Filter, layers: usize, encoding_version: i32) {
    for pair in chain.layers().windows(2).skip(layers - 1) {
        let [old, new] = [&pair[0], &pair[1]].map(parameters);
        assert_eq!(new.error_rate, old.error_rate / 2.0);
        // Before 2.2, a layer has a power of two of bits, and the capacity that they allow. Since then it has whole
        // words of 64 bits.
        let is_old = encoding_version < 4;
        assert_eq!((new.exponent > 0, new.size_bits % 64), (is_old, 0));
        let asked = old.capacity_items * u64::from(policy(chain).expansion());
        assert!(if is_old { new.capacity_items >= asked } else { new.capacity_items == asked });
    }
}

fn add(chain: &mut Filter, item: &[u8]) -> Added {
    make::add(chain, item).unwrap()
}

fn chunk(chain: &Filter, iterator: u64) -> Option<Chunk<'_>> {
    filter::chunk(chain, None, iterator).unwrap()
}

fn from_header(header: &[u8], limit_bytes: u64) -> Result<Filter, DecodeError> {
    value::from_header(header, &limit_bytes).map(complete)
}

fn load_chunk(chain: &mut Filter, iterator: u64, data: &[u8]) -> Result<(), ChunkError> {
    let mut value = FilterValue::Complete(chain.try_clone(UnknownMemory).unwrap());
    let loaded = value::load_chunk(&mut value, iterator, data, CLIENT, &ANY);
    *chain = complete(value);
    loaded.map(|_| ())
}

fn policy(chain: &Filter) -> RedisBloom {
    let Policy::RedisBloom(policy) = chain.policy() else { panic!("another policy") };
    **policy
}
