//! What must hold after each step.

use everbloom_filter::bits::estimate::deviation;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{Filter, Kind, Validation};

use super::{World, print_of};
use crate::saved::{assert_cuckoo_survives, assert_survives, assert_value_survives};
use crate::slices;
use crate::work::defragment;

/// The most items of a filter that are looked up after a step.
const ASKED: usize = 256;
/// The most items whose counts are asked for.
const COUNTED: usize = 4;
/// The number of checks between two saves of everything in every way.
const SAVED: u64 = 64;

/// Asserts that a filter keeps all rules, and that absent items are found at most as often as its statistics say.
fn assert_keeps_promise(filter: &Filter, context: &str) {
    assert_eq!(filter.internal_validate(Validation::Contents), Ok(()), "{context}");
    let Some(promised) = filter.error_rate_max() else { return };
    let (.., stats) = filter.stats(filter.now());
    // By chance the items of a small layer set more bits than the average.
    let noise = filter.layers().iter().map(|layer| {
        let (items, probes) = (layer.counts().items.max(1) as f64, layer.layout().probes());
        4.0 * f64::from(probes) * deviation(items, layer.positions(), probes) / items
    });
    let most = promised * (1.0001 + noise.fold(0.0, f64::max));
    assert!(stats.error_rate <= most, "{context}: {} of {promised}", stats.error_rate);
    let probes = 4_000u64;
    let is_found = |probe: &u64| filter.contains(&(u64::MAX - probe).to_le_bytes(), NoPrefetch);
    let found = (0..probes).filter(is_found).count();
    assert_chance(found, stats.error_rate * probes as f64, context);
}

/// Asserts that at most so many of absent items are found as chance explains.
fn assert_chance(found: usize, expected: f64, context: &str) {
    assert!(
        found as f64 <= expected + 6.0 * expected.sqrt() + 4.0,
        "{context}: {found} of {expected} expected"
    );
}

impl World {
    /// Returns the window of a filter of the primary.
    pub fn window_ms(&self, key: &[u8]) -> Option<u64> {
        Some(self.filter(key)?.window()?.span.ms())
    }

    /// Returns a moment that is not before the time of a filter of the primary. If a clock goes back, that time stands
    /// still.
    pub fn latest_time(&self, key: &[u8]) -> u64 {
        let newest_ms = self.known.get(key).map_or(0, |known| known.newest_ms.max(known.latest_ms));
        if self.window_ms(key).is_some() { self.now_ms().max(newest_ms) } else { self.now_ms() }
    }

    /// Returns whether an item was acknowledged, and has not expired.
    pub fn must_be_found(&self, key: &[u8], item: &[u8]) -> bool {
        let Some(known) = self.known.get(key).and_then(|known| known.items.get(item)) else { return false };
        self.is_live(key, known.from_ms)
    }

    fn is_live(&self, key: &[u8], from_ms: u64) -> bool {
        let window_ms = self.window_ms(key).unwrap_or(u64::MAX);
        self.latest_time(key).saturating_sub(from_ms) <= window_ms
    }

    /// Checks everything that must hold after a step.
    pub fn check(&mut self) {
        self.checks += 1;
        let refused = self.refused.take();
        let keys: Vec<Vec<u8>> = self.known.keys().cloned().collect();
        let bytes = keys.iter().map(|key| self.size_bytes(key)).sum();
        let is_due = self.affords(bytes);
        let effort_bytes = std::mem::take(&mut self.effort_bytes);
        keys.iter().for_each(|key| self.check_key(key));
        self.effort_bytes = effort_bytes;
        if is_due {
            self.check_replicas();
            if self.checks.is_multiple_of(SAVED) {
                self.check_saves();
            }
        }
        self.refused = refused;
    }

    /// Checks everything at the end of a history, also what takes longer.
    pub fn check_all(&mut self) {
        self.check();
        for key in self.known.keys().cloned().collect::<Vec<_>>() {
            let items: Vec<Vec<u8>> = self.known[&key].items.keys().cloned().collect();
            if self.filter(&key).is_some() {
                items.chunks(10_000).for_each(|items| self.ask(&key, items));
            }
        }
        self.check_replicas();
        self.check_saves();
    }

    /// Asserts that every server that has all commands has the same filters.
    fn check_replicas(&self) {
        let state = self.server().state();
        for (number, node) in self.nodes.iter().enumerate() {
            if node.offset == self.history.len() {
                assert!(node.server.state() == state, "server {number} differs from {}", self.primary);
            }
        }
        for (key, print) in &self.seen {
            let is_same = print_of(self.server(), key) == Some(*print);
            assert!(is_same, "{} has changed without a command", key.escape_ascii());
        }
    }

