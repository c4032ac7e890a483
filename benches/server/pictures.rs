//! Makes the pictures of docs/charts, with their file names.

use super::bars::{Bar, Group, bars};
use super::failure::Failure;
use super::grown;
use super::lines::{Line, lines};
use super::record::{Record, Row};
use super::versus;

/// Returns all pictures.
pub(crate) fn all(record: &Record, elsewhere: &Record) -> Result<Vec<(&'static str, String)>, Failure> {
    let time = "server time per item, ns";
    let mut pictures = Vec::new();
    for (name, verb, title) in
        [("add.svg", "add", "Adding new items"), ("check.svg", "check", "Checking items")]
    {
        pictures.push((name, bars(title, time, &versus::groups(record, elsewhere, verb))?));
    }
    pictures.push(("substitutes.svg", bars("With and without a module", time, &substitutes(record))?));
    pictures.push(("memory.svg", memory()?));
    pictures.push(("error-rate.svg", error_rate(record)?));
    for (name, title, quantity, unit) in [
        ("window.svg", "Memory for the items of the last seven days", "memory", "bits per item"),
        (
            "window-check.svg",
            "Asking whether an item is one of the last seven days",
            "time per check",
            "server time, ns",
        ),
    ] {
        pictures.push((name, bars(title, unit, &windows(elsewhere, quantity))?));
    }
    Ok(pictures)
}

fn bar(series: &str, row: Option<&Row>) -> Option<Bar> {
    let row = row?;
    Some(Bar { series: series.to_owned(), value: row.number()?, deviation: row.deviation })
}

fn substitutes(record: &Record) -> Vec<Group> {
    let mut groups = Vec::new();
    for (label, per_command) in [("BF.ADD, BF.EXISTS", 1), ("BF.MADD, BF.MEXISTS", 100)] {
        let cell = |work: &str| record.cell("1 MB", work, Some(per_command), "everbloom", "time");
        let pair = [bar("add", cell("add, new")), bar("check", cell("check, 50 % there"))];
        groups.push(Group { label: label.to_owned(), bars: pair.into_iter().flatten().collect() });
    }
    for row in record.part("substitutes").filter(|row| row.quantity == "time to add") {
        let check = record.cell("substitutes", &row.what, row.per_command, "", "time to check");
        let pair = [bar("add", Some(row)), bar("check", check)];
        groups.push(Group { label: row.what.clone(), bars: pair.into_iter().flatten().collect() });
    }
    groups
}

/// Draws the memory of filters, computed from their sizes.
fn memory() -> Result<String, Failure> {
    let mut curves: Vec<Line> = grown::sizes()?.iter().map(line).collect();
    curves.push(line(&grown::reserved_sizes()?));
    lines("Memory of filters grown from 100 items at 1 %, when full", "bits per item", &curves, None)
}

fn line(curve: &grown::Curve) -> Line {
    let points = curve.points.iter().map(|(items, value)| (*items as f64, *value));
    Line { series: curve.kind.to_owned(), points: points.collect() }
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
    let title = "Error rate of filters grown from 100 items, when full";
    lines(title, "absent items that are found, %", &curves, Some(("promised", 1.0)))
}

/// Returns one filter over a window of time and the other ways to remember its items.
fn windows(elsewhere: &Record, quantity: &str) -> Vec<Group> {
    let group = |what: &str| {
        let rows = elsewhere.part("window").filter(|row| row.what == what && row.quantity == quantity);
        Group { label: what.to_owned(), bars: rows.filter_map(|row| bar(&row.kind, Some(row))).collect() }
    };
    elsewhere.distinct("window", |row| &row.what).into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_end_within_the_picture() {
        use super::super::canvas::WIDTH;
        use super::*;
        let long_bar = |place: usize| Bar {
            series: format!("a kind with a name of some length, {place}"),
            value: 10.0 * (place + 1) as f64,
            deviation: Some(1.5),
        };
        let groups = [Group { label: "a label".to_owned(), bars: (0..9).map(long_bar).collect() }];
        let line = |name: &str| Line { series: name.to_owned(), points: vec![(100.0, 1.0), (1e8, 9.0)] };
        let long = "a kind of filter with a name that is rather long, 50 characters";
        let limit = Some(("promised", 10.0));
        for svg in [bars("time", "ns", &groups).unwrap(), lines("t", "u", &[line(long)], limit).unwrap()] {
            let starts = svg.split("<text ").skip(1);
            let mut count = 0;
            for text in starts {
                let (tag, rest) = text.split_once('>').unwrap();
                let content = rest.split_once("</text>").unwrap().0.trim();
                let value = |name: &str| {
                    let value =
                        tag.split_once(&format!(" {name}=\"")).or(tag.split_once(&format!("{name}=\"")));
                    value.and_then(|(_, rest)| rest.split_once('"')).map_or("", |(value, _)| value)
                };
                // A width per letter that is larger than in most fonts.
                let width = 0.6 * value("font-size").parse::<f64>().unwrap() * content.chars().count() as f64;
                let x: f64 = value("x").parse().unwrap();
                let (from, to) = match value("text-anchor") {
                    "end" => (x - width, x),
                    "middle" => (x - width / 2.0, x + width / 2.0),
                    _ => (x, x + width),
                };
                let is_turned = tag.contains("rotate");
                assert!(
                    is_turned || (from >= 0.0 && to <= f64::from(WIDTH)),
                    "{content}: {from} to {to}: {tag}"
                );
                count += 1;
            }
            assert!(count > 8, "{count}");
        }
    }
}
