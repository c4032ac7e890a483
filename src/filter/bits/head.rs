//! The head of the layers of a valkey-bloom filter: what that module saves before the bits of a layer, in the same string.

use super::layout::Placement;
use crate::hash::Hash;
use crate::hash::siphash::SEED_BYTES;

/// The version of heads.
pub const HEAD_VERSION: u8 = 1;
/// Bytes of a head: its version, the bytes of the bits, the probes of an item, and the seed.
pub const HEAD_BYTES: usize = 1 + 8 + 4 + SEED_BYTES;

/// Returns the head of a layer with a placement and bits of this size; `None` without a seed.
pub(super) fn head(placement: &Placement, size_bytes: u64) -> Option<[u8; HEAD_BYTES]> {
    let Hash::ValkeyBloom(seed) = placement.hash() else { return None };
    let probes = placement.layout().probes().to_le_bytes();
    let fields = [&[HEAD_VERSION][..], &size_bytes.to_le_bytes(), &probes, seed.bytes()];
    let mut head = [0; HEAD_BYTES];
    head.iter_mut().zip(fields.into_iter().flatten()).for_each(|(to, from)| *to = *from);
    Some(head)
}
