//! Slots are migrated between three primaries under load, key by key, and atomically if the server can: no item is
//! lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use super::{Drill, Over};
use crate::cluster::Migrator;
use crate::harness::{Client, Cluster, Site, Test, numbered, show, tests, wait_until};
use crate::support::Random;

pub(super) const TESTS: &[Test] = tests![no_item_is_lost_while_slots_move];

/// Keys, mostly in different slots, and how their filters are created.
const KEYS: [(&str, &str); 7] = [
    ("a", "CAPACITY 20"),
    ("b", "CAPACITY 20 FORMAT redisbloom"),
    ("c", "CAPACITY 20 FORMAT valkey-bloom"),
    ("d", "CAPACITY 20 COUNTING"),
    ("e", "CAPACITY 20 KEYED"),
    ("f", "CAPACITY 3000000"),
    ("g", "CAPACITY 2000 WINDOW 86400"),
];

fn no_item_is_lost_while_slots_move(site: &Site) {
    let mut drill = Drill::new("slots that move under load", site, 6);
    let cluster = Cluster::start([(); 3].map(|()| site.launch()), 3);
    let port = cluster.nodes[0].port();
    let mut router = Router::new(port);
    for (key, creation) in KEYS {
        router.call(key, &format!("BF.INSERT {key} {creation} ITEMS made"), &[]);
    }
    let is_over = AtomicBool::new(false);
    let seed = drill.random.next();
    let added = thread::scope(|scope| {
        let load = scope.spawn(|| add(Router::new(port), Random(seed), &is_over));
        let over = Over(&is_over);
        while drill.goes_on() {
            let key = KEYS[drill.random.below(KEYS.len())].0;
            let to = drill.random.below(3);
            if move_slot(&cluster, key, to, drill.random.below(2) == 0) {
                drill.count("slots moved", 1);
            }
        }
        drop(over);
        load.join().expect("the load")
    });
    for (key, items) in &added {
        for items in items.chunks(300) {
            let reply = router.call(key, &format!("BF.MEXISTS {key}"), items);
            let Value::Array(replies) = reply else { panic!("BF.MEXISTS {key}") };
            assert!(replies.iter().all(|reply| *reply == Value::Int(1)), "{key} lost an item");
        }
        drill.count("acknowledged items, none lost", items.len() as u64);
    }
}

/// Adds items until the flag is set. Returns the acknowledged items.
fn add(mut router: Router, mut random: Random, is_over: &AtomicBool) -> HashMap<&'static str, Vec<String>> {
    let mut added: HashMap<&str, Vec<String>> = HashMap::new();
    let mut number = 0u64;
    while !is_over.load(Ordering::Relaxed) {
        let key = KEYS[random.below(KEYS.len())].0;
        let items = numbered(&number.to_string(), 0..5);
        number += 1;
        // Without NOCREATE, a client with an outdated redirection could create the filter again on the wrong node.
        match router.call(key, &format!("BF.INSERT {key} NOCREATE ITEMS"), &items) {
            Value::Array(replies) if replies.iter().all(|reply| matches!(reply, Value::Int(_))) => {
                added.entry(key).or_default().extend(items);
            }
            other => panic!("{key}: {}", show(&other)),
        }
    }
    added
}

/// A client that follows redirections.
struct Router {
    clients: HashMap<u16, Client>,
    ports: HashMap<String, u16>,
    first: u16,
}

impl Router {
    fn new(first: u16) -> Self {
        Self { clients: HashMap::new(), ports: HashMap::new(), first }
    }

    fn client(&mut self, port: u16) -> &mut Client {
        self.clients.entry(port).or_insert_with(|| Client::connect(port, false).expect("connect"))
    }

    fn call(&mut self, key: &str, line: &str, items: &[String]) -> Value {
        let words: Vec<&str> = line.split(' ').chain(items.iter().map(String::as_str)).collect();
        let mut port = *self.ports.get(key).unwrap_or(&self.first);
        let mut is_asking = false;
        for redirections in 0..2000 {
            let client = self.client(port);
            if is_asking {
                client.say("ASKING");
            }
            let reply = client.call(&words);
            let text = if matches!(reply, Value::ServerError(_)) { show(&reply) } else { String::new() };
            is_asking = text.starts_with("-ASK ");
            if is_asking || text.starts_with("-MOVED ") {
                port = text.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
                if !is_asking {
                    self.ports.insert(key.to_owned(), port);
                }
                // The nodes may disagree for some seconds.
                if redirections > 20 {
                    thread::sleep(Duration::from_millis(5));
                }
            } else if ["-CLUSTERDOWN", "-TRYAGAIN", "-ERR not found"]
                .iter()
                .any(|error| text.starts_with(error))
            {
                thread::sleep(Duration::from_millis(5));
            } else {
                return reply;
            }
        }
        panic!("{key} is sent to and fro")
    }
}

/// Moves the slot of a key to a node. Returns false if it is there already.
fn move_slot(cluster: &Cluster, key: &str, to: usize, may_be_at_once: bool) -> bool {
    let slot = cluster.client(0).int(&format!("CLUSTER KEYSLOT {key}"));
    let owns = |node: &usize| !cluster.client(*node).say(&format!("BF.CARD {key}")).starts_with('-');
    let Some(from) = (0..3).find(owns).filter(|from| *from != to) else { return false };
    let migrator = may_be_at_once.then(|| Migrator::of(&mut cluster.client(from))).flatten();
    if let Some(migrator) = migrator {
        migrator.move_slot(cluster, key, from, to);
    } else {
        cluster.begin_move(slot, from, to);
        cluster.migrate(key, from, to);
        cluster.end_move(slot, to);
    }
    wait_until("slot taken", || owns(&to));
    let mut last_try = Instant::now();
    wait_until("nodes agree", || {
        if last_try.elapsed() > Duration::from_secs(2) {
            cluster.repeat_end_of_move(slot, to);
            last_try = Instant::now();
        }
        cluster.agrees()
    });
    true
}
