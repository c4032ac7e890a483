//! Writes docs/performance.md: tables made from the cells replace the text between their marks.

use super::RESERVED;
use super::failure::Failure;
use super::record::{MACHINE, Record, Row};
use super::series::UNRESERVED;
use super::text::{number, shown, table};
use super::versus;

/// Returns the page, made from its present text.
pub(crate) fn written(template: &str, record: &Record, elsewhere: &Record) -> Result<String, Failure> {
    let sections = [
        ("machine", machines(record)),
        ("peers", versus::table_text(record, elsewhere)),
        ("filters", kind_table(record)),
        ("unreserved", unreserved_table(record)),
        ("full", full_table(record)),
        ("large filter", fact_table(record)),
        ("substitutes", substitute_table(record)),
        ("counting", counting_table(elsewhere)),
        ("instructions", instruction_table(record)),
        ("aims", aim_table(record)),
    ];
    let mut page = template.to_owned();
    for (name, section) in sections {
        page = replaced(&page, name, &section)?;
    }
    Ok(page)
}

/// Replaces the text between the marks of that name.
fn replaced(text: &str, name: &str, section: &str) -> Result<String, Failure> {
    let begin = format!("<!-- measured: {name} -->\n");
    let missing = || format!("performance.md lacks the marks of '{name}'");
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once("<!-- end -->").ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{}\n\n<!-- end -->{after}", section.trim()))
}

fn percent(row: Option<&Row>) -> String {
    let digits = |value: f64| format!("{:.4} %", value * 100.0);
    row.and_then(Row::number).map_or("-".to_owned(), digits)
}

/// Returns where the parts were measured: one line if all were measured on the same machine, else one for each
/// machine.
fn machines(record: &Record) -> String {
    let mut lines = String::new();
    let machines = record.distinct(MACHINE, |row| &row.value);
    for machine in &machines {
        let parts: Vec<&str> =
            record.part(MACHINE).filter(|row| row.value == *machine).map(|row| row.what.as_str()).collect();
        let parts = if machines.len() == 1 { String::new() } else { format!(" ({})", parts.join(", ")) };
        lines += &format!("* {machine}{parts}.\n");
    }
    lines
}

/// Returns the table of the time per item of the kinds of filter, for small and large filters.
fn kind_table(record: &Record) -> String {
    let kinds = ["everbloom", "redisbloom format", "valkey-bloom format", "baseline"];
    let mut rows = Vec::new();
    for size in ["1 MB", "1 GB"] {
        for per_command in [1, 100] {
            for work in record.distinct(size, |row| &row.what) {
                let cell = |kind: &str| record.cell(size, work, Some(per_command), kind, "time");
                let head = [size.to_owned(), per_command.to_string(), work.to_owned()];
                rows.push(head.into_iter().chain(kinds.map(|kind| shown(cell(kind)))).collect());
            }
        }
    }
    table(&[["filter", "items per command", "work"].as_slice(), &kinds].concat(), rows)
}

/// Returns the table of memory and time per item of filters that were not reserved, with filters that were reserved.
fn unreserved_table(record: &Record) -> String {
    let kinds = ["everbloom", RESERVED, "redisbloom format", "valkey-bloom format"];
    let mut rows = Vec::new();
    for size in UNRESERVED {
        for (quantity, unit) in [("memory", "bits per item"), ("time", "ns")] {
            for per_command in [None, Some(1), Some(100)] {
                for work in record.distinct(size.name, |row| &row.what) {
                    let cells = kinds.map(|kind| record.cell(size.name, work, per_command, kind, quantity));
                    if cells.iter().any(Option::is_some) {
                        let by = per_command.map_or(String::new(), |count| format!(" by {count}"));
                        let head = [size.known.to_string(), format!("{work}{by}, {unit}")];
                        rows.push(head.into_iter().chain(cells.map(shown)).collect());
                    }
                }
            }
        }
    }
    table(&[["items", "what"].as_slice(), &kinds].concat(), rows)
}

