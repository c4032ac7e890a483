//! BF.INFO and BF.DEBUG.

use super::error::CommandError;
use super::reply::{Protocol, Reply};
use crate::bloom::client::{SchemeParameters, current_error_rate};
use crate::bloom::redisbloom::LayerParameters;
use crate::bloom::valkeybloom::{ValkeyBloom, max_scaled_capacity};
use crate::bloom::{Chain, Client, Filter, Growth, LayerCounts, LayerShape, Layout, Probes, RedisBloom};

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
    Field { word: "SIZE", name: "Size", value: |filter| Some(Value::Integer(filter.reported_size_bytes())) },
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
const MORE_FIELDS: [Field; 4] = [
    Field { word: "ERROR", name: "Error rate", value: error_rate },
    Field { word: "TIGHTENING", name: "Tightening ratio", value: tightening_ratio },
    Field { word: "MAXSCALEDCAPACITY", name: "Max scaled capacity", value: max_capacity },
    Field { word: "ESTIMATED", name: "Estimated items", value: estimated_items },
];

fn expansion_rate(filter: &Filter) -> Option<Value> {
    Some(match filter.growth() {
        Growth::Fixed => Value::Null,
        Growth::Scaling { expansion } => Value::Integer(expansion.into()),
    })
}

fn error_rate(filter: &Filter) -> Option<Value> {
    match filter {
        Filter::Everbloom(chain) => Some(Value::Double(chain.parameters().error_rate)),
        // Not written down: what it was asked for does not follow from what its layers were sized for.
        // Nor did anybody promise a rate of a client's filter: BF.DEBUG tells the one that it has.
        Filter::RedisBloom(_) | Filter::Client(_) => None,
        Filter::ValkeyBloom(chain) => Some(Value::Double(decimal_of(chain.family().error_rate))),
    }
}

/// The rate as it was asked for. valkey-bloom 0.1.0 kept it in single precision, of which a double holds every bit and
/// so more digits than anybody typed: such a number is shown as the decimal that single precision stood for.
#[expect(clippy::cast_possible_truncation, reason = "it is compared with what it was before")]
fn decimal_of(rate: f64) -> f64 {
    let single = rate as f32;
    if f64::from(single) != rate {
        return rate;
    }
    single.to_string().parse().unwrap_or(rate)
}

/// The parameters of a filter of valkey-bloom's kind that can grow: a fixed one has no such facts.
fn scaling_valkeybloom(filter: &Filter) -> Option<&ValkeyBloom> {
    match filter {
        Filter::ValkeyBloom(chain) => Some(chain.family()).filter(|family| family.growth != Growth::Fixed),
        Filter::Everbloom(_) | Filter::RedisBloom(_) | Filter::Client(_) => None,
    }
}

fn tightening_ratio(filter: &Filter) -> Option<Value> {
    scaling_valkeybloom(filter).map(|family| Value::Double(family.tightening_ratio))
}

/// Under valkey-bloom's own default limit of 128 MB, whatever ours is: the number is compared with its.
fn max_capacity(filter: &Filter) -> Option<Value> {
    const LIMIT_BYTES: u64 = 128 << 20;
    scaling_valkeybloom(filter).map(|family| Value::Integer(max_scaled_capacity(family, LIMIT_BYTES)))
}

/// How many of the items inserted nobody counted: only filters that were taken over have any.
fn estimated_items(filter: &Filter) -> Option<Value> {
    match filter {
        Filter::Client(chain) => Some(Value::Integer(chain.family().estimated_items)),
        Filter::Everbloom(_) | Filter::RedisBloom(_) | Filter::ValkeyBloom(_) => None,
    }
}

