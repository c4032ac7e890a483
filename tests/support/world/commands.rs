//! Commands of clients, and what is known after them.

use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{Filter, Kind};

use super::{Event, Key, Known, World};
use crate::slices;

/// The commands that add items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// BF.ADD for each.
    Add,
    #[default]
    Many,
    Insert,
    /// BF.BULKADD with items after their lengths.
    Packed,
    /// CF.ADD for each, or CF.ADDNX.
    Occurrence,
    /// CF.INSERT, or CF.INSERTNX.
    Occurrences,
}

/// How items are added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adding<'w> {
    pub form: Form,
    /// The time of AT.
    pub at_ms: Option<u64>,
    /// A life of the items, at most the window.
    pub life_ms: Option<u64>,
    /// Adds absent items only.
    pub if_absent: bool,
    /// Other words of BF.INSERT or CF.INSERT before the items.
    pub words: &'w [Vec<u8>],
}

/// The reply to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    New,
    Again,
    Refused,
}

impl Adding<'_> {
    /// Returns the words of the command before and after the items.
    fn words(&self, key: &[u8]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let name: &[u8] = match (self.form, self.if_absent) {
            (Form::Add, _) => b"BF.ADD",
            (Form::Many, _) => b"BF.MADD",
            (Form::Insert, _) => b"BF.INSERT",
            (Form::Packed, _) => b"BF.BULKADD",
            (Form::Occurrence, false) => b"CF.ADD",
            (Form::Occurrence, true) => b"CF.ADDNX",
            (Form::Occurrences, false) => b"CF.INSERT",
            (Form::Occurrences, true) => b"CF.INSERTNX",
        };
        let mut options = self.words.to_vec();
        let mut say = |word: &str| options.push(word.as_bytes().to_vec());
        if let Some(at_ms) = self.at_ms {
            ["AT", &at_ms.to_string()].into_iter().for_each(&mut say);
        }
        if let Some(life_ms) = self.life_ms {
            ["PLIFE", &life_ms.to_string()].into_iter().for_each(&mut say);
        }
        if self.if_absent && !name.starts_with(b"CF") {
            say("IFABSENT");
        }
        let front = vec![name.to_vec(), key.to_vec()];
        match self.form {
            Form::Add | Form::Occurrence => (front, options),
            Form::Packed => ([front, options, vec![b"PREFIXED".to_vec()]].concat(), Vec::new()),
            Form::Many => (front, Vec::new()),
            Form::Insert | Form::Occurrences => {
                ([front, options, vec![b"ITEMS".to_vec()]].concat(), Vec::new())
            }
        }
    }
}

/// Returns the replies to the items of a command; none if it was refused. `negative` is what 0 and false stand for.
fn outcomes(words: &[String], negative: Outcome) -> Vec<Outcome> {
    let replies = match words[0].as_bytes()[0] {
        b'*' => &words[1..],
        b'-' if words.len() == 1 => return Vec::new(),
        _ => words,
    };
    let outcome = |word: &String| match word.as_str() {
        "#t" | ":1" => Outcome::New,
        "#f" | ":0" | "-Not found" => negative,
        other => {
            assert!(other.starts_with('-') || other == ":-1", "{other}");
            Outcome::Refused
        }
    };
    replies.iter().map(outcome).collect()
}

impl World {
    /// Runs a command that creates a filter. Returns its reply.
    pub fn make<W: AsRef<[u8]>>(&mut self, words: &[W]) -> String {
        let words = slices(words);
        let (key, had) = (words[1].to_vec(), self.has(words[1]));
        let reply = self.call(&words);
        if !had && self.has(&key) {
            self.note(Event::Started { key });
        }
        reply
    }

    /// Adds items as `adding` says. Returns the outcomes; none if the command was refused.
    pub fn add(&mut self, key: &[u8], adding: Adding<'_>, items: &[Vec<u8>]) -> Vec<Outcome> {
        match adding.form {
            Form::Add | Form::Occurrence => {
                let add = |item: &Vec<u8>| self.add_in_one(key, adding, std::slice::from_ref(item));
                let outcomes: Vec<_> = items.iter().map(add).collect();
                outcomes.concat()
            }
            _ => self.add_in_one(key, adding, items),
        }
    }

