//! Slots are migrated between three primaries under load, key by key, and atomically if the server can: no item is
//! lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redis::Value;

use super::Drill;
use crate::cluster::migrates_slots_at_once;
use crate::harness::{Client, Server, Site, Test, show, tests, wait_until};
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
    let servers = [(); 3].map(|()| site.launch().in_cluster().start());
    assemble(&servers);
    let ports = servers.each_ref().map(Server::port);
    let mut router = Router::new(ports[0]);
    for (key, creation) in KEYS {
        let words = [vec!["BF.INSERT", key], creation.split(' ').collect(), vec!["ITEMS", "made"]].concat();
        router.call(key, &words);
    }
    let is_over = AtomicBool::new(false);
    let seed = drill.random.next();
    let added = thread::scope(|scope| {
        let load = scope.spawn(|| add(Router::new(ports[1]), Random(seed), &is_over));
        // Stop the load even if something fails.
        let over = Over(&is_over);
        while drill.goes_on() {
            let key = KEYS[drill.random.below(KEYS.len())].0;
            let to = drill.random.below(3);
            if move_slot(&servers, key, to, drill.random.below(2) == 0) {
                drill.count("slots moved", 1);
            }
        }
        drop(over);
        load.join().expect("the load")
    });
    for (key, items) in &added {
        for items in items.chunks(300) {
            let words: Vec<&str> =
                ["BF.MEXISTS", key].into_iter().chain(items.iter().map(String::as_str)).collect();
            let Value::Array(replies) = router.call(key, &words) else { panic!("BF.MEXISTS {key}") };
            assert!(replies.iter().all(|reply| *reply == Value::Int(1)), "{key} lost an item");
        }
        drill.count("acknowledged items, none lost", items.len() as u64);
    }
}

/// Sets the flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Connects three nodes, each with a third of the slots.
fn assemble(servers: &[Server; 3]) {
    let mut first = servers[0].client();
    for (number, server) in servers.iter().enumerate() {
        let (from, to) = (number * 16384 / 3, (number + 1) * 16384 / 3 - 1);
        assert_eq!(server.client().say(&format!("CLUSTER ADDSLOTSRANGE {from} {to}")), "+OK");
        // Nodes with equal epochs may reject the owner of a slot that has just moved.
        assert_eq!(server.client().say(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1)), "+OK");
        if number > 0 {
            let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", server.port(), server.bus_port());
            assert_eq!(first.say(&meet), "+OK");
        }
    }
    for server in servers {
        let mut client = server.client();
        wait_until("cluster up", || {
            let info = String::from_utf8(client.bytes(&["CLUSTER", "INFO"])).unwrap();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        });
    }
    settle(servers);
}

/// Adds items until the flag is set. Returns the acknowledged items.
fn add(mut router: Router, mut random: Random, is_over: &AtomicBool) -> HashMap<&'static str, Vec<String>> {
    let mut added: HashMap<&str, Vec<String>> = HashMap::new();
    let mut number = 0u64;
    while !is_over.load(Ordering::Relaxed) {
        let key = KEYS[random.below(KEYS.len())].0;
        let items: Vec<String> = (0..5).map(|item| format!("{number}-{item}")).collect();
        number += 1;
        // With an outdated redirection, a client could otherwise create the filter again on the wrong node.
        let front = ["BF.INSERT", key, "NOCREATE", "ITEMS"];
        let words: Vec<&str> = front.into_iter().chain(items.iter().map(String::as_str)).collect();
        match router.call(key, &words) {
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

    fn call(&mut self, key: &str, words: &[&str]) -> Value {
        let mut port = *self.ports.get(key).unwrap_or(&self.first);
        let mut is_asking = false;
        for _ in 0..2000 {
            let client = self.client(port);
            if is_asking {
                client.say("ASKING");
            }
            let reply = client.call(words);
            let text = if matches!(reply, Value::ServerError(_)) { show(&reply) } else { String::new() };
            is_asking = text.starts_with("-ASK ");
            if is_asking || text.starts_with("-MOVED ") {
                port = text.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
                if !is_asking {
                    self.ports.insert(key.to_owned(), port);
                }
            } else if ["-CLUSTERDOWN", "-TRYAGAIN", "-ERR not found"]
                .iter()
                .any(|error| text.starts_with(error))
            {
                thread::sleep(std::time::Duration::from_millis(5));
            } else {
                return reply;
            }
        }
        panic!("{key} is sent to and fro")
    }
}

/// Moves the slot of a key to a node. Returns false if it is there already.
fn move_slot(servers: &[Server; 3], key: &str, to: usize, may_be_at_once: bool) -> bool {
    let slot = servers[0].client().int(&format!("CLUSTER KEYSLOT {key}"));
    let owner =
        servers.iter().position(|server| !server.client().say(&format!("BF.CARD {key}")).starts_with('-'));
    let Some(owner) = owner.filter(|owner| *owner != to) else { return false };
    let (mut from, mut into) = (servers[owner].client(), servers[to].client());
    let id = |client: &mut Client| String::from_utf8(client.bytes(&["CLUSTER", "MYID"])).unwrap();
    let (from_id, to_id) = (id(&mut from), id(&mut into));
    if may_be_at_once && migrates_slots_at_once(&mut from) {
        assert_eq!(from.say(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {to_id}")), "+OK");
        wait_until("slot moved", || from.say(&format!("BF.CARD {key}")).starts_with("-MOVED"));
    } else {
        assert_eq!(into.say(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")), "+OK");
        assert_eq!(from.say(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")), "+OK");
        let migrate = format!("MIGRATE 127.0.0.1 {} {key} 0 60000", servers[to].port());
        assert_eq!(from.say(&migrate), "+OK");
        // All nodes get the new owner, as with redis-cli: a node that learns it late may redirect clients back, or
        // claim the slot.
        let mut third = servers[3 - owner - to].client();
        for client in [&mut into, &mut from, &mut third] {
            assert_eq!(client.say(&format!("CLUSTER SETSLOT {slot} NODE {to_id}")), "+OK");
        }
    }
    wait_until("slot taken", || !into.say(&format!("BF.CARD {key}")).starts_with('-'));
    settle(servers);
    true
}

/// Waits until all nodes agree on the owner and the epoch of every slot. A node that gets a slot claims it with the
/// highest epoch that it knows. If it does not know the epoch of the last move, a node that receives both claims
/// later assigns the slot to the last owner, which no longer has its keys.
fn settle(servers: &[Server; 3]) {
    wait_until("nodes agree", || {
        let views = servers.each_ref().map(|server| {
            let nodes = String::from_utf8(server.client().bytes(&["CLUSTER", "NODES"])).unwrap();
            let mut view: Vec<String> = nodes.lines().map(owned).collect();
            view.sort_unstable();
            view
        });
        views[0] == views[1] && views[1] == views[2]
    });
}

/// Returns the slots in a line of CLUSTER NODES: name, epoch and the slots that are not migrating.
fn owned(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let slots = words[8..].iter().filter(|slots| !slots.starts_with('['));
    [words[0], words[6]].iter().chain(slots).copied().collect::<Vec<_>>().join(" ")
}
