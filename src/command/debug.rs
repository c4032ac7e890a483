//! BF.DEBUG.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::fields::{order_word, owner};
use super::keyspace::{Keyspace, ReadKey, Reply};
use super::number::six_digits;
use super::words::Word;
use everbloom_filter::bits::layout::{LayerParameters, SchemeLayout};
use everbloom_filter::filter::policy::RedisBloom;
use everbloom_filter::generation::Generation;
use everbloom_filter::hash::scheme::SchemeParameters;
use everbloom_filter::{Filter, Kind, Layer, Layout, Table};

/// BF.DEBUG: `key`. Replies the number of items, a line per layer, and a line about the table. O(layers).
pub(super) fn debug<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = keyspace.open_to_read(arguments.key()?);
    let filter = key.slot().required()?;
    let now = filter.generation_at(|| keyspace.now_ms());
    reply.array(filter.part_count().saturating_add(1));
    reply.bulk(format!("size:{}", filter.items_in(now)).as_bytes());
    for (index, layer) in filter.layers().iter().enumerate() {
        reply.bulk(line(filter, index, layer).as_bytes());
    }
    if let Some(table) = filter.table() {
        reply.bulk(table_line(filter, table, now).as_bytes());
    }
    Ok(Effects::default())
}

/// Returns the line about a layer. For RedisBloom's filters it is the line of RedisBloom. The other lines use its words
/// with the same meaning.
fn line(filter: &Filter, index: usize, layer: &Layer) -> String {
    if filter.kind() == Kind::Union {
        return united_line(layer);
    }
    if let Some(policy) = filter.policy().redisbloom() {
        return redisbloom_line(policy, layer);
    }
    match layer.layout() {
        Layout::Scattered(_) | Layout::Paged(_) => own_line(filter, index, layer),
        Layout::Scheme(layout) => scheme_line(filter, &layout, layer),
        Layout::Modulo(_) | Layout::Prime(_) => plain(layer),
    }
}

/// Returns bytes, bits, hashes, capacity, size and set bits of a layer.
fn plain(layer: &Layer) -> String {
    format!("{} {}", space(layer), fill(layer))
}

/// Returns bytes, bits and hashes of a layer.
fn space(layer: &Layer) -> String {
    let bits = layer.bits();
    let probes = layer.layout().probes();
    format!("bytes:{} bits:{} hashes:{probes}", bits.size_bytes(), bits.size_bits())
}

/// Returns capacity, size and set bits of a layer.
fn fill(layer: &Layer) -> String {
    let counts = layer.counts();
    format!("capacity:{} size:{} set:{}", layer.capacity_items(), counts.items, counts.set_bits)
}

/// Returns the line about a layer of everbloom's own format. The ratio is the error rate for which the layer was
/// sized. For a merged layer it is the error rate when the layer is full.
fn own_line(filter: &Filter, index: usize, layer: &Layer) -> String {
    let Some(shape) = layer.shape() else { return plain(layer) };
    let rate = six_digits(
        filter.policy().sized_error_rate(filter.layers(), index).unwrap_or_else(|| shape.full_rate()),
    );
    let layout = match shape.lines {
        0 => format!("layout:scattered lines:{}", shape.probes),
        lines => format!("layout:paged lines:{lines}"),
    };
    format!("{} {layout} {} ratio:{rate}", space(layer), fill(layer))
}

/// Returns the line about the table at the generation `now`. The ratio is its current error rate.
fn table_line(filter: &Filter, table: &Table, now: Generation) -> String {
    let stats = table.stats(now);
    let expired = match filter.window() {
        Some(window) => format!(" expired:{} window:{}", stats.expired_entries, window.span.ms()),
        None => String::new(),
    };
    format!(
        "bytes:{} segments:{} slots:{} size:{} void:{} saturated:{}{expired} ratio:{}",
        stats.size_bytes,
        stats.segments,
        table.used_slots(),
        stats.items,
        stats.match_all_counts.void_entries,
        stats.match_all_counts.saturated_buckets,
        six_digits(stats.error_rate),
    )
}

/// Returns the line about an imported layer, which also has its scheme and its current error rate.
fn scheme_line(filter: &Filter, layout: &SchemeLayout, layer: &Layer) -> String {
    let SchemeParameters { scheme, encoding, shift, probes, size_bits } = layout.parameters();
    let Some(policy) = filter.policy().imported() else { return plain(layer) };
    let counts = layer.counts();
    format!(
        "bytes:{} bits:{size_bits} hashes:{probes} scheme:{} encoding:{} shift:{shift} order:{} capacity:{} size:{} \
         estimated:{} set:{} ratio:{}",
        layer.bits().size_bytes(),
        scheme.word(),
        encoding.word(),
        order_word(policy.form.order),
        layer.capacity_items(),
        counts.items,
        policy.estimated_items,
        counts.set_bits,
        six_digits(layer.error_rate_now()),
    )
}

/// Returns the line about a layer of a union, which also has its origin and its current error rate.
fn united_line(layer: &Layer) -> String {
    let rate = six_digits(layer.error_rate_now());
    format!("{} scheme:{} {} ratio:{rate}", space(layer), owner(layer), fill(layer))
}

/// Returns RedisBloom's line about a layer.
fn redisbloom_line(policy: &RedisBloom, layer: &Layer) -> String {
    let Some(parameters) = LayerParameters::of_layer(layer) else { return plain(layer) };
    let hash_width = if policy.options().has_wide_hash() { 64 } else { 32 };
    format!(
        "bytes:{} bits:{} hashes:{} hashwidth:{hash_width} capacity:{} size:{} ratio:{}",
        layer.bits().size_bytes(),
        parameters.shown_bits(),
        parameters.probes,
        parameters.capacity_items,
        layer.counts().items,
        six_digits(parameters.error_rate),
    )
}
