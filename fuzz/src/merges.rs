//! Merges of filters of any kinds: the destination holds what any of them held, the sources stay as they are, a refused
//! merge changes nothing, and a replica comes to the same filter.

use std::collections::HashSet;

use everbloom::bloom::{Filter, NoPrefetch};
use everbloom::command::Settings;

use super::exercise::{exercise, fingerprint};
use super::input::Input;
use super::model::Pair;
use super::words::creation;

const NAMES: [&[u8]; 4] = [b"p", b"q", b"r", b"s"];

/// Makes up to four filters and merges some of them, some times.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let mut pair = Pair::new(Settings { max_filter_bytes: limit, ..Settings::DEFAULT });
    for key in &NAMES[..2 + input.below(3)] {
        make(&mut pair, key, &mut input);
    }
    for _ in 0..6 {
        if input.is_empty() {
            break;
        }
        merge(&mut pair, &mut input);
        let items = input.items(10);
        let argv: Vec<&[u8]> =
            [&b"BF.MADD"[..], b"p"].into_iter().chain(items.iter().map(Vec::as_slice)).collect();
        pair.call(&argv);
    }
    pair.assert_in_step();
    let largest = pair.primary.keys.values().max_by_key(|filter| filter.layer_count());
    if let Some(filter) = largest {
        exercise(filter.try_clone(everbloom::bloom::UnknownMemory).unwrap(), &mut Input::new(data), limit);
    }
}

fn make(pair: &mut Pair, key: &[u8], input: &mut Input<'_>) {
    if input.below(6) == 0 {
        let hashes = (1 + input.below(12)).to_string();
        let bits = (1 + u64::from(input.u16())).to_string();
        let scheme = *input.choose(&["murmur3-salted", "guava-mitz32", "csharp-netfx-mitz64"]);
        let line: [&[u8]; 9] = [
            b"BF.IMPORT",
            key,
            b"EMPTY",
            b"SCHEME",
            scheme.as_bytes(),
            b"BITS",
            bits.as_bytes(),
            b"HASHES",
            hashes.as_bytes(),
        ];
        pair.call(&line);
    } else {
        let words = creation(input, true);
        let mut argv: Vec<&[u8]> = vec![b"BF.INSERT", key];
        argv.extend(words.iter().map(Vec::as_slice));
        argv.extend([&b"ITEMS"[..], b"i0"]);
        pair.call(&argv);
    }
    for _ in 0..input.below(4) {
        let items = input.items(60);
        let argv: Vec<&[u8]> =
            [&b"BF.MADD"[..], key].into_iter().chain(items.iter().map(Vec::as_slice)).collect();
        pair.call(&argv);
    }
}

fn merge(pair: &mut Pair, input: &mut Input<'_>) {
    let dest = *input.choose(&[&b"p"[..], b"q", b"new", b"other"]);
    let sources: Vec<&[u8]> = (0..1 + input.below(4)).map(|_| *input.choose(&NAMES)).collect();
    let force = (input.byte() & 3 != 0).then_some(&b"FORCE"[..]);
    let argv: Vec<&[u8]> =
        [&b"BF.MERGE"[..], dest].into_iter().chain(sources.iter().copied()).chain(force).collect();
    let keys: Vec<&[u8]> = sources.iter().copied().chain([dest]).collect();
    let asked: Vec<String> = (0..200).map(|number| format!("i{number}")).collect();
    let held = |filter: &Filter| {
        asked
            .iter()
            .filter(|item| filter.contains(item.as_bytes(), NoPrefetch))
            .cloned()
            .collect::<HashSet<_>>()
    };
    let before: Vec<_> =
        keys.iter().map(|key| pair.filter(key).map(|filter| (fingerprint(filter), held(filter)))).collect();
    let reply = pair.call(&argv);
    for (key, before) in keys.iter().zip(&before) {
        let after = pair.filter(key).map(fingerprint);
        if *key != dest || reply != "+OK" {
            assert_eq!(after, before.as_ref().map(|(print, _)| *print), "{reply}");
        }
    }
    if reply == "+OK" {
        let now = held(pair.filter(dest).unwrap());
        for (_, held) in before.iter().flatten() {
            assert!(held.is_subset(&now), "lost {:?}", held.difference(&now).next());
        }
    }
}
