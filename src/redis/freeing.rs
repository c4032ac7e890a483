//! Giving the memory of filters back: at once, or in the background where that takes long.

use super::memory::is_short;
use super::stored::Stored;
use super::worker::Worker;
use crate::bloom::Filter;

/// Bytes that count as much work to free as an element of a list does. The server frees in the background
/// from 65 units on: filters of 128 MiB and more.
///
/// It should do so late: what is freed in the background is not yet free when eviction looks, which then
/// evicts more. And 128 MiB with every page written to take 0.01 to 0.5 ms on the main thread, and 4 to 6 ms
/// where the system has no large pages and the allocator gives back at once (Redis 7.0 and 8.0, Valkey 8.0
/// and 9.1, with their allocators). The number of blocks hardly matters: 4096, the most there are, take 0.07
/// ms.
const FREE_UNIT_BYTES: usize = 2 << 20;

/// The same while the server is at `maxmemory` or above and perhaps evicts. Memory counts now, so only
/// filters of 512 MiB and more are freed in the background: 1 ms, or 20 to 26 ms without large pages.
const URGENT_FREE_UNIT_BYTES: usize = 8 << 20;

/// Units from which on the server frees in the background: `LAZYFREE_THRESHOLD` in lazyfree.c of every
/// server.
const AT_ONCE_MAX_UNITS: usize = 64;
/// Filters that may wait. Any more are freed at once.
const WAITING_MAX: usize = 64;

/// The work of freeing a filter, in the server's units. O(layers).
pub(super) fn effort(filter: &Filter) -> usize {
    let unit_bytes = if is_short() { URGENT_FREE_UNIT_BYTES } else { FREE_UNIT_BYTES };
    let bits_bytes = filter.layers().iter().map(|layer| size_of_val(layer.cells().words())).sum::<usize>();
    1 + bits_bytes / unit_bytes
}

/// Frees filters in the background.
static FREER: Worker<Stored> = Worker::new("bf-free", WAITING_MAX, drop);

/// Frees what was under a key: in the background where the server would do so, too.
pub(super) fn free(stored: Stored) {
    if effort(&stored.filter) > AT_ONCE_MAX_UNITS {
        // What the worker does not take is freed here.
        drop(FREER.queue(stored));
    }
}
