//! Runs sequences of commands on a few keys. Checks that no added item is missing, that BF.CARD is the number of adds
//! with the reply 1, and that a replica with another configuration has the same filters after every command.

use std::collections::HashMap;

use everbloom_command::{CuckooSettings, Protocol, Settings};
use everbloom_filter::{Filter, Format, Kind};

use super::input::Input;
use super::model::{Known, Pair};
use super::words::{KEYS, creation, number, word};
use crate::support::saved::chunks;
use crate::support::slices;

/// Largest number of commands of one input.
const COMMANDS_MAX: usize = 80;

/// Runs a sequence.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World { pair: Pair::new(settings(&mut input)), known: HashMap::new() };
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
    }
    world.pair.assert_in_step();
    for (key, known) in &world.known {
        known.check(world.pair.filter(key).unwrap());
    }
}

fn settings(input: &mut Input<'_>) -> Settings {
    let flags = input.byte();
    Settings {
        max_filter_bytes: *input.choose(&[1 << 10, 4 << 10, 16 << 10, 256 << 10, 1 << 20, 8 << 20]),
        initial_size_items: *input.choose(&[100, 1, 5, 30, 1000]),
        expansion_factor: *input.choose(&[2, 0, 1, 7]),
        format: *input.choose(&Format::ALL),
        missing_filter_is_error: flags & 1 != 0,
        auto_create: flags & 6 != 6,
        fixed_filters_saturate: flags & 8 != 0,
        keyed: flags & 16 != 0,
        cuckoo: CuckooSettings {
            bucket_size_slots: *input.choose(&[2, 1, 4, 255]),
            initial_size_items: *input.choose(&[1024, 4, 16]),
            expansion_factor: *input.choose(&[1, 0, 2, 32_768]),
            max_expansions: *input.choose(&[32, 2]),
            ..CuckooSettings::DEFAULT
        },
        ..Settings::DEFAULT
    }
}

struct World {
    pair: Pair,
    known: HashMap<Vec<u8>, Known>,
}

impl World {
    fn step(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let key = *input.choose(&KEYS);
        match choice % 28 {
            22 => {
                let options =
                    [["ERROR", "0.001"], ["BUCKETSIZE", "3"], ["EXPANSION", "0"], ["MAXITERATIONS", "1"]];
                let options = input.choose(&options).map(|word| word.as_bytes().to_vec());
                self.make(key, [&[b"100".to_vec()][..], &options].concat(), b"CF.RESERVE");
            }
            23..=25 => self.add_occurrences(key, input),
            26 => self.delete_occurrence(key, input),
            27 => self.count(key, &input.item()),
            0 | 1 => self.make(key, creation(input, false), b"BF.RESERVE"),
            2..=5 => self.add(key, &[b"BF.MADD", key], &input.items(40)),
            6 => self.add(key, &[b"BF.ADD", key], &[input.item()]),
            7 | 8 => {
                let words = creation(input, true);
                let mut argv: Vec<&[u8]> = vec![b"BF.INSERT", key];
                argv.extend(slices(&words));
                argv.push(b"ITEMS");
                let items = input.items(20);
                if words.iter().any(|word| word.eq_ignore_ascii_case(b"ITEMS")) {
                    // The words that follow ITEMS are items, even if they look like options.
                    self.pair.call_with(&argv, &items);
                    let items = self.known.remove(key).map(|known| known.items).unwrap_or_default();
                    if self.pair.filter(key).is_some() {
                        let found = self.found(key, items);
                        self.known.insert(key.to_vec(), found);
                    }
                } else {
                    self.add(key, &argv, &items);
                }
            }
            9 | 10 => self.delete(key, input),
            11 => {
                let reply = self.pair.call(&[b"BF.CLEAR", key]);
                if reply == "+OK" {
                    self.known.insert(key.to_vec(), Known { cardinality: Some(0), ..Known::default() });
                }
            }
            12 | 13 => self.merge(key, input),
            14 => {
                let to = *input.choose(&KEYS);
                self.copy(key, to);
            }
            15 => self.import(key, input),
            16 => {
                self.pair.remove(key);
                self.known.remove(key);
            }
            17 => self.pair.primary.settings = settings(input),
            20 | 21 => {
                let size_bytes = self.pair.filter(key).map_or(0, Filter::size_bytes);
                self.pair.primary.settings.max_filter_bytes = input.tight_limit_bytes(size_bytes);
            }
            18 => {
                let protocol = if input.flag() { Protocol::Resp3 } else { Protocol::Resp2 };
                self.pair.primary.protocol = protocol;
                let items = input.items(20);
                self.ask(key, &items);
            }
            _ => {
                let name =
                    *input.choose(&[&b"BF.INFO"[..], b"BF.CARD", b"BF.DEBUG", b"BF.SCANDUMP", b"BF.EXPORT"]);
                let word = word(input);
                let count = 2 + usize::from(input.flag());
                self.pair.call(&[name, key, &word][..count]);
            }
        }
        if let (Some(known), Some(filter)) = (self.known.get(key), self.pair.filter(key)) {
            known.check(filter);
        }
    }