    /// Asserts that every way to save the primary's filters gives the same ones, and that the callbacks of the server cost
    /// what is stored.
    fn check_saves(&mut self) {
        let server = self.server_mut();
        for (key, value) in &mut server.keys {
            let name = key.escape_ascii().to_string();
            match value {
                FilterValue::Complete(filter) => assert_survives(filter, &name),
                FilterValue::Loading(_) => assert_value_survives(value, &name),
            }
            let bytes = value.size_bytes();
            defragment(value, bytes, &name);
        }
        for (key, filter) in &server.cuckoos {
            assert_cuckoo_survives(filter, &key.escape_ascii().to_string());
        }
    }

    /// Checks one key: some of many items at a time.
    fn check_key(&mut self, key: &[u8]) {
        let name = key.escape_ascii().to_string();
        assert!(self.has(key), "{name} is lost");
        let known = &self.known[key];
        let first = known.pick(&self.checks.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        let all = known.items.len();
        let from = if all > ASKED { first.unwrap_or_default() } else { Vec::new() };
        let asked: Vec<_> =
            known.items.range(from..).take(ASKED).map(|(item, known)| (item.clone(), *known)).collect();
        let (cardinality, is_whole, is_merged) = (known.cardinality, known.is_whole, known.is_merged);
        let live: Vec<&Vec<u8>> = asked
            .iter()
            .filter(|(_, known)| self.is_live(key, known.from_ms))
            .map(|(item, _)| item)
            .collect();
        let is_cuckoo = self.server().cuckoos.contains_key(key);
        if !live.is_empty() {
            let command: &[u8] = if is_cuckoo { b"CF.MEXISTS" } else { b"BF.MEXISTS" };
            let reply = self.server_mut().call(&[&[command, key], &slices(&live)[..]].concat());
            let words = self.server().reply.iter().skip(1);
            let missing = words.enumerate().find(|(_, word)| *word != "#t" && *word != ":1");
            let missing = missing.map(|(number, _)| live[number].escape_ascii().to_string());
            assert_eq!(missing, None, "lost from {name}: {}", reply.get(..200).unwrap_or(&reply));
        }
        // The number of items of a window depends on the time.
        let cardinality = cardinality.filter(|_| !self.has_waited || self.window_ms(key).is_none());
        let items = match (self.server().keys.get(key), self.server().cuckoos.get(key)) {
            (Some(FilterValue::Complete(filter)), _) => filter.items(),
            (_, Some(filter)) => filter.items(),
            _ => return,
        };
        assert!(
            cardinality.is_none_or(|cardinality| cardinality == items),
            "{name}: {items}, {cardinality:?}"
        );
        let Some(filter) = self.filter(key) else {
            live.iter().take(COUNTED).for_each(|item| _ = self.count(key, item));
            return;
        };
        if let Some(window) = filter.window() {
            // One generation is for rounding, and one because an add may lie anywhere in its generation.
            let longest_ms = window.span.ms() + 2 * window.span.generation_ms() + 2;
            let now_ms = self.now_ms();
            let expired = asked.iter().filter(|(_, known)| now_ms.saturating_sub(known.last_ms) > longest_ms);
            let found: Vec<bool> =
                expired.map(|(item, _)| filter.contains_at(item, now_ms, NoPrefetch)).collect();
            let count = found.iter().filter(|is_found| **is_found).count();
            if is_whole && !found.is_empty() {
                let rate = filter.stats(filter.now()).2.error_rate;
                assert_chance(count, rate * found.len() as f64, &format!("expired items of {name}"));
            }
            let within_ms = window.span.ms() / 4;
            let lately: Vec<Vec<u8>> = live.into_iter().take(COUNTED).cloned().collect();
            return self.ask_lately(key, within_ms, &lately);
        }
        if filter.kind() == Kind::Counting {
            live.iter().take(COUNTED).for_each(|item| _ = self.count(key, item));
        }
        self.rate_effort += 1;
        let filter = self.filter(key).unwrap();
        if self.rate_effort > 100 + filter.items() / 8 && !is_merged {
            assert_keeps_promise(filter, &name);
            self.rate_effort = 0;
        }
    }

    /// Asserts that at most a small share of the oldest items of a counting filter has a wrong count.
    pub fn check_oldest(&mut self, key: &[u8], rate: f64) {
        let oldest = self.known[key].oldest(500);
        let known = &self.known[key].items;
        let counts: Vec<u64> = oldest.iter().map(|item| known[item].count).collect();
        let wrong =
            oldest.iter().zip(&counts).filter(|(item, count)| self.count(key, item) != **count).count();
        assert_chance(wrong, 2.5 * rate * oldest.len() as f64, "counts of the oldest items");
    }
}
