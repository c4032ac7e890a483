//! `everbloom restore`: sends a file of `everbloom build` to a server.

use std::path::PathBuf;

use serde_json::json;

use super::chunks;
use super::draft::Draft;
use super::failure::Failure;
use super::output::{Output, Unit, bytes, per_second, shown};
use super::server::{self, Credentials, Router, Site, integer};

/// Send a filter that `everbloom build` wrote to a server
///
/// The filter is made beside the key and takes its place when it is whole, as with `everbloom load`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// redis://[user[:password]@]host[:port][/db], rediss:// or unix://
    #[arg(value_name = "URL")]
    url: String,
    /// Key of the filter
    #[arg(value_name = "KEY")]
    key: String,
    /// File of `everbloom build`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Put it in the place of the key that is there
    #[arg(long)]
    replace: bool,
    /// Seconds after which the key expires
    #[arg(long, value_name = "SECONDS")]
    ex: Option<u64>,
    #[command(flatten)]
    connection: server::Arguments,
}

const EXAMPLE: &str = "\
Example:
  everbloom restore redis://127.0.0.1:6379 visited visited.bloom --replace

Exit codes: 0 done; 1 failed; 2 wrong arguments; 130 interrupted. In all but the first the key is as it was.";

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let key = arguments.key.as_bytes();
    let (chunks, file_bytes) = chunks::open(&arguments.file)?;
    let site = Site::new(&arguments.url, &arguments.connection, Credentials::Main)?;
    let mut router = Router::new(&site)?;
    let mut draft = Draft::new(&mut router, key, arguments.replace)?;
    let progress = output.progress("sending", Some(file_bytes), Unit::Bytes);
    draft.fill(&mut router, chunks, |sent| progress.set(sent, bytes(sent)))?;
    draft.publish(&mut router, arguments.ex.map(|seconds| seconds.saturating_mul(1000)))?;
    let seconds = progress.seconds();
    drop(progress);
    let items = router.call(key, &[b"BF.CARD", key]).ok().as_ref().and_then(integer).unwrap_or_default();
    let rate = per_second(file_bytes, seconds);
    let text = format!("{}: {items} items, {} sent; {seconds:.1} s", shown(key), bytes(file_bytes));
    let json = json!({
        "key": arguments.key, "items": items, "sent_bytes": file_bytes, "seconds": seconds, "bytes_per_second": rate,
    });
    output.result(&text, &json)
}
