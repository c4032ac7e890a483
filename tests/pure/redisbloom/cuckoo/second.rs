//! A second filter, with which replies and bytes are compared after random commands.

use everbloom_filter::AddError;
use everbloom_filter::cuckoo::array::{BucketArray, CuckooHash, CuckooRelease};
use everbloom_filter::cuckoo::filter::{CuckooFilter, CuckooParameters};
use everbloom_format::redisbloom::cuckoo::load;

use super::{saved, server};
use crate::support::rdb::{Field, Record};
use crate::support::server::Server;
use crate::support::{Random, effort};

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
    while commands < effort(50_000, 100_000) {
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
    for turn in 0..effort(40, 100) {
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
