//! BF.INFO and BF.DEBUG.

use super::error::CommandError;
use super::reply::{Protocol, Reply};
use crate::bloom::{Chain, Growth, Layer, Layout};

/// A fact of BF.INFO: the word that asks for it alone, the name it is answered under, and its value.
struct Field {
    word: &'static str,
    name: &'static str,
    value: fn(&Chain) -> Option<u64>,
}

/// RedisBloom's five, in its order and no more: go-redis fails on a sixth.
const FIELDS: [Field; 5] = [
    Field { word: "CAPACITY", name: "Capacity", value: |chain| Some(chain.capacity_items()) },
    Field { word: "SIZE", name: "Size", value: |chain| Some(chain.size_bytes()) },
    Field { word: "FILTERS", name: "Number of filters", value: |chain| Some(chain.layers().len() as u64) },
    Field { word: "ITEMS", name: "Number of items inserted", value: |chain| Some(chain.items()) },
    Field { word: "EXPANSION", name: "Expansion rate", value: expansion_rate },
];

fn expansion_rate(chain: &Chain) -> Option<u64> {
    match chain.parameters().growth {
        Growth::Fixed => None,
        Growth::Scaling { expansion } => Some(u64::from(expansion)),
    }
}

/// BF.INFO: all fields, or the one named.
///
/// # Errors
/// [`CommandError::InfoField`] for a word that names no field.
pub fn info(chain: &Chain, word: Option<&[u8]>, reply: &mut impl Reply) -> Result<(), CommandError> {
    let Some(word) = word else {
        reply.map(FIELDS.len());
        FIELDS.iter().for_each(|field| write_pair(field, chain, reply));
        return Ok(());
    };
    let field = FIELDS
        .iter()
        .find(|field| field.word.as_bytes().eq_ignore_ascii_case(word))
        .ok_or(CommandError::InfoField)?;
    // RedisBloom answers one field as a map of one in RESP3 but as the bare value in an array in RESP2.
    match reply.protocol() {
        Protocol::Resp2 => {
            reply.array(1);
            write_value(field, chain, reply);
        }
        Protocol::Resp3 => {
            reply.map(1);
            write_pair(field, chain, reply);
        }
    }
    Ok(())
}

fn write_pair(field: &Field, chain: &Chain, reply: &mut impl Reply) {
    reply.simple(field.name);
    write_value(field, chain, reply);
}

fn write_value(field: &Field, chain: &Chain, reply: &mut impl Reply) {
    match (field.value)(chain) {
        Some(value) => reply.integer(value),
        None => reply.null(),
    }
}

/// BF.DEBUG: the number of items, then a line per layer. Ours to define for our own layers; the words that
/// RedisBloom also has keep its meaning.
pub fn debug(chain: &Chain, reply: &mut impl Reply) {
    reply.array(chain.layers().len().saturating_add(1));
    reply.bulk(format!("size:{}", chain.items()).as_bytes());
    for (index, layer) in chain.layers().iter().enumerate() {
        let parameters = chain.parameters();
        let error_rate = parameters.growth.layer_error_rate(parameters.error_rate, index);
        reply.bulk(debug_line(layer, error_rate).as_bytes());
    }
}

fn debug_line(layer: &Layer, error_rate: f64) -> String {
    let shape = layer.shape();
    let counts = layer.counts();
    let (layout, lines) = match shape.layout {
        Layout::Scattered => ("scattered", shape.probes),
        Layout::Paged { lines } => ("paged", u32::from(lines)),
    };
    // Six digits, as RedisBloom has them: the share of a layer is not always a short number.
    let error_rate = format!("{error_rate:.5e}").parse().unwrap_or(error_rate);
    format!(
        "bytes:{} bits:{} hashes:{} layout:{layout} lines:{lines} capacity:{} size:{} set:{} ratio:{error_rate}",
        shape.size_bytes(),
        shape.size_bits,
        shape.probes,
        shape.capacity_items,
        counts.items,
        counts.set_bits,
    )
}
