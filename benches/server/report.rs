//! Describes the machine of a run, and writes the cells, the pages and the pictures.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::failure::Failure;
use super::page;
use super::pictures;
use super::plan::Plan;
use super::process::Server;
use super::record::Record;
use super::recording;
use super::results::Results;
use super::versus;

/// File of the cells of the last whole run, next to the page.
pub(crate) const CELLS: &str = "performance-cells.csv";
/// BitArray that other programs measured.
const ELSEWHERE: &str = "performance-elsewhere.csv";
/// Runs that measured other modules too.
const PEERS: &str = "performance-peers.csv";
/// The page about performance. Its generated parts are replaced in place.
const PAGE: &str = "performance.md";
/// The decision that lists missed goals. Its generated part is replaced in place too.
const GOALS: &str = "decisions/0010-missed-performance-goals.md";

/// Returns the server, processor, memory, kernel and date in a line.
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
    // Valkey also reports the Redis version with which it is compatible.
    let version = match info.field("valkey_version") {
        Ok(version) => format!("Valkey {version}"),
        Err(_) => format!("Redis {}", info.field("redis_version")?),
    };
    let memory_gib = kib >> 20;
    let kernel = kernel.trim().split('-').next().unwrap_or_default();
    // The kernel writes the chosen value in brackets.
    let huge_pages = huge_pages.split(['[', ']']).nth(1).unwrap_or("unknown");
    let date = Command::new("date").args(["--utc", "+%F"]).output()?.stdout;
    Ok(format!(
        "{version}; {processors} processors {model}; {memory_gib} GiB; Linux {kernel}; \
         transparent huge pages: {huge_pages}; {}",
        String::from_utf8(date)?.trim()
    ))
}

/// Writes the cells of a run, the page and the pictures into `output`. BitArray that a partial run did not measure are
/// taken from `documents`.
pub(crate) fn write(plan: &Plan, results: &Results, documents: &Path, output: &Path) -> Result<(), Failure> {
    let mut record = Record::default();
    if !plan.is_whole {
        record = Record::parse(&fs::read_to_string(documents.join(CELLS))?)?;
    }
    record.overwrite(recording::record(plan, results));
    fs::create_dir_all(output)?;
    fs::write(output.join(CELLS), record.text()?)?;
    render(&record, documents, output)
}

/// Renders the pages and the pictures from the cells in `documents`.
pub(crate) fn render_again(documents: &Path) -> Result<(), Failure> {
    render(&Record::parse(&fs::read_to_string(documents.join(CELLS))?)?, documents, documents)
}

fn render(record: &Record, documents: &Path, output: &Path) -> Result<(), Failure> {
    for folder in ["charts", "decisions"] {
        fs::create_dir_all(output.join(folder))?;
    }
    for (name, text) in rendered(record, documents)? {
        fs::write(output.join(name), text)?;
    }
    Ok(())
}

/// Returns the names and texts of the pages and the pictures.
fn rendered(record: &Record, documents: &Path) -> Result<Vec<(String, String)>, Failure> {
    let read = |name: &str| fs::read_to_string(documents.join(name));
    let elsewhere = Record::parse(&read(ELSEWHERE)?)?;
    let runs = versus::runs(record, &read(PEERS)?)?;
    let mut files = vec![
        (PAGE.to_owned(), page::performance(&read(PAGE)?, record, &elsewhere, &runs)?),
        (GOALS.to_owned(), page::goals(&read(GOALS)?, record)?),
    ];
    for (name, svg) in pictures::all(record, &elsewhere, &runs)? {
        files.push((format!("charts/{name}"), svg));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn pages_and_pictures_agree_with_the_cells() {
        use super::*;
        let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let record = Record::parse(&fs::read_to_string(documents.join(CELLS)).unwrap()).unwrap();
        let files = rendered(&record, &documents).unwrap();
        let [(_, page), _, pictures @ ..] = &files[..] else { panic!("no pages") };
        for (name, text) in &files {
            let committed = fs::read_to_string(documents.join(name)).unwrap_or_default();
            assert!(committed == *text, "docs/{name} does not agree with the cells: run `make charts`");
        }
        let mut present: Vec<String> = fs::read_dir(documents.join("charts"))
            .unwrap()
            .map(|entry| format!("charts/{}", entry.unwrap().file_name().to_string_lossy()))
            .collect();
        present.sort();
        let mut made: Vec<String> = pictures.iter().map(|(name, _)| name.clone()).collect();
        made.sort();
        assert_eq!(present, made, "docs/charts has pictures that the program does not make");
        for (name, svg) in pictures {
            let (before, _) = page.split_once(&format!("]({name})")).expect("the page lacks this picture");
            let (_, alternative) = before.rsplit_once("![").unwrap();
            let words: Vec<&str> = svg.split_whitespace().collect();
            let numbers = alternative.split([' ', ',', '\n']).filter(|word| word.parse::<f64>().is_ok());
            for number in numbers {
                assert!(words.contains(&number), "{name} has no {number}: {alternative}");
            }
        }
    }
}
