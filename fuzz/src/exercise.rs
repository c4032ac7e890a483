//! Uses an accepted filter as commands and the server do, and checks that it is valid in every respect.

use everbloom::bloom::hash::murmur2::Murmur2;
use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::table::Loading;
use everbloom::bloom::{AddError, Filter, Hash, NoPrefetch, Policy, UnknownMemory, Validation};
use everbloom::command::Settings;
use everbloom::format::chunks::Rewritten;
use everbloom::format::chunks::Trust;
use everbloom::format::filter::{
    DataType, chunk, digest, from_blob, from_header, header, load, load_chunk, rewrite, save,
};

use super::fields::Fields;
use super::input::Input;
use super::model::Pair;
use crate::support::make::CountedLimit;

/// No limit, since every saved filter must load, of any size.
const ANY: u64 = u64::MAX;

/// Longest string that is exported here: a target may allocate at most 160 MiB at once.
const EXPORTED_MAX_BYTES: u64 = 64 << 20;

/// Checks and adds items, copies, writes and reads the filter again, and runs commands on it.
pub(crate) fn exercise(mut filter: Filter, input: &mut Input<'_>, limit_bytes: u64) {
    let items = input.items(24);
    // The time of a window is set before each command.
    filter.set_to_newest(1 << 40);
    validate(&filter);
    ask(&filter, &items);
    reload(&filter);
    let size_bytes = filter.size_bytes();
    grow(&mut filter, &items, size_bytes);
    grow(&mut filter, &items, limit_bytes.saturating_mul(2));
    reload(&filter);
    command(&filter, input, &items, limit_bytes.saturating_mul(2));
    if let Ok(emptied) = filter.try_emptied(&limit_bytes) {
        assert!(emptied.is_empty() && emptied.items() == 0 && emptied.size_bytes() <= limit_bytes);
        assert!(!items.iter().any(|item| emptied.contains(item, NoPrefetch)));
    }
}

/// Checks every rule that a filter must satisfy.
pub(crate) fn validate(filter: &Filter) {
    assert_eq!(filter.internal_validate(Validation::Contents), Ok(()));
}

/// Looks up the items one at a time and in one batch. Both must give the same results.
fn ask(filter: &Filter, items: &[Vec<u8>]) {
    let mut results = Vec::new();
    let slices: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    filter.contains_many(&slices, NoPrefetch, |result| results.push(result));
    let singly: Vec<bool> = items.iter().map(|item| filter.contains(item, NoPrefetch)).collect();
    assert_eq!(results, singly);
    assert_eq!(filter.layers().len(), filter.layer_count());
    for layer in filter.layers() {
        assert_eq!(layer.bits().bytes().len() as u64, layer.bits().size_bytes());
    }
}

/// Adds the items one at a time and in one batch. Both must give the same filter, and added items must be found. The
/// batch may size one layer more than the filter gets, however many items are refused.
fn grow(filter: &mut Filter, items: &[Vec<u8>], limit_bytes: u64) {
    let mut other = filter.try_clone(UnknownMemory).unwrap();
    let (before, layers) = (filter.items(), filter.part_count());
    let singly: Vec<_> = items.iter().map(|item| filter.add(item, &limit_bytes, NoPrefetch)).collect();
    let mut results = Vec::new();
    let slices: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    let limit = CountedLimit::new(limit_bytes);
    other.add_many(&slices, &limit, NoPrefetch, |result| {
        results.push(result);
        true
    });
    assert_eq!(results, singly);
    assert!(limit.asked.get() <= 1 + other.part_count() - layers, "asked {} times", limit.asked.get());
    validate(filter);
    assert_same(filter, &other);
    for (item, result) in items.iter().zip(&results) {
        let may_be_missing =
            matches!(result, Err(AddError::Full | AddError::CannotGrow(_) | AddError::NotEncodable(_)));
        assert!(may_be_missing || filter.contains(item, NoPrefetch), "lost {}", item.escape_ascii());
    }
    assert!(filter.items() >= before);
}

