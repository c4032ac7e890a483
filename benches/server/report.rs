//! The results as tables and charts, put into docs/performance.md between the marks that stand there for
//! them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::big::Fact;
use super::cells::{Cell, Place, Work, work_on};
use super::chart::{self, Bar, Group, number};
use super::failure::Failure;
use super::instructions::Instructions;
use super::plan::Plan;
use super::process::Server;
use super::pure::Pure;
use super::results::Results;
use super::targets;

/// Processor, memory, kernel and server, in a line.
pub(crate) fn machine(server: &Server) -> Result<String, Failure> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let model = model.trim_start_matches(['\t', ' ', ':']);
    let processors = std::thread::available_parallelism()?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kib: u64 = memory.split_whitespace().nth(1).unwrap_or_default().parse()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let huge_pages = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let info = server.client()?.info("server")?;
    // Valkey also calls itself a Redis of the version that it is compatible with.
    let version = match info.field("valkey_version") {
        Ok(version) => format!("Valkey {version}"),
        Err(_) => format!("Redis {}", info.field("redis_version")?),
    };
    let memory_gb = kib >> 20;
    Ok(format!(
        "{version}; {processors} processors {model}; {memory_gb} GiB; Linux {}; transparent huge pages {}",
        kernel.trim(),
        huge_pages.trim()
    ))
}

/// Writes the document, made from `template`, and its charts into `output`.
pub(crate) fn write(plan: &Plan, results: &Results, template: &Path, output: &Path) -> Result<(), Failure> {
    let mut text = fs::read_to_string(template)?;
    let warning = match (plan.is_quick, plan.is_whole) {
        (true, _) => " **QUICK: all filters but the smallest are 64 times smaller.**",
        (false, false) => " **Only a part was measured.**",
        (false, true) => "",
    };
    let mut sections = vec![
        ("machine", format!("{}. {} rounds.{warning}\n", results.machine, plan.rounds)),
        ("targets", target_table(results)),
        ("full", full_table(results)),
        ("substitutes", substitute_table(results)),
        ("instructions", instruction_table(results)),
        ("large filter", fact_table(&results.facts)),
        ("pure", pure_table(&results.pure)),
    ];
    let mut tables = String::new();
    for size in &plan.sizes {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(tables, "\n### {}\n", title(size.name));
        tables += &cell_table(results, size.name, &work_on(size));
    }
    sections.push(("filters", tables));
    for (name, section) in sections {
        text = replaced(&text, name, &section)?;
    }
    fs::create_dir_all(output.join("charts"))?;
    fs::write(output.join("performance.md"), text)?;
    for (name, svg) in charts(plan, results) {
        fs::write(output.join("charts").join(name), svg)?;
    }
    Ok(())
}

/// What stands between the marks of that name is replaced.
fn replaced(text: &str, name: &str, section: &str) -> Result<String, Failure> {
    let begin = format!("<!-- measured: {name} -->\n");
    let missing = || format!("performance.md lacks the marks of '{name}'");
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once("<!-- end -->").ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{}\n\n<!-- end -->{after}", section.trim()))
}

fn title(size: &str) -> String {
    match size {
        "12 layers" => "A filter that has grown to 12 layers".to_owned(),
        size => format!("{size}, half full"),
    }
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn head(columns: &[String]) -> String {
    row(columns) + &row(&vec!["---".to_owned(); columns.len()])
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn cell<'a>(
    results: &'a Results,
    size: &'static str,
    work: Work,
    per_command: usize,
    series: &str,
) -> Option<&'a Cell> {
    results.cells.get(&Place { size, work, per_command, series: series.to_owned() })
}

fn cell_table(results: &Results, size: &'static str, work: &[(Work, usize)]) -> String {
    let is_measured = |series: &&String| {
        work.iter().any(|(work, per_command)| cell(results, size, *work, *per_command, series).is_some())
    };
    let series: Vec<String> = results.series.iter().filter(is_measured).cloned().collect();
    let mut table = head(&[words(["work", "items per command"]), series.clone()].concat());
    for (work, per_command) in work {
        let mut cells = vec![work.name(), per_command.to_string()];
        cells.extend(series.iter().map(|series| {
            cell(results, size, *work, *per_command, series).map_or("-".to_owned(), |cell| {
                let millions = cell.items_per_second.median() / 1e6;
                let (median, deviation) = (cell.item_ns.median(), cell.item_ns.deviation());
                format!("{} &plusmn;{} ns, {} M/s", number(median), number(deviation), number(millions))
            })
        }));
        table += &row(&cells);
    }
    table
}

fn target_table(results: &Results) -> String {
    let mut table = head(&words(["what", "measured", "at most", "", "unit"]));
    for target in targets::all(results) {
        let measured = target.measured.map_or("-".to_owned(), |value| format!("{value:.3}"));
        let verdict = target.verdict().to_owned();
        table +=
            &row(&[target.what, measured, format!("{:.3}", target.limit), verdict, target.unit.to_owned()]);
    }
    table
}

fn full_table(results: &Results) -> String {
    let mut table = head(&words([
        "filter",
        "error rate asked",
        "measured",
        "bits per item",
        "with the allocator's rounding",
    ]));
    for full in &results.full {
        table += &row(&[
            full.series.clone(),
            full.error_rate.to_string(),
            format!("{:.6}", full.measured_rate),
            format!("{:.2}", full.item_bits),
            format!("{:.2}", full.memory_bits),
        ]);
    }
    table
}

