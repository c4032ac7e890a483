//! Runs every command with any words on keys of every kind. Checks that each has exactly one reply, that an error
//! changes nothing, and that the replica has the same filters.

use everbloom_command::{COMMANDS, Protocol, Settings};
use everbloom_filter::Format;

use super::input::Input;
use super::words::word;
use crate::server::NOW_MS;
use crate::slices;
use crate::world::World;

/// The commands that make a filter of every kind, each with its own key.
const FILTERS: [&str; 9] = [
    "BF.INSERT a CAPACITY 3 ITEMS i1 i2 i3 i4",
    "BF.INSERT b CAPACITY 3 FORMAT redisbloom ITEMS i1 i2 i3 i4",
    "BF.INSERT c CAPACITY 3 FORMAT valkey-bloom ITEMS i1 i2 i3 i4",
    "BF.INSERT d CAPACITY 3 COUNTING ITEMS i1 i2 i3 i4",
    "BF.INSERT k CAPACITY 3 KEYED ITEMS i1 i2 i3 i4",
    "BF.INSERT s CAPACITY 3 NONSCALING SATURATE ITEMS i1 i2 i3 i4",
    "BF.IMPORT i SOURCE users SCHEME murmur3-salted BITS 64 HASHES 3",
    "BF.MERGE u a b FORCE",
    "BF.RESERVE \u{ff} 0.01 10",
];

/// Runs up to eight command lines.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::pair(Settings { max_filter_bytes: 1 << 20, ..Settings::DEFAULT }, NOW_MS);
    for line in FILTERS {
        world.run(line);
    }
    world.server_mut().settings.format = Format::RedisBloom;
    world.run("CF.INSERT f CAPACITY 4 ITEMS i1 i2 i3 i4 i5 i1");
    world.server_mut().settings.format = Format::Everbloom;
    for _ in 0..8 {
        if input.is_empty() {
            break;
        }
        let choice = input.byte();
        world.server_mut().protocol = if choice & 0x80 == 0 { Protocol::Resp2 } else { Protocol::Resp3 };
        let name = COMMANDS[usize::from(choice & 0x7f) % COMMANDS.len()].spec().name.as_bytes();
        let count = input.below(14);
        let mut words = vec![name.to_vec()];
        words.extend((0..count).map(|_| word(&mut input)));
        if let Some(key) = words.get_mut(1)
            && input.byte() < 0xc0
        {
            *key = input
                .choose(&[&b"a"[..], b"b", b"c", b"d", b"k", b"s", b"i", b"u", b"f", b"x", b"string"])
                .to_vec();
        }
        world.call(&slices(&words));
    }
    world.check_all();
}