    /// Returns the expected state of a filter that was not made by adds: these items, and the number of items that the
    /// filter itself reports.
    fn found(&self, key: &[u8], items: HashMap<Vec<u8>, u64>) -> Known {
        Known { items, cardinality: self.pair.filter(key).map(Filter::items) }
    }

    fn make(&mut self, key: &[u8], words: Vec<Vec<u8>>, name: &[u8]) {
        let is_there = self.pair.filter(key).is_some();
        self.pair.call_with(&[name, key], &words);
        if !is_there && self.pair.filter(key).is_some() {
            self.known.insert(key.to_vec(), Known { cardinality: Some(0), ..Known::default() });
        }
    }

    fn add(&mut self, key: &[u8], front: &[&[u8]], items: &[Vec<u8>]) {
        self.pair.call_with(front, items);
        let replies = self.pair.item_replies();
        let Some(filter) = self.pair.filter(key) else { return };
        let (is_counting, is_window) = (filter.kind() == Kind::Counting, filter.kind() == Kind::Window);
        let fresh = || Known { cardinality: Some(0), ..Known::default() };
        let known = self.known.entry(key.to_vec()).or_insert_with(fresh);
        assert!(replies.len() <= items.len());
        for (item, reply) in items.iter().zip(replies) {
            if !matches!(reply.as_str(), "#t" | "#f") {
                continue;
            }
            *known.items.entry(item.clone()).or_default() += 1;
            if reply == "#t" || is_counting {
                known.cardinality = known.cardinality.map(|cardinality| cardinality + 1);
            } else if is_window {
                // If the window has grown since the item was added, the item counts twice.
                known.cardinality = None;
            }
        }
    }

    fn delete(&mut self, key: &[u8], input: &mut Input<'_>) {
        let mut items = input.items(12);
        let Some(known) = self.known.get_mut(key) else {
            self.pair.call(&[b"BF.DEL", key, &items[0]]);
            return;
        };
        if input.byte() < 0xd0 {
            // Mostly deletes known items only.
            items.retain(|item| known.items.contains_key(item));
        }
        self.pair.call_with(&[b"BF.DEL", key], &items);
        for (item, reply) in items.iter().zip(self.pair.item_replies()) {
            match (known.items.get_mut(item), reply.as_str()) {
                (Some(count), "#t") => {
                    *count -= 1;
                    if *count == 0 {
                        known.items.remove(item);
                    }
                }
                (Some(_), other) => panic!("{other}: cannot delete {}", item.escape_ascii()),
                // The item was a false positive. From now on, other items may be missing and BF.CARD is unknown.
                (None, "#t") => *known = Known::default(),
                (None, _) => continue,
            }
            known.cardinality = known.cardinality.map(|cardinality| cardinality - 1);
        }
    }

    /// Adds items with CF.ADD, CF.ADDNX, CF.INSERT or CF.INSERTNX.
    fn add_occurrences(&mut self, key: &[u8], input: &mut Input<'_>) {
        let choice = input.byte();
        let (only_absent, is_single) = (choice & 1 == 1, choice & 2 == 2);
        let items = input.items(if is_single { 1 } else { 20 });
        let front: &[&[u8]] = match (is_single, only_absent) {
            (true, false) => &[b"CF.ADD", key],
            (true, true) => &[b"CF.ADDNX", key],
            (false, false) => &[b"CF.INSERT", key, b"ITEMS"],
            (false, true) => &[b"CF.INSERTNX", key, b"ITEMS"],
        };
        self.pair.call_with(front, &items);
        let replies = self.pair.item_replies();
        if self.pair.filter(key).is_none() || replies.is_empty() {
            return;
        }
        assert_eq!(replies.len(), items.len());
        let fresh = || Known { cardinality: Some(0), ..Known::default() };
        let known = self.known.entry(key.to_vec()).or_insert_with(fresh);
        for (item, reply) in items.iter().zip(replies) {
            match reply.as_str() {
                "#t" | ":1" => {
                    assert!(!only_absent || !known.items.contains_key(item), "{}", item.escape_ascii());
                    *known.items.entry(item.clone()).or_default() += 1;
                    known.cardinality = known.cardinality.map(|cardinality| cardinality + 1);
                }
                // Refused, or present.
                "#f" | ":0" | ":-1" => {}
                other => panic!("{other}"),
            }
        }
    }

