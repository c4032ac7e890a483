//! Uses sliding-window filters while a copy is made chunk by chunk. The clocks of the primary and the replica run,
//! jump, stop and go back independently. Checks that no item is missing before its window is over, in the filter and in
//! the copy, and that the replica has the same entries.

use std::collections::HashMap;

use everbloom_filter::prefetch::NoPrefetch;

use everbloom_command::Settings;
use everbloom_filter::Filter;

use super::input::Input;
use super::model::Pair;
use crate::support::saved::assert_survives;

const KEY: &[u8] = b"k";
/// The key into which the chunks of the filter are loaded.
const COPY: &[u8] = b"copy";
/// Initial time of the clock.
const START_MS: u64 = 1 << 40;
/// Largest number of commands of one input.
const COMMANDS_MAX: usize = 60;

/// The state of one run.
struct World {
    pair: Pair,
    now_ms: u64,
    window_ms: u64,
    steps: u64,
    no_refresh: bool,
    /// Whether the error rate is too low for half of the expired items to be found by chance.
    is_exact: bool,
    items: Times,
    copy: Option<Copy>,
}

/// When the items of a filter were added.
#[derive(Clone, Default)]
struct Times {
    /// The moment at which the window of each item begins.
    from_ms: HashMap<Vec<u8>, u64>,
    /// The last moment at which each item was added without a life of its own.
    seen_ms: HashMap<Vec<u8>, u64>,
    /// The newest moment at which an item was added.
    newest_ms: u64,
}

impl Times {
    /// Notes an add at `at_ms`. The window of the item begins at `from_ms`.
    fn note(&mut self, item: &[u8], at_ms: u64, from_ms: u64) {
        let begin_ms = self.from_ms.entry(item.to_vec()).or_default();
        *begin_ms = from_ms.max(*begin_ms);
        self.newest_ms = self.newest_ms.max(at_ms);
        if from_ms == at_ms {
            let seen_ms = self.seen_ms.entry(item.to_vec()).or_default();
            *seen_ms = at_ms.max(*seen_ms);
        }
    }
}

/// The options of an add.
#[derive(Clone, Copy)]
struct Adding {
    at_ms: u64,
    /// A life of the items, at most the window.
    life_ms: Option<u64>,
    if_absent: bool,
}

/// A copy of the filter, which may be incomplete.
struct Copy {
    /// The iterator of the next chunk; `None` after the last one.
    iterator: Option<u64>,
    /// `from_ms` of the filter's items when the dump began.
    dumped_ms: HashMap<Vec<u8>, u64>,
    /// The items that were added to the copy.
    items: Times,
    /// `newest_ms` of the filter's items when the last chunk was made. Items that had expired by then may be in no
    /// chunk.
    source_ms: u64,
}

/// Makes a filter, then adds and checks items at moments that the input chooses.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let window_ms =
        *input.choose(&[100, 101, 1000, 14_000, 86_400_000, 49 * 86_400_000, 3653 * 86_400_000, 1 << 40]);
    let mut world = World {
        pair: Pair::new(Settings { max_filter_bytes: limit, ..Settings::DEFAULT }),
        now_ms: START_MS,
        window_ms,
        steps: 14,
        no_refresh: input.below(4) == 0,
        is_exact: false,
        items: Times::default(),
        copy: None,
    };
    world.make(&mut input);
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() || world.pair.filter(KEY).is_none() {
            break;
        }
        world.step(&mut input);
    }
    let now_ms = world.time();
    world.check(now_ms);
    while world.copy.as_ref().is_some_and(|copy| copy.iterator.is_some()) {
        world.scan();
    }
    world.check_copy();
    world.pair.assert_in_step();
}

impl World {
    /// Returns an upper bound of the filter's time. If a clock goes back, this time stands still.
    fn time(&self) -> u64 {
        self.now_ms.max(self.items.newest_ms)
    }

