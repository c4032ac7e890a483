//! BF.INFO.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::kinds::{facts, max_scaled_capacity_items};
use super::reply::{Protocol, Reply};
use super::table::KeyAccess;
use crate::bloom::{Filter, Growth};

/// BF.INFO: `key [field]`. Replies all of RedisBloom's fields, or the one named. O(layers).
///
/// # Errors
/// [`CommandError::InfoField`] for a word that names no field of the filter.
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, word) = (arguments.key()?, arguments.optional());
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    info(key.slot().required()?, word, reply)?;
    Ok(Effects::default())
}

/// A fact of BF.INFO: the word that asks for it alone, the name it is answered under, and its value; nothing where
/// the filter has no such fact.
struct Field {
    word: &'static str,
    name: &'static str,
    value: fn(&Filter) -> Option<Value>,
}

enum Value {
    Integer(u64),
    Double(f64),
    Null,
}

/// RedisBloom's five, in its order and no more: go-redis fails on a sixth.
const FIELDS: [Field; 5] = [
    Field {
        word: "CAPACITY",
        name: "Capacity",
        value: |filter| Some(Value::Integer(filter.capacity_items())),
    },
    Field { word: "SIZE", name: "Size", value: |filter| Some(Value::Integer(facts(filter).size_bytes)) },
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
    Field { word: "ERROR", name: "Error rate", value: |filter| facts(filter).error_rate.map(Value::Double) },
    Field {
        word: "TIGHTENING",
        name: "Tightening ratio",
        value: |filter| facts(filter).tightening_ratio.map(Value::Double),
    },
    Field {
        word: "MAXSCALEDCAPACITY",
        name: "Max scaled capacity",
        value: |filter| max_scaled_capacity_items(filter).map(Value::Integer),
    },
    Field {
        word: "ESTIMATED",
        name: "Estimated items",
        value: |filter| facts(filter).estimated_items.map(Value::Integer),
    },
    Field {
        word: "WINDOW",
        name: "Window milliseconds",
        value: |filter| facts(filter).window_ms.map(Value::Integer),
    },
];

fn expansion_rate(filter: &Filter) -> Option<Value> {
    Some(match filter.growth() {
        Growth::Fixed | Growth::Saturating => Value::Null,
        Growth::Scaling { expansion } => Value::Integer(expansion.into()),
    })
}

fn info(filter: &Filter, word: Option<&[u8]>, reply: &mut impl Reply) -> Result<(), CommandError> {
    let Some(word) = word else {
        reply.map(FIELDS.len());
        FIELDS.iter().for_each(|field| write_pair(field, filter, reply));
        return Ok(());
    };
    let field = FIELDS
        .iter()
        .chain(&MORE_FIELDS)
        .find(|field| field.word.as_bytes().eq_ignore_ascii_case(word) && (field.value)(filter).is_some())
        .ok_or(CommandError::InfoField)?;
    // RedisBloom answers one field as a map of one in RESP3 but as the bare value in an array in RESP2.
    match reply.protocol() {
        Protocol::Resp2 => {
            reply.array(1);
            write_value(field, filter, reply);
        }
        Protocol::Resp3 => {
            reply.map(1);
            write_pair(field, filter, reply);
        }
    }
    Ok(())
}

fn write_pair(field: &Field, filter: &Filter, reply: &mut impl Reply) {
    reply.simple(field.name);
    write_value(field, filter, reply);
}

fn write_value(field: &Field, filter: &Filter, reply: &mut impl Reply) {
    match (field.value)(filter).unwrap_or(Value::Null) {
        Value::Integer(value) => reply.integer(value),
        Value::Double(value) => reply.double(value),
        Value::Null => reply.null(),
    }
}
