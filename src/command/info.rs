//! The commands that describe a filter: BF.INFO, BF.STATS and BF.CARD.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::fields::{FieldValue, error_rate, expansion, order_word, owner};
use super::keyspace::{Keyspace, Protocol, ReadKey, Reply};
use super::log_lines::advice;
use super::options::is_named;
use super::words::Word;
use everbloom_filter::bits::estimate::fill;
use everbloom_filter::filter::policy::{ValkeyBloom, valkeybloom};
use everbloom_filter::generation::Generation;
use everbloom_filter::{BitsStats, Filter, FilterStats, Growth, Kind, Layer, Layout, TableStats};
use everbloom_format::DataType;

/// BF.INFO: `key [field]`. Replies all of RedisBloom's fields, or the requested field, which may also be one of
/// BF.STATS. O(layers).
pub(super) fn info<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (name, word) = (arguments.key()?, arguments.optional());
    let key = keyspace.open_to_read(name);
    let filter = key.slot().required()?;
    let now = filter.generation_at(|| keyspace.now_ms());
    let Some(word) = word else {
        reply.map(INFO_FIELDS.len());
        for (_, name, value) in &INFO_FIELDS {
            reply.simple(name);
            value(filter, now).unwrap_or(FieldValue::Null).write(reply);
        }
        return Ok(Effects::default());
    };
    let mut fields = INFO_FIELDS.iter().chain(&MORE_FIELDS);
    if let Some((_, name, value)) = fields.find(|(token, ..)| is_named(token, word)) {
        write_one(name, &value(filter, now).ok_or(CommandError::InfoField)?, reply);
        return Ok(Effects::default());
    }
    let field = STATS_FIELDS.iter().find(|(field, _)| is_named(field, word));
    let (field, value) = field.ok_or(CommandError::InfoField)?;
    let stats = KeyStats::of(name.bytes, filter, now, key.allocated_bytes());
    write_one(field, &value(&stats), reply);
    Ok(Effects::default())
}

/// Replies one field as RedisBloom does: a map of one pair in RESP3, an array with only the value in RESP2.
fn write_one(name: &'static str, value: &FieldValue, reply: &mut impl Reply) {
    match reply.protocol() {
        Protocol::Resp2 => reply.array(1),
        Protocol::Resp3 => {
            reply.map(1);
            reply.simple(name);
        }
    }
    value.write(reply);
}

/// BF.STATS: `key`. Replies a map of all statistics, and under `per-layer` a map for each layer. O(layers).
pub(super) fn stats<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let name = arguments.key()?;
    let key = keyspace.open_to_read(name);
    let filter = key.slot().required()?;
    let now = filter.generation_at(|| keyspace.now_ms());
    KeyStats::of(name.bytes, filter, now, key.allocated_bytes()).write(reply);
    Ok(Effects::default())
}

/// BF.CARD: `key`. Replies the number of items added; 0 if the key does not exist. O(layers).
pub(super) fn card<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = keyspace.open_to_read(arguments.key()?);
    let items = |filter: &Filter| filter.items_in(filter.generation_at(|| keyspace.now_ms()));
    reply.integer(key.slot().present()?.map_or(0, items));
    Ok(Effects::default())
}

/// A field of BF.INFO: the word that requests it, its name in the reply, and its value at a generation; `None` for filters
/// without it.
type InfoField = (&'static str, &'static str, fn(&Filter, Generation) -> Option<FieldValue>);

/// RedisBloom's five fields in its order. go-redis fails on a sixth.
const INFO_FIELDS: [InfoField; 5] = [
    ("CAPACITY", "Capacity", |filter, now| Some(filter.capacity_items_in(now).into())),
    // The size that the module of the filter's format would show.
    ("SIZE", "Size", |filter, _| {
        let reported_bytes = filter.policy().reported_size_bytes(filter.layers());
        Some(reported_bytes.unwrap_or_else(|| filter.size_bytes()).into())
    }),
    ("FILTERS", "Number of filters", |filter, _| Some((filter.part_count() as u64).into())),
    ("ITEMS", "Number of items inserted", |filter, now| Some(filter.items_in(now).into())),
    ("EXPANSION", "Expansion rate", |filter, _| Some(expansion(filter).into())),
];

