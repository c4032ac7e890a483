//! RedisBloom's cuckoo filters.

mod arrays;
mod fields;
mod old_hash;
mod recorded;
mod replicas;
mod second;

use everbloom_command::Settings;
use everbloom_filter::Format;
use everbloom_filter::cuckoo::array::{BucketArray, CuckooRelease};
use everbloom_filter::cuckoo::filter::{CuckooFilter, CuckooParameters};
use everbloom_format::redisbloom::cuckoo::save;
use serde_json::Value;

use crate::support::ROOT;
use crate::support::rdb::Record;
use crate::support::server::Server;

/// Returns the cases of a recording.
fn cases(file: &str) -> Vec<Value> {
    let path = format!("{ROOT}/tests/fixtures/{file}.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["cases"].as_array().unwrap().clone()
}

fn server() -> Server {
    let mut server = Server::new();
    server.settings = Settings { format: Format::RedisBloom, ..Settings::DEFAULT };
    server
}

fn saved(filter: &CuckooFilter) -> Record {
    let mut record = Record::default();
    save(filter, &mut record);
    record
}
/// Returns a filter whose arrays have these sizes and contents.
fn forged(bucket_size: u8, arrays: Vec<(u64, Vec<u8>)>) -> CuckooFilter {
    let items = arrays.iter().map(|(_, slots)| slots.len() as u64).sum();
    let parameters = CuckooParameters { buckets: arrays[0].0, bucket_size, max_iterations: 20, expansion: 1 };
    let array = |(buckets, slots): (_, Vec<u8>)| BucketArray::of_bytes(buckets, bucket_size, &slots).unwrap();
    let arrays = arrays.into_iter().map(array).collect();
    CuckooFilter::from_parts(parameters, CuckooRelease::Current, items, 0, arrays).unwrap()
}
