//! Whether two servers have the same filter.

use std::path::Path;

use redis::Value;

use super::one::Copier;
use crate::failure::Failure;
use crate::fetching;
use crate::input::reading_of;
use crate::packing::Batch;
use crate::server::{Connection, Trouble};

/// Items that are asked for at once.
const ITEMS: usize = 1000;
/// Items of a file that are asked for at most.
const BYTES_MAX: u64 = 64 << 20;

/// The items of a file.
pub(super) fn members(path: &Path) -> Result<Batch, Failure> {
    use std::io::Read;
    let mut data = Vec::new();
    reading_of(path)?.take(BYTES_MAX).read_to_end(&mut data)?;
    Ok(Batch::of_lines(data))
}

/// Compares the filters of a key, or says what differs; true, for it was compared.
pub(super) fn verify(copier: &mut Copier, key: &[u8], members: Option<&Batch>) -> Result<bool, Failure> {
    let digest = |connection: &mut Connection| fetching::fetch(connection, key).map(|filter| filter.digest());
    let of_from = digest(copier.from.connection_for(key)?)?;
    let of_to = digest(copier.to.connection_for(key)?)?;
    if of_from != of_to {
        return Err(Failure::new("differs from what is on the other side: was it changed meanwhile?"));
    }
    if let Some(members) = members {
        let mut items = members.iter().peekable();
        while items.peek().is_some() {
            let mut command: Vec<&[u8]> = vec![b"BF.MEXISTS", key];
            command.extend(items.by_ref().take(ITEMS));
            let of_from = answers(copier.from.connection_for(key)?, &command)?;
            if of_from != answers(copier.to.connection_for(key)?, &command)? {
                return Err(Failure::new("answers differ"));
            }
        }
    }
    Ok(true)
}

fn answers(connection: &mut Connection, command: &[&[u8]]) -> Result<Vec<bool>, Trouble> {
    match connection.call(command)? {
        Value::Array(answers) => {
            Ok(answers.iter().map(|answer| matches!(answer, Value::Int(1) | Value::Boolean(true))).collect())
        }
        _ => Err(Trouble::Broken("an answer per item was expected".to_owned())),
    }
}
