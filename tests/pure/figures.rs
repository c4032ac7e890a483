//! Figures in the documentation are those of the benchmark cells, or of the sizing.

use std::fs;

use everbloom::{BloomFilter, Options};

fn page(name: &str) -> String {
    let text = fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the smallest and largest ratio of RedisBloom's time to everbloom's, over the workloads on filters of these
/// sizes.
fn compared(sizes: &[&str], per_command: u32) -> String {
    let cells =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/performance-elsewhere.csv")).unwrap();
    let times = |kind: &str| -> Vec<f64> {
        let end = format!("\",{per_command},{kind},time,");
        let rows = cells.lines().filter(|row| sizes.iter().any(|size| row.starts_with(&format!("{size},"))));
        let values = rows.filter_map(|row| row.split_once(&end)?.1.split(',').next());
        values.map(|value| value.parse().unwrap()).collect()
    };
    let (ours, theirs) = (times("everbloom"), times("RedisBloom 8.10"));
    assert!(ours.len() >= 4 && ours.len() == theirs.len(), "{sizes:?} {per_command}: {ours:?} {theirs:?}");
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| theirs / ours);
    let (least, most) =
        ratios.fold((f64::MAX, 0.0), |(least, most): (f64, f64), ratio| (least.min(ratio), most.max(ratio)));
    format!("{least:.1} to {most:.1} times")
}

#[test]
fn times_compared_with_redisbloom_are_those_of_the_cells() {
    let (small, large) = (compared(&["1 MB"], 100), compared(&["1 GB"], 100));
    let single = compared(&["1 MB", "1 GB"], 1);
    let readme = format!("On a filter of 1 GB and in batches of 100, RedisBloom 8.10 takes {large} as long");
    assert!(page("README.md").contains(&readme), "{readme}");
    let row = format!(
        "takes {small} as long per item in batches of 100 on 1 MB, {large} on 1 GB, and {single} in single commands"
    );
    assert!(page("docs/performance.md").contains(&row), "{row}");
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