/// Fields of BF.INFO that are replied only on request: valkey-bloom's, then everbloom's own.
const MORE_FIELDS: [InfoField; 5] = [
    ("ERROR", "Error rate", |filter, _| error_rate(filter).map(FieldValue::Double)),
    ("TIGHTENING", "Tightening ratio", |filter, _| {
        scaling(filter).map(|policy| FieldValue::Double(policy.tightening_ratio))
    }),
    ("MAXSCALEDCAPACITY", "Max scaled capacity", |filter, _| {
        scaling(filter).map(|policy| valkeybloom::max_scaled_capacity(policy, VALKEYBLOOM_MAX_BYTES).into())
    }),
    ("ESTIMATED", "Estimated items", |filter, _| {
        filter.policy().imported().map(|policy| policy.estimated_items.into())
    }),
    ("WINDOW", "Window milliseconds", |filter, _| filter.window().map(|window| window.span.ms().into())),
];

/// valkey-bloom's default limit of a filter. `Max scaled capacity` must be the reply of that module, so it does not
/// depend on everbloom's limit.
const VALKEYBLOOM_MAX_BYTES: u64 = 128 << 20;

fn scaling(filter: &Filter) -> Option<&ValkeyBloom> {
    filter.policy().valkeybloom().filter(|policy| !policy.growth.is_fixed_size())
}

/// The statistics of a filter under a key.
struct KeyStats<'f> {
    filter: &'f Filter,
    now: Generation,
    layers: Vec<BitsStats>,
    table: Option<TableStats>,
    whole: FilterStats,
    /// Bytes that the allocator set aside for the filter.
    allocated_bytes: u64,
    advice: Option<String>,
}

/// A field of BF.STATS for the whole filter: its name, which BF.INFO accepts as a word, and its value.
type StatsField = (&'static str, fn(&KeyStats<'_>) -> FieldValue);

/// The fields of BF.STATS for the whole filter, in the order of the reply.
const STATS_FIELDS: [StatsField; 32] = [
    ("type", |s| DataType::of(s.filter.format()).name.into()),
    ("format", |s| s.filter.format().word().into()),
    ("kind", |s| s.filter.kind().row().name.into()),
    ("layers", |s| (s.layers.len() as u64).into()),
    ("capacity", |s| s.filter.capacity_items_in(s.now).into()),
    ("items", |s| s.filter.items_in(s.now).into()),
    ("estimated-items", |s| FieldValue::about(s.whole.estimated_items)),
    ("set-bits", |s| s.of_bits(s.whole.set_bits.into())),
    ("fill", |s| s.of_bits(FieldValue::rounded(fill(s.whole.set_bits, s.whole.positions)))),
    ("error-rate", |s| error_rate(s.filter).into()),
    ("error-rate-max", |s| s.filter.error_rate_max().map_or(FieldValue::Null, FieldValue::rounded)),
    ("error-rate-now", |s| FieldValue::rounded(s.whole.error_rate)),
    ("bytes", |s| s.filter.size_bytes().into()),
    ("bits-per-item", |s| s.bits_per_item()),
    ("allocated-bytes", |s| s.allocated_bytes.into()),
    ("table-items", |s| s.of_table(|table| table.items)),
    ("table-bytes", |s| s.of_table(|table| table.size_bytes)),
    ("table-segments", |s| s.of_table(|table| table.segments)),
    ("void-entries", |s| s.of_table(|table| table.match_all_counts.void_entries)),
    ("saturated-buckets", |s| s.of_table(|table| table.match_all_counts.saturated_buckets)),
    ("expired-entries", |s| s.of_window(|table| table.expired_entries)),
    ("expired-bytes", |s| s.of_window(TableStats::expired_bytes)),
    ("steps", |s| s.filter.window().map(|window| window.span.steps().count()).into()),
    ("life-adds", |s| s.filter.window().map(|window| window.life_adds).into()),
    ("hashes", |s| s.of_bits(s.whole.probes.into())),
    ("growth", |s| s.growth().into()),
    ("expansion", |s| expansion(s.filter).into()),
    ("keyed", |s| FieldValue::Boolean(s.filter.is_keyed())),
    ("import-scheme", |s| {
        s.filter.clients_layer().map(|(layout, _)| layout.parameters().scheme.word()).into()
    }),
    ("import-encoding", |s| {
        s.filter.clients_layer().map(|(layout, _)| layout.parameters().encoding.word()).into()
    }),
    ("import-order", |s| s.filter.policy().imported().map(|policy| order_word(policy.form.order)).into()),
    ("advice", |s| s.advice.clone().into()),
];

