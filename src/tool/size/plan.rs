//! Which filters are compared: of each module, and with a window what stands for one in the modules that have none.

use everbloom::{CreateError, Format, Growth, LayerSize, Options, layer_sizes, window_layer_sizes};

use crate::options::{expansion_words, window_words};
use crate::partitions;

/// Capacity of a filter that nobody reserved, in all three modules.
const CAPACITY_DEFAULT_ITEMS: u64 = 100;
/// Filters that one with a window is compared with, one for each seventh of it.
const ROTATING: u64 = 7;

/// What the filters are to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Items, with a window those of each window.
    pub(super) items: u64,
    pub(super) error_rate: f64,
    pub(super) expansion: u32,
    pub(super) window_ms: Option<u64>,
    pub(super) partitions: Option<u32>,
}

/// A filter, or several that together hold the items.
pub(super) struct Plan {
    pub(super) module: &'static str,
    pub(super) filter: &'static str,
    /// Filters that hold the items together, all alike.
    pub(super) keys: u64,
    /// How many of them are asked for an item.
    pub(super) asked: u64,
    /// Layers of each.
    pub(super) layers: Result<Vec<LayerSize>, CreateError>,
    /// What makes it.
    pub(super) command: String,
}

const MODULES: [(&str, Format); 3] = [
    ("everbloom", Format::Everbloom),
    ("RedisBloom", Format::RedisBloom),
    ("valkey-bloom", Format::ValkeyBloom),
];

impl Wanted {
    /// All filters that are compared; the first is the one that this module is for.
    pub(super) fn plans(&self) -> Vec<Plan> {
        let filters = |(module, format): (&'static str, Format)| match (self.window_ms, format) {
            (Some(_), Format::RedisBloom | Format::ValkeyBloom) => vec![self.rotating(module, format)],
            _ => ["reserved", "fixed", "grown"].map(|filter| self.filter(module, format, filter)).into(),
        };
        MODULES.into_iter().flat_map(filters).collect()
    }

    /// Items of one partition, or all.
    pub(super) fn items_per_key(&self) -> u64 {
        self.partitions.map_or(self.items, |count| partitions::capacity_items(self.items, count))
    }

    fn filter(&self, module: &'static str, format: Format, filter: &'static str) -> Plan {
        let items = self.items_per_key();
        let growing = Growth::Scaling { expansion: self.expansion };
        let (capacity_items, growth) = match filter {
            "fixed" => (items, Growth::Fixed),
            "grown" => (CAPACITY_DEFAULT_ITEMS, growing),
            _ => (items, growing),
        };
        let options = Options { error_rate: self.error_rate, capacity_items, growth };
        let layers = match self.window_ms {
            Some(_) => window_layer_sizes(options, items),
            None => layer_sizes(format, options, items),
        };
        let mut words = match growth {
            Growth::Fixed => vec!["NONSCALING".to_owned()],
            _ => expansion_words(Some(self.expansion).filter(|expansion| *expansion != 2)),
        };
        words.extend(window_words(self.window_ms));
        let key = self.key(String::new);
        let command = if filter == "grown" && self.window_ms.is_none() {
            format!("BF.ADD {key} item")
        } else {
            reserve(&key, self.error_rate, capacity_items, &words)
        };
        Plan { module, filter, keys: self.partitions.unwrap_or(1).into(), asked: 1, layers, command }
    }

    /// Filters for each seventh of the window and the current one, all of which are asked: so that the rates of all eight
    /// add up to what may be. None of them grows, lest its rate did.
    fn rotating(&self, module: &'static str, format: Format) -> Plan {
        let filters = ROTATING + 1;
        let error_rate = self.error_rate / filters as f64;
        let capacity_items = self.items_per_key().div_ceil(ROTATING);
        let options = Options { error_rate, capacity_items, growth: Growth::Fixed };
        let key = self.key(|| ":1".to_owned());
        Plan {
            module,
            filter: "rotating",
            keys: filters * u64::from(self.partitions.unwrap_or(1)),
            asked: filters,
            layers: layer_sizes(format, options, capacity_items),
            command: reserve(&key, error_rate, capacity_items, &["NONSCALING".to_owned()]),
        }
    }

    /// The key of the first filter.
    fn key(&self, mark: impl Fn() -> String) -> String {
        let name = format!("key{}", mark());
        if self.partitions.is_some() { partitions::key(&name, 0) } else { name }
    }
}

fn reserve(key: &str, error_rate: f64, capacity_items: u64, words: &[String]) -> String {
    let words: String = words.iter().map(|word| format!(" {word}")).collect();
    format!("BF.RESERVE {key} {error_rate} {capacity_items}{words}")
}
