//! Compares our filters with those of other modules: measured in this run, or else elsewhere.

use super::bars::{Bar, Group};
use super::record::{Record, Row};
use super::recording::PEERS;
use super::series::UNRESERVED;
use super::text::{shown, table};

/// Sizes and items per command, the most important first.
const WORK: [(&str, usize); 6] = [
    ("1 GB", 100),
    ("1 GB", 1),
    ("1 MB", 100),
    ("1 MB", 1),
    (UNRESERVED[2].name, 100),
    (UNRESERVED[2].name, 1),
];
const OWN: &str = "everbloom";

/// Returns the cells with measurements of peers, and the peers.
fn source<'a>(record: &'a Record, elsewhere: &'a Record) -> (&'a Record, Vec<&'a str>) {
    let of = |record: &'a Record| record.distinct(PEERS, |row| &row.what);
    if of(record).is_empty() { (elsewhere, of(elsewhere)) } else { (record, of(record)) }
}

/// Returns the text about the peers, and a table of each kind of work with the peers' time as a multiple of ours.
pub(crate) fn table_text(record: &Record, elsewhere: &Record) -> String {
    let (cells, peers) = source(record, elsewhere);
    let mut text = String::new();
    for row in cells.part(PEERS) {
        text += &format!("* {}: {}.\n", row.what, row.value);
    }
    let mut columns = vec!["filter".to_owned(), "items per command".to_owned(), "work".to_owned()];
    columns.push(format!("{OWN}, ns"));
    for peer in &peers {
        columns.extend([format!("{peer}, ns"), "ratio".to_owned()]);
    }
    let mut rows = Vec::new();
    for (size, per_command) in WORK {
        for work in works(cells, &peers, size, per_command) {
            let cell = |kind: &str| cells.cell(size, work, Some(per_command), kind, "time");
            let mut row = vec![size.to_owned(), per_command.to_string(), work.to_owned(), shown(cell(OWN))];
            for peer in &peers {
                let times = (cell(OWN).and_then(Row::number), cell(peer).and_then(Row::number));
                let ratio = match times {
                    (Some(own), Some(peer)) => format!("{:.1}", peer / own),
                    _ => "-".to_owned(),
                };
                row.extend([shown(cell(peer)), ratio]);
            }
            rows.push(row);
        }
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    text + "\n" + &table(&columns, rows)
}

/// Returns bars of the kinds of work whose names start with `verb`.
pub(crate) fn groups(record: &Record, elsewhere: &Record, verb: &str) -> Vec<Group> {
    let (cells, peers) = source(record, elsewhere);
    let mut groups = Vec::new();
    for (size, per_command) in WORK {
        for work in works(cells, &peers, size, per_command).into_iter().filter(|work| work.starts_with(verb))
        {
            let bars = [OWN].iter().chain(&peers).filter_map(|kind| {
                let row = cells.cell(size, work, Some(per_command), kind, "time")?;
                Some(Bar { series: (*kind).to_owned(), value: row.number()?, deviation: row.deviation })
            });
            let detail = work.split_once(", ").map_or(String::new(), |(_, detail)| format!(", {detail}"));
            groups.push(Group { label: format!("{size}, by {per_command}{detail}"), bars: bars.collect() });
        }
    }
    groups
}

/// Returns the kinds of work that were measured with `per_command` items per command, for our filters and a peer's.
fn works<'a>(cells: &'a Record, peers: &[&str], size: &str, per_command: usize) -> Vec<&'a str> {
    let is_there = |work: &str, kind: &str| cells.cell(size, work, Some(per_command), kind, "time").is_some();
    let works = cells.distinct(size, |row| &row.what).into_iter();
    works.filter(|work| is_there(work, OWN) && peers.iter().any(|peer| is_there(work, peer))).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn peers_of_this_run_come_first() {
        use super::*;
        let head = "part,what,per_command,kind,quantity,value,deviation,unit,at_most\n";
        let own = "1 GB,\"add, new\",100,everbloom,time,50,,ns,\n";
        let of = |peer: &str, time: u32| {
            let text = format!(
                "{head}peers,{peer},,,module,its file,,,\n{own}1 GB,\"add, new\",100,{peer},time,{time},,ns,\n"
            );
            Record::parse(&text).unwrap()
        };
        let (here, there) = (of("here", 100), of("there", 200));
        let without = Record::parse(&format!("{head}{own}")).unwrap();
        assert!(table_text(&here, &there).contains("| 1 GB | 100 | add, new | 50.0 | 100 | 2.0 |"));
        let elsewhere = table_text(&without, &there);
        assert!(
            elsewhere.contains("* there: its file.\n") && elsewhere.contains("| 50.0 | 200 | 4.0 |"),
            "{elsewhere}"
        );
        let bars = |record: &Record| groups(record, &there, "add").remove(0).bars.remove(1);
        assert_eq!((bars(&here).value, bars(&without).value), (100.0, 200.0));
        assert!(groups(&here, &there, "check").is_empty());
        let mut more = here.clone();
        more.overwrite(Record::parse(&format!("{head}1 MB,\"add, new\",1,everbloom,time,5,,ns,\n")).unwrap());
        assert_eq!(table_text(&more, &there), table_text(&here, &there), "work that no peer did");
    }
}