fn full_table(record: &Record) -> String {
    let rates = record.distinct("full", |row| &row.what);
    let rows = rates.iter().flat_map(|rate| {
        record.distinct("full", |row| &row.kind).into_iter().filter(|kind| *kind != "baseline").map(|kind| {
            let cell = |quantity: &str| record.cell("full", rate, None, kind, quantity);
            let asked = rate.parse().map_or("-".to_owned(), |rate: f64| format!("{} %", rate * 100.0));
            // -log2(p) / ln 2: Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970.
            let classic = rate.parse().map_or(f64::NAN, |rate: f64| -rate.log2() / std::f64::consts::LN_2);
            vec![
                kind.to_owned(),
                asked,
                percent(cell("error rate")),
                shown(cell("memory")),
                format!("{classic:.2}"),
                shown(cell("memory with the allocator's rounding")),
            ]
        })
    });
    let columns = [
        "kind",
        "promised",
        "measured",
        "bits per item",
        "by the classic formula",
        "with the allocator's rounding",
    ];
    table(&columns, rows)
}

fn fact_table(record: &Record) -> String {
    let rows = record
        .part("large filter")
        .chain(record.part("merge"))
        .map(|row| vec![row.what.clone(), row.value.clone()]);
    table(&["what", "measured"], rows)
}

fn substitute_table(record: &Record) -> String {
    let mut rows = Vec::new();
    let full =
        |quantity: &str| record.cell("full", "0.01", None, "everbloom", quantity).and_then(Row::number);
    for (name, per_command) in [("everbloom: BF.ADD, BF.EXISTS", 1), ("everbloom: BF.MADD, BF.MEXISTS", 100)]
    {
        let of = |work: &str| shown(record.cell("1 MB", work, Some(per_command), "everbloom", "time"));
        let bytes = full("memory with the allocator's rounding").map_or(f64::NAN, |bits| bits / 8.0);
        let rate = full("error rate").map_or("-".to_owned(), |rate| format!("{:.2} %", rate * 100.0));
        rows.push(vec![
            name.to_owned(),
            per_command.to_string(),
            of("add, new"),
            of("check, 50 % there"),
            number(bytes),
            rate,
        ]);
    }
    for row in record.part("substitutes").filter(|row| row.quantity == "time to add") {
        let cell = |quantity: &str| record.cell("substitutes", &row.what, row.per_command, "", quantity);
        let rate = cell("error rate").and_then(Row::number);
        rows.push(vec![
            row.what.clone(),
            row.per_command.map_or(String::new(), |count| count.to_string()),
            shown(Some(row)),
            shown(cell("time to check")),
            shown(cell("memory")),
            rate.map_or("-".to_owned(), |rate| format!("{:.2} %", rate * 100.0)),
        ]);
    }
    let columns =
        ["way", "items per command", "add, ns", "check, half there, ns", "bytes per item", "error rate"];
    table(&columns, rows)
}

fn counting_table(elsewhere: &Record) -> String {
    let rows = elsewhere.distinct("counting", |row| &row.what).into_iter().map(|what| {
        let cell = |kind: &str, quantity: &str| elsewhere.cell("counting", what, Some(100), kind, quantity);
        let times =
            (cell("plain", "time").and_then(Row::number), cell("COUNTING", "time").and_then(Row::number));
        let ratio = match times {
            (Some(plain), Some(counting)) => format!("{:.2}", counting / plain),
            _ => "-".to_owned(),
        };
        vec![
            what.to_owned(),
            shown(cell("plain", "time")),
            shown(cell("COUNTING", "time")),
            ratio,
            shown(cell("plain", "instructions")),
            shown(cell("COUNTING", "instructions")),
        ]
    });
    let columns =
        ["command", "plain, ns", "COUNTING, ns", "ratio", "plain, instructions", "COUNTING, instructions"];
    let machine = elsewhere.part(MACHINE).find(|row| row.what == "counting");
    format!("{}.\n\n", machine.map_or("", |row| &row.value)) + &table(&columns, rows)
}

