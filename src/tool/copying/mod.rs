//! `everbloom copy`: copies all filters of one server to another, and compares them.

mod one;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use redis::Value;
use serde_json::json;

use super::chunks::fetch;
use super::failure::{Failure, Kind, check_interruption};
use super::input::open;
use super::output::{Output, Unit, bytes, shown};
use super::packing::Batch;
use super::server::{self, Connection, Credentials, Router, Site, Trouble, scan};
use one::{Copied, Copier, Existing, Way};

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// Items of one lookup of a comparison.
const LOOKUP_ITEMS: usize = 1000;
/// Bytes of a file whose items are compared at most.
const MEMBERS_MAX_BYTES: u64 = 64 << 20;

/// Copy all filters of one server to another
///
/// Across server versions and modules: by DUMP and RESTORE where the other side understands it, else in pieces. Times
/// to live are kept. Each filter appears under its key when it is whole, so a copy that was interrupted goes on
/// with --resume. Items that are added to a filter while it is copied may be missing.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// Server to copy from: redis://[user[:password]@]host[:port][/db], rediss:// or unix://
    #[arg(value_name = "FROM")]
    from: String,
    /// Server to copy to
    #[arg(value_name = "TO")]
    to: String,
    /// Only keys of this pattern, as SCAN takes it
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// Leave keys alone that are on the other side already: those of a copy before
    #[arg(long, conflicts_with = "replace")]
    resume: bool,
    /// Overwrite keys that are on the other side already
    #[arg(long)]
    replace: bool,
    /// Compare what is on both sides afterwards, bit for bit
    #[arg(long)]
    verify: bool,
    /// Look up the items of this file, one per line, on both sides too, and compare the replies
    #[arg(long, value_name = "FILE", requires = "verify")]
    members: Option<PathBuf>,
    /// Filters that are copied at once
    #[arg(long, short, value_name = "NUMBER", default_value_t = 4)]
    jobs: usize,
    #[command(flatten)]
    connection: server::Arguments,
}

const EXAMPLE: &str = "\
Example:
  everbloom copy redis://old.example:6379 redis://new.example:6379 --match 'seen:*' --verify

The password of FROM may stand in EVERBLOOM_PASSWORD, that of TO in EVERBLOOM_TO_PASSWORD (and the users in
EVERBLOOM_USERNAME and EVERBLOOM_TO_USERNAME). -c follows the slots of whichever side is a cluster.
Exit codes: 0 all copied; 1 failed; 2 wrong arguments; 3 some filters were not copied, or differ; 130 interrupted.";

/// The results of all filters.
#[derive(Default)]
struct Sum {
    dumped: usize,
    in_pieces: usize,
    there: usize,
    gone: usize,
    bytes: u64,
    verified: usize,
    /// Keys that were not copied or differ, and why.
    troubles: Vec<(Vec<u8>, String)>,
}

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let from = Site::new(&arguments.from, &arguments.connection, Credentials::Main)?;
    let to = Site::new(&arguments.to, &arguments.connection, Credentials::Target)?;
    let existing = match (arguments.replace, arguments.resume) {
        (true, _) => Existing::Replace,
        (false, true) => Existing::Leave,
        (false, false) => Existing::Refuse,
    };
    let members = arguments.members.as_deref().map(members).transpose()?;
    // Connect to the other side before the keys are scanned.
    Router::new(&to)?.each(|connection| Ok(connection.call(&[b"PING"]).map(drop)?))?;
    let mut router = Router::new(&from)?;
    output.note("looking for filters");
    let found = scan(&mut router, arguments.pattern.as_deref())?;
    let keys: Vec<&[u8]> = found.filters.iter().map(|(key, _)| key.as_slice()).collect();
    output.note(&format!("{} filters", keys.len()));
    let progress = output.progress("copying", Some(keys.len() as u64), Unit::Filters);
    let (next, done, sum) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Sum::default()));
    let work = || -> Result<(), Failure> {
        let mut copier = Copier::new(&from, &to, existing)?;
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            let copied = copier.copy(key);
            if let Err(Failure { kind: Kind::Interrupted, .. }) = &copied {
                return copied.map(drop);
            }
            let is_there = matches!(copied, Ok(Copied { way: Way::Dump | Way::Chunks | Way::There, .. }));
            let verified = if arguments.verify && is_there {
                verify(&mut copier, key, members.as_ref())
            } else {
                Ok(false)
            };
            note(&mut lock(&sum), key, copied, verified);
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let outcomes: Vec<Result<(), Failure>> = thread::scope(|scope| {
        let jobs: Vec<_> = (0..arguments.jobs.clamp(1, 64)).map(|_| scope.spawn(work)).collect();
        while jobs.iter().any(|job| !job.is_finished()) {
            progress.set(done.load(Ordering::Relaxed) as u64, bytes(lock(&sum).bytes));
            thread::sleep(SHOW_EVERY);
        }
        jobs.into_iter()
            .map(|job| job.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked"))))
            .collect()
    });
    let seconds = progress.seconds();
    drop(progress);
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (key, trouble) in &sum.troubles {
        output.note(&format!("{}: {trouble}", shown(key)));
    }
    // Every job may have ended for the same reason.
    outcomes.into_iter().collect::<Result<Vec<()>, Failure>>()?;
    check_interruption()?;
    report(&sum, keys.len(), seconds, output)
}

/// Locks the sums, which a thread that panicked leaves consistent.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(sum: &mut Sum, key: &[u8], copied: Result<Copied, Failure>, verified: Result<bool, Failure>) {
    match copied {
        Ok(Copied { way, bytes }) => {
            sum.bytes += bytes;
            match way {
                Way::Dump => sum.dumped += 1,
                Way::Chunks => sum.in_pieces += 1,
                Way::There => sum.there += 1,
                Way::Gone => sum.gone += 1,
            }
        }
        Err(failure) => sum.troubles.push((key.to_owned(), failure.to_string())),
    }
    match verified {
        Ok(was_verified) => sum.verified += usize::from(was_verified),
        Err(failure) => sum.troubles.push((key.to_owned(), failure.to_string())),
    }
}

