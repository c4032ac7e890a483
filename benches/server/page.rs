//! Makes the tables of docs/performance.md and of the decision about missed goals. A page has marks where a table
//! begins and ends; the new table replaces the text between them.

use super::RESERVED;
use super::cells::{HALF_PRESENT, Work};
use super::failure::Failure;
use super::record::{MACHINE, Record, Row};
use super::recording::GOALS;
use super::series::UNRESERVED;
use super::text::{grouped, shown, table, two_digits};
use super::versus::{self, Run};

/// Returns the page about performance with tables from these cells.
pub(crate) fn performance(
    page: &str,
    record: &Record,
    elsewhere: &Record,
    runs: &[Run],
) -> Result<String, Failure> {
    let sections = [
        ("machine", machines(record)),
        ("peers", versus::table_text(runs)),
        ("filters", kind_table(record)),
        ("unreserved", unreserved_table(record)),
        ("full", full_table(record)),
        ("large filter", fact_table(record)),
        ("substitutes", substitute_table(record)),
        ("counting", counting_table(elsewhere)),
        ("instructions", instruction_table(record)),
    ];
    sections.iter().try_fold(page.to_owned(), |page, (name, section)| replaced(&page, name, section))
}

/// Returns the decision about goals with the goals that these cells miss.
pub(crate) fn goals(page: &str, record: &Record) -> Result<String, Failure> {
    replaced(page, "goals", &goal_table(record))
}

/// Returns the text with this section between the marks of that name.
fn replaced(text: &str, name: &str, section: &str) -> Result<String, Failure> {
    let begin = format!("<!-- measured: {name} -->\n");
    let missing = || format!("a page lacks the marks of '{name}'");
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once("<!-- end -->").ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{}\n\n<!-- end -->{after}", section.trim()))
}

fn percent(row: Option<&Row>) -> String {
    row.and_then(Row::number).map_or("-".to_owned(), |value| format!("{} %", two_digits(value * 100.0)))
}

/// Returns the machines on which the parts were measured: one line for all parts with the same machine.
fn machines(record: &Record) -> String {
    let mut lines = String::new();
    let machines = record.distinct(MACHINE, |row| &row.value);
    for machine in &machines {
        let parts: Vec<&str> =
            record.part(MACHINE).filter(|row| row.value == *machine).map(|row| row.what.as_str()).collect();
        let parts = if machines.len() == 1 { String::new() } else { format!(" ({})", parts.join("; ")) };
        lines += &format!("* {machine}{parts}.\n");
    }
    lines
}

/// Returns the table of the time per item for each kind of filter, small and large.
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

