//! Random histories of a filter that a copy follows.

use everbloom::FollowError;

use crate::following::{Near, digest};
use crate::support::server::{NOW_MS, Server};
use crate::support::{Random, effort};

/// How the filter is made; `None` for one that the first add makes.
const KINDS: [(&str, Option<&str>); 13] = [
    ("unreserved", None),
    ("reserved", Some("BF.RESERVE f 0.01 1000")),
    ("fixed", Some("BF.RESERVE f 0.01 20000 NONSCALING")),
    ("saturating", Some("BF.RESERVE f 0.01 500 NONSCALING SATURATE")),
    ("keyed", Some("BF.RESERVE f 0.001 300 KEYED")),
    ("redisbloom", Some("BF.RESERVE f 0.01 50 FORMAT redisbloom")),
    ("redisbloom-fixed", Some("BF.RESERVE f 0.01 100000 NONSCALING FORMAT redisbloom")),
    ("valkey-bloom", Some("BF.RESERVE f 0.01 50 FORMAT valkey-bloom")),
    ("window", Some("BF.RESERVE f 0.01 1000 WINDOW 14")),
    ("fine window", Some("BF.RESERVE f 0.01 100 WINDOW 120 STEPS 120")),
    ("norefresh", Some("BF.RESERVE f 0.01 100 WINDOW 14 NOREFRESH KEYED")),
    ("counting", Some("BF.RESERVE f 0.01 1000 COUNTING")),
    (
        "imported",
        Some("BF.IMPORT f EMPTY SCHEME guava-mitz64 BITS 4500 HASHES 5 SHIFT 6 CAPACITY 30 EXPANSION 4"),
    ),
];

/// A history: what was added, and whether the last load was undisturbed.
struct History {
    server: Server,
    random: Random,
    near: Near,
    name: &'static str,
    creation: Option<&'static str>,
    added: Vec<u64>,
    next: u64,
    /// Whether the filter has changed since the last load began.
    is_disturbed: bool,
    /// How often the copy had an equal digest.
    same: u64,
}

impl History {
    fn is_window(&self) -> bool {
        self.name.contains("window") || self.name == "norefresh"
    }

    /// Adds some items, new and old ones.
    fn add(&mut self) {
        let count = 1 + self.random.below(60) as u64;
        let mut items = Vec::new();
        for _ in 0..count {
            let again = self.random.below(4) == 0 && !self.added.is_empty();
            let item = if again { *self.random.choose(&self.added) } else { self.next };
            self.next = self.next.max(item + 1);
            self.added.push(item);
            items.push(item.to_string());
        }
        let words = items.join(" ");
        let life = 1 + self.random.below(13);
        let line = match self.random.below(6) {
            0 => format!("BF.ADD f {}", items[0]),
            1 if self.is_window() => format!("BF.INSERT f LIFE {life} ITEMS {words}"),
            2 if self.is_window() => format!("BF.INSERT f IFABSENT ITEMS {words}"),
            3 if self.is_window() => {
                format!("BF.INSERT f AT {} ITEMS {words}", self.server.now_ms - 1000 * life as u64)
            }
            4 => format!("BF.BULKADD f LINES {}", items.join("\n")),
            5 if self.creation.is_some_and(|line| !line.contains("NONSCALING")) => {
                format!("BF.INSERT f NOCREATE ITEMS {words}")
            }
            _ => format!("BF.MADD f {words}"),
        };
        self.server.run(&line);
    }

    /// Changes the filter in another way than by adds.
    fn change(&mut self) {
        match self.random.below(5) {
            0 => {
                self.server.run("BF.CLEAR f");
                self.added.clear();
            }
            1 => {
                let items: Vec<u64> = (0..40).map(|_| self.next + self.random.below(1000) as u64).collect();
                self.server.keys.remove(b"other".as_slice());
                self.create("other");
                let words: Vec<String> = items.iter().map(u64::to_string).collect();
                self.server.run(&format!("BF.MADD other {}", words.join(" ")));
                let reply = self.server.run("BF.MERGE f other FORCE");
                self.added.extend(if reply == "+OK" { items } else { Vec::new() });
            }
            2 => {
                // Away and back: the copy goes on.
                self.server.rename("f", "g");
                self.server.rename("g", "f");
            }
            3 => {
                let filter = self.server.take("f");
                self.server.set("f", filter);
            }
            _ => {
                self.server.run("BF.DEL f 1 2 3");
                self.added.retain(|item| ![1, 2, 3].contains(item) || self.name != "counting");
            }
        }
    }

