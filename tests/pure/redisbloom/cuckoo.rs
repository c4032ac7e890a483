//! RedisBloom's cuckoo filters: the recorded commands give the same replies and the same bytes.

use data_encoding::BASE64;
use everbloom_command::{CuckooSettings, Settings};
use everbloom_filter::cuckoo::array::{BucketArray, CuckooHash, CuckooRelease};
use everbloom_filter::cuckoo::filter::{CuckooFilter, CuckooParameters};
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{AddError, Format, ReserveError, work};
use everbloom_format::DecodeError;
use everbloom_format::chunks::Rewritten;
use everbloom_format::redisbloom::cuckoo::{chunk, from_header, load, load_chunk, rewrite, save};
use serde_json::{Value, json};

use crate::support::rdb::{Field, Payload, Record};
use crate::support::server::Server;
use crate::support::work::{assert_work, bounded};
use crate::support::{ROOT, Random, slices};

/// Returns the recorded cases.
fn cases() -> Vec<Value> {
    let path = format!("{ROOT}/tests/fixtures/redisbloom-cuckoo.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["cases"].as_array().unwrap().clone()
}

fn server() -> Server {
    let mut server = Server::new();
    server.settings = Settings { format: Format::RedisBloom, ..Settings::DEFAULT };
    server
}

fn saved(filter: &CuckooFilter) -> Record {
    let mut record = Record::default();
    save(filter, &mut record);
    record
}

/// Returns the reply of the last command as the recordings write it.
fn reply_of(server: &Server, words: &mut impl Iterator<Item = String>) -> Value {
    let word = words.next().unwrap();
    let (mark, rest) = word.split_at(1);
    match (mark, rest) {
        ("#", "t") => json!(1),
        ("#", _) => json!(0),
        (":", number) => json!(number.parse::<i64>().unwrap()),
        ("+", text) => json!(text),
        ("-", text) => json!({ "error": text }),
        ("_", _) => Value::Null,
        ("*", count) => (0..count.parse().unwrap()).map(|_| reply_of(server, words)).collect(),
        ("%", count) => (0..2 * count.parse::<usize>().unwrap()).map(|_| reply_of(server, words)).collect(),
        ("$", _) => json!({ "base64": BASE64.encode(&server.bulk) }),
        _ => panic!("{word}"),
    }
}

/// A server, and a replica that RedisBloom would feed: it gets each write whose reply is no error, word for word.
struct Deployment {
    server: Server,
    replica: Server,
}

impl Deployment {
    /// The replica has limits that it must not apply.
    fn new() -> Self {
        let mut replica = server();
        replica.is_replicated = true;
        replica.settings.max_filter_bytes = 1024;
        replica.settings.cuckoo.max_expansions = 1;
        Self { server: server(), replica }
    }

    fn call(&mut self, words: &[Vec<u8>]) -> Value {
        const WRITES: [&[u8]; 8] = [
            b"CF.RESERVE",
            b"CF.ADD",
            b"CF.ADDNX",
            b"CF.INSERT",
            b"CF.INSERTNX",
            b"CF.DEL",
            b"CF.COMPACT",
            b"CF.LOADCHUNK",
        ];
        let reply = call(&mut self.server, words);
        if WRITES.contains(&words[0].as_slice()) && reply["error"].is_null() {
            assert_eq!(call(&mut self.replica, words), reply);
        }
        reply
    }

    fn assert_state(&mut self, name: &str, recorded: &Value) {
        assert_state(&mut self.server, name, recorded);
        assert_state(&mut self.replica, name, recorded);
    }
}

fn call(server: &mut Server, words: &[Vec<u8>]) -> Value {
    server.call(&slices(words));
    let mut words = server.reply.clone().into_iter();
    reply_of(server, &mut words)
}

fn bytes_of(word: &Value) -> Vec<u8> {
    match word {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Number(number) => number.to_string().into_bytes(),
        other => BASE64.decode(other["base64"].as_str().unwrap().as_bytes()).unwrap(),
    }
}

/// Returns whether a reply is the recorded one. Of long strings only the length is recorded here.
fn is_as_recorded(got: &Value, recorded: &Value) -> bool {
    match (got, recorded) {
        (Value::Array(got), Value::Array(recorded)) => {
            got.len() == recorded.len()
                && got.iter().zip(recorded).all(|(got, recorded)| is_as_recorded(got, recorded))
        }
        (got, recorded) if recorded["len"].is_number() => bytes_of(got).len() as u64 == recorded["len"],
        (got, recorded) => got == recorded,
    }
}

/// Returns the letter with which the recordings write a reply to one item.
fn letter(reply: &Value) -> char {
    match reply {
        Value::Number(number) if number.as_i64() == Some(-1) => '-',
        Value::Number(number) if number.as_i64() == Some(0) => '0',
        Value::Number(_) => '1',
        reply if reply["error"] == "Filter is full" => 'F',
        reply if reply["error"] == "Maximum expansions reached" => 'M',
        _ => 'E',
    }
}

/// Returns the items of a step.
fn items(step: &Value) -> Vec<Vec<u8>> {
    if let Some(items) = step["base64"].as_array() {
        return items.iter().map(|item| BASE64.decode(item.as_str().unwrap().as_bytes()).unwrap()).collect();
    }
    let number = |field: &str, default| step[field].as_u64().unwrap_or(default);
    let (from, count, step_size) = (number("from", 0), number("count", 0), number("step", 1));
    let format = step["format"].as_str().unwrap();
    let item = |index: u64| format.replace("%d", &(from + index * step_size).to_string()).into_bytes();
    (0..count).map(item).collect()
}

/// Runs a step. Returns its reply as the recordings write it.
fn run(site: &mut Deployment, key: &[u8], step: &Value) -> Value {
    if let Some(words) = step.as_array() {
        let mut words: Vec<Vec<u8>> = words.iter().map(bytes_of).collect();
        words.insert(1, key.to_vec());
        return site.call(&words);
    }
    if let Some(chunk) = step["chunk"].as_array() {
        let data = BASE64.decode(chunk[1].as_str().unwrap().as_bytes()).unwrap();
        return site.call(&[b"CF.LOADCHUNK".to_vec(), key.to_vec(), bytes_of(&chunk[0]), data]);
    }
    let items = items(step);
    let letters: String = if let Some(name) = step["each"].as_str() {
        let one =
            |item: &Vec<u8>| letter(&site.call(&[name.as_bytes().to_vec(), key.to_vec(), item.clone()]));
        items.iter().map(one).collect()
    } else {
        let name = step["batch"].as_str().unwrap().as_bytes().to_vec();
        let batches = items.chunks(step["size"].as_u64().unwrap() as usize).map(|items| {
            let mut words = vec![name.clone(), key.to_vec(), b"ITEMS".to_vec()];
            words.extend(items.iter().cloned());
            match site.call(&words) {
                Value::Array(replies) => replies.iter().map(letter).collect::<String>(),
                reply => letter(&reply).to_string(),
            }
        });
        batches.collect()
    };
    json!(letters)
}

fn assert_state(server: &mut Server, name: &str, recorded: &Value) {
    let key = name.as_bytes().to_vec();
    if let Some(payload) = recorded["dump_b64"].as_str() {
        let payload = Payload::read(&BASE64.decode(payload.as_bytes()).unwrap());
        let filter = &server.cuckoos[&key];
        assert_eq!((payload.type_name.as_str(), payload.encoding_version), ("MBbloomCF", 4));
        assert!(saved(filter) == payload.record, "{name}: other bytes");
        let loaded = load(4, &mut payload.record.reader(), &u64::MAX).unwrap();
        assert!(saved(&loaded) == payload.record, "{name}: other bytes after a load");
    }
    assert_eq!(call(server, &[b"CF.INFO".to_vec(), key.clone()]), recorded["info"], "{name}");
    call(server, &[b"CF.DEBUG".to_vec(), key]);
    assert_eq!(server.bulk, recorded["debug"].as_str().unwrap().as_bytes(), "{name}");
}

#[test]
fn recorded_commands_give_the_recorded_replies_and_bytes() {
    let cases = cases();
    assert_eq!(cases.len(), 31);
    for case in cases {
        let name = case["case"].as_str().unwrap();
        let (mut site, key) = (Deployment::new(), name.as_bytes().to_vec());
        let steps = case["steps"].as_array().unwrap().iter().zip(case["step_replies"].as_array().unwrap());
        for (step, reply) in steps {
            assert_eq!(
                run(&mut site, &key, step),
                *reply,
                "{name}: {}",
                step.to_string().chars().take(200).collect::<String>()
            );
        }
        site.assert_state(name, &case);
        for count in case["counts"].as_array().unwrap() {
            let words = [b"CF.COUNT".to_vec(), key.clone(), bytes_of(&count[0])];
            assert_eq!(site.call(&words), count[1], "{name}: {count}");
        }
        let probes = items(&case["probes"]);
        let answers: String = probes
            .iter()
            .map(|item| letter(&site.call(&[b"CF.EXISTS".to_vec(), key.clone(), item.clone()])))
            .collect();
        assert_eq!(answers, case["probe_answers"].as_str().unwrap(), "{name}");
        let mut iterator = b"0".to_vec();
        for chunk in case["scandump"].as_array().unwrap() {
            let reply = site.call(&[b"CF.SCANDUMP".to_vec(), key.clone(), iterator]);
            let expected =
                if chunk[1].is_string() { json!({ "base64": chunk[1] }) } else { chunk[1].clone() };
            assert!(reply[0] == chunk[0] && is_as_recorded(&reply[1], &expected), "{name}");
            iterator = bytes_of(&chunk[0]);
        }
        let continuation = &case["continuation"];
        let commands = continuation["commands"].as_array().unwrap().iter();
        for (words, reply) in commands.zip(continuation["replies"].as_array().unwrap()) {
            let command: Vec<Vec<u8>> = words.as_array().unwrap().iter().map(bytes_of).collect();
            let got = site.call(&command);
            assert!(is_as_recorded(&got, reply), "{name}: {words}: {got}, {reply}");
        }
        site.assert_state(name, continuation);
    }
}

/// A second filter, written from the rules of docs/formats.md in the plainest way.
struct Plain {
    bucket_size: usize,
    iterations: usize,
    expansion: u64,
    buckets: u64,
    items: u64,
    deletes: u64,
    /// The number of buckets of each array, and its slots.
    arrays: Vec<(u64, Vec<u8>)>,
}

impl Plain {
    fn places(&self, array: usize, number: u64) -> std::ops::Range<usize> {
        let start = (number % self.arrays[array].0) as usize * self.bucket_size;
        start..start + self.bucket_size
    }

    fn find(&self, array: usize, hash: (u8, u64, u64), value: u8) -> Option<usize> {
        let both = [hash.1, hash.2].into_iter().flat_map(|number| self.places(array, number));
        both.into_iter().find(|place| self.arrays[array].1[*place] == value)
    }

    fn other(fingerprint: u8, number: u64) -> u64 {
        number ^ (u64::from(fingerprint) * 0x5bd1_e995)
    }

    fn hash(item: &[u8]) -> (u8, u64, u64) {
        let h = everbloom_filter::hash::murmur2::murmur64a(item, 0);
        let fingerprint = (h % 255 + 1) as u8;
        (fingerprint, h, Self::other(fingerprint, h))
    }

    fn add(&mut self, item: &[u8]) -> bool {
        let hash = Self::hash(item);
        loop {
            for array in (0..self.arrays.len()).rev() {
                if let Some(place) = self.find(array, hash, 0) {
                    self.arrays[array].1[place] = hash.0;
                    self.items = self.items.wrapping_add(1);
                    return true;
                }
            }
            let newest = self.arrays.len() - 1;
            let buckets = self.arrays[newest].0;
            let before = self.arrays[newest].1.clone();
            let (mut carry, mut bucket, mut slot) = (hash.0, hash.1 % self.arrays[newest].0, 0);
            for _ in 0..self.iterations {
                let place = self.places(newest, bucket).start + slot;
                std::mem::swap(&mut carry, &mut self.arrays[newest].1[place]);
                bucket = Self::other(carry, bucket) % buckets;
                let free = self.places(newest, bucket).find(|place| self.arrays[newest].1[*place] == 0);
                if let Some(place) = free {
                    self.arrays[newest].1[place] = carry;
                    self.items = self.items.wrapping_add(1);
                    return true;
                }
                slot = (slot + 1) % self.bucket_size;
            }
            for _ in 0..self.iterations {
                slot = (slot + self.bucket_size - 1) % self.bucket_size;
                bucket = Self::other(carry, bucket) % buckets;
                let place = self.places(newest, bucket).start + slot;
                std::mem::swap(&mut carry, &mut self.arrays[newest].1[place]);
            }
            assert!(!buckets.is_power_of_two() || self.arrays[newest].1 == before);
            if self.expansion == 0 {
                // A refused add changes nothing here.
                self.arrays[newest].1 = before;
                return false;
            }
            let buckets = self.buckets * self.expansion.pow(self.arrays.len() as u32);
            self.arrays.push((buckets, vec![0; buckets as usize * self.bucket_size]));
        }
    }

    fn delete(&mut self, item: &[u8]) -> bool {
        let hash = Self::hash(item);
        for array in (0..self.arrays.len()).rev() {
            if let Some(place) = self.find(array, hash, hash.0) {
                self.arrays[array].1[place] = 0;
                self.items = self.items.wrapping_sub(1);
                self.deletes += 1;
                if self.arrays.len() > 1 && self.deletes as f64 > self.items as f64 * 0.1 {
                    self.compact(false);
                }
                return true;
            }
        }
        false
    }

    fn compact(&mut self, goes_on: bool) {
        for array in (1..self.arrays.len()).rev() {
            let mut is_emptied = true;
            for place in 0..self.arrays[array].1.len() {
                let fingerprint = self.arrays[array].1[place];
                if fingerprint == 0 {
                    continue;
                }
                let bucket = (place / self.bucket_size) as u64;
                let hash = (fingerprint, bucket, Self::other(fingerprint, bucket));
                match (0..array).find_map(|older| Some((older, self.find(older, hash, 0)?))) {
                    Some((older, free)) => {
                        self.arrays[older].1[free] = fingerprint;
                        self.arrays[array].1[place] = 0;
                    }
                    None => is_emptied = false,
                }
            }
            if is_emptied && array + 1 == self.arrays.len() {
                self.arrays.pop();
            }
            if !is_emptied && !goes_on {
                break;
            }
        }
        self.deletes = 0;
    }
}

/// Sends random commands about the filter `k`, and compares every reply and the bytes at the end. Items are of `universe`.
fn assert_follows(
    server: &mut Server,
    plain: &mut Plain,
    random: &mut Random,
    (commands, universe): (usize, usize),
    context: &str,
) {
    for _ in 0..commands {
        let item = format!("item-{}", random.below(universe));
        match random.below(12) {
            0..6 if plain.arrays.len() < 20 => {
                let is_added = plain.add(item.as_bytes());
                let expected = if is_added { "#t" } else { "-Filter is full" };
                assert_eq!(server.run(&format!("CF.ADD k {item}")), expected, "{context}");
            }
            6..10 => {
                let expected = if plain.delete(item.as_bytes()) { "#t" } else { "#f" };
                assert_eq!(server.run(&format!("CF.DEL k {item}")), expected, "{context}");
            }
            10 => {
                plain.compact(true);
                assert_eq!(server.run("CF.COMPACT k"), "+OK");
            }
            _ => {
                let hash = Plain::hash(item.as_bytes());
                let is_found = (0..plain.arrays.len()).any(|array| plain.find(array, hash, hash.0).is_some());
                let expected = if is_found { "#t" } else { "#f" };
                assert_eq!(server.run(&format!("CF.EXISTS k {item}")), expected, "{context}");
            }
        }
    }
    let filter = &server.cuckoos[&b"k"[..]];
    assert_eq!((filter.items(), filter.deletes()), (plain.items, plain.deletes), "{context}");
    let arrays: Vec<_> =
        filter.arrays().iter().map(|array| (array.buckets(), array.bytes().to_vec())).collect();
    assert!(arrays == plain.arrays, "{context}");
}

/// Random commands on filters of all bucket sizes, compared with the second filter byte for byte. One in twenty has arrays
/// that are much larger than their contents.
#[test]
fn random_commands_give_the_bytes_of_a_second_filter() {
    let (mut random, mut commands, mut most_arrays) = (Random(5), 0, 0);
    while commands < 100_000 {
        let is_sparse = random.below(20) == 0;
        let largest = if random.below(4) == 0 { 255 } else { 5 };
        let bucket_size = 1 + random.below(largest);
        let iterations = [1, 2, 5, 20, 50][random.below(5)];
        let expansion = if is_sparse { 2 } else { [0, 1, 1, 2, 4][random.below(5)] };
        let capacity = if is_sparse { 1 << 16 } else { bucket_size * (2 + random.below(40)) };
        let mut server = server();
        let line = format!(
            "CF.RESERVE k {capacity} BUCKETSIZE {bucket_size} MAXITERATIONS {iterations} EXPANSION {expansion}"
        );
        assert_eq!(server.run(&line), "+OK");
        let buckets = ((capacity / bucket_size) as u64).next_power_of_two();
        let arrays = vec![(buckets, vec![0; buckets as usize * bucket_size])];
        let mut plain = Plain { bucket_size, iterations, expansion, buckets, items: 0, deletes: 0, arrays };
        // Few items fill their buckets, and the filter grows.
        let universe = if is_sparse { 1 + random.below(9) } else { 1 + random.below(200) };
        let count = if is_sparse { random.below(40 * bucket_size) } else { random.below(600) };
        commands += count;
        assert_follows(&mut server, &mut plain, &mut random, (count, universe), &line);
        most_arrays = most_arrays.max(plain.arrays.len());
    }
    assert!(most_arrays > 10, "{most_arrays}");
}

/// Filters whose arrays have other sizes than those that RedisBloom makes follow RedisBloom's formulas too, also where these
/// scramble an array.
#[test]
fn random_commands_on_loaded_arrays_give_the_bytes_of_a_second_filter() {
    let mut random = Random(6);
    for turn in 0..100 {
        let bucket_size = *random.choose(&[1, 2, 3, 9, 255]);
        let (iterations, expansion) = (*random.choose(&[0, 1, 7, 40]), *random.choose(&[0, 1, 2, 3]));
        let mut fields = vec![1 + random.below(if expansion > 1 { 4 } else { 12 }) as u64];
        let (items, buckets) = (random.below(20) as u64, 1 + random.below(9) as u64);
        fields.extend([buckets, items, 0, bucket_size as u64, iterations as u64, expansion]);
        let mut fields: Vec<Field> = fields.into_iter().map(Field::Unsigned).collect();
        let (is_full, same) = (random.below(2) == 0, 1 + random.below(9) as u64);
        let Field::Unsigned(count) = fields[0] else { unreachable!() };
        let mut arrays = Vec::new();
        for _ in 0..count {
            let own = if random.below(3) == 0 { 1 + random.below(40) as u64 } else { same };
            let slot = |random: &mut Random| {
                if is_full || random.below(3) > 0 { 1 + random.below(255) as u8 } else { 0 }
            };
            let slots: Vec<u8> = (0..own as usize * bucket_size).map(|_| slot(&mut random)).collect();
            fields.extend([Field::Unsigned(own), Field::Bytes(slots.clone())]);
            arrays.push((own, slots));
        }
        let filter = load(4, &mut Record(fields).reader(), &u64::MAX).unwrap();
        let (mut server, context) =
            (server(), format!("turn {turn}: {bucket_size}, {iterations}, {expansion}"));
        server.cuckoos.insert(b"k".to_vec(), filter);
        let mut plain = Plain { bucket_size, iterations, expansion, buckets, items, deletes: 0, arrays };
        assert_follows(&mut server, &mut plain, &mut random, (150, 60), &context);
    }
}

/// A refused add changes nothing, also in an array whose buckets are no power of two: it is not replicated.
#[test]
fn a_refused_add_changes_nothing() {
    for (buckets, expansion) in [(7, 0), (7, 1), (8, 0), (8, 1), (24, 1)] {
        let parameters = CuckooParameters { buckets, bucket_size: 2, max_iterations: 9, expansion };
        let slots: Vec<u8> = (0..buckets * 2).map(|slot| 1 + (slot * 37 % 251) as u8).collect();
        let array = BucketArray::of_bytes(buckets, 2, &slots).unwrap();
        let mut filter =
            CuckooFilter::from_parts(parameters, CuckooRelease::Current, buckets * 2, 0, vec![array])
                .unwrap();
        let before = saved(&filter);
        for item in 0..100u32 {
            let error = filter.add(CuckooHash::of(&item.to_le_bytes()), &1).unwrap_err();
            assert_eq!(matches!(error, AddError::Full), expansion == 0);
            assert!(saved(&filter) == before, "{buckets} buckets, item {item}");
        }
    }
}

/// Returns a filter whose arrays have these sizes and contents.
fn forged(bucket_size: u8, arrays: Vec<(u64, Vec<u8>)>) -> CuckooFilter {
    let items = arrays.iter().map(|(_, slots)| slots.len() as u64).sum();
    let parameters = CuckooParameters { buckets: arrays[0].0, bucket_size, max_iterations: 20, expansion: 1 };
    let array = |(buckets, slots): (_, Vec<u8>)| BucketArray::of_bytes(buckets, bucket_size, &slots).unwrap();
    let arrays = arrays.into_iter().map(array).collect();
    CuckooFilter::from_parts(parameters, CuckooRelease::Current, items, 0, arrays).unwrap()
}

/// A compaction costs what its bytes cost, also if tens of thousands of arrays have free slots that no fingerprint can
/// take.
#[test]
fn compactions_of_many_arrays_are_bounded() {
    // Fingerprint 2 has one bucket only in arrays of two buckets, and bucket 1 has a free slot.
    let small = vec![(2, vec![2, 0]); 65_000];
    let full = vec![(4, vec![2; 4]); 65_535];
    let mixed = [vec![(1 << 16, vec![2; 1 << 16])], vec![(2, vec![2, 0]); 65_000], vec![(8, vec![9; 8])]];
    for arrays in [small, full, mixed.concat()] {
        let mut filter = forged(1, arrays);
        let bytes = filter.slots_bytes();
        for goes_on in [true, false] {
            _ = work::take();
            filter.compact(goes_on);
            assert_work(work::take(), bytes, &format!("{} arrays", filter.arrays().len()));
        }
    }
}

/// A header of 38 bytes may describe tens of thousands of arrays.
#[test]
fn a_header_of_many_arrays_costs_what_its_arrays_cost() {
    let words = [1, 1, 0, 65_535u64].map(u64::to_le_bytes).concat();
    let header = [&words[..], &[1, 0, 20, 0, 1, 0]].concat();
    let context = "65535 arrays";
    let filter = bounded(
        0,
        context,
        || from_header(&header, &u64::MAX).unwrap(),
        |filter| filter.arrays().len() as u64,
    );
    assert_eq!(filter.arrays().len(), 65_535);
}

/// A filter of many sizes of arrays grows only as long as it can be loaded again, and its compaction is bounded.
#[test]
fn a_filter_of_many_sizes_can_be_loaded_after_it_has_grown() {
    let sizes = |run: usize| (0..200).map(move |index| 2 << (index / run % 2));
    let (mut loaded, mut refused) = (0, 0);
    for run in [1, 2, 8, 9, 20] {
        for count in 1..200 {
            let arrays: Vec<_> = sizes(run).take(count).map(|n: u64| (n, vec![2; n as usize])).collect();
            let items = count as u64;
            let parameters = CuckooParameters { buckets: 8, bucket_size: 1, max_iterations: 3, expansion: 1 };
            let arrays = arrays.into_iter().map(|(n, slots)| BucketArray::of_bytes(n, 1, &slots).unwrap());
            let release = CuckooRelease::Current;
            let Ok(mut filter) = CuckooFilter::from_parts(parameters, release, items, 0, arrays.collect())
            else {
                refused += 1;
                continue;
            };
            for item in 0..200u32 {
                // Refused at the latest when there are too many sizes.
                let _ = filter.add(CuckooHash::of(&item.to_le_bytes()), &u64::MAX);
            }
            load(4, &mut saved(&filter).reader(), &u64::MAX).unwrap();
            let bytes = 64 * filter.slots_bytes();
            bounded(bytes, "compaction", || filter.compact(true), |_| 0);
            loaded += 1;
        }
    }
    // Those of at most 64 arrays, where a run of more than eight counts as one.
    assert_eq!((loaded, refused), (590, 405));
}

#[test]
fn arrays_of_changing_sizes_are_at_most_64() {
    let sizes = (0..63).map(|index| 2 << (index % 2));
    let mut filter = forged(1, sizes.map(|buckets: u64| (buckets, vec![2; buckets as usize])).collect());
    for item in 0..200u32 {
        let _ = filter.add(CuckooHash::of(&item.to_le_bytes()), &u64::MAX);
    }
    assert_eq!(filter.arrays().len(), 64);
}

#[test]
fn a_header_of_several_arrays_needs_an_expansion() {
    for (count, expansion, is_possible) in
        [(1u64, 0u16, true), (2, 0, false), (2, 1, true), (1, 1 << 15, true), (1, (1 << 15) + 1, false)]
    {
        let words = [1, 2, 0, count].map(u64::to_le_bytes).concat();
        let header = [&words[..], &[2, 0, 20, 0], &expansion.to_le_bytes()].concat();
        let error = (!is_possible).then_some(DecodeError::Invalid("expansion"));
        assert_eq!(from_header(&header, &u64::MAX).err(), error, "{count} arrays, {expansion}");
    }
}

#[test]
fn a_header_has_fewer_than_2_to_the_56_buckets() {
    for (buckets, error) in [(1u64 << 55, None), (1 << 56, Some(DecodeError::Invalid("buckets")))] {
        let words = [1, buckets, 0, 1].map(u64::to_le_bytes).concat();
        let header = [&words[..], &[2, 0, 20, 0, 1, 0]].concat();
        let refused = from_header(&header, &1000).err();
        let is_too_large = matches!(refused, Some(DecodeError::TooLarge { .. }));
        assert!(refused == error || error.is_none() && is_too_large, "{buckets}: {refused:?}");
    }
}

/// As RedisBloom does.
#[test]
fn an_array_of_one_chunk_is_sent_whole_from_any_position() {
    let arrays = [(1..=16).collect(), vec![7; 16]];
    let filter = forged(2, arrays.iter().map(|slots: &Vec<u8>| (8, slots.clone())).collect());
    for position in 0..32u64 {
        let sent = chunk(&filter, 1 + position).unwrap();
        assert_eq!(sent.data[..], arrays[position as usize / 16], "{position}");
        assert_eq!(sent.next_iterator, 1 + position + 16, "{position}");
    }
    assert!(chunk(&filter, 33).is_none());
}

/// Every replicated command makes the same filter on a replica with other settings.
#[test]
fn replicas_have_the_same_bytes() {
    let (mut primary, mut replica, mut random) = (server(), Server::new(), Random(9));
    primary.settings.cuckoo.max_iterations = 5;
    replica.is_replicated = true;
    replica.settings.cuckoo = CuckooSettings {
        bucket_size_slots: 99,
        max_expansions: 1,
        expansion_factor: 0,
        ..CuckooSettings::DEFAULT
    };
    primary.run("CF.RESERVE fixed 40 BUCKETSIZE 4 MAXITERATIONS 7 EXPANSION 0");
    for _ in 0..3_000 {
        let key = ["fixed", "a", "b"][random.below(3)];
        let items: Vec<String> = (0..1 + random.below(6)).map(|_| random.below(120).to_string()).collect();
        let (one, all) = (&items[0], items.join(" "));
        primary.run(&match random.below(7) {
            0 => format!("CF.ADD {key} {one}"),
            1 => format!("CF.ADDNX {key} {one}"),
            2 => format!("CF.INSERT {key} CAPACITY 16 ITEMS {all}"),
            3 => format!("CF.INSERTNX {key} ITEMS {all}"),
            4 if random.below(5) == 0 => format!("CF.COMPACT {key}"),
            _ => format!("CF.DEL {key} {one}"),
        });
        for call in std::mem::take(&mut primary.replicated_calls) {
            let reply = replica.call(&slices(&call));
            assert!(!reply.contains('-'), "{call:?}: {reply}");
        }
        for (key, filter) in &primary.cuckoos {
            assert!(saved(filter) == saved(&replica.cuckoos[key]), "{}", key.escape_ascii());
        }
    }
    assert_eq!((primary.cuckoos.len(), replica.keys.len()), (3, 0));
}

/// The settings decide what a new filter is, and when a filter refuses adds of clients.
#[test]
fn settings_decide_about_new_filters() {
    let mut server = server();
    server.settings.cuckoo = CuckooSettings {
        bucket_size_slots: 10,
        initial_size_items: 4,
        max_iterations: 3,
        expansion_factor: 3,
        max_expansions: 2,
    };
    assert_eq!(server.run("CF.ADD k a"), "#t");
    assert_eq!(
        server.run("CF.DEBUG k"),
        "$bktsize:10 buckets:2 items:1 deletes:0 filters:1 max_iterations:3 expansion:4"
    );
    assert_eq!(
        server.run("CF.INSERT other CAPACITY 19 ITEMS a"),
        "-Capacity must be in the range [cf-bucket-size * 2, 1073741824]"
    );
    assert_eq!(
        server.run("CF.RESERVE other 19"),
        "-Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"
    );
    assert_eq!(server.run("CF.RESERVE other 19 BUCKETSIZE 9 EXPANSION 0 MAXITERATIONS 1"), "+OK");
    assert_eq!(
        server.run("CF.DEBUG other"),
        "$bktsize:9 buckets:2 items:0 deletes:0 filters:1 max_iterations:1 expansion:0"
    );
    while server.cuckoos[&b"k"[..]].arrays().len() < 2 {
        assert_eq!(server.run("CF.ADD k a"), "#t");
    }
    assert_eq!(server.run("CF.ADD k a"), "-Maximum expansions reached");
    server.settings.cuckoo.max_expansions = 3;
    assert_eq!(server.run("CF.ADD k a"), "#t");
}

/// Filters of RedisBloom 2.0.3, of which later releases lose the members: all are found here, also after a save, and
/// RedisBloom refuses the saved bytes.
#[test]
fn filters_with_the_old_hash_keep_their_members() {
    let path = format!("{ROOT}/tests/fixtures/redisbloom-cuckoo-2.0.3.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in file["cases"].as_array().unwrap() {
        let name = case["case"].as_str().unwrap();
        let payload = Payload::read(&BASE64.decode(case["dump_b64"].as_str().unwrap().as_bytes()).unwrap());
        assert!(payload.encoding_version < 4, "{name}");
        let first = load(payload.encoding_version, &mut payload.record.reader(), &u64::MAX).unwrap();
        let record = saved(&first);
        assert_eq!(record.0[0], Field::Unsigned(0), "{name}: a number of filters that RedisBloom refuses");
        for filter in [first, load(4, &mut record.reader(), &u64::MAX).unwrap()] {
            assert_eq!(saved(&filter), record, "{name}");
            let mut server = Server::new();
            server.cuckoos.insert(b"k".to_vec(), filter);
            let found =
                |server: &mut Server, format: &str, count: usize| -> String {
                    let item = |number: usize| format.replace("%d", &number.to_string());
                    (0..count)
                        .map(|number| {
                            if server.run(&format!("CF.EXISTS k {}", item(number))) == "#t" {
                                '1'
                            } else {
                                '0'
                            }
                        })
                        .collect()
                };
            let members = case["members_old"].as_str().unwrap();
            assert_eq!(found(&mut server, "alpha:member:%d", members.len()), members, "{name}");
            let probes = case["probes_old"].as_str().unwrap();
            assert_eq!(found(&mut server, "alpha:probe:%d", probes.len()), probes, "{name}");
            for line in ["CF.ADD k new", "CF.INSERT k ITEMS new", "CF.SCANDUMP k 0"] {
                assert!(
                    server.run(line).starts_with("-ERR the cuckoo filter is from RedisBloom before 2.2"),
                    "{line}"
                );
            }
            let last = members.len() - 1;
            assert_eq!(server.run(&format!("CF.DEL k alpha:member:{last}")), "#t", "{name}");
            assert_eq!(server.run("CF.COMPACT k"), "+OK");
        }
    }
}

/// With the old hash, slots count once if both buckets of an item are the same.
#[test]
fn filters_with_the_old_hash_count_a_bucket_once() {
    for (buckets, expected) in [(1, 2), (2, 4)] {
        let mut found = Vec::new();
        for item in 0..64u64 {
            for fingerprint in 1..=u8::MAX {
                let number = Field::Unsigned;
                let slots = Field::Bytes(vec![fingerprint; 2 * buckets]);
                let fields = vec![number(1), number(buckets as u64), number(2 * buckets as u64), slots];
                let filter = load(3, &mut Record(fields).reader(), &u64::MAX).unwrap();
                assert_eq!(filter.parameters().buckets, buckets as u64);
                found.extend(Some(filter.count(&item.to_le_bytes(), NoPrefetch)).filter(|count| *count > 0));
            }
        }
        // Each item has one fingerprint. Of two buckets, half of the items have both.
        assert_eq!(found.len(), 64, "{buckets} buckets");
        assert_eq!(found.iter().max(), Some(&expected), "{buckets} buckets");
        assert_eq!(found.iter().min(), Some(&2), "{buckets} buckets");
    }
}

/// A rewritten append-only file has chunks only for arrays of the sizes that follow from the parameters, because a header
/// has no sizes.
#[test]
fn a_filter_with_arrays_of_other_sizes_has_no_chunks() {
    for (buckets, sizes, is_possible) in [
        (4, vec![4], true),
        (4, vec![4, 8], true),
        (4, vec![4, 4], false),
        (2, vec![4], false),
        (3, vec![3], false),
        (3, vec![4], false),
    ] {
        let number = Field::Unsigned;
        let count = sizes.len() as u64;
        let mut fields = [count, buckets, 0, 0, 2, 20, 2].map(number).to_vec();
        for size in &sizes {
            fields.extend([number(*size as u64), Field::Bytes(vec![0; 2 * size])]);
        }
        let filter = load(4, &mut Record(fields).reader(), &u64::MAX).unwrap();
        assert_eq!(filter.has_header(), is_possible, "{buckets} buckets, {sizes:?}");
        let (mut again, mut payloads) = (None, 0);
        rewrite(&filter, &mut |command| match (command, &mut again) {
            (Rewritten::CuckooChunk { data, .. }, None) => {
                again = Some(from_header(data, &u64::MAX).unwrap())
            }
            (Rewritten::CuckooChunk { iterator, data }, Some(again)) => {
                load_chunk(again, iterator, data).unwrap();
            }
            (Rewritten::Payload(_), _) => payloads += 1,
            (Rewritten::Chunk { .. } | Rewritten::Blob(_), _) => panic!("not of a cuckoo filter"),
        })
        .unwrap();
        assert_eq!(payloads, usize::from(!is_possible), "{buckets} buckets, {sizes:?}");
        assert_eq!(again.map(|again| saved(&again)), is_possible.then(|| saved(&filter)));
    }
}

/// Such a number of arrays is refused before the arrays are read.
#[test]
fn impossible_numbers_of_arrays_and_buckets_are_refused() {
    let fields = |count| [count, 2, 0, 0, 2, 20, 1].map(Field::Unsigned).to_vec();
    for count in [65_536, u64::MAX] {
        let refused = load(4, &mut Record(fields(count)).reader(), &u64::MAX).err();
        assert_eq!(refused, Some(DecodeError::Invalid("filters")), "{count}");
    }
    let parameters = CuckooParameters { buckets: 2, bucket_size: 2, max_iterations: 20, expansion: 1 };
    for count in [0, 65_536] {
        let arrays = (0..count).map(|_| BucketArray::of_bytes(2, 2, &[0; 4]).unwrap()).collect();
        let refused = CuckooFilter::from_parts(parameters, CuckooRelease::Current, 0, 0, arrays);
        assert_eq!(refused.err(), Some("filters"), "{count}");
    }
    for (none, name) in [
        (CuckooParameters { buckets: 0, ..parameters }, "buckets"),
        (CuckooParameters { buckets: 1 << 56, ..parameters }, "buckets"),
        (CuckooParameters { bucket_size: 0, ..parameters }, "bucket size"),
        (CuckooParameters { expansion: 32_769, ..parameters }, "expansion"),
    ] {
        let arrays = vec![BucketArray::of_bytes(2, 2, &[0; 4]).unwrap()];
        let refused = CuckooFilter::from_parts(none, CuckooRelease::Current, 0, 0, arrays);
        assert_eq!(refused.err(), Some(name));
        let refused = CuckooFilter::reserve(none, &u64::MAX).err();
        assert_eq!(refused, Some(ReserveError::TooLong), "{none:?}");
    }
    let arrays = (0..65_535).flat_map(|_| [Field::Unsigned(2), Field::Bytes(vec![0; 4])]);
    let most = fields(65_535).into_iter().chain(arrays).collect();
    load(4, &mut Record(most).reader(), &u64::MAX).unwrap();
}

/// Every field with values at the edges of its range: an error, or a filter that answers.
#[test]
fn hostile_fields_are_refused_or_answer() {
    let number = Field::Unsigned;
    let good = vec![
        number(1),
        number(2),
        number(1),
        number(0),
        number(2),
        number(20),
        number(1),
        number(2),
        Field::Bytes(vec![7, 0, 0, 9]),
    ];
    let (mut refused, mut accepted) = (0, 0);
    for place in 0..good.len() {
        for value in [0, 1, 2, 3, 255, 256, 65_535, 65_536, 1 << 32, 1 << 56, u64::MAX] {
            for bytes in [None, Some(0), Some(3), Some(5)] {
                let mut fields = good.clone();
                if let Some(length) = bytes {
                    fields[8] = Field::Bytes(vec![1; length]);
                }
                if place < 8 {
                    fields[place] = number(value);
                }
                let Ok(mut filter) = load(4, &mut Record(fields).reader(), &u64::MAX) else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                for item in 0..30u64 {
                    let item = item.to_le_bytes();
                    let hash = everbloom_filter::cuckoo::array::CuckooHash::of(&item);
                    let _ = filter.add(hash, &(1 << 16));
                    filter.delete(&item);
                    let _ = filter.count(&item, NoPrefetch);
                }
                filter.compact(true);
                saved(&filter);
            }
        }
    }
    assert!(refused > 100 && accepted > 50, "{refused}, {accepted}");
    // The numbers of the filter are checked, not only those of its arrays.
    for (place, slots) in [(1, 4), (4, 0)] {
        let mut fields = good.clone();
        (fields[place], fields[8]) = (number(0), Field::Bytes(vec![7; slots]));
        assert!(load(4, &mut Record(fields).reader(), &u64::MAX).is_err(), "field {place} is 0");
    }
    // Headers: an expansion that asks for terabytes, and sizes that no memory has.
    let header = |fields: [u64; 4], slots: [u16; 3]| {
        let numbers = fields.iter().flat_map(|field| field.to_le_bytes());
        numbers.chain(slots.iter().flat_map(|field| field.to_le_bytes())).collect::<Vec<u8>>()
    };
    let limit = 64u64 << 20;
    for (fields, slots) in [
        ([0, 2, 0, 4], [1, 20, 32_768]),
        ([0, 1 << 55, 0, 1], [255, 20, 1]),
        ([0, 1 << 40, 0, 1], [2, 20, 1]),
        ([0, 1 << 20, 0, 65_535], [2, 20, 1]),
        ([0, 3, 0, 1], [2, 20, 1]),
        ([0, 4, 0, 0], [2, 20, 1]),
        ([0, 4, 0, 1], [0, 20, 1]),
        ([0, 4, 0, 1], [256, 20, 1]),
        ([0, 4, 0, 1], [2, 0, 1]),
        ([0, 4, 0, 2], [2, 20, 0]),
    ] {
        assert!(from_header(&header(fields, slots), &limit).is_err(), "{fields:?}, {slots:?}");
    }
    assert!(from_header(&header([0, 4, 0, 1], [2, 20, 0]), &limit).is_ok(), "one array needs no expansion");
    assert!(from_header(&header([0, 4, 0, 1], [2, 20, 32_768]), &limit).is_ok(), "the largest expansion");
    let mut filter = from_header(&header([5, 4, 0, 2], [2, 20, 2]), &limit).unwrap();
    for (iterator, length) in [(0, 1), (1, 1), (9, 0), (u64::MAX, 4), (200, 30)] {
        assert!(load_chunk(&mut filter, iterator, &vec![1; length]).is_err(), "{iterator}, {length}");
    }
    assert!(load_chunk(&mut filter, 9, &[1; 8]).is_ok() && chunk(&filter, 99).is_none());
    // The arrays have 8 and 16 bytes. A position after the end is counted from there, in the last array.
    for (position, place) in [(8, 0), (12, 4), (20, 12), (24, 0), (28, 4)] {
        let mut filter = from_header(&header([5, 4, 0, 2], [2, 20, 2]), &limit).unwrap();
        load_chunk(&mut filter, position + 4 + 1, &[1; 4]).unwrap();
        let mut expected = [0; 16];
        expected[place..place + 4].fill(1);
        assert_eq!(filter.arrays()[1].bytes(), expected, "position {position}");
    }
    let mut filter = from_header(&header([0, 4, 0, 1], [2, 20, 1]), &limit).unwrap();
    assert!(!filter.compact(true), "nothing was deleted, and nothing can be moved");
}
