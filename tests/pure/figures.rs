//! Figures in the documentation are those of the benchmark cells, or of the sizing.

use std::collections::BTreeMap;
use std::fs;

use everbloom::{BloomFilter, Format, Growth, Options, filter_size};

fn page(name: &str) -> String {
    let text = fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the least and the most of a peer's time as a multiple of everbloom's in the same run, over all work on
/// filters of these sizes.
fn compared(peer: &str, sizes: &[&str], per_command: u32) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/performance-peers.csv");
    let rows: Vec<BTreeMap<String, String>> =
        csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect();
    let is_of = |row: &BTreeMap<String, String>| {
        row["quantity"] == "time"
            && row["items_per_command"] == per_command.to_string()
            && sizes.contains(&row["filter"].as_str())
    };
    let time = |row: &BTreeMap<String, String>| row["value"].parse::<f64>().unwrap();
    let mut ratios = Vec::new();
    for theirs in rows.iter().filter(|row| row["module"] == peer && is_of(row)) {
        let place = ["run", "filter", "work"];
        let is_same = |row: &&BTreeMap<String, String>| place.iter().all(|name| row[*name] == theirs[*name]);
        let ours =
            rows.iter().filter(is_same).find(|row| row["module"].starts_with("everbloom") && is_of(row));
        ratios.push(time(theirs) / time(ours.unwrap()));
    }
    assert_eq!(ratios.len(), 4 * sizes.len(), "{peer} {sizes:?} {per_command}");
    ratios.sort_by(f64::total_cmp);
    format!("{:.1} to {:.1} times", ratios[0], ratios[ratios.len() - 1])
}

#[test]
fn the_times_beside_other_modules_are_those_of_their_runs() {
    let peers = ["RedisBloom 8.10", "valkey-bloom 1.0.1"];
    let large = peers.map(|peer| compared(peer, &["1 GB"], 100));
    let [small, single] = [(&["1 MB"][..], 100), (&["1 MB", "1 GB"], 1)].map(|(sizes, per_command)| {
        peers.map(|peer| compared(peer, sizes, per_command).replace(" times", ""))
    });
    let readme = format!(
        "On a filter of 1 GB and in batches of 100, RedisBloom 8.10 takes {} as long per item and valkey-bloom 1.0.1 {}",
        large[0], large[1]
    );
    assert!(page("README.md").contains(&readme), "{readme}");
    let answer = format!(
        "In batches of 100, RedisBloom 8.10 takes {} times as long per item on a filter of 1 MB and {} on 1 GB; \
         valkey-bloom 1.0.1 takes {} and {}. In single commands they take {} and {} times as long.",
        small[0], large[0], small[1], large[1], single[0], single[1]
    );
    assert!(page("docs/performance.md").contains(&answer), "{answer}");
}

#[test]
fn the_memory_in_the_results_is_that_of_the_tables() {
    let performance = page("docs/performance.md");
    let (sizing, readme) = (page("docs/sizing.md"), page("README.md"));
    let (_, row) = readme.split_once("not reserved, 1.6 million items, 1 % | [").unwrap();
    let numbers: Vec<f64> = row.split([' ', ']']).filter_map(|word| word.parse().ok()).take(3).collect();
    // The others' last layer is just full then, so this is the least that they take.
    let items = 100 * ((1 << 14) - 1);
    let computed = [Format::Everbloom, Format::RedisBloom, Format::ValkeyBloom].map(|format| {
        let size = filter_size(
            format,
            Options { growth: Growth::default().unreserved(), ..Options::default() },
            items,
        );
        (size.unwrap().size_bits() as f64 / items as f64 * 10.0).round() / 10.0
    });
    assert_eq!(numbers, computed);
    assert!(sizing.contains(&format!("1.6 million items | {} |", computed[1])));
    let cells = include_str!("../../docs/performance-elsewhere.csv");
    let bytes = |kind: &str| {
        let row = cells.lines().find(|row| row.contains(kind) && row.contains(",memory,")).unwrap();
        row.split(',').nth(5).unwrap().parse::<f64>().unwrap() / 8.0
    };
    let result = format!(
        "One sliding-window filter keeps the items of a week in {:.1} bytes each.** A filter for each day takes as \
         much and needs eight lookups. A sorted set takes {:.0} bytes.",
        bytes("at 1 %,,one sliding-window filter"),
        bytes("sorted set by time")
    );
    assert!(performance.contains(&result), "{result}");
}

#[test]
fn the_table_of_sizes_is_right() {
    let page = page("docs/sizing.md");
    let row = |items: &str| {
        let row = page.split(&format!("| {items} | ")).nth(1).unwrap_or_else(|| panic!("no row {items}"));
        row.split(" | ").take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, items) in [
        ("10 thousand", 10_000),
        ("100 thousand", 100_000),
        ("1 million", 1_000_000),
        ("10 million", 10_000_000),
        ("100 million", 100_000_000),
    ] {
        let sizes = [0.01, 0.001, 0.0001].map(|error_rate| {
            let options = Options { error_rate, capacity_items: items, ..Options::default() };
            // The size is that of `SIZE` of BF.INFO. Memory that is not written to is not taken.
            let bytes = BloomFilter::new(options).unwrap().size_bytes() as f64;
            match bytes {
                ..1e5 => format!("{:.1} kB", bytes / 1e3),
                ..1e6 => format!("{:.0} kB", bytes / 1e3),
                ..1e8 => format!("{:.1} MB", bytes / 1e6),
                _ => format!("{:.0} MB", bytes / 1e6),
            }
        });
        assert_eq!(row(name), sizes, "{name}");
    }
}
