//! What is in a reply, whichever protocol it came by.

use redis::Value;

/// A number, of an integer or of its text, also where it is all that an array or a map holds.
pub(crate) fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Boolean(flag) => Some((*flag).into()),
        Value::Array(values) => values.first().filter(|_| values.len() == 1).and_then(integer),
        Value::Map(pairs) => pairs.first().filter(|_| pairs.len() == 1).and_then(|(_, value)| integer(value)),
        _ => text(value)?.parse().ok(),
    }
}

/// A number that may have a fraction.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        _ => text(value)?.parse().ok(),
    }
}

/// Text, of whatever kind of string it is.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".to_owned()),
        _ => None,
    }
}

/// The value of a field in a map, or in an array of names and values in turn; names differ in case from server to
/// server.
pub(crate) fn field<'v>(reply: &'v Value, name: &str) -> Option<&'v Value> {
    let is_named = |value: &Value| text(value).is_some_and(|text| text.eq_ignore_ascii_case(name));
    match reply {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value),
        Value::Array(values) => {
            let (pairs, _) = values.as_chunks::<2>();
            pairs.iter().find(|[key, _]| is_named(key)).map(|[_, value]| value)
        }
        _ => None,
    }
}
