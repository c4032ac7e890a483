//! The commands that make a filter of valkey-bloom's kind again.

use super::builder::ValkeyChain;
use super::{blob, header};
use crate::bloom::{Memory, OutOfMemory};
use crate::format::rewrite::{Rewritten, in_pieces};

/// Shows `emit` the one command that valkey-bloom writes, or, where there is no memory for a string of the
/// whole filter, pieces as our own filters have them. O(bytes).
///
/// # Errors
/// [`OutOfMemory`] when not even a piece can be had; a part may have been shown then.
pub fn rewrite(
    chain: &ValkeyChain,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    match blob::encode(chain) {
        Ok(blob) => {
            emit(Rewritten::Blob(&blob));
            Ok(())
        }
        Err(OutOfMemory) => in_pieces(&header::encode(chain), chain, memory, fresh, emit),
    }
}
