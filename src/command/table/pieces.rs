//! The commands that carry a filter from server to server: BF.SCANDUMP, BF.LOADCHUNK and BF.LOAD.

use super::parts::{CHANGES, DONT_CACHE, ITERATOR, KEY, READS, argument};
use super::{ArgumentKind, CommandSpec};

pub(super) static SCANDUMP: CommandSpec = CommandSpec {
    name: "bf.scandump",
    arguments: 2..=2,
    tips: DONT_CACHE,
    complexity: "O(n), where n is the number of bytes of the piece, at most 16 MiB",
    summary: "Reads a filter piece by piece, to be loaded elsewhere with BF.LOADCHUNK",
    syntax: &[KEY, ITERATOR],
    // RedisBloom flags the key as written to; it is not.
    ..READS
};

pub(super) static LOADCHUNK: CommandSpec = CommandSpec {
    name: "bf.loadchunk",
    arguments: 3..=3,
    complexity: "O(n), where n is the number of bytes of the piece",
    summary: "Restores a filter from the pieces that BF.SCANDUMP gave",
    syntax: &[KEY, ITERATOR, argument("data", ArgumentKind::String)],
    ..CHANGES
};

pub(super) static LOAD: CommandSpec = CommandSpec {
    name: "bf.load",
    arguments: 2..=2,
    complexity: "O(n), where n is the number of bytes of the blob",
    summary: "Restores a filter from an append-only file of valkey-bloom",
    syntax: &[KEY, argument("blob", ArgumentKind::String)],
    ..CHANGES
};
