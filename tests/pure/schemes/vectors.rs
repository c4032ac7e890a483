//! Reads the recordings.

use std::sync::LazyLock;

use data_encoding::{BASE64, HEXLOWER};
use everbloom_filter::bits::layout::SchemeLayout;
use everbloom_filter::bits::layout::probing::{Position, Probing};
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::filter::policy::{BitOrder, StringForm};
use everbloom_filter::hash::scheme::{Scheme, SchemeParameters};
use everbloom_filter::hash::scheme_hash::SchemeHash;
use everbloom_filter::limits::CAPACITY_MAX_ITEMS;
use everbloom_filter::{AddError, BitArray, Filter, Growth};
use serde_json::Value;

use crate::support::make::{add, client, contains, imported, set_bits};

/// The recordings of one system.
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) scheme: Scheme,
    pub(crate) encoding: ItemEncoding,
    pub(crate) shift: u8,
    pub(crate) json: &'static Value,
}

/// Returns every recorded system.
pub(crate) fn systems() -> Vec<System> {
    let raw = ItemEncoding::Raw;
    [
        ("murmur3-salted", Scheme::Murmur3Salted, raw, 0),
        ("go-zero", Scheme::GoZero, raw, 0),
        ("fnv32a-salted", Scheme::Fnv32aSalted, raw, 0),
        ("guava-mitz32", Scheme::GuavaMitz32, raw, 0),
        ("guava-mitz64", Scheme::GuavaMitz64, raw, 0),
        ("guava-mitz64-shift6", Scheme::GuavaMitz64, raw, 6),
        ("murmur3-x86-128-mitz64", Scheme::Murmur3X86Mitz64, raw, 0),
        ("csharp-netfx-mitz64", Scheme::CsharpNetfxMitz64, raw, 0),
        ("php-bkdr-js-sdbm", Scheme::PhpBkdrJsSdbm, raw, 0),
        ("redisson-string-codec", Scheme::Redisson, raw, 0),
        ("redisson-kryo5-codec", Scheme::Redisson, ItemEncoding::Kryo5String, 0),
        ("redisson-json-codec", Scheme::Redisson, ItemEncoding::JsonString, 0),
    ]
    .into_iter()
    .map(|(name, scheme, encoding, shift)| System { name, scheme, encoding, shift, json: recording(name) })
    .collect()
}

/// Returns the system with a name.
pub(crate) fn system(name: &str) -> System {
    systems().into_iter().find(|system| system.name == name).unwrap()
}

impl System {
    /// Returns the layout of the scheme with these bits and probes.
    pub(crate) fn layout(&self, size_bits: u64, probes: u32) -> SchemeLayout {
        let Self { scheme, encoding, shift, .. } = *self;
        let parameters = SchemeParameters { scheme, encoding, shift, probes, size_bits };
        SchemeLayout::new(parameters).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Returns the layout of the scheme with the `m` and `k` of an object.
    pub(crate) fn layout_of(&self, object: &Value) -> SchemeLayout {
        self.layout(object["m"].as_u64().unwrap(), number(&object["k"]))
    }

    /// Returns the recorded string, which is a field in base64.
    pub(crate) fn string(&self, pointer: &str) -> Vec<u8> {
        BASE64.decode(self.json.pointer(pointer).unwrap().as_str().unwrap().as_bytes()).unwrap()
    }

    /// Returns the members or queries of the recorded bitmap.
    pub(crate) fn items(&self, list: &str) -> Vec<Vec<u8>> {
        let set = self.json["bitmap"]["set"].as_str().unwrap();
        let set = set.strip_prefix("_sets.json#").unwrap();
        recording("_sets")[set][list].as_array().unwrap().iter().map(hex).collect()
    }
}

/// Returns the recording with a name.
pub(crate) fn recording(name: &str) -> &'static Value {
    static ALL: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(include_str!("../../fixtures/clients.json")).unwrap());
    &ALL[name]
}

/// Returns the bytes of a hexadecimal string.
pub(crate) fn hex(value: &Value) -> Vec<u8> {
    HEXLOWER.decode(value.as_str().unwrap().as_bytes()).unwrap()
}

/// Returns the numbers of an array.
pub(crate) fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

/// Returns a small number.
pub(crate) fn number(value: &Value) -> u32 {
    value.as_u64().unwrap().try_into().unwrap()
}

/// Returns all positions of an item.
pub(crate) fn positions(layout: &SchemeLayout, item: &[u8]) -> Vec<u64> {
    let SchemeParameters { scheme, encoding, .. } = layout.parameters();
    let hash = SchemeHash::of_item(scheme, encoding, item).unwrap();
    layout.lines_of(hash, layout.array_bits()).map(|Position(position)| position).collect()
}

/// A client's array: an imported filter that never grows.
pub(crate) struct Array(Filter);

impl Array {
    /// Returns an array with these bits.
    pub(crate) fn new(layout: SchemeLayout, bits: BitArray) -> Self {
        let form = StringForm { order: BitOrder::Msb, length_bytes: 0 };
        let policy = imported(form, 0.01, Growth::Fixed);
        Self(Filter::import(layout, bits, CAPACITY_MAX_ITEMS, policy).unwrap())
    }

    /// Returns an array without items.
    pub(crate) fn empty(layout: SchemeLayout) -> Self {
        Self(client(layout.parameters(), CAPACITY_MAX_ITEMS, Growth::Fixed))
    }

    /// Returns the bits.
    pub(crate) fn bits(&self) -> &BitArray {
        self.0.layers()[0].bits()
    }

    /// Returns whether the item may be in the filter.
    pub(crate) fn contains(&self, item: &[u8]) -> bool {
        contains(&self.0, item)
    }

    /// Adds the item. Returns how many of its bits were clear.
    pub(crate) fn insert(&mut self, item: &[u8]) -> Result<u64, AddError> {
        let set_before = set_bits(&self.0);
        add(&mut self.0, item)?;
        Ok(set_bits(&self.0) - set_before)
    }
}
