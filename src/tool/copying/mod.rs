//! `everbloom copy`: copies all filters of one server to another, and compares the copies.

mod one;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::value_parser;
use redis::from_redis_value;
use serde_json::json;

use super::chunks::fetch;
use super::draft::ReplaceArguments;
use super::failure::{Failure, FailureKind, check_interruption};
use super::input::open;
use super::output::{Printer, bytes, counted, shown};
use super::packing::{ItemBatch, remove_cr};
use super::server::{CallError, Connection, ConnectionArguments, Credentials, Router, Site, scan};
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
/// chunks. Keeps times to live. A filter appears under its key when it is complete; --resume continues an interrupted
/// copy. Items that are added during the copy may be missing on the target.
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
    connection: ConnectionArguments,
}

const EXAMPLE: &str = "\
Example:
  everbloom copy redis://old.example:6379 redis://new.example:6379 --match 'seen:*' --verify

The user and the password of FROM can be in EVERBLOOM_USERNAME and EVERBLOOM_PASSWORD, those of TO in
EVERBLOOM_TO_USERNAME and EVERBLOOM_TO_PASSWORD. -c is for both servers; one that is not in a cluster ignores it.
Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 some filters were not copied, or differ; 130 interrupted.";

/// The results of all filters.
#[derive(Default)]
struct CopySums {
    by_dump: usize,
    in_chunks: usize,
    present: usize,
    vanished: usize,
    bytes: u64,
    verified: usize,
    /// Keys that were not copied or differ, and why.
    failures: Vec<(Vec<u8>, String)>,
}

pub(crate) fn run(arguments: CopyArguments, printer: &Printer) -> Result<(), Failure> {
    let from = Site::new(&arguments.from, &arguments.connection, Credentials::Main)?;
    let to = Site::new(&arguments.to, &arguments.connection, Credentials::Target)?;
    let members = arguments.members.as_deref().map(members).transpose()?;
    // Checks the target before it scans the keys of the source.
    Router::new(&to)?.each(|connection| connection.require("BF.INFO"))?;
    let mut router = Router::new(&from)?;
    router.each(|connection| connection.require("BF.INFO"))?;
    printer.note("looking for filters");
    let found = scan(&mut router, arguments.pattern.as_deref())?;
    let keys: Vec<&[u8]> = found.filters.iter().map(|(key, _)| key.as_slice()).collect();
    let filters = counted(keys.len() as u64, "filter");
    let progress = printer.progress("copying", Some(keys.len() as u64));
    let (next, done, sums) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(CopySums::default()));
    let work = || -> Result<(), Failure> {
        let mut copier = Copier::new(&from, &to, arguments.resume, arguments.replacing)?;
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            let copied = copier.copy(key);
            if let Err(Failure { kind: FailureKind::Interrupted, .. }) = &copied {
                return copied.map(drop);
            }
            let exists = matches!(copied, Ok(Copied { way: Way::Dump | Way::Chunks | Way::Present, .. }));
            let verified = if arguments.verify && exists {
                verify(&mut copier, key, members.as_ref())
            } else {
                Ok(false)
            };
            note(&mut lock(&sums), key, copied, verified);
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let outcomes: Vec<Result<(), Failure>> = thread::scope(|scope| {
        let jobs: Vec<_> = (0..arguments.jobs).map(|_| scope.spawn(work)).collect();
        while jobs.iter().any(|job| !job.is_finished()) {
            let done = done.load(Ordering::Relaxed) as u64;
            progress.set(done, format!("{done} of {filters}, {}", bytes(lock(&sums).bytes)));
            thread::sleep(SHOW_EVERY);
        }
        jobs.into_iter()
            .map(|job| job.join().unwrap_or_else(|_| Err(Failure::new("internal error: a thread panicked"))))
            .collect()
    });
    let seconds = progress.finish();
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (key, failure) in &sums.failures {
        printer.note(&format!("{}: {failure}", shown(key)));
    }
    // Prints an error once, even if all jobs return it.
    outcomes.into_iter().collect::<Result<Vec<()>, Failure>>()?;
    check_interruption()?;
    report(&sums, keys.len(), seconds, printer)
}

