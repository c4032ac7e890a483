//! Filters with the hash of RedisBloom before 2.2.

use data_encoding::BASE64;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_format::redisbloom::cuckoo::load;

use super::{cases, saved};
use crate::support::rdb::{Field, Payload, Record};
use crate::support::server::Server;

/// Filters of RedisBloom 2.0.3, of which later releases lose the members: all are found here, also after a save, and
/// RedisBloom refuses the saved bytes.
#[test]
fn filters_with_the_old_hash_keep_their_members() {
    for case in cases("redisbloom-cuckoo-2.0.3") {
        let name = case["case"].as_str().unwrap();
        let payload = Payload::read(&BASE64.decode(case["dump_b64"].as_str().unwrap().as_bytes()).unwrap());
        assert!(payload.encoding_version < 4, "{name}");
        let first = load(payload.encoding_version, &mut payload.record.reader(), &u64::MAX).unwrap();
        let record = saved(&first);
        assert_eq!(record.0[0], Field::Unsigned(0), "{name}: a number of filters that RedisBloom refuses");
        for filter in [first, load(4, &mut record.reader(), &u64::MAX).unwrap()] {
            assert_eq!(saved(&filter), record, "{name}");
            let mut server = Server::new();
            server.cuckoos.insert(b"k".to_vec(), filter);
            let found =
                |server: &mut Server, format: &str, count: usize| -> String {
                    let item = |number: usize| format.replace("%d", &number.to_string());
                    (0..count)
                        .map(|number| {
                            if server.run(&format!("CF.EXISTS k {}", item(number))) == "#t" {
                                '1'
                            } else {
                                '0'
                            }
                        })
                        .collect()
                };
            let members = case["members_old"].as_str().unwrap();
            assert_eq!(found(&mut server, "alpha:member:%d", members.len()), members, "{name}");
            let probes = case["probes_old"].as_str().unwrap();
            assert_eq!(found(&mut server, "alpha:probe:%d", probes.len()), probes, "{name}");
            for line in ["CF.ADD k new", "CF.INSERT k ITEMS new", "CF.SCANDUMP k 0"] {
                assert!(
                    server.run(line).starts_with("-ERR the cuckoo filter is from RedisBloom before 2.2"),
                    "{line}"
                );
            }
            let last = members.len() - 1;
            assert_eq!(server.run(&format!("CF.DEL k alpha:member:{last}")), "#t", "{name}");
            assert_eq!(server.run("CF.COMPACT k"), "+OK");
        }
    }
}

/// With the old hash, slots count once if both buckets of an item are the same.
#[test]
fn filters_with_the_old_hash_count_a_bucket_once() {
    for (buckets, expected) in [(1, 2), (2, 4)] {
        let mut found = Vec::new();
        for item in 0..64u64 {
            for fingerprint in 1..=u8::MAX {
                let number = Field::Unsigned;
                let slots = Field::Bytes(vec![fingerprint; 2 * buckets]);
                let fields = vec![number(1), number(buckets as u64), number(2 * buckets as u64), slots];
                let filter = load(3, &mut Record(fields).reader(), &u64::MAX).unwrap();
                assert_eq!(filter.parameters().buckets, buckets as u64);
                found.extend(Some(filter.count(&item.to_le_bytes(), NoPrefetch)).filter(|count| *count > 0));
            }
        }
        // Each item has one fingerprint. Of two buckets, half of the items have both.
        assert_eq!(found.len(), 64, "{buckets} buckets");
        assert_eq!(found.iter().max(), Some(&expected), "{buckets} buckets");
        assert_eq!(found.iter().min(), Some(&2), "{buckets} buckets");
    }
}
