//! How the layers of a growing filter share its error rate: the cost in memory, which capacities count as chosen, and
//! that the shares survive every copy.

use everbloom::bloom::limits::CAPACITY_MAX_ITEMS;
use everbloom::bloom::{Growth, Promise};
use everbloom::command::Settings;
use everbloom::{BloomFilter, Format, Options, layer_sizes};

use crate::support::make::{promise, unreserved};
use crate::support::server::Server;

/// Returns the bits per item of a filter with `layers` full layers, and its items.
fn full(options: Options, layers: u32) -> (u64, f64) {
    let factor = u64::from(options.growth.expansion());
    let items = (0..layers).map(|index| options.capacity_items * factor.pow(index)).sum();
    let sizes = layer_sizes(Format::Everbloom, options, items).unwrap();
    assert_eq!(sizes.len(), layers as usize);
    (items, sizes.iter().map(|layer| layer.size_bits).sum::<u64>() as f64 / items as f64)
}

/// Additional bits per item of a filter of 0.1 % compared with 1 %: 1.44 log2(10).
const MORE_AT_A_THOUSANDTH: f64 = 4.8;

#[test]
fn unreserved_filters_grow_with_few_extra_bits() {
    let limits = [
        (1, 100, 11.9),
        (2, 300, 13.3),
        (3, 700, 14.4),
        (4, 1500, 15.3),
        (5, 3100, 16.2),
        (7, 12_700, 17.2),
        (9, 51_100, 17.9),
        (14, 1_638_300, 18.9),
        (20, 104_857_500, 19.8),
        (34, 1_717_986_918_300, 20.8),
    ];
    for (error_rate, more) in [(0.01, 0.0), (0.001, MORE_AT_A_THOUSANDTH)] {
        let options = Options { error_rate, ..Options::unreserved() };
        for (layers, items, limit) in limits {
            let (full_items, bits_per_item) = full(options, layers);
            assert_eq!(full_items, items);
            assert!(bits_per_item <= limit + more, "{error_rate} {items}: {bits_per_item}");
        }
    }
    // For every factor at most 21 bits per item, however large the filter.
    for expansion in [2, 3, 4, 10, 100, 32_768] {
        let options = Options { growth: Growth::Unreserved { expansion }, ..Options::unreserved() };
        let mut layers = 1;
        while 100 * u64::from(expansion).pow(layers) <= CAPACITY_MAX_ITEMS {
            layers += 1;
            let (items, bits_per_item) = full(options, layers);
            assert!(bits_per_item <= 21.0, "{expansion}: {bits_per_item} for {items}");
        }
    }
}

/// Returns the cells of the table row that begins with `head`.
fn row<'p>(page: &'p str, head: &str) -> Vec<&'p str> {
    let row = page
        .lines()
        .find(|line| line.starts_with(&format!("| {head}")))
        .unwrap_or_else(|| panic!("no row {head}"));
    row.trim_matches('|').split('|').skip(1).map(str::trim).collect()
}

#[test]
fn the_bits_per_item_in_the_documentation_are_right() {
    let page =
        |name: &str| std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let memory = page("docs/sizing.md");
    let reserved = Options { capacity_items: 100, ..Options::default() };
    for (head, options) in [("unreserved", Options::unreserved()), ("reserved for 100", reserved)] {
        let bits = row(&memory, head);
        assert_eq!(bits.len(), 12);
        for (layers, bits) in row(&memory, "layers").into_iter().zip(bits) {
            assert_eq!(format!("{:.1}", full(options, layers.parse().unwrap()).1), bits, "{head} {layers}");
        }
    }
    let (items, ours) = full(Options::unreserved(), 14);
    let of_format = |format| {
        let sizes =
            layer_sizes(format, Options { capacity_items: 100, ..Options::default() }, items).unwrap();
        sizes.iter().map(|layer| layer.size_bits).sum::<u64>() as f64 / items as f64
    };
    let readme = page("README.md");
    let cells = row(&readme, "bits per item, not reserved, 1.6 million items, 1 %");
    assert!(cells[0].starts_with(&format!("[{ours:.1}]")), "{cells:?} {ours}");
    let others = [Format::RedisBloom, Format::ValkeyBloom].map(of_format);
    assert_eq!(cells[1..], others.map(|bits| format!("{bits:.1}")));
    assert!(ours < others[0] * 2.0 / 3.0, "{ours}");
}