/// Locks the sums. Ignores a panic of another thread, since the sums are consistent at any time.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(sums: &mut CopySums, key: &[u8], copied: Result<Copied, Failure>, verified: Result<bool, Failure>) {
    match copied {
        Ok(Copied { way, bytes }) => {
            sums.bytes += bytes;
            match way {
                Way::Dump => sums.by_dump += 1,
                Way::Chunks => sums.in_chunks += 1,
                Way::Present => sums.present += 1,
                Way::Vanished => sums.vanished += 1,
            }
        }
        Err(failure) => sums.failures.push((key.to_owned(), failure.to_string())),
    }
    match verified {
        Ok(was_verified) => sums.verified += usize::from(was_verified),
        Err(failure) => sums.failures.push((key.to_owned(), failure.to_string())),
    }
}

fn report(sums: &CopySums, filters: usize, seconds: f64, printer: &Printer) -> Result<(), Failure> {
    let CopySums { by_dump, in_chunks, present, vanished, bytes: sent, verified, failures } = sums;
    let mut failures: Vec<(String, &str)> =
        failures.iter().map(|(key, text)| (shown(key), text.as_str())).collect();
    failures.sort();
    let failed = failures.len();
    let text = format!(
        "{}: {by_dump} copied by DUMP, {in_chunks} in chunks, {present} already present, {vanished} vanished, {failed} \
         failed, {verified} verified; {}, {seconds:.1} s",
        counted(filters as u64, "filter"),
        bytes(*sent)
    );
    let json = json!({
        "filters": filters, "by_dump": by_dump, "in_chunks": in_chunks, "already_present": present,
        "vanished": vanished, "verified": verified, "bytes": sent, "seconds": seconds,
        "failed": failures.iter().map(|(key, text)| json!({"key": key, "error": text})).collect::<Vec<_>>(),
    });
    printer.result(&text, &json)?;
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::partly(format!("{} not copied, or different", counted(failed as u64, "filter"))))
}

/// Returns the items of a file, one per line.
fn members(path: &Path) -> Result<ItemBatch, Failure> {
    let mut data = Vec::new();
    open(path)?.take(MEMBERS_MAX_BYTES).read_to_end(&mut data)?;
    remove_cr(&mut data);
    Ok(ItemBatch::of_lines(data))
}

/// Compares the filters of a key on both servers. Returns true, or an error that says what differs.
fn verify(copier: &mut Copier, key: &[u8], members: Option<&ItemBatch>) -> Result<bool, Failure> {
    let digest = |connection: &mut Connection| fetch(connection, key).map(|filter| filter.digest());
    let of_from = digest(copier.from.connection_for(key)?)?;
    let of_to = digest(copier.to.connection_for(key)?)?;
    if of_from != of_to {
        return Err(Failure::new(
            "the filters differ: if items were added during the copy, copy it again with --replace",
        ));
    }
    if let Some(members) = members {
        let mut items = members.iter().peekable();
        while items.peek().is_some() {
            let mut command: Vec<&[u8]> = vec![b"BF.MEXISTS", key];
            command.extend(items.by_ref().take(LOOKUP_ITEMS));
            let of_from = lookup(copier.from.connection_for(key)?, &command)?;
            if of_from != lookup(copier.to.connection_for(key)?, &command)? {
                return Err(Failure::new(
                    "lookups differ: if items were added during the copy, copy it again with --replace",
                ));
            }
        }
    }
    Ok(true)
}

fn lookup(connection: &mut Connection, command: &[&[u8]]) -> Result<Vec<bool>, CallError> {
    from_redis_value(connection.call(command)?).map_err(|_| CallError::unexpected_reply("BF.MEXISTS"))
}