    fn make(&mut self, input: &mut Input<'_>) {
        let window = self.window_ms.to_string();
        let rate = *input.choose(&["0.01", "0.3", "0.001", "1e-6"]);
        self.is_exact = rate != "0.3";
        let capacity = *input.choose(&["1", "14", "100", "1000", "30000", "600000"]);
        let mut line = format!("BF.RESERVE k {rate} {capacity} PWINDOW {window}");
        let growth = *input.choose(&["", " NONSCALING", " EXPANSION 1", " EXPANSION 4"]);
        line.push_str(growth);
        if self.no_refresh {
            line.push_str(" NOREFRESH");
        }
        if input.below(3) == 0 {
            line.push_str(" STEPS 120");
            self.steps = 120;
        }
        self.pair.set_clocks(self.now_ms, self.now_ms);
        self.pair.run(&line);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let step_ms = self.step_ms(input);
        self.now_ms = if input.below(8) == 0 {
            self.now_ms.saturating_sub(step_ms).max(1)
        } else {
            self.now_ms.saturating_add(step_ms).min(1 << 45)
        };
        // The replica's clock may have any time, since commands carry the filter's time.
        let replica_ms = match input.below(4) {
            0 => self.now_ms / 2,
            1 => self.now_ms + self.window_ms,
            _ => self.now_ms,
        };
        self.pair.set_clocks(self.now_ms, replica_ms);
        match input.below(32) {
            0..=5 => {
                let items = input.items(40);
                self.add(
                    &[b"BF.MADD", KEY],
                    &items,
                    Adding { at_ms: self.time(), life_ms: None, if_absent: false },
                );
            }
            6 | 7 => {
                let items = input.items(60);
                self.bulk(&items);
            }
            8..=10 => self.add_at(input),
            11 | 12 => {
                let items = input.items(30);
                self.ask(&items);
            }
            13 => {
                self.pair.run("BF.CLEAR k");
                self.items = Times::default();
                // The chunks belong to a filter that no longer exists.
                self.copy = None;
                self.pair.remove(COPY);
            }
            14 => {
                let reading = *input.choose(&["BF.STATS k", "BF.INFO k", "BF.CARD k", "BF.DEBUG k"]);
                self.pair.run(reading);
            }
            15 => assert_survives(self.pair.filter(KEY).unwrap(), "window"),
            16 => self.pair.synchronise(COPY),
            17..=20 => self.scan(),
            24 | 25 => {
                let size_bytes = self.pair.filter(KEY).map_or(0, Filter::size_bytes);
                self.pair.primary.settings.max_filter_bytes = input.tight_limit_bytes(size_bytes);
            }
            26..=29 => self.add_with_options(input),
            30 | 31 => self.ask_lately(input),
            _ => {
                let items = input.items(40);
                let back_ms = if input.below(3) == 0 { self.step_ms(input) } else { 0 };
                self.add_to_copy(&items, back_ms);
            }
        }
        let now_ms = self.time();
        self.check(now_ms);
        self.check_copy();
    }

    /// Loads the next chunk of the dump into the copy, or the header if there is no copy or it is complete.
    fn scan(&mut self) {
        let mut copy = match self.copy.take() {
            Some(copy) if copy.iterator.is_some() => copy,
            _ => {
                self.pair.remove(COPY);
                Copy {
                    iterator: Some(0),
                    dumped_ms: self.items.from_ms.clone(),
                    items: Times { newest_ms: self.items.newest_ms, ..Times::default() },
                    source_ms: 0,
                }
            }
        };
        let iterator = copy.iterator.unwrap_or_default().to_string();
        self.pair.call(&[b"BF.SCANDUMP", KEY, iterator.as_bytes()]);
        let next: u64 = self.pair.primary.reply[1][1..].parse().unwrap();
        let chunk = std::mem::take(&mut self.pair.primary.bulk);
        copy.iterator = (next != 0).then_some(next);
        copy.source_ms = self.items.newest_ms;
        if next != 0 {
            let reply = self.pair.call(&[b"BF.LOADCHUNK", COPY, next.to_string().as_bytes(), &chunk]);
            if reply.starts_with("-ERR filter would take ") {
                // The limit was lowered after the filter was created.
                self.pair.remove(COPY);
                return;
            }
            // The clock may have been set back by more than a window.
            let is_ahead = self.pair.primary.filter("k").is_ahead_of(self.now_ms);
            assert_eq!(reply.starts_with("-ERR the items are more than a window ahead"), is_ahead, "{reply}");
            if is_ahead {
                self.pair.remove(COPY);
                return;
            }
            assert_eq!(reply, "+OK", "iterator {next}");
        }
        self.copy = Some(copy);
    }

    /// Adds items to the copy, with the current time or an earlier one.
    fn add_to_copy(&mut self, items: &[Vec<u8>], back_ms: u64) {
        let Some(mut copy) = self.copy.take() else { return };
        let now_ms = self.now_ms.max(copy.items.newest_ms);
        let at_ms = now_ms.saturating_sub(back_ms);
        let at = at_ms.to_string();
        let late = [&b"BF.INSERT"[..], COPY, b"NOCREATE", b"AT", at.as_bytes(), b"ITEMS"];
        let front = if back_ms == 0 { &[&b"BF.MADD"[..], COPY][..] } else { &late };
        let is_loading = self.pair.filter(COPY).is_none();
        let reply = self.pair.call_with(front, items);
        // It takes nothing before its last chunk has come.
        assert_eq!(reply.starts_with("-ERR the filter is being loaded"), is_loading, "{reply}");
        for (item, reply) in items.iter().zip(self.pair.item_replies()) {
            if reply == "#t" || (reply == "#f" && !self.no_refresh) {
                copy.items.note(item, at_ms, at_ms);
            }
        }
        self.copy = Some(copy);
    }

