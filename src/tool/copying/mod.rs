//! `everbloom copy`: copies all filters of one server to another, and compares the copies.

mod one;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::value_parser;
use redis::from_redis_value;
use serde_json::json;

use super::chunks::{fetch, fields};
use super::draft::ReplaceArguments;
use super::failure::{Failure, FailureKind, check_interruption};
use super::input::open;
use super::output::{Printer, bytes, counted, shown};
use super::packing::{ItemBatch, remove_cr};
use super::server::{
    CallError, Connection, ConnectionArguments, DatabaseArguments, Family, Router, Site, other_databases,
    scan,
};
use one::{Copied, Copier, Way};

/// Time between two updates of the progress.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// Items of one lookup in a comparison.
const LOOKUP_ITEMS: usize = 1000;
/// The largest number of bytes of --members that are compared.
const MEMBERS_MAX_BYTES: u64 = 64 << 20;

/// Copy all filters of one server to another
///
/// Copies between all versions of servers and modules. Uses DUMP and RESTORE if the target understands them, otherwise
/// chunks. RedisBloom's cuckoo filters are copied too, by DUMP and RESTORE. Keeps times to live. A filter appears under
/// its key when it is complete; --resume continues an interrupted copy. Items that are added during the copy may be
/// missing on the target.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct CopyArguments {
    /// Server to copy from: redis://[user[:password]@]host[:port][/db], rediss://..., unix://path or host:port
    #[arg(value_name = "FROM")]
    from: String,
    /// Server to copy to
    #[arg(value_name = "TO")]
    to: String,
    /// Only keys that match this pattern, as in SCAN
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// Skip keys that exist on the target: continue an interrupted copy
    #[arg(long, conflicts_with = "replace")]
    resume: bool,
    #[command(flatten)]
    replacing: ReplaceArguments,
    /// Succeed if there is no filter to copy. Without it, this is an error
    #[arg(long)]
    allow_empty: bool,
    /// Fetch each filter from both servers after the copy and compare them bit for bit
    #[arg(long)]
    verify: bool,
    /// With --verify: also compare the results of lookups for the items of this file, one per line
    #[arg(long, value_name = "FILE", requires = "verify")]
    members: Option<PathBuf>,
    /// Number of filters that are copied at the same time
    #[arg(long, short, value_name = "NUMBER", default_value_t = 4, value_parser = value_parser!(u16).range(1..=64))]
    jobs: u16,
    #[command(flatten)]
    databases: DatabaseArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

const EXAMPLE: &str = "\
Example:
  everbloom copy redis://old.example:6379 redis://new.example:6379 --match 'seen:*' --verify

The user and the password of FROM can be in EVERBLOOM_USERNAME and EVERBLOOM_PASSWORD, those of TO in
EVERBLOOM_TO_USERNAME and EVERBLOOM_TO_PASSWORD. -c is for both servers; one that is not in a cluster ignores it.
Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 some filters were not copied, or differ; 130 interrupted.";

impl CopyArguments {
    /// Returns the error for a source without a filter to copy. A copy that a job repeats would otherwise succeed after
    /// a failed load, or with a mistyped pattern.
    fn nothing_found(&self, from: &Site) -> Failure {
        match &self.pattern {
            Some(pattern) => Failure::new(format!(
                "no filter of {from} matches {pattern}: check the pattern, or give --allow-empty"
            )),
            None => Failure::new(format!(
                "{from} has no filters: check the address and its database, or give --allow-empty"
            )),
        }
    }
}

/// The results of one filter.
struct CopyResult<'k> {
    database: i64,
    key: &'k [u8],
    copied: Result<Copied, Failure>,
    /// Whether the copy was compared with the original. An error says what differs.
    verified: Result<bool, Failure>,
}