    /// Adds items in one command, and notes those that were added.
    fn add_in_one(&mut self, key: &[u8], adding: Adding<'_>, items: &[Vec<u8>]) -> Vec<Outcome> {
        let now_ms = self.now_ms();
        let found = self.filter(key).map(|filter| filter.contains_at(&items[0], now_ms, NoPrefetch));
        let (had, newest_ms) = (self.has(key), self.known.get(key).map_or(0, |known| known.newest_ms));
        let live: Vec<bool> = items.iter().map(|item| self.must_be_found(key, item)).collect();
        let (front, back) = adding.words(key);
        let outcomes = if adding.form == Form::Packed {
            let prefixed = |item: &Vec<u8>| [&(item.len() as u32).to_le_bytes()[..], item].concat();
            let data: Vec<u8> = items.iter().flat_map(prefixed).collect();
            let reply = self.call_with(&slices(&front), &[data]);
            let outcome = |digit| match digit {
                '1' => Outcome::New,
                '0' => Outcome::Again,
                _ => Outcome::Refused,
            };
            reply.strip_prefix('$').unwrap_or_default().chars().map(outcome).collect()
        } else {
            self.call_with(&slices(&front), &[items, &back].concat());
            // In RESP3, CF.INSERT replies false for a refused item.
            let adds_all = adding.form == Form::Occurrences && !adding.if_absent;
            outcomes(&self.server().reply, if adds_all { Outcome::Refused } else { Outcome::Again })
        };
        let is_full = self.server().reply.iter().any(|word| word.contains("scaling filter is full"));
        if !had && self.has(key) {
            self.note(Event::Started { key: key.to_vec() });
        }
        // A refused item may end the replies.
        let is_ended = outcomes.last().is_none_or(|last| *last == Outcome::Refused);
        assert!(outcomes.len() == items.len() || is_ended && outcomes.len() < items.len(), "{outcomes:?}");
        let filter = self.filter(key);
        let kind = filter.map(Filter::kind);
        let window = filter.and_then(Filter::window).map(|window| (window.span, window.no_refresh));
        let is_fixed = filter.is_some_and(|filter| {
            filter.growth().is_fixed_size() && filter.items() >= filter.promise().capacity_items
        });
        assert!(!is_full || is_fixed, "refused as full");
        // CF.ADD does not say whether the item was there.
        let says_new = !matches!(adding.form, Form::Occurrence | Form::Occurrences) || adding.if_absent;
        if let (Some(found), Some(first)) = (found, outcomes.first())
            && says_new
        {
            assert!(!found || *first != Outcome::New, "{} was found", items[0].escape_ascii());
            // A window may have joined segments, and items of another time are compared with other ones.
            let is_again = *first == Outcome::Again;
            assert!(found || !is_again || window.is_some(), "{} was not found", items[0].escape_ascii());
        }
        // A time that is a little in the future counts as the current time.
        let time_ms = now_ms.max(if window.is_some() { newest_ms } else { 0 });
        let at_ms = adding.at_ms.map_or(time_ms, |at_ms| at_ms.min(time_ms));
        let from_ms = match (adding.life_ms, window) {
            (Some(life_ms), Some((span, _))) => {
                // If the clock goes back, a life begins with the newest generation.
                let early_ms = if now_ms < newest_ms { span.generation_ms() } else { 0 };
                (at_ms + life_ms).saturating_sub(span.ms() + early_ms)
            }
            _ => at_ms,
        };
        let mut cardinality = self.known.get(key).and_then(|known| known.cardinality);
        for ((item, outcome), was_live) in items.iter().zip(&outcomes).zip(live) {
            assert!(!was_live || *outcome != Outcome::New || !says_new, "{} was lost", item.escape_ascii());
            // Also what is found without an add is found from now on, but an item of a window keeps its time.
            let keeps = adding.if_absent || window.is_some_and(|(_, no_refresh)| no_refresh);
            if *outcome == Outcome::Refused || *outcome == Outcome::Again && keeps {
                continue;
            }
            let (key, item) = (key.to_vec(), item.clone());
            self.note(Event::Added { key, item, count: 1, at_ms, from_ms, is_seen: from_ms == at_ms });
            cardinality = match (kind, *outcome) {
                // An item that is added again after its window has become larger counts twice.
                (Some(Kind::Window), Outcome::Again) => None,
                (Some(Kind::Counting), _) | (_, Outcome::New) => cardinality.map(|items| items + 1),
                _ => cardinality,
            };
        }
        if self.known.get(key).is_some_and(|known| known.cardinality != cardinality) {
            self.note(Event::Counted { key: key.to_vec(), cardinality });
        }
        outcomes
    }