/// Asserts that a copy, a snapshot, a dump and the commands of a rewritten append-only file give the same filter.
pub(crate) fn reload(filter: &Filter) {
    validate(filter);
    let mut copy = filter.try_clone(UnknownMemory).unwrap();
    assert_same(filter, &copy);
    let is_1_1 = is_redisbloom_1_1(filter);
    let assumed = |mut filter: Filter| {
        if is_1_1 {
            filter.assume_redisbloom_1_1();
        }
        filter
    };
    let mut fields = Fields::default();
    save(&mut copy, &mut fields, UnknownMemory);
    assert_same(filter, &copy);
    let version = DataType::of(filter.format()).encoding_version;
    let mut reader = fields.reader();
    let loaded = load(filter.format(), version, &mut reader, &ANY).expect("what was saved is loaded");
    assert!(reader.is_at_end());
    assert_same(filter, &assumed(loaded));

    if filter.table().is_some_and(|table| table.counts().loading != Loading::default()) {
        // A dump of a part of a filter is loaded as a whole one.
        return;
    }
    copy.begin_dump(77);
    let first = chunk(&copy, 0).unwrap().unwrap();
    let mut loaded = from_header(&first.data, &ANY).expect("a header that was dumped");
    let mut iterator = first.next_iterator;
    while let Some(chunk) = chunk(&copy, iterator).unwrap() {
        iterator = chunk.next_iterator;
        load_chunk(&mut loaded, iterator, &chunk.data, Trust::DumpId, &ANY).expect("a chunk that was dumped");
    }
    assert_same(filter, &assumed(loaded));

    let mut made = None;
    rewrite(filter, UnknownMemory, 99, &mut |command| match command {
        Rewritten::Blob(blob) => made = Some(from_blob(blob, &ANY).expect("a blob that was written")),
        Rewritten::Chunk { data, .. } if made.is_none() => {
            made = Some(from_header(data, &ANY).expect("a header that was written"));
        }
        Rewritten::Chunk { iterator, data } => {
            load_chunk(made.as_mut().unwrap(), iterator, data, Trust::Sender, &ANY)
                .expect("a chunk that was written");
        }
    })
    .unwrap();
    assert_same(filter, &assumed(made.unwrap()));
}

/// Runs commands on the filter, on a primary and a replica.
fn command(filter: &Filter, input: &mut Input<'_>, items: &[Vec<u8>], limit_bytes: u64) {
    let mut pair = Pair::new(Settings { max_filter_bytes: limit_bytes, ..Settings::DEFAULT });
    for key in [&b"f"[..], b"g"] {
        pair.put(key, filter);
    }
    for line in ["BF.CARD f", "BF.INFO f", "BF.STATS f", "BF.DEBUG f", "BF.SCANDUMP f 0"] {
        let reply = pair.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    for field in ["CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION", "ERROR", "KIND", "FILL", "ESTIMATED"] {
        pair.run(&format!("BF.INFO f {field}"));
    }
    for name in [&b"BF.MADD"[..], b"BF.MEXISTS", b"BF.DEL"] {
        let words = [&[name, b"f"], items.iter().map(Vec::as_slice).collect::<Vec<_>>().as_slice()].concat();
        pair.call(&words);
    }
    // Skips long exports: a small filter may come from a string with half a gigabyte of clear bytes after its bits,
    // which the export repeats.
    if !matches!(filter.policy(), Policy::Imported(policy) if policy.form.length_bytes > EXPORTED_MAX_BYTES) {
        pair.run("BF.EXPORT f");
    }
    for line in
        ["BF.MERGE f g", "BF.MERGE g f FORCE", "BF.MERGE h f", "BF.MERGE own f FORCE", "BF.MERGE h g own"]
    {
        if line.contains("own") && input.flag() {
            pair.run("BF.RESERVE own 0.1 10 IFNOTEXISTS");
        }
        pair.run(line);
    }
    // The initial size in a header may be larger than the filter.
    let before = pair.filter(b"f").unwrap().size_bytes();
    if pair.run("BF.CLEAR f") == "+OK" {
        assert_eq!(pair.run("BF.CARD f"), ":0");
        assert!(pair.filter(b"f").unwrap().size_bytes() <= before.max(limit_bytes));
    }
    pair.call(&[&b"BF.MADD"[..], b"f", &items[0]]);
    pair.assert_in_step();
}

/// Asserts that two filters give the same results and the same saved bytes, and that both are valid.
pub(crate) fn assert_same(left: &Filter, right: &Filter) {
    validate(right);
    assert_eq!(header(left), header(right));
    assert!(fingerprint(left) == fingerprint(right), "other contents");
    // A sliding-window filter counts only the live items, but the header counts all.
    assert!(left.window().is_some() || left.items() == right.items());
    assert_eq!(left.growth(), right.growth());
    assert_eq!(is_redisbloom_1_1(left), is_redisbloom_1_1(right));
}

/// Returns whether the filter has the hash of RedisBloom 1.1, which is not part of its saved bytes.
fn is_redisbloom_1_1(filter: &Filter) -> bool {
    filter.layers().first().map(everbloom::bloom::Layer::hash)
        == Some(&Hash::RedisBloom(Murmur2::WideCutSeeds))
}

/// Returns a hash of everything in which two filters can differ.
pub(crate) fn fingerprint(filter: &Filter) -> u128 {
    let mut sum = 0u128;
    digest(filter, &mut |bytes| {
        let hash = hash128(bytes);
        sum = sum.rotate_left(7) ^ (u128::from(hash.h1) << 64 | u128::from(hash.h2));
        sum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    });
    sum
}
