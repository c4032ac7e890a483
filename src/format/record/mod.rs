//! The record of a filter of everbloom's own format: everything but its bits and entries. It has a part for the policy,
//! a part for each layer, the oldest first, and a part for the table. docs/formats.md has the bytes.
//!
//! The record is the header of a dump, also for valkey-bloom's filters, and the first string of a snapshot.

mod layer;
mod policy;
mod table;

use layer::{LayerFields, PlannedLayer};
use policy::PolicyFields;
use table::TableFields;

use super::client::GuavaHeader;
use super::stream::{DecodeError, append, checked_layers};
use everbloom_filter::filter::policy::BitOrder;
use everbloom_filter::{ByteLimit, Filter, Footprint, GrowthBudget, Layer, Table};

pub use layer::LAYER_BYTES;
pub use policy::POLICY_BYTES;
pub use table::{TABLE_BYTES, TableRecord};

/// Returns the record of a filter. O(layers).
#[must_use]
pub fn encode(filter: &Filter) -> Vec<u8> {
    let of_table = |table: &Table| TableRecord { counts: table.counts(), used_slots: table.used_slots() };
    encode_with(filter, |_, layer| layer.counts().set_bits, filter.table().map(of_table))
}

/// Returns the record of a filter with the given numbers of set bits and this record of its table.
fn encode_with(
    filter: &Filter,
    set_bits: impl Fn(usize, &Layer) -> u64,
    table: Option<TableRecord>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(POLICY_BYTES + LAYER_BYTES * filter.layer_count() + TABLE_BYTES);
    append(&mut bytes, &PolicyFields::of(filter));
    for (index, layer) in filter.layers().iter().enumerate() {
        LayerFields::append(layer, set_bits(index, layer), &mut bytes);
    }
    if let (Some(record), Some(hash)) = (table, filter.table_hash()) {
        TableFields::append(record, filter.policy().table().kind, hash, &mut bytes);
    }
    bytes
}

/// A filter from a record. All its bits are clear, and its table is empty.
#[derive(Debug)]
pub struct Record {
    /// The filter.
    pub filter: Filter,
    /// The set bits of each layer, the oldest first, when the record was written.
    pub set_bits: Vec<u64>,
    /// What the record says of the table, if there is one.
    pub table: Option<TableRecord>,
}

/// Reads a whole record. Checks the size of everything before it allocates memory for layers, which is zeroed when it is
/// first used. Allocates nothing for a table. O(layers).
///
/// # Errors
/// The first wrong field, or [`DecodeError::TooLarge`] if the filter exceeds the limit.
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<Record, DecodeError> {
    let mut rest = bytes;
    let part = PolicyFields::read(&mut rest)?;
    let layer_count = checked_layers(part.layer_count.into(), if part.has_table() { 0 } else { 1 })?;
    let (mut planned, mut footprint) = (Vec::with_capacity(layer_count), Footprint::default());
    for _ in 0..layer_count {
        let layer = LayerFields::read(&mut rest, part.has_heads())?;
        footprint = footprint.with_layer_spec(&layer.spec);
        footprint.check(limit)?;
        planned.push(layer);
    }
    let policy = part.policy()?;
    let kind = policy.table().kind;
    let table = if part.has_table() { Some(TableFields::read(&mut rest, kind)?) } else { None };
    if !rest.is_empty() {
        return Err(DecodeError::Invalid("header length"));
    }
    if let Some((TableRecord { counts, used_slots }, _)) = &table {
        let room = GrowthBudget::new(limit);
        room.set_other_bytes(footprint.needed_bytes());
        room.check(counts.checked_bytes(kind, *used_slots)?)?;
    }
    let (mut layers, mut set_bits) = (Vec::with_capacity(layer_count), Vec::new());
    for PlannedLayer { spec, items, set_bits: set } in planned {
        let mut layer = Layer::try_new(spec)?;
        layer.set_items(items);
        layers.push(layer);
        set_bits.push(set);
    }
    let empty = table.map(|(record, hash)| (Table::empty_of(kind, &record.counts), hash));
    let table = table.map(|(record, _)| record);
    let filter = Filter::from_parts(policy, layers, empty).map_err(DecodeError::Invalid)?;
    if !has_possible_order(&filter) {
        return Err(DecodeError::Invalid("bit order"));
    }
    // Unused fields must be 0, so that each filter has a single valid record.
    let written = encode_with(&filter, |index, _| set_bits.get(index).copied().unwrap_or(0), table);
    if written == bytes {
        Ok(Record { filter, set_bits, table })
    } else {
        Err(DecodeError::Invalid("unused field"))
    }
}

/// Returns whether the client's string of an imported filter can have its order of bits: only Guava's strings have
/// [`BitOrder::BigEndianWords`]. Returns true for other filters.
fn has_possible_order(filter: &Filter) -> bool {
    let Some((policy, (layout, _))) = filter.policy().imported().zip(filter.clients_layer()) else {
        return true;
    };
    policy.form.order != BitOrder::BigEndianWords || GuavaHeader::of(&layout.parameters()).is_some()
}