    /// Asserts that a complete copy has the items that were added to it, and the items that the filter had when the dump
    /// began. Most expired items must not be in the copy.
    fn check_copy(&mut self) {
        let Some(copy) = self.copy.take_if(|copy| copy.iterator.is_none()) else { return };
        // The time of a filter is never before that of its newest item. A chunk may or may not have the newest item of
        // the filter.
        let now_min_ms = self.now_ms.max(copy.items.newest_ms);
        let now_ms = now_min_ms.max(copy.source_ms);
        let filter = self.pair.filter(COPY).unwrap();
        let must_have = |from_ms: u64, now_ms: u64| now_ms.saturating_sub(from_ms) <= self.window_ms;
        for (item, from_ms) in &copy.items.from_ms {
            let is_found = filter.contains_at(item, self.now_ms, NoPrefetch);
            assert!(is_found || !must_have(*from_ms, now_ms), "the copy missed {}", item.escape_ascii());
        }
        for (item, from_ms) in &copy.dumped_ms {
            let is_found = filter.contains_at(item, self.now_ms, NoPrefetch);
            assert!(is_found || !must_have(*from_ms, now_ms), "no chunk had {}", item.escape_ascii());
        }
        // One more generation is for rounding, and one because an add may lie
        // anywhere in its generation.
        let longest_ms = self.window_ms + self.window_ms / self.steps * 2 + 2;
        let has_expired = |from_ms: u64| now_min_ms.saturating_sub(from_ms) > longest_ms;
        // Chunks may also have items that were added after the header was made.
        let latest_ms = |item: &Vec<u8>, from_ms: u64| {
            self.items.from_ms.get(item).map_or(from_ms, |again_ms| from_ms.max(*again_ms))
        };
        let expired = copy.dumped_ms.iter().filter(|(item, from_ms)| {
            has_expired(latest_ms(item, **from_ms))
                && copy.items.from_ms.get(*item).is_none_or(|from_ms| has_expired(*from_ms))
        });
        let found: Vec<bool> =
            expired.map(|(item, _)| filter.contains_at(item, self.now_ms, NoPrefetch)).collect();
        let revived = found.iter().filter(|is_found| **is_found).count();
        let is_chance = found.len() < 8 || revived * 2 < found.len();
        assert!(is_chance || !self.is_exact, "{revived} of {} expired items are back", found.len());
        self.copy = Some(copy);
    }

    /// Returns a step of time, most of the time a small part of the window.
    fn step_ms(&self, input: &mut Input<'_>) -> u64 {
        let part = u64::from(input.u16());
        match input.below(12) {
            0 => self.window_ms.saturating_mul(part) >> 12,
            1 => 49 * 86_400_000,
            2 => self.window_ms / self.steps,
            3 => self.window_ms,
            4 => self.window_ms + self.window_ms / self.steps,
            5..=7 => 0,
            _ => (self.window_ms >> 4).saturating_mul(part) >> 16,
        }
    }

    fn added(&mut self, item: &[u8], is_new: bool, adding: Adding) {
        if is_new || !self.no_refresh && !adding.if_absent {
            let from_ms = adding.life_ms.map_or(adding.at_ms, |life_ms| {
                adding.at_ms.saturating_add(life_ms).saturating_sub(self.window_ms)
            });
            self.items.note(item, adding.at_ms, from_ms);
        }
    }

    fn add(&mut self, front: &[&[u8]], items: &[Vec<u8>], adding: Adding) {
        self.pair.call_with(front, items);
        for (item, reply) in items.iter().zip(self.pair.item_replies()) {
            if matches!(reply.as_str(), "#t" | "#f") {
                self.added(item, reply == "#t", adding);
            }
        }
    }

    /// Adds items with lives of their own, or only those that are absent.
    fn add_with_options(&mut self, input: &mut Input<'_>) {
        let life_ms = match input.below(4) {
            0 => None,
            1 => Some(self.window_ms),
            2 => Some(1 + self.window_ms / self.steps),
            _ => Some(1 + self.step_ms(input).min(self.window_ms - 1)),
        };
        let adding = Adding { at_ms: self.time(), life_ms, if_absent: input.below(3) == 0 };
        let life = life_ms.unwrap_or_default().to_string();
        let mut words: Vec<&[u8]> = if adding.if_absent { vec![b"IFABSENT"] } else { Vec::new() };
        if life_ms.is_some() {
            words.extend([b"PLIFE", life.as_bytes()]);
        }
        match input.below(3) {
            0 => {
                let item = input.items(1).pop().unwrap_or_default();
                let call = [&[b"BF.ADD", KEY, &item[..]], &words[..]].concat();
                let reply = self.pair.call(&call);
                if matches!(reply.as_str(), "#t" | "#f") {
                    self.added(&item, reply == "#t", adding);
                }
            }
            1 => {
                let items = input.items(40);
                self.bulk_with(&words, &items, adding);
            }
            _ => {
                let items = input.items(40);
                let front = [&[b"BF.INSERT", KEY, b"NOCREATE"], &words[..], &[b"ITEMS"]].concat();
                self.add(&front, &items, adding);
            }
        }
    }

