//! `everbloom inspect`: lists the filters in a file, without a server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Cursor, Read as _};
use std::path::{Path, PathBuf};

use everbloom::{BloomFilter, Format};
use serde_json::{Value, json};

use super::chunks::{FOOTER_BYTES, MAGIC, after_magic, load};
use super::failure::{Failure, check_interruption};
use super::output::{Output, bytes, counted, rfc3339, shown, table};
use super::rdb::{Entry, MODULE_VALUE, Read, Reader, read_module, read_snapshot};

/// List the filters in a file, without a server
///
/// Reads an RDB file of Redis or Valkey, a raw reply of DUMP in a file, or a file of `everbloom build`. The tool needs
/// the memory of the largest filter. It counts keys of other types.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// File to read
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const EXAMPLE: &str = "\
Example:
  everbloom inspect /var/lib/redis/dump.rdb

Exit codes: 0 done; 1 the file cannot be read; 2 wrong arguments; 3 some filters in the file cannot be read; 130 \
interrupted.";

/// The filters and keys that were found.
#[derive(Default)]
struct Found {
    filters: Vec<Value>,
    rows: Vec<Vec<String>>,
    unreadable: usize,
    /// Keys of other types.
    others: BTreeMap<String, u64>,
}

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let path = &arguments.file;
    let mut found = Found::default();
    let what = look(path, &mut found).map_err(|failure| Failure::of(path.display(), failure))?;
    let mut text = format!("{}: {what}\n", path.display());
    if !found.rows.is_empty() {
        let names = ["key", "db", "type", "format", "layers", "items", "capacity", "fill", "memory", "note"];
        found.rows.insert(0, names.map(str::to_owned).to_vec());
        text.push_str(&table(&found.rows));
    }
    for (name, count) in &found.others {
        text.push_str(&format!("{} of type {name}\n", counted(*count, "key")));
    }
    let json = json!({
        "file": path.display().to_string(), "what": what, "filters": found.filters, "others": found.others,
    });
    output.result(&text, &json)?;
    match found.unreadable {
        0 => Ok(()),
        number => Err(Failure::partly(format!(
            "{} cannot be read: see the column `note`",
            counted(number as u64, "filter")
        ))),
    }
}

/// Reads the file. Returns the kind of the file.
fn look(path: &Path, found: &mut Found) -> Result<String, Failure> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut head = Vec::new();
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head)?;
    if head == MAGIC {
        let filter = load(after_magic(file))?;
        found.filter(Place::default(), "", 0, &filter);
        return Ok("a file of `everbloom build`".to_owned());
    }
    let whole = Cursor::new(head.clone()).chain(file);
    if head.first() == Some(&MODULE_VALUE) {
        return look_at_dump(whole, found);
    }
    let mut reader = Reader::new(whole);
    let version = read_snapshot(&mut reader, |entry| found.entry(entry));
    check_interruption()?;
    let version = version.map_err(|error| Failure::new(format!("{error} (at byte {})", reader.offset())))?;
    Ok(format!("an RDB file of version {version}"))
}

fn look_at_dump(mut whole: impl std::io::Read, found: &mut Found) -> Result<String, Failure> {
    let mut payload = Vec::new();
    whole.read_to_end(&mut payload)?;
    // Removes a newline at the end, which the program that printed the reply may have added.
    let truncated = || Failure::new("the reply of DUMP is truncated: save it again");
    let end = payload.len().checked_sub(FOOTER_BYTES).ok_or_else(truncated)?;
    let mut reader = Reader::new(Cursor::new(payload.get(1..end).ok_or_else(truncated)?));
    let (data_type, encoding_version, read) = read_module(&mut reader).map_err(Failure::new)?;
    found.module(Place::default(), &data_type, encoding_version, read);
    Ok("a reply of DUMP".to_owned())
}

/// The key of a filter in a snapshot.
#[derive(Default)]
struct Place {
    key: Option<Vec<u8>>,
    db: Option<u64>,
    expires_ms: Option<u64>,
}

impl Found {
    fn entry(&mut self, entry: Entry) {
        match entry {
            Entry::Own(name) => self.count(name),
            Entry::Module { key, db, expires_ms, data_type, encoding_version, read } => {
                let place = Place { key: Some(key), db: Some(db), expires_ms };
                self.module(place, &data_type, encoding_version, read);
            }
        }
    }

    fn count(&mut self, name: &str) {
        *self.others.entry(name.to_owned()).or_default() += 1;
    }

    fn module(&mut self, place: Place, data_type: &str, encoding_version: i32, read: Read) {
        match read {
            Read::Filter(filter) => self.filter(place, data_type, encoding_version, &filter),
            Read::Unreadable(error) => {
                self.unreadable(place, data_type, encoding_version, &error.to_string())
            }
            Read::Other => self.count(data_type),
        }
    }

    fn filter(&mut self, place: Place, data_type: &str, encoding_version: i32, filter: &BloomFilter) {
        let format = match filter.format() {
            Format::Everbloom => "everbloom",
            Format::RedisBloom => "redisbloom",
            Format::ValkeyBloom => "valkey-bloom",
        };
        let layers = filter.layers();
        let table_bytes = filter.table_bytes();
        // The number of filters in BF.INFO: a table counts as one.
        let parts = layers.len() + usize::from(table_bytes.is_some());
        let fill = (!layers.is_empty()).then(|| filter.fill());
        self.filters.push(json!({
            "key": place.key.as_deref().map(shown), "db": place.db, "expires_ms": place.expires_ms,
            "expires": place.expires_ms.map(rfc3339),
            "type": data_type, "encoding_version": encoding_version, "format": format, "layers": parts,
            "items": filter.items(), "capacity": filter.capacity_items(), "fill": fill,
            "bytes": filter.size_bytes(), "table_bytes": table_bytes, "digest": format!("{:016x}", filter.digest()),
            "per_layer": layers.iter().map(|layer| json!({"bits": layer.size_bits, "set_bits": layer.set_bits}))
                .collect::<Vec<_>>(),
        }));
        let expiry = place.expires_ms.map_or_else(String::new, |ms| format!("expires {}", rfc3339(ms)));
        self.rows.push(vec![
            place.key.as_deref().map_or_else(String::new, shown),
            place.db.map_or_else(String::new, |db| db.to_string()),
            data_type.to_owned(),
            format.to_owned(),
            parts.to_string(),
            filter.items().to_string(),
            filter.capacity_items().to_string(),
            fill.map_or_else(|| "-".to_owned(), |fill| format!("{:.1} %", fill * 100.0)),
            bytes(filter.size_bytes()),
            expiry,
        ]);
    }

    fn unreadable(&mut self, place: Place, data_type: &str, encoding_version: i32, error: &str) {
        self.unreadable += 1;
        let key = place.key.as_deref().map(shown);
        self.filters.push(json!({
            "key": key, "db": place.db, "type": data_type, "encoding_version": encoding_version, "error": error,
        }));
        let mut row = vec![key.unwrap_or_default(), place.db.map_or_else(String::new, |db| db.to_string())];
        row.push(data_type.to_owned());
        row.extend((0..6).map(|_| String::new()));
        row.push(error.to_owned());
        self.rows.push(row);
    }
}
