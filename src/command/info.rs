//! BF.INFO and BF.CARD.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::facts::{self, Value};
use super::keyspace::{Keyspace, OpenKey};
use super::reply::{Protocol, Reply};
use super::statistics::{FIELDS as STATISTICS, Statistics};
use super::table::KeyAccess;
use crate::bloom::Filter;

/// BF.INFO: `key [field]`. Replies all of RedisBloom's fields, or the requested field, which may also be one of
/// BF.STATS. O(layers).
///
/// # Errors
/// [`CommandError::InfoField`] for a field that the filter does not have.
pub(super) fn info<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (name, word) = (arguments.key()?, arguments.optional());
    let mut key = keyspace.open(name, KeyAccess::ReadOnly);
    let filter = key.slot().required()?;
    let Some(word) = word else {
        reply.map(FIELDS.len());
        for field in &FIELDS {
            reply.simple(field.name);
            (field.value)(filter).unwrap_or(Value::Null).write(reply);
        }
        return Ok(Effects::default());
    };
    let named = FIELDS.iter().chain(&MORE_FIELDS).find(|field| is_named(field.word, word));
    if let Some(field) = named {
        write_one(field.name, &(field.value)(filter).ok_or(CommandError::InfoField)?, reply);
        return Ok(Effects::default());
    }
    let field = STATISTICS.iter().find(|field| is_named(field.name, word)).ok_or(CommandError::InfoField)?;
    let allocated_bytes = key.allocated_bytes();
    let statistics = Statistics::of(name.bytes, key.slot().required()?, allocated_bytes);
    write_one(field.name, &(field.value)(&statistics), reply);
    Ok(Effects::default())
}

/// A field of BF.INFO: the word that requests it, its name in the reply, and its value; `None` for filters without
/// it.
struct Field {
    word: &'static str,
    name: &'static str,
    value: fn(&Filter) -> Option<Value>,
}

const fn field(word: &'static str, name: &'static str, value: fn(&Filter) -> Option<Value>) -> Field {
    Field { word, name, value }
}

/// RedisBloom's five fields in its order. go-redis fails on a sixth.
const FIELDS: [Field; 5] = [
    field("CAPACITY", "Capacity", |filter| Some(Value::Integer(filter.capacity_items()))),
    field("SIZE", "Size", |filter| Some(Value::Integer(facts::size_bytes(filter)))),
    field("FILTERS", "Number of filters", |filter| Some(Value::Integer(filter.part_count() as u64))),
    field("ITEMS", "Number of items inserted", |filter| Some(Value::Integer(filter.items()))),
    field("EXPANSION", "Expansion rate", |filter| Some(facts::expansion(filter))),
];

/// Fields that are replied only on request: valkey-bloom's, then everbloom's own.
const MORE_FIELDS: [Field; 5] = [
    field("ERROR", "Error rate", |filter| facts::error_rate(filter).map(Value::Double)),
    field("TIGHTENING", "Tightening ratio", |filter| facts::tightening_ratio(filter).map(Value::Double)),
    field("MAXSCALEDCAPACITY", "Max scaled capacity", |filter| {
        facts::max_scaled_capacity_items(filter).map(Value::Integer)
    }),
    field("ESTIMATED", "Estimated items", |filter| facts::estimated_items(filter).map(Value::Integer)),
    field("WINDOW", "Window milliseconds", |filter| facts::window_ms(filter).map(Value::Integer)),
];

/// Returns whether a word of the client is this name, in any case.
fn is_named(name: &str, word: &[u8]) -> bool {
    name.as_bytes().eq_ignore_ascii_case(word)
}

/// Replies one field as RedisBloom does: a map of one pair in RESP3, an array with only the value in RESP2.
fn write_one(name: &'static str, value: &Value, reply: &mut impl Reply) {
    match reply.protocol() {
        Protocol::Resp2 => reply.array(1),
        Protocol::Resp3 => {
            reply.map(1);
            reply.simple(name);
        }
    }
    value.write(reply);
}

/// BF.CARD: `key`. Replies the number of items added; 0 if the key does not exist. O(layers).
///
/// # Errors
/// [`CommandError::WrongType`].
pub(super) fn card<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open(arguments.key()?, KeyAccess::ReadOnly);
    reply.integer(key.slot().present()?.map_or(0, |filter| filter.items()));
    Ok(Effects::default())
}
