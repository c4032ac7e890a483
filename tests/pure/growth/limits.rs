//! The limits on the size of a filter: a filter that exceeds a limit is refused, and computed sizes agree with real
//! ones.

use everbloom_filter::bits::sizing::LayerShape;
use everbloom_filter::generation::Steps;
use everbloom_filter::limits::{
    CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES, LAYERS_MAX, PROBES_MAX, PROBES_TOTAL_MAX,
};
use everbloom_filter::table::{EntryKind, TableSpec};
use everbloom_filter::{
    Filter, Footprint, Format, Hash, Layer, Limit, Policy, Promise, ReserveError, ScaleError, Table,
};
use everbloom_format::filter as record;
use everbloom_format::value::from_header;

use super::{reserve, validate};
use crate::allocations::largest_allocation;
use crate::support::fuzz::forge::{POLICY_BYTES, header_chunk};
use crate::support::keyspace::raise_limit_to;
use crate::support::make::{ANY, add, plain, promise, unreserved};
use crate::support::saved::complete;
use crate::support::server::Server;

#[test]
fn a_filter_above_a_limit_is_refused_before_an_allocation() {
    for error_rate in [5e-324, 1e-6, 0.01, 0.5] {
        let parameters = promise(error_rate, CAPACITY_MAX_ITEMS, 0);
        let Err(ReserveError::TooLarge { needed_bytes, limit }) = reserve(parameters, 1 << 36) else {
            panic!("2^40 items at {error_rate} are more than 64 GiB");
        };
        assert!(needed_bytes > 1 << 36 && limit == (1 << 36).into());
    }
    let error = reserve(promise(5e-324, CAPACITY_MAX_ITEMS, 0), ANY).unwrap_err();
    assert!(
        matches!(error, ReserveError::TooLarge { limit: Limit::LAYER, .. }),
        "a layer above 1 TiB is refused whatever the limit of the filter: {error:?}"
    );
}

#[test]
fn every_limit_of_a_filter_is_inclusive() {
    let check = |footprint: Footprint| footprint.check(&ANY);
    let layers = |count: usize, probes| (0..count).fold(Footprint::default(), |e, _| e.and_layer(8, probes));
    assert_eq!(check(layers(LAYERS_MAX, 1)), Ok(()));
    assert_eq!(check(layers(LAYERS_MAX + 1, 1)), Err(ReserveError::TooLong));
    let probes = u32::try_from(PROBES_TOTAL_MAX).unwrap();
    assert_eq!(check(layers(1, probes)), Ok(()));
    assert_eq!(check(layers(2, probes / 2)), Ok(()));
    assert_eq!(check(layers(2, probes / 2).and_layer(8, 1)), Err(ReserveError::TooLong));
    assert_eq!(check(layers(1, probes + 1)), Err(ReserveError::TooLong));
    let largest = Footprint::default().and_layer(LAYER_MAX_BYTES, 7);
    assert_eq!(check(largest.and_layer(LAYER_MAX_BYTES, 7)), Ok(()));
    let Err(ReserveError::TooLarge { needed_bytes, limit }) =
        check(Footprint::default().and_layer(LAYER_MAX_BYTES + 1, 7).and_layer(8, 7))
    else {
        panic!("a layer of more than 1 TiB");
    };
    assert_eq!(limit, Limit::LAYER);
    // The structs count too: that of the filter and those of several layers.
    let structs_bytes = (size_of::<Filter>() + 2 * size_of::<Layer>()) as u64;
    assert_eq!(needed_bytes, structs_bytes + LAYER_MAX_BYTES + 9);
    // Sums saturate at the largest number, which exceeds every limit.
    let endless = Footprint::default().and_layer(u64::MAX, u32::MAX).and_layer(u64::MAX, u32::MAX);
    assert_eq!(check(endless), Err(ReserveError::TooLong));
    let endless = Footprint::default().and_layer(u64::MAX, 1).and_layer(u64::MAX, 1);
    assert!(endless.check(&(u64::MAX - 1)).is_err());
}

