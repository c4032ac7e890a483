//! What must be found in a filter.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use everbloom_filter::table::COUNT_MAX;

use super::Key;

/// An item of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// How often it was added and not deleted, at least.
    pub count: u64,
    /// The moment at which its window begins, or a later one.
    pub from_ms: u64,
    /// A moment at which its window begins, or an earlier one.
    pub last_ms: u64,
    /// When it was last added without a life of its own.
    pub seen_ms: u64,
    /// The number of the item in the order of the first adds.
    pub number: u64,
}

/// What is known about the filter under a key.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub items: BTreeMap<Vec<u8>, Item>,
    /// The items by their numbers, the oldest first.
    pub ages: BTreeMap<u64, Vec<u8>>,
    /// What BF.CARD returns, if it is known.
    pub cardinality: Option<u64>,
    /// Whether the filter has no item besides these.
    pub is_whole: bool,
    /// Whether a merge was forced, or brought counts or layers of other filters.
    pub is_merged: bool,
    /// When the newest item was added; 0 before the first.
    pub newest_ms: u64,
    /// A moment that is not before the newest item.
    pub latest_ms: u64,
    next: u64,
}

/// Something that was acknowledged.
#[derive(Clone, Debug)]
pub enum Event {
    /// A key has a filter without items.
    Started { key: Key },
    /// An item was added `count` times. Its window begins at `from_ms`, when it was also seen unless it has a life of its
    /// own. The filter's time is not before `at_ms`.
    Added { key: Key, item: Vec<u8>, count: u64, at_ms: u64, from_ms: u64, is_seen: bool },
    /// An item was deleted once.
    Removed { key: Key, item: Vec<u8> },
    /// BF.CARD returns this number, if it is known.
    Counted { key: Key, cardinality: Option<u64> },
    /// Another filter was merged, with items up to this moment.
    Merged { key: Key, is_whole: bool, latest_ms: u64 },
    /// A key got a copy of a filter.
    Copied { key: Key, known: Box<Known> },
    /// A filter may have other items, or lacks some of these.
    Vague { key: Key },
    /// A key was deleted.
    Ended { key: Key },
}

impl Event {
    /// Returns whether the key has another value since then, or none.
    pub fn is_replaced(&self) -> bool {
        matches!(self, Self::Started { .. } | Self::Copied { .. } | Self::Vague { .. } | Self::Ended { .. })
    }

    pub fn key(&self) -> &Key {
        match self {
            Self::Started { key }
            | Self::Added { key, .. }
            | Self::Removed { key, .. }
            | Self::Counted { key, .. }
            | Self::Merged { key, .. }
            | Self::Copied { key, .. }
            | Self::Vague { key }
            | Self::Ended { key } => key,
        }
    }
}

impl Known {
    /// Returns what is known about a new filter.
    fn started() -> Self {
        Self { cardinality: Some(0), is_whole: true, ..Self::default() }
    }

    /// Applies what was acknowledged.
    pub fn apply(all: &mut BTreeMap<Key, Self>, event: &Event) {
        let key = event.key();
        match event {
            Event::Started { .. } => drop(all.insert(key.clone(), Self::started())),
            Event::Copied { known, .. } => drop(all.insert(key.clone(), (**known).clone())),
            Event::Vague { .. } => drop(all.insert(key.clone(), Self::default())),
            Event::Ended { .. } => drop(all.remove(key)),
            _ => {}
        }
        let Some(known) = all.get_mut(key) else { return };
        match event {
            Event::Added { item, count, at_ms, from_ms, is_seen, .. } => {
                let seen_ms = if *is_seen { *from_ms } else { 0 };
                // If the clock went back, the window begins with the newest item of the filter.
                let last_ms = *from_ms + known.latest_ms.saturating_sub(*at_ms);
                known.add(item, *count, *from_ms..=last_ms, seen_ms);
                // An item with a life of its own is stored as if it had been added earlier, and only that time is kept.
                known.newest_ms = known.newest_ms.max(if *is_seen { *at_ms } else { *from_ms });
                if !*is_seen {
                    known.latest_ms = known.latest_ms.max(*at_ms);
                }
            }
            Event::Removed { item, .. } => known.remove(item),
            Event::Counted { cardinality, .. } => known.cardinality = *cardinality,
            Event::Merged { is_whole, latest_ms, .. } => {
                known.is_whole &= is_whole;
                known.is_merged = true;
                known.latest_ms = known.latest_ms.max(*latest_ms);
            }
            _ => {}
        }
    }

    fn add(&mut self, item: &[u8], count: u64, from_ms: RangeInclusive<u64>, seen_ms: u64) {
        let number = self.next;
        let (from_ms, last_ms) = from_ms.into_inner();
        let new = Item { count: 0, from_ms, last_ms, seen_ms, number };
        let known = self.items.entry(item.to_vec()).or_insert(new);
        known.count = (known.count + count).min(COUNT_MAX);
        (known.from_ms, known.last_ms) = (known.from_ms.max(from_ms), known.last_ms.max(last_ms));
        known.seen_ms = known.seen_ms.max(seen_ms);
        if known.number == number {
            self.ages.insert(number, item.to_vec());
            self.next += 1;
        }
    }

    fn remove(&mut self, item: &[u8]) {
        let Some(known) = self.items.get_mut(item) else { return };
        known.count -= 1;
        if known.count == 0 {
            let known = self.items.remove(item).unwrap();
            self.ages.remove(&known.number);
        }
    }

    /// Keeps what a dump of the filter under `from` must have in the copy under `to` after a change of either: items that are
    /// there all the time. The copy can be added to from its last chunk on.
    pub fn keep(&mut self, from: &[u8], to: &[u8], event: &Event) {
        let is_added_to_copy = event.key() == to && matches!(event, Event::Added { .. });
        if event.key() != from && !is_added_to_copy {
            return;
        }
        match event {
            // A chunk may have the item or not, and the time of the add.
            Event::Added { item, at_ms, from_ms, .. } => {
                self.latest_ms = self.latest_ms.max(self.newest_ms).max(*at_ms);
                // The copy has the time of the dumped filter, if the clock went back.
                let last_ms = *from_ms + (self.latest_ms - *at_ms);
                let Some(known) = self.items.get_mut(item) else { return };
                known.last_ms = known.last_ms.max(last_ms);
            }
            Event::Removed { item, .. } => self.remove(item),
            Event::Counted { .. } => {}
            Event::Merged { latest_ms, .. } => {
                (self.is_whole, self.latest_ms) = (false, self.latest_ms.max(*latest_ms));
            }
            _ => *self = Self::default(),
        }
    }

    /// Returns the known item that follows `item`, or the first one.
    pub fn pick(&self, item: &[u8]) -> Option<Vec<u8>> {
        let mut range = self.items.range(item.to_vec()..);
        range.next().or_else(|| self.items.iter().next()).map(|(item, _)| item.clone())
    }

    /// Keeps a few of many items.
    pub fn thin(&mut self, most: usize) {
        let (keep, mut number) = (self.items.len() / most + 1, 0);
        self.items.retain(|_, _| {
            number += 1;
            number % keep == 0
        });
        self.ages.retain(|_, item| self.items.contains_key(item));
    }

    /// Returns the items that were first added before all others.
    pub fn oldest(&self, most: usize) -> Vec<Vec<u8>> {
        self.ages.values().take(most).cloned().collect()
    }
}