fn instruction_table(record: &Record) -> String {
    let count = |what: &str, quantity: &str| {
        record.cell("instructions", what, None, "", quantity).and_then(Row::number)
    };
    let commands = record.distinct("instructions", |row| &row.what);
    let rows = commands.into_iter().filter(|command| command.starts_with("BF.")).map(|command| {
        let empty = if command.starts_with("BF.ADD") { "NO.ADD" } else { "NO.EXISTS" };
        let mut cells = vec![command.to_owned()];
        for way in ["in a pipeline", "one by one"] {
            let (of, of_empty) = (count(command, way), count(empty, way));
            let share =
                of.zip(of_empty).map_or("-".to_owned(), |(of, of_empty)| format!("{:.2}", of / of_empty));
            cells.extend([of.map_or("-".to_owned(), number), share]);
        }
        cells
    });
    let columns =
        ["command", "in a pipeline", "of an empty command's", "one by one", "of an empty command's"];
    table(&columns, rows)
}

/// Returns the number of aims that are met, and the aims that are not, those of a kind in one row.
fn aim_table(record: &Record) -> String {
    let (mut met, mut unknown) = (0, 0);
    let mut missed: Vec<[String; 4]> = Vec::new();
    for row in record.part("aims") {
        let (Some(value), Some(limit)) = (row.number(), row.at_most) else {
            unknown += 1;
            continue;
        };
        if value <= limit {
            met += 1;
            continue;
        }
        let (group, work) = row.what.split_once(" per command, ").unwrap_or((&row.what, ""));
        let head = [group.to_owned(), String::new(), format!("{limit:.2}"), row.unit.clone()];
        let found = if work.is_empty() { format!("{value:.2}") } else { format!("{work}: {value:.2}") };
        match missed.iter_mut().find(|one| [&one[0], &one[2]] == [&head[0], &head[2]]) {
            Some(one) => one[1] += &format!("; {found}"),
            None => missed.push([head[0].clone(), found, head[2].clone(), head[3].clone()]),
        }
    }
    let unmeasured = if unknown == 0 { String::new() } else { format!(", {unknown} were not measured") };
    let all = record.part("aims").count();
    let rows = missed.into_iter().map(|[group, found, limit, unit]| {
        let per_command = if found.contains(": ") { " per command" } else { "" };
        vec![format!("{group}{per_command}"), found, limit, unit]
    });
    format!("{met} of {all} aims are met{unmeasured}. Missed:\n\n")
        + &table(&["what", "measured", "at most", "unit"], rows)
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_text_between_the_marks_is_replaced() {
        use super::*;
        let text = "a\n<!-- measured: x -->\nold\n<!-- end -->\nb\n<!-- measured: y -->\n<!-- end -->\nc\n";
        let new = replaced(text, "x", "new\n").unwrap();
        assert_eq!(new, text.replace("\nold\n", "\n\nnew\n\n"));
        assert_eq!(replaced(&new, "x", "new").unwrap(), new, "twice is as once");
        assert!(replaced(text, "z", "").is_err());
    }

    #[test]
    fn missed_aims_of_a_kind_share_a_row() {
        use super::*;
        let text = "part,what,per_command,kind,quantity,value,deviation,unit,at_most\n\
                    aims,\"a / b: 1 GB, 1 per command, add\",,,,0.9,,time,0.8\n\
                    aims,\"a / b: 1 GB, 1 per command, check\",,,,0.85,,time,0.8\n\
                    aims,c,,,,1,,ms,1\naims,d,,,,,,ms,1\n";
        let table = aim_table(&Record::parse(text).unwrap());
        assert!(table.starts_with("1 of 4 aims are met, 1 were not measured. Missed:\n"), "{table}");
        assert!(
            table.contains("| a / b: 1 GB, 1 per command | add: 0.90; check: 0.85 | 0.80 | time |"),
            "{table}"
        );
    }
}