#[test]
fn every_limit_of_a_layer_is_inclusive() {
    let scattered = |size_bytes: u64, probes, capacity_items| {
        LayerShape { lines: 0, probes, positions: size_bytes * 8, capacity_items }.validate()
    };
    assert_eq!(scattered(LAYER_MAX_BYTES, PROBES_MAX, CAPACITY_MAX_ITEMS), Ok(()));
    assert_eq!(scattered(LAYER_MAX_BYTES + 8, PROBES_MAX, CAPACITY_MAX_ITEMS), Err("positions"));
    assert_eq!(scattered(LAYER_MAX_BYTES, PROBES_MAX + 1, CAPACITY_MAX_ITEMS), Err("probes"));
    assert_eq!(scattered(LAYER_MAX_BYTES, PROBES_MAX, CAPACITY_MAX_ITEMS + 1), Err("capacity"));
    assert_eq!(scattered(8, 1, 64), Ok(()));
    assert_eq!(scattered(8, 1, 65), Err("capacity"));
    assert_eq!(scattered(8, 1, 0), Err("capacity"));
    assert_eq!(scattered(8, 0, 64), Err("probes"));
    assert_eq!(scattered(0, 1, 1), Err("positions"));
    assert_eq!(scattered(4, 1, 1), Err("positions"));
}

#[test]
fn validation_reports_why_a_filter_cannot_grow() {
    let scaling = |capacity_items, expansion| promise(0.01, capacity_items, expansion);
    assert_eq!(validate(scaling(100, 0), 1, ANY), Err(ScaleError::Fixed));
    // A layer may hold 2^40 items, but not at a rate that needs more than 1 TiB. Further items go to a table.
    assert_eq!(validate(scaling(1 << 40, 2), 1 << 40, ANY), Err(ScaleError::TooLarge));
    assert_eq!(validate(scaling(1 << 39, 2), 1 << 41, ANY), Ok(()));
    assert_eq!(validate(scaling(1 << 39, 2), 1 << 41, 1 << 40), Err(ScaleError::TooLarge));
    assert_eq!(validate(unreserved(0.01, 100, 2), 1 << 40, 1 << 42), Ok(()));
    assert_eq!(validate(unreserved(0.01, 100, 2), 1 << 40, 1 << 40), Err(ScaleError::TooLarge));
    // Up to its capacity, a filter has only its layer.
    let size_bytes = plain(scaling(100, 2)).size_bytes();
    assert_eq!(validate(scaling(100, 2), 100, size_bytes), Ok(()));
    assert_eq!(validate(scaling(100, 2), 100, size_bytes - 1), Err(ScaleError::TooLarge));
    assert_eq!(validate(scaling(100, 2), 101, size_bytes), Err(ScaleError::TooLarge));
}

/// A filter without layers must have a table and the growth of an unreserved filter.
#[test]
fn a_filter_without_layers_is_a_table() {
    let of_layers = |growth: Promise, layers| Filter::from_parts(Policy::Everbloom(growth), layers, None);
    assert_eq!(of_layers(promise(0.01, 100, 2), Vec::new()).err(), Some("layer count"));
    assert_eq!(of_layers(unreserved(0.01, 100, 2), Vec::new()).err(), Some("layer count"));
    for (promise, is_valid) in [(unreserved(0.01, 100, 2), true), (promise(0.01, 100, 2), false)] {
        let table = Table::new(Policy::Everbloom(promise).table());
        let made = Filter::from_parts(Policy::Everbloom(promise), Vec::new(), Some((table, Hash::Murmur3)));
        assert_eq!(made.is_ok(), is_valid, "{promise:?}");
    }
}

/// A window grows like other filters, so the number of its items costs nothing before they come.
#[test]
fn a_window_for_many_items_takes_little_memory_while_it_is_empty() {
    let mut server = Server::new();
    server.settings.max_filter_bytes = 1 << 20;
    for line in ["BF.RESERVE k 0.01 100000000000 WINDOW 60", "BF.CLEAR k"] {
        let (reply, allocated_bytes) = largest_allocation(|| server.run(line));
        assert_eq!(reply, "+OK", "{line}");
        assert!(allocated_bytes < 1 << 12, "{line}: {allocated_bytes}");
        assert!(server.filter("k").size_bytes() < 1 << 12, "{line}");
    }
    assert_eq!(server.run("BF.ADD k a"), "#t");
    assert!(server.filter("k").size_bytes() < 1 << 12);
}

#[test]
fn the_size_of_an_empty_table_is_known_before_it_is_made() {
    for kind in [EntryKind::Plain, EntryKind::Counted, EntryKind::Timed(everbloom::Steps::Fourteen)] {
        for items in (0..32).flat_map(|log| [1 << log, (1 << log) + (1 << log) / 3]) {
            let spec = TableSpec { error_rate: 0.01, kind, items };
            assert_eq!(Table::new(spec).size_bytes(), spec.empty_bytes(), "{spec:?}");
        }
    }
}

