//! `everbloom restore`: sends a file of `everbloom build` to a server.

use std::path::PathBuf;

use serde_json::json;

use super::chunks;
use super::draft::Draft;
use super::existing;
use super::failure::Failure;
use super::options::milliseconds;
use super::output::{Output, bytes, counted, per_second, shown};
use super::server::{self, Credentials, Router, Site, integer};

/// Send a file of `everbloom build` to a server
///
/// The server must run everbloom. The tool sends the filter to a temporary key and renames it to KEY at the end, as
/// `everbloom load` does.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// Address of the server: redis://[user[:password]@]host[:port][/db], rediss://..., unix://path or host:port
    #[arg(value_name = "ADDRESS")]
    url: String,
    /// Key of the filter
    #[arg(value_name = "KEY")]
    key: String,
    /// File of `everbloom build`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    existing: existing::Arguments,
    /// Time to live of the key (500ms, 30s, 15m, 12h, 7d, 2w)
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    ex: Option<u64>,
    #[command(flatten)]
    connection: server::Arguments,
}

const EXAMPLE: &str = "\
Example:
  everbloom restore redis://127.0.0.1:6379 visited visited.bloom --replace

Exit codes: 0 done; 1 failed; 2 wrong arguments; 130 interrupted. If the code is not 0, the key is unchanged.";

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let key = arguments.key.as_bytes();
    let (chunks, file_bytes) = chunks::open(&arguments.file)?;
    let site = Site::new(&arguments.url, &arguments.connection, Credentials::Main)?;
    let mut router = Router::new(&site)?;
    // Only everbloom accepts these chunks, and only everbloom has BF.STATS.
    router.connection_for(key)?.require("BF.STATS")?;
    let mut draft = Draft::new(&mut router, key, arguments.existing, "--replace")?;
    let progress = output.progress("sending", Some(file_bytes));
    draft.fill(&mut router, chunks, |sent| progress.set(sent, bytes(sent)))?;
    // The user may not have the permission.
    let items = router.call(key, &[b"BF.CARD", draft.name()]).ok().as_ref().and_then(integer);
    items.map_or(Ok(()), |items| arguments.existing.check_items(items, true))?;
    draft.publish(&mut router, arguments.ex)?;
    let seconds = progress.finish();
    let (items, rate) = (items.unwrap_or_default(), per_second(file_bytes, seconds));
    let text =
        format!("{}: {}, {} sent; {seconds:.1} s", shown(key), counted(items, "item"), bytes(file_bytes));
    let json = json!({
        "key": arguments.key, "items": items, "sent_bytes": file_bytes, "seconds": seconds, "bytes_per_second": rate,
    });
    output.result(&text, &json)
}
