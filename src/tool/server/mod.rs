//! Connections to single servers and clusters, and the keys of filters in them.

mod connection;
mod databases;
mod router;
mod site;

pub(crate) use connection::{CallError, Connection, field, integer, text};
pub(crate) use databases::{DatabaseArguments, other_databases};
pub(crate) use router::Router;
pub(crate) use site::{ConnectionArguments, NodeAddress, SLOTS, Site, sibling, slot_of};

use std::collections::BTreeMap;

use everbloom::Format;
use redis::from_redis_value;

use super::failure::{Failure, check_interruption};

/// A family of filters: those of one family have the same commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Filters with BF.* commands, of one of the formats.
    Bloom(Format),
    /// RedisBloom's cuckoo filters.
    Cuckoo,
}

/// The data types of filters.
const FILTERS: [(&str, Family); 4] = [
    ("everbloom", Family::Bloom(Format::Everbloom)),
    ("MBbloom--", Family::Bloom(Format::RedisBloom)),
    ("bloomfltr", Family::Bloom(Format::ValkeyBloom)),
    ("MBbloomCF", Family::Cuckoo),
];
/// The data types of RedisBloom that everbloom only keeps.
const ONLY_KEPT: [&str; 3] = ["CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE"];

impl Family {
    /// Returns the family of the filters of a data type; `None` if it is another data type.
    pub(crate) fn of(data_type: &str) -> Option<Self> {
        FILTERS.iter().find(|(name, _)| *name == data_type).map(|(_, family)| *family)
    }

    /// Returns the command that looks up items.
    pub(crate) const fn lookup_command(self) -> &'static [u8] {
        if let Self::Cuckoo = self { b"CF.MEXISTS" } else { b"BF.MEXISTS" }
    }
}

/// The keys that were found. SCAN may return a key twice, so these are maps.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundKeys {
    /// Keys of filters, with the data type.
    pub(crate) filters: BTreeMap<Vec<u8>, (Family, String)>,
    /// Keys of RedisBloom's types that everbloom only keeps, with the data type.
    pub(crate) only_kept: BTreeMap<Vec<u8>, String>,
}

/// Returns the keys of all nodes that match the pattern and hold filters, or other types of RedisBloom.
pub(crate) fn scan(router: &mut Router, pattern: Option<&str>) -> Result<FoundKeys, Failure> {
    let mut found = FoundKeys::default();
    router.each(|connection| {
        let mut cursor = "0".to_owned();
        loop {
            check_interruption()?;
            let mut command: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes(), b"COUNT", b"1000"];
            if let Some(pattern) = pattern {
                command.extend([&b"MATCH"[..], pattern.as_bytes()]);
            }
            let parsed: Result<(String, Vec<Vec<u8>>), _> = from_redis_value(connection.call(&command)?);
            let (next, keys) = parsed.map_err(|_| CallError::unexpected_reply("SCAN"))?;
            keys.iter().try_for_each(|key| connection.send(&[b"TYPE", key]))?;
            for key in keys {
                let data_type = text(&connection.receive()?).unwrap_or_default();
                if let Some(family) = Family::of(&data_type) {
                    if !is_draft(&key) {
                        found.filters.insert(key, (family, data_type));
                    }
                } else if ONLY_KEPT.contains(&data_type.as_str()) {
                    found.only_kept.insert(key, data_type);
                }
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    })?;
    Ok(found)
}

/// Returns whether a key is the temporary key of a load.
fn is_draft(key: &[u8]) -> bool {
    let end = key.len().checked_sub(16).and_then(|start| key.split_at_checked(start));
    end.is_some_and(|(start, mark)| {
        start.ends_with(b":everbloom:") && mark.iter().all(|byte| byte.is_ascii_hexdigit())
    })
}
