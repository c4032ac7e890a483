//! BF.INFO.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::facts;
use super::keyspace::{Keyspace, OpenKey};
use super::reply::{Protocol, Reply};
use super::statistics::{FIELDS as STATISTICS, Statistics};
use super::table::KeyAccess;
use super::value::Value;
use crate::bloom::{Filter, Growth};

/// BF.INFO: `key [field]`. Replies all of RedisBloom's fields, or the one named, which may be one of
/// BF.STATS. O(layers).
///
/// # Errors
/// [`CommandError::InfoField`] for a word that names no field of the filter.
pub(super) fn run<'a>(
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

/// A fact of BF.INFO: the word that asks for it alone, the name it is answered under, and its value;
/// nothing where the filter has no such fact.
struct Field {
    word: &'static str,
    name: &'static str,
    value: fn(&Filter) -> Option<Value>,
}

/// RedisBloom's five, in its order and no more: go-redis fails on a sixth.
const FIELDS: [Field; 5] = [
    Field {
        word: "CAPACITY",
        name: "Capacity",
        value: |filter| Some(Value::Integer(filter.capacity_items())),
    },
    Field { word: "SIZE", name: "Size", value: |filter| Some(Value::Integer(facts::size_bytes(filter))) },
    Field {
        word: "FILTERS",
        name: "Number of filters",
        value: |filter| Some(Value::Integer(filter.layer_count() as u64)),
    },
    Field {
        word: "ITEMS",
        name: "Number of items inserted",
        value: |filter| Some(Value::Integer(filter.items())),
    },
    Field { word: "EXPANSION", name: "Expansion rate", value: expansion_rate },
];

/// Facts that are answered only when asked for by name; valkey-bloom's words and names, then our own.
const MORE_FIELDS: [Field; 5] = [
    Field { word: "ERROR", name: "Error rate", value: |filter| facts::error_rate(filter).map(Value::Double) },
    Field {
        word: "TIGHTENING",
        name: "Tightening ratio",
        value: |filter| facts::tightening_ratio(filter).map(Value::Double),
    },
    Field {
        word: "MAXSCALEDCAPACITY",
        name: "Max scaled capacity",
        value: |filter| facts::max_scaled_capacity_items(filter).map(Value::Integer),
    },
    Field {
        word: "ESTIMATED",
        name: "Estimated items",
        value: |filter| facts::estimated_items(filter).map(Value::Integer),
    },
    Field {
        word: "WINDOW",
        name: "Window milliseconds",
        value: |filter| facts::window_ms(filter).map(Value::Integer),
    },
];

fn expansion_rate(filter: &Filter) -> Option<Value> {
    Some(match filter.growth() {
        Growth::Fixed | Growth::Saturating => Value::Null,
        Growth::Scaling { expansion } => Value::Integer(expansion.into()),
    })
}

fn is_named(name: &str, word: &[u8]) -> bool {
    name.as_bytes().eq_ignore_ascii_case(word)
}

/// RedisBloom answers one field as a map of one in RESP3 but as the bare value in an array in RESP2.
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