/// The memory limit of a container can be raised while the server runs, without an event.
#[test]
fn a_limit_that_was_raised_is_read_again_before_a_refusal() {
    let mut server = Server::new();
    server.settings.max_filter_bytes = 20_000;
    let mut small = Server::new();
    assert_eq!(small.run("BF.RESERVE larger 0.01 100000"), "+OK");
    assert!(small.run("BF.SCANDUMP larger 0").starts_with("*2"));
    let header = small.bulk.clone();
    assert_eq!(server.run("BF.RESERVE chain 0.01 5000 FORMAT redisbloom"), "+OK");
    assert_eq!(server.run("BF.RESERVE fixed 0.01 5000"), "+OK");
    let items: Vec<String> = (0..20_000).map(|item| item.to_string()).collect();
    let batch = |name: &str, key: &str| format!("{name} {key} {}", items.join(" "));
    server.settings.max_filter_bytes = 12_000;
    for (line, fits) in [
        ("BF.RESERVE k 0.01 100000".to_owned(), "+OK"),
        ("BF.INSERT k CAPACITY 100000 ITEMS a".to_owned(), "*1 #t"),
        ("BF.INSERT k FORMAT valkey-bloom CAPACITY 100 VALIDATESCALETO 100000 ITEMS a".to_owned(), "*1 #t"),
        ("BF.INSERT k VALIDATESCALETO 100000 ITEMS a".to_owned(), "*1 #t"),
        ("CF.RESERVE k 100000".to_owned(), "+OK"),
    ] {
        server.settings.format = if line.starts_with("CF") { Format::RedisBloom } else { Format::Everbloom };
        let refused = server.run(&line);
        assert!(refused.starts_with('-') && refused.contains("12000") || line.contains("SCALE"), "{refused}");
        raise_limit_to(1 << 20);
        assert_eq!(server.run(&line), fits, "{line}");
        // The next command asks for the limit that the server has.
        assert!(server.run(&line.replace(" k ", " other ")).starts_with('-'), "{line}");
        server.keys.remove(&b"k"[..]);
        server.cuckoos.remove(&b"k"[..]);
    }
    server.settings.format = Format::Everbloom;
    for (line, key) in [(batch("BF.MADD", "chain"), "chain"), (batch("BF.MADD", "fixed"), "fixed")] {
        let before = server.filter(key).size_bytes();
        assert!(server.run(&line).contains("-ERR"), "{key}");
        raise_limit_to(1 << 20);
        assert!(!server.run(&line).contains('-') && server.filter(key).size_bytes() > before, "{key}");
        // A batch asks once, and once again before its first refusal.
        assert!(server.limit_asked <= 2, "{} times", server.limit_asked);
    }
    // The header says another capacity than that of its layer, and BF.CLEAR makes a layer of that capacity.
    let mut crafted = record::header(&plain(promise(0.01, 4321, 2)));
    let place = crafted[..POLICY_BYTES].windows(8).position(|bytes| bytes == 4321u64.to_le_bytes()).unwrap();
    crafted[place..][..8].copy_from_slice(&100_000u64.to_le_bytes());
    let mut crafted = complete(from_header(&header_chunk(&crafted, 1), &ANY).unwrap());
    add(&mut crafted, b"item").unwrap();
    server.set("crafted", crafted);
    assert!(server.run("BF.CLEAR crafted").starts_with('-'));
    raise_limit_to(1 << 20);
    assert_eq!(server.run("BF.CLEAR crafted"), "+OK");
    assert!(server.filter("crafted").size_bytes() > 100_000);
    assert!(server.call(&[b"BF.LOADCHUNK", b"larger", b"1", &header]).starts_with('-'));
    raise_limit_to(1 << 20);
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"larger", b"1", &header]), "+OK");
}

/// VALIDATESCALETO refuses what does not fit, and so all that is larger.
#[test]
fn more_items_never_make_the_expected_size_smaller() {
    for kind in [
        EntryKind::Plain,
        EntryKind::Counted,
        EntryKind::Timed(Steps::Fourteen),
        EntryKind::Timed(Steps::Fine),
    ] {
        let spec = TableSpec { error_rate: 0.01, kind, items: 100 };
        let bytes: Vec<u64> = (0..64).map(|log| spec.expected_bytes(1 << log)).collect();
        assert!(bytes.is_sorted() && bytes[63] == u64::MAX, "{kind:?}: {bytes:?}");
    }
}