    fn delete_occurrence(&mut self, key: &[u8], input: &mut Input<'_>) {
        let Some(known) = self.known.get_mut(key) else {
            // A cuckoo filter, or no filter.
            let item = input.item();
            let line: &[&[u8]] =
                if input.byte() < 0xe0 { &[b"CF.DEL", key, &item] } else { &[b"CF.COMPACT", key] };
            self.pair.call(line);
            return;
        };
        let Some(item) = known.items.keys().min().cloned().filter(|_| input.flag()) else { return };
        let is_counting = self.pair.filter(key).is_some_and(|filter| filter.kind() == Kind::Counting);
        let reply = self.pair.call(&[b"CF.DEL", key, &item]);
        assert_eq!(reply, if is_counting { "#t" } else { "-Not found" });
        if is_counting {
            let count = known.items.get_mut(&item).unwrap();
            *count -= 1;
            if *count == 0 {
                known.items.remove(&item);
            }
            known.cardinality = known.cardinality.map(|cardinality| cardinality - 1);
        }
    }

    fn count(&mut self, key: &[u8], item: &[u8]) {
        let reply = self.pair.call(&[b"CF.COUNT", key, item]);
        let count: u64 = reply[1..].parse().unwrap();
        let is_counting = self.pair.filter(key).is_some_and(|filter| filter.kind() == Kind::Counting);
        if let (Some(known), true) = (self.known.get(key), is_counting) {
            assert!(count >= known.items.get(item).copied().unwrap_or(0), "{}: {count}", item.escape_ascii());
        }
    }

    fn merge(&mut self, key: &[u8], input: &mut Input<'_>) {
        let sources: Vec<&[u8]> = (0..1 + input.below(3)).map(|_| *input.choose(&KEYS)).collect();
        let force = input.flag().then_some(&b"FORCE"[..]);
        let argv: Vec<&[u8]> =
            [&b"BF.MERGE"[..], key].into_iter().chain(sources.iter().copied()).chain(force).collect();
        if self.pair.call(&argv) != "+OK" {
            return;
        }
        let mut items = HashMap::new();
        for key in sources.iter().chain([&key]) {
            items.extend(self.known.get(*key).into_iter().flat_map(|known| known.items.clone()));
        }
        let found = self.found(key, items);
        self.known.insert(key.to_vec(), found);
    }

    /// Dumps one key and loads the chunks into another.
    fn copy(&mut self, from: &[u8], to: &[u8]) {
        if from == to || matches!(to, b"string") || self.pair.filter(from).is_none() {
            return;
        }
        self.pair.remove(to);
        self.known.remove(to);
        for (iterator, data) in chunks(self.pair.filter(from).unwrap(), 1) {
            if self.pair.primary.keys.contains_key(to) && self.pair.filter(to).is_none() {
                let reply = self.pair.call(&[b"BF.ADD", to, b"item"]);
                assert!(reply.starts_with("-ERR the filter is being loaded"), "{reply}");
            }
            let reply = self.pair.call(&[b"BF.LOADCHUNK", to, iterator.to_string().as_bytes(), &data]);
            if reply != "+OK" {
                // The limit was lowered after the filter was created, so the filter exceeds it.
                assert!(reply.starts_with("-ERR filter would take "), "{reply}");
                self.pair.remove(to);
                return;
            }
        }
        let found = self.found(to, self.known.get(from).map(|known| known.items.clone()).unwrap_or_default());
        self.known.insert(to.to_vec(), found);
    }

    fn import(&mut self, key: &[u8], input: &mut Input<'_>) {
        let scheme =
            *input.choose(&["murmur3-salted", "go-zero", "guava-mitz64", "php-bkdr-js-sdbm", "redisson"]);
        let encoding = *input.choose(&["raw", "raw", "utf16le", "int32be", "json-string"]);
        let (bits, hashes, capacity) = (number(input), number(input), number(input));
        let mut argv: Vec<&[u8]> =
            vec![b"BF.IMPORT", key, b"EMPTY", b"SCHEME", scheme.as_bytes(), b"BITS", &bits];
        argv.extend([&b"ENCODING"[..], encoding.as_bytes()]);
        let flags = input.byte();
        for (bit, words) in
            [(1, [&b"HASHES"[..], &hashes]), (2, [b"CAPACITY", &capacity]), (4, [b"ERROR", b"0.1"])]
        {
            if flags & bit != 0 {
                argv.extend(words);
            }
        }
        argv.extend((flags & 8 != 0).then_some(&b"NONSCALING"[..]));
        argv.extend((flags & 16 != 0).then_some(&b"REPLACE"[..]));
        if self.pair.call(&argv) == "+OK" {
            let found = self.found(key, HashMap::new());
            self.known.insert(key.to_vec(), found);
        }
    }

    fn ask(&mut self, key: &[u8], items: &[Vec<u8>]) {
        self.pair.call_with(&[b"BF.MEXISTS", key], items);
        let Some(known) = self.known.get(key) else { return };
        for (item, reply) in items.iter().zip(self.pair.item_replies()) {
            assert!(reply == "#t" || !known.items.contains_key(item), "lost {}", item.escape_ascii());
        }
    }
}