pub(crate) fn run(arguments: CopyArguments, printer: &Printer) -> Result<(), Failure> {
    let from = Site::new(&arguments.from, &arguments.connection, "EVERBLOOM")?;
    let to = Site::new(&arguments.to, &arguments.connection, "EVERBLOOM_TO")?;
    let members = arguments.members.as_deref().map(members).transpose()?;
    arguments.databases.check(&[&from, &to])?;
    // The target is checked before the keys of the source are scanned, which takes longer.
    Router::to_all_keys(&to, "BF.INFO")?;
    let (chosen, others) = arguments.databases.choose(&mut Router::to_all_keys(&from, "BF.INFO")?)?;
    let in_database = |database: i64| {
        let is_one_of_all = arguments.databases.all_databases;
        let site = |site: &Site| if is_one_of_all { site.with_database(database) } else { site.clone() };
        (site(&from), site(&to))
    };
    for database in &chosen {
        Router::to_all_keys(&in_database(*database).1, "BF.INFO")?;
    }
    printer.note("looking for filters");
    let mut found = BTreeMap::new();
    for database in chosen {
        let mut router = Router::new(&in_database(database).0)?;
        found.insert(database, scan(&mut router, arguments.pattern.as_deref())?);
    }
    let count = found.values().map(|found| found.filters.len()).sum::<usize>();
    if count == 0 && !arguments.allow_empty {
        let failure = arguments.nothing_found(&from);
        let others = other_databases(&others);
        return Err(if others.is_empty() { failure } else { failure.with(others.trim_end()) });
    }
    let kept = found.values().map(|found| found.only_kept.len() as u64).sum();
    if kept > 0 {
        let kept = counted(kept, "key");
        printer.note(&format!("{kept} of RedisBloom's other types not copied: use DUMP and RESTORE"));
    }
    let progress = printer.progress("copying", Some(count as u64));
    let keys = found.iter().flat_map(|(database, found)| {
        found.filters.iter().map(|(key, (family, _))| (*database, &key[..], *family))
    });
    let keys = Mutex::new(keys);
    let next = || keys.lock().unwrap_or_else(PoisonError::into_inner).next();
    let copier_of = |database| -> Result<Copier, Failure> {
        let (from, to) = in_database(database);
        let (from, to) = (Router::new(&from)?, Router::new(&to)?);
        Ok(Copier { from, to, resumes: arguments.resume, replacing: arguments.replacing })
    };
    let work = |results: Sender<_>| -> Result<(), Failure> {
        let mut current: Option<(i64, Copier)> = None;
        while let Some((database, key, family)) = next() {
            let copier = match current.take() {
                Some((of, copier)) if of == database => copier,
                _ => copier_of(database)?,
            };
            let (_, copier) = current.insert((database, copier));
            let copied = copier.copy(key, family);
            if let Err(Failure { kind: FailureKind::Interrupted, .. }) = &copied {
                return copied.map(drop);
            }
            let exists = matches!(copied, Ok(Copied { way: Way::Dump | Way::Chunks | Way::Present, .. }));
            let verified = if arguments.verify && exists {
                verify(copier, key, family, members.as_ref())
            } else {
                Ok(false)
            };
            // Sending fails only if the receiver was dropped.
            let _ = results.send(CopyResult { database, key, copied, verified });
        }
        Ok(())
    };
    let (sender, results) = channel();
    let mut outcomes = Vec::with_capacity(count);
    let ended: Vec<Result<(), Failure>> = thread::scope(|scope| {
        let work = &work;
        let senders = vec![sender; arguments.jobs.into()];
        let jobs: Vec<_> = senders.into_iter().map(|sender| scope.spawn(move || work(sender))).collect();
        let (filters, mut sent_bytes) = (counted(count as u64, "filter"), 0);
        loop {
            match results.recv_timeout(SHOW_EVERY) {
                Ok(outcome) => {
                    sent_bytes += outcome.copied.as_ref().map_or(0, |copied| copied.bytes);
                    outcomes.push(outcome);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let done = outcomes.len() as u64;
            progress.set(done, format!("{done} of {filters}, {}", bytes(sent_bytes)));
        }
        let panicked = |_| Err(Failure::of_panic());
        jobs.into_iter().map(|job| job.join().unwrap_or_else(panicked)).collect()
    });
    let seconds = progress.finish();
    outcomes.sort_by_key(|outcome| (outcome.database, outcome.key));
    // Prints an error once, even if all jobs return it.
    let ended = ended.into_iter().collect::<Result<Vec<()>, Failure>>().and_then(|_| check_interruption());
    let totals = CopyTotals { filters: count, seconds, others };
    report(&outcomes, &totals, ended, &arguments, printer)
}

/// What a copy has looked at.
struct CopyTotals {
    filters: usize,
    seconds: f64,
    /// The databases with keys that were not looked at, with the numbers of their keys.
    others: BTreeMap<i64, u64>,
}

/// Prints the results. Prints only the failures if `ended` has the error that ended the whole copy early.
fn report(
    outcomes: &[CopyResult<'_>],
    totals: &CopyTotals,
    ended: Result<(), Failure>,
    arguments: &CopyArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let CopyTotals { filters, seconds, others } = totals;
    let (mut failures, mut listed) = (0, Vec::new());
    for CopyResult { database, key, copied, verified } in outcomes {
        for failure in copied.as_ref().err().into_iter().chain(verified.as_ref().err()) {
            let place = if arguments.databases.all_databases {
                format!("database {database}, ")
            } else {
                String::new()
            };
            printer.cause(&format!("{place}{}: {failure}", shown(key)));
            listed.push(json!({"database": database, "key": shown(key), "error": failure.to_string()}));
            failures += 1;
        }
    }
    ended?;
    let copied = || outcomes.iter().filter_map(|outcome| outcome.copied.as_ref().ok());
    let count = |way| copied().filter(|copied| copied.way == way).count();
    let (by_dump, in_chunks) = (count(Way::Dump), count(Way::Chunks));
    let (present, vanished) = (count(Way::Present), count(Way::Vanished));
    let sent_bytes = copied().map(|copied| copied.bytes).sum();
    let verified = outcomes.iter().filter(|outcome| matches!(outcome.verified, Ok(true))).count();
    let text = format!(
        "{}: {by_dump} copied by DUMP, {in_chunks} in chunks, {present} already present, {vanished} vanished, {failures} \
         failed, {verified} verified; {}, {seconds:.1} s\n{}",
        counted(*filters as u64, "filter"),
        bytes(sent_bytes),
        other_databases(others)
    );
    let json = json!({
        "filters": filters, "by_dump": by_dump, "in_chunks": in_chunks, "already_present": present,
        "vanished": vanished, "verified": verified, "bytes": sent_bytes, "seconds": seconds, "failed": listed,
        "other_databases": others,
    });
    printer.result(&text, &json)?;
    if failures == 0 {
        return Ok(());
    }
    Err(Failure::partly(format!("{} not copied, or different", counted(failures, "filter"))))
}

/// Returns the items of a file, one per line.
fn members(path: &Path) -> Result<ItemBatch, Failure> {
    let mut data = Vec::new();
    let (reading, _) = open(path, Arc::default())?;
    reading.take(MEMBERS_MAX_BYTES + 1).read_to_end(&mut data)?;
    if data.len() as u64 > MEMBERS_MAX_BYTES {
        return Err(Failure::usage("the file of --members has more than 64 MiB: use a part of it"));
    }
    remove_cr(&mut data);
    Ok(ItemBatch::of_lines(data))
}

/// Compares the filters of a key on both servers. Returns true, or an error that says what differs.
fn verify(
    copier: &mut Copier,
    key: &[u8],
    family: Family,
    members: Option<&ItemBatch>,
) -> Result<bool, Failure> {
    let digest = |connection: &mut Connection| match family {
        Family::Cuckoo => fields(connection, key),
        Family::Bloom(_) => fetch(connection, key).map(|filter| filter.digest().to_le_bytes().to_vec()),
    };
    let of_from = digest(copier.from.connection_for(key)?)?;
    let of_to = digest(copier.to.connection_for(key)?)?;
    if of_from != of_to {
        return Err(Failure::new(
            "the filters differ: if items were added during the copy, copy it again with --replace",
        ));
    }
    let items: Vec<&[u8]> = members.map_or_else(Vec::new, |members| members.iter().collect());
    for items in items.chunks(LOOKUP_ITEMS) {
        let command = [&[family.lookup_command(), key], items].concat();
        let of_from = lookup(copier.from.connection_for(key)?, &command)?;
        if of_from != lookup(copier.to.connection_for(key)?, &command)? {
            return Err(Failure::new(
                "lookups differ: if items were added during the copy, copy it again with --replace",
            ));
        }
    }
    Ok(true)
}

fn lookup(connection: &mut Connection, command: &[&[u8]]) -> Result<Vec<bool>, CallError> {
    from_redis_value(connection.call(command)?).map_err(|_| CallError::unexpected_reply("MEXISTS"))
}
