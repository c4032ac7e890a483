//! Finds the keys of filters, and those of RedisBloom's other types.

use redis::Value;

use super::connection::{CallError, Connection, text};
use super::router::Router;
use crate::failure::{Failure, check_interruption};

/// The COUNT of SCAN.
const COUNT: &[u8] = b"1000";

/// The data types of filters in all modules.
const FILTERS: [&str; 3] = ["everbloom", "MBbloom--", "bloomfltr"];
/// Data types that only RedisBloom can load.
const OF_REDISBLOOM: [&str; 4] = ["MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE"];

/// Returns whether a data type is that of filters.
pub(crate) fn is_filter(data_type: &str) -> bool {
    FILTERS.contains(&data_type)
}

/// The keys that were found, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Keys of filters, with their data types.
    pub(crate) filters: Vec<(Vec<u8>, String)>,
    /// Keys of RedisBloom's other types.
    pub(crate) others: Vec<(Vec<u8>, String)>,
}

/// Returns the keys of all nodes.
pub(crate) fn scan(router: &mut Router, pattern: Option<&str>) -> Result<Found, Failure> {
    let mut found = Found::default();
    router.each(|connection| {
        let mut cursor = b"0".to_vec();
        loop {
            check_interruption()?;
            let keys = step(connection, &mut cursor, pattern)?;
            for (key, data_type) in typed(connection, keys)? {
                if is_filter(&data_type) && !is_draft(&key) {
                    found.filters.push((key, data_type));
                } else if OF_REDISBLOOM.contains(&data_type.as_str()) {
                    found.others.push((key, data_type));
                }
            }
            if cursor == b"0" {
                return Ok(());
            }
        }
    })?;
    for keys in [&mut found.filters, &mut found.others] {
        // SCAN may return a key twice.
        keys.sort();
        keys.dedup();
    }
    Ok(found)
}

/// Returns whether a key is the temporary key of a load.
fn is_draft(key: &[u8]) -> bool {
    let end = key.len().checked_sub(16).and_then(|start| key.split_at_checked(start));
    end.is_some_and(|(start, mark)| {
        start.ends_with(b":everbloom:") && mark.iter().all(|byte| byte.is_ascii_hexdigit())
    })
}

fn step(
    connection: &mut Connection,
    cursor: &mut Vec<u8>,
    pattern: Option<&str>,
) -> Result<Vec<Vec<u8>>, CallError> {
    let mut command: Vec<&[u8]> = vec![b"SCAN", cursor, b"COUNT", COUNT];
    if let Some(pattern) = pattern {
        command.extend([&b"MATCH"[..], pattern.as_bytes()]);
    }
    let reply = connection.call(&command)?;
    let unexpected = || CallError::unexpected_reply("SCAN");
    let Value::Array(mut parts) = reply else { return Err(unexpected()) };
    let (Some(Value::Array(keys)), Some(next)) = (parts.pop(), parts.pop()) else { return Err(unexpected()) };
    *cursor = text(&next).ok_or_else(unexpected)?.into_bytes();
    Ok(keys
        .into_iter()
        .filter_map(|key| if let Value::BulkString(key) = key { Some(key) } else { None })
        .collect())
}

fn typed(connection: &mut Connection, keys: Vec<Vec<u8>>) -> Result<Vec<(Vec<u8>, String)>, CallError> {
    for key in &keys {
        connection.send(&[b"TYPE", key])?;
    }
    let mut typed = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(data_type) = text(&connection.receive()?) {
            typed.push((key, data_type));
        }
    }
    Ok(typed)
}
