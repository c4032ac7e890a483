//! The table of kinds, and filters of every kind in a server: created, checked, used.

use redis::Value;

use crate::foreign::{self, OnServer};
use crate::harness::{Client, now_ms, show};
use crate::import;
use crate::support::fixtures::{AMBIGUOUS, Case};
use crate::vectors::systems;

/// The kinds: a name and the commands that create a filter of it. `$` is its key, `#` its capacity and `@` its shape.
pub(crate) const KINDS: &[(&str, &[&str])] = &[
    ("created-by-add", &["BF.ADD $ first"]),
    ("created-keyed", &["BF.INSERT $ ERROR 0.000001 KEYED ITEMS first"]),
    ("scaling", &["BF.RESERVE $ 0.001 # EXPANSION 3"]),
    ("tiny-rate", &["BF.RESERVE $ 0.00000123456789 #"]),
    ("fixed", &["BF.RESERVE $ 0.01 # NONSCALING"]),
    ("saturating", &["BF.RESERVE $ 0.01 # NONSCALING SATURATE"]),
    ("keyed", &["BF.RESERVE $ 0.01 # KEYED"]),
    ("keyed-fixed", &["BF.RESERVE $ 0.01 # KEYED NONSCALING"]),
    ("counting", &["BF.RESERVE $ 0.001 # COUNTING", "BF.MADD $ twice twice gone gone", "BF.DEL $ gone gone"]),
    // Five distinct items take five items of the capacity, however often each is added.
    ("counting-fixed", &["BF.RESERVE $ 0.0001 # COUNTING NONSCALING", "BF.MADD $ a a a a a b c d e"]),
    (
        "counting-often",
        &["BF.INSERT $ COUNTING ITEMS a b", "BF.MADD $ a a a a a a a a a a a a a a a a a a a a a a a"],
    ),
    ("keyed-counting", &["BF.INSERT $ CAPACITY # KEYED COUNTING ITEMS a a b", "BF.DEL $ b"]),
    (
        "cuckoo-created",
        &["CF.ADD $ first", "CF.INSERT $ ITEMS twice twice gone gone", "CF.DEL $ gone", "CF.DEL $ gone"],
    ),
    ("cuckoo", &["CF.RESERVE $ # EXPANSION 4 KEYED", "CF.INSERTNX $ ITEMS a a b"]),
    ("cuckoo-fixed", &["CF.RESERVE $ # EXPANSION 0", "CF.ADDNX $ a"]),
    ("window", &["BF.RESERVE $ 0.01 # WINDOW 10000"]),
    ("window-fixed", &["BF.RESERVE $ 0.01 # WINDOW 10000 NONSCALING NOREFRESH"]),
    ("keyed-window", &["BF.RESERVE $ 0.01 # WINDOW 10000 KEYED"]),
    ("redisbloom", &["BF.RESERVE $ 0.01 # FORMAT redisbloom"]),
    ("redisbloom-fixed", &["BF.RESERVE $ 0.01 # FORMAT redisbloom NONSCALING"]),
    ("valkey-bloom", &["BF.RESERVE $ 0.01 # FORMAT valkey-bloom"]),
    ("valkey-bloom-fixed", &["BF.RESERVE $ 0.01 # FORMAT valkey-bloom NONSCALING"]),
    ("imported", &["BF.IMPORT $ EMPTY SCHEME go-zero BITS #00 CAPACITY # EXPANSION 3"]),
    ("imported-fixed", &["BF.IMPORT $ EMPTY SCHEME murmur3-salted BITS #00 HASHES 5 NONSCALING"]),
    ("united", &["BF.MERGE $ scaling-@ keyed-fixed-@ redisbloom-@ valkey-bloom-@ imported-@ FORCE"]),
    ("united-keyed", &["BF.MERGE $ keyed-@ keyed-fixed-@ FORCE"]),
    ("united-tables", &["BF.MERGE $ created-by-add-@ scaling-@ FORCE"]),
    ("united-counts", &["BF.MERGE $ counting-@ FORCE"]),
    ("united-windows", &["BF.MERGE $ window-@ FORCE"]),
];

