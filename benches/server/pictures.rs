//! Makes the pictures of docs/charts.

use super::bars::{Bar, BarChart, Group, bars};
use super::cells::{HALF_PRESENT, Work};
use super::failure::Failure;
use super::grown;
use super::lines::{Line, lines};
use super::record::{MACHINE, Record, Row};
use super::text::grouped;
use super::versus::{self, Run};

/// The number of layers of the grown filters that the picture of memory compares.
const LAYERS: usize = 14;

/// Returns the file name and the content of each picture.
pub(crate) fn all(
    record: &Record,
    elsewhere: &Record,
    runs: &[Run],
) -> Result<Vec<(&'static str, String)>, Failure> {
    let beside = |title, unit, work: Work| {
        let groups = versus::groups(runs, work.name());
        bars(&BarChart { title, unit, groups, caption: versus::sources(runs) })
    };
    Ok(vec![
        (
            "lookup.svg",
            beside(
                "Time to look up an item in a batch",
                "multiple of everbloom's time; BF.MEXISTS with 100 items, half present; shorter is better",
                HALF_PRESENT,
            )?,
        ),
        (
            "add.svg",
            beside(
                "Time to add an item in a batch",
                "multiple of everbloom's time; BF.MADD with 100 new items; shorter is better",
                Work::Add,
            )?,
        ),
        ("memory.svg", memory()?),
        ("growth.svg", growth()?),
        ("error-rate.svg", error_rate(record)?),
        ("window.svg", window(elsewhere)?),
        ("substitutes.svg", substitutes(record)?),
    ])
}

fn bar(name: &str, value: Option<f64>) -> Option<Bar> {
    Some(Bar { name: name.to_owned(), value: value?, is_own: false })
}

/// Returns the machine and the date of a part of the cells.
fn machine(record: &Record, part: &str) -> String {
    let row = record.part(MACHINE).find(|row| row.what == part);
    row.map_or(String::new(), |row| format!("{}.", row.value))
}

/// Computes the memory of reserved and of grown filters from the sizes of their layers.
fn memory() -> Result<String, Failure> {
    let group = |heading: String, bits: Vec<f64>| {
        let bars = grown::KINDS.into_iter().zip(bits);
        let bars = bars.enumerate().map(|(place, (kind, value))| Bar {
            name: kind.to_owned(),
            value,
            is_own: place == 0,
        });
        Group { heading, bars: bars.collect() }
    };
    let curves = grown::sizes()?;
    let point = |curve: &grown::Curve| curve.points.get(LAYERS - 1).copied().ok_or("too few layers");
    let items = curves.first().map(point).ok_or("no kinds")??.0;
    let grown_bits = curves.iter().map(|curve| Ok(point(curve)?.1)).collect::<Result<_, Failure>>()?;
    let million = format!("{:.1} million", items as f64 / 1e6);
    bars(&BarChart {
        title: "Memory of a filter",
        unit: "bits per item; error rate 1 %; shorter is better",
        groups: vec![
            group(format!("reserved for {million} items"), grown::reserved(items)?.to_vec()),
            group(format!("not reserved, grown from 100 to {million} items"), grown_bits),
        ],
        caption:
            "Computed from the sizes of the layers, the last of which is full. valkey-bloom's filter has \
                  twice the promised error rate after growth."
                .to_owned(),
    })
}

/// Computes the memory of filters that grow.
fn growth() -> Result<String, Failure> {
    let sizes = grown::sizes()?;
    let line = |curve: &grown::Curve| {
        let points = curve.points.iter().map(|(items, value)| (*items as f64, *value));
        Line { series: format!("{}, not reserved", curve.kind), points: points.collect() }
    };
    let mut curves: Vec<Line> = sizes.iter().map(line).collect();
    let reserved = sizes.iter().take(1).flat_map(|curve| &curve.points).map(|(items, _)| {
        let [bits, ..] = grown::reserved(*items)?;
        Ok((*items as f64, bits))
    });
    let points = reserved.collect::<Result<_, Failure>>()?;
    curves.push(Line { series: "everbloom, reserved for all items".to_owned(), points });
    let title = "Memory of filters that grow from 100 items";
    lines(title, "bits per item when the last layer is full; error rate 1 %", &curves, None)
}

