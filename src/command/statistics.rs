//! BF.STATS: statistics of a filter and its layers.

use super::advice::advice;
use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::facts::{self, Import, Value};
use super::keyspace::{Keyspace, OpenKey};
use super::reply::Reply;
use super::table::KeyAccess;
use super::words::Word;
use crate::bloom::bits::estimate::fill;
use crate::bloom::{Filter, FilterStats, Growth, LayerStats, TableStats};
use crate::format::filter::DataType;

/// BF.STATS: `key`. Replies a map of all statistics, and under `per-layer` a map for each layer. O(layers).
///
/// # Errors
/// [`CommandError::NotFound`].
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let name = arguments.key()?;
    let mut key = keyspace.open(name, KeyAccess::ReadOnly);
    key.slot().required()?;
    let allocated_bytes = key.allocated_bytes();
    Statistics::of(name.bytes, key.slot().required()?, allocated_bytes).write(reply);
    Ok(Effects::default())
}

/// The statistics of a filter.
pub(super) struct Statistics<'f> {
    filter: &'f Filter,
    import: Option<Import>,
    layers: Vec<LayerStats>,
    table: Option<TableStats>,
    whole: FilterStats,
    /// Bytes that the allocator set aside for the filter.
    allocated_bytes: u64,
    advice: Option<String>,
}

/// A field for the whole filter: its name, which in capitals is its word in BF.INFO, and its value.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) value: fn(&Statistics<'_>) -> Value,
}

const fn field(name: &'static str, value: fn(&Statistics<'_>) -> Value) -> Field {
    Field { name, value }
}

/// The fields for the whole filter, in the order of the reply.
pub(super) const FIELDS: [Field; 30] = [
    field("type", |s| Value::name(DataType::of(s.filter.format()).name)),
    field("format", |s| Value::name(s.filter.format().word())),
    field("kind", |s| Value::name(s.filter.kind().row().name)),
    field("layers", |s| Value::Integer(s.layers.len() as u64)),
    field("capacity", |s| Value::Integer(s.filter.capacity_items())),
    field("items", |s| Value::Integer(s.filter.items())),
    field("estimated-items", |s| Value::about(s.whole.estimated_items)),
    field("set-bits", |s| s.of_bits(Value::Integer(s.whole.set_bits))),
    field("fill", |s| s.of_bits(Value::rounded(fill(s.whole.set_bits, s.whole.positions)))),
    field("error-rate", |s| facts::error_rate(s.filter).into()),
    field("error-rate-max", |s| s.filter.error_rate_max().map_or(Value::Null, Value::rounded)),
    field("error-rate-now", |s| Value::rounded(s.whole.error_rate)),
    field("bytes", |s| Value::Integer(s.filter.size_bytes())),
    field("bits-per-item", bits_per_item),
    field("allocated-bytes", |s| Value::Integer(s.allocated_bytes)),
    field("table-items", |s| s.of_table(|table| table.items)),
    field("table-bytes", |s| s.of_table(|table| table.size_bytes)),
    field("table-segments", |s| s.of_table(|table| table.segments)),
    field("void-entries", |s| s.of_table(|table| table.leftovers.void_entries)),
    field("saturated-buckets", |s| s.of_table(|table| table.leftovers.saturated_buckets)),
    field("expired-entries", |s| s.of_window(|table| table.expired_entries)),
    field("expired-bytes", |s| s.of_window(TableStats::expired_bytes)),
    field("hashes", |s| s.of_bits(Value::Integer(s.whole.probes))),
    field("growth", growth),
    field("expansion", |s| facts::expansion(s.filter)),
    field("keyed", |s| Value::Boolean(s.filter.is_keyed())),
    field("import-scheme", |s| s.import.map(|import| import.scheme).into()),
    field("import-encoding", |s| s.import.map(|import| import.encoding).into()),
    field("import-order", |s| s.import.map(|import| import.order).into()),
    field("advice", |s| s.advice.clone().into()),
];

fn bits_per_item(statistics: &Statistics<'_>) -> Value {
    match statistics.filter.items() {
        0 => Value::Null,
        items => Value::rounded(statistics.size_bits() as f64 / items as f64),
    }
}

fn growth(statistics: &Statistics<'_>) -> Value {
    Value::name(match statistics.filter.growth() {
        Growth::Fixed => "fixed",
        Growth::Saturating => "saturating",
        Growth::Scaling { .. } | Growth::Unreserved { .. } => "scaling",
    })
}

impl<'f> Statistics<'f> {
    /// Returns the statistics of the filter under `key`. O(layers): some microseconds for a paged layer, and up to a
    /// hundred if the filter has grown so often that it has advice.
    pub(super) fn of(key: &[u8], filter: &'f Filter, allocated_bytes: u64) -> Self {
        let (layers, table, whole) = filter.stats();
        let (import, advice) = (facts::import(filter), advice(key, filter));
        Self { filter, import, layers, table, whole, allocated_bytes, advice }
    }

    /// Returns a value for the bits of the filter; null if it has none.
    fn of_bits(&self, value: Value) -> Value {
        if self.layers.is_empty() { Value::Null } else { value }
    }

    /// Returns a number of the table; null if there is none.
    fn of_table(&self, number: fn(&TableStats) -> u64) -> Value {
        self.table.as_ref().map_or(Value::Null, |table| Value::Integer(number(table)))
    }

    /// Returns a number of the table of a sliding-window filter; null for other filters.
    fn of_window(&self, number: fn(&TableStats) -> u64) -> Value {
        if self.filter.window().is_some() { self.of_table(number) } else { Value::Null }
    }

    /// Returns the bits of all layers and of the table.
    fn size_bits(&self) -> u64 {
        let of_table = self.table.as_ref().map_or(0, |table| table.size_bytes.saturating_mul(8));
        self.whole.size_bits.saturating_add(of_table)
    }

    fn write(&self, reply: &mut impl Reply) {
        reply.map(FIELDS.len().saturating_add(1));
        for Field { name, value } in &FIELDS {
            reply.simple(name);
            value(self).write(reply);
        }
        reply.simple("per-layer");
        reply.array(self.layers.len());
        for (index, layer) in self.layers.iter().enumerate() {
            self.write_layer(index, layer, reply);
        }
    }

    fn write_layer(&self, index: usize, layer: &LayerStats, reply: &mut impl Reply) {
        let placement = self.filter.layers().get(index).map(|layer| facts::placement(self.filter, layer));
        let fields = [
            ("placement", placement.into()),
            ("bits", Value::Integer(layer.size_bits)),
            ("bytes", Value::Integer(layer.size_bytes)),
            ("hashes", Value::Integer(layer.probes.into())),
            ("capacity", Value::Integer(layer.capacity_items)),
            ("items", Value::Integer(layer.items)),
            ("estimated-items", Value::about(layer.estimated_items)),
            ("set-bits", Value::Integer(layer.set_bits)),
            ("fill", Value::rounded(fill(layer.set_bits, layer.positions))),
            ("error-rate", self.filter.policy().sized_error_rate(self.filter.layers(), index).into()),
            ("error-rate-now", Value::rounded(layer.error_rate)),
        ];
        reply.map(fields.len());
        for (name, value) in &fields {
            reply.simple(name);
            value.write(reply);
        }
    }
}
