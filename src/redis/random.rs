//! Bytes that nobody can guess, from the server.

use crate::bloom::hash::siphash::SEED_BYTES;

/// The seed of a filter.
pub(super) fn random_seed() -> [u8; SEED_BYTES] {
    let mut seed = [0; SEED_BYTES];
    if let Some(random_bytes) = api!(RedisModule_GetRandomBytes) {
        // SAFETY: the server fills exactly as many bytes as it is told the array has.
        unsafe { random_bytes(seed.as_mut_ptr(), seed.len()) };
    }
    seed
}

/// A number that nobody has been given before, unless a child of the server draws it.
pub(super) fn random_number() -> u64 {
    random_seed().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
