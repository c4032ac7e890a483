//! The hashes of layers by number, and what each is keyed with.

use crate::bloom::Hash;
use crate::bloom::hash::murmur2::Murmur2;
use crate::bloom::hash::scheme::{ItemEncoding, Scheme};
use crate::bloom::hash::siphash::{HashKey, KEY_BYTES, SEED_BYTES, Seed};
use crate::format::stream::DecodeError;

/// Numbers are added and never change their meaning.
const MURMUR3_X64_128: u8 = 1;
const SIPHASH_1_3_128: u8 = 2;
const REDISBLOOM_NARROW: u8 = 3;
const REDISBLOOM_WIDE: u8 = 4;
const REDISBLOOM_WIDE_CUT_SEEDS: u8 = 5;
const VALKEY_BLOOM_FIXED_SEED: u8 = 6;
const VALKEY_BLOOM_RANDOM_SEED: u8 = 7;
/// A client's scheme is this and its id.
const SCHEME: u8 = 128;

/// What a hash is written as in a record of fixed size: its number, and the encoding of items or 0.
pub(super) fn numbers_of(hash: &Hash) -> (u8, u8) {
    let number = match hash {
        Hash::Murmur3 => MURMUR3_X64_128,
        Hash::Keyed(_) => SIPHASH_1_3_128,
        Hash::RedisBloom(Murmur2::Narrow) => REDISBLOOM_NARROW,
        Hash::RedisBloom(Murmur2::Wide) => REDISBLOOM_WIDE,
        Hash::RedisBloom(Murmur2::WideCutSeeds) => REDISBLOOM_WIDE_CUT_SEEDS,
        Hash::ValkeyBloom(seed) if seed.is_random() => VALKEY_BLOOM_RANDOM_SEED,
        Hash::ValkeyBloom(_) => VALKEY_BLOOM_FIXED_SEED,
        Hash::Client(scheme, encoding) => return (SCHEME | scheme.id(), encoding.id()),
    };
    (number, 0)
}

/// Returns what a hash is keyed with, which follows the record of fixed size.
pub(super) fn key_of(hash: &Hash) -> &[u8] {
    match hash {
        Hash::Keyed(key) => key.bytes(),
        Hash::ValkeyBloom(seed) => seed.bytes(),
        Hash::Murmur3 | Hash::RedisBloom(_) | Hash::Client(..) => &[],
    }
}

/// Reads the hash with these numbers; its key is taken from `rest`.
pub(super) fn read(number: u8, encoding: u8, rest: &mut &[u8]) -> Result<Hash, DecodeError> {
    let unsupported = |what, got: u8| DecodeError::Unsupported { what, got: got.into() };
    Ok(match number {
        MURMUR3_X64_128 => Hash::Murmur3,
        SIPHASH_1_3_128 => Hash::Keyed(HashKey::new(*take::<KEY_BYTES>(rest)?)),
        REDISBLOOM_NARROW => Hash::RedisBloom(Murmur2::Narrow),
        REDISBLOOM_WIDE => Hash::RedisBloom(Murmur2::Wide),
        REDISBLOOM_WIDE_CUT_SEEDS => Hash::RedisBloom(Murmur2::WideCutSeeds),
        VALKEY_BLOOM_FIXED_SEED | VALKEY_BLOOM_RANDOM_SEED => {
            let seed = Seed::marked(*take::<SEED_BYTES>(rest)?, number == VALKEY_BLOOM_RANDOM_SEED);
            Hash::ValkeyBloom(seed.ok_or(DecodeError::Invalid("seed"))?)
        }
        SCHEME.. => {
            let scheme = Scheme::from_id(number & !SCHEME).ok_or(unsupported("scheme", number & !SCHEME))?;
            Hash::Client(scheme, ItemEncoding::from_id(encoding).ok_or(unsupported("encoding", encoding))?)
        }
        _ => return Err(unsupported("hash", number)),
    })
}

/// Takes the first bytes.
pub(super) fn take<'b, const BYTES: usize>(rest: &mut &'b [u8]) -> Result<&'b [u8; BYTES], DecodeError> {
    let (taken, after) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
    *rest = after;
    Ok(taken)
}
