//! RedisBloom's filters: real ones of six releases, an oracle straight from the formulas, and hostile bytes.


mod bounds;
mod chunks;
mod hostile;
mod oldest;
mod oracle;
mod releases;

use everbloom::bloom::{Added, Chain, RedisBloom};
use everbloom::format::redisbloom::rdb;

use crate::support::Record;

/// No limit.
const ANY: u64 = u64::MAX;

fn saved(chain: &Chain<RedisBloom>) -> Record {
    let mut record = Record::default();
    rdb::save(chain, &mut record);
    record
}

fn load(record: &Record, encoding_version: i32) -> Chain<RedisBloom> {
    let mut reader = record.reader();
    let chain = rdb::load(&mut reader, encoding_version, &ANY).unwrap();
    assert!(reader.is_at_end());
    chain
}

fn contains(chain: &Chain<RedisBloom>, item: &[u8]) -> bool {
    chain.contains(chain.digest(item))
}

fn add(chain: &mut Chain<RedisBloom>, item: &[u8]) -> Added {
    let digest = chain.digest(item);
    chain.add(digest, &ANY).unwrap()
}
