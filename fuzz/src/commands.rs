//! Runs sequences of commands on a few keys. Checks that no added item is missing, that BF.CARD is the number of adds
//! with the reply 1, and that a replica with another configuration has the same filters after every command.

use everbloom_command::{CuckooSettings, Protocol, Settings};
use everbloom_filter::{Filter, Format};

use super::input::Input;
use super::words::{KEYS, creation, number, word};
use crate::server::NOW_MS;
use crate::slices;
use crate::world::{Adding, Form, WAYS, World};

/// Largest number of commands of one input.
const COMMANDS_MAX: usize = 80;

/// Runs a sequence.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::pair(settings(&mut input), NOW_MS);
    world.effort_bytes = 1 << 20;
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() {
            break;
        }
        step(&mut world, &mut input);
        world.check();
    }
    world.check_all();
}

fn settings(input: &mut Input<'_>) -> Settings {
    let flags = input.byte();
    Settings {
        max_filter_bytes: *input.choose(&[1 << 10, 4 << 10, 16 << 10, 256 << 10, 1 << 20, 8 << 20]),
        initial_size_items: *input.choose(&[100, 1, 5, 30, 1000]),
        expansion_factor: *input.choose(&[2, 0, 1, 7]),
        format: *input.choose(&Format::ALL),
        missing_filter_is_error: flags & 1 != 0,
        auto_create: flags & 6 != 6,
        fixed_filters_saturate: flags & 8 != 0,
        keyed: flags & 16 != 0,
        cuckoo: CuckooSettings {
            bucket_size_slots: *input.choose(&[2, 1, 4, 255]),
            initial_size_items: *input.choose(&[1024, 4, 16]),
            expansion_factor: *input.choose(&[1, 0, 2, 32_768]),
            max_expansions: *input.choose(&[32, 2]),
            ..CuckooSettings::DEFAULT
        },
        ..Settings::DEFAULT
    }
}

fn step(world: &mut World, input: &mut Input<'_>) {
    let choice = input.byte();
    let key = *input.choose(&KEYS);
    let add = |world: &mut World, form: Form, items: &[Vec<u8>]| {
        world.add(key, Adding { form, ..Adding::default() }, items);
    };
    match choice % 30 {
        22 => {
            let options =
                [["ERROR", "0.001"], ["BUCKETSIZE", "3"], ["EXPANSION", "0"], ["MAXITERATIONS", "1"]];
            let options = input.choose(&options).map(str::as_bytes);
            world.make(&[&[&b"CF.RESERVE"[..], key, b"100"][..], &options].concat());
        }
        23..=25 => {
            let choice = input.byte();
            let form = if choice & 2 == 2 { Form::Occurrence } else { Form::Occurrences };
            let items = input.items(if choice & 2 == 2 { 1 } else { 20 });
            world.add(key, Adding { form, if_absent: choice & 1 == 1, ..Adding::default() }, &items);
        }
        26 => delete(world, key, input, true),
        27 => _ = world.count(key, &input.item()),
        0 | 1 => {
            let words = creation(input, false);
            world.make(&[&[&b"BF.RESERVE"[..], key][..], &slices(&words)].concat());
        }
        2..=5 => add(world, Form::Many, &input.items(40)),
        6 => add(world, Form::Add, &[input.item()]),
        7 | 8 => {
            let (words, items) = (creation(input, true), input.items(20));
            if words.iter().any(|word| word.eq_ignore_ascii_case(b"ITEMS")) {
                // The words that follow ITEMS are items, even if they look like options.
                let is_new = !world.has(key);
                world.call_with(&[b"BF.INSERT", key], &[words, vec![b"ITEMS".to_vec()], items].concat());
                world.recount(key, is_new);
            } else {
                world.add(key, Adding { form: Form::Insert, words: &words, ..Adding::default() }, &items);
            }
        }
        9 | 10 => delete(world, key, input, false),
        11 => _ = world.clear(key),
        12 | 13 => {
            let sources: Vec<&[u8]> = (0..1 + input.below(3)).map(|_| *input.choose(&KEYS)).collect();
            world.merge(key, &sources, input.flag());
        }
        14 => copy(world, key, input),
        15 => import(world, key, input),
        16 => world.delete(key),
        17 => world.server_mut().settings = settings(input),
        20 | 21 => {
            let size_bytes = world.filter(key).map_or(0, Filter::size_bytes);
            world.limit(input.tight_limit_bytes(size_bytes));
        }
        18 => {
            world.server_mut().protocol = if input.flag() { Protocol::Resp3 } else { Protocol::Resp2 };
            world.ask(key, &input.items(20));
        }
        28 | 29 => {
            let (to, way) = (*input.choose(&KEYS), *input.choose(&WAYS));
            if to != b"string" {
                world.remake(key, to, way);
            }
        }
        _ => {
            let name = *input.choose(&[
                &b"BF.INFO"[..],
                b"BF.CARD",
                b"BF.DEBUG",
                b"BF.SCANDUMP",
                b"BF.EXPORT",
                b"CF.COMPACT",
            ]);
            let word = word(input);
            let count = 2 + usize::from(input.flag());
            world.call(&[name, key, &word][..count]);
        }
    }
}

/// Deletes items: mostly those that are known to be there.
fn delete(world: &mut World, key: &[u8], input: &mut Input<'_>, is_cuckoo: bool) {
    let mut items = input.items(12);
    if input.byte() < 0xd0
        && let Some(known) = world.known.get(key)
    {
        items.retain(|item| known.items.contains_key(item));
        items.extend(known.oldest(usize::from(is_cuckoo)));
    }
    world.remove(key, is_cuckoo, &items);
}

/// Dumps one key and loads the chunks into another, which takes nothing else meanwhile.
fn copy(world: &mut World, from: &[u8], input: &mut Input<'_>) {
    let to = *input.choose(&KEYS);
    if from == to || to == b"string" {
        return;
    }
    let item = [input.item()];
    while world.dump(from, to) && world.is_dumping(from) {
        if world.server().keys.contains_key(to) && world.filter(to).is_none() {
            world.add(to, Adding::default(), &item);
            let reply = &world.server().reply[0];
            assert!(reply.starts_with("-ERR the filter is being loaded"), "{reply}");
        }
    }
}

fn import(world: &mut World, key: &[u8], input: &mut Input<'_>) {
    let scheme =
        *input.choose(&["murmur3-salted", "go-zero", "guava-mitz64", "php-bkdr-js-sdbm", "redisson"]);
    let encoding = *input.choose(&["raw", "raw", "utf16le", "int32be", "json-string"]);
    let (bits, hashes, capacity) = (number(input), number(input), number(input));
    let mut words: Vec<&[u8]> =
        vec![b"BF.IMPORT", key, b"EMPTY", b"SCHEME", scheme.as_bytes(), b"BITS", &bits];
    words.extend([&b"ENCODING"[..], encoding.as_bytes()]);
    let flags = input.byte();
    for (bit, option) in
        [(1, [&b"HASHES"[..], &hashes]), (2, [b"CAPACITY", &capacity]), (4, [b"ERROR", b"0.1"])]
    {
        if flags & bit != 0 {
            words.extend(option);
        }
    }
    words.extend((flags & 8 != 0).then_some(&b"NONSCALING"[..]));
    words.extend((flags & 16 != 0).then_some(&b"REPLACE"[..]));
    if world.call(&words) == "+OK" {
        world.recount(key, true);
    }
}