/// The shapes of the filters of every kind: a name, a capacity, the number of added items. Filters of the shape
/// `cleared` are then cleared, and get one item.
const SHAPES: [(&str, &str, usize); 5] = [
    ("empty", "1000", 0),
    ("grown", "10", 300),
    ("cleared", "10", 300),
    ("paged", "500000", 300),
    ("split", "10", 9000),
];
/// The shape whose tables have several segments, and the kinds that have it.
const SPLIT: (&str, [&str; 5]) = ("split", ["created-by-add", "scaling", "counting", "window", "imported"]);

/// Creates a filter of a kind.
pub(crate) fn make(client: &mut Client, kind: &[&str], key: &str, capacity: &str, shape: &str) {
    for line in kind {
        let line = line.replace('$', key).replace('#', capacity).replace('@', shape);
        let reply = client.say(&line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
}

/// A filter in a server, and its expected state.
pub(crate) struct Filter {
    pub(crate) key: String,
    /// Items that must be found in it.
    pub(crate) members: Vec<Vec<u8>>,
    pub(crate) recorded: Option<Case>,
    /// The time at which items are added, for a filter with a window.
    at_ms: Option<u64>,
    state: State,
    /// The replies to [`Filter::add_more`] and the digest afterwards.
    more: (Vec<String>, String),
}

/// The state that a journey must not change.
#[derive(Debug, Default, PartialEq)]
struct State {
    digest: String,
    described: Vec<String>,
}

impl State {
    fn of(client: &mut Client, key: &str) -> Self {
        // The size in bytes depends on the allocator, so it is not included.
        let commands =
            ["BF.CARD $", "BF.DEBUG $", "BF.INFO $ CAPACITY", "BF.INFO $ FILTERS", "BF.INFO $ EXPANSION"];
        let described = commands.map(|command| client.say(&command.replace('$', key)));
        Self { digest: client.digest(key), described: described.into() }
    }
}

impl Filter {
    fn new(key: String) -> Self {
        let (state, more) = Default::default();
        Self { key, members: Vec::new(), recorded: None, at_ms: None, state, more }
    }

    /// Adds items. Accepted items become members.
    fn add(&mut self, client: &mut Client, items: Vec<Vec<u8>>) {
        let replies = add(client, &self.key, self.at_ms, &items);
        let taken = replies.iter().take_while(|reply| matches!(reply.as_str(), "0" | "1")).count();
        self.members.extend(items.into_iter().take(taken));
    }

    /// Adds items to the filter under a key, which fill or grow it. Returns the replies.
    fn add_more(&self, client: &mut Client, key: &str) -> Vec<String> {
        let items: Vec<Vec<u8>> = (0..100).map(|number| format!("more-{number}").into_bytes()).collect();
        add(client, key, self.at_ms, &items)
    }

    /// Records the state of the filter, and the replies and the digest of a copy that gets more items.
    fn record_state(mut self, client: &mut Client) -> Self {
        self.state = State::of(client, &self.key);
        assert_eq!(client.int(&format!("COPY {} more", self.key)), 1);
        let replies = self.add_more(client, "more");
        self.more = (replies, client.digest("more"));
        client.say("DEL more");
        self
    }

    /// Checks that the filter under a key has the recorded state.
    pub(crate) fn assert_same(&self, client: &mut Client, key: &str, way: &str) {
        assert_eq!(State::of(client, key), self.state, "{} by {way}", self.key);
        self.assert_members(client, key, way);
        if let Some(case) = &self.recorded {
            case.assert_replies(client, key);
        }
    }

    /// Checks that every added item is found in the filter under a key.
    pub(crate) fn assert_members(&self, client: &mut Client, key: &str, way: &str) {
        let found = foreign::lookups(client, key, &self.members);
        assert!(found.iter().all(|reply| *reply == '1'), "{} lost an item by {way}", self.key);
    }

    /// Checks that the filter under a key accepts further items as the original did.
    pub(crate) fn assert_goes_on(&self, client: &mut Client, key: &str, way: &str) {
        let replies = self.add_more(client, key);
        assert_eq!((replies, client.digest(key)), self.more, "{} by {way}, going on", self.key);
    }
}

/// Adds items and returns the replies. Without a time, the second half of the items is one packed batch.
fn add(client: &mut Client, key: &str, at_ms: Option<u64>, items: &[Vec<u8>]) -> Vec<String> {
    let line = at_ms.map(|at_ms| format!("BF.INSERT {key} NOCREATE AT {at_ms} ITEMS"));
    let (items, packed) = items.split_at(if line.is_some() { items.len() } else { items.len().div_ceil(2) });
    let mut replies = client.many(&line.unwrap_or(format!("BF.MADD {key}")), items);
    if !packed.is_empty() {
        let length = |item: &Vec<u8>| u32::try_from(item.len()).unwrap().to_le_bytes();
        let data: Vec<u8> =
            packed.iter().flat_map(|item| [&length(item), item.as_slice()].concat()).collect();
        let added = client.bytes(&[b"BF.BULKADD", key.as_bytes(), b"PREFIXED", &data]);
        let value = |added| if added == b'!' { Value::Nil } else { Value::Int(i64::from(added - b'0')) };
        replies.extend(added.into_iter().map(value));
    }
    replies.iter().map(show).collect()
}

/// Returns items: three that are empty or binary, then numbered ones.
fn items(count: usize) -> Vec<Vec<u8>> {
    let special = [b"".to_vec(), b"\0".to_vec(), b"\xff\r\n".to_vec()];
    let numbered = (0..count).map(|number| format!("item-{number}").into_bytes());
    special.into_iter().chain(numbered).take(count).collect()
}

/// Creates filters of every kind in every shape, a filter of every client's scheme, and the recorded filters whose
/// bytes determine their hash.
pub(crate) fn fill(client: &mut Client) -> Vec<Filter> {
    let now_ms = now_ms();
    let mut filters = Vec::new();
    for (shape, capacity, count) in SHAPES {
        for (name, kind) in KINDS {
            if shape == SPLIT.0 && !SPLIT.1.contains(name) {
                continue;
            }
            let mut filter = Filter::new(format!("{name}-{shape}"));
            make(client, kind, &filter.key, capacity, shape);
            if count > 0 && name.contains("window") {
                // The items are spread over the window, except its oldest tenth, which may expire during the test.
                for (part, items) in (0..).zip(items(count).chunks(count.div_ceil(10))) {
                    filter.at_ms = Some(now_ms - part * 7919 % 9000 * 1000);
                    filter.add(client, items.to_vec());
                }
            } else if count > 0 {
                filter.add(client, items(count));
            }
            filter.at_ms = name.contains("window").then_some(now_ms);
            if shape == "cleared" {
                assert_eq!(client.say(&format!("BF.CLEAR {}", filter.key)), "+OK");
                filter.members.clear();
                filter.add(client, vec![b"after".to_vec()]);
            }
            filters.push(filter);
        }
    }
    for system in systems() {
        import::import(client, &system);
        let mut filter = Filter::new(system.name.to_owned());
        filter.members = system.items("members");
        filter.add(client, system.items("queries"));
        filters.push(filter);
    }
    filters.extend(restore(client, |case| case.producer != AMBIGUOUS));
    filters.into_iter().map(|filter| filter.record_state(client)).collect()
}

/// Loads the recorded filters of RedisBloom 1.1, for a server with the setting for them.
pub(crate) fn fill_ambiguous(client: &mut Client) -> Vec<Filter> {
    let filters = restore(client, |case| case.producer == AMBIGUOUS);
    filters.into_iter().map(|filter| filter.record_state(client)).collect()
}

fn restore(client: &mut Client, is_chosen: fn(&Case) -> bool) -> Vec<Filter> {
    let cases = foreign::cases().into_iter().filter(is_chosen);
    let restored = cases.map(|case| {
        let mut payload = case.payload.clone();
        // Version 10 is that of Redis 7.0, so every server accepts it.
        foreign::set_snapshot_version(&mut payload, 10);
        assert_eq!(foreign::restore(client, &case.key, &payload), "+OK", "{}", case.key);
        Filter { recorded: Some(case), ..Filter::new(String::new()) }
    });
    let named =
        restored.map(|filter| Filter { key: filter.recorded.as_ref().unwrap().key.clone(), ..filter });
    named.collect()
}