/// Returns the table of memory and time per item of unreserved filters and of reserved ones.
fn unreserved_table(record: &Record) -> String {
    let kinds = ["everbloom", RESERVED, "redisbloom format", "valkey-bloom format"];
    let mut rows = Vec::new();
    for size in UNRESERVED {
        for (quantity, unit) in [("memory", "bits per item"), ("time", "ns")] {
            for per_command in [None, Some(1), Some(100)] {
                for work in record.distinct(size.name, |row| &row.what) {
                    let cells = kinds.map(|kind| record.cell(size.name, work, per_command, kind, quantity));
                    if cells.iter().any(Option::is_some) {
                        let batch =
                            per_command.map_or(String::new(), |count| format!(", {count} per command"));
                        let head = [grouped(size.known as f64), format!("{work}{batch}, {unit}")];
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
    let full = |quantity: &str| record.cell("full", "0.01", None, "everbloom", quantity);
    for (name, per_command) in [("everbloom: BF.ADD, BF.EXISTS", 1), ("everbloom: BF.MADD, BF.MEXISTS", 100)]
    {
        let of = |work: &str| shown(record.cell("1 MB", work, Some(per_command), "everbloom", "time"));
        let bits = full("memory with the allocator's rounding").and_then(Row::number);
        rows.push(vec![
            name.to_owned(),
            per_command.to_string(),
            of(Work::Add.name()),
            of(HALF_PRESENT.name()),
            bits.map_or("-".to_owned(), |bits| two_digits(bits / 8.0)),
            percent(full("error rate")),
        ]);
    }
    for row in record.part("substitutes").filter(|row| row.quantity == "time to add") {
        let cell = |quantity: &str| record.cell("substitutes", &row.what, row.per_command, "", quantity);
        rows.push(vec![
            row.what.clone(),
            row.per_command.map_or(String::new(), |count| count.to_string()),
            shown(Some(row)),
            shown(cell("time to look up")),
            cell("memory").and_then(Row::number).map_or("-".to_owned(), two_digits),
            percent(cell("error rate")),
        ]);
    }
    let columns =
        ["way", "items per command", "add, ns", "lookup, half present, ns", "bytes per item", "error rate"];
    table(&columns, rows)
}

fn counting_table(elsewhere: &Record) -> String {
    let rows = elsewhere.distinct("counting", |row| &row.what).into_iter().map(|what| {
        let cell = |kind: &str, quantity: &str| elsewhere.cell("counting", what, Some(100), kind, quantity);
        let times =
            (cell("plain", "time").and_then(Row::number), cell("COUNTING", "time").and_then(Row::number));
        let ratio = match times {
            (Some(plain), Some(counting)) => two_digits(counting / plain),
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
    format!("Measured on {}.\n\n", machine.map_or("", |row| &row.value)) + &table(&columns, rows)
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
            let share = of.zip(of_empty).map_or("-".to_owned(), |(of, of_empty)| two_digits(of / of_empty));
            cells.extend([of.map_or("-".to_owned(), two_digits), share]);
        }
        cells
    });
    let columns =
        ["command", "in a pipeline", "ratio to an empty command", "one by one", "ratio to an empty command"];
    table(&columns, rows)
}

/// Returns the number of goals that are met and a table of the missed ones, with similar goals in one row.
fn goal_table(record: &Record) -> String {
    let (mut met, mut unknown) = (0, 0);
    let mut missed: Vec<[String; 4]> = Vec::new();
    for row in record.part(GOALS) {
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
    let all = record.part(GOALS).count();
    let rows = missed.into_iter().map(|[group, found, limit, unit]| {
        let per_command = if found.contains(": ") { " per command" } else { "" };
        vec![format!("{group}{per_command}"), found, limit, unit]
    });
    format!("{met} of {all} goals are met{unmeasured}. The missed ones:\n\n")
        + &table(&["what", "measured", "goal: at most", "unit"], rows)
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        use super::*;
        let text = "a\n<!-- measured: x -->\nold\n<!-- end -->\nb\n<!-- measured: y -->\n<!-- end -->\nc\n";
        let new = replaced(text, "x", "new\n").unwrap();
        assert_eq!(new, text.replace("\nold\n", "\n\nnew\n\n"));
        assert_eq!(replaced(&new, "x", "new").unwrap(), new, "replacing it again changes nothing");
        assert!(replaced(text, "z", "").is_err());
    }

    #[test]
    fn similar_missed_goals_are_in_one_row() {
        use super::*;
        let text = "part,what,per_command,kind,quantity,value,deviation,unit,at_most\n\
                    goals,\"a / b: 1 GB, 1 per command, add\",,,,0.9,,time,0.8\n\
                    goals,\"a / b: 1 GB, 1 per command, lookup\",,,,0.85,,time,0.8\n\
                    goals,c,,,,1,,ms,1\ngoals,d,,,,,,ms,1\n";
        let table = goal_table(&Record::parse(text).unwrap());
        assert!(
            table.starts_with("1 of 4 goals are met, 1 were not measured. The missed ones:\n"),
            "{table}"
        );
        assert!(
            table.contains("| a / b: 1 GB, 1 per command | add: 0.90; lookup: 0.85 | 0.80 | time |"),
            "{table}"
        );
    }
}