/// BF.INFO: all fields, or the one named.
///
/// # Errors
/// [`CommandError::InfoField`] for a word that names no field.
pub fn info(filter: &Filter, word: Option<&[u8]>, reply: &mut impl Reply) -> Result<(), CommandError> {
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

/// BF.DEBUG: the number of items, then a line per layer. RedisBloom's for filters of its kind; of the others ours to
/// define, and the words that RedisBloom also has keep its meaning.
pub fn debug(filter: &Filter, reply: &mut impl Reply) {
    let lines = match filter {
        Filter::Everbloom(chain) => everbloom_lines(chain),
        Filter::RedisBloom(chain) => redisbloom_lines(chain),
        Filter::ValkeyBloom(chain) => valkeybloom_lines(chain),
        Filter::Client(chain) => client_lines(chain),
    };
    reply.array(lines.len().saturating_add(1));
    reply.bulk(format!("size:{}", filter.items()).as_bytes());
    lines.iter().for_each(|line| reply.bulk(line.as_bytes()));
}

fn everbloom_lines(chain: &Chain) -> Vec<String> {
    let parameters = chain.parameters();
    let line = |(index, layer): (usize, &crate::bloom::Layer)| {
        let rate = parameters.growth.layer_error_rate(parameters.error_rate, index);
        everbloom_line(layer.shape(), layer.counts(), rate)
    };
    chain.layers().iter().enumerate().map(line).collect()
}

fn everbloom_line(shape: LayerShape, counts: LayerCounts, error_rate: f64) -> String {
    let (layout, lines) = match shape.layout {
        Layout::Scattered => ("scattered", shape.probes),
        Layout::Paged { lines } => ("paged", u32::from(lines)),
    };
    format!(
        "bytes:{} bits:{} hashes:{} layout:{layout} lines:{lines} capacity:{} size:{} set:{} ratio:{}",
        shape.size_bytes(),
        shape.size_bits,
        shape.probes,
        shape.capacity_items,
        counts.items,
        counts.set_bits,
        six_digits(error_rate),
    )
}

/// The client's layer with what its scheme is told and the rate that its fill makes; then layers of our own.
fn client_lines(chain: &Chain<Client>) -> Vec<String> {
    let Client { form, estimated_items, error_rate, growth, .. } = *chain.family();
    let client = chain.client_layer().map(|(placement, layer)| {
        let SchemeParameters { scheme, encoding, shift, probes, size_bits } = placement.parameters();
        let counts = layer.counts();
        format!(
            "bytes:{} bits:{size_bits} hashes:{probes} scheme:{} encoding:{} shift:{shift} order:{} capacity:{} size:{} \
             estimated:{estimated_items} set:{} ratio:{}",
            layer.bits().size_bytes(),
            scheme.name(),
            encoding.name(),
            form.order.name(),
            layer.capacity_items(),
            counts.items,
            counts.set_bits,
            six_digits(current_error_rate(counts.set_bits, layer.bits().len(), probes)),
        )
    });
    let own = chain.own_layers().enumerate().map(|(index, (shape, layer))| {
        everbloom_line(shape, layer.counts(), growth.layer_error_rate(error_rate, index))
    });
    client.into_iter().chain(own).collect()
}

fn redisbloom_lines(chain: &Chain<RedisBloom>) -> Vec<String> {
    let hash_width = if chain.family().options().has_wide_hash() { 64 } else { 32 };
    let lines = chain.layers().iter().map(|layer| {
        let parameters = LayerParameters::of(layer);
        format!(
            "bytes:{} bits:{} hashes:{} hashwidth:{hash_width} capacity:{} size:{} ratio:{}",
            layer.bits().size_bytes(),
            parameters.shown_bits(),
            parameters.probes,
            parameters.capacity_items,
            layer.counts().items,
            six_digits(parameters.error_rate),
        )
    });
    lines.collect()
}

fn valkeybloom_lines(chain: &Chain<ValkeyBloom>) -> Vec<String> {
    let lines = chain.layers().iter().map(|layer| {
        format!(
            "bytes:{} bits:{} hashes:{} capacity:{} size:{} set:{}",
            layer.bits().size_bytes(),
            layer.bits().len(),
            layer.placement().probes(),
            layer.capacity_items(),
            layer.counts().items,
            layer.counts().set_bits,
        )
    });
    lines.collect()
}

/// A number as C's `%g` writes it: six significant digits, an exponent of at least two digits below 1e-4 and from 1e6.
fn six_digits(number: f64) -> String {
    let scientific = format!("{number:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let rounded: f64 = scientific.parse().unwrap_or(number);
        return rounded.to_string();
    }
    let digits = mantissa.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_single_precision_are_shown_as_they_were_typed() {
        for rate in [0.001, 0.01, 0.02, 0.03, 0.05, 0.1, 0.000_001, 0.5, 0.25] {
            assert_eq!(decimal_of(rate), rate);
        }
        for (single, rate) in [(0.001f32, 0.001), (0.01, 0.01), (0.000_001, 0.000_001), (0.5, 0.5)] {
            assert_eq!(decimal_of(single.into()), rate);
        }
    }

    #[test]
    fn six_digits_are_written_as_by_c() {
        let pairs = [
            (0.01, "0.01"),
            (0.0075, "0.0075"),
            (0.7425, "0.7425"),
            (1.0 / 3.0, "0.333333"),
            (0.0001, "0.0001"),
            (6.25e-5, "6.25e-05"),
            (5e-7, "5e-07"),
            (1.234_567_8e-10, "1.23457e-10"),
            (5e-324, "4.94066e-324"),
        ];
        for (number, text) in pairs {
            assert_eq!(six_digits(number), text);
        }
    }
}