#[test]
fn reserved_filters_grow_with_few_extra_bits() {
    let limits = [(1, 10.35), (2, 13.2), (3, 14.7), (4, 16.1), (5, 17.5), (14, 22.5)];
    for capacity_items in [1000, 10_000, 100_000, 1_000_000, 10_000_000] {
        for (error_rate, more) in [(0.01, 0.0), (0.001, MORE_AT_A_THOUSANDTH)] {
            let options = Options { error_rate, capacity_items, ..Options::default() };
            for (layers, limit) in limits {
                let (_, bits_per_item) = full(options, layers);
                assert!(
                    bits_per_item <= limit + more,
                    "{capacity_items} {error_rate} {layers}: {bits_per_item}"
                );
            }
        }
    }
}

#[test]
fn a_hundred_layers_of_one_capacity_take_25_bits_per_item() {
    for growth in [Growth::Scaling { expansion: 1 }, Growth::Unreserved { expansion: 1 }] {
        for (capacity_items, first_limit) in [(100, 11.0), (1000, 10.4), (100_000, 10.4)] {
            let options = Options { capacity_items, growth, ..Options::default() };
            let ((_, first), (_, all)) = (full(options, 1), full(options, 100));
            assert!(first <= first_limit && all <= 25.0, "{options:?}: {first} {all}");
        }
    }
}

#[test]
fn the_sum_of_all_error_rates_is_below_the_promise() {
    for parameters in [promise(0.3, 1, 2), unreserved(0.3, 1, 2), promise(0.3, 1, 1), unreserved(0.3, 1, 1)] {
        let Promise { error_rate, growth, .. } = parameters;
        let mut sum = 0.0;
        for index in 0..1_000_000 {
            sum += growth.layer_error_rate(error_rate, index);
        }
        assert!(sum < error_rate && sum > error_rate * 0.98, "{growth:?}: {sum}");
    }
}

#[test]
fn a_capacity_is_chosen_by_a_command_or_by_the_operator() {
    let chosen = Settings { initial_size_items: 101, ..Settings::DEFAULT };
    let one_by_one = Settings { expansion_factor: 1, ..Settings::DEFAULT };
    for (settings, line, shares) in [
        (Settings::DEFAULT, "BF.ADD k a", "$unreserved"),
        (Settings::DEFAULT, "BF.MADD k a b", "$unreserved"),
        (Settings::DEFAULT, "BF.INSERT k ITEMS a", "$unreserved"),
        (Settings::DEFAULT, "BF.INSERT k ERROR 0.1 EXPANSION 4 COUNTING ITEMS a", "$unreserved"),
        (Settings::DEFAULT, "BF.INSERT k KEYED ITEMS a", "$unreserved"),
        (Settings::DEFAULT, "BF.INSERT k CAPACITY 100 UNRESERVED ITEMS a", "$unreserved"),
        (Settings::DEFAULT, "BF.BULKADD k LINES a", "$unreserved"),
        (one_by_one, "BF.ADD k a", "$unreserved"),
        (Settings::DEFAULT, "BF.INSERT k CAPACITY 100 ITEMS a", "$reserved"),
        (Settings::DEFAULT, "BF.RESERVE k 0.01 100", "$reserved"),
        (Settings::DEFAULT, "BF.IMPORT k EMPTY SCHEME go-zero BITS 900", "$reserved"),
        (chosen, "BF.ADD k a", "$reserved"),
        (chosen, "BF.INSERT k ITEMS a", "$reserved"),
        // Their layers share nothing, or by other rules.
        (Settings::DEFAULT, "BF.INSERT k NONSCALING ITEMS a", "_"),
        (Settings::DEFAULT, "BF.INSERT k NONSCALING UNRESERVED ITEMS a", "_"),
        (Settings::DEFAULT, "BF.INSERT k WINDOW 60 ITEMS a", "_"),
        (Settings::DEFAULT, "BF.INSERT k FORMAT redisbloom ITEMS a", "_"),
        (Settings::DEFAULT, "BF.INSERT k FORMAT valkey-bloom ITEMS a", "_"),
    ] {
        let mut server = Server::new();
        server.settings = settings;
        let reply = server.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        assert_eq!(server.run("BF.INFO k SHARES"), format!("*1 {shares}"), "{line}");
        let in_debug = format!(" shares:{}", shares.trim_start_matches('$'));
        let has_own_layers = !line.starts_with("BF.IMPORT");
        assert_eq!(server.run("BF.DEBUG k").contains(&in_debug), shares != "_" && has_own_layers, "{line}");
        // A server with other defaults creates the same filter.
        server.assert_replicated(Settings {
            error_rate: 0.2,
            initial_size_items: 5000,
            expansion_factor: 4,
            ..Settings::DEFAULT
        });
    }
    let mut server = Server::new();
    for (line, error) in [
        ("BF.INSERT k UNRESERVED FORMAT redisbloom ITEMS a", "-ERR UNRESERVED needs FORMAT everbloom"),
        ("BF.INSERT k UNRESERVED FORMAT valkey-bloom ITEMS a", "-ERR UNRESERVED needs FORMAT everbloom"),
        ("BF.INSERT k UNRESERVED WINDOW 60 ITEMS a", "-ERR UNRESERVED cannot be combined with WINDOW"),
        ("BF.RESERVE k 0.01 100 UNRESERVED", "-ERR unknown argument 'UNRESERVED'"),
    ] {
        assert_eq!(server.run(line), error);
    }
}