    /// Deletes each item once, with BF.DEL or CF.DEL.
    pub fn remove(&mut self, key: &[u8], is_cuckoo: bool, items: &[Vec<u8>]) -> Vec<Outcome> {
        let (name, most) = if is_cuckoo { (&b"CF.DEL"[..], 1) } else { (&b"BF.DEL"[..], 1000) };
        let mut all = Vec::new();
        for items in items.chunks(most) {
            self.call_with(&[name, key], items);
            let outcomes = outcomes(&self.server().reply, Outcome::Again);
            let can_delete = self.server().cuckoos.contains_key(key)
                || self.filter(key).is_some_and(|filter| filter.kind() == Kind::Counting);
            for (item, outcome) in items.iter().zip(&outcomes) {
                let known = self.known.get(key);
                let is_known = known.is_some_and(|known| known.items.contains_key(item));
                let cardinality = known.and_then(|known| known.cardinality);
                match outcome {
                    Outcome::New if is_known => {
                        self.note(Event::Removed { key: key.to_vec(), item: item.clone() });
                        let cardinality = cardinality.map(|items| items - 1);
                        self.note(Event::Counted { key: key.to_vec(), cardinality });
                    }
                    // From now on, other items may be missing.
                    Outcome::New => self.note(Event::Vague { key: key.to_vec() }),
                    Outcome::Again => {
                        assert!(!is_known || !can_delete, "cannot delete {}", item.escape_ascii());
                    }
                    Outcome::Refused => assert!(
                        self.server().reply.iter().any(|word| word.contains("memory")),
                        "{:?}",
                        self.server().reply
                    ),
                }
            }
            all.extend(outcomes);
        }
        all
    }

    /// Empties a filter. Returns whether there is one that can be emptied.
    pub fn clear(&mut self, key: &[u8]) -> bool {
        let is_cleared = self.call(&[b"BF.CLEAR", key]) == "+OK";
        if is_cleared {
            self.note(Event::Started { key: key.to_vec() });
        }
        is_cleared
    }

    /// Deletes a key, as the server's DEL does.
    pub fn delete(&mut self, key: &[u8]) {
        self.publish(vec![b"DEL".to_vec(), key.to_vec()]);
        self.note(Event::Ended { key: key.to_vec() });
    }

    /// Merges filters. Returns the reply.
    pub fn merge(&mut self, key: &[u8], sources: &[&[u8]], is_forced: bool) -> String {
        let keys: Vec<&[u8]> = sources.iter().copied().chain([key]).collect();
        let had = self.has(key);
        let now_ms = self.now_ms();
        let newest_ms = self.known.get(key).map_or(0, |known| known.newest_ms.max(known.latest_ms));
        // Nothing is lost, not even an item that was never added.
        let held = self.held(&keys);
        let force = is_forced.then_some(&b"FORCE"[..]);
        let words: Vec<&[u8]> =
            [&b"BF.MERGE"[..], key].into_iter().chain(sources.iter().copied()).chain(force).collect();
        let reply = self.call(&words);
        if reply != "+OK" {
            return reply;
        }
        let lost = held.iter().position(|item| !self.filter(key).unwrap().contains(item, NoPrefetch));
        assert_eq!(lost.map(|number| held[number].escape_ascii().to_string()), None, "lost in a merge");
        let filter = self.filter(key).unwrap();
        let (kind, is_window) = (filter.kind(), filter.window().is_some());
        let reported = filter.items();
        let mut others: Vec<(Key, Known)> = Vec::new();
        for source in sources.iter().filter(|source| **source != key) {
            if others.iter().all(|(other, _)| other != source) {
                others.push((source.to_vec(), self.known.get(*source).cloned().unwrap_or_default()));
            }
        }
        if !had {
            self.note(Event::Started { key: key.to_vec() });
        }
        let time_ms = now_ms.max(if is_window { newest_ms } else { 0 });
        let mut cardinality = self.known.get(key).and_then(|known| known.cardinality);
        for (_, other) in others {
            let (key, is_whole) = (key.to_vec(), other.is_whole);
            cardinality = cardinality.zip(other.cardinality).map(|(one, other)| one + other);
            for (item, known) in other.items {
                let (key, count) = (key.clone(), known.count);
                // Items of a server whose clock is ahead count as of now, and the time of no other item changes.
                let (from_ms, is_seen) = (known.from_ms.min(time_ms), known.seen_ms == known.from_ms);
                self.note(Event::Added { key, item, count, at_ms: 0, from_ms, is_seen });
            }
            let latest_ms = other.latest_ms.max(other.newest_ms).min(time_ms);
            self.note(Event::Merged { key, is_whole, latest_ms });
        }
        let cardinality = if kind == Kind::Counting { cardinality } else { Some(reported) };
        self.note(Event::Counted { key: key.to_vec(), cardinality });
        reply
    }

