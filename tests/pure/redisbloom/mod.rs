//! RedisBloom's filters: real ones of six releases, an oracle straight from the formulas, and hostile bytes.

mod bounds;
mod chunks;
mod hostile;
mod oldest;
mod oracle;
mod releases;

use everbloom::bloom::layout::LayerParameters;
use everbloom::bloom::policy::RedisBloom;
use everbloom::bloom::{Added, Filter, Format, Layer, Layout, Policy, UnknownMemory};
use everbloom::format::DecodeError;
use everbloom::format::filter;
use everbloom::format::pieces::{ChunkError, Piece, Trust};

use crate::support::Record;
use crate::support::make::{self, ANY};

fn saved(chain: &Filter) -> Record {
    let mut record = Record::default();
    filter::save(&mut chain.try_clone(UnknownMemory).unwrap(), &mut record, UnknownMemory);
    record
}

/// The filter that a snapshot has, where it may take so many bytes.
fn read(record: &Record, encoding_version: i32, limit_bytes: u64) -> Result<Filter, DecodeError> {
    filter::load(Format::RedisBloom, encoding_version, &mut record.reader(), &limit_bytes)
}

fn load(record: &Record, encoding_version: i32) -> Filter {
    let mut reader = record.reader();
    let loaded = filter::load(Format::RedisBloom, encoding_version, &mut reader, &ANY).unwrap();
    assert!(reader.is_at_end());
    loaded
}

fn add(chain: &mut Filter, item: &[u8]) -> Added {
    make::add(chain, item).unwrap()
}

fn piece(chain: &Filter, iterator: u64) -> Option<Piece<'_>> {
    filter::piece(chain, iterator).unwrap()
}

fn from_header(header: &[u8], limit_bytes: u64) -> Result<Filter, DecodeError> {
    filter::from_header(header, &limit_bytes)
}

fn load_chunk(chain: &mut Filter, iterator: u64, data: &[u8]) -> Result<(), ChunkError> {
    filter::load_chunk(chain, iterator, data, Trust::Marks)
}

/// What RedisBloom writes about a layer.
fn parameters(layer: &Layer) -> LayerParameters {
    let Layout::Modulo(modulo) = layer.layout() else { panic!("another layout") };
    LayerParameters::of(&modulo, layer.cells().size_bits(), layer.capacity_items())
}

fn policy(chain: &Filter) -> RedisBloom {
    let Policy::RedisBloom(policy) = chain.policy() else { panic!("another policy") };
    **policy
}