#[test]
fn shares_survive_dumps_clears_and_merges() {
    let mut server = Server::new();
    for number in 0..1000 {
        server.run(&format!("BF.ADD grown {number}"));
    }
    let debug = |server: &mut Server, key: &str| server.run(&format!("BF.DEBUG {key}"));
    let grown = debug(&mut server, "grown");
    assert_eq!(server.run("BF.INFO grown FILTERS"), "*1 :4");
    // A copy continues to grow as the filter does.
    let filter = &server.keys[&b"grown"[..]];
    let copy = filter.try_clone(everbloom::bloom::UnknownMemory).unwrap();
    server.keys.insert(b"copy".to_vec(), copy);
    for key in ["grown", "copy"] {
        for number in 1000..4000 {
            server.run(&format!("BF.ADD {key} {number}"));
        }
    }
    assert_ne!(debug(&mut server, "grown"), grown);
    assert_eq!(debug(&mut server, "grown"), debug(&mut server, "copy"));
    // A cleared filter grows as a new one.
    assert_eq!(server.run("BF.CLEAR copy"), "+OK");
    server.run("BF.ADD new 1");
    server.run("BF.ADD copy 1");
    assert_eq!(debug(&mut server, "copy"), debug(&mut server, "new"));
    // Equal filters are merged layer by layer; a reserved one has another shape.
    server.run("BF.ADD other 2");
    assert_eq!(server.run("BF.MERGE new other"), "+OK");
    assert_eq!(server.run("BF.INFO new FILTERS"), "*1 :1");
    assert_eq!(server.run("BF.RESERVE reserved 0.01 100"), "+OK");
    server.run("BF.ADD reserved 3");
    assert_eq!(server.run("BF.MERGE new reserved"), "+OK");
    assert_eq!(server.run("BF.INFO new FILTERS"), "*1 :2");
    assert_eq!(server.run("BF.INFO new SHARES"), "*1 $unreserved");
    assert_eq!(server.run("BF.MEXISTS new 1 2 3"), "*3 #t #t #t");
}

#[test]
fn library_filters_grow_by_the_computed_sizes() {
    for options in [
        Options::unreserved(),
        Options { growth: Growth::Unreserved { expansion: 1 }, ..Options::unreserved() },
        Options { error_rate: 0.001, growth: Growth::Unreserved { expansion: 4 }, ..Options::unreserved() },
    ] {
        let mut filter = BloomFilter::new(options).unwrap();
        let mut item = 0u64;
        while filter.items() < 3000 {
            filter.add(&item.to_le_bytes()).unwrap();
            item += 1;
        }
        let expected: Vec<u64> = layer_sizes(Format::Everbloom, options, 3000)
            .unwrap()
            .iter()
            .map(|layer| layer.size_bits)
            .collect();
        let sizes: Vec<u64> = filter.layers().iter().map(|layer| layer.size_bits).collect();
        assert_eq!(sizes, expected);
        // The layers that another module would create.
        for format in [Format::RedisBloom, Format::ValkeyBloom] {
            let reserved = Options { growth: options.growth.reserved(), ..options };
            assert_eq!(layer_sizes(format, options, 3000), layer_sizes(format, reserved, 3000));
        }
    }
}