    /// Asks what was added within some time, and how long items have left.
    fn ask_lately(&mut self, input: &mut Input<'_>) {
        let within_ms = 1 + self.step_ms(input).min(self.window_ms - 1);
        let (within, now_ms) = (within_ms.to_string(), self.time());
        for item in input.items(10) {
            let seen_ms = self.items.seen_ms.get(&item).copied();
            let is_recent = seen_ms.is_some_and(|seen_ms| now_ms.saturating_sub(seen_ms) <= within_ms);
            let single = self.pair.call(&[b"BF.EXISTS", KEY, &item, b"PWITHIN", within.as_bytes()]);
            let packed = self.pair.call(&[
                b"BF.BULKEXISTS",
                KEY,
                b"COUNT",
                b"PWITHIN",
                within.as_bytes(),
                b"LINES",
                &item,
            ]);
            assert!(single == "#t" || !is_recent, "not seen within {within_ms}: {}", item.escape_ascii());
            if !item.is_empty() && !item.contains(&b'\n') {
                assert_eq!(single == "#t", packed == ":1", "{}", item.escape_ascii());
            }
            let left = self.pair.call(&[b"BF.PTTL", KEY, &item]);
            let left_ms: i64 = left[1..].parse().unwrap();
            let must_ms = self
                .items
                .from_ms
                .get(&item)
                .map_or(-2, |from_ms| (from_ms + self.window_ms).cast_signed() - now_ms.cast_signed());
            assert!(left_ms >= must_ms, "{left_ms} ms of {must_ms} are left of {}", item.escape_ascii());
        }
    }

    fn bulk(&mut self, items: &[Vec<u8>]) {
        let adding = Adding { at_ms: self.time(), life_ms: None, if_absent: false };
        self.bulk_with(&[], items, adding);
    }

    fn bulk_with(&mut self, words: &[&[u8]], items: &[Vec<u8>], adding: Adding) {
        let mut data = Vec::new();
        for item in items {
            data.extend((item.len() as u32).to_le_bytes());
            data.extend(item);
        }
        let call = [&[b"BF.BULKADD", KEY], words, &[b"PREFIXED", &data[..]]].concat();
        let reply = self.pair.call(&call);
        for (item, result) in items.iter().zip(reply.bytes().skip(1)) {
            if result != b'!' {
                self.added(item, result == b'1', adding);
            }
        }
    }

    /// Adds items with another time, which the filter may refuse.
    fn add_at(&mut self, input: &mut Input<'_>) {
        let back_ms = self.step_ms(input);
        let at_ms = if input.below(4) == 0 {
            self.now_ms.saturating_add(back_ms)
        } else {
            self.now_ms.saturating_sub(back_ms)
        };
        let at = at_ms.to_string();
        let items = input.items(20);
        let front: [&[u8]; 6] = [b"BF.INSERT", KEY, b"NOCREATE", b"AT", at.as_bytes(), b"ITEMS"];
        // A time that is a little in the future counts as the current time.
        let adding = Adding { at_ms: at_ms.min(self.time()), life_ms: None, if_absent: false };
        self.add(&front, &items, adding);
    }

    fn ask(&mut self, items: &[Vec<u8>]) {
        self.pair.call_with(&[b"BF.MEXISTS", KEY], items);
        for (item, reply) in items.iter().zip(self.pair.item_replies()) {
            assert!(reply == "#t" || !self.must_remember(item, self.time()), "{}", item.escape_ascii());
        }
    }

    fn must_remember(&self, item: &[u8], now_ms: u64) -> bool {
        self.items.from_ms.get(item).is_some_and(|from_ms| now_ms - from_ms <= self.window_ms)
    }

    fn check(&mut self, now_ms: u64) {
        self.pair.set_clocks(self.now_ms, self.now_ms);
        let Some(filter) = self.pair.filter(KEY) else { return };
        assert!(filter.window().is_some());
        for item in self.items.from_ms.keys().filter(|item| self.must_remember(item, now_ms)) {
            assert!(filter.contains_at(item, self.now_ms, NoPrefetch), "lost {}", item.escape_ascii());
        }
    }
}