    /// Returns some items that one of these filters of the primary has, by chance or because they were added.
    fn held(&self, keys: &[&[u8]]) -> Vec<Vec<u8>> {
        let names = (0..100).map(|number| format!("i{number}").into_bytes());
        let filters: Vec<&Filter> = keys.iter().filter_map(|key| self.filter(key)).collect();
        if filters.iter().any(|filter| filter.window().is_some()) {
            return Vec::new();
        }
        let holds = |item: &Vec<u8>| filters.iter().any(|filter| filter.contains(item, NoPrefetch));
        names.filter(holds).collect()
    }

    /// Asserts what the filter under a key says about items.
    pub fn ask(&mut self, key: &[u8], items: &[Vec<u8>]) {
        let must: Vec<bool> = items.iter().map(|item| self.must_be_found(key, item)).collect();
        let is_cuckoo = self.server().cuckoos.contains_key(key);
        let name: &[u8] = if is_cuckoo { b"CF.MEXISTS" } else { b"BF.MEXISTS" };
        self.call_with(&[name, key], items);
        let outcomes = outcomes(&self.server().reply, Outcome::Again);
        for ((item, must), outcome) in items.iter().zip(must).zip(outcomes) {
            assert!(outcome == Outcome::New || !must, "lost {}", item.escape_ascii());
        }
    }

    /// Asserts how often an item is counted at least.
    pub fn count(&mut self, key: &[u8], item: &[u8]) -> u64 {
        let known =
            self.known.get(key).and_then(|known| known.items.get(item)).map_or(0, |known| known.count);
        let can_count = self.server().cuckoos.contains_key(key)
            || self.filter(key).is_some_and(|filter| filter.kind() == Kind::Counting);
        let reply = self.call(&[b"CF.COUNT", key, item]);
        let count = reply.get(1..).and_then(|number| number.parse().ok()).unwrap_or(0);
        assert!(count >= known || !can_count, "{}: {reply} of {known}", item.escape_ascii());
        count
    }

    /// Asserts what was added within some time, and how long items of a window have left.
    pub fn ask_lately(&mut self, key: &[u8], within_ms: u64, items: &[Vec<u8>]) {
        let within = within_ms.to_string();
        for item in items {
            let Some(window_ms) = self.window_ms(key) else { return };
            let known = self.known.get(key).and_then(|known| known.items.get(item)).copied();
            let now_ms = self.latest_time(key);
            let is_recent = known.is_some_and(|known| now_ms - known.seen_ms.min(now_ms) <= within_ms);
            let single = self.call(&[b"BF.EXISTS", key, item, b"PWITHIN", within.as_bytes()]);
            assert!(single == "#t" || !is_recent, "not seen within {within_ms}: {}", item.escape_ascii());
            if !item.is_empty() && !item.contains(&b'\n') {
                let words: [&[u8]; 7] =
                    [b"BF.BULKEXISTS", key, b"COUNT", b"PWITHIN", within.as_bytes(), b"LINES", item];
                assert_eq!(self.call(&words) == ":1", single == "#t", "{}", item.escape_ascii());
            }
            let reply = self.call(&[b"BF.PTTL", key, item]);
            let left_ms: i64 = reply[1..].parse().unwrap();
            let until_ms = |from_ms: u64| (from_ms + window_ms).cast_signed() - now_ms.cast_signed();
            // Nothing is left of an item that has expired, also if that was a millisecond ago.
            let least_ms = known.map(|known| until_ms(known.from_ms)).filter(|left| *left >= 0).unwrap_or(-2);
            assert!(left_ms >= least_ms, "{left_ms} ms of {least_ms} are left of {}", item.escape_ascii());
        }
    }
}
