//! RedisBloom's cuckoo filters, bit for bit: the same commands in the same order give the same bytes as there.
//!
//! A filter is a list of arrays of buckets ([`mod@array`]). An item has a fingerprint of one byte and two buckets in each
//! array. [`filter`] has the rules: where an add looks for a free slot, what it moves, when the filter grows, and what a
//! deletion compacts. The rules and the layout are facts about RedisBloom 2.2 to 8.10, which docs/formats.md lists.

pub mod array;
pub mod filter;
