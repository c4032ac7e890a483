//! Collects the values of a run, and writes them as a CSV file and as a table.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::time::Instant;
use std::{fs, process};

use super::Failure;
use super::server::Server;

/// The identification of a measured value.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Case {
    /// The name and version of the module.
    pub(crate) module: String,
    /// The name and version of the server.
    pub(crate) server: String,
    /// The kind of filter.
    pub(crate) filter: &'static str,
    /// Number of items in the filter.
    pub(crate) items: u64,
    /// What was done.
    pub(crate) case: String,
    /// What was measured, with its unit.
    pub(crate) measure: &'static str,
}

impl Case {
    /// Returns a case for a filter with that number of items in a server.
    pub(crate) fn new(
        server: &Server,
        filter: &'static str,
        items: u64,
        case: &str,
        measure: &'static str,
    ) -> Self {
        let (module, server) = (server.module.clone(), server.name.clone());
        Self { module, server, filter, items, case: case.to_owned(), measure }
    }
}

/// The values of a run, one per round for each case.
pub(crate) struct Record {
    machine: String,
    date: String,
    values: Vec<(Case, Vec<f64>)>,
}

impl Record {
    /// Returns an empty record of this machine and day.
    pub(crate) fn new() -> Result<Self, Failure> {
        let cpu = fs::read_to_string("/proc/cpuinfo")?;
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        let model = model.trim_start_matches(['\t', ' ', ':']);
        let memory = fs::read_to_string("/proc/meminfo")?;
        let kib: u64 = memory.split_whitespace().nth(1).unwrap_or_default().parse()?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let kernel = kernel.trim().split('-').next().unwrap_or_default();
        let huge_pages =
            fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        // The kernel writes the chosen value in brackets.
        let huge_pages = huge_pages.split(['[', ']']).nth(1).unwrap_or("unknown");
        let processors = std::thread::available_parallelism()?;
        let machine = format!(
            "{processors} processors {model}; {} GiB; Linux {kernel}; transparent huge pages: {huge_pages}",
            kib >> 20
        );
        let date = process::Command::new("date").args(["--utc", "+%F"]).output()?.stdout;
        let date = String::from_utf8(date)?.trim().to_owned();
        Ok(Self { machine: machine.replace(',', ";"), date, values: Vec::new() })
    }

    /// Adds the value of one round.
    pub(crate) fn push(&mut self, case: Case, value: f64) {
        match self.values.iter_mut().find(|(known, _)| *known == case) {
            Some((_, values)) => values.push(value),
            None => self.values.push((case, vec![value])),
        }
    }

    /// Writes the file: for each case the median of its values and their quartiles.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut text = "machine,date,module,server,filter,items,case,measure,value,lower,upper\n".to_owned();
        for (Case { module, server, filter, items, case, measure }, values) in &self.values {
            let [lower, value, upper] = [0.25, 0.5, 0.75].map(|share| digits(quantile(values, share)));
            // Some names of cases contain a comma.
            writeln!(
                text,
                "{},{},{module},{server},{filter},{items},\"{case}\",{measure},{value},{lower},{upper}",
                self.machine, self.date
            )?;
        }
        path.parent().map(fs::create_dir_all).transpose()?;
        Ok(fs::write(path, text)?)
    }

    /// Returns a table of the medians for each number of items, with a column for each kind of filter of each module.
    pub(crate) fn table(&self) -> String {
        // The other cases are points of curves, which the table leaves out.
        let is_curve =
            |case: &Case| ["growth", "window, hour"].iter().any(|name| case.case.starts_with(name));
        let values: Vec<_> = self.values.iter().filter(|(case, _)| !is_curve(case)).collect();
        let filters = distinct(values.iter().map(|(case, _)| (&case.module, &case.server, case.filter)));
        let mut text = String::new();
        for (column, (module, server, filter)) in filters.iter().enumerate() {
            let _ = writeln!(text, "[{}] {module}, {filter}; {server}", column + 1);
        }
        for items in distinct(values.iter().map(|(case, _)| case.items)) {
            let of_items = || values.iter().filter(|(case, _)| case.items == items);
            let rows = distinct(of_items().map(|(case, _)| (&case.case, case.measure)));
            let _ = write!(text, "\n{:56}", format!("{items} items"));
            for column in 1..=filters.len() {
                let _ = write!(text, "{:>9}", format!("[{column}]"));
            }
            for (name, measure) in rows {
                let _ = write!(text, "\n{:56}", format!("{name}: {measure}"));
                for filter in &filters {
                    let is_here = |case: &Case| {
                        (&case.module, &case.server, case.filter) == *filter
                            && (&case.case, case.measure) == (name, measure)
                    };
                    let found = of_items().find(|(case, _)| is_here(case));
                    let shown = found.map_or("-".to_owned(), |(_, values)| digits(quantile(values, 0.5)));
                    let _ = write!(text, "{shown:>9}");
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Returns the values without repetitions, in the order of their first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    values.for_each(|value| {
        if !found.contains(&value) {
            found.push(value);
        }
    });
    found
}

/// Returns the quantile of the values for this share, interpolated between the two nearest values.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len().saturating_sub(1)) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small index")]
    let [low, high] =
        [place.floor(), place.ceil()].map(|index| sorted.get(index as usize).copied().unwrap_or(f64::NAN));
    low + (high - low) * place.fract()
}

/// Returns a number with four significant digits.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 300")]
    let decimals = (3.0 - value.abs().log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

/// Shows the progress of a part of the run on standard error: in one line on a terminal, otherwise a line per step.
pub(crate) struct Progress {
    part: &'static str,
    steps: usize,
    done: usize,
    started: Instant,
}

impl Progress {
    pub(crate) fn new(part: &'static str, steps: usize) -> Self {
        Self { part, steps, done: 0, started: Instant::now() }
    }

    /// Shows that the next step begins.
    pub(crate) fn step(&mut self, what: &str) {
        let seconds = self.started.elapsed().as_secs();
        self.show(&format!("{} {} of {}, {seconds} s: {what}", self.part, self.done + 1, self.steps));
        self.done += 1;
    }

    /// Shows the end of the part.
    pub(crate) fn end(self) {
        self.show(&format!("{}: {} s\n", self.part, self.started.elapsed().as_secs()));
    }

    fn show(&self, line: &str) {
        let mut out = std::io::stderr();
        // A failure to write is ignored: standard error may be closed.
        let _ = if out.is_terminal() {
            write!(out, "\r\x1b[K{line}")
        } else {
            writeln!(out, "{}", line.trim_end())
        };
    }
}
