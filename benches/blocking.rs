//! Measures how long commands on whole filters block the server. The filters are full.

use redis::Pipeline;

use super::filters::{Filter, pipelines};
use super::record::{Case, Progress, Record};
use super::server::Server;
use super::{Failure, Plan};

/// The items of each filter.
const ITEMS: u64 = 1_000_000;

pub(crate) fn measure(
    plan: &Plan,
    servers: &mut [Server],
    filters: &[Filter],
    record: &mut Record,
) -> Result<(), Failure> {
    let items = if plan.is_quick { 20_000 } else { ITEMS };
    let own = || filters.iter().filter(|filter| filter.is_own());
    let mut progress = Progress::new("blocking", plan.rounds * own().count());
    for _ in 0..plan.rounds {
        for filter in own() {
            let server = servers.get_mut(filter.server).ok_or("no server")?;
            progress.step(filter.name);
            measure_filter(server, filter, items, record)?;
        }
    }
    progress.end();
    Ok(())
}

fn measure_filter(
    server: &mut Server,
    filter: &Filter,
    items: u64,
    record: &mut Record,
) -> Result<(), Failure> {
    server.say("FLUSHALL")?;
    server.say("CONFIG SET rdbcompression yes")?;
    filter.make(server, "k", items)?;
    for commands in pipelines("BF.MADD", |_| "k".to_owned(), 1000, 0..items) {
        server.send(&commands)?;
    }
    let case = |server: &Server, name: &str, measure| {
        Case::new(server, filter.name, items, &format!("blocking, {name}"), measure)
    };
    let bytes = server.size_bytes("k")?;
    record.push(case(server, "size", "bytes"), bytes);
    for compression in ["yes", "no"] {
        server.say(&format!("CONFIG SET rdbcompression {compression}"))?;
        let ms = blocked_ms(server, "save", &words(&["SAVE"]))?;
        record.push(case(server, &format!("SAVE, rdbcompression {compression}"), "ms"), ms);
        let ms = blocked_ms(server, "dump", &words(&["DUMP", "k"]))?;
        record.push(case(server, &format!("DUMP, rdbcompression {compression}"), "ms"), ms);
    }
    let payload: Vec<u8> = server.query("DUMP k")?;
    let mut restore = Pipeline::new();
    restore.cmd("RESTORE").arg("restored").arg(0).arg(payload);
    let mut commands = vec![("RESTORE", restore), ("COPY", words(&["COPY", "k", "copied"]))];
    if filter.can_merge() {
        commands.push(("BF.MERGE into a new filter", words(&["BF.MERGE", "merged", "k", "FORCE"])));
        commands.push(("BF.MERGE of equal filters", words(&["BF.MERGE", "copied", "k", "FORCE"])));
    }
    commands.push(("BF.CLEAR", words(&["BF.CLEAR", "restored"])));
    commands.push(("DEL", words(&["DEL", "copied"])));
    for (name, command) in commands {
        let stat = name.split(' ').next().unwrap_or_default();
        let ms = blocked_ms(server, stat, &command)?;
        record.push(case(server, name, "ms"), ms);
    }
    Ok(())
}

fn words(words: &[&str]) -> Pipeline {
    let mut pipeline = Pipeline::new();
    let mut words = words.iter();
    pipeline.cmd(words.next().copied().unwrap_or_default()).arg(words.copied().collect::<Vec<_>>());
    pipeline
}

/// Returns the milliseconds for which a command blocks the server.
fn blocked_ms(server: &mut Server, stat: &str, command: &Pipeline) -> Result<f64, Failure> {
    server.say("CONFIG RESETSTAT")?;
    server.send(command)?;
    Ok(server.stat("commandstats", &format!("cmdstat_{stat}"), "usec")? / 1000.0)
}
