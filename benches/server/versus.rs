//! Compares everbloom's filters with those of other modules, one run at a time.

use super::bars::{Bar, Group};
use super::failure::Failure;
use super::record::{MACHINE, Record, Row};
use super::recording::PEERS;
use super::text::{shown, table, two_digits};

/// Pairs of filter size and items per command that the table compares.
const PLACES: [(&str, usize); 4] = [("1 MB", 100), ("1 GB", 100), ("1 MB", 1), ("1 GB", 1)];
/// Sizes that the pictures compare, in batches of [`BATCH`].
const SIZES: [&str; 2] = ["1 MB", "1 GB"];
const BATCH: usize = 100;
const OWN: &str = "everbloom";

/// A run that measured everbloom and other modules.
pub(crate) struct Run {
    /// The server, the machine and the date.
    machine: String,
    /// `everbloom`, with its release if this is not the current one.
    own: String,
    peers: Vec<String>,
    cells: Record,
}

/// A row of docs/performance-peers.csv.
#[derive(serde::Deserialize)]
struct Measured {
    run: String,
    machine: String,
    server: String,
    filter: String,
    work: String,
    items_per_command: Option<usize>,
    module: String,
    quantity: String,
    value: String,
    deviation: Option<f64>,
    unit: String,
}

/// Returns the run of `record` if it measured other modules. Otherwise returns the runs of `peers`, the text of
/// docs/performance-peers.csv.
pub(crate) fn runs(record: &Record, peers: &str) -> Result<Vec<Run>, Failure> {
    let measured: Vec<String> = record.part(PEERS).map(|row| row.what.clone()).collect();
    if !measured.is_empty() {
        let machine = record.part(MACHINE).next().map_or(String::new(), |row| row.value.clone());
        return Ok(vec![Run { machine, own: OWN.to_owned(), peers: measured, cells: record.clone() }]);
    }
    let mut runs: Vec<(String, Run)> = Vec::new();
    for row in csv::Reader::from_reader(peers.as_bytes()).deserialize() {
        let row: Measured = row?;
        // Skips other quantities, which are ranges over several machines.
        if row.quantity != "time" {
            continue;
        }
        if runs.last().is_none_or(|(name, _)| *name != row.run) {
            let machine = format!("{}, {}", row.server, row.machine);
            let run = Run { machine, own: OWN.to_owned(), peers: Vec::new(), cells: Record::default() };
            runs.push((row.run, run));
        }
        let Some((_, run)) = runs.last_mut() else { continue };
        if row.module.starts_with(OWN) {
            run.own.clone_from(&row.module);
        } else if !run.peers.contains(&row.module) {
            run.peers.push(row.module.clone());
        }
        run.cells.push(Row {
            part: row.filter,
            what: row.work,
            per_command: row.items_per_command,
            kind: row.module,
            quantity: row.quantity,
            value: row.value,
            deviation: row.deviation,
            unit: row.unit,
            at_most: None,
        });
    }
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

impl Run {
    fn time(&self, size: &str, per_command: usize, work: &str, kind: &str) -> Option<&Row> {
        self.cells.cell(size, work, Some(per_command), kind, "time")
    }

    /// Returns the time of a peer as a multiple of everbloom's.
    fn ratio(&self, size: &str, per_command: usize, work: &str, peer: &str) -> Option<f64> {
        let [own, peer] = [&self.own, peer].map(|kind| self.time(size, per_command, work, kind));
        Some(peer?.number()? / own?.number()?)
    }

    /// Returns what was measured, where and when.
    fn source(&self) -> String {
        format!("{} beside {}: {}.", self.peers.join(", "), self.own, self.machine)
    }
}

/// Returns a line for each run: what was measured, where and when.
pub(crate) fn sources(runs: &[Run]) -> String {
    runs.iter().map(Run::source).collect::<Vec<_>>().join("\n")
}

/// Returns each kind of work with the time of everbloom and of the peers in each run.
pub(crate) fn table_text(runs: &[Run]) -> String {
    let mut columns = vec!["filter".to_owned(), "items per command".to_owned(), "work".to_owned()];
    for run in runs {
        columns.push(format!("{OWN}, ns"));
        columns.extend(run.peers.iter().flat_map(|peer| [format!("{peer}, ns"), "ratio".to_owned()]));
    }
    let mut rows = Vec::new();
    for (size, per_command) in PLACES {
        for work in runs.first().map_or(Vec::new(), |run| run.cells.distinct(size, |row| &row.what)) {
            let mut row = vec![size.to_owned(), per_command.to_string(), work.to_owned()];
            for run in runs {
                row.push(shown(run.time(size, per_command, work, &run.own)));
                for peer in &run.peers {
                    let ratio = run.ratio(size, per_command, work, peer);
                    row.extend([
                        shown(run.time(size, per_command, work, peer)),
                        ratio.map_or("-".to_owned(), two_digits),
                    ]);
                }
            }
            rows.push(row);
        }
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let list: String = runs.iter().map(|run| format!("* {}\n", run.source())).collect();
    format!("{list}\n{}", table(&columns, rows))
}

/// Returns bars of the time in batches as a multiple of everbloom's in the same run.
pub(crate) fn groups(runs: &[Run], work: &str) -> Vec<Group> {
    let group = |size: &str| {
        let own = Bar { name: OWN.to_owned(), value: 1.0, is_own: true };
        let peers = runs.iter().flat_map(|run| {
            run.peers.iter().filter_map(|peer| {
                let value = run.ratio(size, BATCH, work, peer)?;
                Some(Bar { name: peer.clone(), value, is_own: false })
            })
        });
        Group { heading: format!("filter of {size}"), bars: std::iter::once(own).chain(peers).collect() }
    };
    SIZES.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn peers_of_this_run_stand_before_those_of_other_runs() {
        use super::*;
        let head = "part,what,per_command,kind,quantity,value,deviation,unit,at_most\n";
        let own = "1 GB,\"add, new items\",100,everbloom,time,50,,ns,\n";
        let here = "peers,here,,,module,its file,,,\n\
                    1 GB,\"add, new items\",100,here,time,100,,ns,\n";
        let here = Record::parse(&format!("{head}{own}{here}")).unwrap();
        let without = Record::parse(&format!("{head}{own}")).unwrap();
        let peers = "run,machine,server,filter,work,items_per_command,module,quantity,value,deviation,unit\n\
                     A,machine,Redis,1 GB,\"add, new items\",100,everbloom 1,time,40,1,ns\n\
                     A,machine,Redis,1 GB,\"add, new items\",100,first,time,100,1,ns\n\
                     B,machine,Valkey,1 GB,\"add, new items\",100,everbloom 1,time,50,1,ns\n\
                     B,machine,Valkey,1 GB,\"add, new items\",100,second,time,200,1,ns\n\
                     C,machine,Redis,unreserved,bits per item,,everbloom 1,range,1-2,,bits\n";
        let elsewhere = runs(&without, peers).unwrap();
        let text = table_text(&elsewhere);
        assert!(text.contains("| 1 GB | 100 | add, new items | 40 | 100 | 2.5 | 50 | 200 | 4.0 |"), "{text}");
        assert!(text.starts_with("* first beside everbloom 1: Redis, machine.\n* second"), "{text}");
        let values = |runs: &[Run]| -> Vec<f64> {
            groups(runs, "add, new items").remove(1).bars.iter().map(|bar| bar.value).collect()
        };
        assert_eq!(values(&elsewhere), [1.0, 2.5, 4.0]);
        assert_eq!(values(&runs(&here, peers).unwrap()), [1.0, 2.0]);
    }
}