    fn create(&mut self, key: &str) {
        match self.creation {
            Some(line) => _ = self.server.run(&line.replace(" f ", &format!(" {key} "))),
            None => _ = self.server.run(&format!("BF.ADD {key} first")),
        }
    }

    /// Compares the copy, which is up to date, with the filter.
    fn compare(&mut self, context: &str) {
        let now_ms = self.server.now_ms;
        let copy = self.near.copy.as_ref().unwrap();
        let items: Vec<String> = self.added.iter().map(u64::to_string).collect();
        for items in items.chunks(1000) {
            self.server.run(&format!("BF.MEXISTS f {}", items.join(" ")));
            for (item, found) in items.iter().zip(&self.server.reply[1..]) {
                let has_item = copy.filter().contains_at(item.as_bytes(), now_ms);
                assert!(found != "#t" || has_item, "{context}: {item}");
            }
        }
        if !self.is_disturbed {
            self.same += 1;
            assert_eq!(copy.filter().digest(), digest(self.server.filter("f")), "{context}");
        }
        assert_eq!(copy.filter().internal_validate(), Ok(()), "{context}");
        let absent = 1000;
        let of_copy = (0..absent)
            .filter(|number| copy.filter().contains_at(format!("absent{number}").as_bytes(), now_ms))
            .count() as f64;
        let of_server = self.server.found("f", "absent", 0..absent) as f64;
        let most = of_server * 1.02 + 4.0 * of_server.sqrt() + 4.0;
        assert!(of_copy <= most, "{context}: {of_copy} false positives, {of_server} on the server");
    }

    /// Sends a command of the copy. Returns whether the copy is up to date.
    fn step(&mut self, context: &str) -> bool {
        let lost = self.near.lost;
        // A load begins where the position is taken.
        self.is_disturbed &= self.near.follower.command().len() > 2;
        let step = self.near.step(&mut self.server);
        self.is_disturbed &= self.near.lost == lost;
        match step {
            // The filter was replaced during the load, which begins anew.
            Err(FollowError::Refused(text)) if text.contains("dump") => false,
            step => step.unwrap_or_else(|error| panic!("{context}: {error}")),
        }
    }

    fn run(&mut self, steps: u64, seed: u64) {
        self.create("f");
        for step in 0..steps {
            let context = format!("{}, seed {seed}, step {step}", self.name);
            let was_loading = self.near.follower.is_loading();
            match self.random.below(40) {
                0 => self.change(),
                1..16 => self.add(),
                16..19 => self.server.now_ms += self.random.below(1500) as u64,
                19 => {
                    while !self.step(&context) {}
                    self.compare(&context);
                    continue;
                }
                _ => {
                    self.step(&context);
                    continue;
                }
            }
            self.is_disturbed |= was_loading;
        }
        let context = format!("{}, seed {seed}, at the end", self.name);
        while !self.step(&context) {}
        self.compare(&context);
    }
}

#[test]
fn a_copy_that_has_caught_up_has_every_item_and_the_same_digest() {
    let mut same = 0;
    for seed in 0..effort(6, 12) {
        for (name, creation) in KINDS {
            let mut server = Server::at(NOW_MS * 1_000_000);
            let mut random = Random(seed * 100 + name.len() as u64);
            if seed % 3 == 0 {
                // Rings that are too small.
                server.settings.follow_log_bytes = 17 * (1 + random.below(200) as u64);
            }
            let near = Near::new("f");
            let mut history = History {
                server,
                random,
                near,
                name,
                creation,
                added: Vec::new(),
                next: 10,
                is_disturbed: false,
                same: 0,
            };
            history.run(if seed == 4 { 500 } else { 150 }, seed);
            assert!(history.near.loads > 0);
            same += history.same;
        }
    }
    assert!(same > effort(50, 100), "only {same} copies were compared by their digest");
}
