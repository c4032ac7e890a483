//! Describes where a run was made, and writes its cells and what is made from them.

use std::fs;
use std::path::Path;

use super::failure::Failure;
use super::page;
use super::plan::Plan;
use super::process::Server;
use super::record::Record;
use super::recording;
use super::results::Results;

/// File of the cells of the last whole run, next to the page.
pub(crate) const CELLS: &str = "performance-cells.csv";
/// File of the cells that this program does not measure, with their origin.
const ELSEWHERE: &str = "performance-elsewhere.csv";
/// The page, which is its own template.
const PAGE: &str = "performance.md";

/// Returns processor, memory, kernel and server in one line.
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
    let memory_gb = kib >> 20;
    Ok(format!(
        "{version}; {processors} processors {model}; {memory_gb} GiB; Linux {}; transparent huge pages {}",
        kernel.trim(),
        huge_pages.trim()
    ))
}

/// Writes the cells of a run, the page and the pictures into `output`. Cells that a partial run did not measure are
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

/// Writes the page and the pictures again from the cells in `documents`.
pub(crate) fn render_again(documents: &Path) -> Result<(), Failure> {
    render(&Record::parse(&fs::read_to_string(documents.join(CELLS))?)?, documents, documents)
}

fn render(record: &Record, documents: &Path, output: &Path) -> Result<(), Failure> {
    fs::create_dir_all(output.join("charts"))?;
    for (name, text) in rendered(record, documents)? {
        fs::write(output.join(name), text)?;
    }
    Ok(())
}

/// Returns names and texts of the page and the pictures.
fn rendered(record: &Record, documents: &Path) -> Result<Vec<(String, String)>, Failure> {
    let elsewhere = Record::parse(&fs::read_to_string(documents.join(ELSEWHERE))?)?;
    let page = page::written(&fs::read_to_string(documents.join(PAGE))?, record, &elsewhere)?;
    let mut files = vec![(PAGE.to_owned(), page)];
    for (name, svg) in super::pictures::all(record, &elsewhere)? {
        files.push((format!("charts/{name}"), svg));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn page_and_pictures_match_the_cells() {
        use super::*;
        let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let record = Record::parse(&fs::read_to_string(documents.join(CELLS)).unwrap()).unwrap();
        let files = rendered(&record, &documents).unwrap();
        let [(_, page), pictures @ ..] = &files[..] else { panic!("no page") };
        for (name, text) in &files {
            let committed = fs::read_to_string(documents.join(name)).unwrap_or_default();
            assert!(committed == *text, "docs/{name} is another one than its cells make: `make charts`");
        }
        let mut there: Vec<String> = fs::read_dir(documents.join("charts"))
            .unwrap()
            .map(|entry| format!("charts/{}", entry.unwrap().file_name().to_string_lossy()))
            .collect();
        there.sort();
        let mut made: Vec<String> = pictures.iter().map(|(name, _)| name.clone()).collect();
        made.sort();
        assert_eq!(there, made, "pictures that nothing makes");
        assert!(made.iter().all(|name| page.contains(&format!("({name})"))), "a picture that the page lacks");
    }
}