fn error_rate(record: &Record) -> Result<String, Failure> {
    let curves: Vec<Line> = record
        .distinct("grown", |row| &row.kind)
        .into_iter()
        .map(|kind| {
            let rows = record.part("grown").filter(|row| row.kind == kind);
            let points = rows.filter_map(|row| Some((row.what.parse().ok()?, row.number()? * 100.0)));
            Line { series: kind.to_owned(), points: points.collect() }
        })
        .collect();
    let title = "Error rate of filters that grow from 100 items";
    lines(title, "false positives in % when the last layer is full", &curves, Some(("promised", 1.0)))
}

/// Compares the memory of one sliding-window filter with that of other ways to keep the items of a week.
fn window(elsewhere: &Record) -> Result<String, Failure> {
    let group = |(what, heading): (&str, &str)| {
        let rows = elsewhere.part("window").filter(|row| row.what == what && row.quantity == "memory");
        let bars = rows.enumerate().filter_map(|(place, row)| {
            let bar = bar(&row.kind, row.number().map(|bits| bits / 8.0))?;
            Some(Bar { is_own: what != "exact" && place == 0, ..bar })
        });
        Group { heading: heading.to_owned(), bars: bars.collect() }
    };
    bars(&BarChart {
        title: "Memory to keep the items of the last seven days",
        unit: "bytes per item; shorter is better",
        groups: [("at 1 %", "error rate 1 %"), ("exact", "exact")].map(group).into(),
        caption: machine(elsewhere, "window"),
    })
}

fn substitutes(record: &Record) -> Result<String, Failure> {
    let own = [("BF.EXISTS", 1), ("BF.MEXISTS", 100)].into_iter().filter_map(|(name, per_command)| {
        let cell = record.cell("1 MB", HALF_PRESENT.name(), Some(per_command), "everbloom", "time");
        let name = format!("everbloom: {name}{}", batch(per_command));
        Some(Bar { is_own: true, ..bar(&name, cell.and_then(Row::number))? })
    });
    let others = record.part("substitutes").filter(|row| row.quantity == "time to look up");
    let others = others
        .filter_map(|row| bar(&format!("{}{}", row.what, batch(row.per_command.unwrap_or(1))), row.number()));
    let bars_of_all = own.chain(others).collect();
    bars(&BarChart {
        title: "Time to look up an item with and without a module",
        unit: "server time per item in ns; half of the items are present; shorter is better",
        groups: vec![Group { heading: String::new(), bars: bars_of_all }],
        caption: machine(record, "substitutes"),
    })
}

fn batch(per_command: usize) -> String {
    if per_command == 1 { String::new() } else { format!(", {} at once", grouped(per_command as f64)) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_end_within_the_picture() {
        use super::super::canvas::WIDTH;
        use super::*;
        let documents = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let read = |name: &str| std::fs::read_to_string(documents.join(name)).unwrap();
        let [record, elsewhere] = ["performance-cells.csv", "performance-elsewhere.csv"]
            .map(|name| Record::parse(&read(name)).unwrap());
        let runs = versus::runs(&record, &read("performance-peers.csv")).unwrap();
        for (name, svg) in all(&record, &elsewhere, &runs).unwrap() {
            let mut count = 0;
            for text in svg.split("<text ").skip(1) {
                let (tag, rest) = text.split_once('>').unwrap();
                let content = rest.split_once("</text>").unwrap().0.trim().replace("&apos;", "'");
                let value = |name: &str| {
                    let value =
                        tag.split_once(&format!(" {name}=\"")).or(tag.split_once(&format!("{name}=\"")));
                    value.and_then(|(_, rest)| rest.split_once('"')).map_or("", |(value, _)| value)
                };
                // Assumes wider letters than most fonts have.
                let width = 0.6 * value("font-size").parse::<f64>().unwrap() * content.chars().count() as f64;
                let x: f64 = value("x").parse().unwrap();
                let (from, to) = match value("text-anchor") {
                    "end" => (x - width, x),
                    "middle" => (x - width / 2.0, x + width / 2.0),
                    _ => (x, x + width),
                };
                assert!(from >= 0.0 && to <= f64::from(WIDTH), "{name}: {content}: {from} to {to}: {tag}");
                count += 1;
            }
            assert!(count > 8, "{name}: {count}");
        }
    }
}
