//! CF.* on a simulated server, compared with a multiset.

use std::collections::HashMap;

use everbloom_command::Protocol;

use super::operations;
use crate::support::Random;
use crate::support::server::Server;

/// A server, and how often each item of the filter `k` was added and not deleted.
struct Oracle {
    server: Server,
    counts: HashMap<String, u64>,
    random: Random,
    items: usize,
}

impl Oracle {
    fn item(&mut self) -> String {
        format!("item-{}", self.random.below(self.items))
    }

    /// Runs a command with up to 40 items. Returns the items, and the reply to each.
    fn call(&mut self, front: &str, is_single: bool) -> Vec<(String, String)> {
        let count = if is_single { 1 } else { 1 + self.random.below(40) };
        let items: Vec<String> = (0..count).map(|_| self.item()).collect();
        let reply = self.server.run(&format!("{front} {}", items.join(" ")));
        let replies = reply.split(' ').skip(usize::from(!is_single)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(replies.len(), count, "{front}: {reply}");
        items.into_iter().zip(replies).collect()
    }

    fn count(&self, item: &str) -> u64 {
        self.counts.get(item).copied().unwrap_or(0)
    }

    fn add(&mut self) {
        let is_single = self.random.below(3) == 0;
        for (item, reply) in self.call(if is_single { "CF.ADD k" } else { "CF.INSERT k ITEMS" }, is_single) {
            assert_eq!(reply, "#t", "{item}");
            *self.counts.entry(item).or_default() += 1;
        }
    }

    fn add_absent(&mut self) {
        let is_single = self.random.below(3) == 0;
        for (item, reply) in
            self.call(if is_single { "CF.ADDNX k" } else { "CF.INSERTNX k ITEMS" }, is_single)
        {
            let is_absent = self.count(&item) == 0;
            assert_eq!(
                reply,
                if is_single { ["#f", "#t"] } else { [":0", ":1"] }[usize::from(is_absent)],
                "{item}"
            );
            self.counts.entry(item).or_insert(1);
        }
    }

    fn delete(&mut self) {
        for (item, reply) in self.call("CF.DEL k", true) {
            assert_eq!(reply, if self.count(&item) > 0 { "#t" } else { "#f" }, "{item}");
            if let Some(count) = self.counts.get_mut(&item) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&item);
                }
            }
        }
    }

    fn look_up(&mut self) {
        for (item, reply) in self.call("CF.MEXISTS k", false) {
            assert_eq!(reply, if self.count(&item) > 0 { "#t" } else { "#f" }, "{item}");
        }
        for (item, reply) in self.call("CF.COUNT k", true) {
            assert_eq!(reply, format!(":{}", self.count(&item)), "{item}");
        }
    }
}

/// The error rate is so small that no item shares an entry with another one, although the filter grows and shrinks.
#[test]
fn occurrences_are_counted_exactly() {
    for (seed, items) in [(1, 5), (2, 300), (3, 40_000)] {
        let (server, counts, random) = (Server::new(), HashMap::new(), Random(seed));
        let mut oracle = Oracle { server, counts, random, items };
        oracle.server.protocol = Protocol::Resp3;
        assert_eq!(oracle.server.run("CF.RESERVE k 100 ERROR 0.00000000001"), "+OK");
        let mut grows = true;
        for operation in 0..operations() / 40 {
            grows ^= operation % 3_000 == 0;
            match oracle.random.below(10) {
                0 => oracle.look_up(),
                1..5 if grows => oracle.add(),
                5 if grows => oracle.add_absent(),
                _ => oracle.delete(),
            }
        }
        let sum: u64 = oracle.counts.values().sum();
        assert_eq!(oracle.server.run("BF.CARD k"), format!(":{sum}"), "seed {seed}");
    }
}
