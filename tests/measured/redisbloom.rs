//! An oracle of filters in RedisBloom's format that implements the formulas directly: `%`, doubles, one byte per bit, hashes of another crate.

use everbloom_filter::bits::layout::LayerParameters;
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::{AddError, Added, Filter, Validation};

use crate::support::Random;
use crate::support::make::{add, contains, parameters, redisbloom};

const NO_ROUND: u64 = 1;
const WIDE_HASH: u64 = 4;
const FIXED: u64 = 8;

struct Link {
    entries: u64,
    error: f64,
    bpe: f64,
    hashes: u32,
    n2: u32,
    modulus: u64,
    bits: Vec<bool>,
    size: u64,
}

struct Oracle {
    links: Vec<Link>,
    options: u64,
    growth: u64,
}

impl Oracle {
    fn new(error: f64, entries: u64, options: u64, growth: u64) -> Self {
        let mut oracle = Self { links: Vec::new(), options, growth };
        oracle.push(entries, if options & FIXED != 0 { error } else { error * 0.5 });
        oracle
    }

    fn push(&mut self, mut entries: u64, error: f64) {
        #[expect(clippy::approx_constant, reason = "the constants are RedisBloom's")]
        let (ln2_squared, ln2) = (0.480453013918201, 0.693147180559945);
        let bpe = f64::abs(-(f64::ln(error) / ln2_squared));
        let hashes = f64::ceil(ln2 * bpe) as u32;
        let asked = entries as f64 * bpe;
        let mut n2 = 0;
        let mut bits = (asked as u64).max(1);
        if self.options & NO_ROUND == 0 {
            while ((1u64 << n2) as f64) <= asked {
                n2 += 1;
            }
            bits = 1 << n2;
            entries += ((bits as f64 - asked) as u64 as f64 / bpe) as u64;
        }
        let length = bits.div_ceil(64) * 64;
        let modulus = if n2 > 0 { bits } else { length };
        let bits = vec![false; length as usize];
        self.links.push(Link { entries, error, bpe, hashes, n2, modulus, bits, size: 0 });
    }

    fn positions<'a>(&self, link: &'a Link, item: &[u8]) -> impl Iterator<Item = usize> + use<'a> {
        let (a, b) = if self.options & WIDE_HASH != 0 {
            let a = murmur2::murmur64a(item, 0xc6a4_a793_5bd1_e995);
            (a, murmur2::murmur64a(item, a))
        } else {
            let a = murmur2::murmur2(item, 0x9747_b28c);
            (a.into(), murmur2::murmur2(item, a).into())
        };
        (0..u64::from(link.hashes)).map(move |i| (a.wrapping_add(i.wrapping_mul(b)) % link.modulus) as usize)
    }

    fn contains(&self, item: &[u8]) -> bool {
        self.links.iter().any(|link| self.positions(link, item).all(|position| link.bits[position]))
    }

    /// Returns the reply of BF.ADD; `None` if the filter is full.
    fn add(&mut self, item: &[u8]) -> Option<bool> {
        if self.contains(item) {
            return Some(false);
        }
        let last = self.links.last().unwrap();
        if last.size >= last.entries {
            if self.options & FIXED != 0 {
                return None;
            }
            self.push(last.entries * self.growth, last.error * 0.5);
        }
        let positions: Vec<usize> = self.positions(self.links.last().unwrap(), item).collect();
        let last = self.links.last_mut().unwrap();
        positions.into_iter().for_each(|position| last.bits[position] = true);
        last.size += 1;
        Some(true)
    }

    fn assert_equals(&self, chain: &Filter, context: &str) {
        assert_eq!(chain.layer_count(), self.links.len(), "{context}");
        for (layer, link) in chain.layers().iter().zip(&self.links) {
            let expected = LayerParameters {
                capacity_items: link.entries,
                error_rate: link.error,
                probes: link.hashes.into(),
                bits_per_item: link.bpe,
                size_bits: link.bits.len() as u64,
                exponent: link.n2.into(),
            };
            assert_eq!(parameters(layer), expected, "{context}");
            assert_eq!(layer.counts().items, link.size, "{context}");
            let bytes: Vec<u8> = link
                .bits
                .chunks(8)
                .map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
                .collect();
            assert!(layer.bits().bytes() == bytes, "{context}: other bits");
            let set_bits = link.bits.iter().filter(|bit| **bit).count() as u64;
            assert_eq!(layer.counts().set_bits, set_bits, "{context}");
        }
    }
}

#[test]
fn filters_equal_the_oracle_bit_for_bit() {
    let mut random = Random(3);
    let (mut layers_seen, mut most_bits) = (0, 0);
    for round in 0..400 {
        let error_rate = random.magnitude(1e-6, 0.9);
        let capacity_items = random.magnitude(1.0, 1e6).round() as u64;
        let growth = 1 + random.next() % 8;
        // Options of commands twice as often as those of older releases.
        let options = *random.choose(&[5, 5, 5, 5, 5, 5, 13, 13, 0, 4, 12, 1]);
        let context =
            format!("round {round}: {error_rate} {capacity_items} growth {growth} options {options}");
        let mut oracle = Oracle::new(error_rate, capacity_items, options, growth);
        let rules = RedisBloomOptions::from_bits(options).unwrap();
        let mut chain = redisbloom(error_rate, capacity_items, rules, u32::try_from(growth).unwrap());
        for _ in 0..1500 {
            // Items of 3 to 14 bytes, around the ends of words. Many items occur several times.
            let mut item = (random.next() % 1_350).to_string().into_bytes();
            item.resize(item.len() + item[0] as usize % 23, b'.');
            assert_eq!(contains(&chain, &item), oracle.contains(&item), "{context}");
            let added = match add(&mut chain, &item) {
                Ok(Added::New) => Some(true),
                Ok(Added::Present) => Some(false),
                Err(AddError::Full) => None,
                other => panic!("{context}: {other:?}"),
            };
            assert_eq!(added, oracle.add(&item), "{context}");
            assert_eq!(chain.internal_validate(Validation::Parts), Ok(()), "{context}");
        }
        assert_eq!(chain.internal_validate(Validation::Contents), Ok(()), "{context}");
        oracle.assert_equals(&chain, &context);
        layers_seen = layers_seen.max(oracle.links.len());
        most_bits = most_bits.max(oracle.links[0].bits.len());
    }
    assert!(layers_seen > 8 && most_bits > 10_000_000, "{layers_seen} {most_bits}");
}