impl<'f> KeyStats<'f> {
    /// Returns the statistics of the filter under `key` at the generation `now`. O(layers): some microseconds for a paged layer, and up to a
    /// hundred microseconds if the filter has advice.
    fn of(key: &[u8], filter: &'f Filter, now: Generation, allocated_bytes: u64) -> Self {
        let (layers, table, whole) = filter.stats(now);
        Self { filter, now, layers, table, whole, allocated_bytes, advice: advice(key, filter) }
    }

    /// Returns a value for the bits of the filter; null if it has none.
    fn of_bits(&self, value: FieldValue) -> FieldValue {
        if self.layers.is_empty() { FieldValue::Null } else { value }
    }

    /// Returns a number of the table; null if there is none.
    fn of_table(&self, number: fn(&TableStats) -> u64) -> FieldValue {
        self.table.as_ref().map(number).into()
    }

    /// Returns a number of the table of a sliding-window filter; null for other filters.
    fn of_window(&self, number: fn(&TableStats) -> u64) -> FieldValue {
        if self.filter.window().is_some() { self.of_table(number) } else { FieldValue::Null }
    }

    fn bits_per_item(&self) -> FieldValue {
        let table_bits = self.table.as_ref().map_or(0, |table| table.size_bytes.saturating_mul(8));
        let size_bits = self.whole.size_bits.saturating_add(table_bits);
        match self.filter.items_in(self.now) {
            0 => FieldValue::Null,
            items => FieldValue::rounded(size_bits as f64 / items as f64),
        }
    }

    fn growth(&self) -> &'static str {
        match self.filter.growth() {
            Growth::Fixed => "fixed",
            Growth::Saturating => "saturating",
            Growth::Scaling { .. } | Growth::Unreserved { .. } => "scaling",
        }
    }

    fn write(&self, reply: &mut impl Reply) {
        reply.map(STATS_FIELDS.len().saturating_add(1));
        for (name, value) in &STATS_FIELDS {
            reply.simple(name);
            value(self).write(reply);
        }
        reply.simple("per-layer");
        reply.array(self.layers.len());
        for (index, layer) in self.layers.iter().enumerate() {
            self.write_layer(index, layer, reply);
        }
    }

    fn write_layer(&self, index: usize, layer: &BitsStats, reply: &mut impl Reply) {
        let fields: [(_, FieldValue); 11] = [
            ("placement", self.filter.layers().get(index).map(|layer| self.placement(layer)).into()),
            ("bits", layer.size_bits.into()),
            ("bytes", layer.size_bytes.into()),
            ("hashes", u64::from(layer.probes).into()),
            ("capacity", layer.capacity_items.into()),
            ("items", layer.items.into()),
            ("estimated-items", FieldValue::about(layer.estimated_items)),
            ("set-bits", layer.set_bits.into()),
            ("fill", FieldValue::rounded(fill(layer.set_bits, layer.positions))),
            ("error-rate", self.filter.policy().sized_error_rate(self.filter.layers(), index).into()),
            ("error-rate-now", FieldValue::rounded(layer.error_rate)),
        ];
        reply.map(fields.len());
        for (name, value) in &fields {
            reply.simple(name);
            value.write(reply);
        }
    }

    /// Returns the word for the layout of a layer. In a union it is the word for its hash.
    fn placement(&self, layer: &Layer) -> &'static str {
        if self.filter.kind() == Kind::Union {
            return owner(layer);
        }
        match layer.layout() {
            Layout::Scattered(_) => "scattered",
            Layout::Paged(_) => "paged",
            Layout::Modulo(_) | Layout::Prime(_) => "double hashing",
            Layout::Scheme(layout) => layout.parameters().scheme.word(),
        }
    }
}
