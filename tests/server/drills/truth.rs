//! The items that a drill expects in its filters.

use std::collections::HashMap;

use redis::Value;

use crate::harness::{Client, show};
use crate::support::Random;

/// Filters of every kind: keys, and commands that create them. They are small, so that they grow.
pub(super) const FILTERS: [(&str, &str); 10] = [
    ("unreserved", "ERROR 0.001"),
    ("own", "CAPACITY 50 ERROR 0.001"),
    ("fixed", "CAPACITY 200000 NONSCALING"),
    ("saturating", "CAPACITY 300 NONSCALING SATURATE"),
    ("keyed", "CAPACITY 50 KEYED"),
    ("counting", "CAPACITY 50 ERROR 0.0001 COUNTING"),
    ("redis", "CAPACITY 50 FORMAT redisbloom"),
    ("valkey", "CAPACITY 50 FORMAT valkey-bloom"),
    ("window", "CAPACITY 5000 WINDOW 86400"),
    ("large", "CAPACITY 3000000"),
];

/// The items that must be in the filters of one client, which adds and deletes them.
#[derive(Default)]
pub(super) struct Truth {
    /// The prefix of the client's keys.
    pub(super) prefix: String,
    /// The items by key, in the order in which their adds were acknowledged.
    pub(super) items: HashMap<String, Vec<String>>,
    next: u64,
}

impl Truth {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..Self::default() }
    }

    /// Creates the filters that do not exist.
    pub(super) fn make(&self, client: &mut Client) {
        for (key, creation) in FILTERS {
            let key = self.key(key);
            let seed = if creation.contains("valkey") { " ITEMS" } else { "" };
            let reply = client.say(&format!("BF.INSERT {key} {creation} ITEMS made"));
            // An add may have made a filter anew that was evicted, of the default kind.
            let is_there = reply.starts_with('[') || reply.contains(" differs from the existing filter");
            assert!(is_there, "{key}{seed}: {reply}");
        }
        let import =
            format!("BF.IMPORT {} EMPTY SCHEME murmur3-salted BITS 4000 HASHES 5", self.key("client"));
        client.say(&import);
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Sends one command that changes a filter, and updates the expected items from its reply. Returns false if the
    /// connection is lost; the command may or may not have run then.
    pub(super) fn step(&mut self, client: &mut Client, random: &mut Random) -> bool {
        let name = FILTERS[random.below(FILTERS.len())].0;
        let key = self.key(name);
        if name == "counting" && random.below(4) == 0 {
            return self.delete(client, &key, random);
        }
        let items: Vec<String> =
            (0..1 + random.below(20)).map(|number| format!("{}-{number}", self.next)).collect();
        self.next += 1;
        let words: Vec<&str> =
            ["BF.MADD", &key].into_iter().chain(items.iter().map(String::as_str)).collect();
        let Ok(reply) = client.try_call(&words) else { return false };
        let Value::Array(replies) = reply else {
            // A cluster redirects to the node of the slot, and a full server refuses.
            assert!(
                ["-LOADING", "-MOVED", "-ASK", "-MISCONF", "-TRYAGAIN", "-OOM"]
                    .iter()
                    .any(|word| show(&reply).starts_with(word)),
                "{}",
                show(&reply)
            );
            return true;
        };
        let known = self.items.entry(key).or_default();
        for (item, reply) in items.into_iter().zip(replies) {
            if matches!(reply, Value::Int(_) | Value::Boolean(_)) {
                known.push(item);
            }
        }
        true
    }

    fn delete(&mut self, client: &mut Client, key: &str, random: &mut Random) -> bool {
        let Some(known) = self.items.get_mut(key).filter(|known| !known.is_empty()) else { return true };
        // From here on the state of the item is unknown, whether the command is acknowledged or not.
        let item = known.swap_remove(random.below(known.len()));
        client.try_call(&["BF.DEL", key, &item]).is_ok()
    }

    /// Returns the expected items that are missing.
    pub(super) fn missing(&self, client: &mut Client) -> Vec<String> {
        let mut missing = Vec::new();
        for (key, items) in &self.items {
            for items in items.chunks(500) {
                let words: Vec<&str> =
                    ["BF.MEXISTS", key].into_iter().chain(items.iter().map(String::as_str)).collect();
                let replies = client.array(&words);
                let absent = items.iter().zip(replies).filter(|(_, reply)| *reply != Value::Int(1));
                missing.extend(absent.map(|(item, _)| format!("{key} {item}")));
            }
        }
        missing
    }

    pub(super) fn count(&self) -> u64 {
        self.items.values().map(|items| items.len() as u64).sum()
    }
}