fn substitute_table(results: &Results) -> String {
    let columns =
        ["way", "items per command", "add, ns", "check, half there, ns", "bytes per item", "error rate"];
    let mut table = head(&words(columns));
    let times = |median, deviation| format!("{} &plusmn;{}", number(median), number(deviation));
    let full = results.full.iter().find(|full| full.series == "everbloom" && full.error_rate == 0.01);
    for (name, per_command) in [("everbloom: BF.ADD, BF.EXISTS", 1), ("everbloom: BF.MADD, BF.MEXISTS", 100)]
    {
        let of = |work| {
            cell(results, "1 MB", work, per_command, "everbloom")
                .map_or("-".to_owned(), |cell| times(cell.item_ns.median(), cell.item_ns.deviation()))
        };
        table += &row(&[
            name.to_owned(),
            per_command.to_string(),
            of(Work::Add),
            of(Work::Check { hits_percent: 50 }),
            full.map_or("-".to_owned(), |full| format!("{:.2}", full.memory_bits / 8.0)),
            full.map_or("-".to_owned(), |full| format!("{:.5}", full.measured_rate)),
        ]);
    }
    for substitute in &results.substitutes {
        table += &row(&[
            substitute.name.to_owned(),
            substitute.per_command.to_string(),
            times(substitute.add_ns.median(), substitute.add_ns.deviation()),
            times(substitute.check_ns.median(), substitute.check_ns.deviation()),
            format!("{:.2}", substitute.item_bits / 8.0),
            format!("{:.5}", substitute.measured_rate),
        ]);
    }
    table
}

fn instruction_table(results: &Results) -> String {
    let Some(instructions) = &results.instructions else { return "Not counted in this run.\n".to_owned() };
    let columns =
        ["command", "in a pipeline", "of the empty command's", "one by one", "of the empty command's"];
    let mut table = head(&words(columns));
    for one in instructions {
        let empty = instructions.iter().find(|other| Some(other.name) == one.empty);
        let mut cells = vec![one.name.to_owned()];
        for count in [|one: &Instructions| one.pipelined, |one: &Instructions| one.one_by_one] {
            let share = empty.map_or("1".to_owned(), |empty| format!("{:.2}", count(one) / count(empty)));
            cells.extend([format!("{:.0}", count(one)), share]);
        }
        table += &row(&cells);
    }
    table
}

fn fact_table(facts: &[Fact]) -> String {
    let mut table = head(&words(["what", "measured"]));
    for fact in facts {
        table += &row(&[fact.what.to_owned(), fact.value.clone()]);
    }
    table
}

fn pure_table(pure: &[Pure]) -> String {
    if pure.is_empty() {
        return "Not measured in this run.\n".to_owned();
    }
    let mut table = head(&words(["what", "ns per item"]));
    for one in pure {
        let (median, deviation) = one.item_ns;
        table += &row(&[one.what.clone(), format!("{} &plusmn;{}", number(median), number(deviation))]);
    }
    table
}

/// File names and contents.
fn charts(plan: &Plan, results: &Results) -> Vec<(&'static str, String)> {
    let mut charts = Vec::new();
    let kinds = [
        ("add.svg", Work::Add, "Adding new items"),
        ("check.svg", Work::Check { hits_percent: 0 }, "Checking absent items"),
    ];
    for (name, work, title) in kinds {
        let mut groups = Vec::new();
        for size in &plan.sizes {
            for per_command in [1, 100] {
                let bars = results.series.iter().filter_map(|series| {
                    let item_ns = &cell(results, size.name, work, per_command, series)?.item_ns;
                    let (value, deviation) = (item_ns.median(), item_ns.deviation());
                    Some(Bar { series: series.clone(), value, deviation })
                });
                let label = format!("{}, {per_command} per command", size.name);
                groups.push(Group { label, bars: bars.collect() });
            }
        }
        charts.push((name, chart::bars(title, "server time per item, ns", &groups)));
    }
    let mut groups = Vec::new();
    for (label, per_command) in [("BF.ADD, BF.EXISTS", 1), ("BF.MADD, BF.MEXISTS", 100)] {
        let bar = |series: &str, work| {
            let item_ns = &cell(results, "1 MB", work, per_command, "everbloom")?.item_ns;
            Some(Bar { series: series.to_owned(), value: item_ns.median(), deviation: item_ns.deviation() })
        };
        let bars = [bar("add", Work::Add), bar("check", Work::Check { hits_percent: 50 })];
        groups.push(Group { label: label.to_owned(), bars: bars.into_iter().flatten().collect() });
    }
    for substitute in &results.substitutes {
        let bar = |series: &str, samples: &super::sample::Samples| Bar {
            series: series.to_owned(),
            value: samples.median(),
            deviation: samples.deviation(),
        };
        let bars = vec![bar("add", &substitute.add_ns), bar("check", &substitute.check_ns)];
        groups.push(Group { label: substitute.name.to_owned(), bars });
    }
    charts.push((
        "substitutes.svg",
        chart::bars("With and without a module", "server time per item, ns", &groups),
    ));
    charts
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        use super::*;
        let text = "a\n<!-- measured: x -->\nold\n<!-- end -->\nb\n<!-- measured: y -->\n<!-- end -->\nc\n";
        let new = replaced(text, "x", "new\n").unwrap();
        assert_eq!(new, text.replace("\nold\n", "\n\nnew\n\n"));
        assert_eq!(replaced(&new, "x", "new").unwrap(), new, "twice is as once");
        assert!(replaced(text, "z", "").is_err());
    }
}
