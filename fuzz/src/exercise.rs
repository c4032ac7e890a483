//! Uses an accepted filter as commands and the server do, and checks that it is valid in every respect.

use everbloom_command::Settings;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{Filter, Policy, UnknownMemory, Validation};

use super::input::Input;
use crate::make::{CountedLimit, add_within};
use crate::saved::{assert_same, assert_survives, assert_value_survives, fingerprint, validated};
use crate::server::{NOW_MS, Server};
use crate::slices;
use crate::work::defragment;
use crate::world::World;

/// Longest string that is exported here: a target may allocate at most 64 MB at once.
const EXPORTED_MAX_BYTES: u64 = 8 << 20;
/// The largest filter on which commands run. They make several copies, which are compared after each command.
const COMMANDED_MAX_BYTES: u64 = 8 << 20;

/// Looks up and adds items; copies, saves and loads the filter; and runs commands on it.
pub fn exercise(value: FilterValue, input: &mut Input<'_>, limit_bytes: u64) {
    let mut filter = match value {
        FilterValue::Complete(filter) => filter,
        FilterValue::Loading(_) => return exercise_load(value, limit_bytes),
    };
    let items = input.items(24);
    // Every command first sets the time of a sliding-window filter, so this function does too.
    filter.set_now(if filter.newest_generation() == 0 { 1 << 40 } else { 0 });
    filter = validated(filter);
    ask(&filter, &items);
    assert_survives(&filter, "exercised");
    let size_bytes = filter.size_bytes();
    defragment(&mut filter, size_bytes, "exercised");
    grow(&mut filter, &items, size_bytes);
    grow(&mut filter, &items, limit_bytes.saturating_mul(2));
    assert_survives(&filter, "exercised");
    if filter.size_bytes() <= COMMANDED_MAX_BYTES {
        command(&filter, input, &items, limit_bytes.saturating_mul(2));
    }
    if let Ok(emptied) = filter.try_emptied(&limit_bytes) {
        assert!(emptied.is_empty() && emptied.items() == 0 && emptied.size_bytes() <= limit_bytes);
        assert!(!items.iter().any(|item| emptied.contains(item, NoPrefetch)));
    }
}

/// Copies, saves and loads a filter that is being loaded, and runs commands on it. All are refused and change nothing.
fn exercise_load(mut value: FilterValue, limit_bytes: u64) {
    assert_eq!(value.internal_validate(Validation::Contents), Ok(()));
    assert_value_survives(&value, "being loaded");
    let size_bytes = value.size_bytes();
    defragment(&mut value, size_bytes, "being loaded");
    let mut server = Server::new();
    server.settings.max_filter_bytes = limit_bytes.saturating_mul(2);
    let before = fingerprint(&value);
    server.keys.insert(b"f".to_vec(), value);
    for line in ["BF.ADD f a", "BF.EXISTS f a", "BF.INFO f", "BF.SCANDUMP f 0", "BF.MERGE g f", "BF.CLEAR f"]
    {
        let reply = server.run(line);
        assert!(reply.starts_with("-ERR the filter is being loaded"), "{line}: {reply}");
    }
    assert_eq!(fingerprint(&server.keys[&b"f"[..]]), before);
    assert!(server.replicated.is_empty() && !server.keys.contains_key(&b"g"[..]));
}

/// Looks up the items one at a time and in one batch. Both must give the same results.
fn ask(filter: &Filter, items: &[Vec<u8>]) {
    let mut results = Vec::new();
    filter.contains_many(&slices(items), filter.now(), NoPrefetch, |result| results.push(result));
    let singly: Vec<bool> = items.iter().map(|item| filter.contains(item, NoPrefetch)).collect();
    assert_eq!(results, singly);
    assert_eq!(filter.layers().len(), filter.layer_count());
    for layer in filter.layers() {
        assert_eq!(layer.bits().bytes().len() as u64, layer.bits().size_bytes());
    }
}

/// Adds the items one at a time and in one batch. Both must give the same filter, and added items must be found. The
/// batch may ask for the limit at most once more than the filter gains layers and tables, even if many items are
/// refused.
fn grow(filter: &mut Filter, items: &[Vec<u8>], limit_bytes: u64) {
    let mut other = filter.try_clone(UnknownMemory).unwrap();
    let (before, layers) = (filter.items(), filter.part_count());
    let singly: Vec<_> = items.iter().map(|item| add_within(filter, item, limit_bytes)).collect();
    let mut results = Vec::new();
    let limit = CountedLimit::new(limit_bytes);
    other.add_many(&slices(items), &limit, NoPrefetch, |result| {
        results.push(result);
        true
    });
    assert_eq!(results, singly);
    assert!(limit.asked.get() <= 1 + other.part_count() - layers, "asked {} times", limit.asked.get());
    assert_same(&other, filter, "added one by one and at once");
    for (item, result) in items.iter().zip(&results) {
        assert!(result.is_err() || filter.contains(item, NoPrefetch), "lost {}", item.escape_ascii());
    }
    assert!(filter.items() >= before);
}

/// Runs commands on the filter, on a primary and a replica.
fn command(filter: &Filter, input: &mut Input<'_>, items: &[Vec<u8>], limit_bytes: u64) {
    let mut world = World::pair(Settings { max_filter_bytes: limit_bytes, ..Settings::DEFAULT }, NOW_MS);
    for key in [&b"f"[..], b"g"] {
        let copy = || FilterValue::Complete(filter.try_clone(UnknownMemory).unwrap());
        world.put(key, |server| _ = server.keys.insert(key.to_vec(), copy()));
    }
    for line in ["BF.CARD f", "BF.INFO f", "BF.STATS f", "BF.DEBUG f", "BF.SCANDUMP f 0"] {
        let reply = world.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    for field in ["CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION", "ERROR", "KIND", "FILL", "ESTIMATED"] {
        world.run(&format!("BF.INFO f {field}"));
    }
    for name in [&b"BF.MADD"[..], b"BF.MEXISTS", b"BF.DEL"] {
        world.call_with(&[name, b"f"], items);
    }
    // Skips long exports: a small filter may come from a string with half a gigabyte of clear bytes after its bits,
    // which the export repeats.
    if !matches!(filter.policy(), Policy::Imported(policy) if policy.form.length_bytes > EXPORTED_MAX_BYTES) {
        world.run("BF.EXPORT f");
    }
    for line in
        ["BF.MERGE f g", "BF.MERGE g f FORCE", "BF.MERGE h f", "BF.MERGE own f FORCE", "BF.MERGE h g own"]
    {
        if line.contains("own") && input.flag() {
            world.run("BF.RESERVE own 0.1 10 IFNOTEXISTS");
        }
        world.run(line);
    }
    // BF.CLEAR restores the initial size. A forged header can state an initial size that is larger than the filter.
    let before = world.filter(b"f").unwrap().size_bytes();
    if world.run("BF.CLEAR f") == "+OK" {
        assert_eq!(world.run("BF.CARD f"), ":0");
        assert!(world.filter(b"f").unwrap().size_bytes() <= before.max(limit_bytes));
    }
    world.call(&[&b"BF.MADD"[..], b"f", &items[0]]);
    world.check_all();
}