fn report(sum: &Sum, filters: usize, seconds: f64, output: &Output) -> Result<(), Failure> {
    let Sum { dumped, in_pieces, there, gone, bytes: sent, verified, troubles } = sum;
    let mut troubles: Vec<(String, &str)> =
        troubles.iter().map(|(key, text)| (shown(key), text.as_str())).collect();
    troubles.sort();
    let text = format!(
        "{filters} filters: {dumped} copied by DUMP, {in_pieces} in pieces, {there} there before, {gone} gone meanwhile, \
         {} with troubles, {verified} verified; {}, {seconds:.1} s",
        troubles.len(),
        bytes(*sent)
    );
    let json = json!({
        "filters": filters, "by_dump": dumped, "in_pieces": in_pieces, "there_before": there, "gone": gone,
        "verified": verified, "bytes": sent, "seconds": seconds,
        "troubles": troubles.iter().map(|(key, text)| json!({"key": key, "trouble": text})).collect::<Vec<_>>(),
    });
    output.result(&text, &json)?;
    if troubles.is_empty() { Ok(()) } else { Err(Failure::partly(format!("{} troubles", troubles.len()))) }
}

/// Returns the items of a file.
fn members(path: &Path) -> Result<Batch, Failure> {
    let mut data = Vec::new();
    open(path)?.take(MEMBERS_MAX_BYTES).read_to_end(&mut data)?;
    Ok(Batch::of_lines(data))
}

/// Compares the filters of a key. Returns true, or an error that says what differs.
fn verify(copier: &mut Copier, key: &[u8], members: Option<&Batch>) -> Result<bool, Failure> {
    let digest = |connection: &mut Connection| fetch(connection, key).map(|filter| filter.digest());
    let of_from = digest(copier.from.connection_for(key)?)?;
    let of_to = digest(copier.to.connection_for(key)?)?;
    if of_from != of_to {
        return Err(Failure::new("differs from what is on the other side: was it changed meanwhile?"));
    }
    if let Some(members) = members {
        let mut items = members.iter().peekable();
        while items.peek().is_some() {
            let mut command: Vec<&[u8]> = vec![b"BF.MEXISTS", key];
            command.extend(items.by_ref().take(LOOKUP_ITEMS));
            let of_from = lookup(copier.from.connection_for(key)?, &command)?;
            if of_from != lookup(copier.to.connection_for(key)?, &command)? {
                return Err(Failure::new("replies differ"));
            }
        }
    }
    Ok(true)
}

fn lookup(connection: &mut Connection, command: &[&[u8]]) -> Result<Vec<bool>, Trouble> {
    match connection.call(command)? {
        Value::Array(results) => {
            Ok(results.iter().map(|result| matches!(result, Value::Int(1) | Value::Boolean(true))).collect())
        }
        _ => Err(Trouble::Broken("a reply per item was expected".to_owned())),
    }
}
